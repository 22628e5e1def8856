//! Dispatch and combine on the simulator, against the same in f64.
use moe::{Config, Routing, Shape, check};
use shmem_host::{Backend, World};

fn on_worlds(routing: Routing, fp8: bool, shapes: &[(u32, u32, u32, u32)]) {
    for (seed, &(tokens, top, experts, hidden)) in (0..).zip(shapes) {
        for (pes, packets) in (1..=4).flat_map(|pes| [(pes, Some(true)), (pes, Some(false))]) {
            let shape = Shape {
                tokens,
                top,
                experts,
                hidden,
            };
            let config = Config {
                shape,
                fp8,
                packets,
                blocks: Some(1 + seed as u32 % 3),
                threads: if fp8 { 32 } else { 64 },
            };
            let world = World::builder()
                .backend(Backend::Sim)
                .pes(pes)
                .seed(seed)
                .build()
                .unwrap();
            if let Err(error) = world.run(|pe| check(&pe, config, routing, seed)) {
                panic!("{routing:?}, {config:?}, {pes} PEs, seed {seed}: {error:?}");
            }
        }
    }
}

#[test]
fn any_experts() {
    on_worlds(Routing::Some, false, &[(1, 1, 1, 8), (3, 4, 7, 24), (5, 2, 8, 600)]);
}

#[test]
fn any_experts_in_fp8() {
    on_worlds(Routing::Some, true, &[(4, 3, 5, 128), (2, 5, 12, 640)]);
}

/// Rows in parts, of which four and two blocks have one each.
#[test]
fn rows_in_parts() {
    on_worlds(Routing::Some, false, &[(2, 3, 6, 32), (3, 2, 5, 16)]);
    on_worlds(Routing::Some, true, &[(1, 2, 4, 1024)]);
}

#[test]
fn the_same_experts_for_all() {
    on_worlds(Routing::Same, false, &[(6, 3, 9, 16), (2, 32, 32, 8)]);
    on_worlds(Routing::Same, true, &[(3, 2, 9, 128)]);
}

#[test]
fn tokens_of_one_pe() {
    on_worlds(Routing::OnePe, false, &[(3, 3, 6, 16)]);
}
