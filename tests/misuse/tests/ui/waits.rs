use shmem::prelude::*;

fn words_that_cannot_be_waited_for(x: SymSlice<u16>) {
    shmem::wait_until_all(Block, x, eq(1));
}

fn counters_waited_on_exactly(arrived: SymSlice<CounterWord>) {
    shmem::wait_until_any(Block, arrived, eq(3));
}

fn values_of_another_type(x: SymSlice<u64>, values: Global<u32>) {
    shmem::wait_until_all(Block, x, ge(values));
}

fn a_threads_own_values_by_a_block(x: SymSlice<u32>) {
    shmem::test_all(Block, x, ge(&[1u32, 2]));
}

fn a_threads_own_indices_by_a_block(x: SymSlice<u32>) {
    shmem::wait_until_some(Block, x, ge(1), &mut [0; 4]);
}

fn main() {}
