//! Random programs on the simulator, against a model that carries them out one operation after the other.
//!
//! Programs have one outcome: within a phase an element is written by one tile of one PE (with the fences that its own
//! order needs), or only added to, and read where nobody else writes it. Phases end with a barrier.

use anyhow::ensure;
use conformance::program::{
    BARRIER, BLOCK, FENCE, FETCH_ADD, FIELDS, G, GET, GET_NBI, P, PUT, PUT_NBI, QUIET, THREAD, THREADS, WARP, carry_out,
};
use conformance::suite::{noise, simulator};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use shmem_host::{Pe, collective_launch};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Elements of each PE's heap.
const HEAP: u32 = 96;

/// The tiles that operations are given to: kind, and which.
const TILES: [(u32, u32); 5] = [(THREAD, 0), (THREAD, 37), (WARP, 0), (WARP, 1), (BLOCK, 0)];

/// An operation before it is known whether the program may have it.
#[derive(Clone, Debug)]
struct Draft {
    code: u32,
    tile: usize,
    by: u32,
    to: u32,
    start: u32,
    len: u32,
    symmetric: bool,
}

fn draft() -> impl Strategy<Value = Draft> {
    let code = prop::sample::select(vec![PUT, PUT, PUT_NBI, GET, GET_NBI, P, P, G, FETCH_ADD, FENCE, QUIET]);
    (code, 0..TILES.len(), 0..4u32, 0..4u32, 0..HEAP, 1..24u32, any::<bool>()).prop_map(
        |(code, tile, by, to, start, len, symmetric)| Draft {
            code,
            tile,
            by,
            to,
            start,
            len: len.min(HEAP - start),
            symmetric,
        },
    )
}

/// A tile of a PE.
type Owner = (u32, usize);

/// What an owner has to do before it touches an element again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum First {
    Nothing,
    Fence,
    Quiet,
}

/// What has been done to an element in this phase.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Use {
    Untouched,
    /// By one owner; with what it has to do before it writes.
    Read(Owner, First),
    ReadByMany,
    /// With what the owner has to do before it writes again, and before it reads.
    Written(Owner, First, First),
    Added,
}

impl Use {
    /// What the owner has to do before it accesses the element so; nothing where it may not.
    fn before(self, code: u32, owner: Owner) -> Option<First> {
        match (self, code) {
            (Self::Untouched, _)
            | (Self::Added, FETCH_ADD)
            | (Self::Read(..) | Self::ReadByMany, GET | GET_NBI | G) => Some(First::Nothing),
            (Self::Read(by, first), PUT | PUT_NBI | P) if by == owner => Some(first),
            (Self::Written(by, first, _), PUT | PUT_NBI | P) if by == owner => Some(first),
            (Self::Written(by, _, first), GET | GET_NBI | G) if by == owner => Some(first),
            _ => None,
        }
    }

    fn after(self, code: u32, owner: Owner) -> Self {
        let mine = match code {
            GET => Self::Read(owner, First::Nothing),
            // A member has its element, but the others don't know.
            G => Self::Read(owner, First::Fence),
            GET_NBI => Self::Read(owner, First::Quiet),
            FETCH_ADD => Self::Added,
            _ => Self::Written(owner, First::Fence, First::Quiet),
        };
        match (self, mine) {
            (Self::Read(by, _), Self::Read(..)) if by != owner => Self::ReadByMany,
            (Self::ReadByMany, Self::Read(..)) => Self::ReadByMany,
            (Self::Read(_, old), Self::Read(_, new)) => Self::Read(owner, old.max(new)),
            // What it has read of its own can't be written by others either.
            (Self::Written(_, old, done), Self::Read(_, new)) => Self::Written(owner, old.max(new), done),
            _ => mine,
        }
    }

    fn ordered(self, done: First, owner: Owner) -> Self {
        let left = |first| if first <= done { First::Nothing } else { first };
        match self {
            Self::Read(by, first) if by == owner => Self::Read(by, left(first)),
            Self::Written(by, write, read) if by == owner => Self::Written(by, left(write), left(read)),
            other => other,
        }
    }
}

