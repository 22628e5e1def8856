//! Reliable queue pairs: made, connected, ended. A command that changes the state of one says which, and the fields of
//! its context that the step sets.

use super::{Field, Opcode, command};

/// Bytes of each command that has a context.
pub const BYTES: usize = 272;

/// Which queue pair, in all commands but the first.
pub const NUMBER: Field = Field::new(0x48, 24);
/// Where the blocks lie in their umem.
pub const UMEM_OFFSET: Field = Field::new(0x800, 64);
/// The umem of the blocks.
pub const UMEM: Field = Field::new(0x840, 32);
/// Whether they lie in a umem.
pub const UMEM_VALID: Field = Field::new(0x860, 1);

const fn context(start: u32, bits: u32) -> Field {
    Field::new(start, bits).within(0xc0)
}

/// Its kind; 0: reliable connected.
pub const SERVICE: Field = context(0x8, 8);
/// Path migration; 3: done, which is to say none.
pub const PATH_MIGRATION: Field = context(0x13, 2);
/// Protection domain.
pub const DOMAIN: Field = context(0x28, 24);
/// Bytes of a packet: [`Mtu`].
pub const MTU: Field = context(0x40, 3);
/// Log2 of the longest message.
pub const LOG_MAX_MESSAGE: Field = context(0x43, 5);
/// Log2 of the send queue's blocks.
pub const LOG_SIZE: Field = context(0x51, 4);
/// How completions tell time.
pub const TIMESTAMP_FORMAT: Field = context(0x58, 2);
/// Page of its register.
pub const PAGE: Field = context(0x68, 24);
/// The other end.
pub const REMOTE: Field = context(0xa8, 24);
/// How often an acknowledgement is asked for; 0: every packet.
pub const LOG_ACK_FREQUENCY: Field = context(0x380, 4);
/// Log2 of the reads and atomics in flight.
pub const LOG_READS_SENDER: Field = context(0x388, 3);
/// Tries after the first.
pub const RETRIES: Field = context(0x38d, 3);
/// Tries where the target has no receive; 7: without end.
pub const NOT_READY_RETRIES: Field = context(0x390, 3);
/// Number of the first packet sent.
pub const NEXT_SEND_PACKET: Field = context(0x3c8, 24);
/// Completion queue of what is sent.
pub const SEND_COMPLETIONS: Field = context(0x3e8, 24);
/// Log2 of the reads and atomics that it takes at once.
pub const LOG_READS_TARGET: Field = context(0x488, 3);
/// Sizes of atomics; 3: up to 8 bytes.
pub const ATOMIC_MODE: Field = context(0x48c, 4);
/// Others may read.
pub const REMOTE_READ: Field = context(0x490, 1);
/// Others may write.
pub const REMOTE_WRITE: Field = context(0x491, 1);
/// Others may do atomics.
pub const REMOTE_ATOMIC: Field = context(0x492, 1);
/// How long a sender waits where no receive is posted.
pub const NOT_READY_TIMER: Field = context(0x4a3, 5);
/// Number of the first packet received.
pub const NEXT_RECEIVED_PACKET: Field = context(0x4a8, 24);
/// Completion queue of what is received.
pub const RECEIVE_COMPLETIONS: Field = context(0x4e8, 24);
/// Where the record lies in its umem.
pub const RECORD_OFFSET: Field = context(0x500, 64);
/// Its receive queue; 3: none.
pub const RECEIVE_QUEUE: Field = context(0x565, 3);
/// Whether the record lies in a umem.
pub const RECORD_UMEM_VALID: Field = context(0x683, 1);
/// The umem of the record.
pub const RECORD_UMEM: Field = context(0x720, 32);

const fn path(start: u32, bits: u32) -> Field {
    context(start, bits).within(0xc0)
}

