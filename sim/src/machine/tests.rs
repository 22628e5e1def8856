//! Calls that no intrinsic makes yet, and what a lane without a guard page does.

use super::*;
use crate::config::Config;
use crate::desk::Order;
use crate::kernel::KernelJob;
use crate::launch::Launch;
use crate::memory::Heaps;
use crate::stack::{Guard, StackPool, page_bytes};
use crate::world::World;
use shmem::hook::{AtomicOp, Space, Strength};
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

fn here() -> At {
    Location::caller()
}

/// Runs lanes of one block whose body calls the machine directly, until none goes on. Stays with what is not done.
fn world_of(threads: u32, stacks: Option<StackPool>, body: impl Fn(&Lane) + Send + Sync + 'static) -> Rc<World> {
    let heaps = Arc::new(Heaps::new(2, 1 << 20).unwrap());
    let world = Rc::new(World::new(&Config::new(2), heaps).unwrap());
    if let Some(pool) = stacks {
        world.stacks.replace(pool);
    }
    let lanes = Arc::new(AtomicUsize::new(0));
    let first = Arc::clone(&lanes);
    let lane = Arc::new(move || {
        let first = first.load(Ordering::Relaxed) as *const Lane;
        // SAFETY: the lanes of the block lie side by side, and live while the launch does.
        body(unsafe { &*first.add(shmem::thread::index() as usize) });
    });
    let job = KernelJob {
        name: "direct",
        symbol: "",
        place: ("machine.rs", 1),
        grid: [1; 3],
        block: [threads, 1, 1],
        shared_bytes: 0,
        cluster: 1,
        collective: false,
        lane,
    };
    let order = Order {
        pe: 0,
        stream: 0,
        job,
        number: 0,
    };
    let launch = Launch::new(&world, vec![order], &[]);
    lanes.store(launch.blocks()[0].lanes.as_ptr() as usize, Ordering::Relaxed);
    while world.failure().is_none() {
        if !launch.run_slice() {
            let poll = launch.poll();
            if !poll.progress && !poll.reads_clock {
                break;
            }
        }
    }
    world.end();
    launch.end();
    world
}

fn done(world: &World) {
    assert!(world.failure().is_none(), "{}", world.failure().unwrap());
}

fn transfer(rank: u32, size: u32, bytes: u64, element: u32) -> Transfer {
    Transfer {
        group: Group::Block,
        rank,
        size,
        remote: 4096,
        local: 0,
        local_space: Space::Global,
        bytes,
        element,
        peer: Peer { pe: 1, ctx: 0 },
        blocking: true,
        signal: None,
    }
}

#[test]
fn shares_are_whole_elements_and_cover_the_transfer() {
    for (bytes, element, size) in [
        (0, 4, 3),
        (4, 4, 32),
        (400, 4, 32),
        (48, 16, 2),
        (1000, 8, 7),
        (12, 4, 1),
    ] {
        for seed in 0..4 {
            let mut shares: Vec<_> = (0..size)
                .map(|rank| share(&transfer(rank, size, bytes, element), seed))
                .collect();
            shares.sort_by_key(|mine| (mine.start, mine.end));
            let mut next = 0;
            for mine in shares {
                assert_eq!(mine.start, next);
                assert_eq!(mine.start % u64::from(element), 0);
                next = mine.end;
            }
            assert_eq!(next, bytes);
        }
    }
}

#[test]
fn a_get_brings_what_a_put_took() {
    const BYTES: u64 = 1000;
    let source: Arc<Vec<u32>> = Arc::new((0..250).collect());
    let target = Arc::new(AtomicUsize::new(Box::leak(Box::new([0u32; 250])).as_ptr() as usize));
    let result = Arc::clone(&target);
    let world = world_of(40, None, move |lane| {
        let out = transfer(lane.rank, 40, BYTES, 4);
        lane.put(
            &Transfer {
                local: source.as_ptr() as u64,
                ..out
            },
            here(),
        );
        lane.quiet(Group::Block, 0, here());
        lane.get(
            &Transfer {
                local: target.load(Ordering::Relaxed) as u64,
                ..out
            },
            here(),
        );
    });
    done(&world);
    // SAFETY: leaked above for this test; all lanes have ended.
    let result = unsafe { &*(result.load(Ordering::Relaxed) as *const [u32; 250]) };
    assert!(result.iter().copied().eq(0..250));
}

