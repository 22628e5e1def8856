//! Entries written by hand, where no lane runs.

use super::*;
use shmem::state::{LANDING, NetworkState, SendQueue};
use shmem_mlx5::completion::Tail;
use shmem_mlx5::{Index, Local, LocalKey, Post, QueuePair as Number, Remote, RemoteKey, Unit, doorbell, entry};

const HERE: At = std::panic::Location::caller();

struct World {
    heaps: Arc<Heaps>,
    adapters: Adapters,
}

fn world(seed: u64, change: impl FnOnce(&mut Config)) -> World {
    let mut config = Config::new(2);
    config.seed = seed;
    config.path = Some(Path::Ibgda);
    (config.contexts, config.queue_blocks) = (2, 16);
    change(&mut config);
    let heaps = Arc::new(Heaps::new(2, 1 << 20).unwrap());
    let adapters = Adapters::new(&config, &heaps).unwrap().unwrap();
    World { heaps, adapters }
}

impl World {
    fn state(&self, pe: u32) -> &NetworkState {
        // SAFETY: made by `setup`, and kept by `adapters`.
        unsafe { &*(self.adapters.state(pe) as *const NetworkState) }
    }

    fn queue(&self, pe: u32, ctx: u32, to: u32) -> &SendQueue {
        // SAFETY: as above.
        unsafe { &*(self.state(pe).queues as *const SendQueue).add((ctx * 2 + to) as usize) }
    }

    fn key(&self, pe: u32, of: u32) -> u32 {
        // SAFETY: as above.
        unsafe { *(self.state(pe).keys as *const u32).add(of as usize) }
    }

    fn word(&self, pe: u32, offset: u64) -> u32 {
        // SAFETY: inside the heap.
        unsafe { crate::memory::load(self.heaps.base(pe) as u64 + offset, 4) as u32 }
    }

    /// Posts one entry to a queue and rings for it.
    fn post(&self, from: u32, queue: &SendQueue, position: u64, units: &[Unit], tell: bool) {
        let index = Index::of(position);
        for (at, unit) in (0..).zip(units) {
            let block = (position + at / 4) % (1 << queue.log2);
            let to = (queue.ring + 64 * block + 16 * (at % 4)) as *mut [u8; 16];
            // SAFETY: inside the ring.
            unsafe { to.write(unit.to_bytes()) };
        }
        if tell {
            let record = doorbell::record(index.after(units.len())).to_bytes();
            // SAFETY: the queue's record.
            unsafe { (queue.record as *mut [u8; 4]).write(record) };
        }
        let value = doorbell::register(units[0]).raw();
        let bell = self.adapters.doorbell(from, queue.register, value).unwrap();
        self.adapters.ring(&bell, HERE);
    }

    fn tail(queue: &SendQueue) -> Tail {
        // SAFETY: the queue's completion.
        Tail::from_raw(unsafe { *((queue.completion + 60) as *const u32) })
    }
}

fn post(queue: &SendQueue, position: u64) -> Post {
    Post::new(Index::of(position), Number::new(queue.number).unwrap()).signalled()
}

fn at(key: u32, address: u64) -> Remote {
    Remote {
        address,
        key: RemoteKey(key),
    }
}

#[test]
fn entries_write_and_read_heaps_of_both_pes() {
    for seed in 0..20 {
        let world = world(seed, |_| ());
        for (from, ctx, to) in [(0, 0, 1), (0, 1, 1), (1, 0, 0), (0, 0, 0)] {
            let queue = world.queue(from, ctx, to);
            let remote = at(world.key(from, to), 8192);
            let value = 7 + from + 2 * ctx + 4 * to;
            world.post(
                from,
                queue,
                0,
                &entry::write_inline(post(queue, 0), remote, [value, 0, 0], 4).unwrap(),
                true,
            );
            world.adapters.drain();
            assert!(!world.adapters.drain());
            assert_eq!(world.word(to, 8192), value);
            let landing = Local {
                address: queue.landing_at,
                key: LocalKey(queue.landing_key),
            };
            let length = shmem_mlx5::Length::new(4).unwrap();
            world.post(
                from,
                queue,
                1,
                &entry::read(post(queue, 1), remote, landing, length),
                true,
            );
            world.adapters.drain();
            // SAFETY: the queue's first landing.
            assert_eq!(unsafe { *(queue.landing as *const u32) }, value);
            assert!(queue.landing.is_multiple_of(LANDING));
            assert!(world.adapters.take_changed() && !world.adapters.take_changed());
            assert!(world.adapters.take_failure().is_none());
        }
    }
}

