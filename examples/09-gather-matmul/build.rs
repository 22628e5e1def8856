//! Compiles this package's kernels to PTX: for Hopper with the products of a warpgroup, which no other image has.
use shmem_build::Arch;

fn main() {
    [Arch::Sm80, Arch::Sm90, Arch::Sm90a]
        .into_iter()
        .fold(shmem_build::kernels(), shmem_build::Kernels::arch)
        .build();
}
