//! The formats on a GPU: no calls, no stack, no loops, one store of 16 bytes for each unit.

use shmem_build::{sysroot, toolchain};
use std::path::Path;
use std::process::Command;

#[test]
fn entries_are_straight_code_and_16_byte_stores() {
    let required = std::env::var("SHMEM_PTX").as_deref() == Ok("require");
    let compiler = match toolchain::find() {
        Ok(found) if std::env::var("SHMEM_PTX").as_deref() != Ok("off") => found,
        Ok(_) => {
            eprintln!("skipped: SHMEM_PTX=off");
            return;
        }
        Err(missing) => {
            assert!(!required, "SHMEM_PTX=require, and {missing}");
            eprintln!("skipped: {missing}");
            return;
        }
    };
    let sysroot = sysroot::ensure(&compiler).expect("core for the GPU");
    let folder = std::env::temp_dir().join(format!("mlx5-device-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a scratch folder");
    let rustc = |source: &Path, more: &[&str]| {
        let mut command = Command::new(&compiler.rustc);
        command
            .env("RUSTC_BOOTSTRAP", "1")
            .args(["--target", "nvptx64-nvidia-cuda", "--edition", "2024"]);
        command
            .args(["-O", "-Cpanic=abort", "-Ctarget-cpu=sm_80", "--sysroot"])
            .arg(&sysroot);
        command
            .arg("--out-dir")
            .arg(&folder)
            .arg("-L")
            .arg(&folder)
            .args(more)
            .arg(source);
        let output = command.output().expect("rustc runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    rustc(
        &here.join("src/lib.rs"),
        &["--crate-type=rlib", "--crate-name=shmem_mlx5"],
    );
    let kernel = [
        "--crate-type=lib",
        "--crate-name=kernel",
        "--emit=asm",
        "--extern=shmem_mlx5",
    ];
    rustc(&here.join("tests/device/kernel.rs"), &kernel);
    let ptx = std::fs::read_to_string(folder.join("kernel.s")).expect("PTX");
    std::fs::remove_dir_all(&folder).expect("the scratch folder is there");
    let body = &ptx[ptx.find(".entry post").expect("the kernel")..];
    for what in ["call", "__local_depot", "cvta.local", "ld.local"] {
        assert!(!body.contains(what), "{what} in\n{body}");
    }
    let stores = |kind: &str| body.lines().filter(|l| l.contains("st.") && l.contains(kind)).count();
    assert_eq!(stores(".v4.") + stores(".v2."), 8, "{body}");
}