#[derive(Clone, Copy)]
struct Cell {
    value: u32,
    used: Use,
}

/// Additions to one element in one phase: in some order, each finds what the one before it left.
struct Sum {
    before: u32,
    after: u32,
    /// PE and slot that tell what was found, and what was added.
    added: Vec<(u32, usize, u32)>,
}

/// What one PE does, and reads.
#[derive(Clone, Default)]
struct Part {
    ops: Vec<u32>,
    values: Vec<u32>,
    /// What each slot must hold, where that is one number.
    seen: Vec<Option<u32>>,
}

/// A program, with what must come out.
struct Program {
    parts: Vec<Part>,
    cells: Vec<Vec<Cell>>,
    sums: Vec<Sum>,
}

fn at_start(pe: u32, i: u32) -> u32 {
    pe * 1000 + i
}

impl Program {
    fn new(pes: u32, phases: &[Vec<Draft>]) -> Self {
        let cell = |pe, i| Cell {
            value: at_start(pe, i),
            used: Use::Untouched,
        };
        let mut program = Self {
            parts: vec![Part::default(); pes as usize],
            cells: (0..pes).map(|pe| (0..HEAP).map(|i| cell(pe, i)).collect()).collect(),
            sums: Vec::new(),
        };
        for phase in phases {
            // Additions of this phase, by PE and element.
            let mut sums = BTreeMap::new();
            for draft in phase {
                program.take(draft, pes, &mut sums);
            }
            program.sums.extend(sums.into_values());
            for part in &mut program.parts {
                part.ops.extend([BARRIER, 0, 0, 0, 0, 0, 0, 0]);
            }
            for cell in program.cells.iter_mut().flatten() {
                cell.used = Use::Untouched;
            }
        }
        program
    }

    fn order(&mut self, first: First, owner: Owner) {
        let code = match first {
            First::Nothing => return,
            First::Fence => FENCE,
            First::Quiet => QUIET,
        };
        let (tile, id) = TILES[owner.1];
        self.parts[owner.0 as usize].ops.extend([code, tile, id, 0, 0, 0, 0, 0]);
        for cell in self.cells.iter_mut().flatten() {
            cell.used = cell.used.ordered(first, owner);
        }
    }

    /// Adds an operation, if the outcome stays one.
    fn take(&mut self, draft: &Draft, pes: u32, sums: &mut BTreeMap<(u32, usize), Sum>) {
        let Draft { code, tile, len, .. } = *draft;
        let (by, to) = (draft.by % pes, draft.to % pes);
        let owner = (by, tile);
        match code {
            FENCE => return self.order(First::Fence, owner),
            QUIET => return self.order(First::Quiet, owner),
            _ => {}
        }
        let run = draft.start as usize..(draft.start + len) as usize;
        let cells = &self.cells[to as usize][run.clone()];
        let first = cells.iter().try_fold(First::Nothing, |first, cell| {
            Some(first.max(cell.used.before(code, owner)?))
        });
        let Some(first) = first else { return };
        self.order(first, owner);
        let part = &mut self.parts[by as usize];
        let slot = part.seen.len();
        let (kind, id) = TILES[tile];
        let symmetric = u32::from(draft.symmetric);
        part.ops
            .extend([code, kind, id, to, draft.start, len, slot as u32, symmetric]);
        for i in run {
            let cell = &mut self.cells[to as usize][i];
            let value = (noise(by.into(), part.values.len() as u64) >> 44) as u32 % 1_000_000 + 1;
            part.values.push(value);
            part.seen.push(match code {
                GET | GET_NBI | G => Some(cell.value),
                FETCH_ADD => None,
                // Nothing is written to the slot of a put.
                _ => Some(0),
            });
            if code == FETCH_ADD {
                let sum = sums.entry((to, i)).or_insert(Sum {
                    before: cell.value,
                    after: cell.value,
                    added: Vec::new(),
                });
                sum.added.push((by, part.seen.len() - 1, value));
                sum.after += value;
                cell.value += value;
            } else if matches!(code, PUT | PUT_NBI | P) {
                cell.value = value;
            }
            cell.used = cell.used.after(code, owner);
        }
    }

