//! Which memory a kernel's arguments may name: what the PE has allocated and not dropped.

use shmem::Region;
use std::collections::BTreeMap;

/// Start and length in bytes of each live object.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    symmetric: BTreeMap<u64, u64>,
    local: BTreeMap<u64, u64>,
}

impl Handles {
    fn of(&mut self, region: Region) -> (&mut BTreeMap<u64, u64>, u64, u64) {
        match region {
            Region::Symmetric { offset, bytes } => (&mut self.symmetric, offset, bytes),
            Region::Global { address, bytes } => (&mut self.local, address, bytes),
        }
    }

    pub(crate) fn insert(&mut self, object: Region) {
        let (live, start, bytes) = self.of(object);
        live.insert(start, bytes);
    }

    pub(crate) fn remove(&mut self, object: Region) {
        let (live, start, _) = self.of(object);
        live.remove(&start);
    }

    /// Whether the region lies inside one object. One without bytes can do no harm.
    pub(crate) fn cover(&mut self, region: Region) -> bool {
        let (live, start, bytes) = self.of(region);
        let object = live.range(..=start).next_back();
        bytes == 0 || object.is_some_and(|(from, length)| start - from <= *length && bytes <= length - (start - from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symmetric(offset: u64, bytes: u64) -> Region {
        Region::Symmetric { offset, bytes }
    }

    #[test]
    fn parts_of_one_object_are_covered_and_nothing_else() {
        let mut handles = Handles::default();
        handles.insert(symmetric(512, 100));
        handles.insert(symmetric(1024, 512));
        let covered = [
            (512, 100),
            (512, 0),
            (600, 12),
            (1024, 512),
            (1535, 1),
            (0, 0),
            (9999, 0),
        ];
        let uncovered = [
            (512, 101),
            (600, 13),
            (612, 1),
            (511, 1),
            (1024, 513),
            (1536, 1),
            (u64::MAX, 1),
            (512, u64::MAX),
        ];
        assert!(covered.iter().all(|&(o, b)| handles.cover(symmetric(o, b))));
        assert!(!uncovered.iter().any(|&(o, b)| handles.cover(symmetric(o, b))));
    }

    #[test]
    fn a_removed_object_and_one_of_the_other_kind_are_not() {
        let mut handles = Handles::default();
        handles.insert(symmetric(512, 100));
        assert!(!handles.cover(Region::Global {
            address: 512,
            bytes: 100
        }));
        handles.remove(symmetric(512, 100));
        assert!(!handles.cover(symmetric(512, 1)));
    }
}
