//! No crate of the workspace has a convergent instruction in `asm!`.

use shmem_convergence::lint::{files, lint};
use std::path::Path;

#[test]
fn the_workspace_has_no_convergent_asm() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let files = files(&root).expect("the workspace can be read");
    // A lint that reads nothing finds nothing.
    for known in [
        "shmem-intrinsics/src/arch/ptx/converge.rs",
        "tests/convergence/src/bare.rs",
    ] {
        assert!(
            files.iter().any(|file| file.path == Path::new(known)),
            "{known} was not read"
        );
    }
    let findings: Vec<_> = lint(&files).iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}
