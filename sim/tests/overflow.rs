//! Stacks that overflow in a call that allocates. A lane that is taken off its stack inside malloc keeps malloc's lock, and
//! its thread waits without end when it next allocates: so this runs in a process of its own, which has to end in time.

use shmem::prelude::*;
use shmem_sim::{Sim, symmetric};
use std::hint::black_box;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Set in the process that overflows.
const INSIDE: &str = "SHMEM_TEST_OVERFLOWS";
const LIMIT: Duration = Duration::from_secs(30);

/// A put of 2 KiB, whose call allocates as much, in each frame. That is smaller than what the call takes of the stack, or no
/// call would be the first to overflow.
#[inline(never)]
fn puts(words: SymSlice<u32>, n: u32) -> u32 {
    let here = black_box([n; 256]);
    shmem::put(Thread, words.chunk(n, 512), words.chunk(n, 512), 1 - shmem::my_pe());
    if n == u32::MAX {
        here[5]
    } else {
        puts(words, n + 1) + here[7]
    }
}

/// Frames of the stack, so many of them 16 bytes larger than the others.
#[inline(never)]
fn lower<const N: usize>(frames: u32, larger: u32, then: &dyn Fn() -> u32) -> u32 {
    let here = black_box([frames; N]);
    let below = match frames {
        0 => then(),
        _ if larger > 0 => lower::<8>(frames - 1, larger - 1, then),
        _ => lower::<4>(frames - 1, 0, then),
    };
    below + here[1]
}

#[test]
fn a_lane_that_overflows_in_a_call_that_allocates_is_a_fault() {
    if std::env::var_os(INSIDE).is_some() {
        return overflow_everywhere();
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_lane_that_overflows_in_a_call_that_allocates_is_a_fault"])
        .env(INSIDE, "1")
        .env("SHMEM_SIM_STACK", "64K")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    let ended = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if start.elapsed() < LIMIT => sleep(Duration::from_millis(10)),
            None => {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("it hangs");
            }
        }
    };
    assert!(ended.success());
}

/// The stack ends at every place of a call, in calls for which malloc does different things.
fn overflow_everywhere() {
    for frames in (100..320).step_by(10) {
        // As many times 16 bytes as a frame of `puts` has.
        for larger in 0..80 {
            let sim = Sim::new(2).check(false);
            let error = sim.run(move || {
                let words = symmetric::<u32>(1 << 18);
                black_box(lower::<4>(frames, larger, &|| puts(words, 0)));
            });
            let error = error.unwrap_err().to_string();
            assert!(error.contains("the lane's stack overflowed"), "{error}");
        }
    }
}

/// Calls `then` so many bytes of stack below `start`.
#[inline(never)]
fn below(start: usize, bytes: usize, then: &dyn Fn()) -> u64 {
    let here = black_box([1u64; 8]);
    if start - here.as_ptr().addr() >= bytes {
        then();
        return here[5];
    }
    below(start, bytes, then) + here[7]
}

fn error_of(kernel: impl Fn() + Send + Sync + 'static) -> String {
    shmem_sim::run(1, 1, 2, kernel).unwrap_err().to_string()
}

/// Bytes of a stack that has 256 KiB, of which so little is left that no call begins.
const NEARLY_ALL: usize = 240 << 10;

#[test]
fn a_call_with_little_stack_left_is_told_and_what_the_lanes_own_is_dropped() {
    let owned = Arc::new(());
    let kernel_s = Arc::clone(&owned);
    let error = error_of(move || {
        let mine = Arc::clone(&kernel_s);
        Block.sync();
        if thread::index() == 1 {
            below((&raw const mine).addr(), NEARLY_ALL, &|| Warp.sync());
        }
        Block.sync();
    });
    assert!(error.contains("thread 1: the lane's stack overflowed"), "{error}");
    assert!(error.contains("overflow.rs:"), "{error}");
    assert_eq!(Arc::strong_count(&owned), 1);
}

#[test]
fn a_panic_with_little_stack_left_is_told_though_a_destructor_calls() {
    struct Calls;
    impl Drop for Calls {
        fn drop(&mut self) {
            shmem::fence(Thread);
        }
    }
    let error = error_of(|| {
        let start = 0u8;
        below((&raw const start).addr(), NEARLY_ALL, &|| {
            let _calls = Calls;
            panic!("the kernel's own words");
        });
    });
    assert!(error.contains("the kernel's own words"), "{error}");
}

#[test]
fn a_fault_with_little_stack_left_is_told() {
    let error = error_of(|| {
        let words = symmetric::<u32>(4);
        let start = 0u8;
        below((&raw const start).addr(), NEARLY_ALL, &|| words.store(9, 0));
    });
    assert!(error.contains("index 9 is outside an object of 4 elements"), "{error}");
}
