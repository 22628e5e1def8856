//! The network path by one lane, on an emulated adapter: each call's entries, and what comes of them.

use shmem::hook::{Access, At, Atomic, AtomicOp, Current, Group, Lane, Machine, Peer, Scope, SignalUpdate, Strength};
use shmem::hook::{Transfer, Watch, set_current};
use shmem::prelude::*;
use shmem::state::{DeviceState, FaultRecord, LANDING, MAX_PES, NetworkState, SendQueue};
use shmem::{CtxSet, F16x2, Private};
use shmem_hca::{Access as Key, Adapter, CompletionQueueConfig, Config, Connection, Fabric, Permissions, Place};
use shmem_hca::{Domain, Fault, Page, QueuePair, QueuePairConfig, Space, Unmapped};
use std::cell::{Cell, RefCell};

const HEAP: usize = 1 << 16;
const PES: u32 = 2;
const CONTEXTS: u32 = 2;
const LOG2: u32 = 4;

/// The test's own memory, by address.
struct Here;

impl shmem_hca::Memory for Here {
    fn read(&self, at: Place, into: &mut [u8]) -> Result<(), Unmapped> {
        // SAFETY: keys and queues cover memory that lives as long as the world.
        unsafe { std::ptr::copy(at.address as *const u8, into.as_mut_ptr(), into.len()) };
        Ok(())
    }
    fn write(&mut self, at: Place, bytes: &[u8]) -> Result<(), Unmapped> {
        // SAFETY: as above.
        unsafe { std::ptr::copy(bytes.as_ptr(), at.address as *mut u8, bytes.len()) };
        Ok(())
    }
}

fn at(address: u64) -> Place {
    Place {
        space: Space(0),
        address,
    }
}

/// Memory that stays where it is, filled with `byte`, aligned to 4096.
fn memory(bytes: usize, byte: u8) -> u64 {
    let layout = std::alloc::Layout::from_size_align(bytes, 4096).unwrap();
    // SAFETY: the layout is not empty. Leaked: tests are short.
    unsafe {
        let start = std::alloc::alloc(layout);
        start.write_bytes(byte, bytes);
        start as u64
    }
}

/// A send queue with its completions, its landings and its queue pair, which is not connected yet.
fn queue(fabric: &mut Fabric<Here>, adapter: Adapter, domain: Domain, page: (Page, u64)) -> (QueuePair, SendQueue) {
    let size = 1 << LOG2;
    let (ring, records) = (memory(64 * size, 0), memory(4096, 0));
    let landings = (size + 1) * LANDING as usize;
    let (completion, landing) = (memory(64, 0xff), memory(landings, 0));
    let landing_key = fabric
        .add_key(domain, 0, 0, landings as u64, at(landing), Key::ALL)
        .unwrap();
    let completions = CompletionQueueConfig {
        start: at(completion),
        log2: 0,
        record: at(records + 64),
        collapsed: true,
        ignore_overrun: true,
    };
    let completions = fabric.add_completion_queue(adapter, completions).unwrap();
    let config = QueuePairConfig {
        domain,
        page: page.0,
        start: at(ring),
        log2: LOG2 as u8,
        record: at(records),
        completions,
    };
    let qp = fabric.add_queue_pair(adapter, config).unwrap();
    fabric.init(qp, Permissions::ALL).unwrap();
    let queue = SendQueue {
        ring,
        record: records + 4,
        register: page.1 + 0x800,
        completion,
        landing,
        landing_at: 0,
        taken: memory(4 * size, 0),
        landing_key,
        number: qp.number(),
        log2: LOG2,
        ..SendQueue::UNUSED
    };
    (qp, queue)
}

struct World {
    fabric: RefCell<Fabric<Here>>,
    pages: Vec<(u64, Page)>,
    adapters: Vec<Adapter>,
    states: Vec<DeviceState>,
    heaps: Vec<u64>,
    rings: Cell<u32>,
    /// The adapters work only while somebody waits.
    lazy: bool,
}

