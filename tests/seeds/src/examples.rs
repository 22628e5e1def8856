//! The kernels of `examples/`, with less data than their programs have.

use crate::Check;
use anyhow::ensure;
use block_put::{put_by_blocks, put_staged};
use fused_norm::{Algorithm, FusedNorm};
use gather_matmul::problem::{Blocks, Problem, Shape};
use ring::ring;
use shmem_host::{Pe, collective_launch};
use simple_shift::simple_shift;

pub(crate) const PROGRAMS: [(&str, &[u32], Check); 7] = [
    ("examples/simple-shift", &[2, 3, 4, 1], shift),
    ("examples/ring", &[2, 3, 4, 1], rounds),
    ("examples/block-put", &[2, 3, 1], puts),
    ("examples/moe", &[2, 3, 1], tokens),
    ("examples/halo-jacobi", &[2, 3, 1], rows),
    ("examples/fused-norm", &[2, 3, 4, 1], norms),
    ("examples/gather-matmul", &[2], products),
];

fn tokens(pe: &Pe) -> anyhow::Result<()> {
    let (tokens, top, experts, hidden) = (2, 2, 4, 8);
    let shape = moe::Shape {
        tokens,
        top,
        experts,
        hidden,
    };
    for packets in [true, false] {
        let config = moe::Config {
            shape,
            fp8: false,
            packets: Some(packets),
            blocks: Some(2),
            threads: 64,
        };
        moe::check(pe, config, moe::Routing::Some, 1)?;
    }
    Ok(())
}

fn rows(pe: &Pe) -> anyhow::Result<()> {
    let (field, blocks, threads) = (halo_jacobi::Field { nx: 12, ny: 7 }, Some(2), 32);
    halo_jacobi::check(pe, field, halo_jacobi::Config { blocks, threads }, 1, &[(1, 0), (3, 2)])
}

fn left(pe: &Pe) -> u32 {
    (pe.id() + pe.n() - 1) % pe.n()
}

fn shift(pe: &Pe) -> anyhow::Result<()> {
    let dst = pe.alloc::<i32>(1)?;
    collective_launch!(pe, simple_shift<<<1, 1>>>(&dst))?;
    pe.stream().barrier_all()?;
    let got = dst.read(0)?;
    ensure!(got == left(pe) as i32, "received {got}");
    Ok(())
}

/// Two launches after one another; PE 0 has what came round last, the others what passed them.
fn rounds(pe: &Pe) -> anyhow::Result<()> {
    const ROUNDS: u64 = 2;
    const LEN: usize = 2 * 67;
    let (data, ready) = (pe.alloc::<u32>(LEN)?, pe.signals(2)?);
    for launch in 0..2u64 {
        let start: Vec<u32> = (0..LEN as u32).map(|i| i * 7 + launch as u32).collect();
        data.write(&start)?;
        pe.barrier_all()?;
        collective_launch!(pe, ring<<<2, 64>>>(&data, &ready, ROUNDS, launch * ROUNDS))?;
        pe.barrier_all()?;
        let grown = match pe.id() {
            0 => ROUNDS * u64::from(pe.n()),
            id => (ROUNDS - 1) * u64::from(pe.n()) + u64::from(id) + 1,
        };
        for (i, (&start, got)) in start.iter().zip(data.to_vec()?).enumerate() {
            let expected = start + grown as u32;
            ensure!(
                got == expected,
                "launch {launch}: element {i} is {got}, expected {expected}"
            );
        }
    }
    Ok(())
}

fn puts(pe: &Pe) -> anyhow::Result<()> {
    const LEN: usize = 2 * block_put::STAGE + 11;
    let (src, dst) = (pe.alloc::<u32>(LEN)?, pe.alloc::<u32>(LEN)?);
    for key in [0, 5] {
        src.write(&(0..LEN as u32).map(|i| i * 8 + pe.id()).collect::<Vec<_>>())?;
        dst.write(&[!0; LEN])?;
        pe.barrier_all()?;
        if key == 0 {
            collective_launch!(pe, put_by_blocks<<<2, 64>>>(&dst, &src))?;
        } else {
            collective_launch!(pe, put_staged<<<2, 64>>>(&dst, &src, key))?;
        }
        pe.stream().barrier_all()?;
        for (i, got) in dst.to_vec()?.into_iter().enumerate() {
            let expected = (i as u32 * 8 + left(pe)) ^ key;
            ensure!(got == expected, "key {key}: element {i} is {got}, expected {expected}");
        }
        pe.barrier_all()?;
    }
    Ok(())
}

fn norms(pe: &Pe) -> anyhow::Result<()> {
    for by in [Algorithm::Packets, Algorithm::OneShot, Algorithm::TwoShot] {
        fused_norm::reference::check(pe, 72, &[2, 1], Some(by), 1)?;
    }
    // One block, so that slots are written again.
    let world = pe.world();
    let mut norm = FusedNorm::new(pe, &world, 72, 3)?;
    norm.limit_blocks(1)?;
    fused_norm::reference::check_with(pe, &norm, 72, &[3, 2], Some(Algorithm::Puts), 1)
}

pub(crate) fn gups(pe: &Pe) -> anyhow::Result<()> {
    gups::check::check(pe, (2, 32), 32)
}

/// One tile for each PE's rows, twice without a barrier between.
fn products(pe: &Pe) -> anyhow::Result<()> {
    let shape = Shape {
        rows: 128,
        n: 256,
        k: 64,
    };
    let (problem, blocks) = (Problem::new(pe, shape)?, Blocks { grid: 2, movers: 1 });
    problem.fill(0, false)?;
    pe.barrier_all()?;
    // Multiplying is what takes the simulator long.
    problem.gather(blocks)?;
    problem.check_gathered(0, 1)?;
    problem.gather_matmul(blocks)?;
    pe.barrier_all()?;
    problem.check(0)
}
