//! Commands of the set-up, which DevX (`mlx5dv_devx_obj_create` and its like) passes to the adapter's firmware: one block
//! of big-endian bits in, one out. Every field is named by the bit where it starts, as in the manual.
//!
//! | file | commands |
//! |---|---|
//! | [`capability`] | `QUERY_HCA_CAP`: what the adapter can do |
//! | [`domain`] | `ALLOC_PD`, `ALLOC_UAR` |
//! | [`mkey`] | `CREATE_MKEY` |
//! | [`completion_queue`] | `CREATE_CQ` |
//! | [`queue_pair`] | `CREATE_QP`, `RST2INIT_QP`, `INIT2RTR_QP`, `RTR2RTS_QP`, `2ERR_QP`, `2RST_QP` |
//!
//! ```
//! use shmem_mlx5::cmd::{self, completion_queue::{self, CreateCompletionQueue}};
//! let command = CreateCompletionQueue {
//!     log2: 0, page: 5, event_queue: 0, memory: 7, offset: 0, record_memory: 7, record_offset: 64,
//!     collapsed: true, ignore_overrun: true,
//! }.command();
//! assert_eq!(cmd::OPCODE.get(&command), 0x400);
//! assert_eq!(completion_queue::COLLAPSED.get(&command), 1);
//! ```

pub mod capability;
pub mod completion_queue;
pub mod domain;
pub mod mkey;
pub mod queue_pair;

/// Bits of a command or its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// First bit, counted from the first byte's highest.
    pub start: u32,
    /// How many, 1 to 64.
    pub bits: u32,
}

impl Field {
    /// `bits` from `start` on.
    pub const fn new(start: u32, bits: u32) -> Self {
        Self { start, bits }
    }

    /// The same field of a structure that lies `start` bits further on.
    #[must_use]
    pub const fn within(self, start: u32) -> Self {
        Self {
            start: self.start + start,
            ..self
        }
    }

    /// Its value in `bytes`; bits outside are 0.
    ///
    /// ```
    /// use shmem_mlx5::cmd::Field;
    /// let mut bytes = [0xff; 4];
    /// Field::new(4, 12).set(&mut bytes, 0x123);
    /// assert_eq!(bytes, [0xf1, 0x23, 0xff, 0xff]);
    /// assert_eq!(Field::new(4, 12).get(&bytes), 0x123);
    /// ```
    pub fn get(self, bytes: &[u8]) -> u64 {
        (self.start..self.start + self.bits).fold(0, |value, bit| {
            let byte = bytes.get(bit as usize / 8).copied().unwrap_or(0);
            value << 1 | (byte >> (7 - bit % 8) & 1) as u64
        })
    }

    /// Writes it into `bytes`: the low bits of `value`.
    pub fn set(self, bytes: &mut [u8], value: u64) {
        for i in 0..self.bits {
            let bit = self.start + self.bits - 1 - i;
            if let Some(byte) = bytes.get_mut(bit as usize / 8) {
                let mask = 1 << (7 - bit % 8);
                *byte = *byte & !mask | if value >> i & 1 == 1 { mask } else { 0 };
            }
        }
    }
}

/// Which command.
pub const OPCODE: Field = Field::new(0, 16);
/// Which kind of it.
pub const MODIFIER: Field = Field::new(0x30, 16);
/// In every answer: 0 where it was done, [`Status`].
pub const STATUS: Field = Field::new(0, 8);
/// In every answer: what the maker's support wants to know.
pub const SYNDROME: Field = Field::new(0x20, 32);
/// In the answers of what makes something: its number.
pub const NUMBER: Field = Field::new(0x48, 24);
/// Bytes of an answer that has a number, or nothing.
pub const ANSWER_BYTES: usize = 16;

