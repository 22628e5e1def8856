//! Planted faults, each of which must be found: every field of every segment, the steps of the doorbell, index arithmetic,
//! ownership, keys. `mutants.md` says of each how it is found; this test keeps the page true (`MUTANTS=overwrite` writes it).

mod common;

use common::{HEAP, HEAP_BYTES, Options, Queue, Rig, place};
use shmem_hca::tables::{Field, Layout, UNIT, atomic, control, inline, masked_add32, masked_add64, masked_swap32};
use shmem_hca::tables::{masked_swap64, pointer, remote};
use shmem_hca::{Access, Config, Fabric, Fault, Memory, Place, Ram, decode};
use shmem_mlx5::completion::{Kind, Syndrome};
use shmem_mlx5::entry::{self, Masked};
use shmem_mlx5::segment::flags;
use shmem_mlx5::{Be32, Index, Length, Post, Unit, doorbell};
use std::fmt::Write;

const DATA: u64 = 0x1000;
const WORD: u64 = 0x2000;

/// The name of a fault, and of what it is about.
fn name(fault: &Fault) -> String {
    let text = format!("{fault:?}");
    let end = text.find([' ', '(']).unwrap_or(text.len());
    match fault {
        Fault::Field { segment, field, .. } => format!("Field({segment}, {field})"),
        Fault::Local(key) | Fault::Remote(key) => {
            let key = format!("{key:?}");
            let inner = &key[..key.find([' ', '(']).unwrap_or(key.len())];
            format!("{}({inner})", &text[..end])
        }
        _ => text[..end].to_owned(),
    }
}

fn found(rig: &mut Rig) -> String {
    let violations = rig.fabric.take_violations();
    violations.first().map_or("nothing".into(), |v| name(&v.fault))
}

/// Everything that a program could see.
#[derive(PartialEq)]
struct Outcome {
    faults: Vec<String>,
    heaps: [Vec<u8>; 2],
    completion: Option<(Kind, u64, Syndrome)>,
    /// Where there is no target for it, what it would ask for.
    request: Option<decode::Request>,
}

impl Outcome {
    fn difference(&self, other: &Self) -> Option<String> {
        if self.faults != other.faults {
            return Some(other.faults.first().cloned().unwrap_or("no fault".into()));
        }
        let text = match () {
            () if self.heaps[1] != other.heaps[1] => "wrong bytes at the target",
            () if self.heaps[0] != other.heaps[0] => "wrong bytes at the sender",
            () if other.completion.is_none() && self.completion.is_some() => "no completion",
            () if self.completion != other.completion => "another completion",
            () if self.request != other.request => "another request",
            () => return None,
        };
        Some(text.into())
    }
}

/// An operation, its segments, and the words of the target that it is tried on.
struct Operation {
    name: &'static str,
    segments: &'static [(usize, Layout)],
    words: &'static [u64],
    build: fn(&Rig, Post) -> Vec<Unit>,
}

const CONTROL: (usize, Layout) = (0, control::LAYOUT);
const REMOTE: (usize, Layout) = (UNIT, remote::LAYOUT);
const WAS: u64 = 0x0123_4567_89ab_cdef;
/// The word that is expected, and ones that differ from it in one bit.
const NEAR: &[u64] = &[WAS, WAS ^ 1, WAS ^ 1 << 63, WAS ^ 1 << 31, WAS ^ 1 << 32];

