//! The whole set-up on emulated adapters, and bytes moved over what it made.

mod common;

use common::{Job, fabric};
use shmem_hca::firmware::{Capabilities, Reason};
use shmem_hca::{Config, Fabric, Fault, Ram, Violation};
use shmem_ibgda::{Emulated, Link, Pages, Settings};
use shmem_mlx5::cmd::queue_pair::Mtu;
use shmem_mlx5::completion::Kind;
use shmem_mlx5::{Length, Local, LocalKey, Post, Unit, entry};
use std::sync::{Arc, Mutex};

const LINKS: [Link; 2] = [Link::InfiniBand, Link::Ethernet];

#[test]
fn every_pe_writes_reads_and_adds_at_every_pe_in_every_context() {
    for link in LINKS {
        let (pes, contexts) = (3, 2);
        let mut job = Job::new(pes, contexts, link, 5);
        for from in 0..pes as usize {
            for to in 0..pes as usize {
                for context in 0..contexts as usize {
                    let slot = ((from * 3 + to) * 2 + context) as u64 * 64;
                    let data = [slot as u8 + 1; 24];
                    job.set_heap(from, slot, &data);
                    let (there, here) = (job.remote(to, 0x2000 + slot), job.local(from, slot));
                    let length = Length::new(24).unwrap();
                    let done = job.post(from, context, to, |post| {
                        entry::write(post, there, here, length).to_vec()
                    });
                    assert_eq!(
                        done,
                        Some(Kind::Request),
                        "{:?}",
                        fabric(&job.machine).take_violations()
                    );
                    assert_eq!(job.heap(to, 0x2000 + slot, 24), data);
                    // The answer of an atomic lands in the queue pair's own slots, the last of them included.
                    let parts = job.parts(from, context, to);
                    let last = (1u64 << parts.log2) * 64;
                    let old = Local {
                        address: parts.landing_at + last,
                        key: LocalKey(parts.landing_key),
                    };
                    let done = job.post(from, context, to, |post| entry::fetch_add(post, there, 1, old).to_vec());
                    assert_eq!(
                        done,
                        Some(Kind::Request),
                        "{:?}",
                        fabric(&job.machine).take_violations()
                    );
                    assert_eq!(job.memory(parts.landing + last, 8), data[..8]);
                    let back = job.local(from, 0x4000 + slot);
                    let done = job.post(from, context, to, |post| {
                        entry::read(post, there, back, length).to_vec()
                    });
                    assert_eq!(
                        done,
                        Some(Kind::Request),
                        "{:?}",
                        fabric(&job.machine).take_violations()
                    );
                    let got = job.heap(from, 0x4000 + slot, 8);
                    let expected = u64::from_ne_bytes(data[..8].try_into().unwrap()) + 1;
                    assert_eq!(got, expected.to_ne_bytes());
                }
            }
        }
        job.clean();
    }
}

#[test]
fn contexts_are_added_later() {
    let mut job = Job::new(2, 1, Link::Ethernet, 3);
    let before = job.parts(0, 0, 1);
    job.add_contexts(2);
    assert_eq!(job.parts(0, 0, 1), before);
    for context in 0..3 {
        let (there, here) = (job.remote(1, 64 * context), job.local(0, 0));
        job.set_heap(0, 0, &[context as u8 + 1; 8]);
        let length = Length::new(8).unwrap();
        let done = job.post(0, context as usize, 1, |post| {
            entry::write(post, there, here, length).to_vec()
        });
        assert_eq!(done, Some(Kind::Request));
        assert_eq!(job.heap(1, 64 * context, 8), [context as u8 + 1; 8]);
    }
    job.clean();
}

#[test]
fn parts_of_queues_do_not_overlap() {
    let job = Job::new(3, 3, Link::InfiniBand, 0);
    let mut all = vec![];
    for parts in job.pes[1].endpoint.queues() {
        all.extend([
            (parts.ring, 64 << parts.log2),
            (parts.record - 4, 8),
            (parts.completion, 64),
            (parts.landing, ((1 << parts.log2) + 1) * 64),
        ]);
        assert!(parts.register.is_multiple_of(8) && parts.completion.is_multiple_of(64));
        assert!(parts.ring.is_multiple_of(64) && parts.landing.is_multiple_of(64));
    }
    all.sort_unstable();
    for pair in all.windows(2) {
        assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:x?}");
    }
}

#[test]
fn an_endpoint_that_is_dropped_leaves_nothing_and_is_not_reached() {
    let mut job = Job::new(2, 2, Link::InfiniBand, 0);
    let (there, here) = (job.remote(1, 0), job.local(0, 0));
    let gone = job.pes.pop().unwrap();
    let adapter = job.machine.adapter(1).unwrap();
    assert_eq!(fabric(&job.machine).queue_pairs_of(adapter).len(), 4);
    drop(gone);
    assert_eq!(fabric(&job.machine).queue_pairs_of(adapter), []);
    assert_eq!(fabric(&job.machine).take_refusals(), []);
    let parts = job.pes[0].endpoint.queues()[1];
    let done = job.post_to(parts, |post| {
        entry::write(post, there, here, Length::new(8).unwrap()).to_vec()
    });
    assert_eq!(done, Some(Kind::RequestError));
    let violations = fabric(&job.machine).take_violations();
    assert!(
        matches!(
            violations[..],
            [Violation {
                fault: Fault::RetriesExceeded(7),
                ..
            }]
        ),
        "{violations:?}"
    );
}