#[test]
fn a_missing_record_is_told_with_pe_context_and_peer() {
    let world = world(1, |_| ());
    let queue = world.queue(1, 1, 0);
    let remote = at(world.key(1, 0), 0);
    world.post(
        1,
        queue,
        0,
        &entry::write_inline(post(queue, 0), remote, [1, 0, 0], 4).unwrap(),
        false,
    );
    let failure = world.adapters.take_failure().unwrap().to_string();
    assert!(
        failure.starts_with("the network adapter of PE 1, context 1 to PE 0, queue pair 0x"),
        "{failure}"
    );
    assert!(
        failure.contains("write the record") && failure.contains("last rung by the call at"),
        "{failure}"
    );
}

#[test]
fn an_adapter_that_is_cut_off_gives_an_error_completion_and_no_failure() {
    for gone in [0, 1] {
        let world = world(1, |config| config.faults = vec![Fault::CutOff { pe: gone, at: 0 }]);
        let queue = world.queue(0, 0, 1);
        let remote = at(world.key(0, 1), 0);
        world.post(
            0,
            queue,
            0,
            &entry::write_inline(post(queue, 0), remote, [1, 0, 0], 4).unwrap(),
            true,
        );
        world.adapters.drain();
        assert!(world.adapters.take_failure().is_none());
        assert_eq!(world.word(1, 0), 0);
        assert!(World::tail(queue).is_error(), "PE {gone}");
    }
}

#[test]
fn only_registers_of_the_own_adapter_can_be_rung() {
    let world = world(1, |_| ());
    let (mine, other) = (world.queue(0, 0, 1).register, world.queue(1, 0, 0).register);
    assert!(world.adapters.doorbell(0, mine, 0).is_some());
    assert!(world.adapters.doorbell(0, other, 0).is_none());
    assert!(world.adapters.doorbell(0, 0x800, 0).is_none());
}

#[test]
fn what_adapters_cannot_do_is_refused_when_the_world_is_made() {
    let refused = |change: &dyn Fn(&mut Config)| {
        let mut config = Config::new(2);
        config.path = Some(Path::Ibgda);
        change(&mut config);
        config.check_adapters().unwrap_err()
    };
    for (contexts, blocks) in [(0, 16), (65, 16), (1, 8), (1, 24), (1, 1 << 16)] {
        let error = refused(&|config| (config.contexts, config.queue_blocks) = (contexts, blocks));
        assert!(matches!(error, SimError::Queues { contexts: c, blocks: b } if (c, b) == (contexts, blocks)));
    }
    let slow = Fault::Slow {
        link: crate::Link::ALL,
        by: crate::Delay::Fixed(1),
    };
    let error = refused(&|config| config.faults.push(slow.clone()));
    assert!(matches!(error, SimError::NotOverAdapters { .. }), "{error}");
    let mut large = Config::new(64);
    large.path = Some(Path::Ibgda);
    (large.contexts, large.queue_blocks) = (64, 1 << 15);
    let heaps = Arc::new(Heaps::new(64, 1 << 20).unwrap());
    let error = Adapters::new(&large, &heaps).err().unwrap();
    assert!(matches!(error, SimError::QueueMemory { count: 4096, .. }), "{error}");
}

#[test]
fn node_mates_have_no_queues() {
    let world = world(1, |config| config.node_pes = Some(2));
    assert_eq!(world.queue(0, 0, 1).number, 0);
    assert_ne!(world.key(0, 0), 0, "a source in the own heap needs its key");
}
