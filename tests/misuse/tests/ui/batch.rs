use shmem::prelude::*;

fn changed_before_the_quiet(dst: SymSlice<u32>) {
    let mut row = [1; 4];
    let batch = shmem::batch(Thread);
    batch.put(dst, &row, 1);
    row[0] = 2;
    batch.quiet();
}

fn carried_round_a_loop(dst: SymSlice<u32>) {
    let mut row = [1; 4];
    let mut batch = shmem::batch(Thread);
    for i in 0..4 {
        row[0] = i;
        batch.put(dst, &row, 1);
        batch = batch.flush();
    }
    batch.quiet();
}

fn used_after_its_end(dst: SymSlice<u32>) {
    let batch = shmem::batch(Thread);
    batch.quiet();
    batch.put(dst, &[1; 4], 1);
}

fn threads_own_array_by_a_block(dst: SymSlice<u32>) {
    shmem::batch(Block).put(dst, &[1u32; 4], 1);
}

fn main() {}