#[test]
fn registers_may_lie_in_memory_and_are_polled() {
    let fabric = Fabric::new(Ram::new(), Config::polled());
    let machine = Emulated::new(Arc::new(Mutex::new(fabric)), 2, Link::Ethernet);
    let (fabric, mut next) = (machine.fabric().clone(), 0x5000_0000);
    let pages = move || {
        next += 4096;
        // Whoever sets up holds no lock while it asks.
        fabric.lock().unwrap().memory_mut().add(common::place(next), 4096);
        Some(next)
    };
    let machine = machine.with_pages(Arc::new(Mutex::new(pages)));
    let settings = Settings {
        pages: Pages::Each,
        ..Settings::default()
    };
    let mut job = Job::with(machine, 2, 2, &settings);
    let registers: std::collections::BTreeSet<_> = job.pes[0].endpoint.queues().iter().map(|q| q.register).collect();
    assert_eq!(registers.len(), 4);
    for context in 0..2 {
        let (there, here) = (job.remote(1, 64), job.local(0, 0));
        job.set_heap(0, 0, &[context as u8 + 1; 8]);
        let length = Length::new(8).unwrap();
        let done = job.post(0, context, 1, |post| entry::write(post, there, here, length).to_vec());
        assert_eq!(done, Some(Kind::Request));
        assert_eq!(job.heap(1, 64, 8), [context as u8 + 1; 8]);
    }
    job.clean();
}

#[test]
fn packets_are_as_large_as_both_ports_take() {
    let mut machine = common::machine(2, Link::InfiniBand, 0);
    machine.describe(1, |adapter| adapter.ports[0].mtu = Mtu::Bytes512);
    let mut job = Job::on(machine, 2, 1);
    assert_eq!((job.pes[0].endpoint.blob().mtu, job.pes[1].endpoint.blob().mtu), (5, 2));
    // Ends that disagree would not understand each other: the emulator drops such packets.
    for (from, to) in [(0, 1), (1, 0), (0, 0), (1, 1)] {
        let (there, here) = (job.remote(to, 0x1000), job.local(from, 0));
        let done = job.post(from, 0, to, |post| {
            entry::write(post, there, here, Length::new(8).unwrap()).to_vec()
        });
        assert_eq!(done, Some(Kind::Request), "{from} {to}");
    }
    job.clean();
}

#[test]
fn reads_in_flight_are_as_many_as_the_target_takes() {
    let machine = common::machine(2, Link::Ethernet, 7);
    let few = Capabilities {
        log_max_reads: 1,
        ..Capabilities::default()
    };
    fabric(&machine).set_capabilities(machine.adapter(1).unwrap(), few);
    let mut job = Job::on(machine, 2, 1);
    for (from, to) in [(0, 1), (1, 0)] {
        let (there, here) = (job.remote(to, 0), job.local(from, 0x1000));
        let read = |post: Post| entry::read(post, there, here, Length::new(8).unwrap()).to_vec();
        let parts = job.parts(from, 0, to);
        assert_eq!(
            job.post_many(parts, &[&read as &dyn Fn(Post) -> Vec<Unit>; 10]),
            Some(Kind::Request),
            "{from} {to}"
        );
    }
    job.clean();
}

#[test]
fn another_subnet_is_reached_by_a_global_route() {
    let mut machine = common::machine(2, Link::InfiniBand, 0);
    machine.describe(1, |adapter| adapter.ports[0].gids[0].bytes[7] = 9);
    let error = Job::through(machine.clone(), &machine, 2, 1, &Settings::default())
        .err()
        .unwrap();
    assert!(error.to_string().contains("INIT2RTR_QP"), "{error}");
    // There is no such port: but its address was in the command.
    let refusals = fabric(&machine).take_refusals();
    let [refusal] = &refusals[..] else {
        panic!("{refusals:?}");
    };
    assert!(
        matches!(
            refusal.reason,
            Reason::Value {
                field: "GID_HIGH",
                seen: 0xfe80_0000_0000_0009,
                ..
            }
        ),
        "{refusal}"
    );
}

#[test]
fn a_sender_that_goes_deeper_than_its_target_is_refused() {
    let machine = common::machine(2, Link::Ethernet, 7);
    let few = Capabilities {
        log_max_reads: 1,
        ..Capabilities::default()
    };
    fabric(&machine).set_capabilities(machine.adapter(1).unwrap(), few);
    // PE 1 says more than it has.
    let mut job = Job::changed(machine, 2, |blobs| blobs[1].log_reads = 4);
    let (there, here) = (job.remote(1, 0), job.local(0, 0x1000));
    let read = |post: Post| entry::read(post, there, here, Length::new(8).unwrap()).to_vec();
    let parts = job.parts(0, 0, 1);
    job.post_many(parts, &[&read as &dyn Fn(Post) -> Vec<Unit>; 10]);
    let violations = fabric(&job.machine).take_violations();
    let faults: Vec<_> = violations.into_iter().map(|v| v.fault).collect();
    assert_eq!(faults, [Fault::TooManyReads { limit: 2 }]);
}
