//! The suite of `tests/conformance` at its full size, with one seed for each number of PEs: here, because kernels are optimised
//! here. Unchecked, for its size: `shipped` has the checker look at the same cases with less data, over many seeds.
use conformance::suite;

fn with_pes(n: u32) {
    if cfg!(debug_assertions) {
        println!("skipped: without optimisation, tests/conformance has it");
        return;
    }
    suite::simulated(n);
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