/// Partition.
pub const PARTITION: Field = path(0x10, 16);
/// Whether packets have global addresses.
pub const GLOBAL: Field = path(0x28, 1);
/// The target's local identifier, on InfiniBand.
pub const REMOTE_LID: Field = path(0x30, 16);
/// How long an acknowledgement may take: 4.096 us times 2 to it.
pub const ACK_TIMEOUT: Field = path(0x40, 5);
/// Own entry of the GID table.
pub const GID_INDEX: Field = path(0x48, 8);
/// Hops.
pub const HOP_LIMIT: Field = path(0x58, 8);
/// Traffic class.
pub const TRAFFIC_CLASS: Field = path(0x64, 8);
/// The target's GID, first half.
pub const REMOTE_GID_HIGH: Field = path(0x80, 64);
/// The target's GID, second half.
pub const REMOTE_GID_LOW: Field = path(0xc0, 64);
/// Traffic class without its lowest 2 bits, on RoCE v2.
pub const DSCP: Field = path(0x10a, 6);
/// Source port of RoCE v2.
pub const UDP_SOURCE_PORT: Field = path(0x110, 16);
/// Service level, on InfiniBand.
pub const SERVICE_LEVEL: Field = path(0x124, 4);
/// Own port, from 1.
pub const PORT: Field = path(0x128, 8);
/// The target's MAC address, on Ethernet.
pub const REMOTE_MAC: Field = path(0x130, 48);

/// Bytes of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Mtu {
    /// 256.
    Bytes256 = 1,
    /// 512.
    Bytes512 = 2,
    /// 1024.
    Bytes1024 = 3,
    /// 2048.
    Bytes2048 = 4,
    /// 4096.
    Bytes4096 = 5,
}

/// A queue pair without receives. The answer has its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CreateQueuePair {
    /// Protection domain.
    pub domain: u32,
    /// Page of its register.
    pub page: u32,
    /// Completion queue.
    pub completions: u32,
    /// Log2 of its blocks.
    pub log2: u8,
    /// The umem of its blocks.
    pub memory: u32,
    /// Where they lie in it.
    pub offset: u64,
    /// The umem of its record.
    pub record_memory: u32,
    /// Where it lies in it.
    pub record_offset: u64,
    /// How completions tell time: what the adapter's capabilities ask for.
    pub timestamp_format: u8,
}

impl CreateQueuePair {
    /// Its bytes.
    pub fn command(&self) -> [u8; BYTES] {
        let mut bytes = command(Opcode::CreateQp);
        for (field, value) in [
            (SERVICE, 0),
            (PATH_MIGRATION, 3),
            (DOMAIN, self.domain as u64),
            (PAGE, self.page as u64),
            (SEND_COMPLETIONS, self.completions as u64),
            (RECEIVE_COMPLETIONS, self.completions as u64),
            (LOG_SIZE, self.log2 as u64),
            (RECEIVE_QUEUE, 3),
            (TIMESTAMP_FORMAT, self.timestamp_format as u64),
            (RECORD_UMEM_VALID, 1),
            (RECORD_UMEM, self.record_memory as u64),
            (RECORD_OFFSET, self.record_offset),
            (UMEM_VALID, 1),
            (UMEM, self.memory as u64),
            (UMEM_OFFSET, self.offset),
        ] {
            field.set(&mut bytes, value);
        }
        bytes
    }
}

/// Reset to Init: others may read, write and do atomics.
pub fn init(number: u32, port: u8, partition: u16) -> [u8; BYTES] {
    let mut bytes = command(Opcode::Rst2InitQp);
    for (field, value) in [
        (NUMBER, number as u64),
        (PATH_MIGRATION, 3),
        (ATOMIC_MODE, 3),
        (REMOTE_READ, 1),
        (REMOTE_WRITE, 1),
        (REMOTE_ATOMIC, 1),
        (PORT, port as u64),
        (PARTITION, partition as u64),
    ] {
        field.set(&mut bytes, value);
    }
    bytes
}

/// How packets reach the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route {
    /// Within an InfiniBand subnet.
    InfiniBand {
        /// The target's local identifier.
        lid: u16,
        /// Service level.
        service_level: u8,
    },
    /// To another InfiniBand subnet.
    InfiniBandRouted {
        /// The router's local identifier.
        lid: u16,
        /// Service level.
        service_level: u8,
        /// The target's GID.
        gid: [u8; 16],
        /// Own entry of the GID table.
        gid_index: u8,
        /// Hops.
        hop_limit: u8,
    },
    /// RoCE v2.
    Roce {
        /// The target's GID.
        gid: [u8; 16],
        /// The target's MAC address.
        mac: [u8; 6],
        /// Own entry of the GID table.
        gid_index: u8,
        /// Hops.
        hop_limit: u8,
        /// Traffic class.
        traffic_class: u8,
        /// Source port, 0xc000 and up.
        udp_source_port: u16,
    },
}

