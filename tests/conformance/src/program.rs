//! Programs as data: a list of operations for each PE, which one kernel carries out.
//!
//! The test `random` makes them up and knows what must come out.
use shmem::prelude::*;

/// Words that an operation takes.
pub const FIELDS: u32 = 8;
/// Threads of the block that carries a program out.
pub const THREADS: u32 = 64;

pub const PUT: u32 = 0;
pub const PUT_NBI: u32 = 1;
pub const GET: u32 = 2;
pub const GET_NBI: u32 = 3;
pub const P: u32 = 4;
pub const G: u32 = 5;
pub const FETCH_ADD: u32 = 6;
pub const FENCE: u32 = 7;
pub const QUIET: u32 = 8;
pub const BARRIER: u32 = 9;

pub const THREAD: u32 = 0;
pub const WARP: u32 = 1;
pub const BLOCK: u32 = 2;

/// An operation as it is stored: `FIELDS` words.
#[derive(Clone, Copy)]
struct Op {
    code: u32,
    /// Of which kind the tile is, and which of them.
    tile: u32,
    id: u32,
    pe: u32,
    /// Elements of the heap.
    start: u32,
    len: u32,
    /// Where its values lie: what it puts or adds in `values`, what it reads in `seen`.
    slot: u32,
    /// Whether a put reads its values from symmetric memory.
    symmetric: bool,
}

/// Carries out the operations of this PE, one after the other; each by the members of its tile, the others pass by.
#[kernel(collective, block = 64)]
pub fn carry_out(
    all: Collective,
    program: Global<u32>,
    heap: SymSlice<u32>,
    values: Global<u32>,
    symmetric: SymSlice<u32>,
    seen: Global<u32>,
) {
    let ops = program.len() as u32 / FIELDS;
    for i in 0..ops {
        let field = |k: u32| program.load(i * FIELDS + k);
        let op = Op {
            code: field(0),
            tile: field(1),
            id: field(2),
            pe: field(3),
            start: field(4),
            len: field(5),
            slot: field(6),
            symmetric: field(7) != 0,
        };
        if op.code == BARRIER {
            all.barrier(Block, shmem::world());
        } else if op.tile == THREAD {
            if thread::index() == op.id {
                apply(Thread, op, heap, values, symmetric, seen);
            }
        } else if op.tile == WARP {
            if Warp.id() == op.id {
                apply(Warp, op, heap, values, symmetric, seen);
            }
        } else {
            apply(Block, op, heap, values, symmetric, seen);
        }
    }
}

#[inline(always)]
fn apply<T: Tile>(
    tile: T,
    op: Op,
    heap: SymSlice<u32>,
    values: Global<u32>,
    symmetric: SymSlice<u32>,
    seen: Global<u32>,
) {
    let run = heap.slice(op.start..op.start + op.len);
    let slots = op.slot..op.slot + op.len;
    let (values, symmetric, seen) = (
        values.slice(slots.clone()),
        symmetric.slice(slots.clone()),
        seen.slice(slots),
    );
    match op.code {
        PUT if op.symmetric => shmem::put(tile, run, symmetric, op.pe),
        PUT => shmem::put(tile, run, values, op.pe),
        PUT_NBI if op.symmetric => shmem::put_nbi(tile, run, symmetric, op.pe),
        PUT_NBI => shmem::put_nbi(tile, run, values, op.pe),
        GET => shmem::get(tile, seen, run, op.pe),
        GET_NBI => shmem::get_nbi(tile, seen, run, op.pe),
        P => {
            for i in tile.strided(op.len) {
                shmem::p(run.at(i), values.load(i), op.pe);
            }
        }
        G => {
            for i in tile.strided(op.len) {
                seen.store(i, shmem::g(run.at(i), op.pe));
            }
        }
        FETCH_ADD => {
            for i in tile.strided(op.len) {
                seen.store(i, shmem::fetch_add(run.at(i), values.load(i), op.pe));
            }
        }
        FENCE => shmem::fence(tile),
        _ => shmem::quiet(tile),
    }
}
