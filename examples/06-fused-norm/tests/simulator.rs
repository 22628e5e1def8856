//! Random shapes on the simulator.
use fused_norm::{Algorithm, FusedNorm, reference};
use shmem::Zeroable;
use shmem_host::{Backend, Pe, World};

fn on(pes: u32, seed: u64, check: impl Fn(&Pe) -> anyhow::Result<()> + Sync) {
    let world = World::builder()
        .backend(Backend::Sim)
        .pes(pes)
        .seed(seed)
        .build()
        .unwrap();
    if let Err(error) = world.run(|pe| check(&pe)) {
        panic!("{pes} PEs, seed {seed}: {error:#}");
    }
}

/// Numbers below each bound that follow from the seed.
fn below(seed: u64, bounds: &[usize]) -> Vec<usize> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = |bound: &usize| {
        state = state
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 33) as usize % bound
    };
    bounds.iter().map(&mut next).collect()
}

/// Rows of any length, calls of any numbers of tokens.
fn random(by: Algorithm) {
    for pes in 1..=4 {
        for seed in 0..4 {
            let r = below(seed * 10 + u64::from(pes), &[100, 7, 7, 7]);
            on(pes, seed, |pe| {
                reference::check(pe, 8 * (r[0] + 1), &[r[1] + 1, r[2], r[3] + 1], Some(by), seed)
            });
        }
    }
}

#[test]
fn by_packets() {
    random(Algorithm::Packets);
}

#[test]
fn by_one_shot() {
    random(Algorithm::OneShot);
}

#[test]
fn by_two_shots() {
    random(Algorithm::TwoShot);
}

#[test]
fn by_puts() {
    random(Algorithm::Puts);
}

/// The longest rows, and ones that fill their block's lines.
#[test]
fn long_rows() {
    for (hidden, by) in [
        (16384, Algorithm::Packets),
        (16384, Algorithm::OneShot),
        (8192, Algorithm::TwoShot),
        (16384, Algorithm::Puts),
        (1024, Algorithm::Packets),
    ] {
        on(2, 1, |pe| reference::check(pe, hidden, &[2, 1], Some(by), 3));
    }
}

/// All algorithms on the same words, one after the other; more tokens than blocks.
#[test]
fn algorithms_follow_one_another() {
    for pes in 2..=4 {
        on(pes, 5, |pe| {
            let world = pe.world();
            let mut norm = FusedNorm::with_packets(pe, &world, 64, 9, 64 * 2 * 5)?;
            for (blocks, tokens) in [(u32::MAX, [5, 3, 4]), (2, [5, 1, 5])] {
                norm.limit_blocks(blocks)?;
                for by in [
                    Algorithm::Packets,
                    Algorithm::Puts,
                    Algorithm::TwoShot,
                    Algorithm::Puts,
                    Algorithm::OneShot,
                    Algorithm::Packets,
                    Algorithm::Puts,
                ] {
                    reference::check_with(pe, &norm, 64, &tokens, Some(by), 7)?;
                }
                // By the choice: packets for 5, puts among two or passes for 9.
                reference::check_with(pe, &norm, 64, &[5, 9, 2, 8, 1], None, 8)?;
            }
            Ok(())
        });
    }
}

/// Slots are written again while others may be behind: many rows of few blocks, calls that differ, other algorithms between.
#[test]
fn slots_take_turns() {
    for (pes, seed) in (2..=4).flat_map(|pes| (0..8).map(move |seed| (pes, seed))) {
        let r = below(seed * 10 + u64::from(pes), &[2, 4, 12, 12, 12, 12, 12]);
        let (blocks, other) = (r[0] as u32 + 1, r[1]);
        let calls: Vec<_> = (0..5)
            .map(|call| {
                let between = [Algorithm::OneShot, Algorithm::TwoShot, Algorithm::Packets];
                let by = between.get(other).filter(|_| call % 3 == 1);
                (by.copied().unwrap_or(Algorithm::Puts), r[call + 2] + 1)
            })
            .collect();
        on(pes, seed, |pe| {
            let (world, stream) = (pe.world(), pe.stream());
            let mut norm = FusedNorm::with_packets(pe, &world, 40, 12, usize::MAX)?;
            norm.limit_blocks(blocks)?;
            let run = reference::Run::new(pe, 40, 12, calls.len(), seed)?;
            let enqueue = || {
                let mut calls = calls.iter().enumerate();
                calls.try_for_each(|(i, &(by, tokens))| norm.enqueue(stream, run.rows(i, tokens), Some(by)))
            };
            enqueue()?;
            let graph = stream.capture(enqueue)?;
            graph.launch(stream)?;
            graph.launch(stream)?;
            let made: Vec<_> = calls.iter().map(|(_, tokens)| *tokens).enumerate().collect();
            let members: Vec<_> = (0..pes).collect();
            run.check(&members, &made.repeat(3))?;
            run.check_alike(pe)
        });
    }
}

