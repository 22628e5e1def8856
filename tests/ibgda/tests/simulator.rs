//! The program on the simulator, where its words are checked and its times mean nothing.
use ibgda_rate::program::{Options, run};
use shmem_host::{Backend, Path, World};

#[test]
fn every_way_of_posting_brings_every_word() {
    let options = Options {
        writes: 600,
        timed: false,
    };
    for (path, pes) in [(Path::Ibgda, 2), (Path::Ibgda, 1), (Path::LoadStore, 2)] {
        let world = World::builder().backend(Backend::Sim).pes(pes).path(path).check(false);
        run(world.build().unwrap(), options).unwrap();
    }
}
