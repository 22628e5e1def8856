//! Compiles this package's kernels to PTX, which takes minutes: for one architecture, except in a release, which runs on GPUs.
fn main() {
    let mut kernels = shmem_build::kernels();
    // `SHMEM_ARCH` goes before: `cargo xtask test --full` has the others too.
    if std::env::var("PROFILE").is_ok_and(|profile| profile != "release") {
        kernels = kernels.arch(shmem_build::Arch::Sm90);
    }
    kernels.build();
}
