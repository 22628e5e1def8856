//! Collectives in stream order on the simulator, over more PEs and seeds than the whole suite gets, with the checker.
use conformance::suite::simulator;

#[test]
fn every_case_over_seeds() {
    for (pes, seed) in [(1, 0), (2, 0), (2, 1), (2, 2), (3, 3), (4, 4), (5, 5)] {
        let world = simulator(pes).seed(seed).build();
        let run = world.unwrap().run(|pe| -> anyhow::Result<()> {
            for case in conformance::stream_collective::CASES {
                (case.run)(&pe).map_err(|error| error.context(case.name))?;
            }
            Ok(())
        });
        if let Err(error) = run {
            panic!("{pes} PEs, seed {seed}: {error:?}");
        }
    }
}
