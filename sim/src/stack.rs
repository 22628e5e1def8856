//! Stacks of lanes: carved from a few large mappings, used again by every later lane.
//!
//! What lies below a stack, so that an overflow is found:
//!
//! | guard | when | costs | an overflow |
//! |---|---|---|---|
//! | light guard page | Linux 6.13 and later | nothing | ends the kernel at once ([`overflow`](crate::overflow)) |
//! | protected page | else, for the first 8192 stacks of the process | two of the process's 65530 mappings | the same |
//! | red zone | else, with one protected page below each mapping | one look at each switch | is seen at the lane's next switch, when it has damaged a neighbour |
//!
//! Each stack has 256 KiB of address space, or what `SHMEM_SIM_STACK` says; a page of it costs memory once it is used. Its
//! lowest 32 KiB are for what the lane's calls do on it: a call that begins down there ends the lane instead, with any guard.

use crate::config::SimError;
use crate::memory::Mapping;
use corosensei::stack::{Stack, StackPointer};
use rustix::mm::{Advice, MprotectFlags, madvise, mprotect};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

const DEFAULT_BYTES: usize = 256 << 10;
const LEAST_BYTES: usize = 64 << 10;
const MOST_BYTES: usize = 1 << 30;
/// What a call has. In this crate's tests calls took up to 12 KiB, and 16 KiB where it was not optimized.
const FOR_CALLS: usize = 32 << 10;
/// Stacks that get their guards together; a mapping holds a multiple of them.
const AT_ONCE: usize = 64;
const FIRST_POOL: usize = AT_ONCE;
const LARGEST_POOL: usize = 4096;
/// Words at the low end of a stack without a guard: zero unless the stack has overflowed.
const RED_ZONE: usize = 8;

/// Protected pages that all pools of the process may have together; leaves most of the mappings to others.
static PROTECTED_LEFT: AtomicUsize = AtomicUsize::new(8192);

/// Pools of worlds that have ended: making one takes longer than running a small kernel.
static KEPT: Mutex<Vec<StackPool>> = Mutex::new(Vec::new());
/// As many as worlds run side by side, mostly.
const MOST_KEPT: usize = 8;
/// A pool with more mappings is not kept: its stacks have pages of memory.
const MOST_MAPS: usize = 5;

/// One lane's stack. Copies are the same stack: the pool hands each out once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneStack {
    base: usize,
    limit: usize,
    guarded: bool,
}

impl LaneStack {
    /// False once the lane has written below its stack.
    pub(crate) fn intact(self) -> bool {
        self.guarded || {
            let zone = self.limit as *const u64;
            // SAFETY: the lowest words of the mapping that the stack lies in. Only the lane writes there, which does not run now.
            (0..RED_ZONE).all(|i| unsafe { zone.add(i).read_volatile() } == 0)
        }
    }

    /// From here down there is no room for what a call does.
    pub(crate) fn low(self) -> usize {
        self.limit + page_bytes() + FOR_CALLS
    }

    /// Whether an access to this address is what an overflow does.
    pub(crate) fn guard_holds(self, address: usize) -> bool {
        self.guarded && (self.limit..self.limit + page_bytes()).contains(&address)
    }
}

// SAFETY: base and limit are those of a mapping that lives until the pool is dropped, after every lane. Where there is no
// guard page, the red zone finds the overflow late; the crate's documentation says so.
unsafe impl Stack for LaneStack {
    fn base(&self) -> StackPointer {
        StackPointer::new(self.base).expect("a mapping does not start at 0")
    }

    fn limit(&self) -> StackPointer {
        StackPointer::new(self.limit).expect("a mapping does not start at 0")
    }
}

/// How stacks are told apart from what lies below them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    Light,
    Protected,
    RedZone,
}

/// All stacks of one simulator.
pub(crate) struct StackPool {
    bytes: usize,
    best: Guard,
    maps: Vec<Mapping>,
    free: Vec<LaneStack>,
    /// Stacks that the last mapping has room for.
    in_last: usize,
    /// How many of them have their guards.
    carved: usize,
    /// Its share of [`PROTECTED_LEFT`].
    protected: usize,
}

impl StackPool {
    /// # Errors
    /// `SHMEM_SIM_STACK` is not a size.
    pub(crate) fn from_env() -> Result<Self, SimError> {
        let bytes = std::env::var("SHMEM_SIM_STACK").map_or(Ok(DEFAULT_BYTES), checked_size)?;
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let old = kept.iter().position(|pool| pool.bytes == bytes);
        Ok(old.map_or_else(|| Self::new(bytes, Guard::Light), |old| kept.swap_remove(old)))
    }

    /// Leaves the stacks to a later world; no lane uses one any more, and none has written below its own.
    pub(crate) fn keep(self) {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MOST_KEPT && (1..=MOST_MAPS).contains(&self.maps.len()) {
            kept.push(self);
        }
    }

    pub(crate) fn new(bytes: usize, best: Guard) -> Self {
        let bytes = bytes.next_multiple_of(page_bytes());
        Self {
            bytes,
            best,
            maps: Vec::new(),
            free: Vec::new(),
            in_last: 0,
            carved: 0,
            protected: 0,
        }
    }

    pub(crate) fn take(&mut self) -> Result<LaneStack, SimError> {
        if self.free.is_empty() {
            self.carve()?;
        }
        Ok(self.free.pop().expect("a pool holds stacks"))
    }

    /// Gives a stack back; the last one given back is the next one taken, while it is still in the cache.
    pub(crate) fn give_back(&mut self, stack: LaneStack) {
        self.free.push(stack);
    }

