//! The firmware's commands, as DevX passes them: a block of big-endian bits in, one out. Decoded from [`tables`], which
//! nobody shares; whatever the bytes are, the answer says what was wrong.
//!
//! Stricter than firmware: bits that no field is made of must be zero, lengths must be exact, and what a connection
//! names must be there.

pub mod tables;

use crate::fabric::Fabric;
use crate::identity::{Link, ROCE_V2};
use crate::keys::Access;
use crate::memory::{Memory, Place};
use crate::setup::{CompletionQueueConfig, Connection, Permissions, QueuePairConfig, SetupError};
use crate::state::{Adapter, Agreed, CompletionQueue, Domain, Page, QueuePair};
use crate::tables::{Field, PAGE};
use std::collections::VecDeque;
use tables::{
    Command, OPCODE, alloc_pd, alloc_uar, answer, create_cq, create_mkey, create_qp, destroy_cq, destroy_mkey,
    destroy_qp, error_qp, init2rtr_qp, query_hca_cap, reset_qp, rst2init_qp, rtr2rts_qp, status,
};

/// What an adapter says of itself (`QUERY_HCA_CAP`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// Log2 of the most blocks of a send queue.
    pub log_max_blocks: u8,
    /// Log2 of the most queue pairs.
    pub log_max_queue_pairs: u8,
    /// Log2 of the most reads and atomics in flight, for both ends.
    pub log_max_reads: u8,
    /// Whether it has atomics.
    pub atomic: bool,
    /// Bits: compare-swap, fetch-add, masked compare-swap, masked fetch-add.
    pub atomic_operations: u16,
    /// Sizes of atomics in bytes, or-ed.
    pub atomic_sizes: u16,
    /// 0: completions tell time by a counter that runs freely, and in no other way.
    pub timestamp_formats: u8,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self {
            log_max_blocks: 15,
            log_max_queue_pairs: 18,
            log_max_reads: 4,
            atomic: true,
            atomic_operations: 0xf,
            atomic_sizes: 12,
            timestamp_formats: 0,
        }
    }
}

/// A command that was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("adapter {adapter} refuses {command}: {reason}")]
pub struct Refusal {
    /// The adapter, in the order they were made.
    pub adapter: usize,
    /// Which command.
    pub command: &'static str,
    /// Why.
    pub reason: Reason,
}

/// Why a command was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// No such command.
    #[error("there is no command {0:#06x}")]
    Opcode(u16),
    /// The command's length.
    #[error("it has {seen} bytes, must have {expected}")]
    Length {
        /// Its bytes.
        seen: usize,
        /// What it must have.
        expected: usize,
    },
    /// The answer's length.
    #[error("its answer has {seen} bytes, must have {expected} or more")]
    AnswerLength {
        /// Its bytes.
        seen: usize,
        /// What it must have.
        expected: usize,
    },
    /// A bit that is none of a field.
    #[error("bit {bit:#x} is set, and is none of a field that is known")]
    StrayBit {
        /// Counted from the first byte's highest.
        bit: u32,
    },
    /// A field that holds what it can't.
    #[error("{field} (bit {bit:#x}) is {seen:#x}, must be {expected}")]
    Value {
        /// Its name.
        field: &'static str,
        /// Where it starts.
        bit: u32,
        /// What it holds.
        seen: u64,
        /// What it may hold.
        expected: &'static str,
    },
    /// A field that names something that is not there.
    #[error("{field} (bit {bit:#x}) names {seen:#x}, and there is none")]
    Object {
        /// Its name.
        field: &'static str,
        /// Where it starts.
        bit: u32,
        /// What it holds.
        seen: u64,
    },
    /// What it says can't be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

impl Reason {
    /// Status and syndrome of the answer. The syndrome's lowest 16 bits are the bit that was wrong, where one was.
    pub fn status(&self) -> (u8, u32) {
        match *self {
            Self::Opcode(_) => (status::BAD_OPERATION, 0xf1_0000),
            Self::Length { .. } => (status::BAD_INPUT_LENGTH, 0xf2_0000),
            Self::AnswerLength { .. } => (status::BAD_OUTPUT_LENGTH, 0xf3_0000),
            Self::StrayBit { bit } => (status::BAD_PARAMETER, 0xf4_0000 | bit),
            Self::Value { bit, .. } => (status::BAD_PARAMETER, 0xf5_0000 | bit),
            Self::Object { bit, .. } => (status::BAD_RESOURCE, 0xf6_0000 | bit),
            Self::Setup(SetupError::State { .. }) => (status::BAD_QUEUE_PAIR_STATE, 0xf7_0000),
            Self::Setup(SetupError::Size { .. }) => (status::LIMIT, 0xf8_0000),
            Self::Setup(SetupError::InUse(_)) => (status::BUSY, 0xf9_0000),
            Self::Setup(_) => (status::BAD_PARAMETER, 0xfa_0000),
        }
    }
}