impl World {
    fn new(seed: u64, lazy: bool) -> Self {
        let mut fabric = Fabric::new(Here, Config::strict(seed));
        let heaps: Vec<u64> = (0..PES).map(|_| memory(HEAP, 0)).collect();
        let adapters: Vec<_> = heaps.iter().map(|_| fabric.add_adapter()).collect();
        let domains: Vec<_> = adapters.iter().map(|&a| fabric.add_domain(a).unwrap()).collect();
        let keys = memory(4096, 0);
        for pe in 0..PES as usize {
            let key = fabric
                .add_key(domains[pe], 0, 0, HEAP as u64, at(heaps[pe]), Key::ALL)
                .unwrap();
            write(keys + 4 * pe as u64, key);
        }
        let (mut pages, mut made, mut tables) = (vec![], vec![], vec![]);
        for pe in 0..PES as usize {
            let (page, shown) = (fabric.add_page(adapters[pe], None).unwrap(), memory(4096, 0));
            pages.push((shown, page));
            let queues = memory((CONTEXTS * PES) as usize * size_of::<SendQueue>(), 0);
            let mut numbers = vec![];
            for i in 0..(CONTEXTS * PES) as usize {
                let (qp, queue) = queue(&mut fabric, adapters[pe], domains[pe], (page, shown));
                numbers.push(qp);
                write(queues + (i * size_of::<SendQueue>()) as u64, queue);
            }
            made.push(numbers);
            let network = memory(4096, 0);
            write(
                network,
                NetworkState {
                    queues,
                    contexts: CONTEXTS,
                    granule_log2: 16,
                    keys,
                    granules: 1,
                },
            );
            tables.push(network);
        }
        for pe in 0..PES as usize {
            for i in 0..(CONTEXTS * PES) as usize {
                let (ctx, to) = (i / PES as usize, i % PES as usize);
                let other = made[to][ctx * PES as usize + pe];
                let connection = Connection {
                    adapter: adapters[to],
                    queue_pair: other.number(),
                    retries: 7,
                    max_reads: 16,
                };
                fabric.ready_to_receive(made[pe][i], connection).unwrap();
                fabric.ready_to_send(made[pe][i]).unwrap();
            }
        }
        let states = (0..PES).map(|my_pe| DeviceState {
            my_pe,
            n_pes: PES,
            heap_base: heaps[my_pe as usize],
            heap_bytes: HEAP as u64,
            fault: 0,
            time_limit_ns: 0,
            world_sync: 0,
            node_sync: 0,
            node_start: my_pe,
            node_size: 1,
            places: 0,
            network: tables[my_pe as usize],
            peer_base: [0; MAX_PES],
        });
        Self {
            states: states.collect(),
            fabric: RefCell::new(fabric),
            pages,
            adapters,
            heaps,
            rings: Cell::new(0),
            lazy,
        }
    }

    /// Runs a lane of this PE; then everything that it has posted is done.
    fn run<R>(&self, pe: u32, kernel: impl FnOnce() -> R) -> R {
        let lane = Lane {
            state: &raw const self.states[pe as usize],
            block: [0; 3],
            thread: [0; 3],
            grid_dim: [1; 3],
            block_dim: [1; 3],
            cluster: 1,
        };
        // SAFETY: both live until the current lane is taken back.
        unsafe {
            set_current(Some(Current {
                lane: &lane,
                machine: self,
                low: 0,
            }));
        }
        let result = kernel();
        // SAFETY: as above.
        unsafe { set_current(None) };
        self.settle();
        result
    }

    fn settle(&self) {
        let mut fabric = self.fabric.borrow_mut();
        fabric.run();
        assert_eq!(fabric.take_violations(), []);
    }

    fn word<T: Copy>(&self, pe: u32, offset: u64) -> T {
        // SAFETY: inside the heap.
        unsafe { ((self.heaps[pe as usize] + offset) as *const T).read() }
    }
}

fn write<T>(address: u64, value: T) {
    // SAFETY: memory of the test's own.
    unsafe { (address as *mut T).write(value) };
}

