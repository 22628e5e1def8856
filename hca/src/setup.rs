//! What is made of adapters: pages, domains, keys, queues, connections.

use crate::fabric::Fabric;
use crate::keys::{Access, Key};
use crate::memory::{Memory, Place, Unmapped};
use crate::rng::mix;
use crate::state::{Adapter, AdapterState, Agreed, CompletionQueue, Cq, Domain, Page, Qp, QueuePair, Ring, State};
use crate::tables::{BLOCK, UNIT, completion, kind};
use std::collections::VecDeque;

/// What the set-up can't do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// Handles of different adapters.
    #[error("{what} belongs to adapter {seen}, not {expected}")]
    OtherAdapter {
        /// Which argument.
        what: &'static str,
        /// Where it belongs.
        seen: usize,
        /// Where it is to be used.
        expected: usize,
    },
    /// A handle of another fabric.
    #[error("no such {0} in this fabric")]
    Unknown(&'static str),
    /// A queue's size.
    #[error("2^{log2} {what}: at most 2^{max}")]
    Size {
        /// Of what.
        what: &'static str,
        /// Asked for.
        log2: u8,
        /// Possible.
        max: u8,
    },
    /// A place that is not aligned.
    #[error("{what} at {address:#x}: align it to {align}")]
    Alignment {
        /// Of what.
        what: &'static str,
        /// Asked for.
        address: u64,
        /// Needed.
        align: u64,
    },
    /// A slot of a completion queue that doesn't say that nothing was written to it.
    #[error("slot {slot} of the completion queue holds kind {kind}: fill the queue with 0xf0 or 0xff first")]
    NotInvalid {
        /// Which.
        slot: u64,
        /// Its kind of completion.
        kind: u8,
    },
    /// A queue pair that is not in the state before the one asked for.
    #[error("the queue pair is in state {seen:?}; this takes {expected:?}")]
    State {
        /// It is in.
        seen: State,
        /// It must be in.
        expected: State,
    },
    /// A setting of the connection.
    #[error("{what} of {seen}: 0 to {max}")]
    Setting {
        /// Which.
        what: &'static str,
        /// Asked for.
        seen: u32,
        /// Possible.
        max: u32,
    },
    /// Memory without bytes.
    #[error("a {0} of no bytes")]
    Empty(&'static str),
    /// Something that others still need.
    #[error("the {0} is in use: end first what uses it")]
    InUse(&'static str),
    /// Memory of a queue.
    #[error(transparent)]
    Unmapped(#[from] Unmapped),
}

/// How a completion queue is made.
#[derive(Clone, Copy, Debug)]
pub struct CompletionQueueConfig {
    /// Its slots of 64 bytes, 64-byte aligned; each holds kind 15 (0xf0 or 0xff in its last byte).
    pub start: Place,
    /// Log2 of the slots.
    pub log2: u8,
    /// Its record: the first 4 bytes are the count of completions that were taken. 8-byte aligned.
    pub record: Place,
    /// Every completion goes to slot 0.
    pub collapsed: bool,
    /// Completions may overwrite ones that were not taken.
    pub ignore_overrun: bool,
}

/// How a queue pair is made.
#[derive(Clone, Copy, Debug)]
pub struct QueuePairConfig {
    /// Whose keys it may use.
    pub domain: Domain,
    /// Where its register is.
    pub page: Page,
    /// Its blocks of 64 bytes, 64-byte aligned.
    pub start: Place,
    /// Log2 of the blocks.
    pub log2: u8,
    /// Its record: the second 4 bytes are the send queue's. 8-byte aligned.
    pub record: Place,
    /// Where its completions go.
    pub completions: CompletionQueue,
}

/// How a queue pair is connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection {
    /// The other end's adapter.
    pub adapter: Adapter,
    /// The other end's number.
    pub queue_pair: u32,
    /// Tries after the first, 0 to 7.
    pub retries: u32,
    /// Reads and atomics in flight, 1 to 128.
    pub max_reads: u32,
}

/// What others may do to a queue pair's memory, through it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Permissions {
    /// Read.
    pub read: bool,
    /// Write.
    pub write: bool,
    /// Do atomics.
    pub atomic: bool,
}

impl Permissions {
    /// All of them.
    pub const ALL: Self = Self {
        read: true,
        write: true,
        atomic: true,
    };
}

fn aligned(what: &'static str, place: Place, align: u64) -> Result<(), SetupError> {
    if place.address.is_multiple_of(align) {
        return Ok(());
    }
    Err(SetupError::Alignment {
        what,
        address: place.address,
        align,
    })
}

fn size(what: &'static str, log2: u8, max: u8) -> Result<(), SetupError> {
    if log2 <= max {
        Ok(())
    } else {
        Err(SetupError::Size { what, log2, max })
    }
}

impl<M: Memory> Fabric<M> {
    /// Makes an adapter.
    pub fn add_adapter(&mut self) -> Adapter {
        self.adapters.push(AdapterState {
            reachable: true,
            ..AdapterState::default()
        });
        Adapter(self.adapters.len() - 1)
    }

    /// Cuts an adapter off, or connects it again: what goes there is lost.
    pub fn set_reachable(&mut self, adapter: Adapter, reachable: bool) {
        if let Some(adapter) = self.adapters.get_mut(adapter.0) {
            adapter.reachable = reachable;
        }
    }

    pub(crate) fn adapter(&mut self, number: usize) -> Result<&mut AdapterState, SetupError> {
        self.adapters.get_mut(number).ok_or(SetupError::Unknown("adapter"))
    }

    /// Makes a page of registers; at `place` if it is to be polled there.
    ///
    /// # Errors
    /// [`SetupError::Unknown`], [`SetupError::Alignment`].
    pub fn add_page(&mut self, adapter: Adapter, place: Option<Place>) -> Result<Page, SetupError> {
        if let Some(place) = place {
            aligned("page of registers", place, crate::tables::PAGE)?;
        }
        let pages = &mut self.adapter(adapter.0)?.pages;
        pages.push(place);
        Ok(Page {
            adapter: adapter.0,
            number: pages.len() as u32 - 1,
        })
    }

    /// Makes a protection domain.
    ///
    /// # Errors
    /// [`SetupError::Unknown`].
    pub fn add_domain(&mut self, adapter: Adapter) -> Result<Domain, SetupError> {
        let state = self.adapter(adapter.0)?;
        state.domains += 1;
        Ok(Domain {
            adapter: adapter.0,
            number: state.domains,
        })
    }

    /// Makes a key for `bytes` at `memory`, which entries address from `start` on. Returns the key: of its 32 bits the
    /// lowest 8 are `variant`.
    ///
    /// # Errors
    /// [`SetupError::Unknown`].
    pub fn add_key(
        &mut self,
        domain: Domain,
        variant: u8,
        start: u64,
        bytes: u64,
        memory: Place,
        access: Access,
    ) -> Result<u32, SetupError> {
        let state = self.adapter(domain.adapter)?;
        state.made_keys += 1;
        // The lowest ones are reserved; and no two adapters have the same ones by accident only.
        let key = (state.made_keys + 0x10 + domain.adapter as u32 * 0x1000) << 8 | u32::from(variant);
        let entry = Key {
            domain: domain.number,
            access,
            start,
            bytes,
            memory,
        };
        state.keys.insert(key, entry);
        Ok(key)
    }

    /// Ends a key. What is on its way to memory arrives nevertheless.
    ///
    /// # Errors
    /// [`SetupError::Unknown`].
    pub fn remove_key(&mut self, domain: Domain, key: u32) -> Result<(), SetupError> {
        let gone = self.adapter(domain.adapter)?.keys.remove(&key);
        gone.map(|_| ()).ok_or(SetupError::Unknown("key"))
    }

    /// Makes a completion queue.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn add_completion_queue(
        &mut self,
        adapter: Adapter,
        config: CompletionQueueConfig,
    ) -> Result<CompletionQueue, SetupError> {
        self.adapter(adapter.0)?;
        size("completions", config.log2, 22)?;
        aligned("completion queue", config.start, BLOCK as u64)?;
        aligned("completion queue's record", config.record, 8)?;
        let ring = Ring {
            start: config.start,
            log2: config.log2,
        };
        self.memory.read(config.record, &mut [0; 4])?;
        for slot in 0..ring.size() {
            let mut bytes = [0; BLOCK];
            self.memory.read(ring.slot(slot), &mut bytes)?;
            let kind = completion::KIND.get(&bytes) as u8;
            if kind != kind::INVALID {
                return Err(SetupError::NotInvalid { slot, kind });
            }
        }
        self.completion_queues.push(Cq {
            adapter: adapter.0,
            ring,
            record: config.record,
            collapsed: config.collapsed,
            ignore_overrun: config.ignore_overrun,
            produced: 0,
            overrun: false,
            gone: false,
        });
        Ok(CompletionQueue(self.completion_queues.len() - 1))
    }

    /// Makes a queue pair, in state [`State::Reset`].
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn add_queue_pair(&mut self, adapter: Adapter, config: QueuePairConfig) -> Result<QueuePair, SetupError> {
        let completions = config.completions.0;
        let belongs = [
            ("protection domain", config.domain.adapter),
            ("page", config.page.adapter),
            (
                "completion queue",
                self.completion_queues
                    .get(completions)
                    .filter(|cq| !cq.gone)
                    .ok_or(SetupError::Unknown("completion queue"))?
                    .adapter,
            ),
        ];
        for (what, seen) in belongs {
            if seen != adapter.0 {
                return Err(SetupError::OtherAdapter {
                    what,
                    seen,
                    expected: adapter.0,
                });
            }
        }
        size("blocks", config.log2, 15)?;
        aligned("send queue", config.start, BLOCK as u64)?;
        aligned("queue pair's record", config.record, 8)?;
        self.memory.read(config.record, &mut [0; 8])?;
        let index = self.queue_pairs.len();
        let state = self.adapter(adapter.0)?;
        let number = 0x40 + state.made_queue_pairs * 3;
        let poison = [mix(index as u64 + 1), mix(!(index as u64))].map(u64::to_ne_bytes);
        let qp = Qp {
            id: QueuePair {
                adapter: adapter.0,
                number,
            },
            domain: config.domain.number,
            page: config.page.number,
            ring: Ring {
                start: config.start,
                log2: config.log2,
            },
            record: config.record,
            completions,
            state: State::Reset,
            permissions: Permissions::default(),
            target: None,
            retries: 0,
            max_reads: 1,
            agreed: Agreed::default(),
            stopped: false,
            fetched: 0,
            reported: 0,
            poisoned: 0,
            poison: std::array::from_fn(|i| poison[i / 8][i % 8]),
            works: VecDeque::new(),
            sent: 0,
            landings: VecDeque::new(),
            answers: VecDeque::new(),
            gone: false,
            polled: [[0; 8]; 2],
        };
        if self.config.watch {
            for slot in 0..qp.ring.size() {
                for unit in 0..BLOCK / UNIT {
                    self.memory
                        .write(qp.ring.slot(slot).after((unit * UNIT) as u64), &qp.poison)?;
                }
            }
        }
        let id = qp.id;
        let state = self.adapter(adapter.0)?;
        state.queue_pairs.insert(number, index);
        state.made_queue_pairs += 1;
        self.queue_pairs.push(qp);
        Ok(id)
    }

    fn expect(&mut self, id: QueuePair, expected: State) -> Result<&mut Qp, SetupError> {
        let index = self.find(id).ok_or(SetupError::Unknown("queue pair"))?;
        let qp = &mut self.queue_pairs[index];
        if qp.state != expected {
            return Err(SetupError::State {
                seen: qp.state,
                expected,
            });
        }
        Ok(qp)
    }

    /// From [`State::Reset`] to [`State::Init`].
    ///
    /// # Errors
    /// [`SetupError::Unknown`], [`SetupError::State`].
    pub fn init(&mut self, id: QueuePair, permissions: Permissions) -> Result<(), SetupError> {
        let qp = self.expect(id, State::Reset)?;
        qp.permissions = permissions;
        qp.state = State::Init;
        Ok(())
    }

    /// From [`State::Init`] to [`State::ReadyToReceive`].
    ///
    /// # Errors
    /// [`SetupError::Unknown`], [`SetupError::State`], [`SetupError::Setting`].
    pub fn ready_to_receive(&mut self, id: QueuePair, connection: Connection) -> Result<(), SetupError> {
        let setting = |what, seen, max| {
            if seen <= max {
                Ok(())
            } else {
                Err(SetupError::Setting { what, seen, max })
            }
        };
        setting("retries", connection.retries, 7)?;
        setting("reads in flight", connection.max_reads, 128)?;
        let target = QueuePair {
            adapter: connection.adapter.0,
            number: connection.queue_pair,
        };
        let target = self.find(target);
        if self.config.closed && target.is_none() {
            return Err(SetupError::Unknown("queue pair at the other end"));
        }
        let qp = self.expect(id, State::Init)?;
        qp.target = target;
        qp.retries = connection.retries;
        qp.max_reads = connection.max_reads.max(1) as usize;
        qp.agreed.log_reads = qp.max_reads.next_power_of_two().ilog2() as u8;
        qp.state = State::ReadyToReceive;
        Ok(())
    }

    /// From [`State::ReadyToReceive`] to [`State::ReadyToSend`].
    ///
    /// # Errors
    /// [`SetupError::Unknown`], [`SetupError::State`].
    pub fn ready_to_send(&mut self, id: QueuePair) -> Result<(), SetupError> {
        self.expect(id, State::ReadyToReceive)?.state = State::ReadyToSend;
        Ok(())
    }

    /// To [`State::Error`], from any: what is posted is given up.
    ///
    /// # Errors
    /// [`SetupError::Unknown`].
    pub fn fail(&mut self, id: QueuePair) -> Result<(), SetupError> {
        let index = self.find(id).ok_or(SetupError::Unknown("queue pair"))?;
        self.queue_pairs[index].state = State::Error;
        self.activate(index);
        Ok(())
    }

    /// Its state.
    ///
    /// # Errors
    /// [`SetupError::Unknown`].
    pub fn state(&self, id: QueuePair) -> Result<State, SetupError> {
        let index = self.find(id).ok_or(SetupError::Unknown("queue pair"))?;
        Ok(self.queue_pairs[index].state)
    }
}
