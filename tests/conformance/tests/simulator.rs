//! The whole suite on the simulator, with one seed for each number of PEs. At its full size where `SHMEM_TEST_FULL` is set, which
//! `cargo xtask test --full` does: `tests/seeds` has it at that size in any case, optimised, and has the checker look at the same
//! cases over many seeds.
use conformance::suite;
use shmem_host::{Backend, Path};

fn with_pes(n: u32) {
    if std::env::var_os("SHMEM_TEST_FULL").is_none() {
        suite::take_little();
    }
    suite::simulated(n);
}

#[test]
fn worlds_that_cannot_be_made() {
    conformance::refused::worlds(Backend::Sim).unwrap();
}

#[test]
fn one_pe() {
    with_pes(1);
}
#[test]
fn two_pes() {
    with_pes(2);
}
#[test]
fn three_pes() {
    with_pes(3);
}
#[test]
fn four_pes() {
    with_pes(4);
}
#[test]
fn eight_pes() {
    with_pes(8);
}

/// Emulated adapters carry everything, also from a PE to itself.
#[test]
fn three_pes_over_adapters() {
    suite::take_little();
    suite::simulated_over(Path::Ibgda, 3);
}
/// Two nodes of two PEs; `tests/seeds` has two of four.
#[test]
fn four_pes_of_two_nodes() {
    suite::take_little();
    suite::simulated_over(Path::Mixed, 4);
}
