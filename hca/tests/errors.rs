//! What happens when something fails: error completions, flushing, retries, limits, and a set-up that is wrong.

mod common;

use common::{HEAP, Options, Rig, place};
use shmem_hca::{
    Access, CompletionQueueConfig, Config, Connection, Fabric, Fault, Memory, Permissions, QueuePairConfig, Ram,
    SetupError, State, StepKind,
};
use shmem_mlx5::completion::{Kind, Syndrome};
use shmem_mlx5::entry;
use shmem_mlx5::{Length, Remote, RemoteKey};

fn put(rig: &mut Rig, key: u32, signalled: bool) {
    let mut post = rig.next(0, 1);
    if signalled {
        post = post.signalled();
    }
    let to = Remote {
        key: RemoteKey(key),
        ..rig.remote(1, 0)
    };
    let units = entry::write(post, to, rig.local(0, 0), Length::new(8).unwrap());
    rig.write(0, 1, &units);
}

fn faults(rig: &mut Rig) -> Vec<Fault> {
    rig.fabric.take_violations().into_iter().map(|v| v.fault).collect()
}

#[test]
fn what_follows_a_failure_is_flushed_signalled_or_not() {
    for seed in 0..50 {
        let mut rig = Rig::new(Config::strict(seed), Options::default());
        let (good, bad) = (rig.pes[1].strict, 0x00de_ad00);
        for (key, signalled) in [(good, true), (good, false), (bad, false), (good, false), (good, true)] {
            put(&mut rig, key, signalled);
        }
        rig.ring(0, 1);
        rig.fabric.run();
        assert_eq!(faults(&mut rig).len(), 1);
        let completions: Vec<_> = std::iter::from_fn(|| rig.take(0, 1)).collect();
        let expected = [
            (Kind::Request, 0),
            (Kind::RequestError, 2),
            (Kind::RequestError, 3),
            (Kind::RequestError, 4),
        ];
        assert_eq!(
            completions.iter().map(|c| (c.0, c.1)).collect::<Vec<_>>(),
            expected,
            "seed {seed}"
        );
        let syndromes: Vec<_> = completions[1..].iter().map(|c| c.2).collect();
        assert_eq!(
            syndromes,
            [Syndrome::RemoteAccess, Syndrome::Flushed, Syndrome::Flushed]
        );
        let qp = rig.queues[0][1].qp;
        assert_eq!(rig.fabric.state(qp), Ok(State::Error));
        // What is posted now is flushed too.
        put(&mut rig, good, true);
        rig.ring(0, 1);
        rig.fabric.run();
        assert_eq!(rig.take(0, 1), Some((Kind::RequestError, 5, Syndrome::Flushed)));
        rig.clean();
    }
}

#[test]
fn a_queue_pair_that_is_ended_flushes_what_is_posted() {
    let mut rig = Rig::new(Config::strict(3), Options::default());
    let good = rig.pes[1].strict;
    for _ in 0..3 {
        put(&mut rig, good, false);
    }
    rig.ring(0, 1);
    rig.fabric.fail(rig.queues[0][1].qp).unwrap();
    rig.fabric.run();
    for i in 0..3 {
        assert_eq!(rig.take(0, 1), Some((Kind::RequestError, i, Syndrome::Flushed)));
    }
    rig.clean();
}

#[test]
fn retries_are_counted_and_end() {
    for retries in [0, 1, 7] {
        let mut rig = with_connection(retries, 4);
        let adapter = rig.pes[1].adapter;
        rig.fabric.set_reachable(adapter, false);
        let good = rig.pes[1].strict;
        put(&mut rig, good, true);
        rig.ring(0, 1);
        let steps: Vec<_> = std::iter::from_fn(|| rig.step()).map(|s| s.kind).collect();
        let lost = steps.iter().filter(|&&kind| kind == StepKind::Lost).count();
        assert_eq!(lost, retries as usize);
        assert_eq!(faults(&mut rig), [Fault::RetriesExceeded(retries)]);
        assert_eq!(rig.take(0, 1), Some((Kind::RequestError, 0, Syndrome::RetriesExceeded)));
    }
}

#[test]
fn an_adapter_that_comes_back_in_time_is_reached() {
    let mut rig = with_connection(7, 4);
    let adapter = rig.pes[1].adapter;
    rig.fabric.set_reachable(adapter, false);
    let good = rig.pes[1].strict;
    put(&mut rig, good, true);
    rig.ring(0, 1);
    for _ in 0..5 {
        assert_eq!(rig.step().unwrap().kind, StepKind::Lost);
    }
    rig.fabric.set_reachable(adapter, true);
    rig.fabric.run();
    assert!(matches!(rig.take(0, 1), Some((Kind::Request, 0, _))));
    rig.clean();
}