/// The event queue that completion queues must name.
pub const EVENT_QUEUE: u8 = 5;

/// Refusals that are kept; later ones are dropped.
const KEPT: usize = 256;

/// A command's bytes, and what it is.
struct Input<'a> {
    bytes: &'a [u8],
}

impl Input<'_> {
    fn get(&self, field: Field) -> u64 {
        field.get(self.bytes)
    }

    fn flag(&self, field: Field) -> bool {
        self.get(field) == 1
    }

    /// Refuses what a field holds.
    fn refuse(&self, field: Field, expected: &'static str) -> Reason {
        Reason::Value {
            field: field.name,
            bit: field.start,
            seen: self.get(field),
            expected,
        }
    }

    fn require(&self, field: Field, value: u64, expected: &'static str) -> Result<(), Reason> {
        self.within(field, value, value, expected).map(|_| ())
    }

    fn within(&self, field: Field, low: u64, high: u64, expected: &'static str) -> Result<u64, Reason> {
        let seen = self.get(field);
        if (low..=high).contains(&seen) {
            Ok(seen)
        } else {
            Err(self.refuse(field, expected))
        }
    }

    /// Queues start at a page of their umem.
    fn at_page(&self, field: Field) -> Result<(), Reason> {
        if self.get(field).is_multiple_of(PAGE) {
            Ok(())
        } else {
            Err(self.refuse(field, "a multiple of 4096"))
        }
    }

    fn missing(&self, field: Field) -> Reason {
        Reason::Object {
            field: field.name,
            bit: field.start,
            seen: self.get(field),
        }
    }
}

impl<M: Memory> Fabric<M> {
    /// Does a command, and writes its answer: status and syndrome at least, as far as they fit. What was wrong is in
    /// words in [`Fabric::take_refusals`].
    ///
    /// ```
    /// use shmem_hca::{Config, Fabric, Ram};
    /// let mut fabric = Fabric::new(Ram::new(), Config::strict(0));
    /// let adapter = fabric.add_adapter();
    /// let (mut command, mut answer) = ([0; 16], [0; 16]);
    /// command[..2].copy_from_slice(&[8, 0]); // ALLOC_PD
    /// fabric.command(adapter, &command, &mut answer);
    /// assert_eq!((answer[0], answer[11]), (0, 1)); // Done: protection domain 1.
    /// command[1] = 0xff;
    /// fabric.command(adapter, &command, &mut answer);
    /// assert_eq!(answer[0], 2);
    /// assert_eq!(fabric.take_refusals()[0].to_string(), "adapter 0 refuses a command: there is no command 0x08ff");
    /// ```
    pub fn command(&mut self, adapter: Adapter, input: &[u8], output: &mut [u8]) {
        output.fill(0);
        let opcode = OPCODE.get(input) as u16;
        let known = tables::COMMANDS.iter().find(|c| c.opcode == opcode);
        let done = match known {
            None => Err(Reason::Opcode(opcode)),
            Some(command) => self.obey(adapter, command, input, output),
        };
        if let Err(reason) = done {
            let (code, syndrome) = reason.status();
            output.fill(0);
            answer::STATUS.set(output, code.into());
            answer::SYNDROME.set(output, syndrome.into());
            if self.refusals.len() < KEPT {
                self.refusals.push_back(Refusal {
                    adapter: adapter.0,
                    command: known.map_or("a command", |c| c.name),
                    reason,
                });
            }
        }
    }

    /// The commands refused since the last call, oldest first, 256 at most.
    pub fn take_refusals(&mut self) -> Vec<Refusal> {
        std::mem::take::<VecDeque<_>>(&mut self.refusals).into()
    }

