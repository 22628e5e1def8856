//! What breaks, as a test asks for it.

use crate::clock::TICK_NS;
use crate::rng::{Rng, below};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// Something that breaks in a world. The same seed breaks it in the same way.
///
/// Operations are counted from 1: each lane's share of a put or get, each p, g, signal and atomic; over
/// [`Path::Ibgda`](crate::Path::Ibgda) each doorbell.
///
/// ```
/// use shmem::prelude::*;
/// let killed = shmem_sim::Sim::new(2).fault(shmem_sim::Fault::Kill { pe: 1, at: 1 }).run(|| {
///     let ready = shmem_sim::signals(1).at(0);
///     shmem::signal_op(ready.set(1), 1 - shmem::my_pe());
///     shmem::wait_until(Thread, ready, eq(1));
/// });
/// assert!(killed.unwrap_err().to_string().starts_with("PE 1 failed: killed at its operation 1"));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// A PE dies at one of its operations: its lanes end, and every PE gets [`Failure::PeerFailed`](crate::Failure).
    Kill {
        /// Which.
        pe: u32,
        /// The operation's number.
        at: u64,
    },
    /// Nothing that is issued on a link takes effect, from one of its operations on.
    Freeze {
        /// Which.
        link: Link,
        /// The operation's number among those of a PE to another.
        at: u64,
    },
    /// What goes over a link takes longer.
    Slow {
        /// Which.
        link: Link,
        /// How much.
        by: Delay,
    },
    /// The NIC reports an error for one of a PE's operations: it takes no effect, and whoever comes to the PE's next quiet,
    /// fence or flush of its context, or to a wait, meets a fault of
    /// [`FaultKind::Network`](shmem::fault::FaultKind::Network).
    Error {
        /// Which.
        pe: u32,
        /// The operation's number.
        at: u64,
    },
    /// The network adapter of a PE is cut off at one of its operations, or from the start where that is 0: what goes to or
    /// from it is lost, and comes back as an error after all retries. Only over [`Path::Ibgda`](crate::Path::Ibgda).
    CutOff {
        /// Whose.
        pe: u32,
        /// The operation's number.
        at: u64,
    },
    /// A store of a PE's lanes to the memory of its adapter's queues is lost: stands for code that forgets to write a part of
    /// an entry, or the record before the register. Only over [`Path::Ibgda`](crate::Path::Ibgda).
    LoseStore {
        /// Whose.
        pe: u32,
        /// The store's number, from 1: each unit of 16 bytes of an entry, each record.
        at: u64,
    },
    /// A bit of what a put or p carries is flipped, for kernels that check sums.
    FlipBit {
        /// Of which.
        link: Link,
        /// In which of them.
        when: When,
    },
}

/// From where to where; None is every PE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// The PE that issues.
    pub from: Option<u32>,
    /// The PE that it reaches.
    pub to: Option<u32>,
}

impl Link {
    /// Every link.
    pub const ALL: Self = Self { from: None, to: None };

    /// From one PE to another.
    pub const fn new(from: u32, to: u32) -> Self {
        Self {
            from: Some(from),
            to: Some(to),
        }
    }

    fn is(self, from: u32, to: u32) -> bool {
        self.from.is_none_or(|pe| pe == from) && self.to.is_none_or(|pe| pe == to)
    }
}

/// How much longer an operation takes, in simulated nanoseconds; one switch of lanes takes 10.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Delay {
    /// Always this.
    Fixed(u64),
    /// Each from the first up to the second as often.
    Uniform(u64, u64),
    /// Exponential, of this mean.
    Exponential(f64),
}

/// Which operations a fault hits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// The one of this number, of a PE to another.
    At(u64),
    /// Each with this probability.
    Rate(f64),
}

/// The faults of a world, and what they count.
pub(crate) struct Faults {
    list: Vec<Fault>,
    rng: Rng,
    /// Operations by PE.
    issued: RefCell<HashMap<u32, u64>>,
    /// Operations by link.
    sent: RefCell<HashMap<(u32, u32), u64>>,
    /// Errors that no one has met: PE, context, text.
    errors: RefCell<Vec<(u32, u32, u32, String)>>,
    /// What becomes of the operation that is being issued.
    now: Cell<Hit>,
}

/// What becomes of an operation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hit {
    pub(crate) fate: Fate,
    pub(crate) flip: Option<u64>,
    pub(crate) delay_ns: u64,
    /// Its number among those of its PE.
    pub(crate) number: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fate {
    #[default]
    Fine,
    /// It never takes effect.
    Frozen,
    /// It takes no effect, and is reported.
    Error,
    /// Its first piece has been reported.
    Reported,
    /// Its PE dies of it.
    Death,
    /// It is the first that its PE's adapter can't send.
    CutOff,
}

