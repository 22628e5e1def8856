//! The suite of `tests/conformance` with 8 PEs over emulated adapters: as 2 nodes of 4, and with adapters for everything. With
//! little data, which is enough for queues to fill and wrap.
use conformance::suite;
use shmem_host::Path;

fn over(path: Path) {
    if cfg!(debug_assertions) {
        println!("skipped: without optimisation, tests/conformance has it with fewer PEs");
        return;
    }
    suite::take_little();
    suite::simulated_over(path, 8);
}

#[test]
fn eight_pes_of_two_nodes() {
    over(Path::Mixed);
}

#[test]
fn eight_pes_over_adapters() {
    over(Path::Ibgda);
}
