//! Arbitrary bytes in entries, records and registers, in any order of events: no panic, no endless loop, and whatever is
//! wrong is a fault with what was seen.

mod common;

use common::{Options, Rig};
use proptest::prelude::*;
use shmem_hca::tables::{BLOCK, UNIT, control};
use shmem_hca::{Config, Delivery, Memory, RegisterRule, State, decode};
use shmem_mlx5::entry::{self, Masked};
use shmem_mlx5::{Length, Post, Unit};

/// A right entry, to be damaged.
fn valid(rig: &Rig, post: Post, which: u8, offset: u64, bytes: u32) -> Vec<Unit> {
    let (to, from) = (rig.remote(1, offset), rig.local(0, offset));
    let length = Length::new(bytes).unwrap();
    let what = Masked {
        swap: offset,
        compare: 1,
        swap_mask: 2,
        compare_mask: 3,
    };
    match which % 7 {
        0 => entry::write(post, to, from, length).into(),
        1 => entry::read(post, to, from, length).into(),
        2 => entry::fetch_add(post, to, offset, from).into(),
        3 => entry::compare_swap(post, to, 1, 2, from).into(),
        4 => entry::masked_compare_swap64(post, to, what, from).into(),
        5 => entry::write_inline(post, to, [1, 2, 3], bytes % 12 + 1).unwrap().into(),
        _ => entry::send(post, from, length).into(),
    }
}

#[derive(Clone, Debug)]
enum Event {
    /// An entry of which one bit is flipped, or none.
    Entry(u8, u64, u32, Option<u16>),
    Ring,
    Record(u32),
    Register(u16, [u8; 8]),
    Store(u64, Vec<u8>),
    QueueBytes(u16, [u8; 16]),
    CompletionRecord(u32),
    Steps(u8),
    Fail,
    Unreachable(bool),
    RemoveKey,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (any::<u8>(), 0u64..0x1_0100, 1u32..3000, prop::option::of(any::<u16>()))
            .prop_map(|(which, offset, bytes, bit)| Event::Entry(which, offset & !7, bytes, bit)),
        8 => Just(Event::Ring),
        1 => any::<u32>().prop_map(Event::Record),
        1 => (0u32..0x40).prop_map(Event::Record),
        1 => any::<(u16, [u8; 8])>().prop_map(|(index, bytes)| Event::Register(index, bytes)),
        1 => (any::<u64>(), prop::collection::vec(any::<u8>(), 0..70)).prop_map(|(at, bytes)| Event::Store(at, bytes)),
        1 => any::<(u16, [u8; 16])>().prop_map(|(at, bytes)| Event::QueueBytes(at, bytes)),
        1 => any::<u32>().prop_map(Event::CompletionRecord),
        8 => any::<u8>().prop_map(Event::Steps),
        1 => Just(Event::Fail),
        1 => any::<bool>().prop_map(Event::Unreachable),
        1 => Just(Event::RemoveKey),
    ]
}

