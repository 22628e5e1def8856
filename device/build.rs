//! Compiles this package's kernels to PTX, which every World loads when it starts, and assembles it.
fn main() {
    shmem_build::kernels().assemble().build();
}
