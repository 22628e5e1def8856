//! `shmem-perf put_bw`: rows `bench,variant,bytes,value,unit`, as ../shared/peer prints them.
//!
//! A value is the median of five repetitions, each one kernel that runs for some 8 ms between two events of its stream,
//! after a warm-up. The data is checked after each row.

use anyhow::{Context, ensure};
use clap::{Parser, Subcommand};
use shmem_host::{Pe, World, launch};
use shmem_perf::put_bw;
use std::time::Duration;

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// Bandwidth of put from PE 0 to PE 1, by blocks.
    #[command(name = "put_bw")]
    PutBw {
        /// The smallest transfer, in bytes (K, M).
        #[arg(short = 'b', default_value = "64K", value_parser = bytes)]
        begin: usize,
        /// The largest.
        #[arg(short = 'e', default_value = "256M", value_parser = bytes)]
        end: usize,
        /// From one size to the next.
        #[arg(short = 'f', default_value_t = 4)]
        factor: usize,
        /// Shapes, as blocks x threads.
        #[arg(short = 's', default_value = "8x1024,32x1024,132x1024,32x256", value_delimiter = ',', value_parser = shape)]
        shapes: Vec<(u32, u32)>,
    },
}

fn bytes(text: &str) -> Result<usize, String> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let unit = match unit {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        _ => return Err(format!("`{text}`: a size is a number, with K or M after it")),
    };
    let n: usize = digits
        .parse()
        .map_err(|_| format!("`{text}`: a size is a number, with K or M after it"))?;
    if n == 0 || !(n * unit).is_multiple_of(4) {
        return Err(format!("`{text}`: a size is a multiple of 4 bytes, and not 0"));
    }
    Ok(n * unit)
}

fn shape(text: &str) -> Result<(u32, u32), String> {
    let parsed = text
        .split_once('x')
        .and_then(|(b, t)| Some((b.parse().ok()?, t.parse().ok()?)));
    parsed.ok_or_else(|| format!("`{text}`: a shape is blocks x threads, as in 8x1024"))
}

fn main() -> anyhow::Result<()> {
    let Bench::PutBw {
        begin,
        end,
        factor,
        shapes,
    } = Cli::parse().bench;
    ensure!(
        factor > 1,
        "-f {factor}: from one size to the next is a factor of 2 or more"
    );
    let world = World::from_env()?;
    ensure!(
        world.n() >= 2,
        "put_bw goes from PE 0 to PE 1: this world has {}",
        world.n()
    );
    let simulated = world.backend_name() == "sim";
    if simulated {
        println!("# simulator: these rows check the data; their times are no performance figures");
    }
    world.run(|pe| -> anyhow::Result<()> {
        if pe.id() == 0 {
            println!("bench,variant,bytes,value,unit");
        }
        for &(blocks, threads) in &shapes {
            let mut size = begin;
            while size <= end {
                for nbi in [0, 1] {
                    row(&pe, (blocks, threads), size, nbi, simulated)?;
                }
                size = size.saturating_mul(factor);
            }
        }
        Ok(())
    })
}

fn row(pe: &Pe, (blocks, threads): (u32, u32), size: usize, nbi: u32, simulated: bool) -> anyhow::Result<()> {
    let len = size / 4;
    // 512 KiB of destination for each block, at least.
    let windows = (blocks as usize * (512 << 10) / size).max(1);
    let src = pe.alloc::<u32>(len)?;
    let dst = pe.alloc::<u32>(len * windows)?;
    src.write(&(0..len).map(|i| element(pe.id(), i)).collect::<Vec<_>>())?;
    dst.write(&vec![0; len * windows])?;
    let run = |iters: u32| -> anyhow::Result<Duration> {
        pe.barrier_all()?;
        pe.stream().timed(|| {
            if pe.id() == 0 {
                launch!(pe, put_bw<<<blocks, threads>>>(&dst, &src, windows as u32, 1, iters, nbi))?;
            }
            Ok(())
        })
    };
    // Every window is written at least once, so that the check below sees all of them.
    let first = windows as u32;
    let once = run(first)?.as_secs_f64() / f64::from(first);
    let iters = if simulated {
        first
    } else {
        first.max((0.008 / once) as u32 + 1)
    };
    run(iters)?;
    let mut seconds = (0..5)
        .map(|_| Ok(run(iters)?.as_secs_f64() / f64::from(iters)))
        .collect::<anyhow::Result<Vec<f64>>>()?;
    seconds.sort_by(f64::total_cmp);
    pe.barrier_all()?;
    if pe.id() == 1 {
        let got = dst.to_vec()?;
        let wrong = got.iter().enumerate().find(|&(i, &v)| v != element(0, i % len));
        if let Some((i, v)) = wrong {
            return Err(anyhow::anyhow!(
                "element {i} is {v:#x}, expected {:#x}",
                element(0, i % len)
            ))
            .context(format!("put_bw {blocks}x{threads}, {size} bytes"));
        }
    }
    pe.barrier_all()?;
    if pe.id() == 0 {
        let kind = if nbi == 0 { "block" } else { "nbi_block" };
        println!(
            "put_bw,{kind}_g{blocks}_t{threads},{size},{:.1},GB/s",
            size as f64 / seconds[2] * 1e-9
        );
    }
    Ok(())
}

fn element(pe: u32, i: usize) -> u32 {
    (i as u32 ^ (pe << 30)).wrapping_mul(0x9e37_79b9) | 1
}
