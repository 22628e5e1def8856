//! Fields of many shapes on the simulator, against the same iterations in f64.
use halo_jacobi::{Config, Field, check};
use shmem_host::{Backend, World};

#[test]
fn shapes() {
    // Few rows for each PE, parts that end anywhere in a block column, more blocks than rows, a width that fills no block.
    let shapes = [
        (4, 8, 1),
        (12, 9, 3),
        (132, 8, 2),
        (256, 21, 5),
        (300, 14, 4),
        (64, 41, 3),
    ];
    for (seed, (nx, ny, blocks)) in (0..).zip(shapes) {
        for pes in 1..=4 {
            let config = Config {
                blocks: Some(blocks),
                threads: if seed % 2 == 0 { 32 } else { 64 },
            };
            let world = World::builder()
                .backend(Backend::Sim)
                .pes(pes)
                .seed(seed)
                .build()
                .unwrap();
            let runs = [(1, 0), (3, 2), (2, 1)];
            if let Err(error) = world.run(|pe| check(&pe, Field { nx, ny }, config, seed, &runs)) {
                panic!("{nx} x {ny} on {pes} PEs, {config:?}, seed {seed}: {error:?}");
            }
        }
    }
}
