//! Counter-examples: what happens to calls that the compiler doesn't know to be convergent. They keep the other tests
//! honest: once the compiler leaves these alone, the shapes have to be chosen anew.

use crate::mma;
use shmem::prelude::*;

#[inline(always)]
fn barrier() {
    // SAFETY: never run.
    #[cfg(target_arch = "nvptx64")]
    unsafe {
        // convergence-lint: counter-example
        core::arch::asm!("barrier.sync 0;");
    }
}

#[inline(always)]
fn shuffle(value: u32, from: u32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let r;
        // SAFETY: never run.
        unsafe {
            // convergence-lint: counter-example
            core::arch::asm!(
                "shfl.sync.idx.b32 {r}, {v}, {f}, 31, -1;",
                r = out(reg32) r, v = in(reg32) value, f = in(reg32) from
            );
        }
        r
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        value ^ from
    }
}

/// [`two_ifs`](crate::shapes::two_ifs).
#[kernel]
pub fn two_ifs(o: Global<u32>, x: u32) {
    let t = thread::index();
    let c = t < x;
    if c {
        o.store(t, 1);
    }
    barrier();
    if c {
        o.store(t + 7, 2);
    } else {
        o.store(t + 8, 3);
    }
}

/// [`chain`](crate::shapes::chain): each of its two barriers twice.
#[kernel]
pub fn chain(o: Global<u32>, x: u32, y: u32) {
    let t = thread::index();
    let c = t < x && o.load(t) > y && o.load(t + 1) != 0;
    barrier();
    if c {
        o.store(t + 2, 8);
    }
    barrier();
    if c {
        o.store(t + 3, 9);
    }
}

/// [`option`](crate::shapes::option), with a shuffle.
#[kernel]
pub fn option(o: Global<u32>, x: u32) {
    let t = thread::index();
    let v = if t < x { Some(o.load(t)) } else { None };
    let s = shuffle(x, t);
    if let Some(v) = v {
        o.store(t + 64, v + s);
    }
}

/// [`mma::option`] without its guard: not duplicated, but moved into the arm that uses it.
#[kernel]
pub fn product(o: Global<u32>, x: u32, y: u32) {
    let t = thread::index();
    let v = if t < x { Some(o.load(t)) } else { None };
    let d = mma::unguarded([x, y, t, 3], [x, y], [1.0, 2.0, 3.0, 4.0]);
    if let Some(v) = v {
        o.store(t + 64, v + d[0].to_bits());
    }
}
