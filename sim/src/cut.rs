//! Leaves one call of a program out, to see whether its tests notice.
//!
//! | variable | |
//! |---|---|
//! | `SHMEM_SIM_SKIP=file:line:column` | the call at this place, as `SHMEM_SIM_SITES` names it, does nothing; a `put_signal` only puts |
//! | `SHMEM_SIM_SITES=path` | each call that orders, and its place, is added to this file once: a line `what file:line:column` |
//!
//! What a call is made of (a barrier: a sync, a quiet, signals and waits) is named by the same place, and so left out
//! as a whole; each part is a line of its own in the file.

use crate::config::SimError;
use shmem::hook::At;
use std::cell::Cell;
use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::ptr;
use std::sync::{Mutex, PoisonError};

/// What one hook call is, of those that make up calls of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    Sync,
    /// Values among lanes: a call that does so is more than a sync.
    Value,
    /// An operation on a PE's data, of which what orders is only a part.
    Data,
    Fence,
    Quiet,
    Flush,
    Signal,
    PutSignal,
    Wait,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Value => "value",
            Self::Data => "data",
            Self::Fence => "fence",
            Self::Quiet => "quiet",
            Self::Flush => "flush",
            Self::Signal => "signal",
            Self::PutSignal => "put_signal",
            Self::Wait => "wait",
        }
    }
}

/// Places that a process has noted: its worlds share the file.
static NOTED: Mutex<Option<HashSet<(Part, usize)>>> = Mutex::new(None);

pub(crate) struct Cut {
    skip: Option<(String, u32, u32)>,
    /// The place of the last call that was looked at, and whether it is the one: most calls come in runs.
    last: Cell<(*const (), bool)>,
    sites: Option<File>,
}

impl Cut {
    /// None where the environment asks for nothing.
    pub(crate) fn from_env() -> Result<Option<Self>, SimError> {
        let skip = match std::env::var("SHMEM_SIM_SKIP") {
            Ok(place) if !place.is_empty() => Some(parse(&place).ok_or(SimError::Environment {
                variable: "SHMEM_SIM_SKIP",
                value: place,
                wanted: "a place, as src/lib.rs:7:5",
            })?),
            _ => None,
        };
        let sites = match std::env::var("SHMEM_SIM_SITES") {
            Ok(path) if !path.is_empty() => {
                let opened = File::options().append(true).create(true).open(&path);
                Some(opened.map_err(|_| SimError::Environment {
                    variable: "SHMEM_SIM_SITES",
                    value: path,
                    wanted: "a file that can be written",
                })?)
            }
            _ => None,
        };
        let cut = Self {
            skip,
            last: Cell::new((ptr::null(), false)),
            sites,
        };
        Ok((cut.skip.is_some() || cut.sites.is_some()).then_some(cut))
    }

    /// Whether the call at this place is left out.
    pub(crate) fn leaves_out(&self, at: At) -> bool {
        let Some((file, line, column)) = &self.skip else {
            return false;
        };
        let place = ptr::from_ref(at).cast();
        let (last, same) = self.last.get();
        if last == place {
            return same;
        }
        let same = at.line() == *line && at.column() == *column && at.file() == file;
        self.last.set((place, same));
        same
    }

    /// Notes a part of a call.
    pub(crate) fn pass(&self, part: Part, at: At) {
        let Some(mut sites) = self.sites.as_ref() else { return };
        let mut noted = NOTED.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.get_or_insert_default().insert((part, ptr::from_ref(at).addr())) {
            // A list that lacks a line is seen by whoever reads it; a run does not fail for it.
            let _ = sites.write_all(format!("{} {at}\n", part.name()).as_bytes());
        }
    }
}

fn parse(place: &str) -> Option<(String, u32, u32)> {
    let (rest, column) = place.rsplit_once(':')?;
    let (file, line) = rest.rsplit_once(':')?;
    Some((file.to_owned(), line.parse().ok()?, column.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::Location;

    #[test]
    fn one_place_is_left_out() {
        let (here, there) = (Location::caller(), Location::caller());
        let cut = Cut {
            skip: parse(&here.to_string()),
            last: Cell::new((ptr::null(), false)),
            sites: None,
        };
        for _ in 0..2 {
            assert!(cut.leaves_out(here) && !cut.leaves_out(there));
        }
        assert_eq!(parse("src/lib.rs:7"), None);
    }
}