const OPERATIONS: &[Operation] = &[
    Operation {
        name: "nop",
        segments: &[CONTROL],
        words: &[WAS],
        build: |_, post| entry::nop(post).into(),
    },
    Operation {
        name: "write",
        segments: &[CONTROL, REMOTE, (32, pointer::LAYOUT)],
        words: &[WAS],
        build: |rig, post| entry::write(post, rig.remote(1, DATA), rig.local(0, DATA), Length::new(24).unwrap()).into(),
    },
    Operation {
        name: "write, inline",
        segments: &[CONTROL, REMOTE, (32, inline::LAYOUT)],
        words: &[WAS],
        build: |rig, post| {
            let data = [0x1111_1111, 0x2222_2222, 0x3333_3333];
            entry::write_inline(post, rig.remote(1, DATA), data, 8).unwrap().into()
        },
    },
    Operation {
        name: "write with immediate",
        segments: &[CONTROL, REMOTE, (32, pointer::LAYOUT)],
        words: &[WAS],
        build: |rig, post| {
            let (to, from, length) = (rig.remote(1, DATA), rig.local(0, DATA), Length::new(24).unwrap());
            entry::write_immediate(post, to, from, length, Be32::new(0x1234_5678)).into()
        },
    },
    Operation {
        name: "read",
        segments: &[CONTROL, REMOTE, (32, pointer::LAYOUT)],
        words: &[WAS],
        build: |rig, post| entry::read(post, rig.remote(1, DATA), rig.local(0, DATA), Length::new(24).unwrap()).into(),
    },
    Operation {
        name: "send",
        segments: &[CONTROL, (UNIT, pointer::LAYOUT)],
        words: &[WAS],
        build: |rig, post| entry::send(post, rig.local(0, DATA), Length::new(24).unwrap()).into(),
    },
    Operation {
        name: "send with immediate",
        segments: &[CONTROL, (UNIT, pointer::LAYOUT)],
        words: &[WAS],
        build: |rig, post| {
            let length = Length::new(24).unwrap();
            entry::send_immediate(post, rig.local(0, DATA), length, Be32::new(0x1234_5678)).into()
        },
    },
    Operation {
        name: "fetch-add",
        segments: &[CONTROL, REMOTE, (32, atomic::LAYOUT), (48, pointer::LAYOUT)],
        words: &[WAS],
        build: |rig, post| entry::fetch_add(post, rig.remote(1, WORD), 0x1111, rig.local(0, WORD)).into(),
    },
    Operation {
        name: "compare-swap",
        segments: &[CONTROL, REMOTE, (32, atomic::LAYOUT), (48, pointer::LAYOUT)],
        words: NEAR,
        build: |rig, post| entry::compare_swap(post, rig.remote(1, WORD), WAS, !WAS, rig.local(0, WORD)).into(),
    },
    Operation {
        name: "masked fetch-add, 4 bytes",
        segments: &[CONTROL, REMOTE, (32, masked_add32::LAYOUT), (48, pointer::LAYOUT)],
        words: &[WAS],
        build: |rig, post| {
            entry::masked_fetch_add32(post, rig.remote(1, WORD), 0x1111_1111, 1 << 15, rig.local(0, WORD)).into()
        },
    },
    Operation {
        name: "masked fetch-add, 8 bytes",
        segments: &[CONTROL, REMOTE, (32, masked_add64::LAYOUT), (48, pointer::LAYOUT)],
        words: &[WAS],
        build: |rig, post| {
            entry::masked_fetch_add64(post, rig.remote(1, WORD), 0x1111_1111, 1 << 15, rig.local(0, WORD)).into()
        },
    },
    Operation {
        name: "masked compare-swap, 4 bytes",
        segments: &[CONTROL, REMOTE, (32, masked_swap32::LAYOUT), (48, pointer::LAYOUT)],
        words: NEAR,
        build: |rig, post| {
            let what = Masked {
                swap: !WAS as u32,
                compare: WAS as u32,
                swap_mask: u32::MAX,
                compare_mask: u32::MAX,
            };
            entry::masked_compare_swap32(post, rig.remote(1, WORD), what, rig.local(0, WORD)).into()
        },
    },
    Operation {
        name: "masked compare-swap, 8 bytes",
        segments: &[CONTROL, REMOTE, (32, masked_swap64::LAYOUT), (64, pointer::LAYOUT)],
        words: NEAR,
        build: |rig, post| {
            let what = Masked {
                swap: !WAS,
                compare: WAS,
                swap_mask: u64::MAX,
                compare_mask: u64::MAX,
            };
            entry::masked_compare_swap64(post, rig.remote(1, WORD), what, rig.local(0, WORD)).into()
        },
    },
];

fn rig() -> Rig {
    let mut rig = Rig::new(Config::strict(1), Options::default());
    for pe in 0..2 {
        let bytes: Vec<u8> = (0..HEAP_BYTES).map(|i| (i * 31 + i / 251 + pe * 77) as u8).collect();
        rig.set_heap(pe, 0, &bytes);
    }
    rig
}

/// Runs an operation whose bytes `change` has changed.
fn run(operation: &Operation, word: u64, change: impl Fn(&mut [u8])) -> Outcome {
    let mut rig = rig();
    rig.set_heap(1, WORD, &word.to_ne_bytes());
    // Index 1, so that no field of it is all zeros.
    let nop = entry::nop(rig.next(0, 1));
    rig.post(0, 1, &nop);
    let units = (operation.build)(&rig, rig.next(0, 1).signalled());
    let mut bytes: Vec<u8> = units.iter().flat_map(|u| u.to_bytes()).collect();
    change(&mut bytes);
    let units: Vec<Unit> = bytes
        .chunks(UNIT)
        .map(|c| Unit::from_bytes(c.try_into().unwrap()))
        .collect();
    rig.post(0, 1, &units);
    rig.fabric.run();
    let faults = rig.fabric.take_violations().iter().map(|v| name(&v.fault)).collect();
    let completion = rig.take(0, 1);
    let units_said = control::UNITS.get(&bytes) as usize;
    Outcome {
        faults,
        heaps: [rig.heap(0, 0, HEAP_BYTES), rig.heap(1, 0, HEAP_BYTES)],
        completion,
        request: decode::request(bytes.get(..units_said * UNIT).unwrap_or(&bytes))
            .ok()
            .filter(has_no_target)
            .map(|request| decode::Request {
                fence: decode::Fence::None,
                ..request
            }),
    }
}

