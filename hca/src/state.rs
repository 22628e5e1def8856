//! What the fabric knows: adapters, queue pairs, completion queues.

use crate::decode::{Pointer, Request};
use crate::firmware::Capabilities;
use crate::identity::Link;
use crate::keys::Key;
use crate::memory::Place;
use crate::setup::Permissions;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// An adapter of the fabric.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Adapter(pub(crate) usize);

impl Adapter {
    /// Its number, in the order they were made.
    pub fn number(self) -> usize {
        self.0
    }
}

/// A page of an adapter's registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Page {
    pub(crate) adapter: usize,
    pub(crate) number: u32,
}

impl Page {
    /// Its number at its adapter.
    pub fn number(self) -> u32 {
        self.number
    }
}

/// A protection domain: keys serve the queue pairs of theirs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Domain {
    pub(crate) adapter: usize,
    pub(crate) number: u32,
}

impl Domain {
    /// Its number at its adapter: what commands say.
    pub fn number(self) -> u32 {
        self.number
    }
}

/// A completion queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct CompletionQueue(pub(crate) usize);

/// A queue pair.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct QueuePair {
    pub(crate) adapter: usize,
    pub(crate) number: u32,
}

impl QueuePair {
    /// Its number at its adapter: what entries and the register say.
    pub fn number(self) -> u32 {
        self.number
    }

    /// Its adapter.
    pub fn adapter(self) -> Adapter {
        Adapter(self.adapter)
    }
}

/// States of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum State {
    /// Made.
    Reset,
    /// Has its permissions.
    Init,
    /// Knows its target, takes requests.
    ReadyToReceive,
    /// Sends.
    ReadyToSend,
    /// Failed: gives up what is posted.
    Error,
}

#[derive(Debug, Default)]
pub(crate) struct AdapterState {
    pub(crate) domains: u32,
    pub(crate) keys: FxHashMap<u32, Key>,
    pub(crate) made_keys: u32,
    /// Where each page lies in memory, if it does.
    pub(crate) pages: Vec<Option<Place>>,
    pub(crate) queue_pairs: FxHashMap<u32, usize>,
    pub(crate) made_queue_pairs: u32,
    /// Memory that commands name, by number.
    pub(crate) umems: FxHashMap<u32, (Place, u64)>,
    pub(crate) made_umems: u32,
    pub(crate) link: Link,
    pub(crate) capabilities: Capabilities,
    pub(crate) reachable: bool,
}

/// A queue of blocks or completions in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring {
    pub(crate) start: Place,
    pub(crate) log2: u8,
}

impl Ring {
    pub(crate) fn size(self) -> u64 {
        1 << self.log2
    }

    /// Where the 64 bytes of `position` are.
    pub(crate) fn slot(self, position: u64) -> Place {
        self.start.after((position & (self.size() - 1)) * 64)
    }
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "how it was made, and how it is")]
pub(crate) struct Cq {
    pub(crate) adapter: usize,
    pub(crate) ring: Ring,
    pub(crate) record: Place,
    pub(crate) collapsed: bool,
    pub(crate) ignore_overrun: bool,
    pub(crate) produced: u64,
    pub(crate) overrun: bool,
    pub(crate) gone: bool,
}

/// What both ends of a connection must have set alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Agreed {
    /// Code of a packet's bytes.
    pub(crate) mtu: u8,
    /// Log2 of the reads and atomics that this end takes at once.
    pub(crate) log_reads: u8,
    /// Number of the first packet that is received.
    pub(crate) first_received: u32,
    /// Number of the first packet that is sent.
    pub(crate) first_sent: u32,
}

/// How far an entry is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// Nothing, or this many bytes, arrived at the target.
    Sending(u64),
    /// A read that the target has: bytes fetched so far, and bytes that are back.
    Reading { fetched: u64, landed: u64 },
    /// An atomic that was done: its old value is on the way back.
    Answered,
    /// Done as far as the sender knows.
    Acknowledged,
    /// Failed: syndrome, vendor syndrome.
    Failed(u8, u8),
}

/// An entry that was fetched and is not reported yet.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) position: u64,
    pub(crate) blocks: u16,
    pub(crate) opcode: u8,
    /// None where the entry could not be read.
    pub(crate) request: Option<Request>,
    /// As it was fetched.
    pub(crate) copy: Vec<u8>,
    pub(crate) progress: Progress,
    pub(crate) tries: u32,
}

/// Bytes that are on their way to memory.
#[derive(Debug)]
pub(crate) struct Landing {
    pub(crate) position: u64,
    pub(crate) place: Place,
    pub(crate) bytes: Vec<u8>,
    pub(crate) relaxed: bool,
}

#[derive(Debug)]
pub(crate) struct Qp {
    pub(crate) id: QueuePair,
    pub(crate) domain: u32,
    pub(crate) page: u32,
    pub(crate) ring: Ring,
    pub(crate) record: Place,
    pub(crate) completions: usize,
    pub(crate) state: State,
    pub(crate) permissions: Permissions,
    pub(crate) target: Option<usize>,
    pub(crate) retries: u32,
    pub(crate) max_reads: usize,
    pub(crate) agreed: Agreed,
    /// Nothing that was posted later is looked at: an entry or doorbell was wrong.
    pub(crate) stopped: bool,
    /// Position of the next entry to fetch.
    pub(crate) fetched: u64,
    /// Up to here completions told that blocks are free.
    pub(crate) reported: u64,
    /// Up to here blocks were made unreadable again.
    pub(crate) poisoned: u64,
    pub(crate) poison: [u8; 16],
    pub(crate) works: VecDeque<Work>,
    /// How many of `works` are past [`Progress::Sending`], or failed.
    pub(crate) sent: usize,
    /// Writes that arrived at the target, oldest first.
    pub(crate) landings: VecDeque<Landing>,
    /// Answers that arrived here, oldest first.
    pub(crate) answers: VecDeque<Landing>,
    /// Ended: only its place is left.
    pub(crate) gone: bool,
    /// Register values that were seen by polling.
    pub(crate) polled: [[u8; 8]; 2],
}

impl Qp {
    /// The memory of a local pointer from `offset` on: pieces of it, with what is left of each.
    pub(crate) fn spread(pointers: &[Pointer], mut offset: u64, mut bytes: u64) -> Vec<Pointer> {
        let mut parts = Vec::new();
        for pointer in pointers {
            let here = u64::from(pointer.bytes);
            if offset >= here {
                offset -= here;
                continue;
            }
            let take = (here - offset).min(bytes);
            if take == 0 {
                break;
            }
            parts.push(Pointer {
                address: pointer.address.wrapping_add(offset),
                bytes: take as u32,
                key: pointer.key,
            });
            (offset, bytes) = (0, bytes - take);
        }
        parts
    }
}