    fn obey(&mut self, adapter: Adapter, command: &Command, bytes: &[u8], output: &mut [u8]) -> Result<(), Reason> {
        if bytes.len() != command.bytes {
            return Err(Reason::Length {
                seen: bytes.len(),
                expected: command.bytes,
            });
        }
        if output.len() < command.answer {
            return Err(Reason::AnswerLength {
                seen: output.len(),
                expected: command.answer,
            });
        }
        if let Some(bit) = command.stray_bit(bytes) {
            return Err(Reason::StrayBit { bit });
        }
        let input = Input { bytes };
        let number = match command.opcode {
            op if op == query_hca_cap::COMMAND.opcode => return self.capabilities_of(adapter, &input, output),
            op if op == create_mkey::COMMAND.opcode => self.create_mkey(adapter, &input)?,
            op if op == create_cq::COMMAND.opcode => self.create_cq(adapter, &input)?,
            op if op == create_qp::COMMAND.opcode => self.create_qp(adapter, &input)?,
            op if op == alloc_pd::COMMAND.opcode => self.add_domain(adapter)?.number,
            op if op == alloc_uar::COMMAND.opcode => self.add_page(adapter, None)?.number,
            op => {
                match op {
                    op if op == destroy_mkey::COMMAND.opcode => self.destroy_mkey(adapter, &input)?,
                    op if op == destroy_cq::COMMAND.opcode => {
                        let number = self.completions(adapter, &input, destroy_cq::NUMBER)?;
                        self.remove_completion_queue(number)?;
                    }
                    op if op == destroy_qp::COMMAND.opcode => {
                        let qp = self.queue_pair(adapter, &input, destroy_qp::NUMBER)?;
                        self.remove_queue_pair(qp)?;
                    }
                    op if op == rst2init_qp::COMMAND.opcode => self.rst2init(adapter, &input)?,
                    op if op == init2rtr_qp::COMMAND.opcode => self.init2rtr(adapter, &input)?,
                    op if op == rtr2rts_qp::COMMAND.opcode => self.rtr2rts(adapter, &input)?,
                    op if op == error_qp::COMMAND.opcode => {
                        let qp = self.queue_pair(adapter, &input, error_qp::NUMBER)?;
                        self.fail(qp)?;
                    }
                    _ => {
                        let qp = self.queue_pair(adapter, &input, reset_qp::NUMBER)?;
                        self.reset(qp)?;
                    }
                }
                return Ok(());
            }
        };
        answer::NUMBER.set(output, number.into());
        Ok(())
    }

    fn capabilities_of(&self, adapter: Adapter, input: &Input<'_>, output: &mut [u8]) -> Result<(), Reason> {
        let state = self.adapters.get(adapter.0).ok_or(SetupError::Unknown("adapter"))?;
        let (can, ethernet) = (state.capabilities, state.link == Link::Ethernet);
        // The lowest bit asks for what is set rather than what could be: the same here.
        let fields: &[(Field, u64)] = match input.get(query_hca_cap::MODIFIER) >> 1 {
            0 => &[
                (answer::LOG_MAX_QP_SIZE, can.log_max_blocks.into()),
                (answer::LOG_MAX_QP, can.log_max_queue_pairs.into()),
                (answer::LOG_MAX_CQ_SIZE, 22),
                (answer::RELAXED_ORDERING_WRITE, 1),
                (answer::LOG_MAX_READS_SENDER, can.log_max_reads.into()),
                (answer::LOG_MAX_READS_TARGET, can.log_max_reads.into()),
                (answer::PORT_TYPE, ethernet.into()),
                (answer::PORTS, 1),
                (answer::LOG_MAX_MESSAGE, 30),
                (answer::ROCE, ethernet.into()),
                (answer::ATOMIC, can.atomic.into()),
                (answer::PAGES_OF_4096, 1),
                (answer::LOG_REGISTER, 9),
            ],
            3 => &[
                (answer::NATIVE_8_BYTES, self.config.native_atomics.into()),
                (answer::ATOMIC_OPERATIONS, can.atomic_operations.into()),
                (answer::ATOMIC_SIZES, can.atomic_sizes.into()),
            ],
            4 if ethernet => &[(answer::TIMESTAMP_FORMATS, can.timestamp_formats.into())],
            _ => return Err(input.refuse(query_hca_cap::MODIFIER, "a group of capabilities that the adapter has")),
        };
        for (field, value) in fields {
            field.set(output, *value);
        }
        Ok(())
    }

    fn domain(&self, adapter: Adapter, input: &Input<'_>, field: Field) -> Result<Domain, Reason> {
        let made = self.adapters.get(adapter.0).map_or(0, |a| a.domains);
        let number = input.get(field) as u32;
        if number == 0 || number > made {
            return Err(input.missing(field));
        }
        Ok(Domain {
            adapter: adapter.0,
            number,
        })
    }