impl Machine for World {
    fn sync(&self, _: Group, _: At) {}
    fn exchange(&self, _: u32, value: u64, _: At) -> [u64; 32] {
        [value; 32]
    }
    fn load(&self, access: Access, _: At) -> u128 {
        let mut bytes = [0; 16];
        // SAFETY: a kernel's access to memory of the test's own.
        unsafe { std::ptr::copy(access.address as *const u8, bytes.as_mut_ptr(), access.bytes as usize) };
        u128::from_le_bytes(bytes)
    }
    fn store(&self, access: Access, value: u128, _: At) {
        // SAFETY: as above.
        unsafe {
            std::ptr::copy(
                value.to_le_bytes().as_ptr(),
                access.address as *mut u8,
                access.bytes as usize,
            )
        };
    }
    fn atomic(&self, access: Access, atomic: &Atomic, at: At) -> u64 {
        let old = self.load(access, at) as u64;
        let new = match atomic.op {
            AtomicOp::Add => old.wrapping_add(atomic.operand),
            AtomicOp::Set | AtomicOp::Swap => atomic.operand,
            AtomicOp::CompareSwap if old == atomic.comparand => atomic.operand,
            AtomicOp::CompareSwap | AtomicOp::Fetch => old,
            other => unimplemented!("{other:?}"),
        };
        self.store(access, new.into(), at);
        old
    }
    fn atomic_at(&self, _: u64, _: u32, _: Peer, _: Strength, _: &Atomic, _: At) -> u64 {
        unreachable!("the network carries it")
    }
    fn fence_memory(&self, _: Scope, _: At) {}
    fn copy_async(&self, _: Access, _: Access, _: At) {}
    fn commit_async(&self) {}
    fn wait_async(&self, _: u32, _: At) {}
    fn put(&self, _: &Transfer, _: At) {
        unreachable!("the network carries it")
    }
    fn get(&self, _: &Transfer, _: At) {
        unreachable!("the network carries it")
    }
    fn p(&self, _: u64, _: u128, _: u32, _: Peer, _: At) {
        unreachable!("the network carries it")
    }
    fn packet(&self, _: u64, _: u128, _: u32, _: Peer, _: At) {
        unreachable!("the network carries it")
    }
    fn g(&self, _: u64, _: u32, _: Peer, _: At) -> u128 {
        unreachable!("the network carries it")
    }
    fn signal(&self, _: SignalUpdate, _: Peer, _: bool, _: At) {
        unreachable!("the network carries it")
    }
    fn fence(&self, _: Group, _: u32, _: At) {}
    fn quiet(&self, _: Group, _: u32, _: At) {}
    fn flush(&self, _: Group, _: u32, _: At) {}
    fn watching(&self, _: Option<(&Watch, At)>) {}
    fn pause(&self, _: &Watch, at: At) {
        let mut fabric = self.fabric.borrow_mut();
        let stepped = fabric.step();
        let mut violations = fabric.take_violations();
        violations.retain(|violation| !matches!(violation.fault, Fault::RetriesExceeded(_)));
        assert_eq!(violations, []);
        assert!(stepped.is_some(), "{at} waits for ever");
    }
    fn shared(&self, _: u64, _: usize, _: At) -> *mut u8 {
        unreachable!("no test uses shared memory")
    }
    fn first_shared(&self, _: u64, _: usize, _: At) -> *mut u8 {
        unreachable!("no test uses shared memory")
    }
    fn dynamic_shared(&self) -> (*mut u8, usize) {
        unreachable!("no test uses shared memory")
    }
    fn ring(&self, register: u64, value: u64, _: At) {
        self.rings.set(self.rings.get() + 1);
        let mut fabric = self.fabric.borrow_mut();
        let mut rung = false;
        for &(shown, page) in &self.pages {
            if (shown..shown + 4096).contains(&register) {
                fabric.store(page, register - shown, &value.to_ne_bytes());
                rung = true;
            }
        }
        assert!(rung, "no register at {register:#x}");
        assert_eq!(fabric.take_violations(), []);
        if !self.lazy {
            fabric.run();
        }
    }
    fn now_ns(&self) -> u64 {
        0
    }
    fn fault(&self, record: &FaultRecord) -> ! {
        panic!("fault {} with {} and {:#x}", record.kind, record.a, record.b)
    }
}

fn object<T>(offset: u64, len: u64) -> SymSlice<T> {
    SymSlice::__new(offset, len)
}

fn worlds() -> impl Iterator<Item = World> {
    (0..40).map(|seed| World::new(seed, seed % 2 == 0))
}

