//! Worlds of 16 to 72 PEs: what the library does among many, on both sides of each number of PEs at which something changes, and of the
//! most bytes that packets take there. The table of these is in docs/src/collectives.md, "How many PEs". Little data, compared
//! with the CPU; the examples as well, with 8 PEs.
//!
//! What the checker takes grows faster than the square of the number of lanes: it looks at few PEs. With `SHMEM_TEST_FULL` it
//! looks at more, and at all of these numbers, up to 200 go without it, and the whole suite of `tests/conformance` runs.
use anyhow::Context;
use shmem_host::{Backend, Pe, World};
use shmem_sim::Sim;

#[path = "wide/calls.rs"]
mod calls;
#[path = "wide/examples.rs"]
mod examples;
#[path = "wide/points.rs"]
mod points;
#[path = "wide/streams.rs"]
mod streams;

/// Boxes for packets halve from n = 2^k + 1 to 2^k + 2: 17 and 18, 33 and 34, 65 and 66. A member takes the packets of four others at a
/// time: of n - 1 = 16, 32 and 64 none is left over, of others one (18, 34, 66) or three (16, 64, 72). A warp tells 32 members at
/// a time, a block of 64 threads as many.
const NUMBERS: &[u32] = &[16, 17, 18, 33, 34, 64, 65, 66, 72];
/// Of these, where not all are looked at.
const FEW: &[u32] = &[17, 18, 34];

fn numbers() -> impl Iterator<Item = u32> {
    if is_full() { NUMBERS } else { FEW }.iter().copied()
}

fn is_full() -> bool {
    std::env::var_os("SHMEM_TEST_FULL").is_some()
}

/// Kernels that are not optimised take too long.
fn is_skipped() -> bool {
    if cfg!(debug_assertions) {
        println!("skipped: takes long without optimisation");
    }
    cfg!(debug_assertions)
}

/// By a block of each PE.
fn in_kernel(pes: u32, threads: u32, check: bool, kernel: fn()) {
    if is_skipped() {
        return;
    }
    let launch = Sim::new(pes).block(threads).seed(pes.into()).check(check);
    if let Err(failure) = launch.run(kernel) {
        panic!("{pes} PEs: {failure}");
    }
}

/// In a world of so many PEs.
fn on(pes: u32, check: bool, run: impl Fn(&Pe) -> anyhow::Result<()> + Sync) {
    if is_skipped() {
        return;
    }
    let builder = World::builder().backend(Backend::Sim).pes(pes);
    let world = builder.seed(pes.into()).check(check).build().expect("a world");
    if let Err(error) = world.run(|pe| run(&pe).with_context(|| format!("PE {} of {pes}", pe.id()))) {
        panic!("{pes} PEs: {error:?}");
    }
}

#[test]
fn collectives_in_kernels() {
    for pes in numbers() {
        in_kernel(pes, 32, false, calls::world_and_team);
    }
    if is_full() {
        in_kernel(130, 32, false, calls::world_and_team);
    }
}

#[test]
fn collectives_on_streams() {
    for pes in numbers() {
        on(pes, false, streams::every_call);
    }
    if is_full() {
        on(200, false, streams::few_blocks);
    }
}

#[test]
fn barriers_signals_and_packets() {
    for pes in numbers() {
        in_kernel(pes, 64, false, points::everyone_to_everyone);
    }
}

#[test]
fn with_the_checker() {
    in_kernel(18, 64, true, points::everyone_to_everyone);
    on(9, true, streams::every_call);
    if is_full() {
        in_kernel(34, 64, true, points::everyone_to_everyone);
        in_kernel(17, 32, true, calls::world_and_team);
        on(34, true, streams::every_call);
    }
}

#[test]
fn examples_with_many_pes() {
    on(8, true, examples::every_example);
    on(8, false, examples::products);
    on(33, false, examples::refused);
    if is_full() {
        on(17, false, examples::every_example);
    }
}

#[test]
fn the_whole_suite() {
    if !is_full() {
        println!("skipped: SHMEM_TEST_FULL is not set");
    } else if !is_skipped() {
        conformance::suite::take_little();
        for pes in [16, 17, 33, 64, 72] {
            conformance::suite::simulated(pes);
        }
    }
}