    fn page_named(&self, adapter: Adapter, input: &Input<'_>, field: Field) -> Result<Page, Reason> {
        self.page(adapter, input.get(field) as u32)
            .ok_or_else(|| input.missing(field))
    }

    /// Memory of a umem from an offset on.
    fn umem(
        &self,
        adapter: Adapter,
        input: &Input<'_>,
        (umem, offset): (Field, Field),
        bytes: u64,
    ) -> Result<Place, Reason> {
        let umems = self.adapters.get(adapter.0).map(|a| &a.umems);
        let (place, size) = umems
            .and_then(|all| all.get(&(input.get(umem) as u32)).copied())
            .ok_or_else(|| input.missing(umem))?;
        let start = input.get(offset);
        match start.checked_add(bytes) {
            Some(end) if end <= size => Ok(place.after(start)),
            _ => Err(input.refuse(offset, "where all of it lies in the umem")),
        }
    }

    fn completions(&self, adapter: Adapter, input: &Input<'_>, field: Field) -> Result<CompletionQueue, Reason> {
        let index = input.get(field) as usize;
        let found = self
            .completion_queues
            .get(index)
            .filter(|cq| cq.adapter == adapter.0 && !cq.gone);
        found
            .map(|_| CompletionQueue(index))
            .ok_or_else(|| input.missing(field))
    }

    fn queue_pair(&self, adapter: Adapter, input: &Input<'_>, field: Field) -> Result<QueuePair, Reason> {
        let id = QueuePair {
            adapter: adapter.0,
            number: input.get(field) as u32,
        };
        self.find(id).map(|_| id).ok_or_else(|| input.missing(field))
    }

    fn create_mkey(&mut self, adapter: Adapter, input: &Input<'_>) -> Result<u32, Reason> {
        use create_mkey::*;
        input.require(UMEM_VALID, 1, "1: lists of pages are not emulated")?;
        input.require(ACCESS_MODE, 1, "1: by pages")?;
        input.require(QUEUE_PAIR, 0xff_ffff, "all ones: every queue pair of the domain")?;
        input.require(LOCAL_READ, 1, "1")?;
        let domain = self.domain(adapter, input, DOMAIN)?;
        let access = Access {
            local_write: input.flag(LOCAL_WRITE),
            remote_read: input.flag(REMOTE_READ),
            remote_write: input.flag(REMOTE_WRITE),
            remote_atomic: input.flag(ATOMIC),
            relaxed_ordering: input.flag(RELAXED_WRITE),
        };
        if (access.remote_write || access.remote_atomic) && !access.local_write {
            return Err(input.refuse(LOCAL_WRITE, "1 where others may write or do atomics"));
        }
        let (start, bytes) = (input.get(START), input.within(LENGTH, 1, u64::MAX, "1 or more")?);
        if start.checked_add(bytes).is_none() {
            return Err(input.refuse(LENGTH, "within the address space"));
        }
        let memory = self.umem(adapter, input, (UMEM, UMEM_OFFSET), bytes)?;
        let page = 1u64 << input.within(LOG_PAGE, 12, 31, "12 to 31")?;
        if (start ^ memory.address) & (page - 1) != 0 {
            return Err(input.refuse(START, "as far into a page as the memory is"));
        }
        let pages = (memory.address & (page - 1)).saturating_add(bytes).div_ceil(page);
        input.require(
            TRANSLATION_UNITS,
            pages.div_ceil(2),
            "half a unit of 16 bytes for each page",
        )?;
        let variant = input.get(VARIANT) as u8;
        Ok(self.add_key(domain, variant, start, bytes, memory, access)? >> 8)
    }

    fn destroy_mkey(&mut self, adapter: Adapter, input: &Input<'_>) -> Result<(), Reason> {
        let number = input.get(destroy_mkey::NUMBER) as u32;
        let keys = self.adapters.get_mut(adapter.0).map(|a| &mut a.keys);
        let gone = keys.and_then(|keys| {
            let key = keys.keys().copied().find(|key| key >> 8 == number)?;
            keys.remove(&key)
        });
        gone.map(|_| ()).ok_or_else(|| input.missing(destroy_mkey::NUMBER))
    }

