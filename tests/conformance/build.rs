//! Compiles this package's kernels to PTX, which takes minutes: for one architecture, except in a release, which runs on GPUs; there
//! it also assembles it, which the driver would take as long for each time that it starts.
fn main() {
    let kernels = shmem_build::kernels();
    // `SHMEM_ARCH` goes before: `cargo xtask test --full` has the others too.
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        kernels.assemble().build();
    } else {
        kernels.arch(shmem_build::Arch::Sm90).build();
    }
}