fn has_no_target(request: &decode::Request) -> bool {
    match &request.operation {
        decode::Operation::Send { .. } => true,
        decode::Operation::Write { immediate, .. } => immediate.is_some(),
        _ => false,
    }
}

/// Mutants that change nothing for a program, and why.
const EQUIVALENT: &[(&str, &str, &str)] = &[
    ("FENCE", "lowest", "a fence where none is needed only waits"),
    ("FENCE", "highest", "a fence where none is needed only waits"),
    ("BOUNDARY", "highest", "no carry leaves the highest bit anyway"),
];

fn fields(table: &mut String) {
    // Operations of which the same is true are one row.
    let mut rows: Vec<(String, Vec<&str>)> = Vec::new();
    for operation in OPERATIONS {
        let plain: Vec<Outcome> = operation
            .words
            .iter()
            .map(|&word| run(operation, word, |_| ()))
            .collect();
        for (at, layout) in operation.segments {
            for field in layout.fields {
                let mut how = Vec::new();
                for (mutation, mask) in mutations(field) {
                    let change = |bytes: &mut [u8]| {
                        let segment = &mut bytes[*at..];
                        field.set(segment, field.get(segment) ^ mask);
                    };
                    let words = operation.words.iter().zip(&plain);
                    let mut killed = words.map(|(&word, plain)| plain.difference(&run(operation, word, change)));
                    let why = EQUIVALENT.iter().find(|(f, m, _)| *f == field.name && *m == mutation);
                    let found = match (killed.find_map(|difference| difference), why) {
                        (Some(found), None) => found,
                        (None, Some((.., why))) => format!("same: {why}"),
                        (found, why) => panic!(
                            "{}: {}.{}, {mutation}: found {found:?}, expected to be the same {why:?}",
                            operation.name, layout.name, field.name
                        ),
                    };
                    how.push((mutation, found));
                }
                let first = how[0].1.clone();
                let text = if how.iter().all(|(_, found)| *found == first) {
                    first
                } else {
                    how.iter()
                        .map(|(m, found)| format!("{m}: {found}"))
                        .collect::<Vec<_>>()
                        .join("; ")
                };
                let row = format!("{} | {} | {text} |", layout.name, field.name);
                match rows.iter_mut().find(|(r, _)| *r == row) {
                    Some((_, operations)) => operations.push(operation.name),
                    None => rows.push((row, vec![operation.name])),
                }
            }
        }
    }
    rows.sort_by(|(a, _), (b, _)| a.split(" | ").next().cmp(&b.split(" | ").next()));
    for (row, operations) in rows {
        let all = operations.len() == OPERATIONS.len();
        let operations = if all { "all".into() } else { operations.join("; ") };
        writeln!(table, "| {row} {operations} |").unwrap();
    }
}

fn mutations(field: &Field) -> Vec<(&'static str, u64)> {
    let all = u64::MAX >> (64 - field.bits);
    let mut mutations = vec![("lowest", 1), ("highest", 1 << (field.bits - 1)), ("all", all)];
    mutations.dedup_by_key(|m| m.1);
    mutations
}

/// A program with one thing wrong.
type Program = fn(&mut Rig);

fn put(rig: &Rig, post: Post) -> [Unit; 3] {
    entry::write(post, rig.remote(1, DATA), rig.local(0, DATA), Length::new(24).unwrap())
}

fn post_put(rig: &mut Rig) {
    let units = put(rig, rig.next(0, 1).signalled());
    rig.post(0, 1, &units);
}

/// Posts and takes `n` puts, as a right program does.
fn traffic(rig: &mut Rig, n: usize) {
    for _ in 0..n {
        rig.make_room(0, 1, 1);
        post_put(rig);
        rig.fabric.run();
        assert!(matches!(rig.take(0, 1), Some((Kind::Request, ..))));
    }
    rig.clean();
}

