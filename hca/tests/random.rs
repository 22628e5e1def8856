//! Random programs against a model. Several PEs put, get and do atomics, on queues of 16 blocks; every completion, every
//! fetched value and, at the end, every byte is as a machine without a network would have it.

mod common;

use common::{HEAP_BYTES, Options, Rig};
use shmem_hca::{Config, Delivery};
use shmem_mlx5::completion::Kind;
use shmem_mlx5::entry::{self, Masked};
use shmem_mlx5::{Index, Length, Local, Post, Remote, RemoteKey, Unit};

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// Each PE's heap: for each peer, a window that this peer alone puts to and changes, sources that never change, and a
/// scratch slot for each entry in flight.
const WINDOW: u64 = 0x1000;
const SOURCE: u64 = 0x8000;
const SOURCE_BYTES: u64 = 0x2000;
const SCRATCH: u64 = 0xa000;
const SCRATCH_SLOT: u64 = 0x100;

/// What an entry must have brought, once it is done.
struct Expected {
    /// Where its entry ends.
    end: u64,
    /// Where it is, and what.
    fetched: Option<(u64, Vec<u8>)>,
}

struct Program {
    rig: Rig,
    rng: Rng,
    heaps: Vec<Vec<u8>>,
    expected: Vec<Vec<std::collections::VecDeque<Expected>>>,
    /// Since the last doorbell.
    unrung: Vec<Vec<u32>>,
    pes: usize,
}

impl Program {
    fn new(seed: u64, config: Config, options: Options) -> Self {
        let mut rig = Rig::new(config, options);
        let mut rng = Rng(seed);
        let pes = options.pes;
        let heaps: Vec<Vec<u8>> = (0..pes)
            .map(|pe| {
                let heap: Vec<u8> = (0..HEAP_BYTES).map(|_| rng.next() as u8).collect();
                rig.set_heap(pe, 0, &heap);
                heap
            })
            .collect();
        Self {
            rig,
            rng,
            heaps,
            expected: (0..pes)
                .map(|_| (0..pes).map(|_| std::collections::VecDeque::new()).collect())
                .collect(),
            unrung: vec![vec![0; pes]; pes],
            pes,
        }
    }

    fn operation(&mut self) {
        let (from, to) = (
            self.rng.below(self.pes as u64) as usize,
            self.rng.below(self.pes as u64) as usize,
        );
        // Two blocks are the most that an entry here takes.
        self.room(from, to, 2);
        let queue = &self.rig.queues[from][to];
        let signalled = self.rng.below(3) == 0 || queue.posted - queue.done > 8;
        let mut post = Post::new(Index::of(queue.posted), queue.number);
        if signalled {
            post = post.signalled();
        }
        let slot = SCRATCH + (queue.posted % 16 + to as u64 * 16) * SCRATCH_SLOT;
        let relaxed = self.rng.below(2) == 0;
        let key = if relaxed {
            self.rig.pes[to].relaxed
        } else {
            self.rig.pes[to].strict
        };
        let window = from as u64 * WINDOW;
        let back = self.rig.local(from, slot);
        let (units, fetched): (Vec<Unit>, Option<Vec<u8>>) = match self.rng.below(10) {
            0..=2 => self.put(post, from, to, window, key),
            3 => self.inline(post, to, window, key),
            4 => self.get(post, to, window, key, back),
            5 => self.get(post.fenced(), to, window, key, back),
            6 => (entry::nop(post).into(), None),
            _ => self.atomic(post, to, window, key, back),
        };
        self.rig.write(from, to, &units);
        self.expected[from][to].push_back(Expected {
            end: self.rig.queues[from][to].posted,
            fetched: fetched.map(|bytes| (slot, bytes)),
        });
        self.unrung[from][to] += 1;
        // Several entries a doorbell.
        if self.rng.below(3) == 0 {
            self.ring(from, to);
        }
        for _ in 0..self.rng.below(8) {
            self.rig.step();
        }
        self.take(from, to);
    }

    fn place(&mut self, to: usize, window: u64, key: u32, bytes: u64, align: u64) -> (Remote, usize) {
        let offset = window + self.rng.below((WINDOW - bytes) / align + 1) * align;
        let remote = Remote {
            key: RemoteKey(key),
            ..self.rig.remote(to, offset)
        };
        (remote, offset as usize)
    }