/// A rig whose queue pairs have a connection of their own kind.
fn with_connection(retries: u32, max_reads: u32) -> Rig {
    Rig::new(
        Config::strict(0),
        Options {
            retries,
            max_reads,
            ..Options::default()
        },
    )
}

#[test]
fn reads_in_flight_are_limited() {
    for limit in [1, 3] {
        let mut rig = with_connection(7, limit);
        let gets = 8;
        for i in 0..gets {
            let (from, to) = (rig.remote(1, 64 * i), rig.local(0, 0x4000 + 64 * i));
            let units = entry::read(rig.next(0, 1), from, to, Length::new(8).unwrap());
            rig.write(0, 1, &units);
        }
        rig.ring(0, 1);
        let (mut flying, mut most) = (0u32, 0);
        while let Some(step) = rig.step() {
            match step.kind {
                StepKind::Arrived => flying += 1,
                // One packet each.
                StepKind::Answered => flying -= 1,
                _ => {}
            }
            most = most.max(flying);
        }
        assert_eq!(most, limit);
        rig.clean();
    }
}

#[test]
fn a_target_that_has_failed_does_not_answer() {
    let mut rig = Rig::new(Config::strict(0), Options::default());
    rig.fabric.fail(rig.queues[1][0].qp).unwrap();
    let good = rig.pes[1].strict;
    put(&mut rig, good, true);
    rig.ring(0, 1);
    rig.fabric.run();
    assert_eq!(faults(&mut rig), [Fault::RetriesExceeded(7)]);
}

#[test]
fn permissions_of_the_targets_queue_pair() {
    let none = Permissions::default();
    for (permissions, what) in [
        (
            Permissions {
                write: false,
                ..Permissions::ALL
            },
            "writes",
        ),
        (
            Permissions {
                read: false,
                ..Permissions::ALL
            },
            "reads",
        ),
        (
            Permissions {
                atomic: false,
                ..Permissions::ALL
            },
            "atomics",
        ),
        (none, "writes"),
    ] {
        let options = Options {
            permissions,
            ..Options::default()
        };
        let mut rig = Rig::new(Config::strict(0), options);
        let (to, back, post) = (rig.remote(1, 0), rig.local(0, 0), rig.next(0, 1));
        match what {
            "writes" => rig.post(0, 1, &entry::write(post, to, back, Length::new(8).unwrap())),
            "reads" => rig.post(0, 1, &entry::read(post, to, back, Length::new(8).unwrap())),
            _ => rig.post(0, 1, &entry::fetch_add(post, to, 1, back)),
        }
        rig.fabric.run();
        assert_eq!(faults(&mut rig), [Fault::TargetRefuses { what }]);
        assert!(matches!(
            rig.take(0, 1),
            Some((Kind::RequestError, 0, Syndrome::RemoteAccess))
        ));
    }
}

#[test]
fn big_endian_atomics_where_the_adapter_is_set_up_so() {
    let config = Config {
        native_atomics: false,
        ..Config::strict(0)
    };
    let mut rig = Rig::new(config, Options::default());
    rig.set_heap(1, 0, &0x0102_0304_0506_0708u64.to_ne_bytes());
    let units = entry::fetch_add(rig.next(0, 1), rig.remote(1, 0), 1, rig.local(0, 0));
    rig.post(0, 1, &units);
    rig.fabric.run();
    assert_eq!(rig.heap(0, 0, 8), 0x0102_0304_0506_0708u64.to_be_bytes());
    assert_eq!(rig.heap(1, 0, 8), 0x0102_0304_0506_0709u64.to_ne_bytes());
}

#[test]
fn memory_that_is_not_there_is_a_fault() {
    let mut rig = Rig::new(Config::strict(0), Options::default());
    // A key over nothing.
    let key = rig
        .fabric
        .add_key(rig.pes[1].domain, 0, HEAP, 64, place(77, 0), Access::ALL)
        .unwrap();
    put(&mut rig, key, true);
    rig.ring(0, 1);
    rig.fabric.run();
    let found = faults(&mut rig);
    assert!(matches!(found[..], [Fault::Unmapped(_)]), "{found:?}");
    assert_eq!(rig.fabric.state(rig.queues[0][1].qp), Ok(State::Error));
}

