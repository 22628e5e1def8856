//! Doctests of this crate have kernels of their own: they run on the simulator, so there is nothing to compile.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!(
        "cargo::rustc-env=SHMEM_IMAGES={}/src/no_images.rs",
        env!("CARGO_MANIFEST_DIR")
    );
}