    /// Relaxed writes may pass each other, so that only disjoint ones have one outcome: those to a place of its own for
    /// each entry. The strict ones go anywhere.
    fn put(&mut self, post: Post, from: usize, to: usize, window: u64, key: u32) -> (Vec<Unit>, Option<Vec<u8>>) {
        let bytes = 1 + self.rng.below(700);
        let key = if key == self.rig.pes[to].relaxed {
            self.rig.pes[to].strict
        } else {
            key
        };
        let (remote, offset) = self.place(to, window, key, bytes, 1);
        let source = SOURCE + self.rng.below(SOURCE_BYTES - bytes);
        let data = self.heaps[from][source as usize..][..bytes as usize].to_vec();
        self.heaps[to][offset..][..bytes as usize].copy_from_slice(&data);
        let length = Length::new(bytes as u32).unwrap();
        (
            entry::write(post, remote, self.rig.local(from, source), length).into(),
            None,
        )
    }

    fn inline(&mut self, post: Post, to: usize, window: u64, _: u32) -> (Vec<Unit>, Option<Vec<u8>>) {
        let bytes = 1 + self.rng.below(12);
        let (remote, offset) = self.place(to, window, self.rig.pes[to].strict, bytes, 1);
        let words = [self.rng.next() as u32, self.rng.next() as u32, self.rng.next() as u32];
        let data: Vec<u8> = words
            .iter()
            .flat_map(|w| w.to_ne_bytes())
            .take(bytes as usize)
            .collect();
        self.heaps[to][offset..][..bytes as usize].copy_from_slice(&data);
        (
            entry::write_inline(post, remote, words, bytes as u32).unwrap().into(),
            None,
        )
    }

    /// Reads are not ordered before later writes, so that only what never changes has one outcome: the sources. What this
    /// queue pair wrote itself is read by atomics.
    fn get(&mut self, post: Post, to: usize, _: u64, key: u32, back: Local) -> (Vec<Unit>, Option<Vec<u8>>) {
        let bytes = 1 + self.rng.below(SCRATCH_SLOT);
        let offset = SOURCE + self.rng.below(SOURCE_BYTES - bytes);
        let remote = Remote {
            key: RemoteKey(key),
            ..self.rig.remote(to, offset)
        };
        let data = self.heaps[to][offset as usize..][..bytes as usize].to_vec();
        let length = Length::new(bytes as u32).unwrap();
        (entry::read(post, remote, back, length).into(), Some(data))
    }

    fn atomic(&mut self, post: Post, to: usize, window: u64, key: u32, back: Local) -> (Vec<Unit>, Option<Vec<u8>>) {
        if self.rng.below(2) == 0 {
            let (remote, offset) = self.place(to, window, key, 8, 8);
            let cell = &mut self.heaps[to][offset..][..8];
            let old = u64::from_ne_bytes((&*cell).try_into().unwrap());
            let (units, new) = self.atomic8(post, remote, old, back);
            self.heaps[to][offset..][..8].copy_from_slice(&new.to_ne_bytes());
            (units, Some(old.to_ne_bytes().to_vec()))
        } else {
            let (remote, offset) = self.place(to, window, key, 4, 4);
            let cell = &mut self.heaps[to][offset..][..4];
            let old = u32::from_ne_bytes((&*cell).try_into().unwrap());
            let (units, new) = self.atomic4(post, remote, old, back);
            self.heaps[to][offset..][..4].copy_from_slice(&new.to_ne_bytes());
            (units, Some(old.to_be_bytes().to_vec()))
        }
    }

    fn atomic8(&mut self, post: Post, to: Remote, old: u64, back: Local) -> (Vec<Unit>, u64) {
        let (x, y) = (self.rng.next(), self.rng.next());
        match self.rng.below(6) {
            0 => (entry::fetch_add(post, to, x, back).into(), old.wrapping_add(x)),
            1 => (entry::compare_swap(post, to, old, x, back).into(), x),
            2 => (entry::compare_swap(post, to, !old, x, back).into(), old),
            3 => (
                entry::masked_fetch_add64(post, to, x, 0, back).into(),
                old.wrapping_add(x),
            ),
            4 => (entry::masked_fetch_add64(post, to, x, u64::MAX, back).into(), old ^ x),
            _ => {
                let what = Masked {
                    swap: x,
                    compare: old,
                    swap_mask: y,
                    compare_mask: y.rotate_left(9),
                };
                (
                    entry::masked_compare_swap64(post, to, what, back).into(),
                    old & !y | x & y,
                )
            }
        }
    }

