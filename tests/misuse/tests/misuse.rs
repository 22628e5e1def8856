//! Each file in tests/ui must fail to compile, with just the message beside it.
#[test]
fn misuse_is_a_compile_error_at_the_right_place() {
    let images = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shmem-intrinsics/src/no_images.rs");
    // SAFETY: this is the only test of its process, and no other thread runs yet.
    unsafe {
        std::env::set_var("SHMEM_IMAGES", images);
        // Its builds are anew in a folder of their own, and nothing looks at the PTX of what they depend on.
        std::env::set_var("SHMEM_PTX", "off");
    }
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
