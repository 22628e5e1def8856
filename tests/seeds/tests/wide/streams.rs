//! Every collective on a stream.

use crate::calls::{lists, number, received, sum, term};
use anyhow::{Context, ensure};
use shmem::collective::{Part, Sum, room};
use shmem_host::Pe;

/// On both sides of the most bytes that packets take; by two passes; by several blocks.
pub(crate) fn every_call(pe: &Pe) -> anyhow::Result<()> {
    let most = room(pe.n()) as usize / size_of::<u32>();
    let check = |len: usize| {
        moves(pe, len)?;
        sums(pe, len)
    };
    for len in [most, most + 1] {
        check(len).with_context(|| format!("{len} elements"))?;
    }
    // Of a one-shot a member would take in more than 64 KiB. More than 1 KiB is work for two blocks here.
    let len = (64 << 10) / size_of::<f32>() / (pe.n() as usize - 1) + 1;
    let len = len.max(BLOCK + 1);
    sums(pe, len).with_context(|| format!("{len} elements"))?;
    moves(pe, MOVED).context("moves by several blocks")
}

/// Elements that are worth a block on the simulator.
const BLOCK: usize = 1024 / size_of::<f32>();
/// So many to each member are worth three blocks, whose shares are 128 bytes.
const MOVED: usize = 2 * 128 / size_of::<u32>() + 1;

/// Among so many PEs that fewer blocks of each have words to meet in than are wanted: 2 up to 256.
pub(crate) fn few_blocks(pe: &Pe) -> anyhow::Result<()> {
    moves(pe, MOVED)
}

fn same<T: PartialEq + std::fmt::Debug>(call: &str, got: &[T], expected: impl Fn(usize) -> T) -> anyhow::Result<()> {
    for (i, got) in got.iter().enumerate() {
        let expected = expected(i);
        ensure!(*got == expected, "{call}, element {i}: {got:?}, expected {expected:?}");
    }
    Ok(())
}

fn moves(pe: &Pe, len: usize) -> anyhow::Result<()> {
    let (world, stream, me, n) = (pe.world(), pe.stream(), pe.id() as usize, pe.n() as usize);
    let (src, to_all) = (pe.alloc::<u32>(n * len)?, pe.alloc::<u32>(len)?);
    let [all, turned, parts] = [pe.alloc::<u32>(n * len)?, pe.alloc(n * len)?, pe.alloc(n * len)?];
    let (sends, receives) = (pe.alloc::<Part>(n)?, pe.alloc::<Part>(n)?);
    let lists = lists(me, n, len);
    src.write(&(0..n * len).map(|i| number(me, i)).collect::<Vec<_>>())?;
    parts.write(&vec![0; n * len])?;
    sends.write(&lists[..n])?;
    receives.write(&lists[n..])?;
    let own = src.part(..len)?;
    stream.broadcast(&world, &to_all, own, pe.n() - 1)?;
    stream.fcollect(&world, &all, own)?;
    stream.alltoall(&world, &turned, &src)?;
    stream.alltoallv(&world, &parts, &src, &sends, &receives)?;
    same("broadcast", &to_all.to_vec()?, |i| number(n - 1, i))?;
    same("fcollect", &all.to_vec()?, |i| number(i / len, i % len))?;
    same("alltoall", &turned.to_vec()?, |i| number(i / len, me * len + i % len))?;
    same("alltoallv", &parts.to_vec()?, |i| received(me, len, i).unwrap_or(0))
}

fn sums(pe: &Pe, len: usize) -> anyhow::Result<()> {
    let (world, stream, me, n) = (pe.world(), pe.stream(), pe.id() as usize, pe.n() as usize);
    let src = pe.alloc::<f32>(n * len)?;
    let [all, place, one, part] = [pe.alloc::<f32>(len)?, pe.alloc(len)?, pe.alloc(len)?, pe.alloc(len)?];
    let terms: Vec<f32> = (0..n * len).map(|i| term(me, i)).collect();
    src.write(&terms)?;
    place.write(&terms[..len])?;
    one.write(&vec![0.0; len])?;
    let (own, root) = (src.part(..len)?, pe.n() / 2);
    stream.reduce(&world, Sum, &all, own)?;
    stream.reduce(&world, Sum, &place, &place)?;
    stream.reduce_to(&world, Sum, &one, own, root)?;
    stream.reduce_scatter(&world, Sum, &part, &src)?;
    same("reduce", &all.to_vec()?, |i| sum(n, i))?;
    same("reduce in place", &place.to_vec()?, |i| sum(n, i))?;
    same("reduce_to", &one.to_vec()?, |i| {
        if pe.id() == root { sum(n, i) } else { 0.0 }
    })?;
    same("reduce_scatter", &part.to_vec()?, |i| sum(n, me * len + i))
}
