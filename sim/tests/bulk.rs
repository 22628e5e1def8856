//! Bulk engines on the simulator: what is found when their puts, sources and staging are used too early.
use shmem::bulk::{Engine, LEAST_STAGING};
use shmem::fault::FaultKind;
use shmem::prelude::*;
use shmem_sim::{Bug, Failure, Sim, signals, symmetric};

const SEEDS: u64 = 20;

fn failure(seed: u64, kernel: impl Fn() + Send + Sync) -> Option<Failure> {
    Sim::new(2).block(64).shared_bytes(4096).seed(seed).run(kernel).err()
}

/// Every seed finds it.
#[track_caller]
fn bug(kernel: impl Fn() + Send + Sync) -> Bug {
    let found = (0..SEEDS).map(|seed| match failure(seed, &kernel) {
        Some(Failure::Bug(bug)) => *bug,
        other => panic!("seed {seed}: {other:?}"),
    });
    found.last().unwrap()
}

#[track_caller]
fn fault(kernel: impl Fn() + Send + Sync) -> (Option<FaultKind>, String) {
    match failure(0, kernel) {
        Some(Failure::Fault { record, message, .. }) => {
            (FaultKind::from_number(record.kind), message.unwrap_or_default())
        }
        other => panic!("{other:?}"),
    }
}

type Sends = fn(&mut Engine<Block>, SymSlice<u32>, SymSlice<u32>, Signal);
type Call = fn(&mut Engine<Block>, SymSlice<u32>);

/// PE 0 puts by an engine and tells PE 1, which reads what came.
fn message(send: impl Fn(&mut Engine<Block>, SymSlice<u32>, SymSlice<u32>, Signal)) {
    let (dst, src, ready) = (symmetric::<u32>(64), symmetric::<u32>(64), signals(1).at(0));
    if shmem::my_pe() == 0 {
        let mut engine = Engine::new(Block, shmem::shared::dynamic::<u8>());
        src.store(thread::index(), 7);
        Block.sync();
        send(&mut engine, dst, src, ready);
    } else {
        shmem::wait_until(Block, ready, eq(1));
        assert_eq!(dst.load(63 - thread::index()), 7);
    }
}

fn tell(ready: Signal) {
    if Block.leader() {
        shmem::signal_op(ready.set(1), 1);
    }
}

#[test]
fn what_orders_the_puts_of_an_engine() {
    let right: [Sends; 4] = [
        |engine, dst, src, ready| engine.put_signal(dst, src, ready.set(1), 1),
        |engine, dst, src, ready| {
            engine.put(dst, src, 1);
            shmem::fence(Block);
            tell(ready);
        },
        |engine, dst, src, ready| {
            engine.put(dst, src, 1);
            src.store(thread::index(), 8); // reusable
            shmem::quiet(Block);
            tell(ready);
        },
        |engine, dst, src, ready| {
            engine.put_nbi(dst, src, 1);
            engine.quiet();
            tell(ready);
        },
    ];
    for send in right {
        for seed in 0..SEEDS {
            let failure = failure(seed, || message(send));
            assert!(failure.is_none(), "seed {seed}: {failure:?}");
        }
    }
}

#[test]
fn only_its_own_quiet_orders_an_nbi_put() {
    let ends: [fn(); 3] = [|| (), || shmem::fence(Block), || shmem::quiet(Block)];
    for end in ends {
        bug(|| {
            message(|engine, dst, src, ready| {
                engine.put_nbi(dst, src, 1);
                end();
                tell(ready);
            });
        });
    }
}

#[test]
fn a_source_is_written_again_too_early() {
    bug(|| {
        message(|engine, dst, src, ready| {
            engine.put_nbi(dst, src, 1);
            src.store(thread::index(), 8);
            engine.quiet();
            tell(ready);
        });
    });
}

#[test]
fn the_staging_is_the_engines() {
    let staging = || shmem::shared::dynamic::<u32>();
    let (kind, message) = fault(|| {
        if Block.leader() {
            let mut engine = Engine::new(Thread, staging());
            for i in 0..1024 {
                staging().store(i, 0);
            }
            engine.quiet();
        }
    });
    assert!(
        kind == Some(FaultKind::Panic) && message.contains("was written"),
        "{message}"
    );
    // Another thread than the one that issues.
    bug(|| {
        let _engine = Engine::new(Block, staging());
        if thread::index() == 9 {
            for i in 0..1024 {
                staging().store(i, 1);
            }
        }
    });
}

#[test]
fn two_engines_over_one_staging() {
    let (kind, message) = fault(|| {
        let staging = shmem::shared::dynamic::<u8>();
        let _one = Engine::new(Block, staging);
        let _two = Engine::new(Block, staging);
    });
    assert!(
        kind == Some(FaultKind::Panic) && message.contains("initialised already"),
        "{message}"
    );
}

#[test]
fn a_staging_serves_again_when_its_engine_is_dropped() {
    for seed in 0..SEEDS {
        let failure = failure(seed, || {
            let staging = shmem::shared::dynamic::<u32>();
            let (dst, src) = (symmetric::<u32>(64), symmetric::<u32>(64));
            for round in 0..3 {
                drop(Engine::new(Block, staging));
                let mut engine = Engine::new(Block, staging);
                engine.put_nbi(dst, src, 1 - shmem::my_pe());
                drop(engine);
                for i in Block.strided(1024) {
                    staging.store(i, round);
                }
                Block.sync();
                assert_eq!(staging.load(1023 - thread::index()), round);
                Block.sync();
            }
        });
        assert!(failure.is_none(), "seed {seed}: {failure:?}");
    }
}

#[test]
fn bad_calls_are_faults() {
    let small = fault(|| {
        let staging = shmem::shared::dynamic::<u8>();
        Engine::new(Block, staging.slice(0..LEAST_STAGING as u32 - 1)).quiet();
    });
    assert_eq!(small.0, Some(FaultKind::Staging));
    let calls: [(Call, FaultKind); 4] = [
        (|e, x| e.put(x.slice(0..4), x.slice(4..7), 0), FaultKind::Length),
        (|e, x| e.put_nbi(x.slice(0..4), x.slice(4..8), 2), FaultKind::Pe),
        (|e, x| e.get(x.slice(0..4), x.slice(4..7), 0), FaultKind::Length),
        (
            |e, x| e.put_signal(x.slice(0..4), x.slice(4..8), signals(1).at(0).set(1), 9),
            FaultKind::Pe,
        ),
    ];
    for (call, kind) in calls {
        let (found, _) = fault(|| {
            let x = symmetric::<u32>(8);
            let mut engine = Engine::new(Block, shmem::shared::dynamic::<u8>());
            call(&mut engine, x);
        });
        assert_eq!(found, Some(kind));
    }
}