fn set_record(rig: &mut Rig, offset: u64, bytes: &[u8]) {
    let at = rig.queues[0][1].record.after(offset);
    rig.fabric.memory_mut().write(at, bytes).unwrap();
}

fn set_record_to(rig: &mut Rig, value: u32) {
    set_record(rig, doorbell::SEND_OFFSET as u64, &value.to_be_bytes());
}

fn store(rig: &mut Rig, bytes: &[u8]) {
    let page = rig.queues[0][1].page;
    rig.fabric.store(page, doorbell::REGISTER_OFFSET as u64, bytes);
}

/// The register value of a put at an index.
fn register(rig: &Rig, index: u64) -> [u8; 8] {
    let post = Post::new(Index::of(index), rig.queues[0][1].number).signalled();
    doorbell::register(put(rig, post)[0]).to_be_bytes()
}

fn write_units(rig: &mut Rig, units: &[(usize, Unit)], index: u64) {
    let queue = &rig.queues[0][1];
    let (size, start) = (queue.size, queue.start);
    for (i, unit) in units {
        let at = start.after(size.offset_of_unit(Index::of(index), *i) as u64);
        rig.fabric.memory_mut().write(at, &unit.to_bytes()).unwrap();
    }
}

/// A put of which unit `missing` is not there when the register is written.
fn partial(rig: &mut Rig, missing: usize) {
    traffic(rig, 20);
    let units = put(rig, rig.next(0, 1).signalled());
    let parts: Vec<(usize, Unit)> = units
        .iter()
        .copied()
        .enumerate()
        .filter(|(i, _)| *i != missing)
        .collect();
    let position = rig.queues[0][1].posted;
    write_units(rig, &parts, position);
    set_record_to(rig, position as u32 + 1);
    let value = register(rig, position);
    store(rig, &value);
}

/// A put that says another index than where it stands.
fn index(rig: &mut Rig, said: fn(&Queue) -> u64) {
    traffic(rig, 20);
    let post = Post::new(Index::of(said(&rig.queues[0][1])), rig.queues[0][1].number).signalled();
    let units = put(rig, post);
    rig.post(0, 1, &units);
}