/// What becomes of a doorbell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rung {
    Fine,
    /// The adapter does not hear it.
    Frozen,
    /// The adapter gives up what was posted.
    Failed,
    /// The adapter is cut off first.
    CutOff,
}

/// A number from 0 to 1.
fn fraction(draw: u64) -> f64 {
    (draw >> 11) as f64 / (1u64 << 53) as f64
}

impl Delay {
    fn draw(self, rng: &Rng) -> u64 {
        match self {
            Self::Fixed(ns) => ns,
            Self::Uniform(a, b) => a + below(rng.next(), b.saturating_sub(a) as usize + 1) as u64,
            Self::Exponential(mean) => (-mean * (1.0 - fraction(rng.next())).ln()) as u64,
        }
    }
}

impl Faults {
    pub(crate) fn new(list: Vec<Fault>, rng: Rng) -> Self {
        Self {
            list,
            rng,
            issued: RefCell::default(),
            sent: RefCell::default(),
            errors: RefCell::default(),
            now: Cell::default(),
        }
    }

    pub(crate) fn any(&self) -> bool {
        !self.list.is_empty()
    }

    /// Counts an operation that is about to be issued.
    pub(crate) fn count(&self, from: u32, to: u32) -> Hit {
        let count = |n: &mut u64| {
            *n += 1;
            *n
        };
        let number = count(self.issued.borrow_mut().entry(from).or_default());
        let on_link = count(self.sent.borrow_mut().entry((from, to)).or_default());
        let mut hit = Hit {
            number,
            ..Hit::default()
        };
        for fault in &self.list {
            match *fault {
                Fault::Kill { pe, at } if pe == from && at == number => hit.fate = Fate::Death,
                Fault::Error { pe, at } if pe == from && at == number => hit.fate = Fate::Error,
                Fault::CutOff { pe, at } if pe == from && at == number => hit.fate = Fate::CutOff,
                Fault::Freeze { link, at } if link.is(from, to) && on_link >= at => hit.fate = Fate::Frozen,
                Fault::Slow { link, by } if link.is(from, to) => hit.delay_ns += by.draw(&self.rng).min(1 << 40),
                Fault::FlipBit { link, when } if link.is(from, to) => {
                    let hits = match when {
                        When::At(n) => n == on_link,
                        When::Rate(rate) => fraction(self.rng.next()) < rate,
                    };
                    if hits {
                        hit.flip = Some(self.rng.next());
                    }
                }
                _ => {}
            }
        }
        self.now.set(hit);
        hit
    }

    /// What was found for the operation that is being issued. What happens once is told to the first of its pieces.
    pub(crate) fn take_hit(&self) -> Hit {
        let hit = self.now.get();
        let fate = if hit.fate == Fate::Error {
            Fate::Reported
        } else {
            hit.fate
        };
        self.now.set(Hit {
            fate,
            flip: None,
            ..hit
        });
        hit
    }

    /// What was found for the doorbell that is being rung.
    pub(crate) fn rung(&self) -> Rung {
        match self.now.get().fate {
            Fate::Frozen => Rung::Frozen,
            Fate::Error | Fate::Reported => Rung::Failed,
            Fate::CutOff => Rung::CutOff,
            Fate::Fine | Fate::Death => Rung::Fine,
        }
    }

    /// Whether a link is frozen for what comes next.
    pub(crate) fn frozen(&self, from: u32, to: u32) -> bool {
        let sent = self.sent.borrow().get(&(from, to)).copied().unwrap_or(0);
        let frozen = |fault: &Fault| matches!(*fault, Fault::Freeze { link, at } if link.is(from, to) && sent >= at);
        self.list.iter().any(frozen)
    }

    pub(crate) fn add_error(&self, pe: u32, ctx: u32, to: u32, text: String) {
        self.errors.borrow_mut().push((pe, ctx, to, text));
    }

    /// The first error that a PE has not met, of a context or of any. Says which PE it was on the way to.
    pub(crate) fn take_error(&self, pe: u32, ctx: Option<u32>) -> Option<(u32, String)> {
        let mut errors = self.errors.borrow_mut();
        let is = |error: &(u32, u32, u32, String)| error.0 == pe && ctx.is_none_or(|ctx| ctx == error.1);
        let i = errors.iter().position(is)?;
        let (_, _, to, text) = errors.remove(i);
        Some((to, text))
    }
}

/// Flips one bit.
pub(crate) fn flip(bytes: &mut [u8], draw: u64) {
    if !bytes.is_empty() {
        let bit = below(draw, bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

const _: () = assert!(TICK_NS == 10, "the documentation of Delay says so");
