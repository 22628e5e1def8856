//! Packets and collectives on the simulator, on the numbers of PEs that the whole suite does not run on. `tests/seeds` has the
//! checker look at the same cases.
use conformance::suite::{Case, simulator};

fn run(pes: u32, seed: u64) {
    let world = simulator(pes).seed(seed).check(false).build();
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
fn odd_numbers_of_pes() {
    for pes in [5, 6, 7] {
        run(pes, 11);
    }
}