const DOORBELL: &[(&str, Program)] = &[
    ("entry missing", |rig| {
        traffic(rig, 20);
        let position = rig.queues[0][1].posted;
        set_record_to(rig, position as u32 + 1);
        let value = register(rig, position);
        store(rig, &value);
    }),
    ("entry's first unit missing", |rig| partial(rig, 0)),
    ("entry's second unit missing", |rig| partial(rig, 1)),
    ("entry's third unit missing", |rig| partial(rig, 2)),
    ("second block of an entry missing", |rig| {
        let what = Masked {
            swap: 1,
            compare: 2,
            swap_mask: 3,
            compare_mask: 4,
        };
        let units = entry::masked_compare_swap64(rig.next(0, 1), rig.remote(1, WORD), what, rig.local(0, WORD));
        let parts: Vec<(usize, Unit)> = units.into_iter().enumerate().take(4).collect();
        write_units(rig, &parts, 0);
        set_record_to(rig, 2);
        store(rig, &doorbell::register(units[0]).to_be_bytes());
    }),
    ("register before record", |rig| {
        traffic(rig, 3);
        let units = put(rig, rig.next(0, 1));
        rig.write(0, 1, &units);
        rig.write_register(0, 1);
        rig.write_record(0, 1);
    }),
    ("register before the first record", |rig| {
        let units = put(rig, rig.next(0, 1));
        rig.write(0, 1, &units);
        rig.write_register(0, 1);
    }),
    ("record of one entry too few", |rig| {
        for _ in 0..2 {
            let units = put(rig, rig.next(0, 1));
            rig.write(0, 1, &units);
        }
        set_record_to(rig, 1);
        rig.write_register(0, 1);
    }),
    ("record of one entry too many", |rig| {
        let units = put(rig, rig.next(0, 1));
        rig.write(0, 1, &units);
        set_record_to(rig, 2);
        rig.write_register(0, 1);
    }),
    ("record of one block too few", |rig| {
        let what = Masked {
            swap: 1,
            compare: 2,
            swap_mask: 3,
            compare_mask: 4,
        };
        let units = entry::masked_compare_swap64(rig.next(0, 1), rig.remote(1, WORD), what, rig.local(0, WORD));
        rig.write(0, 1, &units);
        set_record_to(rig, 1);
        store(rig, &doorbell::register(units[0]).to_be_bytes());
    }),
    ("record not swapped to big-endian", |rig| {
        let units = put(rig, rig.next(0, 1));
        rig.write(0, 1, &units);
        set_record(rig, 4, &1u32.to_le_bytes());
        rig.write_register(0, 1);
    }),
    ("record in the receive queue's word", |rig| {
        let units = put(rig, rig.next(0, 1));
        rig.write(0, 1, &units);
        set_record(rig, 0, &1u32.to_be_bytes());
        rig.write_register(0, 1);
    }),
    ("record not cut to 16 bits", |rig| {
        let mut wrapped = Rig::new(
            Config {
                delivery: shmem_hca::Delivery::Eager,
                watch: false,
                ..Config::strict(0)
            },
            Options::default(),
        );
        std::mem::swap(rig, &mut wrapped);
        traffic(rig, 0xffff);
        let units = put(rig, rig.next(0, 1));
        rig.write(0, 1, &units);
        set_record_to(rig, 0x1_0000);
        rig.write_register(0, 1);
    }),
    ("record set back", |rig| {
        traffic(rig, 20);
        set_record_to(rig, 3);
        let value = register(rig, 2);
        store(rig, &value);
    }),
    ("register of an earlier entry", |rig| {
        let first = register(rig, 0);
        for _ in 0..2 {
            let units = put(rig, rig.next(0, 1).signalled());
            rig.write(0, 1, &units);
        }
        rig.write_record(0, 1);
        store(rig, &first);
    }),
    ("register of a later entry", |rig| {
        let units = put(rig, rig.next(0, 1).signalled());
        rig.write(0, 1, &units);
        rig.write_record(0, 1);
        let value = register(rig, 1);
        store(rig, &value);
    }),
    ("register written twice", |rig| {
        post_put(rig);
        rig.write_register(0, 1);
    }),
    ("register with the next index and no opcode", |rig| {
        let units = put(rig, rig.next(0, 1));
        rig.write(0, 1, &units);
        rig.write_record(0, 1);
        let number = rig.queues[0][1].number.get();
        let value = [(1u32 << 8).to_be_bytes(), (number << 8).to_be_bytes()].concat();
        store(rig, &value);
    }),
    ("register with another count of units", |rig| {
        let units = put(rig, rig.next(0, 1).signalled());
        rig.write(0, 1, &units);
        rig.write_record(0, 1);
        let mut value = register(rig, 0);
        value[7] = 4;
        store(rig, &value);
    }),
    ("register not in the entry's byte order", |rig| {
        let units = put(rig, rig.next(0, 1).signalled());
        rig.write(0, 1, &units);
        rig.write_record(0, 1);
        let mut value = register(rig, 0);
        value.reverse();
        store(rig, &value);
    }),
    ("register of another queue pair's page", |rig| {
        let adapter = rig.pes[0].adapter;
        let other = rig.fabric.add_page(adapter, None).unwrap();
        let units = put(rig, rig.next(0, 1).signalled());
        rig.write(0, 1, &units);
        rig.write_record(0, 1);
        let value = register(rig, 0);
        rig.fabric.store(other, doorbell::REGISTER_OFFSET as u64, &value);
    }),
    ("register at another offset", |rig| {
        post_put_at(rig, 0x810);
    }),
    ("register by two stores of 4 bytes", |rig| {
        let units = put(rig, rig.next(0, 1).signalled());
        rig.write(0, 1, &units);
        rig.write_record(0, 1);
        let value = register(rig, 0);
        store(rig, &value[..4]);
    }),
    ("queue pair that is not ready to send", |rig| {
        let adapter = rig.pes[0].adapter;
        let qp = unready(&mut rig.fabric, adapter, rig.pes[0].domain, rig.pes[0].page);
        let value = [0, 0, 0, 0, 0, 0, qp.number() as u8, 1];
        store(rig, &value);
    }),
];

fn post_put_at(rig: &mut Rig, offset: u64) {
    let units = put(rig, rig.next(0, 1).signalled());
    rig.write(0, 1, &units);
    rig.write_record(0, 1);
    let (page, value) = (rig.queues[0][1].page, register(rig, 0));
    rig.fabric.store(page, offset, &value);
}

fn unready(
    fabric: &mut Fabric<Ram>,
    adapter: shmem_hca::Adapter,
    domain: shmem_hca::Domain,
    page: shmem_hca::Page,
) -> shmem_hca::QueuePair {
    let at = |address: u64| place(0, 0x9000_0000 + address);
    fabric.memory_mut().add(at(0), 0x1000);
    fabric.memory_mut().write(at(0x100 + 63), &[0xff]).unwrap();
    let completions = shmem_hca::CompletionQueueConfig {
        start: at(0x100),
        log2: 0,
        record: at(0x200),
        collapsed: true,
        ignore_overrun: true,
    };
    let completions = fabric.add_completion_queue(adapter, completions).unwrap();
    let config = shmem_hca::QueuePairConfig {
        domain,
        page,
        start: at(0),
        log2: 0,
        record: at(0x208),
        completions,
    };
    fabric.add_queue_pair(adapter, config).unwrap()
}

