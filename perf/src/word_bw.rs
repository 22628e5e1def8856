//! p_bw, g_bw, st_bw: bandwidth of calls that move one word each, by every thread of a grid.

use crate::bench::{Bench, Shape, Sweep};
use crate::options::{Datatype, OptionError, name};
use crate::rma_bw::{shapes, windows};
use shmem::{Kernel, Pod, SymSlice};
use shmem_host::{Error, launch};
use shmem_perf::{word, word_bw};

const SHAPES: [Shape; 2] = [(32, 256), (132, 1024)];
const SIMULATED: [Shape; 1] = [(2, 32)];
const SIZES: Sweep = Sweep {
    begin: 4 << 10,
    end: 64 << 20,
    factor: 16,
    simulated: 512,
};

pub(crate) fn p(b: &Bench) -> anyhow::Result<()> {
    sweep::<{ word::P }>(b, "p_bw")
}

pub(crate) fn g(b: &Bench) -> anyhow::Result<()> {
    sweep::<{ word::G }>(b, "g_bw")
}

pub(crate) fn st(b: &Bench) -> anyhow::Result<()> {
    sweep::<{ word::ST }>(b, "st_bw")
}

type Args<T> = (SymSlice<T>, SymSlice<T>, u32, u32, u32);

fn sweep<const CALL: u32>(b: &Bench, bench: &str) -> anyhow::Result<()>
where
    word_bw<u32, CALL>: Kernel<Args = Args<u32>>,
    word_bw<u64, CALL>: Kernel<Args = Args<u64>>,
{
    // Words of other types are moved alike; perftests' default is the double.
    let widths = match b.options.datatype {
        None => vec![4, 8],
        Some(Datatype::Double | Datatype::Int64) => vec![8],
        Some(Datatype::Float | Datatype::Int32) => vec![4],
        Some(other @ (Datatype::Fp16 | Datatype::Bf16)) => {
            return Err(OptionError::Width {
                bench: b.name.to_owned(),
                datatype: name(&other),
            }
            .into());
        }
    };
    for shape in shapes(b, &SHAPES, &SHAPES[..1], &SIMULATED)? {
        for &width in &widths {
            for bytes in b.sizes(SIZES, width)? {
                if width == 4 {
                    row::<u32, CALL>(b, bench, shape, bytes)?;
                } else {
                    row::<u64, CALL>(b, bench, shape, bytes)?;
                }
            }
        }
    }
    Ok(())
}

fn row<T: Pod, const CALL: u32>(b: &Bench, bench: &str, shape: Shape, bytes: usize) -> anyhow::Result<()>
where
    word_bw<T, CALL>: Kernel<Args = Args<T>>,
{
    let ((blocks, threads), windows, gets) = (shape, windows(b, shape.0, bytes), CALL == word::G);
    // The words of 4 bytes that all data are made of.
    let (len, words) = (bytes / size_of::<T>(), bytes / 4);
    let there = b.pe.alloc_aligned::<u32>(words * windows, 256)?;
    let here = b.pe.alloc_aligned::<u32>(words, 256)?;
    b.fill(if gets { there.handle() } else { here.handle() }, words)?;
    let both = b.options.bidir;
    let moves = b.pe.id() == 0 || (both && b.pe.id() == 1);
    let seconds = b.seconds(windows as u32..=u32::MAX, |iters| -> Result<(), Error> {
        if moves {
            let (there, here) = (
                there.handle().cast::<T>(),
                here.handle().cast::<T>().slice(0..len as u64),
            );
            launch!(b.pe, word_bw::<T, CALL><<<blocks, threads>>>(there, here, windows as u32, b.peer(), iters))?;
        }
        Ok(())
    })?;
    let filled = windows.min(b.options.iters.unwrap_or(u32::MAX) as usize) * words;
    let has = if both {
        b.in_pair()
    } else {
        b.pe.id() == u32::from(!gets)
    };
    let result = if gets { here.handle() } else { there.part(..filled)? };
    b.check_copy(has, result, b.peer(), words)?;
    let way = if both { "bidi_" } else { "" };
    let variant = format!("{way}{}_g{blocks}_t{threads}", 8 * size_of::<T>());
    let moved = bytes * if both { 2 } else { 1 };
    b.row(bench, &variant, bytes, moved as f64 / seconds * 1e-9, "GB/s");
    Ok(())
}
