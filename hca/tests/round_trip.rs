//! Every entry that crate `shmem_mlx5` builds, from the doorbell to the completion.

mod common;

use common::{Options, Rig};
use shmem_hca::Config;
use shmem_mlx5::completion::{Kind, Syndrome};
use shmem_mlx5::entry::{self, Masked};
use shmem_mlx5::segment::{DataPointer, InlineHeader};
use shmem_mlx5::{Be32, Length, Unit};

/// Posts one signalled entry, and expects its completion.
fn does(rig: &mut Rig, units: &[Unit]) {
    let position = rig.queues[0][1].posted;
    rig.post(0, 1, units);
    rig.fabric.run();
    rig.clean();
    let (kind, at, _) = rig.take(0, 1).expect("a completion");
    assert_eq!((kind, at), (Kind::Request, position));
    assert_eq!(rig.queues[0][1].done, rig.queues[0][1].posted);
}

fn fails(rig: &mut Rig, units: &[Unit], with: Syndrome) {
    rig.post(0, 1, units);
    rig.fabric.run();
    assert_eq!(rig.fabric.take_violations().len(), 1);
    let (kind, _, syndrome) = rig.take(0, 1).expect("a completion");
    assert_eq!((kind, syndrome), (Kind::RequestError, with));
}

fn rig() -> Rig {
    let mut rig = Rig::new(Config::strict(7), Options::default());
    let bytes: Vec<u8> = (0..4096u32).map(|i| (i * 7 + i / 256) as u8).collect();
    rig.set_heap(0, 0, &bytes);
    rig.set_heap(1, 0x4000, &bytes);
    rig
}

#[test]
fn nop_and_nothing() {
    let mut rig = rig();
    let units = entry::nop(rig.next(0, 1).signalled());
    does(&mut rig, &units);
    let units = entry::write_nothing(rig.next(0, 1).signalled(), rig.remote(1, 0));
    does(&mut rig, &units);
}

#[test]
fn writes_of_many_packets_and_of_one() {
    let mut rig = rig();
    for (bytes, offset) in [(1, 3), (8, 8), (1024, 100), (1025, 0), (4096, 7)] {
        let (to, from) = (rig.remote(1, 0x1000), rig.local(0, 0));
        let to = shmem_mlx5::Remote {
            address: to.address + offset,
            ..to
        };
        let units = entry::write(rig.next(0, 1).signalled(), to, from, Length::new(bytes).unwrap());
        does(&mut rig, &units);
        assert_eq!(
            rig.heap(1, 0x1000 + offset, bytes as usize),
            rig.heap(0, 0, bytes as usize)
        );
    }
}

#[test]
fn inline_writes_of_every_length() {
    let mut rig = rig();
    let data: Vec<u8> = (0..entry::MAX_INLINE).map(|i| (i * 11 + 3) as u8).collect();
    for bytes in (1..=40).chain([100, 500, entry::MAX_INLINE]) {
        let mut words = data[..bytes as usize].to_vec();
        words.resize(12 + (words.len().max(12) - 12).next_multiple_of(16), 0);
        let first = std::array::from_fn(|i| u32::from_ne_bytes(words[4 * i..4 * i + 4].try_into().unwrap()));
        let post = rig.next(0, 1).signalled();
        let to = rig.remote(1, 0x2000);
        let head = entry::inline_head(post, to, bytes, first).unwrap();
        if bytes <= 12 {
            assert_eq!(entry::write_inline(post, to, first, bytes), Some(head));
        }
        let rest = words[12..].chunks(16).map(|c| Unit::from_bytes(c.try_into().unwrap()));
        let units: Vec<Unit> = head.into_iter().chain(rest).collect();
        assert_eq!(Some(units.len()), entry::inline_units(bytes));
        rig.make_room(0, 1, 16);
        does(&mut rig, &units);
        assert_eq!(rig.heap(1, 0x2000, bytes as usize), data[..bytes as usize]);
        rig.set_heap(1, 0x2000, &[0; 1024]);
    }
}

