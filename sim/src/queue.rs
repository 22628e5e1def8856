//! Which lanes of a launch can run, and which wait for memory to change.

use crate::choices::{Choices, Sequence};
use crate::memory;
use crate::rng::{Rng, below};
use shmem::hook::Watch;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// A warp of a resident block: lanes become ready, and are run, by warps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WarpId {
    pub(crate) slot: u32,
    pub(crate) warp: u32,
}

/// A lane that has paused.
#[derive(Clone, Copy)]
pub(crate) struct Paused {
    pub(crate) slot: u32,
    pub(crate) thread: u32,
    /// The word it waits for, as it was; None where a closure decides, or several words do.
    word: Option<Word>,
    /// It looked at the clock: time alone may let it go on.
    pub(crate) reads_clock: bool,
}

#[derive(Clone, Copy)]
struct Word {
    address: u64,
    bytes: u32,
    seen: u128,
}

impl Paused {
    pub(crate) fn new(slot: u32, thread: u32, watch: &Watch, reads_clock: bool) -> Self {
        // A counter has a second half, which only adapters add to.
        let bytes = match watch.bytes {
            8 if watch.address.is_multiple_of(16) => 16,
            bytes => bytes,
        };
        let word = (watch.address != 0 && watch.count == 1).then(|| Word {
            address: watch.address,
            bytes,
            // SAFETY: a watched word is live as long as its lane waits, and so is the rest of 16 bytes that are aligned.
            seen: unsafe { memory::load(watch.address, bytes) },
        });
        Self {
            slot,
            thread,
            word,
            reads_clock: reads_clock && word.is_none(),
        }
    }

    /// Whether more than one word decides.
    pub(crate) fn on_closure(&self) -> bool {
        self.word.is_none()
    }

    /// Whether what it waits for may have come. The word's bits are compared with what they were, not with what the lane
    /// wants: only the lane knows whether they are signed.
    fn may_go_on(&self) -> bool {
        self.word.is_none_or(|w| {
            // SAFETY: as in `new`.
            let now = unsafe { memory::load(w.address, w.bytes) };
            now != w.seen
        })
    }
}

/// Shared by a launch and its blocks.
pub(crate) struct Queue {
    rng: Rng,
    choices: Rc<Choices>,
    ready: RefCell<VecDeque<WarpId>>,
    paused: RefCell<Vec<Paused>>,
}

impl Queue {
    pub(crate) fn new(rng: Rng, choices: &Rc<Choices>) -> Self {
        Self {
            rng,
            choices: Rc::clone(choices),
            ready: RefCell::default(),
            paused: RefCell::default(),
        }
    }

    pub(crate) fn push(&self, warp: WarpId) {
        self.ready.borrow_mut().push_back(warp);
    }

    /// Takes one of the ready warps, with the draw that chose it and how many stood in line before it: the first, with
    /// None, where the choice is to be plain. Draws nothing where none is ready: how often the scheduler looks in vain
    /// depends on the hosts.
    pub(crate) fn pick(&self) -> Option<(WarpId, Option<u64>, usize)> {
        let mut ready = self.ready.borrow_mut();
        if ready.is_empty() {
            return None;
        }
        let draw = self.choose(Sequence::Warps);
        let i = draw.map_or(0, |draw| below(draw, ready.len()));
        let warp = if i == 0 {
            ready.pop_front()
        } else {
            ready.swap_remove_back(i)
        };
        Some((warp?, draw, i))
    }

    /// The draw of a decision of this launch; None where it is to be plain.
    pub(crate) fn choose(&self, sequence: Sequence) -> Option<u64> {
        self.rng.choose(&self.choices, sequence)
    }

    /// Says what the decision just made came to.
    pub(crate) fn note(&self, text: impl FnOnce() -> String) {
        self.choices.note(text);
    }

    pub(crate) fn pause(&self, lane: Paused) {
        self.paused.borrow_mut().push(lane);
    }

    /// Whether this lane is the one that has paused last.
    pub(crate) fn paused_last(&self, slot: u32, thread: u32) -> bool {
        self.paused
            .borrow()
            .last()
            .is_some_and(|lane| (lane.slot, lane.thread) == (slot, thread))
    }

    /// Takes the lanes that a change of memory may have let go on; hands each to `wake`.
    pub(crate) fn wake_changed(&self, mut wake: impl FnMut(Paused)) {
        self.paused.borrow_mut().retain(|lane| {
            let go = lane.may_go_on();
            if go {
                wake(*lane);
            }
            !go
        });
    }

    /// Takes all paused lanes, in the order in which they paused.
    pub(crate) fn take_paused(&self) -> Vec<Paused> {
        self.paused.take()
    }
}