/// Init to ReadyToReceive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadyToReceive {
    /// Which.
    pub number: u32,
    /// The other end.
    pub remote: u32,
    /// Own port, from 1.
    pub port: u8,
    /// Bytes of a packet.
    pub mtu: Mtu,
    /// Log2 of the reads and atomics that it takes at once.
    pub log_reads: u8,
    /// How packets reach the other end.
    pub route: Route,
}

impl ReadyToReceive {
    /// Its bytes.
    pub fn command(&self) -> [u8; BYTES] {
        let mut bytes = command(Opcode::Init2RtrQp);
        let mut set = |field: Field, value: u64| field.set(&mut bytes, value);
        let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, &byte| sum << 8 | byte as u64);
        set(NUMBER, self.number as u64);
        set(REMOTE, self.remote as u64);
        set(PORT, self.port as u64);
        set(MTU, self.mtu as u64);
        set(LOG_MAX_MESSAGE, 30);
        set(LOG_READS_TARGET, self.log_reads as u64);
        // 0.64 ms: nobody waits for receives here.
        set(NOT_READY_TIMER, 12);
        match self.route {
            Route::InfiniBand { lid, service_level } => {
                set(REMOTE_LID, lid as u64);
                set(SERVICE_LEVEL, service_level as u64);
            }
            Route::InfiniBandRouted {
                lid,
                service_level,
                gid,
                gid_index,
                hop_limit,
            } => {
                set(REMOTE_LID, lid as u64);
                set(SERVICE_LEVEL, service_level as u64);
                set(GLOBAL, 1);
                set(REMOTE_GID_HIGH, number(&gid[..8]));
                set(REMOTE_GID_LOW, number(&gid[8..]));
                set(GID_INDEX, gid_index as u64);
                set(HOP_LIMIT, hop_limit as u64);
            }
            Route::Roce {
                gid,
                mac,
                gid_index,
                hop_limit,
                traffic_class,
                udp_source_port,
            } => {
                set(REMOTE_GID_HIGH, number(&gid[..8]));
                set(REMOTE_GID_LOW, number(&gid[8..]));
                set(REMOTE_MAC, number(&mac));
                set(GID_INDEX, gid_index as u64);
                set(HOP_LIMIT, hop_limit as u64);
                set(TRAFFIC_CLASS, traffic_class as u64);
                set(DSCP, traffic_class as u64 >> 2);
                set(UDP_SOURCE_PORT, udp_source_port as u64);
            }
        }
        bytes
    }
}

/// ReadyToReceive to ReadyToSend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadyToSend {
    /// Which.
    pub number: u32,
    /// Log2 of the reads and atomics in flight.
    pub log_reads: u8,
    /// Tries after the first, 0 to 7.
    pub retries: u8,
    /// How long an acknowledgement may take: 4.096 us times 2 to it.
    pub ack_timeout: u8,
}

impl ReadyToSend {
    /// Its bytes.
    pub fn command(&self) -> [u8; BYTES] {
        let mut bytes = command(Opcode::Rtr2RtsQp);
        for (field, value) in [
            (NUMBER, self.number as u64),
            (LOG_ACK_FREQUENCY, 0),
            (LOG_READS_SENDER, self.log_reads as u64),
            (RETRIES, self.retries as u64),
            (NOT_READY_RETRIES, self.retries as u64),
            (ACK_TIMEOUT, self.ack_timeout as u64),
        ] {
            field.set(&mut bytes, value);
        }
        bytes
    }
}

/// To Error: what is posted is given up.
pub fn to_error(number: u32) -> [u8; 16] {
    let mut bytes = command(Opcode::ToErrorQp);
    NUMBER.set(&mut bytes, number as u64);
    bytes
}

/// To Reset.
pub fn to_reset(number: u32) -> [u8; 16] {
    let mut bytes = command(Opcode::ToResetQp);
    NUMBER.set(&mut bytes, number as u64);
    bytes
}
