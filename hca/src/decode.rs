//! Entries, from bytes. Whatever the bytes are, the answer is a request or a fault. Stricter than real adapters in one
//! thing: what an operation does not use must be zero.

pub use crate::request::{Change, ChangeKind, Fence, Operation, Piece, Pointer, Request, Target};
use crate::tables::{
    BLOCK, EXTENDED_4, EXTENDED_8, Field, Layout, MAX_MESSAGE, UNIT, atomic, control, inline, masked_add32,
    masked_add64, masked_swap32, masked_swap64, opcode, pointer, remote,
};
use crate::violation::Fault;

/// The control segment of an entry, as far as it can be trusted alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// Units of the entry, 1 to 63.
    pub units: usize,
    /// Blocks that it takes.
    pub blocks: u16,
}

fn zero(layout: &Layout, field: &Field, bytes: &[u8]) -> Result<(), Fault> {
    only(layout, field, bytes, &[0], "0")
}

fn only(layout: &Layout, field: &Field, bytes: &[u8], may: &[u64], expected: &'static str) -> Result<(), Fault> {
    let seen = field.get(bytes);
    if may.contains(&seen) {
        return Ok(());
    }
    Err(Fault::Field {
        segment: layout.name,
        field: field.name,
        seen,
        expected,
    })
}

/// Reads how long the entry is whose first block is `block`, and checks that it stands at `index` of `queue_pair`.
///
/// # Errors
/// Faults of the control segment.
pub fn head(block: &[u8; BLOCK], index: u16, queue_pair: u32) -> Result<Head, Fault> {
    let seen = control::INDEX.get(block) as u16;
    if seen != index {
        return Err(Fault::Index { seen, expected: index });
    }
    let seen = control::QUEUE_PAIR.get(block) as u32;
    if seen != queue_pair {
        return Err(Fault::QueuePair { seen });
    }
    let units = control::UNITS.get(block) as usize;
    if units == 0 {
        return Err(Fault::Units {
            opcode: control::OPCODE.get(block) as u8,
            seen: 0,
            expected: "1 to 63",
        });
    }
    Ok(Head {
        units,
        blocks: units.div_ceil(BLOCK / UNIT) as u16,
    })
}

/// Reads an entry, all of its units and no more.
///
/// # Errors
/// What is wrong with it.
pub fn request(entry: &[u8]) -> Result<Request, Fault> {
    let opcode = control::OPCODE.get(entry) as u8;
    let fence = flags(entry, opcode)?;
    let immediate = has_immediate(opcode).then(|| control::IMMEDIATE.get(entry) as u32);
    let operation = match opcode {
        opcode::NOP => {
            need(entry, &[1], "1")?;
            Operation::Nop
        }
        opcode::WRITE | opcode::WRITE_IMMEDIATE => {
            at_least(entry, 2, "at least 2")?;
            Operation::Write {
                to: target(&entry[UNIT..])?,
                data: pieces(entry, 2)?,
                immediate,
            }
        }
        opcode::READ => {
            at_least(entry, 3, "at least 3")?;
            let pointers = pieces(entry, 2)?.into_iter().map(|piece| match piece {
                Piece::Pointer(pointer) => Ok(pointer),
                Piece::Inline(bytes) => Err(Fault::Field {
                    segment: pointer::LAYOUT.name,
                    field: pointer::INLINE.name,
                    seen: bytes.len() as u64,
                    expected: "0: data that is read does not fit in the entry",
                }),
            });
            Operation::Read {
                from: target(&entry[UNIT..])?,
                to: pointers.collect::<Result<_, _>>()?,
            }
        }
        opcode::SEND | opcode::SEND_IMMEDIATE => Operation::Send {
            data: pieces(entry, 1)?,
            immediate,
        },
        opcode::FETCH_ADD | opcode::COMPARE_SWAP => {
            need(entry, &[4], "4")?;
            change_of(entry, plain(entry, opcode)?)?
        }
        opcode::MASKED_FETCH_ADD => {
            need(entry, &[4], "4")?;
            change_of(entry, masked_add(entry)?)?
        }
        opcode::MASKED_COMPARE_SWAP if is_4_bytes(entry) => {
            need(entry, &[4], "4")?;
            change_of(entry, masked_swap(entry))?
        }
        opcode::MASKED_COMPARE_SWAP => {
            need(entry, &[5], "5")?;
            change_of(entry, masked_swap(entry))?
        }
        seen => return Err(Fault::Opcode { seen }),
    };
    Ok(Request {
        opcode,
        signalled: control::COMPLETION.get(entry) == 2,
        fence,
        operation,
    })
}

fn has_immediate(opcode: u8) -> bool {
    matches!(opcode, opcode::WRITE_IMMEDIATE | opcode::SEND_IMMEDIATE)
}

fn is_4_bytes(entry: &[u8]) -> bool {
    control::MODIFIER.get(entry) as u8 == EXTENDED_4
}

/// Checks what the control segment says besides place and length.
fn flags(entry: &[u8], opcode: u8) -> Result<Fence, Fault> {
    let layout = &control::LAYOUT;
    for field in [
        control::RESERVED_56,
        control::SIGNATURE,
        control::STREAM,
        control::RESERVED_91,
        control::RESERVED_95,
        control::SOLICITED,
    ] {
        zero(layout, &field, entry)?;
    }
    only(
        layout,
        &control::COMPLETION,
        entry,
        &[0, 2],
        "0 (in error) or 2 (always)",
    )?;
    only(layout, &control::FENCE, entry, &[0, 1, 2, 3, 4], "0 to 4")?;
    if matches!(opcode, opcode::MASKED_COMPARE_SWAP | opcode::MASKED_FETCH_ADD) {
        let may = [u64::from(EXTENDED_4), u64::from(EXTENDED_8)];
        only(layout, &control::MODIFIER, entry, &may, "8 (4 bytes) or 9 (8 bytes)")?;
    } else {
        zero(layout, &control::MODIFIER, entry)?;
    }
    if !has_immediate(opcode) {
        zero(layout, &control::IMMEDIATE, entry)?;
    }
    Ok(match control::FENCE.get(entry) {
        2 | 4 => Fence::Reads,
        3 => Fence::All,
        // Small fences wait for local invalidations, of which there are none.
        _ => Fence::None,
    })
}