    /// Takes the next ones of the last mapping. Only now they get their guards: each costs a call to the system, and a part of
    /// a page table.
    fn carve(&mut self) -> Result<(), SimError> {
        let stride = self.bytes + page_bytes();
        let start = match self.maps.last() {
            Some(map) if self.carved < self.in_last => map.start(),
            _ => self.grow(stride)?,
        };
        for i in (self.carved..self.carved + AT_ONCE).rev() {
            let limit = start as usize + i * stride;
            // Whatever is left of guards, what lies below the mapping belongs to someone else.
            let guarded = self.guard(limit) || i == 0 && protect(limit);
            self.free.push(LaneStack {
                base: limit + stride,
                limit,
                guarded,
            });
        }
        self.carved += AT_ONCE;
        Ok(())
    }

    /// Maps twice as many as the last time.
    fn grow(&mut self, stride: usize) -> Result<*mut u8, SimError> {
        let n = (self.in_last * 2).clamp(FIRST_POOL, LARGEST_POOL);
        let map = Mapping::new(n * stride, "lane stacks")?;
        let start = map.start();
        // SAFETY: the whole mapping just made. Advice only: a huge page would back several stacks that use 4 KiB each.
        let _ = unsafe { madvise(start.cast(), n * stride, Advice::LinuxNoHugepage) };
        self.maps.push(map);
        (self.in_last, self.carved) = (n, 0);
        Ok(start)
    }

    /// Guards the page at `limit` in the best way that the system has left, and remembers what it has not.
    fn guard(&mut self, limit: usize) -> bool {
        if self.best == Guard::Light {
            let page = limit as *mut libc::c_void;
            // SAFETY: the lowest page of a stack that no lane has used.
            if unsafe { libc::madvise(page, page_bytes(), MADV_GUARD_INSTALL) } == 0 {
                return true;
            }
            self.best = Guard::Protected;
        }
        if self.best == Guard::Protected {
            let left = PROTECTED_LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
            if left.is_ok() {
                self.protected += 1;
                if protect(limit) {
                    return true;
                }
            }
            self.best = Guard::RedZone;
        }
        false
    }
}

impl Drop for StackPool {
    fn drop(&mut self) {
        PROTECTED_LEFT.fetch_add(self.protected, Ordering::Relaxed);
    }
}

/// Takes all access from the page at `limit`, the lowest of a stack that no lane has used.
fn protect(limit: usize) -> bool {
    let page = limit as *mut libc::c_void;
    // SAFETY: part of a mapping of the pool, and no lane's yet.
    unsafe { mprotect(page, page_bytes(), MprotectFlags::empty()) }.is_ok()
}

/// Linux 6.13; the libc crate has no name for it yet.
const MADV_GUARD_INSTALL: libc::c_int = 102;

pub(crate) fn page_bytes() -> usize {
    rustix::param::page_size()
}

fn checked_size(value: String) -> Result<usize, SimError> {
    parse_size(&value)
        .filter(|n| (LEAST_BYTES..=MOST_BYTES).contains(n))
        .ok_or(SimError::Environment {
            variable: "SHMEM_SIM_STACK",
            value,
            wanted: "bytes of a lane's stack, 64K to 1024M, as 131072, 128K or 1M",
        })
}

fn parse_size(text: &str) -> Option<usize> {
    let (number, unit) = match text.strip_suffix(['K', 'k']) {
        Some(number) => (number, 1 << 10),
        None => match text.strip_suffix(['M', 'm']) {
            Some(number) => (number, 1 << 20),
            None => (text, 1),
        },
    };
    number.parse::<usize>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(parse_size("131072"), Some(131_072));
        assert_eq!(parse_size("128K"), Some(131_072));
        assert_eq!(parse_size("1m"), Some(1 << 20));
        assert_eq!(parse_size("much"), None);
    }

    #[test]
    fn sizes_have_limits() {
        assert_eq!(checked_size("1024M".to_owned()).unwrap(), MOST_BYTES);
        for bad in ["18446744073709551615", "1025M", "1K", "x"] {
            let text = checked_size(bad.to_owned()).unwrap_err().to_string();
            assert!(
                text.starts_with(&format!("SHMEM_SIM_STACK={bad} can't be used: ")) && text.contains("64K to 1024M"),
                "{text}"
            );
        }
    }

    #[test]
    fn every_stack_is_handed_out_once() {
        let mut pool = StackPool::new(LEAST_BYTES, Guard::Light);
        let mut stacks: Vec<_> = (0..200).map(|_| pool.take().unwrap()).collect();
        stacks.sort_by_key(|s| s.limit);
        assert!(stacks.windows(2).all(|w| w[0].base <= w[1].limit));
        let maps = pool.maps.len();
        for stack in stacks {
            pool.give_back(stack);
        }
        for _ in 0..200 {
            pool.take().unwrap();
        }
        assert_eq!(pool.maps.len(), maps, "stacks that came back are used again");
    }

    #[test]
    fn a_protected_page_is_a_guard() {
        let mut pool = StackPool::new(LEAST_BYTES, Guard::Protected);
        let stack = pool.take().unwrap();
        assert!(stack.guarded);
        assert!(stack.guard_holds(stack.limit + 8) && !stack.guard_holds(stack.base - 8));
    }

    #[test]
    fn the_red_zone_shows_what_was_written_below_a_stack() {
        let mut pool = StackPool::new(LEAST_BYTES, Guard::RedZone);
        assert!(pool.take().unwrap().guarded, "the lowest has the mapping's guard");
        let stack = pool.take().unwrap();
        assert!(!stack.guarded && stack.intact());
        // SAFETY: inside the mapping.
        unsafe { ((stack.limit + 16) as *mut u64).write(7) };
        assert!(!stack.intact());
    }
}
