//! What this process has of the system's: files, mappings, threads.

use std::collections::BTreeMap;

/// Counts that grow where something is leaked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Own {
    /// Open files by what they are, without numbers.
    files: BTreeMap<String, usize>,
    pub(crate) maps: usize,
    threads: usize,
}

impl Own {
    pub(crate) fn now() -> Self {
        // The system lists a thread for a moment after it was joined.
        std::thread::sleep(std::time::Duration::from_millis(50));
        let mut files = BTreeMap::new();
        for entry in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
            let target = std::fs::read_link(entry.path()).unwrap_or_default();
            let kind = target.to_string_lossy().replace(|c: char| c.is_ascii_digit(), "");
            *files.entry(kind).or_default() += 1;
        }
        Self {
            files,
            maps: std::fs::read_to_string("/proc/self/maps").unwrap().lines().count(),
            threads: std::fs::read_dir("/proc/self/task").unwrap().count(),
        }
    }

    /// No more than there was. Mappings come and go by a few: the allocator's arenas, one for each thread that lives at once.
    pub(crate) fn is_no_more_than(&self, before: &Self) -> bool {
        (&self.files, self.threads) == (&before.files, before.threads) && self.maps <= before.maps + 20
    }
}