    fn create_cq(&mut self, adapter: Adapter, input: &Input<'_>) -> Result<u32, Reason> {
        use create_cq::*;
        input.require(UMEM_VALID, 1, "1: lists of pages are not emulated")?;
        input.require(RECORD_UMEM_VALID, 1, "1")?;
        input.require(SLOT, 0, "0: 64 bytes")?;
        input.require(EVENT_QUEUE, self::EVENT_QUEUE.into(), "an event queue")?;
        self.page_named(adapter, input, PAGE)?;
        input.at_page(UMEM_OFFSET)?;
        let log2 = input.within(LOG_SIZE, 0, 22, "0 to 22")? as u8;
        let config = CompletionQueueConfig {
            start: self.umem(adapter, input, (UMEM, UMEM_OFFSET), 64 << log2)?,
            log2,
            record: self.umem(adapter, input, (RECORD_UMEM, RECORD_OFFSET), 8)?,
            collapsed: input.flag(COLLAPSED),
            ignore_overrun: input.flag(IGNORE_OVERRUN),
        };
        Ok(self.add_completion_queue(adapter, config)?.0 as u32)
    }

    fn create_qp(&mut self, adapter: Adapter, input: &Input<'_>) -> Result<u32, Reason> {
        use create_qp::*;
        input.require(SERVICE, 0, "0: reliable connected")?;
        input.require(PATH_MIGRATION, 3, "3: migrated")?;
        input.require(RECEIVE_QUEUE, 3, "3: none")?;
        input.require(UMEM_VALID, 1, "1: lists of pages are not emulated")?;
        input.require(RECORD_UMEM_VALID, 1, "1")?;
        input.at_page(UMEM_OFFSET)?;
        let state = self.adapters.get(adapter.0).ok_or(SetupError::Unknown("adapter"))?;
        let can = state.capabilities;
        // Adapters whose clock runs freely only do not know another format.
        let most = if can.timestamp_formats == 0 { 0 } else { 2 };
        input.within(TIMESTAMPS, 0, most, "a format that the adapter has")?;
        let log2 = input.within(LOG_SIZE, 0, can.log_max_blocks.into(), "no more than the adapter can")? as u8;
        if state.queue_pairs.len() as u64 >= 1 << can.log_max_queue_pairs {
            return Err(SetupError::Size {
                what: "queue pairs",
                log2: can.log_max_queue_pairs.saturating_add(1),
                max: can.log_max_queue_pairs,
            }
            .into());
        }
        let completions = self.completions(adapter, input, SEND_COMPLETIONS)?;
        self.completions(adapter, input, RECEIVE_COMPLETIONS)?;
        let config = QueuePairConfig {
            domain: self.domain(adapter, input, DOMAIN)?,
            page: self.page_named(adapter, input, PAGE)?,
            start: self.umem(adapter, input, (UMEM, UMEM_OFFSET), 64 << log2)?,
            log2,
            record: self.umem(adapter, input, (RECORD_UMEM, RECORD_OFFSET), 8)?,
            completions,
        };
        Ok(self.add_queue_pair(adapter, config)?.number)
    }

    fn rst2init(&mut self, adapter: Adapter, input: &Input<'_>) -> Result<(), Reason> {
        use rst2init_qp::*;
        let qp = self.queue_pair(adapter, input, NUMBER)?;
        input.require(PATH_MIGRATION, 3, "3: migrated")?;
        input.require(PORT, 1, "1: the only port")?;
        input.require(PARTITION, 0, "0: the only partition")?;
        let permissions = Permissions {
            read: input.flag(REMOTE_READ),
            write: input.flag(REMOTE_WRITE),
            atomic: input.flag(REMOTE_ATOMIC),
        };
        if permissions.atomic {
            input.require(ATOMIC_MODE, 3, "3, up to 8 bytes, where others may do atomics")?;
        }
        Ok(self.init(qp, permissions)?)
    }

