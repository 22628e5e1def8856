//! Which memory a kernel's arguments may name: what the PE has allocated and not dropped.

use crate::launch::Stale;
use crate::site::Site;
use rustc_hash::{FxHashMap, FxHashSet};
use shmem::{Region, Serial};
use std::cell::Cell;

/// The live objects of one PE, by serial.
#[derive(Debug)]
pub(crate) struct Handles {
    world: u32,
    pe: u32,
    pes: u32,
    symmetric: FxHashMap<Serial, Region>,
    /// Where the symmetric ones were asked for.
    sites: FxHashMap<Serial, Site>,
    local: FxHashMap<Serial, Region>,
    teams: FxHashSet<Serial>,
    /// Regions that have passed since the objects last changed, each where its serial says: launches name the same ones again.
    passed: [Cell<Option<Region>>; PASSED],
}

/// Regions that are remembered.
const PASSED: usize = 16;

impl Handles {
    pub(crate) fn new(world: u32, pe: u32, pes: u32) -> Self {
        let (symmetric, sites, local, teams, passed) = Default::default();
        Self {
            world,
            pe,
            pes,
            symmetric,
            sites,
            local,
            teams,
            passed,
        }
    }

    pub(crate) fn insert(&mut self, object: Region) {
        match object {
            Region::Symmetric { serial, .. } => drop(self.symmetric.insert(serial, object)),
            Region::Global { serial, .. } => drop(self.local.insert(serial, object)),
            Region::Team { serial } => drop(self.teams.insert(serial)),
        }
    }

    /// Notes where a symmetric object was asked for.
    pub(crate) fn note(&mut self, serial: Serial, site: Site) {
        self.sites.insert(serial, site);
    }

    /// Where the symmetric objects that are left were asked for, and how many bytes they have.
    pub(crate) fn left(&self) -> Vec<(Site, u64)> {
        let mut left: Vec<_> = self
            .sites
            .iter()
            .map(|(serial, site)| (serial.number(), site.clone(), serial))
            .collect();
        left.sort_by_key(|(number, ..)| *number);
        left.into_iter()
            .map(|(_, site, serial)| (site, extent(self.symmetric[serial]).1))
            .collect()
    }

    pub(crate) fn remove(&mut self, object: Region) {
        self.passed = Default::default();
        match object {
            Region::Symmetric { serial, .. } => {
                self.sites.remove(&serial);
                self.symmetric.remove(&serial);
            }
            Region::Global { serial, .. } => drop(self.local.remove(&serial)),
            Region::Team { serial } => drop(self.teams.remove(&serial)),
        }
    }

    /// Whether the region lies inside the object that it was made for, and that is live. One without bytes can do no harm.
    pub(crate) fn check(&self, region: Region) -> Result<(), Stale> {
        let (Region::Symmetric { serial, .. } | Region::Global { serial, .. } | Region::Team { serial }) = region;
        let passed = &self.passed[serial.number() as usize % PASSED];
        if passed.get() != Some(region) {
            self.look_up(region)?;
            passed.set(Some(region));
        }
        Ok(())
    }

    fn look_up(&self, region: Region) -> Result<(), Stale> {
        let (live, serial) = match region {
            Region::Symmetric { serial, .. } => (&self.symmetric, serial),
            Region::Global { serial, .. } => (&self.local, serial),
            Region::Team { serial } => return self.check_team(serial),
        };
        let (start, bytes) = extent(region);
        if bytes == 0 {
            return Ok(());
        }
        if let Some(&buffer) = live.get(&serial) {
            let (from, length) = extent(buffer);
            let inside = start >= from && start - from <= length && bytes <= length - (start - from);
            return if inside { Ok(()) } else { Err(Stale::Beyond { buffer }) };
        }
        if serial.world() != self.world {
            return Err(Stale::Foreign);
        }
        let owner = self.owner(serial);
        if matches!(region, Region::Global { .. }) && owner != self.pe {
            return Err(Stale::OtherPe { pe: owner });
        }
        let newer = live.values().copied().find(|&other| overlap(other, region));
        Err(newer.map_or(Stale::Dropped, |by| Stale::Reused { by }))
    }