fn bare() -> (Fabric<Ram>, [shmem_hca::Adapter; 2]) {
    let mut fabric = Fabric::new(Ram::new(), Config::strict(0));
    fabric.memory_mut().add(place(0, 0x1000), 0x1000);
    let adapters = [fabric.add_adapter(), fabric.add_adapter()];
    (fabric, adapters)
}

#[test]
fn a_wrong_set_up_is_refused_with_what_was_wrong() {
    let (mut fabric, [one, two]) = bare();
    let (page, domain) = (fabric.add_page(one, None).unwrap(), fabric.add_domain(one).unwrap());
    let good = CompletionQueueConfig {
        start: place(0, 0x1000),
        log2: 1,
        record: place(0, 0x1800),
        collapsed: false,
        ignore_overrun: false,
    };
    let refused = fabric.add_completion_queue(one, good);
    assert_eq!(refused, Err(SetupError::NotInvalid { slot: 0, kind: 0 }));
    for slot in 0..2 {
        fabric
            .memory_mut()
            .write(place(0, 0x1000 + slot * 64 + 63), &[0xf0])
            .unwrap();
    }
    let start = place(0, 0x1010);
    let refused = fabric.add_completion_queue(one, CompletionQueueConfig { start, ..good });
    assert!(
        matches!(
            refused,
            Err(SetupError::Alignment {
                address: 0x1010,
                align: 64,
                ..
            })
        ),
        "{refused:?}"
    );
    let refused = fabric.add_completion_queue(one, CompletionQueueConfig { log2: 40, ..good });
    assert!(matches!(refused, Err(SetupError::Size { log2: 40, .. })), "{refused:?}");
    let record = place(0, 0x9000);
    let refused = fabric.add_completion_queue(one, CompletionQueueConfig { record, ..good });
    assert!(matches!(refused, Err(SetupError::Unmapped(_))), "{refused:?}");
    let completions = fabric.add_completion_queue(one, good).unwrap();
    let good = QueuePairConfig {
        domain,
        page,
        start: place(0, 0x1400),
        log2: 1,
        record: place(0, 0x1808),
        completions,
    };
    let refused = fabric.add_queue_pair(two, good);
    assert!(
        matches!(
            refused,
            Err(SetupError::OtherAdapter {
                seen: 0,
                expected: 1,
                ..
            })
        ),
        "{refused:?}"
    );
    let refused = fabric.add_queue_pair(one, QueuePairConfig { log2: 16, ..good });
    assert!(
        matches!(refused, Err(SetupError::Size { log2: 16, max: 15, .. })),
        "{refused:?}"
    );
    let start = place(0, 0x1fc0);
    let refused = fabric.add_queue_pair(one, QueuePairConfig { start, ..good });
    assert!(matches!(refused, Err(SetupError::Unmapped(_))), "{refused:?}");
    let qp = fabric.add_queue_pair(one, good).unwrap();
    assert_eq!(qp.number(), 0x40, "one that was refused left something behind");
    let refused = fabric.ready_to_send(qp);
    let expected = SetupError::State {
        seen: State::Reset,
        expected: State::ReadyToReceive,
    };
    assert_eq!(refused, Err(expected));
    fabric.init(qp, Permissions::ALL).unwrap();
    let connection = Connection {
        adapter: two,
        queue_pair: 9,
        retries: 7,
        max_reads: 1,
    };
    let refused = fabric.ready_to_receive(qp, connection);
    assert!(matches!(refused, Err(SetupError::Unknown(_))), "{refused:?}");
    let refused = fabric.ready_to_receive(
        qp,
        Connection {
            retries: 8,
            ..connection
        },
    );
    assert!(
        matches!(refused, Err(SetupError::Setting { seen: 8, max: 7, .. })),
        "{refused:?}"
    );
    assert!(fabric.remove_key(domain, 5).is_err());
    let refused = fabric.add_page(one, Some(place(0, 0x1800)));
    assert!(matches!(refused, Err(SetupError::Alignment { .. })), "{refused:?}");
    for error in [expected, SetupError::Unknown("key")] {
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn of_a_message_that_is_partly_outside_nothing_lands() {
    let mut rig = Rig::new(Config::strict(0), Options::default());
    rig.set_heap(0, 0, &[7; 0x2000]);
    let end = common::HEAP_BYTES as u64;
    let to = rig.remote(1, end - 0x2000 + 1);
    let units = entry::write(rig.next(0, 1), to, rig.local(0, 0), Length::new(0x2000).unwrap());
    rig.post(0, 1, &units);
    rig.fabric.run();
    assert_eq!(faults(&mut rig).len(), 1);
    assert_eq!(rig.heap(1, end - 0x2000, 0x2000), [0; 0x2000]);
}

#[test]
fn after_a_fault_doorbells_are_not_listened_to() {
    let mut rig = Rig::new(Config::strict(0), Options::default());
    let good = rig.pes[1].strict;
    // Rung without an entry.
    rig.queues[0][1].posted = 1;
    put(&mut rig, good, true);
    rig.queues[0][1].posted = 0;
    put(&mut rig, good, true);
    rig.write_register(0, 1);
    assert_eq!(faults(&mut rig).len(), 1);
    for _ in 0..3 {
        rig.ring(0, 1);
        rig.fabric.run();
        rig.clean();
    }
    assert!(matches!(
        rig.take(0, 1),
        Some((Kind::RequestError, _, Syndrome::LocalQueuePairOperation))
    ));
    assert_eq!(rig.take(0, 1), None);
    assert_eq!(rig.heap(1, 0, 8), rig.heap(0, 0, 8));
}

#[test]
fn a_queue_pair_whose_other_end_is_connected_elsewhere_is_not_answered() {
    let options = Options {
        pes: 3,
        ..Options::default()
    };
    let mut rig = Rig::new(Config::strict(0), options);
    // A second queue pair of PE 2 to the end that PE 0 has at PE 1.
    let (pe, other) = (&rig.pes[2], rig.queues[1][0].qp);
    let (adapter, domain, page) = (pe.adapter, pe.domain, pe.page);
    let at = |offset: u64| place(2, 0x5000_0000 + offset);
    rig.fabric.memory_mut().add(at(0), 0x1000);
    rig.fabric.memory_mut().write(at(0x100 + 63), &[0xf0]).unwrap();
    let completions = CompletionQueueConfig {
        start: at(0x100),
        log2: 0,
        record: at(0x200),
        collapsed: true,
        ignore_overrun: true,
    };
    let completions = rig.fabric.add_completion_queue(adapter, completions).unwrap();
    let config = QueuePairConfig {
        domain,
        page,
        start: at(0),
        log2: 0,
        record: at(0x208),
        completions,
    };
    let qp = rig.fabric.add_queue_pair(adapter, config).unwrap();
    rig.fabric.init(qp, Permissions::ALL).unwrap();
    let connection = Connection {
        adapter: other.adapter(),
        queue_pair: other.number(),
        retries: 2,
        max_reads: 1,
    };
    rig.fabric.ready_to_receive(qp, connection).unwrap();
    rig.fabric.ready_to_send(qp).unwrap();
    let number = shmem_mlx5::QueuePair::new(qp.number()).unwrap();
    let post = shmem_mlx5::Post::new(shmem_mlx5::Index::new(0), number);
    let units = entry::write_inline(post, rig.remote(1, 0), [1, 0, 0], 4).unwrap();
    for (i, unit) in units.iter().enumerate() {
        rig.fabric
            .memory_mut()
            .write(at(16 * i as u64), &unit.to_bytes())
            .unwrap();
    }
    rig.fabric
        .memory_mut()
        .write(at(0x208 + 4), &1u32.to_be_bytes())
        .unwrap();
    let value = shmem_mlx5::doorbell::register(units[0]).to_be_bytes();
    rig.fabric.store(page, 0x800, &value);
    rig.fabric.run();
    assert_eq!(faults(&mut rig), [Fault::RetriesExceeded(2)]);
    assert_eq!(rig.heap(1, 0, 4), [0; 4]);
}

#[test]
fn without_watching_an_old_entry_is_told_by_its_index() {
    let config = Config {
        watch: false,
        ..Config::strict(0)
    };
    let mut rig = Rig::new(config, Options::default());
    let good = rig.pes[1].strict;
    for _ in 0..16 {
        put(&mut rig, good, true);
        rig.ring(0, 1);
        rig.fabric.run();
        rig.take(0, 1);
    }
    // Entry 16 is not written; where it would be, entry 0 is.
    let post = rig.next(0, 1).signalled();
    let units = entry::nop(post);
    rig.queues[0][1].posted += 1;
    rig.write_record(0, 1);
    let page = rig.queues[0][1].page;
    let value = shmem_mlx5::doorbell::register(units[0]).to_be_bytes();
    rig.fabric.store(page, 0x800, &value);
    let found = faults(&mut rig);
    assert_eq!(found, [Fault::Index { seen: 0, expected: 16 }]);
}