    fn atomic4(&mut self, post: Post, to: Remote, old: u32, back: Local) -> (Vec<Unit>, u32) {
        let (x, y) = (self.rng.next() as u32, self.rng.next() as u32);
        match self.rng.below(4) {
            0 => (
                entry::masked_fetch_add32(post, to, x, 0, back).into(),
                old.wrapping_add(x),
            ),
            1 => {
                let halves = (old & 0xffff).wrapping_add(x & 0xffff) & 0xffff | (old >> 16).wrapping_add(x >> 16) << 16;
                (
                    entry::masked_fetch_add32(post, to, x, 1 << 15 | 1 << 31, back).into(),
                    halves,
                )
            }
            2 => {
                // Or.
                let what = Masked {
                    swap: x,
                    compare: 0,
                    swap_mask: x,
                    compare_mask: 0,
                };
                (entry::masked_compare_swap32(post, to, what, back).into(), old | x)
            }
            _ => {
                let compare_mask = y | 1;
                let what = Masked {
                    swap: x,
                    compare: !old,
                    swap_mask: u32::MAX,
                    compare_mask,
                };
                (entry::masked_compare_swap32(post, to, what, back).into(), old)
            }
        }
    }

    fn ring(&mut self, from: usize, to: usize) {
        if std::mem::take(&mut self.unrung[from][to]) > 0 {
            self.rig.ring(from, to);
        }
    }

    /// Takes what is there, and checks what was fetched.
    fn take(&mut self, from: usize, to: usize) {
        if self.rig.queues[from][to].collapsed {
            if let Some(kind) = self.rig.look(from, to) {
                assert_eq!(kind, Kind::Request);
            }
        } else {
            while let Some((kind, _, syndrome)) = self.rig.take(from, to) {
                assert_eq!(
                    kind,
                    Kind::Request,
                    "{syndrome}: {:?}",
                    self.rig.fabric.take_violations()
                );
            }
        }
        let done = self.rig.queues[from][to].done;
        while self.expected[from][to].front().is_some_and(|e| e.end <= done) {
            let expected = self.expected[from][to].pop_front().unwrap();
            if let Some((at, bytes)) = expected.fetched {
                assert_eq!(self.rig.heap(from, at, bytes.len()), bytes, "{from} -> {to}");
            }
        }
    }

    fn room(&mut self, from: usize, to: usize, blocks: u64) {
        loop {
            let queue = &self.rig.queues[from][to];
            if queue.posted + blocks - queue.done <= u64::from(queue.size.count()) {
                return;
            }
            self.ring(from, to);
            let idle = self.rig.step().is_none();
            let before = self.rig.queues[from][to].done;
            self.take(from, to);
            let stuck = idle && self.rig.queues[from][to].done == before;
            assert!(!stuck, "{from} -> {to}: {:?}", self.rig.fabric.take_violations());
        }
    }

    fn end(&mut self) {
        for from in 0..self.pes {
            for to in 0..self.pes {
                self.room(from, to, 2);
                let nop = entry::nop(self.rig.next(from, to).signalled());
                self.rig.write(from, to, &nop);
                let end = self.rig.queues[from][to].posted;
                self.expected[from][to].push_back(Expected { end, fetched: None });
                self.unrung[from][to] += 1;
                self.ring(from, to);
            }
        }
        while self.rig.step().is_some() {
            for from in 0..self.pes {
                for to in 0..self.pes {
                    self.take(from, to);
                }
            }
        }
        for from in 0..self.pes {
            for to in 0..self.pes {
                self.take(from, to);
                assert!(self.expected[from][to].is_empty(), "{from} -> {to}: not all are done");
            }
        }
        self.rig.clean();
        for pe in 0..self.pes {
            let windows = 0..self.pes * WINDOW as usize;
            let heap = self.rig.heap(pe, 0, windows.len());
            let wrong = windows.clone().find(|&i| heap[i] != self.heaps[pe][i]);
            assert_eq!(wrong, None, "PE {pe}");
        }
    }
}

fn program(seed: u64, operations: u64, config: Config, options: Options) {
    let mut program = Program::new(seed, config, options);
    for _ in 0..operations {
        program.operation();
    }
    program.end();
}

fn operations() -> u64 {
    // What takes a test run with debug assertions a few seconds; a million where it is optimised.
    if cfg!(debug_assertions) { 30_000 } else { 1_000_000 }
}

#[test]
fn any_order_that_a_network_allows_has_the_models_outcome() {
    let options = Options {
        pes: 3,
        ..Options::default()
    };
    let runs = 10;
    for seed in 0..runs {
        program(seed, operations() / runs, Config::strict(seed), options);
    }
}

#[test]
fn lost_packets_are_sent_again() {
    let config = |seed| Config {
        loss: 20_000,
        mtu: 256,
        ..Config::strict(seed)
    };
    for seed in 0..3 {
        program(seed, operations() / 20, config(seed), Options::default());
    }
}

#[test]
fn at_once_and_through_a_collapsed_queue() {
    let config = Config {
        delivery: Delivery::Eager,
        ..Config::strict(0)
    };
    let options = Options {
        collapsed: true,
        completions_log2: 2,
        ..Options::default()
    };
    program(1, operations() / 10, config, options);
    program(2, operations() / 20, Config::strict(2), options);
}