    fn check_team(&self, serial: Serial) -> Result<(), Stale> {
        match self.owner(serial) {
            _ if self.teams.contains(&serial) => Ok(()),
            _ if serial.world() != self.world => Err(Stale::Foreign),
            pe if pe != self.pe => Err(Stale::OtherPe { pe }),
            _ => Err(Stale::Dropped),
        }
    }

    /// PEs take turns in the numbers of what they have alone.
    fn owner(&self, serial: Serial) -> u32 {
        (serial.number() % u64::from(self.pes)) as u32
    }
}

/// Start and length in bytes.
fn extent(region: Region) -> (u64, u64) {
    match region {
        Region::Symmetric { offset, bytes, .. } => (offset, bytes),
        Region::Global { address, bytes, .. } => (address, bytes),
        // No memory that a handle could go beyond.
        Region::Team { .. } => (0, 0),
    }
}

fn overlap(a: Region, b: Region) -> bool {
    let ((a, an), (b, bn)) = (extent(a), extent(b));
    a < b.saturating_add(bn) && b < a.saturating_add(an)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORLD: u32 = 3;

    fn symmetric(number: u64, offset: u64, bytes: u64) -> Region {
        let serial = Serial::new(WORLD, number);
        Region::Symmetric { offset, bytes, serial }
    }

    fn local(number: u64, address: u64, bytes: u64) -> Region {
        let serial = Serial::new(WORLD, number);
        Region::Global { address, bytes, serial }
    }

    #[test]
    fn parts_of_the_object_are_fine_and_nothing_else() {
        let mut handles = Handles::new(WORLD, 0, 1);
        let (first, second) = (symmetric(0, 512, 100), symmetric(1, 1024, 512));
        handles.insert(first);
        handles.insert(second);
        for (offset, bytes) in [(512, 100), (512, 0), (600, 12), (0, 0), (9999, 0)] {
            assert_eq!(handles.check(symmetric(0, offset, bytes)), Ok(()));
        }
        for (offset, bytes) in [
            (512, 101),
            (600, 13),
            (612, 1),
            (511, 1),
            (1024, 512),
            (u64::MAX, 1),
            (512, u64::MAX),
        ] {
            let beyond = Err(Stale::Beyond { buffer: first });
            assert_eq!(handles.check(symmetric(0, offset, bytes)), beyond);
        }
        assert_eq!(handles.check(symmetric(1, 1535, 1)), Ok(()));
        assert_eq!(
            handles.check(symmetric(1, 1536, 1)),
            Err(Stale::Beyond { buffer: second })
        );
    }

    #[test]
    fn a_dropped_object_stays_dropped_when_its_place_is_reused() {
        let mut handles = Handles::new(WORLD, 0, 1);
        let old = symmetric(0, 512, 100);
        handles.insert(old);
        handles.remove(old);
        assert_eq!(handles.check(old), Err(Stale::Dropped));
        // The newer one begins behind the old handle's first byte.
        let new = symmetric(1, 550, 512);
        handles.insert(new);
        assert_eq!(handles.check(old), Err(Stale::Reused { by: new }));
        assert_eq!(
            handles.check(symmetric(0, 512, 38)),
            Err(Stale::Dropped),
            "it ends before the newer one"
        );
        assert_eq!(handles.check(new), Ok(()));
    }

    #[test]
    fn objects_of_others_are_named() {
        let mut handles = Handles::new(WORLD, 1, 4);
        handles.insert(symmetric(5, 512, 100));
        handles.insert(local(9, 512, 100));
        assert_eq!(handles.check(local(9, 512, 100)), Ok(()));
        assert_eq!(
            handles.check(local(5, 512, 100)),
            Err(Stale::Reused { by: local(9, 512, 100) })
        );
        assert_eq!(handles.check(local(6, 512, 100)), Err(Stale::OtherPe { pe: 2 }));
        for serial in [Serial::NONE, Serial::new(WORLD - 1, 5)] {
            let region = Region::Symmetric {
                offset: 512,
                bytes: 100,
                serial,
            };
            assert_eq!(handles.check(region), Err(Stale::Foreign));
        }
    }
}