const INDICES: &[(&str, Program)] = &[
    ("index off by one", |rig| index(rig, |q| q.posted + 1)),
    ("index off by one, register right", |rig| {
        let post = Post::new(Index::new(1), rig.queues[0][1].number).signalled();
        let units = put(rig, post);
        rig.write(0, 1, &units);
        rig.write_record(0, 1);
        let value = register(rig, 0);
        store(rig, &value);
    }),
    ("another queue pair's number, register right", |rig| {
        let post = Post::new(Index::new(0), rig.queues[0][0].number).signalled();
        let units = put(rig, post);
        rig.write(0, 1, &units);
        rig.write_record(0, 1);
        let value = register(rig, 0);
        store(rig, &value);
    }),
    ("index of the pass before", |rig| index(rig, |q| q.posted - 16)),
    ("index cut to the queue's size", |rig| index(rig, |q| q.posted & 15)),
    ("index that counts entries, not blocks", |rig| {
        let what = Masked {
            swap: 1,
            compare: 2,
            swap_mask: 3,
            compare_mask: 4,
        };
        let units = entry::masked_compare_swap64(rig.next(0, 1), rig.remote(1, WORD), what, rig.local(0, WORD));
        rig.post(0, 1, &units);
        let post = Post::new(Index::new(1), rig.queues[0][1].number);
        let units = put(rig, post);
        rig.post(0, 1, &units);
    }),
    ("entry at the slot of the next one", |rig| {
        let units = put(rig, rig.next(0, 1).signalled());
        write_units(rig, &[(4, units[0]), (5, units[1]), (6, units[2])], 0);
        set_record_to(rig, 1);
        let value = register(rig, 0);
        store(rig, &value);
    }),
    ("entry that goes on behind the queue's end, not at its start", |rig| {
        traffic(rig, 15);
        let what = Masked {
            swap: 1,
            compare: 2,
            swap_mask: 3,
            compare_mask: 4,
        };
        let units = entry::masked_compare_swap64(rig.next(0, 1), rig.remote(1, WORD), what, rig.local(0, WORD));
        let parts: Vec<(usize, Unit)> = units.into_iter().enumerate().take(4).collect();
        write_units(rig, &parts, 15);
        set_record_to(rig, 17);
        store(rig, &doorbell::register(units[0]).to_be_bytes());
    }),
];

const OWNERSHIP: &[(&str, Program)] = &[
    ("more entries than the queue has blocks", |rig| {
        for _ in 0..17 {
            let units = put(rig, rig.next(0, 1));
            rig.write(0, 1, &units);
        }
        rig.ring(0, 1);
    }),
    ("blocks reused before their completion, within the record", |rig| {
        post_put(rig);
        // What would be entry 16, where entry 0 still is.
        let post = Post::new(Index::new(16), rig.queues[0][1].number);
        let units = put(rig, post);
        write_units(rig, &[(0, units[0])], 16);
        rig.fabric.run();
    }),
    ("one byte of an entry rewritten before its completion", |rig| {
        post_put(rig);
        let at = rig.queues[0][1].start.after(47);
        rig.fabric.memory_mut().write(at, &[0xee]).unwrap();
        rig.fabric.run();
    }),
    ("poller that ignores the owner bit", |rig| {
        traffic(rig, 16);
        // Every slot has a completion of the pass before, which such a poller takes for the next one's.
        post_put(rig);
        let at = rig.queues[0][1].completions.after(63);
        let mut last = [0];
        rig.fabric.memory().read(at, &mut last).unwrap();
        assert_eq!(last[0] >> 4, Kind::Request as u8);
        let queue = &mut rig.queues[0][1];
        (queue.taken, queue.done) = (queue.taken + 1, queue.posted);
        let word = doorbell::completion_record(queue.taken).to_bytes();
        let at = queue.completion_record;
        rig.fabric.memory_mut().write(at, &word).unwrap();
    }),
    ("completions not taken", |rig| {
        for _ in 0..17 {
            // It looks at the entries that are done, and not at the queue.
            let queue = &mut rig.queues[0][1];
            queue.done = queue.posted;
            let units = entry::nop(rig.next(0, 1).signalled());
            rig.post(0, 1, &units);
            rig.fabric.run();
        }
    }),
    ("completion record never written", |rig| {
        for _ in 0..17 {
            let units = entry::nop(rig.next(0, 1).signalled());
            rig.post(0, 1, &units);
            rig.fabric.run();
            rig.take(0, 1);
            let at = rig.queues[0][1].completion_record;
            rig.fabric.memory_mut().write(at, &[0; 4]).unwrap();
        }
    }),
    ("completion record one ahead", |rig| {
        completion_record(rig, &2u32.to_be_bytes())
    }),
    ("completion record not swapped to big-endian", |rig| {
        completion_record(rig, &1u32.to_le_bytes())
    }),
    ("completion record not cut to 24 bits", |rig| {
        completion_record(rig, &0x0100_0001u32.to_be_bytes())
    }),
];

