//! The state of one PE that its kernels read: one struct for device, host and simulator.
//!
//! On a GPU it lies in constant memory under the symbol [`STATE_SYMBOL`], one copy per loaded module, written by the host
//! before the first launch. A module also carries [`LAYOUT`] under [`LAYOUT_SYMBOL`]: the host compares it before it
//! writes anything, so PTX built against another layout is an error and not a crash.

/// The most PEs a world may have: the peer table lies in constant memory (8 KiB of its 64).
pub const MAX_PES: usize = 1024;
/// Barriers and syncs of the world that may be in flight at once; each uses one slot.
pub const SYNC_SLOTS: usize = 8;
/// Collective kernels of one PE that may be in flight at once, each with a barrier of its grid.
pub const GRID_SLOTS: usize = 64;
/// Symbol of the [`DeviceState`] in a module.
pub const STATE_SYMBOL: &str = "SHMEM_STATE";
/// Symbol of the layout hash in a module.
pub const LAYOUT_SYMBOL: &str = "SHMEM_LAYOUT";

macro_rules! laid_out {
    ($(#[$m:meta])* pub struct $name:ident { $($(#[$fm:meta])* pub $field:ident: $t:ty,)* }) => {
        $(#[$m])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct $name { $($(#[$fm])* pub $field: $t,)* }
        impl $name {
            const HASH: u64 = {
                let mut h = fnv(0xcbf2_9ce4_8422_2325, stringify!($name).as_bytes());
                $(
                    h = fnv(h, stringify!($field: $t).as_bytes());
                    h = fnv(h, &(core::mem::offset_of!($name, $field) as u64).to_le_bytes());
                )*
                fnv(h, &(size_of::<$name>() as u64).to_le_bytes())
            };
        }
    };
}

const fn fnv(mut h: u64, bytes: &[u8]) -> u64 {
    let mut i = 0;
    while i < bytes.len() {
        h = (h ^ bytes[i] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        i += 1;
    }
    h
}

mod network;
mod team_block;

pub use network::{COMPLETION, LANDING, MIN_QUEUE_LOG2, NetworkState, SendQueue};
pub use team_block::{MAX_TEAMS, TeamBlock};

laid_out! {
    /// What a kernel knows of its PE. All addresses are those of the PE's own device (simulator: of the process).
    pub struct DeviceState {
        /// This PE's number in the world.
        pub my_pe: u32,
        /// How many PEs the world has, 1 to [`MAX_PES`].
        pub n_pes: u32,
        /// Where this PE's part of the symmetric heap begins.
        pub heap_base: u64,
        /// Bytes of address space that each PE's heap has; allocations lie inside.
        pub heap_bytes: u64,
        /// This PE's [`FaultRecord`], in memory that the host sees.
        pub fault: u64,
        /// A wait that lasts longer is a fault, in nanoseconds; 0 means no limit.
        pub time_limit_ns: u64,
        /// Offset in the heap of the world's [`TeamBlock`].
        pub world_sync: u64,
        /// Offset in the heap of the node team's block.
        pub node_sync: u64,
        /// The first of the PEs that this PE reaches by load and store on its host.
        pub node_start: u32,
        /// How many they are, numbered one after the other.
        pub node_size: u32,
        /// Blocks of a programmatic launch, at most: a kernel of more lets nobody in ahead of its end.
        pub places: u64,
        /// Address of the [`NetworkState`]; 0 where load and store reaches every PE.
        pub network: u64,
        /// Where each PE's heap begins as this PE reaches it by load and store; 0 where it can't.
        pub peer_base: [u64; MAX_PES],
    }
}

laid_out! {
    /// What a kernel leaves behind when it meets an error. One per PE, in memory that the host sees; the first fault wins.
    pub struct FaultRecord {
        /// 1 once every other field is written.
        pub ready: u32,
        /// A [`FaultKind`](crate::fault::FaultKind) as its number.
        pub kind: u32,
        /// Line of the call in the kernel's source.
        pub line: u32,
        /// Column of the call.
        pub column: u32,
        /// Bytes of `file` in use.
        pub file_len: u32,
        /// Block in the grid: x, y, z.
        pub block: [u32; 3],
        /// Thread in the block: x, y, z.
        pub thread: [u32; 3],
        /// The first value the kind speaks of.
        pub a: u64,
        /// The second value.
        pub b: u64,
        /// Source file of the call, its last bytes where it is longer.
        pub file: [u8; 128],
    }
}

impl FaultRecord {
    /// A record that no thread has written.
    pub const EMPTY: Self = Self {
        ready: 0,
        kind: 0,
        line: 0,
        column: 0,
        file_len: 0,
        block: [0; 3],
        thread: [0; 3],
        a: 0,
        b: 0,
        file: [0; 128],
    };

    /// Notes where the call stands.
    #[cfg(not(target_arch = "nvptx64"))]
    pub fn locate(&mut self, at: &core::panic::Location<'_>) {
        (self.line, self.column) = (at.line(), at.column());
        let file = at.file().as_bytes();
        let kept = file.len().min(self.file.len());
        self.file[..kept].copy_from_slice(&file[file.len() - kept..]);
        self.file_len = kept as u32;
    }

    /// The source file of the call; empty where it is not known.
    #[cfg(not(target_arch = "nvptx64"))]
    pub fn file(&self) -> std::borrow::Cow<'_, str> {
        let kept = (self.file_len as usize).min(self.file.len());
        String::from_utf8_lossy(&self.file[..kept])
    }
}

/// The start of every PE's heap belongs to the library: this says what lies where, in bytes from the heap's base.
#[derive(Clone, Copy, Debug)]
pub struct SystemArea {
    /// The world's [`TeamBlock`].
    pub world_sync: u64,
    /// The node team's block.
    pub node_sync: u64,
    /// The blocks of teams that the host makes: [`MAX_TEAMS`] of [`TeamBlock::bytes`].
    pub teams: u64,
    /// The first byte that users get, a multiple of 512.
    pub bytes: u64,
}

impl SystemArea {
    /// Offset of the abort word, a u32: non-zero once a PE has failed. Alone in its 128-byte line.
    pub const ABORT: u64 = 0;
    /// Offset of the word, a u32, that a thread takes before it writes its PE's [`FaultRecord`]: in device memory, because
    /// atomics of a GPU on host memory are not native everywhere. Next to the abort word, which is set right after.
    pub const CLAIM: u64 = 4;

    /// Offset of the grids' lines: [`GRID_SLOTS`] of [`GRID_LINE`](Self::GRID_LINE) bytes.
    pub const GRIDS: u64 = 128;
    /// A grid's line: a u32 that its blocks arrive at, and at 8 a u64 for broadcasts. One line each, so that grids that
    /// run side by side don't slow each other down.
    pub const GRID_LINE: u64 = 128;

    /// The layout for a world of `n_pes`. All of it starts out zero.
    pub const fn new(n_pes: u32) -> Self {
        let world_sync = Self::GRIDS + (GRID_SLOTS as u64) * Self::GRID_LINE;
        let node_sync = world_sync + TeamBlock::bytes(n_pes);
        let teams = node_sync + TeamBlock::bytes(n_pes);
        let end = teams + (MAX_TEAMS as u64) * TeamBlock::bytes(n_pes);
        Self {
            world_sync,
            node_sync,
            teams,
            bytes: end.next_multiple_of(512),
        }
    }
}

/// Changes whenever a module built against an older source would misread what the host writes.
pub const LAYOUT: u64 = {
    let h = fnv(DeviceState::HASH, &FaultRecord::HASH.to_le_bytes());
    let h = fnv(h, &NetworkState::LAYOUT.to_le_bytes());
    let h = fnv(h, &SystemArea::new(3).bytes.to_le_bytes());
    fnv(
        h,
        b"2026-12: load/store and network; teams that begin with packets, grids; handles with serials",
    )
};

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::*;

    #[test]
    fn system_area_holds_its_words_without_overlap() {
        for n in [1, 2, 3, 72, 1024] {
            let s = SystemArea::new(n);
            const { assert!(SystemArea::GRIDS >= SystemArea::ABORT + 128) };
            assert_eq!(s.world_sync, SystemArea::GRIDS + 64 * 128);
            assert_eq!(s.node_sync - s.world_sync, TeamBlock::bytes(n));
            assert_eq!(s.teams - s.node_sync, TeamBlock::bytes(n));
            assert!(s.bytes >= s.teams + 64 * TeamBlock::bytes(n));
            assert_eq!(s.bytes % 512, 0);
        }
    }

    #[test]
    fn layout_depends_on_both_structs() {
        assert_ne!(DeviceState::HASH, FaultRecord::HASH);
        assert_ne!(LAYOUT, DeviceState::HASH);
        assert!(size_of::<DeviceState>() < 64 << 10, "constant memory is 64 KiB");
    }
}