fn play(rig: &mut Rig, event: Event) {
    let page = rig.queues[0][1].page;
    let (start, record) = (rig.queues[0][1].start, rig.queues[0][1].record);
    match event {
        Event::Entry(which, offset, bytes, bit) => {
            let units = valid(rig, rig.next(0, 1).signalled(), which, offset, bytes);
            let mut entry: Vec<u8> = units.iter().flat_map(|u| u.to_bytes()).collect();
            if let Some(bit) = bit {
                let bit = usize::from(bit) % (entry.len() * 8);
                entry[bit / 8] ^= 1 << (bit % 8);
            }
            let units: Vec<Unit> = entry
                .chunks(UNIT)
                .map(|c| Unit::from_bytes(c.try_into().unwrap()))
                .collect();
            rig.write(0, 1, &units);
        }
        Event::Ring if rig.queues[0][1].posted > 0 => rig.ring(0, 1),
        Event::Ring => {}
        Event::Record(value) => rig
            .fabric
            .memory_mut()
            .write(record.after(4), &value.to_be_bytes())
            .unwrap(),
        Event::Register(index, mut bytes) => {
            // Often one that names the queue pair.
            if index & 1 == 0 {
                control::QUEUE_PAIR.set(&mut bytes, rig.queues[0][1].qp.number().into());
                control::INDEX.set(&mut bytes, u64::from(index >> 8));
            }
            rig.fabric.store(page, 0x800, &bytes);
        }
        Event::Store(offset, bytes) => rig.fabric.store(page, offset, &bytes),
        Event::QueueBytes(at, bytes) => {
            let at = start.after(u64::from(at) % (16 * BLOCK as u64 - 16));
            rig.fabric.memory_mut().write(at, &bytes).unwrap();
        }
        Event::CompletionRecord(value) => {
            let at = rig.queues[0][1].completion_record;
            rig.fabric.memory_mut().write(at, &value.to_be_bytes()).unwrap();
        }
        Event::Steps(steps) => {
            for _ in 0..steps {
                rig.step();
            }
            while rig.take(0, 1).is_some() {}
        }
        Event::Fail => rig.fabric.fail(rig.queues[0][1].qp).unwrap(),
        Event::Unreachable(reachable) => rig.fabric.set_reachable(rig.pes[1].adapter, reachable),
        Event::RemoveKey => {
            let (domain, key) = (rig.pes[1].domain, rig.pes[1].strict);
            // The second time there is none.
            let _ = rig.fabric.remove_key(domain, key);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(debug_assertions) { 400 } else { 20_000 }, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_a_request_or_a_fault(bytes in prop::collection::vec(any::<u8>(), 0..1100), index: u16, number: u32) {
        // Mostly zeros as well: those get further.
        for mask in [0xff, 0x0f, 0x03] {
            let bytes: Vec<u8> = bytes.iter().map(|b| b & mask).collect();
            if let Err(fault) = decode::request(&bytes) {
                prop_assert!(!fault.to_string().is_empty());
            }
            if let Some(block) = bytes.first_chunk::<BLOCK>() {
                match decode::head(block, index, number) {
                    Ok(head) => prop_assert!((1..=63).contains(&head.units) && usize::from(head.blocks) == head.units.div_ceil(4)),
                    Err(fault) => prop_assert!(!fault.to_string().is_empty()),
                }
            }
        }
    }

    #[test]
    fn damaged_entries_are_a_request_or_a_fault(which: u8, offset in 0u64..0x1_0000, bytes in 1u32..3000, flips in prop::collection::vec(any::<u16>(), 0..6)) {
        let rig = Rig::new(Config::strict(0), Options::default());
        let units = valid(&rig, rig.next(0, 1), which, offset, bytes);
        let mut entry: Vec<u8> = units.iter().flat_map(|u| u.to_bytes()).collect();
        for flip in &flips {
            let bit = usize::from(*flip) % (entry.len() * 8);
            entry[bit / 8] ^= 1 << (bit % 8);
        }
        match decode::request(&entry) {
            Ok(request) => prop_assert!(!flips.is_empty() || request.opcode == entry[3]),
            Err(fault) => prop_assert!(!flips.is_empty() && !fault.to_string().is_empty()),
        }
    }

    #[test]
    fn any_events_end(seed: u64, eager: bool, lag: bool, loss in 0u32..300_000, events in prop::collection::vec(event(), 0..60)) {
        let config = Config {
            delivery: if eager { Delivery::Eager } else { Delivery::Seeded(seed) },
            register: if lag { RegisterRule::MayLag } else { RegisterRule::Exact },
            loss,
            mtu: 256,
            ..Config::strict(seed)
        };
        let mut rig = Rig::new(config, Options::default());
        for event in events {
            play(&mut rig, event);
        }
        rig.fabric.run();
        prop_assert!(rig.step().is_none());
        for violation in rig.fabric.take_violations() {
            prop_assert!(!violation.to_string().is_empty());
        }
        // A queue pair that went on is one of which nothing was found wrong.
        let state = rig.fabric.state(rig.queues[0][1].qp).unwrap();
        prop_assert!(matches!(state, State::ReadyToSend | State::Error));
    }
}