    /// The adapter that an address vector names.
    fn addressed(&self, adapter: Adapter, input: &Input<'_>) -> Result<Adapter, Reason> {
        use init2rtr_qp::*;
        let link = |number: usize| self.adapters.get(number).map(|a| a.link);
        let mine = link(adapter.0).unwrap_or_default();
        let all = (0..self.adapters.len())
            .map(Adapter)
            .filter(|a| link(a.0) == Some(mine));
        let mut gid = [0; 16];
        gid[..8].copy_from_slice(&input.get(GID_HIGH).to_be_bytes());
        gid[8..].copy_from_slice(&input.get(GID_LOW).to_be_bytes());
        match mine {
            Link::InfiniBand => {
                let lid = input.get(LID) as u16;
                let mut all = all;
                let found = all
                    .find(|a| a.identity().lid == lid)
                    .ok_or_else(|| input.missing(LID))?;
                let global = input.flag(GLOBAL);
                if global && found.identity().gid != gid {
                    return Err(input.refuse(GID_HIGH, "the address of the port that LID names"));
                }
                let unused: &[Field] = if global {
                    input.within(HOPS, 1, 255, "1 or more with a global address")?;
                    input.require(GID_INDEX, 0, "0: the only entry of the table")?;
                    &[UDP_PORT, MAC, DSCP]
                } else {
                    &[UDP_PORT, MAC, DSCP, GID_INDEX, HOPS, TRAFFIC_CLASS, GID_HIGH, GID_LOW]
                };
                for field in unused {
                    input.require(*field, 0, "0 on this kind of path")?;
                }
                Ok(found)
            }
            Link::Ethernet => {
                for field in [LID, GLOBAL, SERVICE_LEVEL] {
                    input.require(field, 0, "0 on Ethernet")?;
                }
                let index = input.get(GID_INDEX) as u8;
                if !ROCE_V2.contains(&index) {
                    return Err(input.refuse(GID_INDEX, "an entry for RoCE v2"));
                }
                let of = |a: Adapter| {
                    if index == ROCE_V2[0] {
                        a.identity().link_local
                    } else {
                        a.identity().ipv4
                    }
                };
                let mut all = all;
                let found = all.find(|&a| of(a) == gid).ok_or_else(|| input.missing(GID_HIGH))?;
                let mac = found.identity().mac.iter().fold(0, |sum, &b| sum << 8 | u64::from(b));
                input.require(MAC, mac, "that of the port which the GID names")?;
                input.within(HOPS, 1, 255, "1 or more")?;
                input.within(UDP_PORT, 0xc000, 0xffff, "0xc000 and up")?;
                input.require(
                    DSCP,
                    input.get(TRAFFIC_CLASS) >> 2,
                    "the traffic class without its lowest bits",
                )?;
                Ok(found)
            }
        }
    }

    fn init2rtr(&mut self, adapter: Adapter, input: &Input<'_>) -> Result<(), Reason> {
        use init2rtr_qp::*;
        let qp = self.queue_pair(adapter, input, NUMBER)?;
        input.require(PORT, 1, "1: the only port")?;
        let mtu = input.within(MTU, 1, 5, "1 to 5")? as u8;
        input.require(LOG_MESSAGE, 30, "30: messages of up to 1 GiB")?;
        let most = self.adapters.get(adapter.0).map_or(0, |a| a.capabilities.log_max_reads);
        let log_reads = input.within(LOG_READS, 0, most.into(), "no more than the adapter can")? as u8;
        let target = self.addressed(adapter, input)?;
        let connection = Connection {
            adapter: target,
            queue_pair: input.get(REMOTE) as u32,
            retries: 0,
            max_reads: 1,
        };
        let other = QueuePair {
            adapter: target.0,
            number: connection.queue_pair,
        };
        if self.config.closed && self.find(other).is_none() {
            return Err(input.missing(REMOTE));
        }
        self.ready_to_receive(qp, connection)?;
        self.agree(qp, |agreed| {
            *agreed = Agreed {
                mtu,
                log_reads,
                first_received: input.get(FIRST_PACKET) as u32,
                first_sent: 0,
            }
        });
        Ok(())
    }

    fn rtr2rts(&mut self, adapter: Adapter, input: &Input<'_>) -> Result<(), Reason> {
        use rtr2rts_qp::*;
        let qp = self.queue_pair(adapter, input, NUMBER)?;
        input.within(ACK_TIMEOUT, 1, 31, "1 to 31; with 0, what is lost is never sent again")?;
        let most = self.adapters.get(adapter.0).map_or(0, |a| a.capabilities.log_max_reads);
        let log_reads = input.within(LOG_READS, 0, most.into(), "no more than the adapter can")?;
        self.ready_to_send(qp)?;
        if let Some(index) = self.find(qp) {
            let state = &mut self.queue_pairs[index];
            state.retries = input.get(RETRIES) as u32;
            state.max_reads = 1 << log_reads;
        }
        self.agree(qp, |agreed| agreed.first_sent = input.get(FIRST_PACKET) as u32);
        Ok(())
    }

    fn agree(&mut self, id: QueuePair, change: impl FnOnce(&mut Agreed)) {
        if let Some(index) = self.find(id) {
            change(&mut self.queue_pairs[index].agreed);
        }
    }
}
