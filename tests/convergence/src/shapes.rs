//! Kernels whose convergent calls a careless optimiser duplicates. None is meant to be run: some would hang.

use shmem::prelude::*;

/// A barrier after a divergent if.
#[kernel]
pub fn after_if(o: Global<u32>, x: u32) {
    let t = thread::index();
    let mut v = x;
    if t.is_multiple_of(2) {
        v = o.load(t) * 3;
    } else {
        v += o.load(t + 9);
    }
    Block.sync();
    o.store(t, v);
}

/// A barrier between two ifs on one condition.
#[kernel]
pub fn two_ifs(o: Global<u32>, x: u32) {
    let t = thread::index();
    let c = t < x;
    if c {
        o.store(t, 1);
    }
    Block.sync();
    if c {
        o.store(t + 7, 2);
    } else {
        o.store(t + 8, 3);
    }
}

/// An Option that is made before a barrier and matched after it.
#[kernel]
pub fn option(o: Global<u32>, x: u32) {
    let t = thread::index();
    let v = if t < x { Some(o.load(t)) } else { None };
    Block.sync();
    if let Some(v) = v {
        o.store(t + 64, v);
    }
}

/// An enum with three cases across a barrier.
#[kernel]
pub fn state(o: Global<u32>, x: u32, y: u32) {
    enum State {
        A(u32),
        B(u32),
        C,
    }
    let t = thread::index();
    let s = if t < x {
        State::A(o.load(t))
    } else if t < y {
        State::B(o.load(t + 1))
    } else {
        State::C
    };
    Block.sync();
    match s {
        State::A(v) => o.store(t, v),
        State::B(v) => o.store(t + 5, v * 7),
        State::C => o.store(t + 9, 11),
    }
}

/// A shuffle in a loop with a divergent trip count.
#[kernel]
pub fn loop_shuffle(o: Global<u32>, x: u32) {
    let t = thread::index();
    let n = o.load(t);
    let mut a = x;
    for i in 0..n {
        a += warp::shuffle(a, i);
    }
    o.store(t, a);
}

/// A shuffle in a loop's condition.
#[kernel]
pub fn condition_shuffle(o: Global<u32>, x: u32, y: u32) {
    let t = thread::index();
    let mut a = x + t;
    while warp::shuffle(a, 0) < y {
        a += o.load(t);
    }
    o.store(t, a);
}

/// A divergent condition that doesn't change in a loop with a barrier: unswitching would make two loops of it.
#[kernel]
pub fn unswitch(o: Global<u32>, x: u32, y: u32) {
    let t = thread::index();
    let c = t < x;
    let mut a = 0;
    for i in 0..y {
        if c {
            a += o.load(t + i);
        }
        Block.sync();
        a ^= o.load(i);
    }
    o.store(t, a);
}

/// A return before a barrier.
#[kernel]
pub fn early_return(o: Global<u32>, x: u32) {
    let t = thread::index();
    if t >= x {
        return;
    }
    o.store(t, 1);
    Block.sync();
    o.store(t + 1, o.load(t + 2));
}

/// A barrier in each arm of a match: three in the source, and three they stay.
#[kernel]
pub fn match_arms(o: Global<u32>) {
    let t = thread::index();
    match t % 3 {
        0 => {
            o.store(t, 1);
            Block.sync();
        }
        1 => {
            o.store(t + 1, 2);
            Block.sync();
        }
        _ => {
            o.store(t + 2, 3);
            Block.sync();
        }
    }
    o.store(99, 1);
}

/// A closure with several exits, a barrier, a match on the closure's value.
#[kernel]
pub fn closure(o: Global<u32>, x: u32, y: u32) {
    let t = thread::index();
    let which = || {
        if t < x {
            return 1;
        }
        if o.load(t) == y {
            return 2;
        }
        3
    };
    let r = which();
    Block.sync();
    match r {
        1 => o.store(t, 4),
        2 => o.store(t + 3, 5),
        _ => {}
    }
}

/// A Result from two fallible steps across a barrier.
#[kernel]
pub fn result(o: Global<u32>, x: u32, y: u32) {
    let get = |i: u32, n: u32| if i < n { Ok(o.load(i)) } else { Err(i) };
    let t = thread::index();
    let r = get(t, x).and_then(|v| get(v, y));
    Block.sync();
    match r {
        Ok(v) => o.store(t, v),
        Err(e) => o.store(t + 50, e),
    }
}

/// A flag that divergent code sets, in a loop with a barrier: threading would make one loop for each value of it.
#[kernel]
pub fn loop_flag(o: Global<u32>, x: u32, y: u32) {
    let t = thread::index();
    let mut done = false;
    for i in 0..y {
        if !done && o.load(t + i) > x {
            done = true;
            o.store(t, i);
        }
        Block.sync();
        if done {
            o.store(t + 40, i);
        }
    }
}

/// A vote whose result one arm uses: it must not sink there.
#[kernel]
pub fn ballot_sink(o: Global<u32>, x: u32) {
    let t = thread::index();
    let m = warp::ballot(o.load(t) > x);
    if t.is_multiple_of(4) {
        o.store(t, m);
    }
}

/// A shuffle whose result one arm uses.
#[kernel]
pub fn shuffle_sink(o: Global<u32>, x: u32) {
    let t = thread::index();
    let m = warp::shuffle(o.load(t), x);
    if t.is_multiple_of(4) {
        o.store(t, m);
    }
}

/// The same shuffle in both arms: two in the source.
#[kernel]
pub fn both_arms(o: Global<u32>, x: u32) {
    let t = thread::index();
    let v = o.load(t);
    let r = if t < x {
        warp::shuffle(v, 3) + 1
    } else {
        warp::shuffle(v, 3) * 5
    };
    o.store(t, r);
}

/// A shuffle in a filtered iterator's loop.
#[kernel]
pub fn iterator(o: Global<u32>, x: u32, y: u32) {
    let t = thread::index();
    for i in (t..y).step_by(32).filter(|i| i % 3 != x) {
        o.store(i, warp::shuffle(i, 0));
    }
}

/// A barrier, then a break on what was loaded before it.
#[kernel]
pub fn break_after(o: Global<u32>, x: u32, y: u32) {
    let t = thread::index();
    let mut i = 0;
    loop {
        let stop = o.load(t + i) == x;
        Block.sync();
        if stop || i > y {
            break;
        }
        i += 1;
    }
    o.store(t, i);
}

/// A chain of conditions across two barriers.
#[kernel]
pub fn chain(o: Global<u32>, x: u32, y: u32) {
    let t = thread::index();
    let c = t < x && o.load(t) > y && o.load(t + 1) != 0;
    Block.sync();
    if c {
        o.store(t + 2, 8);
    }
    Block.sync();
    if c {
        o.store(t + 3, 9);
    }
}
