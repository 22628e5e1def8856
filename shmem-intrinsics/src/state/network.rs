//! What kernels know of the network adapters that carry their calls to PEs which load and store does not reach.
//!
//! The host makes these tables at the start of a World, in memory of the PE's own device; what adapters read and write
//! (rings, records, completions, landings) may lie elsewhere.

use super::fnv;

/// Bytes that the answer of one entry may have: a landing.
pub const LANDING: u64 = 64;
/// Bytes of the word that a lane watches which waits for a completion: the address is that of the [`SendQueue`].
pub const COMPLETION: usize = 0;
/// Log2 of the fewest blocks of 64 bytes that a send queue may have.
pub const MIN_QUEUE_LOG2: u32 = 4;

laid_out! {
    /// Where calls go that the network carries. [`DeviceState::network`](super::DeviceState::network) is its address.
    pub struct NetworkState {
        /// Address of the [`SendQueue`]s: one for each PE for context 0, then those of context 1, ...
        pub queues: u64,
        /// Contexts that have queues of their own; the others share those of context 0.
        pub contexts: u32,
        /// Log2 of the bytes of a granule: each has one key.
        pub granule_log2: u32,
        /// Address of the keys, u32s: for each PE one for each granule of its heap, 0 where there is no memory.
        pub keys: u64,
        /// Granules of a heap.
        pub granules: u64,
    }
}

laid_out! {
    /// The send queue of a context to a PE: 256 bytes, aligned to 128.
    pub struct SendQueue {
        /// Address of its ring of blocks of 64 bytes.
        pub ring: u64,
        /// Address of the 4 bytes of its record that tell where the ring's entries end.
        pub record: u64,
        /// Address of its register of 8 bytes.
        pub register: u64,
        /// Address of the completion of 64 bytes that the adapter writes again and again.
        pub completion: u64,
        /// Address of the landings, 2^log2 + 1 of [`LANDING`] bytes: answers that nobody wants go to the last.
        pub landing: u64,
        /// The same as entries name it.
        pub landing_at: u64,
        /// Address of a u32 for each landing: 1 while somebody waits for an answer there.
        pub taken: u64,
        /// The key of the landings.
        pub landing_key: u32,
        /// The queue pair's number.
        pub number: u32,
        /// Log2 of the blocks.
        pub log2: u32,
        /// Constants end here; words that kernels write have a line of their own.
        pub reserved: [u32; 15],
        /// Blocks that were given out.
        pub next: u64,
        /// Blocks whose entries are written, and what the last of them is (`network::queue::Written`).
        pub written: u64,
        /// Blocks that the adapter was told of.
        pub rung: u64,
        /// Blocks known to be done.
        pub done: u64,
        /// 1 while somebody tells the adapter.
        pub ringing: u32,
        /// Nothing.
        pub rest: [u32; 23],
    }
}

impl SendQueue {
    /// Nothing was posted yet, and its places are not filled in.
    pub const UNUSED: Self = Self {
        ring: 0,
        record: 0,
        register: 0,
        completion: 0,
        landing: 0,
        landing_at: 0,
        taken: 0,
        landing_key: 0,
        number: 0,
        log2: 0,
        reserved: [0; 15],
        next: 0,
        written: 0,
        rung: 0,
        done: 0,
        ringing: 0,
        rest: [0; 23],
    };
}

impl NetworkState {
    pub(super) const LAYOUT: u64 = fnv(Self::HASH, &SendQueue::HASH.to_le_bytes());
}

const _: () = assert!(size_of::<SendQueue>() == 256 && core::mem::offset_of!(SendQueue, next) == 128);
