use shmem::prelude::*;
use shmem::scope::Gpu;

fn no_atomics_of_two_bytes(x: Sym<u16>) {
    shmem::fetch_add(x, 1, 0);
}

fn no_atomics_of_one_f16(x: Sym<f16>) {
    shmem::add(x, f16::ONE, 0);
}

fn floats_only_add(x: Sym<f32>) {
    shmem::compare_swap(x, 0.0, 1.0, 0);
}

fn signals_are_not_added_to(ready: Signal) {
    shmem::fetch_add(ready, 1, 0);
}

fn a_tile_is_no_scope(x: Global<u32>) {
    x.word::<Block>(0);
}

fn words_have_four_or_eight_bytes(x: Global<u8>) {
    x.word::<Gpu>(0);
}

fn main() {}