    /// Carries the program out, and compares.
    fn check(&self, seed: u64) -> anyhow::Result<()> {
        let pes = self.parts.len() as u32;
        let found = Mutex::new(vec![Vec::new(); pes as usize]);
        let world = simulator(pes).heap(1 << 25).seed(seed).build()?;
        world.run(|pe| -> anyhow::Result<()> {
            let (heap, seen) = self.run_on(&pe)?;
            let part = &self.parts[pe.id() as usize];
            for (i, (got, cell)) in heap.iter().zip(&self.cells[pe.id() as usize]).enumerate() {
                ensure!(
                    *got == cell.value,
                    "PE {}, element {i}: {got}, expected {}",
                    pe.id(),
                    cell.value
                );
            }
            for (slot, (got, expected)) in seen.iter().zip(&part.seen).enumerate() {
                ensure!(
                    expected.is_none_or(|expected| *got == expected),
                    "PE {}, slot {slot}: read {got}, expected {expected:?}",
                    pe.id()
                );
            }
            found.lock().unwrap()[pe.id() as usize] = seen;
            Ok(())
        })?;
        let found = found.into_inner().unwrap();
        for sum in &self.sums {
            let told = |&(pe, slot, value): &(u32, usize, u32)| (found[pe as usize][slot], value);
            let mut told: Vec<(u32, u32)> = sum.added.iter().map(told).collect();
            told.sort_unstable();
            let mut now = sum.before;
            for (found, value) in &told {
                ensure!(
                    *found == now,
                    "additions to {} that find and add {told:?}: {found} where {now} was",
                    sum.before
                );
                now += value;
            }
            ensure!(now == sum.after);
        }
        Ok(())
    }

    /// Returns this PE's heap, and what it has read.
    fn run_on(&self, pe: &Pe) -> anyhow::Result<(Vec<u32>, Vec<u32>)> {
        let part = &self.parts[pe.id() as usize];
        let slots = self.parts.iter().map(|part| part.seen.len()).max().unwrap_or(0).max(1);
        let (program, heap) = (pe.buffer::<u32>(part.ops.len())?, pe.alloc::<u32>(HEAP as usize)?);
        let (values, symmetric) = (pe.buffer::<u32>(slots)?, pe.alloc::<u32>(slots)?);
        let seen = pe.buffer::<u32>(slots)?;
        program.write(&part.ops)?;
        heap.write(&(0..HEAP).map(|i| at_start(pe.id(), i)).collect::<Vec<_>>())?;
        values.write_at(0, &part.values)?;
        symmetric.write_at(0, &part.values)?;
        seen.write(&vec![0; slots])?;
        pe.barrier_all()?;
        collective_launch!(pe, carry_out<<<1, THREADS>>>(&program, &heap, &values, &symmetric, &seen))?;
        Ok((heap.to_vec()?, seen.to_vec()?))
    }
}

#[test]
fn random_programs_do_what_the_model_says() {
    let config = Config {
        cases: 64,
        failure_persistence: None,
        max_shrink_iters: 500,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let phases = prop::collection::vec(prop::collection::vec(draft(), 0..40), 1..5);
    let operations = std::cell::Cell::new(0);
    let outcome = TestRunner::new_with_rng(config, rng).run(&(2..=4u32, 0..1000u64, phases), |(pes, seed, phases)| {
        let program = Program::new(pes, &phases);
        let words: usize = program.parts.iter().map(|part| part.ops.len()).sum();
        operations.set(operations.get() + words / FIELDS as usize);
        program
            .check(seed)
            .map_err(|error| TestCaseError::fail(format!("{error:#}")))
    });
    match outcome {
        Ok(()) => assert!(operations.get() > 2000, "{} operations are few", operations.get()),
        Err(TestError::Fail(why, (pes, seed, phases))) => panic!("{why}\n{pes} PEs, seed {seed}: {phases:#?}"),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
}