#[test]
fn reads_of_many_packets_and_of_one() {
    let mut rig = rig();
    for bytes in [1, 8, 1024, 1025, 4096] {
        let (from, to) = (rig.remote(1, 0x4000), rig.local(0, 0x8001));
        let units = entry::read(rig.next(0, 1).signalled(), from, to, Length::new(bytes).unwrap());
        does(&mut rig, &units);
        assert_eq!(rig.heap(0, 0x8001, bytes as usize), rig.heap(1, 0x4000, bytes as usize));
        rig.set_heap(0, 0x8001, &[0; 4096]);
    }
}

fn word(rig: &Rig) -> u64 {
    u64::from_ne_bytes(rig.heap(1, 0x3000, 8).try_into().unwrap())
}

fn old(rig: &Rig) -> u64 {
    u64::from_ne_bytes(rig.heap(0, 0x3000, 8).try_into().unwrap())
}

/// The old value of an atomic of 4 bytes.
fn old32(rig: &Rig) -> u32 {
    u32::from_be_bytes(rig.heap(0, 0x3000, 4).try_into().unwrap())
}

#[test]
fn atomics_of_8_bytes() {
    let mut rig = rig();
    rig.set_heap(1, 0x3000, &0xffff_ffff_0000_0001u64.to_ne_bytes());
    let (to, back) = (rig.remote(1, 0x3000), rig.local(0, 0x3000));
    let units = entry::fetch_add(rig.next(0, 1).signalled(), to, 0x1_0000_0001, back);
    does(&mut rig, &units);
    assert_eq!((old(&rig), word(&rig)), (0xffff_ffff_0000_0001, 2));
    let units = entry::compare_swap(rig.next(0, 1).signalled(), to, 3, 9, back);
    does(&mut rig, &units);
    assert_eq!((old(&rig), word(&rig)), (2, 2));
    let units = entry::compare_swap(rig.next(0, 1).signalled(), to, 2, 0x1234_5678_9abc_def0, back);
    does(&mut rig, &units);
    assert_eq!((old(&rig), word(&rig)), (2, 0x1234_5678_9abc_def0));
    // Fields of 32 bits: no carry from the lower to the upper.
    let units = entry::masked_fetch_add64(rig.next(0, 1).signalled(), to, 0x0000_0001_ffff_ffff, 1 << 31, back);
    does(&mut rig, &units);
    assert_eq!((old(&rig), word(&rig)), (0x1234_5678_9abc_def0, 0x1234_5679_9abc_deef));
    // Exclusive or.
    let units = entry::masked_fetch_add64(rig.next(0, 1).signalled(), to, u64::MAX, u64::MAX, back);
    does(&mut rig, &units);
    assert_eq!(word(&rig), !0x1234_5679_9abc_deef);
    let what = Masked {
        swap: 0xaaaa,
        compare: 0x0000,
        swap_mask: 0xff00,
        compare_mask: 0,
    };
    let units = entry::masked_compare_swap64(rig.next(0, 1).signalled(), to, what, back);
    rig.make_room(0, 1, 2);
    does(&mut rig, &units);
    assert_eq!(word(&rig), !0x1234_5679_9abc_deef & !0xff00 | 0xaa00);
    let what = Masked {
        compare: word(&rig) ^ 1 << 63,
        compare_mask: 1 << 63,
        ..what
    };
    let before = word(&rig);
    let units = entry::masked_compare_swap64(rig.next(0, 1).signalled(), to, what, back);
    does(&mut rig, &units);
    assert_eq!((old(&rig), word(&rig)), (before, before));
}