/// Epochs of packets go round the end of their 32 bits, and take the halves by turns there.
#[test]
fn epochs_wrap() {
    for epoch in [0, 1, u32::MAX - 2, u32::MAX - 1, u32::MAX] {
        let next = fused_norm::packets::next(epoch);
        assert!(next != 0 && next % 2 != epoch % 2, "{next} comes behind {epoch}");
    }
    on(3, 2, |pe| {
        let world = pe.world();
        let norm = FusedNorm::new(pe, &world, 40, 3)?;
        norm.start_at(u32::MAX - 3)?;
        pe.barrier_all()?;
        reference::check_with(pe, &norm, 40, &[3, 2, 3, 1], Some(Algorithm::Packets), 9)
    });
}

/// As ordinary kernels, which don't begin together on all PEs.
#[test]
fn plain_launches() {
    for seed in 0..40 {
        on(2 + seed as u32 % 2, seed, |pe| {
            let world = pe.world();
            let mut norm = FusedNorm::new(pe, &world, 40, 3)?;
            norm.plain = true;
            reference::check_with(pe, &norm, 40, &[3, 1, 2, 2], Some(Algorithm::Packets), 3)
        });
    }
}

/// What follows a call on the stream may change its input: others have read it.
#[test]
fn inputs_may_be_changed_behind_a_call() {
    for by in [
        Algorithm::Packets,
        Algorithm::OneShot,
        Algorithm::TwoShot,
        Algorithm::Puts,
    ] {
        on(3, 3, |pe| {
            let world = pe.world();
            let norm = FusedNorm::new(pe, &world, 48, 5)?;
            let run = reference::Run::new(pe, 48, 5, 1, 1)?;
            norm.enqueue(pe.stream(), run.rows(0, 5), Some(by))?;
            let rows = run.rows(0, 5);
            rows.x.write(&vec![Zeroable::zeroed(); rows.x.len()])?;
            pe.barrier_all()?;
            run.check(&[0, 1, 2], &[(0, 5)])
        });
    }
}

/// Two teams, each adds up for itself.
#[test]
fn teams_add_up_for_themselves() {
    on(4, 4, |pe| {
        let (row, _) = pe.world().split_2d(2)?;
        let norm = FusedNorm::new(pe, &row, 72, 4)?;
        let run = reference::Run::new(pe, 72, 4, 3, 1)?;
        for (call, by) in [(0, Algorithm::Packets), (1, Algorithm::TwoShot), (2, Algorithm::Puts)] {
            norm.enqueue(pe.stream(), run.rows(call, 4), Some(by))?;
        }
        run.check(row.members(), &[(0, 4), (1, 4), (2, 4)])
    });
}

#[test]
fn what_does_not_fit_is_said() {
    on(2, 0, |pe| {
        let world = pe.world();
        let said = |result: anyhow::Result<()>| result.unwrap_err().to_string();
        for hidden in [0, 12, 16392] {
            let error = said(FusedNorm::new(pe, &world, hidden, 1).map(drop));
            assert!(error.contains(&format!("{hidden} numbers")), "{error}");
        }
        let norm = FusedNorm::new(pe, &world, 16, 3)?;
        let run = reference::Run::new(pe, 16, 2, 1, 1)?;
        let error = said(norm.enqueue(pe.stream(), run.rows(0, 4), None));
        assert!(error.starts_with("4 tokens"), "{error}");
        let error = said(norm.enqueue(pe.stream(), run.rows(0, 3), None));
        assert!(error.starts_with("x has 4 lines"), "{error}");
        norm.enqueue(pe.stream(), run.rows(0, 0), None)
    });
    on(5, 0, |pe| {
        let world = pe.world();
        let norm = FusedNorm::new(pe, &world, 16, 2)?;
        let run = reference::Run::new(pe, 16, 2, 1, 1)?;
        let refused = norm.enqueue(pe.stream(), run.rows(0, 2), Some(Algorithm::Puts));
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("by Puts among 5 PEs"), "{error}");
        assert!(error.ends_with("by puts up to 4 PEs"), "{error}");
        Ok(())
    });
}
