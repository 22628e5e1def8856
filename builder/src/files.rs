//! Files: written only when they change, locked, hashed.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use crate::error::Error;

/// Writes `text` unless the file holds it already, so that nothing that includes the file is built again for nothing.
pub(crate) fn write_if_changed(path: &Path, text: &str) -> Result<(), Error> {
    if fs::read(path).is_ok_and(|old| old == text.as_bytes()) {
        return Ok(());
    }
    fs::write(path, text).map_err(Error::io("write", path))
}

/// With the folders above it, where they are missing.
pub(crate) fn create_dir(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(Error::io("create the folder", path))
}

/// Waits for the lock file at `path`; dropping the result lets go.
///
/// A file system without locks (some network homes) is no reason to fail: only builds at the same time would meet.
pub(crate) fn lock(path: &Path) -> Result<File, Error> {
    let file = File::create(path).map_err(Error::io("create the lock file", path))?;
    drop(file.lock());
    Ok(file)
}

/// A folder that vanishes with the value, for work that may fail half way.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes it anew: an interrupted build may have left one behind.
    pub(crate) fn new(path: PathBuf) -> Result<Self, Error> {
        drop(fs::remove_dir_all(&path));
        create_dir(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// FNV-1a: the same number on every machine and with every compiler, unlike std's hashers.
pub(crate) struct Hash(u64);

impl Hash {
    pub(crate) const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Adds one part; parts are kept apart, so `("ab", "c")` and `("a", "bc")` differ.
    pub(crate) fn add(self, part: &str) -> Self {
        self.add_bytes(part.as_bytes()).add_bytes(&[0xff])
    }

    /// Adds bytes, without an end of their own.
    pub(crate) fn add_bytes(mut self, bytes: &[u8]) -> Self {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        self
    }

    pub(crate) const fn get(&self) -> u64 {
        self.0
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn an_unchanged_file_keeps_its_time() {
        let scratch = Scratch::new(crate::testing::dir("write")).unwrap();
        let path = scratch.path().join("file");
        let time = || fs::metadata(&path).unwrap().modified().unwrap();
        write_if_changed(&path, "one").unwrap();
        let first = time();
        std::thread::sleep(std::time::Duration::from_millis(20));
        write_if_changed(&path, "one").unwrap();
        assert_eq!(time(), first);
        write_if_changed(&path, "two").unwrap();
        assert!(time() > first);
    }

    #[test]
    fn parts_of_a_hash_are_kept_apart() {
        assert_ne!(
            Hash::new().add("ab").add("c").get(),
            Hash::new().add("a").add("bc").get()
        );
        assert_eq!(Hash::new().get(), 0xcbf2_9ce4_8422_2325);
    }
}
