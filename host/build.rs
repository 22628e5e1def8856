//! Kernels of this crate's tests and doctests run on the simulator: there is nothing to compile for them.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!(
        "cargo::rustc-env=SHMEM_IMAGES={}/src/no_images.rs",
        env!("CARGO_MANIFEST_DIR")
    );
}
