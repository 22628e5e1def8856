//! Queues in ordinary memory: one thread posts as a GPU would, by plain stores with release order, and another is the
//! adapter and polls.

mod common;

use common::HEAP;
use shmem_hca::{
    Access, CompletionQueueConfig, Config, Connection, Fabric, Permissions, Pinned, Place, QueuePairConfig, Space,
    State,
};
use shmem_mlx5::completion::{Kind, TAIL_OFFSET, Tail};
use shmem_mlx5::{Index, Length, Local, LocalKey, Post, QueueSize, Remote, RemoteKey, Unit, doorbell, entry};
use std::alloc::Layout;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

const LOG2: u8 = 8;
const BYTES: usize = 1 << 20;
// Offsets in the region.
const QUEUE: usize = 0;
const COMPLETIONS: usize = 0x1_0000;
const RECORDS: usize = 0x2_0000;
const PAGE: usize = 0x3_0000;
const DATA: usize = 0x4_0000;

/// Memory that both threads use.
struct Region(*mut u8);

// SAFETY: accessed by atomics only.
unsafe impl Sync for Region {}
// SAFETY: as above.
unsafe impl Send for Region {}

impl Region {
    fn new() -> Self {
        let layout = Layout::from_size_align(BYTES, 4096).unwrap();
        // SAFETY: the layout is not empty. It is leaked: the test ends with it.
        Self(unsafe { std::alloc::alloc_zeroed(layout) })
    }

    fn word32(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset < BYTES);
        // SAFETY: inside, aligned, and accessed by atomics only.
        unsafe { AtomicU32::from_ptr(self.0.add(offset).cast()) }
    }

    fn word64(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset < BYTES);
        // SAFETY: inside, aligned, and accessed by atomics only.
        unsafe { AtomicU64::from_ptr(self.0.add(offset).cast()) }
    }

    fn store(&self, offset: usize, unit: Unit) {
        for (i, long) in unit.as_long().into_iter().enumerate() {
            self.word64(offset + 8 * i).store(long, Ordering::Relaxed);
        }
    }
}

struct Poster<'a> {
    region: &'a Region,
    qp: shmem_mlx5::QueuePair,
    size: QueueSize,
    posted: u64,
    done: u64,
}

impl Poster<'_> {
    fn next(&self) -> Post {
        Post::new(Index::of(self.posted), self.qp)
    }

    fn write(&mut self, units: &[Unit]) {
        for (i, unit) in units.iter().enumerate() {
            self.region
                .store(QUEUE + self.size.offset_of_unit(Index::of(self.posted), i), *unit);
        }
        self.posted += u64::from(shmem_mlx5::unit::blocks(units.len()));
    }

    fn ring(&self, control: Unit) {
        let next = doorbell::record(Index::of(self.posted)).raw();
        self.region
            .word32(RECORDS + doorbell::SEND_OFFSET)
            .store(next, Ordering::Release);
        let value = doorbell::register(control).raw();
        self.region
            .word64(PAGE + doorbell::REGISTER_OFFSET)
            .store(value, Ordering::Release);
    }

    /// Waits until at most `left` blocks are in flight.
    fn wait(&mut self, left: u64, gone: &AtomicBool) {
        while self.posted - self.done > left {
            let tail = Tail::from_raw(self.region.word32(COMPLETIONS + TAIL_OFFSET).load(Ordering::Acquire));
            if tail.kind() != Some(Kind::Invalid) {
                assert_eq!(tail.kind(), Some(Kind::Request));
                // Every entry here takes one block.
                self.done = tail.index().position_before(self.posted) + 1;
            }
            assert!(!gone.load(Ordering::Relaxed), "the adapter's thread ended");
            std::thread::yield_now();
        }
        fence(Ordering::Acquire);
    }
}

fn set_up(region: &Region) -> (Fabric<Pinned>, shmem_hca::QueuePair, u32) {
    let mut pinned = Pinned::new();
    // SAFETY: the region is leaked, and everybody uses atomics.
    let start = unsafe { pinned.add(Space(0), region.0, BYTES) };
    let at = |offset: usize| start.after(offset as u64);
    region
        .word32(COMPLETIONS + TAIL_OFFSET)
        .store(u32::MAX, Ordering::Relaxed);
    let mut fabric = Fabric::new(pinned, Config::polled());
    let adapter = fabric.add_adapter();
    let domain = fabric.add_domain(adapter).unwrap();
    let page = fabric.add_page(adapter, Some(at(PAGE))).unwrap();
    let data = BYTES - DATA;
    let key = fabric
        .add_key(domain, 0, HEAP, data as u64, at(DATA), Access::ALL)
        .unwrap();
    let completions = CompletionQueueConfig {
        start: at(COMPLETIONS),
        log2: 0,
        record: at(RECORDS + 0x40),
        collapsed: true,
        ignore_overrun: true,
    };
    let completions = fabric.add_completion_queue(adapter, completions).unwrap();
    let config = QueuePairConfig {
        domain,
        page,
        start: at(QUEUE),
        log2: LOG2,
        record: at(RECORDS),
        completions,
    };
    let qp = fabric.add_queue_pair(adapter, config).unwrap();
    fabric.init(qp, Permissions::ALL).unwrap();
    let connection = Connection {
        adapter,
        queue_pair: qp.number(),
        retries: 7,
        max_reads: 16,
    };
    fabric.ready_to_receive(qp, connection).unwrap();
    fabric.ready_to_send(qp).unwrap();
    (fabric, qp, key)
}

