//! Compiles this package's kernels to PTX; in a release also assembles it, which the driver would take seconds for.
fn main() {
    shmem_build::kernels().assemble_in_release().build();
}