#[test]
fn atomics_of_all_lanes_add_up() {
    let world = world_of(100, None, |lane| {
        let word = Access {
            address: lane.world().memory.heaps.base(1) as u64 + 4096,
            bytes: 8,
            space: Space::Symmetric,
            strength: Strength::Relaxed,
        };
        let add = Atomic {
            op: AtomicOp::Add,
            operand: u64::from(lane.rank),
            comparand: 0,
            scope: Scope::System,
            fetches: false,
        };
        lane.atomic(word, &add, here());
        lane.sync(Group::Block, here());
        assert_eq!(lane.load(word, here()), 99 * 100 / 2);
    });
    done(&world);
}

#[test]
fn a_lane_that_waits_for_the_clock_goes_on() {
    let world = world_of(3, None, |lane| {
        let until = lane.now_ns() + 1_000_000 * u64::from(lane.rank);
        while lane.now_ns() < until {
            lane.pause(&Watch::CLOSURE, here());
        }
    });
    done(&world);
}

#[test]
fn a_shared_array_has_one_size() {
    let world = world_of(2, None, |lane| {
        if lane.rank == 0 {
            lane.shared(7, 64, here());
        }
        lane.sync(Group::Block, here());
        lane.shared(7, 128, here());
    });
    let text = world.failure().unwrap().to_string();
    assert!(
        text.contains("a shared array of 64 bytes is asked for again with 128"),
        "{text}"
    );
}

#[test]
fn an_overflow_into_the_red_zone_ends_the_world_without_unwinding() {
    #[inline(never)]
    fn down_to(address: usize) -> u64 {
        let here = std::hint::black_box([1u64; 8]);
        if here.as_ptr().addr() < address {
            return here[5];
        }
        down_to(address) + here[7]
    }
    struct Counts(Arc<AtomicU32>);
    impl Drop for Counts {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let dropped = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&dropped);
    let bytes = 64 << 10;
    let highest = AtomicUsize::new(0);
    let world = world_of(3, Some(StackPool::new(bytes, Guard::RedZone)), move |lane| {
        let counts = Counts(Arc::clone(&counter));
        let here_is = std::ptr::from_ref(&counts).addr();
        highest.fetch_max(here_is, Ordering::Relaxed);
        lane.sync(Group::Block, here());
        // Below the highest stack lies that of another lane, and not what belongs to someone else.
        if highest.load(Ordering::Relaxed) == here_is {
            std::hint::black_box(down_to(here_is - bytes - page_bytes()));
        }
        lane.sync(Group::Block, here());
    });
    let text = world.failure().unwrap().to_string();
    assert!(text.contains("the lane's stack overflowed"), "{text}");
    assert_eq!(dropped.load(Ordering::Relaxed), 0);
}

#[test]
fn a_call_above_the_red_zone_ends_its_lane_before_the_stack_overflows() {
    #[inline(never)]
    fn calls(n: u64) -> u64 {
        let here = std::hint::black_box([n; 8]);
        std::hint::black_box(shmem::thread::index());
        if n == u64::MAX { here[5] } else { calls(n + 1) + here[7] }
    }
    let owned = Arc::new(());
    let lanes = Arc::clone(&owned);
    let world = world_of(3, Some(StackPool::new(64 << 10, Guard::RedZone)), move |lane| {
        let _mine = Arc::clone(&lanes);
        lane.sync(Group::Block, here());
        if lane.rank == 1 {
            std::hint::black_box(calls(0));
        }
        lane.sync(Group::Block, here());
    });
    let text = world.failure().unwrap().to_string();
    assert!(text.contains("the lane's stack overflowed"), "{text}");
    assert!(!world.damaged());
    assert_eq!(Arc::strong_count(&owned), 1, "what the lanes own is dropped");
}
