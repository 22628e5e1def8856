//! Which context a call belongs to, as a machine sees it.

use shmem::hook::{Access, At, Atomic, Current, Group, Lane, Machine, Peer, Scope};
use shmem::hook::{SignalUpdate, Strength, Transfer, Watch, set_current};
use shmem::prelude::*;
use shmem::state::{DeviceState, FaultRecord, MAX_PES};
use shmem::{BlockShared, CtxSet, Private, default_context};
use std::cell::RefCell;

/// Notes the calls that have a context, with it.
#[derive(Default)]
struct Recorder {
    calls: RefCell<Vec<(&'static str, u32)>>,
}

impl Recorder {
    fn note(&self, call: &'static str, ctx: u32) {
        self.calls.borrow_mut().push((call, ctx));
    }
}

impl Machine for Recorder {
    fn sync(&self, _: Group, _: At) {}
    fn exchange(&self, _: u32, value: u64, _: At) -> [u64; 32] {
        [value; 32]
    }
    fn load(&self, _: Access, _: At) -> u128 {
        0
    }
    fn store(&self, _: Access, _: u128, _: At) {}
    fn atomic(&self, _: Access, _: &Atomic, _: At) -> u64 {
        unimplemented!()
    }
    fn atomic_at(&self, _: u64, _: u32, to: Peer, _: Strength, _: &Atomic, _: At) -> u64 {
        self.note("atomic", to.ctx);
        0
    }
    fn fence_memory(&self, _: Scope, _: At) {
        unimplemented!()
    }
    fn copy_async(&self, _: Access, _: Access, _: At) {
        unimplemented!()
    }
    fn commit_async(&self) {
        unimplemented!()
    }
    fn wait_async(&self, _: u32, _: At) {
        unimplemented!()
    }
    fn put(&self, transfer: &Transfer, _: At) {
        self.note("put", transfer.peer.ctx);
    }
    fn get(&self, transfer: &Transfer, _: At) {
        self.note("get", transfer.peer.ctx);
    }
    fn p(&self, _: u64, _: u128, _: u32, to: Peer, _: At) {
        self.note("p", to.ctx);
    }
    fn packet(&self, _: u64, _: u128, _: u32, to: Peer, _: At) {
        self.note("packet", to.ctx);
    }
    fn g(&self, _: u64, _: u32, from: Peer, _: At) -> u128 {
        self.note("g", from.ctx);
        0
    }
    fn signal(&self, _: SignalUpdate, to: Peer, _: bool, _: At) {
        self.note("signal", to.ctx);
    }
    fn fence(&self, _: Group, ctx: u32, _: At) {
        self.note("fence", ctx);
    }
    fn quiet(&self, _: Group, ctx: u32, _: At) {
        self.note("quiet", ctx);
    }
    fn flush(&self, _: Group, ctx: u32, _: At) {
        self.note("flush", ctx);
    }
    fn watching(&self, _: Option<(&Watch, At)>) {}
    fn pause(&self, _: &Watch, _: At) {}
    fn shared(&self, _: u64, _: usize, _: At) -> *mut u8 {
        unreachable!("no test uses shared memory")
    }
    fn first_shared(&self, _: u64, _: usize, _: At) -> *mut u8 {
        unreachable!("no test uses shared memory")
    }
    fn dynamic_shared(&self) -> (*mut u8, usize) {
        unreachable!("no test uses shared memory")
    }
    fn now_ns(&self) -> u64 {
        0
    }
    fn fault(&self, record: &FaultRecord) -> ! {
        panic!("fault {} with {} and {}", record.kind, record.a, record.b)
    }
}

/// What a lane's calls on PE 0 of two reach a machine with.
fn calls_of(kernel: impl FnOnce()) -> Vec<(&'static str, u32)> {
    let state = DeviceState {
        my_pe: 0,
        n_pes: 2,
        heap_base: 0,
        heap_bytes: 1 << 20,
        fault: 0,
        time_limit_ns: 0,
        world_sync: 0,
        node_sync: 0,
        node_start: 0,
        node_size: 2,
        places: 0,
        network: 0,
        peer_base: [0; MAX_PES],
    };
    let lane = Lane {
        state: &raw const state,
        block: [0; 3],
        thread: [0; 3],
        grid_dim: [1; 3],
        block_dim: [32, 1, 1],
        cluster: 1,
    };
    let machine = Recorder::default();
    // SAFETY: both live until the current lane is taken back.
    unsafe {
        set_current(Some(Current {
            lane: &lane,
            machine: &machine,
            low: 0,
        }));
    }
    kernel();
    // SAFETY: as above.
    unsafe { set_current(None) };
    machine.calls.take()
}

fn object<T>() -> SymSlice<T> {
    SymSlice::__new(4096, 4)
}

#[test]
fn calls_that_name_no_context_are_of_the_default_one() {
    let calls = calls_of(|| {
        let x = object::<u32>();
        shmem::p(x.at(0), 1, 1);
        shmem::put(Thread, x, &[1; 4], shmem::world().pe(1));
        shmem::fence(Thread);
        shmem::flush(Thread);
        shmem::quiet(Thread);
        shmem::p(x.at(0), 1, default_context().to(1));
        default_context().quiet(Thread);
    });
    let names = ["p", "put", "fence", "flush", "quiet", "p", "quiet"];
    assert_eq!(calls, names.map(|name| (name, 0)));
}

#[test]
fn a_context_goes_with_every_call_that_names_it() {
    let calls = calls_of(|| {
        let (x, signal, set) = (
            object::<u32>(),
            object::<SignalWord>().at(0),
            CtxSet::<Private>::__new(5, 4),
        );
        let (ctx, team) = (set.get(2), shmem::world());
        shmem::p(x.at(0), 1, ctx.to(1));
        shmem::g(x.at(0), ctx.to(team.pe(1)));
        shmem::put(Thread, x, &[1; 4], ctx.to((team, 1)));
        shmem::put_nbi(Thread, x, x, ctx.to(1));
        shmem::put_signal(Thread, x, x, signal.set(1), ctx.to(1));
        shmem::signal_op(signal.set(1), ctx.to(1));
        ctx.fence(Thread);
        ctx.flush(Thread);
        ctx.quiet(Thread);
    });
    let names = ["p", "g", "put", "put", "put", "signal", "fence", "flush", "quiet"];
    assert_eq!(calls, names.map(|name| (name, 7)));
}

#[test]
fn a_batch_stays_in_its_context() {
    let calls = calls_of(|| {
        let (x, set) = (object::<u32>(), CtxSet::<BlockShared>::__new(5, 1));
        let batch = set.get(0).batch(Block);
        batch.put(x, x, 1);
        let batch = batch.flush();
        batch.put(x, x, default_context().to(1));
        batch.quiet();
        shmem::batch(Warp).quiet();
    });
    assert_eq!(
        calls,
        [("put", 5), ("flush", 5), ("put", 5), ("quiet", 5), ("quiet", 0)]
    );
}

#[test]
#[should_panic(expected = "fault 1 with 4 and 4")]
fn a_context_outside_its_set_is_a_fault() {
    calls_of(|| {
        CtxSet::<Private>::__new(1, 4).get(4);
    });
}

#[test]
#[should_panic(expected = "fault 5 with 2 and 2")]
fn an_index_outside_its_team_is_a_fault() {
    calls_of(|| shmem::p(object::<u32>().at(0), 1, shmem::node().pe(2)));
}
