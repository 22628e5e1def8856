//! What several unit tests share.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// A folder for one test, which does not exist yet.
pub(crate) fn dir(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("shmem-build-{}-{name}", std::process::id()))
}

/// For tests that write scripts and run them: one at a time. A process that another thread forks would hold a script
/// open for writing, and the system refuses to run such a script.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes a shell script and the folders above it.
pub(crate) fn script(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