fn completion_record(rig: &mut Rig, bytes: &[u8]) {
    traffic(rig, 1);
    let at = rig.queues[0][1].completion_record;
    rig.fabric.memory_mut().write(at, bytes).unwrap();
    post_put(rig);
    rig.fabric.run();
}

const KEYS: &[(&str, Program)] = &[
    ("source one byte outside", |rig| {
        let from = rig.local(0, HEAP_BYTES as u64 - 23);
        let units = entry::write(rig.next(0, 1), rig.remote(1, DATA), from, Length::new(24).unwrap());
        rig.post(0, 1, &units);
    }),
    ("target one byte outside", |rig| {
        let to = rig.remote(1, HEAP_BYTES as u64 - 23);
        let units = entry::write(rig.next(0, 1), to, rig.local(0, DATA), Length::new(24).unwrap());
        rig.post(0, 1, &units);
    }),
    ("target one byte before", |rig| {
        let to = shmem_mlx5::Remote {
            address: HEAP - 1,
            ..rig.remote(1, 0)
        };
        let units = entry::write(rig.next(0, 1), to, rig.local(0, DATA), Length::new(24).unwrap());
        rig.post(0, 1, &units);
    }),
    ("long put whose last byte is outside", |rig| {
        let to = rig.remote(1, HEAP_BYTES as u64 - 0x2000 + 1);
        let units = entry::write(rig.next(0, 1), to, rig.local(0, 0), Length::new(0x2000).unwrap());
        rig.post(0, 1, &units);
    }),
    ("address that wraps", |rig| {
        let to = shmem_mlx5::Remote {
            address: u64::MAX - 3,
            ..rig.remote(1, 0)
        };
        let units = entry::write(rig.next(0, 1), to, rig.local(0, DATA), Length::new(24).unwrap());
        rig.post(0, 1, &units);
    }),
    ("own key for the target", |rig| {
        let to = shmem_mlx5::Remote {
            key: shmem_mlx5::RemoteKey(rig.pes[0].strict),
            ..rig.remote(1, DATA)
        };
        let units = entry::write(rig.next(0, 1), to, rig.local(0, DATA), Length::new(24).unwrap());
        rig.post(0, 1, &units);
    }),
    ("the target's key for the source", |rig| {
        let from = shmem_mlx5::Local {
            key: shmem_mlx5::LocalKey(rig.pes[1].strict),
            ..rig.local(0, DATA)
        };
        let units = entry::write(rig.next(0, 1), rig.remote(1, DATA), from, Length::new(24).unwrap());
        rig.post(0, 1, &units);
    }),
    ("key that was removed", |rig| {
        let (domain, key) = (rig.pes[1].domain, rig.pes[1].strict);
        rig.fabric.remove_key(domain, key).unwrap();
        post_put(rig);
    }),
    ("key of another protection domain", |rig| {
        let domain = rig.fabric.add_domain(rig.pes[1].adapter).unwrap();
        let key = other_key(rig, domain, Access::ALL);
        let to = shmem_mlx5::Remote {
            key: shmem_mlx5::RemoteKey(key),
            ..rig.remote(1, DATA)
        };
        let units = entry::write(rig.next(0, 1), to, rig.local(0, DATA), Length::new(24).unwrap());
        rig.post(0, 1, &units);
    }),
    ("put under a key without remote writes", |rig| {
        let key = other_key(
            rig,
            rig.pes[1].domain,
            Access {
                remote_write: false,
                ..Access::ALL
            },
        );
        let to = shmem_mlx5::Remote {
            key: shmem_mlx5::RemoteKey(key),
            ..rig.remote(1, DATA)
        };
        let units = entry::write(rig.next(0, 1), to, rig.local(0, DATA), Length::new(24).unwrap());
        rig.post(0, 1, &units);
    }),
    ("get under a key without remote reads", |rig| {
        let key = other_key(
            rig,
            rig.pes[1].domain,
            Access {
                remote_read: false,
                ..Access::ALL
            },
        );
        let from = shmem_mlx5::Remote {
            key: shmem_mlx5::RemoteKey(key),
            ..rig.remote(1, DATA)
        };
        let units = entry::read(rig.next(0, 1), from, rig.local(0, DATA), Length::new(24).unwrap());
        rig.post(0, 1, &units);
    }),
    ("atomic under a key without remote atomics", |rig| {
        let key = other_key(
            rig,
            rig.pes[1].domain,
            Access {
                remote_atomic: false,
                ..Access::ALL
            },
        );
        let to = shmem_mlx5::Remote {
            key: shmem_mlx5::RemoteKey(key),
            ..rig.remote(1, WORD)
        };
        let units = entry::fetch_add(rig.next(0, 1), to, 1, rig.local(0, WORD));
        rig.post(0, 1, &units);
    }),
    ("get into memory without local writes", |rig| {
        let access = Access {
            local_write: false,
            ..Access::ALL
        };
        let key = rig
            .fabric
            .add_key(rig.pes[0].domain, 0, HEAP, 0x100, place(0, common::BASE), access)
            .unwrap();
        let to = shmem_mlx5::Local {
            address: HEAP,
            key: shmem_mlx5::LocalKey(key),
        };
        let units = entry::read(rig.next(0, 1), rig.remote(1, DATA), to, Length::new(24).unwrap());
        rig.post(0, 1, &units);
    }),
    ("atomic that is not aligned", |rig| {
        let units = entry::fetch_add(rig.next(0, 1), rig.remote(1, WORD + 4), 1, rig.local(0, WORD));
        rig.post(0, 1, &units);
    }),
    ("data pointer of 0 bytes", |rig| {
        let mut units = put(rig, rig.next(0, 1));
        units[2].0[0] = 0;
        rig.post(0, 1, &units);
    }),
    ("put to an adapter that is gone", |rig| {
        rig.fabric.set_reachable(rig.pes[1].adapter, false);
        post_put(rig);
    }),
    ("flag without a completion, then waited for", |rig| {
        let post = rig.next(0, 1);
        assert_eq!(post.flags & flags::COMPLETION, 0);
        let units = put(rig, post);
        rig.post(0, 1, &units);
    }),
];

