//! What a process says that a kernel's panic aborts.

use shmem::prelude::*;
use std::process::Command;

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("the destructor's own words");
    }
}

/// Set in the process that is to abort.
const INSIDE: &str = "SHMEM_TEST_ABORTS";

#[test]
fn a_panic_in_a_destructor_while_a_lane_unwinds_says_kernel_and_place() {
    if std::env::var_os(INSIDE).is_some() {
        let _ = shmem_sim::run(2, 1, 1, || {
            let _bomb = Bomb;
            assert_eq!(shmem::my_pe(), 1 + thread::index() * 2, "the first panic");
            shmem::spin_until(|| false);
        });
        return;
    }
    let me = std::env::current_exe().unwrap();
    let ended = Command::new(me).env(INSIDE, "1").arg("--nocapture").output().unwrap();
    let text = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success());
    assert!(text.contains("kernel `run` on PE "), "{text}");
    assert!(text.contains("aborts.rs:10:9: the destructor's own words"), "{text}");
}

#[test]
fn a_payload_that_panics_when_dropped_is_a_fault() {
    if std::env::var_os(INSIDE).is_some() {
        return;
    }
    let ended = shmem_sim::run(1, 1, 1, || std::panic::panic_any(Bomb));
    assert!(matches!(ended, Err(shmem_sim::Failure::Fault { .. })), "{ended:?}");
}
