use shmem::prelude::*;

fn data_word_as_signal(dst: SymSlice<u64>) {
    shmem::put_signal(Block, dst, dst, dst.at(0).set(1), 1);
}

fn add_on_a_signal(ready: Signal) {
    shmem::signal_op(ready.add(1), 1);
}

fn counter_waited_on_exactly(arrived: Counter) {
    shmem::wait_until(Thread, arrived, eq(3));
}

#[deny(unused_must_use)]
fn dropped_action(arrived: Counter) {
    arrived.add(1);
}

fn main() {}