fn need(entry: &[u8], may: &[usize], expected: &'static str) -> Result<(), Fault> {
    let units = entry.len() / UNIT;
    if may.contains(&units) {
        return Ok(());
    }
    Err(Fault::Units {
        opcode: control::OPCODE.get(entry) as u8,
        seen: units as u8,
        expected,
    })
}

fn at_least(entry: &[u8], units: usize, expected: &'static str) -> Result<(), Fault> {
    if entry.len() / UNIT < units {
        need(entry, &[], expected)
    } else {
        Ok(())
    }
}

/// Operands of a fetch-add or compare-swap.
fn plain(entry: &[u8], opcode: u8) -> Result<Change, Fault> {
    let operands = &entry[2 * UNIT..3 * UNIT];
    let swap_add = atomic::SWAP_ADD.get(operands);
    let kind = if opcode == opcode::FETCH_ADD {
        zero(&atomic::LAYOUT, &atomic::COMPARE, operands)?;
        ChangeKind::Add {
            add: swap_add,
            boundary: 0,
        }
    } else {
        ChangeKind::Swap {
            swap: swap_add,
            compare: atomic::COMPARE.get(operands),
            swap_mask: u64::MAX,
            compare_mask: u64::MAX,
        }
    };
    Ok(Change { bytes: 8, kind })
}

fn masked_add(entry: &[u8]) -> Result<Change, Fault> {
    let operands = &entry[2 * UNIT..3 * UNIT];
    let (bytes, add, boundary) = if is_4_bytes(entry) {
        zero(&masked_add32::LAYOUT, &masked_add32::RESERVED_64, operands)?;
        (4, masked_add32::ADD, masked_add32::BOUNDARY)
    } else {
        (8, masked_add64::ADD, masked_add64::BOUNDARY)
    };
    let kind = ChangeKind::Add {
        add: add.get(operands),
        boundary: boundary.get(operands),
    };
    Ok(Change { bytes, kind })
}

fn masked_swap(entry: &[u8]) -> Change {
    let operands = &entry[2 * UNIT..];
    let (bytes, fields) = if is_4_bytes(entry) {
        use masked_swap32::{COMPARE, COMPARE_MASK, SWAP, SWAP_MASK};
        (4, [SWAP, COMPARE, SWAP_MASK, COMPARE_MASK])
    } else {
        use masked_swap64::{COMPARE, COMPARE_MASK, SWAP, SWAP_MASK};
        (8, [SWAP, COMPARE, SWAP_MASK, COMPARE_MASK])
    };
    let [swap, compare, swap_mask, compare_mask] = fields.map(|field| field.get(operands));
    let kind = ChangeKind::Swap {
        swap,
        compare,
        swap_mask,
        compare_mask,
    };
    Change { bytes, kind }
}

fn target(segment: &[u8]) -> Result<Target, Fault> {
    zero(&remote::LAYOUT, &remote::RESERVED_96, segment)?;
    Ok(Target {
        key: remote::KEY.get(segment) as u32,
        address: remote::ADDRESS.get(segment),
    })
}

/// An atomic whose operands were read, with its other segments; the last is the data pointer.
fn change_of(entry: &[u8], change: Change) -> Result<Operation, Fault> {
    let to = target(&entry[UNIT..])?;
    let segment = &entry[entry.len() - UNIT..];
    zero(&pointer::LAYOUT, &pointer::INLINE, segment)?;
    let expected = if change.bytes == 4 { "4" } else { "8" };
    only(
        &pointer::LAYOUT,
        &pointer::BYTES,
        segment,
        &[change.bytes as u64],
        expected,
    )?;
    Ok(Operation::Atomic {
        to,
        change,
        old: data_pointer(segment),
    })
}

fn data_pointer(segment: &[u8]) -> Pointer {
    Pointer {
        key: pointer::KEY.get(segment) as u32,
        address: pointer::ADDRESS.get(segment),
        bytes: pointer::BYTES.get(segment) as u32,
    }
}

/// The data segments of an entry, from unit `first` to its end.
fn pieces(entry: &[u8], first: usize) -> Result<Vec<Piece>, Fault> {
    let (units, mut pieces, mut unit) = (entry.len() / UNIT, Vec::new(), first);
    while unit < units {
        let segment = &entry[unit * UNIT..];
        let bytes = inline::BYTES.get(segment) as usize;
        if inline::INLINE.get(segment) == 1 {
            let header = inline::LAYOUT.bytes;
            let Some(data) = segment.get(header..).and_then(|data| data.get(..bytes)) else {
                return Err(Fault::InlineTooLong {
                    bytes: bytes as u32,
                    unit,
                    units,
                });
            };
            if bytes == 0 {
                return Err(Fault::ZeroLength);
            }
            pieces.push(Piece::Inline(data.to_vec()));
            unit += (header + bytes).div_ceil(UNIT);
        } else {
            if bytes == 0 {
                return Err(Fault::ZeroLength);
            }
            pieces.push(Piece::Pointer(data_pointer(segment)));
            unit += 1;
        }
    }
    let bytes = pieces.iter().map(Piece::len).sum();
    if bytes > MAX_MESSAGE {
        return Err(Fault::TooLong { bytes });
    }
    Ok(pieces)
}