#[test]
fn elements_arrive_and_come_back() {
    for world in worlds() {
        world.run(0, || {
            shmem::p(object::<u8>(4096, 4).at(3), 0xab, 1);
            shmem::p(object::<u32>(4104, 4).at(1), 0x1234_5678, 1);
            shmem::p(object::<u64>(4128, 1).at(0), u64::MAX - 5, 1);
            shmem::quiet(Thread);
            assert_eq!(shmem::g(object::<u8>(4096, 4).at(3), 1), 0xab);
            assert_eq!(shmem::g(object::<u32>(4104, 4).at(1), 1), 0x1234_5678);
            assert_eq!(shmem::g(object::<u64>(4128, 1).at(0), 1), u64::MAX - 5);
        });
        assert_eq!(world.word::<u32>(1, 4108), 0x1234_5678);
        assert_eq!(world.word::<u32>(0, 4108), 0);
    }
}

#[test]
fn puts_of_every_length_and_source() {
    for world in worlds() {
        let local: Vec<u8> = (0..700u32).map(|i| (i * 7 + 1) as u8).collect();
        for len in [1, 2, 11, 12, 13, 16, 219, 220, 221, 440, 700] {
            world.run(0, || {
                let (own, dst) = (object::<u8>(8192, len), object::<u8>(4096 + len % 7, len));
                shmem::put(Thread, dst, &local[..len as usize], 1);
                own.store(len - 1, 99);
                own.store(0, len as u8);
                shmem::put(Thread, object::<u8>(16384, len), own, 1);
                shmem::quiet(Thread);
            });
            for i in [0, len / 2, len - 1] {
                assert_eq!(world.word::<u8>(1, 4096 + len % 7 + i), local[i as usize], "{len}");
            }
            assert_eq!(world.word::<u8>(1, 16384), len as u8);
        }
        world.run(1, || {
            let mut back = [0u8; 700];
            shmem::get(Thread, &mut back[..], object::<u8>(4096, 700), 1);
            assert_eq!(back, local[..]);
            shmem::get(Thread, object::<u8>(32768, 700), object::<u8>(4096, 700), 1);
            assert_eq!(object::<u8>(32768, 700).load(699), local[699]);
        });
    }
}

#[test]
fn atomics_of_both_sizes() {
    for world in worlds() {
        let (a, b) = (object::<u32>(4096, 2).at(1), object::<u64>(4112, 1).at(0));
        world.run(0, || {
            macro_rules! all { ($($x:ident: $t:ty)*) => { $(
                shmem::set($x, 40, 1);
                assert_eq!(shmem::fetch_add($x, 2, 1), 40);
                assert_eq!(shmem::fetch_inc($x, 1), 42);
                shmem::add($x, (0 as $t).wrapping_sub(3), 1);
                assert_eq!(shmem::swap($x, 0b1100, 1), 40);
                assert_eq!(shmem::fetch_and($x, 0b0110, 1), 0b1100);
                assert_eq!(shmem::fetch_or($x, 0b0001, 1), 0b0100);
                assert_eq!(shmem::fetch_xor($x, 0b1111, 1), 0b0101);
                shmem::or($x, 1, 1);
                shmem::xor($x, 1 << 9, 1);
                shmem::and($x, !1, 1);
                assert_eq!(shmem::compare_swap($x, 5, 7, 1), 0b10_0000_1010);
                assert_eq!(shmem::compare_swap($x, 0b10_0000_1010, 7, 1), 0b10_0000_1010);
                assert_eq!(shmem::fetch($x, 1), 7);
            )* } }
            all! { a: u32 b: u64 }
            let (f, d) = (object::<f32>(4120, 1).at(0), object::<f64>(4128, 1).at(0));
            assert_eq!(shmem::fetch_add(f, 1.5, 1).to_bits(), 0);
            shmem::add(f, 2.0, 1);
            assert_eq!(shmem::fetch(f, 1).to_bits(), 3.5f32.to_bits());
            shmem::add(d, 2.25, 1);
            assert_eq!(shmem::fetch_add(d, 1.0, 1).to_bits(), 2.25f64.to_bits());
            let h = object::<F16x2>(4136, 1).at(0);
            shmem::add(h, F16x2::from_f32([1.0, -2.0]), 1);
            assert_eq!(
                shmem::fetch(h, 1).f32().map(f32::to_bits),
                [1.0f32, -2.0].map(f32::to_bits)
            );
        });
        assert_eq!(world.word::<u32>(1, 4096), 0, "the word beside it");
    }
}