fn post_all(poster: &mut Poster, key: u32, total: u64, gone: &AtomicBool) {
    let size = u64::from(poster.size.count());
    for i in 0..total {
        // Batches of 16 a doorbell, the last of each signalled.
        poster.wait(size - 16, gone);
        let last = i % 16 == 15 || i + 1 == total;
        let mut post = poster.next();
        if last {
            post = post.signalled();
        }
        let cell = Remote {
            address: HEAP + 8 * (i % 1024),
            key: RemoteKey(key),
        };
        let units = entry::write_inline(post, cell, [i as u32, (i >> 32) as u32, 0], 8).unwrap();
        poster.write(&units);
        if last {
            poster.ring(units[0]);
        }
    }
    poster.wait(0, gone);
}

#[test]
fn a_thread_posts_and_another_is_the_adapter() {
    let total: u64 = if cfg!(debug_assertions) { 20_000 } else { 200_000 };
    let region = Region::new();
    let (mut fabric, qp, key) = set_up(&region);
    let (stop, gone) = (AtomicBool::new(false), AtomicBool::new(false));
    let (stop, gone, region) = (&stop, &gone, &region);
    std::thread::scope(|scope| {
        let adapter = scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                if fabric.poll() == 0 {
                    std::thread::yield_now();
                }
                let violations = fabric.take_violations();
                if let Some(violation) = violations.first() {
                    gone.store(true, Ordering::Relaxed);
                    panic!("{violation}");
                }
            }
            fabric
        });
        let mut poster = Poster {
            region,
            qp: shmem_mlx5::QueuePair::new(qp.number()).unwrap(),
            size: QueueSize::from_log2(LOG2).unwrap(),
            posted: 0,
            done: 0,
        };
        post_all(&mut poster, key, total, gone);
        for cell in 0..1024 {
            let last = (0..total).rev().find(|i| i % 1024 == cell).unwrap();
            assert_eq!(region.word64(DATA + 8 * cell as usize).load(Ordering::Relaxed), last);
        }
        // One of each of the others.
        let (to, back) = (
            Remote {
                address: HEAP + 0x4000,
                key: RemoteKey(key),
            },
            Local {
                address: HEAP + 0x5000,
                key: LocalKey(key),
            },
        );
        let units = entry::fetch_add(poster.next(), to, 5, back);
        poster.write(&units);
        let units = entry::write(poster.next().fenced(), to, back, Length::new(3).unwrap());
        poster.write(&units);
        let units = entry::read(poster.next().signalled(), to, back, Length::new(8).unwrap());
        poster.write(&units);
        poster.ring(units[0]);
        poster.wait(0, gone);
        // The old value's three bytes were written back.
        assert_eq!(region.word64(DATA + 0x5000).load(Ordering::Relaxed), 0);
        stop.store(true, Ordering::Relaxed);
        let fabric = adapter.join().expect("the adapter's thread");
        assert_eq!(fabric.state(qp), Ok(State::ReadyToSend));
    });
}

#[test]
fn pinned_memory_takes_any_alignment_and_refuses_what_is_outside() {
    use shmem_hca::Memory;
    let region = Region::new();
    let mut pinned = Pinned::new();
    // SAFETY: the region is leaked, and everybody uses atomics.
    let start = unsafe { pinned.add(Space(3), region.0, BYTES) };
    for offset in 0..9 {
        for length in 0..40 {
            let bytes: Vec<u8> = (0..length).map(|i| (i * 3 + offset) as u8).collect();
            let at = start.after(offset as u64);
            pinned.write(at, &bytes).unwrap();
            let mut back = vec![0; bytes.len()];
            pinned.read(at, &mut back).unwrap();
            assert_eq!(back, bytes);
        }
    }
    let at = |offset: usize| start.after(offset as u64);
    assert!(pinned.write(at(BYTES - 3), &[0; 4]).is_err());
    assert!(pinned.read(at(BYTES), &mut [0; 1]).is_err());
    assert!(
        pinned
            .read(
                Place {
                    space: Space(4),
                    ..start
                },
                &mut [0; 1]
            )
            .is_err()
    );
    assert!(
        pinned
            .read(
                Place {
                    address: start.address - 1,
                    ..start
                },
                &mut [0; 1]
            )
            .is_err()
    );
    // A word changed as one.
    pinned.write(start, &7u64.to_ne_bytes()).unwrap();
    assert_eq!(pinned.change(start, 8, &|x| x + 1), Ok(7));
    assert_eq!(pinned.change(start, 4, &|x| x + 1), Ok(8));
    assert_eq!(region.word64(0).load(Ordering::Relaxed), 9);
}
