//! What entries ask for.

/// What an entry waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fence {
    /// Nothing.
    None,
    /// Reads and atomics before it.
    Reads,
    /// Everything before it.
    All,
}

/// An entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Its opcode.
    pub opcode: u8,
    /// Whether it completes also where it succeeds.
    pub signalled: bool,
    /// What it waits for.
    pub fence: Fence,
    /// What it asks for.
    pub operation: Operation,
}

/// What an entry asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Nothing.
    Nop,
    /// Write at the target.
    Write {
        /// Where.
        to: Target,
        /// What.
        data: Vec<Piece>,
        /// For the target's receive.
        immediate: Option<u32>,
    },
    /// Read at the target.
    Read {
        /// Where.
        from: Target,
        /// Where to, in this order.
        to: Vec<Pointer>,
    },
    /// Send.
    Send {
        /// What.
        data: Vec<Piece>,
        /// For the target's receive.
        immediate: Option<u32>,
    },
    /// Change a word of the target's.
    Atomic {
        /// Where.
        to: Target,
        /// How.
        change: Change,
        /// Where the old value goes.
        old: Pointer,
    },
}

/// A place at the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    /// Its key.
    pub key: u32,
    /// Address under it.
    pub address: u64,
}

/// Local memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pointer {
    /// Its key.
    pub key: u32,
    /// Address under it.
    pub address: u64,
    /// How much.
    pub bytes: u32,
}

/// Data of a write or send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Piece {
    /// In memory.
    Pointer(Pointer),
    /// In the entry.
    Inline(Vec<u8>),
}

impl Piece {
    /// Bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Pointer(pointer) => u64::from(pointer.bytes),
            Self::Inline(bytes) => bytes.len() as u64,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// How an atomic changes a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// Bytes of the word: 4 or 8.
    pub bytes: usize,
    /// What becomes of it.
    pub kind: ChangeKind,
}

/// What becomes of a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChangeKind {
    /// Sum of fields, whose highest bits `boundary` marks.
    Add {
        /// Added.
        add: u64,
        /// Highest bit of each field.
        boundary: u64,
    },
    /// Swapped bits, where the compared ones are as expected.
    Swap {
        /// New bits.
        swap: u64,
        /// Expected bits.
        compare: u64,
        /// Which are replaced.
        swap_mask: u64,
        /// Which are compared.
        compare_mask: u64,
    },
}

impl Change {
    /// The new word.
    pub fn apply(&self, old: u64) -> u64 {
        let word = if self.bytes == 4 { u64::from(u32::MAX) } else { u64::MAX };
        match self.kind {
            ChangeKind::Add { add, boundary } => add_fields(old, add, boundary) & word,
            ChangeKind::Swap {
                swap,
                compare,
                swap_mask,
                compare_mask,
            } => {
                if (old ^ compare) & compare_mask & word == 0 {
                    (old & !swap_mask | swap & swap_mask) & word
                } else {
                    old
                }
            }
        }
    }
}

/// A sum in which no carry leaves a bit of `boundary`.
fn add_fields(a: u64, b: u64, boundary: u64) -> u64 {
    if boundary == 0 {
        return a.wrapping_add(b);
    }
    let (mut sum, mut carry) = (0, 0);
    for bit in 0..64 {
        let (x, y) = (a >> bit & 1, b >> bit & 1);
        sum |= (x ^ y ^ carry) << bit;
        carry = if boundary >> bit & 1 == 1 {
            0
        } else {
            x & y | carry & (x | y)
        };
    }
    sum
}

impl Operation {
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Nop => 0,
            Self::Write { data, .. } | Self::Send { data, .. } => data.iter().map(Piece::len).sum(),
            Self::Read { to, .. } => to.iter().map(|p| u64::from(p.bytes)).sum(),
            Self::Atomic { change, .. } => change.bytes as u64,
        }
    }

    pub(crate) fn is_fetching(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::Atomic { .. })
    }
}