#[test]
fn signals_come_behind_their_data() {
    for world in worlds() {
        let (signal, count) = (
            object::<SignalWord>(4096, 1).at(0),
            object::<CounterWord>(4112, 1).at(0),
        );
        world.run(0, || {
            for round in 1..=20u64 {
                shmem::put_signal(Thread, object::<u64>(8192, 1), &[round], signal.set(round), 1);
                shmem::signal_op(count.add(2), 1);
            }
            shmem::quiet(Thread);
        });
        world.run(1, || {
            assert_eq!(shmem::wait_until(Thread, signal, ge(20)), 20);
            assert_eq!(shmem::wait_until(Thread, count, ge(40)), 40);
            assert_eq!(object::<u64>(8192, 1).load(0), 20);
        });
    }
}

#[test]
fn indices_wrap_and_private_contexts_need_no_atomics() {
    let world = World::new(1, true);
    let ctx = CtxSet::<Private>::__new(1, 1).get(0);
    world.run(0, || {
        for i in 0..70_000u32 {
            shmem::p(object::<u32>(4096, 8).at(i % 8), i, ctx.to(1));
            shmem::p(object::<u32>(8192, 8).at(i % 8), i, 1);
            if i % 1000 == 0 {
                ctx.quiet(Thread);
                assert_eq!(shmem::g(object::<u32>(4096, 8).at(i % 8), ctx.to(1)), i);
            }
        }
        ctx.quiet(Thread);
        shmem::quiet(Thread);
    });
    assert_eq!(world.word::<u32>(1, 4096 + 4 * (69_999 % 8)), 69_999);
    assert_eq!(world.word::<u32>(1, 8192 + 4 * (69_999 % 8)), 69_999);
}

#[test]
fn a_batch_rings_once() {
    let world = World::new(3, true);
    let values: Vec<u64> = (0..30).collect();
    let rings = world.run(0, || {
        let batch = shmem::batch(Thread);
        for i in 0..10usize {
            batch.put(object::<u64>(4096, 30).chunk(i, 3), &values[3 * i..3 * i + 3], 1);
        }
        let before = world.rings.get();
        batch.quiet();
        (before, world.rings.get())
    });
    assert_eq!(rings, (0, 1));
    assert_eq!(world.word::<u64>(1, 4096 + 29 * 8), 29);
}

#[test]
fn a_call_of_several_entries_rings_once() {
    let (signal, x) = (object::<SignalWord>(8192, 1).at(0), object::<u32>(4096, 128));
    let (own, values) = (object::<u32>(2048, 128), [7; 128]);
    let rings = |call: &dyn Fn()| {
        let world = World::new(4, true);
        world.run(0, || {
            call();
            world.rings.get()
        })
    };
    assert_eq!(rings(&|| shmem::put(Thread, x, &values, 1)), 1);
    assert_eq!(rings(&|| shmem::put_signal_nbi(Thread, x, own, signal.set(1), 1)), 1);
    assert_eq!(rings(&|| shmem::put_signal(Thread, x, &values, signal.set(1), 1)), 1);
    let count = object::<CounterWord>(8192, 1).at(0);
    assert_eq!(rings(&|| shmem::put_signal(Thread, x, own, count.add(1), 1)), 1);
}

#[test]
#[should_panic(expected = "fault 12 with 1 and 0x")]
fn what_the_network_could_not_do_is_a_fault() {
    let world = World::new(0, true);
    world.fabric.borrow_mut().set_reachable(world.adapters[1], false);
    world.run(0, || {
        shmem::p(object::<u32>(4096, 1).at(0), 1, 1);
        shmem::quiet(Thread);
    });
}

#[test]
fn quiet_waits_for_acknowledgements_and_quiet_visible_for_memory() {
    let (mut behind, x) = (0, object::<u64>(4096, 1));
    for world in worlds() {
        let seen = world.run(0, || {
            shmem::p(x.at(0), 1, 1);
            shmem::quiet(Thread);
            let acknowledged = world.word::<u64>(1, 4096);
            shmem::p(x.at(0), 2, 1);
            shmem::quiet_visible(Thread);
            assert_eq!(world.word::<u64>(1, 4096), 2);
            acknowledged
        });
        behind += u32::from(seen == 0);
    }
    assert!(behind > 0, "an acknowledgement ahead of its bytes");
}