#[test]
fn atomics_of_4_bytes_leave_the_rest() {
    let mut rig = rig();
    let set = |rig: &mut Rig, x: u32| rig.set_heap(1, 0x3000, &(u64::from(x) | 0x7777_0000_0000_0000).to_ne_bytes());
    set(&mut rig, 0xffff_fffe);
    let (to, back) = (rig.remote(1, 0x3000), rig.local(0, 0x3000));
    let units = entry::masked_fetch_add32(rig.next(0, 1).signalled(), to, 3, 0, back);
    does(&mut rig, &units);
    assert_eq!((old32(&rig), word(&rig)), (0xffff_fffe, 0x7777_0000_0000_0001));
    let units = entry::masked_fetch_add32(rig.next(0, 1).signalled(), to, 0x1_ffff, 1 << 15, back);
    does(&mut rig, &units);
    assert_eq!((old32(&rig), word(&rig)), (1, 0x7777_0000_0001_0000));
    let what = Masked {
        swap: 0x1111_1111,
        compare: 0x0001_0000,
        swap_mask: 0x00ff_00ff,
        compare_mask: 0xffff_0000,
    };
    let units = entry::masked_compare_swap32(rig.next(0, 1).signalled(), to, what, back);
    does(&mut rig, &units);
    assert_eq!((old32(&rig), word(&rig)), (0x0001_0000, 0x7777_0000_0011_0011));
    let units = entry::masked_compare_swap32(rig.next(0, 1).signalled(), to, what, back);
    does(&mut rig, &units);
    assert_eq!((old32(&rig), word(&rig)), (0x0011_0011, 0x7777_0000_0011_0011));
}

#[test]
fn sends_need_receives_that_this_emulator_does_not_have() {
    let (length, immediate) = (Length::new(8).unwrap(), Be32::new(5));
    let mut one = rig();
    let units = entry::send(one.next(0, 1), one.local(0, 0), length);
    fails(&mut one, &units, Syndrome::ReceiverNotReady);
    let mut one = rig();
    let units = entry::send_immediate(one.next(0, 1), one.local(0, 0), length, immediate);
    fails(&mut one, &units, Syndrome::ReceiverNotReady);
    let mut one = rig();
    let units = entry::write_immediate(one.next(0, 1), one.remote(1, 0), one.local(0, 0), length, immediate);
    fails(&mut one, &units, Syndrome::ReceiverNotReady);
}

/// The entry without its last unit, and with other data segments behind it.
fn with_data(mut units: Vec<Unit>, data: &[Unit]) -> Vec<Unit> {
    units.pop();
    units.extend(data);
    let control = units[0].0[1];
    // The count of units.
    units[0].0[1] = (u32::from_be(control) & !0x3f | units.len() as u32).to_be();
    units
}

#[test]
fn data_in_several_pieces_over_several_packets() {
    let mut rig = rig();
    let config = Config {
        mtu: 100,
        ..Config::strict(7)
    };
    let mut small = Rig::new(config, Options::default());
    let bytes = rig.heap(0, 0, 4096);
    small.set_heap(0, 0, &bytes);
    small.set_heap(1, 0x4000, &bytes);
    for rig in [&mut rig, &mut small] {
        let pointer =
            |rig: &Rig, at: u64, bytes: u32| DataPointer::new(rig.local(0, at), Length::new(bytes).unwrap()).unit();
        let inline = InlineHeader::new(9).unit([0x1111_1111, 0x2222_2222, 0x33]);
        let data = [
            pointer(rig, 7, 150),
            inline,
            pointer(rig, 1000, 1),
            pointer(rig, 2000, 333),
        ];
        let post = rig.next(0, 1).signalled();
        let units = entry::write(post, rig.remote(1, 0x1000), rig.local(0, 0), Length::new(1).unwrap());
        does(rig, &with_data(units.into(), &data));
        let inline = [0x11, 0x11, 0x11, 0x11, 0x22, 0x22, 0x22, 0x22, 0x33];
        let expected = [&bytes[7..157], &inline, &bytes[1000..1001], &bytes[2000..2333]].concat();
        assert_eq!(rig.heap(1, 0x1000, expected.len()), expected);

        let data = [
            pointer(rig, 0x8000, 150),
            pointer(rig, 0x9000, 1),
            pointer(rig, 0xa000, 333),
        ];
        let post = rig.next(0, 1).signalled();
        let units = entry::read(post, rig.remote(1, 0x4005), rig.local(0, 0), Length::new(1).unwrap());
        does(rig, &with_data(units.into(), &data));
        assert_eq!(rig.heap(0, 0x8000, 151), [&bytes[5..155], &[0]].concat());
        assert_eq!(rig.heap(0, 0x9000, 2), [bytes[155], 0]);
        assert_eq!(rig.heap(0, 0xa000, 334), [&bytes[156..489], &[0]].concat());
    }
}