fn other_key(rig: &mut Rig, domain: shmem_hca::Domain, access: Access) -> u32 {
    let memory = Place {
        address: common::BASE,
        ..place(1, 0)
    };
    rig.fabric
        .add_key(domain, 0, HEAP, HEAP_BYTES as u64, memory, access)
        .unwrap()
}

fn programs(table: &mut String, title: &str, programs: &[(&str, Program)]) {
    writeln!(table, "\n## {title}\n\n| planted | found by |\n|---|---|").unwrap();
    for (what, program) in programs {
        let mut rig = rig();
        program(&mut rig);
        rig.fabric.run();
        let mut found = found(&mut rig);
        if found == "nothing" && rig.take(0, 1).is_none() {
            found = "no completion".into();
        }
        assert_ne!(found, "nothing", "{what}");
        writeln!(table, "| {what} | {found} |").unwrap();
    }
}

#[test]
fn every_planted_fault_is_found() {
    let mut table = String::from(
        "# Planted faults, and how each is found\n\n\
         Kept by `cargo test -p shmem-hca --test mutants`; `MUTANTS=overwrite` writes it anew. Names are those of `shmem_hca::Fault`.\n\n\
         ## Fields of entries\n\n\
         Each field with its lowest bit, its highest, and all of them flipped, in an entry that is right otherwise; the register\n\
         follows the entry. A fence that is left out is found in `litmus.rs`.\n\n\
         | segment | field | found by | operations |\n|---|---|---|---|\n",
    );
    fields(&mut table);
    programs(&mut table, "Doorbells", DOORBELL);
    programs(&mut table, "Indices", INDICES);
    programs(&mut table, "Ownership", OWNERSHIP);
    programs(&mut table, "Keys, targets, lengths", KEYS);
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mutants.md");
    if std::env::var("MUTANTS").as_deref() == Ok("overwrite") {
        std::fs::write(page, &table).expect("the page can be written");
    }
    let kept = std::fs::read_to_string(page).unwrap_or_default();
    let differing = table.lines().zip(kept.lines()).find(|(now, kept)| now != kept);
    assert_eq!(differing, None, "left: now; right: in {page}");
    assert_eq!(table.lines().count(), kept.lines().count());
}