macro_rules! opcodes { ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)*) => {
    /// The commands here.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[repr(u16)]
    pub enum Opcode {
        $($(#[$doc])* $name = $code,)*
    }

    /// What the manual calls a command, by its first bytes.
    ///
    /// ```
    /// use shmem_mlx5::cmd::{self, domain};
    /// assert_eq!(cmd::name(&domain::alloc_domain()), "ALLOC_PD");
    /// assert_eq!(cmd::name(&[]), "a command");
    /// ```
    pub fn name(command: &[u8]) -> &'static str {
        match OPCODE.get(command) {
            $($code => $text,)*
            _ => "a command",
        }
    }
} }
opcodes! {
    /// What the adapter can do.
    QueryHcaCap = 0x100, "QUERY_HCA_CAP";
    /// Makes a memory key.
    CreateMkey = 0x200, "CREATE_MKEY";
    /// Ends a memory key.
    DestroyMkey = 0x202, "DESTROY_MKEY";
    /// Makes a completion queue.
    CreateCq = 0x400, "CREATE_CQ";
    /// Ends a completion queue.
    DestroyCq = 0x401, "DESTROY_CQ";
    /// Makes a queue pair.
    CreateQp = 0x500, "CREATE_QP";
    /// Ends a queue pair.
    DestroyQp = 0x501, "DESTROY_QP";
    /// Reset to Init.
    Rst2InitQp = 0x502, "RST2INIT_QP";
    /// Init to ReadyToReceive.
    Init2RtrQp = 0x503, "INIT2RTR_QP";
    /// ReadyToReceive to ReadyToSend.
    Rtr2RtsQp = 0x504, "RTR2RTS_QP";
    /// To Error.
    ToErrorQp = 0x507, "2ERR_QP";
    /// To Reset.
    ToResetQp = 0x50a, "2RST_QP";
    /// Makes a protection domain.
    AllocPd = 0x800, "ALLOC_PD";
    /// Makes a page of registers.
    AllocUar = 0x802, "ALLOC_UAR";
}

/// How a command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Done.
    Ok,
    /// The firmware failed.
    Internal,
    /// No such command or modifier.
    BadOperation,
    /// A field holds what it can't.
    BadParameter,
    /// Not possible in the adapter's state.
    BadSystemState,
    /// No such object.
    BadResource,
    /// The object is in use.
    Busy,
    /// A limit is exceeded.
    Limit,
    /// Not possible in the object's state.
    BadResourceState,
    /// A number out of range.
    BadIndex,
    /// Nothing left of what it needs.
    NoResources,
    /// Not possible in the queue pair's state.
    BadQueuePairState,
    /// The command's length is wrong.
    BadInputLength,
    /// The answer's length is wrong.
    BadOutputLength,
    /// None that is known here.
    Unknown(u8),
}

impl Status {
    /// Of an answer.
    ///
    /// ```
    /// use shmem_mlx5::cmd::Status;
    /// assert_eq!(Status::of(&[0; 16]), Status::Ok);
    /// assert_eq!(Status::of(&[3; 16]), Status::BadParameter);
    /// ```
    pub fn of(answer: &[u8]) -> Self {
        match STATUS.get(answer) as u8 {
            0x00 => Self::Ok,
            0x01 => Self::Internal,
            0x02 => Self::BadOperation,
            0x03 => Self::BadParameter,
            0x04 => Self::BadSystemState,
            0x05 => Self::BadResource,
            0x06 => Self::Busy,
            0x08 => Self::Limit,
            0x09 => Self::BadResourceState,
            0x0a => Self::BadIndex,
            0x0f => Self::NoResources,
            0x10 => Self::BadQueuePairState,
            0x50 => Self::BadInputLength,
            0x51 => Self::BadOutputLength,
            other => Self::Unknown(other),
        }
    }
}

/// A command of `N` bytes, all zeros but for its opcode.
fn command<const N: usize>(opcode: Opcode) -> [u8; N] {
    let mut bytes = [0; N];
    OPCODE.set(&mut bytes, opcode as u64);
    bytes
}

/// Ends what a command of that opcode makes; [`NUMBER`] says which. None for commands that make nothing.
///
/// ```
/// use shmem_mlx5::cmd;
/// let mut command = cmd::destroy(cmd::Opcode::CreateQp as u16).unwrap();
/// cmd::NUMBER.set(&mut command, 0x123);
/// assert_eq!(cmd::name(&command), "DESTROY_QP");
/// ```
pub fn destroy(opcode: u16) -> Option<[u8; 16]> {
    let opcode = match opcode {
        x if x == Opcode::CreateMkey as u16 => Opcode::DestroyMkey,
        x if x == Opcode::CreateCq as u16 => Opcode::DestroyCq,
        x if x == Opcode::CreateQp as u16 => Opcode::DestroyQp,
        _ => return None,
    };
    Some(command(opcode))
}
