//! Compiles this package's kernels to PTX.
fn main() {
    shmem_build::kernels().build();
}
