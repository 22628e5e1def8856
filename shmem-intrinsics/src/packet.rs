//! Packets: messages of a few bytes whose flag travels with the data, in one store. The receiver looks at the packet
//! itself, so that there is no signal, no fence and no second flight: the fastest way to tell another PE a number.
//!
//! | payload | slot | on a GPU | why data and flag arrive together |
//! |---|---|---|---|
//! | 4 bytes | 8 bytes: data, flag | `st.relaxed.sys.b64` | one scalar access is one to every observer (PTX) |
//! | 8 bytes | 16 bytes: half, flag, half, flag | `st.relaxed.sys.v2.b64` | each half has a flag: to PTX a vector is two accesses in any order |
//! | 12 bytes | 16 bytes: data, flag | `st.relaxed.sys.b128` | one scalar access, PTX 8.4 (CUDA 12.4) and newer |
//!
//! All three rest on PTX alone: nothing is assumed of the hardware, and nothing has to be checked at start. Not offered is what
//! only the hardware gives: `.v4.b32` with one flag for 12 bytes, and a 128-byte line with one flag.
//! Where a PE is not reached by load and store, an 8-byte slot is one write, and a 16-byte slot is two of them, the one with the
//! flag behind the other.
//!
//! Packets order nothing but themselves: what else their sender has written may come later.
//!
//! # Epochs
//! The flag is the epoch: a number that rises by one each time a buffer of slots is used, the same on both sides, never 0
//! (fresh slots are zero). Receiving neither clears nor acknowledges a slot, so something else must say when a slot may be
//! sent to again. The rule that needs no barrier:
//!
//! > **Each PE sends to each of its partners in every epoch, receives from each of them in every epoch, and uses the two halves
//! > of the buffer by turns ([`half()`]).**
//!
//! Then epoch e + 2 may go to the place of epoch e, because: the sender is in e + 2 only after it has received its partner's packet
//! of e + 1; the partner sent that one after it had received all of e (its tile synced between the two: one thread
//! receives what another sends after). So what lay there has been read. One half is not enough: a
//! partner that has sent e may be held up before it receives e, while its packets let others into e + 1. Three are needed by
//! nobody who keeps to the rule. A PE with no data for a partner sends an empty packet all the same. The
//! packets need not acquire for that: each step depends on the value that the one before it has read.
//!
//! Who breaks the rule loses packets. A slot that holds a later epoch than the one waited for is a fault
//! ([`FaultKind::Epoch`]); the simulator's checker reports the second send.
//!
//! Epochs are 32 bits and are compared round the end: zero the slots every 2^31 epochs, since what has lain there for longer looks
//! new. Count on, over launches: a number that is an argument of the launch is frozen when a graph captures it.
//!
//! ```
//! use shmem::packet::{self, Packet};
//! use shmem::prelude::*;
//! // Five exchanges, no barrier.
//! shmem_sim::run(2, 1, 32, || {
//!     let (slots, peer) = (shmem_sim::symmetric::<Packet<u32>>(2 * 32), 1 - shmem::my_pe());
//!     for epoch in 1..=5 {
//!         let slot = packet::half(slots, epoch).at(thread::index());
//!         packet::send(slot, 100 * epoch + shmem::my_pe(), epoch, peer);
//!         assert_eq!(packet::receive(slot, epoch), 100 * epoch + peer);
//!     }
//! }).unwrap();
//! ```

use crate::arch::{self, Space, Span, Strength};
use crate::fault::{FaultKind, check, fault};
use crate::registers::Run;
use crate::team::{self, Peer, Target};
use crate::tile::Tile;
use crate::vector::{Bf16x2, F16x2, F32x2, U32x2};
use crate::{KernelArg, Pod, Sym, SymSlice, Zeroable, bf16, f16};
use core::panic::Location;

/// What a packet carries: 4, 8 or 12 bytes. Types of one's own may be as well:
///
/// ```
/// use shmem::packet::{Payload, Wire12};
/// use shmem::prelude::*;
///
/// #[repr(C)]
/// #[derive(Clone, Copy, shmem::Pod, shmem::Zeroable)]
/// #[bytemuck(crate = "shmem::bytemuck")]
/// struct Particle {
///     at: [f32; 2],
///     charge: f32,
/// }
/// // SAFETY: 12 bytes.
/// unsafe impl Payload for Particle {
///     type Wire = Wire12;
/// }
/// ```
///
/// # Safety
/// The type has as many bytes as `Wire` carries.
#[diagnostic::on_unimplemented(
    message = "a packet can't carry `{Self}`",
    note = "it carries types of 4, 8 or 12 bytes; `unsafe impl Payload` for one's own"
)]
pub unsafe trait Payload: Pod {
    /// The form it travels in: [`Wire4`], [`Wire8`] or [`Wire12`].
    type Wire: Wire;
}

macro_rules! payloads { ($($wire:ident: $($t:ty)*;)*) => { $($(
    // SAFETY: so many bytes.
    unsafe impl Payload for $t { type Wire = $wire; }
    const _: () = assert!(size_of::<$t>() == $wire::BYTES);
)*)* } }
payloads! {
    Wire4: u32 i32 f32 [u8; 4] [i8; 4] [u16; 2] [i16; 2] [f16; 2] [bf16; 2] F16x2 Bf16x2;
    Wire8: u64 i64 f64 [u32; 2] [i32; 2] [f32; 2] [u16; 4] [i16; 4] [f16; 4] [bf16; 4] [F16x2; 2] [Bf16x2; 2] F32x2 U32x2;
    Wire12: [u32; 3] [i32; 3] [f32; 3] [u16; 6] [i16; 6] [f16; 6] [bf16; 6] [F16x2; 3] [Bf16x2; 3];
}

/// The form of a packet: how data and flags lie in the slot.
pub trait Wire: Pod + sealed::Wire {
    /// Bytes that it carries.
    const BYTES: usize;
}

mod sealed {
    use super::Peer;

    pub trait Wire: Sized {
        /// Data of up to 12 bytes with its flags.
        fn pack(data: [u32; 3], epoch: u32) -> Self;
        fn data(self) -> [u32; 3];
        /// Its flags; twice the same where it has one.
        fn flags(self) -> [u32; 2];
        /// # Safety
        /// The offset is that of a live slot on the peer, which exists.
        #[track_caller]
        unsafe fn store(self, offset: u64, to: Peer);
        /// # Safety
        /// The address is that of a live slot of this PE.
        #[track_caller]
        unsafe fn load(address: u64) -> Self;
        #[track_caller]
        fn watch(address: u64, epoch: u32) -> super::arch::Watch;
    }
}

/// | form | bytes it carries | slot |
/// |---|---|---|
/// | `Wire4` | 4 | data, flag |
/// | `Wire8` | 8 | data, flag, data, flag |
/// | `Wire12` | 12 | data, data, data, flag |
macro_rules! wires { ($($(#[doc = $doc:literal])* $name:ident($t:ty, $align:literal) = $bytes:literal;)*) => { $(
    $(#[doc = $doc])*
    #[repr(C, align($align))]
    #[derive(Clone, Copy, Debug)]
    pub struct $name($t);
    // SAFETY: plain words; its size is its alignment.
    unsafe impl Zeroable for $name {}
    // SAFETY: as above.
    unsafe impl Pod for $name {}
    impl Wire for $name {
        const BYTES: usize = $bytes;
    }
    const _: () = assert!(size_of::<$name>() == $align);
)* } }
wires! {
    /// The form of 4 bytes.
    Wire4(u64, 8) = 4;
    /// The form of 8 bytes: two halves, each with a flag.
    Wire8([u64; 2], 16) = 8;
    /// The form of 12 bytes: one access of 16 bytes.
    Wire12([u64; 2], 16) = 12;
}

#[inline(always)]
const fn word(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

#[inline(always)]
const fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

impl sealed::Wire for Wire4 {
    #[inline(always)]
    fn pack([data, _, _]: [u32; 3], epoch: u32) -> Self {
        Self(word(data, epoch))
    }
    #[inline(always)]
    fn data(self) -> [u32; 3] {
        [self.0 as u32, 0, 0]
    }
    #[inline(always)]
    fn flags(self) -> [u32; 2] {
        [high(self.0); 2]
    }
    #[inline(always)]
    #[track_caller]
    unsafe fn store(self, offset: u64, to: Peer) {
        // SAFETY: the caller's promise.
        unsafe { arch::store_packet(offset, self.0, to) }
    }
    #[inline(always)]
    #[track_caller]
    unsafe fn load(address: u64) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { arch::load(address, Space::Symmetric, Strength::Relaxed) })
    }
    #[inline(always)]
    #[track_caller]
    fn watch(address: u64, epoch: u32) -> arch::Watch {
        arch::watch(address + 4, 4, "==", epoch.into())
    }
}

impl sealed::Wire for Wire8 {
    #[inline(always)]
    fn pack([a, b, _]: [u32; 3], epoch: u32) -> Self {
        Self([word(a, epoch), word(b, epoch)])
    }
    #[inline(always)]
    fn data(self) -> [u32; 3] {
        [self.0[0] as u32, self.0[1] as u32, 0]
    }
    #[inline(always)]
    fn flags(self) -> [u32; 2] {
        self.0.map(high)
    }
    #[inline(always)]
    #[track_caller]
    unsafe fn store(self, offset: u64, to: Peer) {
        // SAFETY: the caller's promise.
        unsafe { arch::store_packet_pair(offset, self.0, to) }
    }
    #[inline(always)]
    #[track_caller]
    unsafe fn load(address: u64) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { arch::load_packet_pair(address) })
    }
    #[inline(always)]
    #[track_caller]
    fn watch(address: u64, epoch: u32) -> arch::Watch {
        arch::watch_any(arch::watch(address + 4, 4, "==", epoch.into()), 2, 8, false)
    }
}

impl sealed::Wire for Wire12 {
    #[inline(always)]
    fn pack([a, b, c]: [u32; 3], epoch: u32) -> Self {
        Self([word(a, b), word(c, epoch)])
    }
    #[inline(always)]
    fn data(self) -> [u32; 3] {
        [self.0[0] as u32, high(self.0[0]), self.0[1] as u32]
    }
    #[inline(always)]
    fn flags(self) -> [u32; 2] {
        [high(self.0[1]); 2]
    }
    #[inline(always)]
    #[track_caller]
    unsafe fn store(self, offset: u64, to: Peer) {
        // SAFETY: the caller's promise.
        unsafe { arch::store_packet_whole(offset, self.0, to) }
    }
    #[inline(always)]
    #[track_caller]
    unsafe fn load(address: u64) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { arch::load_packet_whole(address) })
    }
    #[inline(always)]
    #[track_caller]
    fn watch(address: u64, epoch: u32) -> arch::Watch {
        arch::watch(address + 12, 4, "==", epoch.into())
    }
}

/// A slot that packets of T are sent to: `pe.alloc::<Packet<f32>>(n)`. Zeroed memory is an empty slot.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Packet<T: Payload>(T::Wire);

// SAFETY: plain words, and T is only their type.
unsafe impl<T: Payload> Zeroable for Packet<T> {}
// SAFETY: as above.
unsafe impl<T: Payload> Pod for Packet<T> {}
// SAFETY: plain bits, laid out alike on both sides.
unsafe impl<T: Payload> KernelArg for Packet<T> {}

impl<T: Payload> Packet<T> {
    #[inline(always)]
    fn new(value: T, epoch: u32) -> Self {
        const { assert!(size_of::<T>() == T::Wire::BYTES) };
        let mut data = [0u32; 3];
        // SAFETY: T is plain bits and no longer than the array, by the form's bytes.
        unsafe { (&raw mut data).cast::<T>().write_unaligned(value) };
        Self(sealed::Wire::pack(data, epoch))
    }

    #[inline(always)]
    fn value(self) -> T {
        let data = sealed::Wire::data(self.0);
        // SAFETY: any bits are a T, which is no longer than the array.
        unsafe { (&raw const data).cast::<T>().read_unaligned() }
    }

    /// Whether it is the packet of this epoch.
    #[inline(always)]
    fn is_of(self, epoch: u32) -> bool {
        sealed::Wire::flags(self.0) == [epoch; 2]
    }

    /// A packet of a later epoch is a fault.
    #[inline(always)]
    fn look(self, epoch: u32, at: &'static Location<'static>) {
        check_later(sealed::Wire::flags(self.0), epoch, at);
    }
}

/// Faults where one of a packet's flags is of a later epoch.
#[inline(always)]
pub(crate) fn check_later([a, b]: [u32; 2], epoch: u32, at: &'static Location<'static>) {
    let flag = if is_later(a, epoch) { a } else { b };
    if is_later(flag, epoch) {
        fault(FaultKind::Epoch, epoch.into(), flag.into(), at);
    }
}

/// Whether a flag is of an epoch after this one. Epochs wrap; 0 is an empty slot.
#[inline(always)]
fn is_later(flag: u32, epoch: u32) -> bool {
    flag != 0 && (flag.wrapping_sub(epoch) as i32) > 0
}

#[inline(always)]
#[track_caller]
fn check_epoch(epoch: u32) {
    check(epoch != 0, FaultKind::Epoch, 0, 0);
}

/// The half of a buffer that an epoch uses: the first in even epochs. A last odd slot belongs to neither.
///
/// ```
/// use shmem::packet::{self, Packet};
/// shmem_sim::run(1, 1, 1, || {
///     let slots = shmem_sim::symmetric::<Packet<u32>>(12);
///     assert_eq!(packet::half(slots, 7).len(), 6);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
#[must_use]
pub fn half<T: Payload>(slots: SymSlice<Packet<T>>, epoch: u32) -> SymSlice<Packet<T>> {
    slots.chunk(epoch & 1, slots.len() / 2)
}

/// Sends a value to a slot at PE `to`. One thread calls it. The slot's last packet has been received by then: see the
/// [module](self) on epochs.
///
/// Orders nothing else. One store (PTX `st.relaxed.sys`). Faults with `FaultKind::Pe`, and `FaultKind::Epoch` where the epoch
/// is 0.
///
/// ```
/// use shmem::packet::{self, Packet};
/// shmem_sim::run(2, 1, 1, || {
///     let slot = shmem_sim::symmetric::<Packet<[f32; 3]>>(1).at(0);
///     packet::send(slot, [1.0, 2.0, 3.0], 1, 1 - shmem::my_pe());
///     assert_eq!(packet::receive(slot, 1)[2], 3.0);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn send<T: Payload>(slot: Sym<Packet<T>>, value: T, epoch: u32, to: impl Target) {
    check_epoch(epoch);
    let packet = Packet::new(value, epoch);
    // SAFETY: `at` found the slot inside a live object, which every PE has.
    unsafe { sealed::Wire::store(packet.0, slot.offset(), team::peer(to)) }
}

/// Waits for the packet of this epoch in this PE's slot. One thread calls it. Neither acquires nor clears the slot.
///
/// PTX `ld.relaxed.sys`, again and again. Faults with `FaultKind::TimeLimit`, with `FaultKind::Epoch` where the epoch is 0 or the
/// slot holds a later one, and where another PE has failed.
#[inline(always)]
#[track_caller]
pub fn receive<T: Payload>(slot: Sym<Packet<T>>, epoch: u32) -> T {
    check_epoch(epoch);
    // SAFETY: `at` found the slot inside a live object.
    unsafe { wait_at::<T>(slot.address(), epoch) }
}

/// The value, if the packet of this epoch has arrived in this PE's slot. One thread calls it. Faults with `FaultKind::Epoch`
/// as [`receive`].
///
/// ```
/// use shmem::packet::{self, Packet};
/// shmem_sim::run(1, 1, 1, || {
///     let slot = shmem_sim::symmetric::<Packet<u64>>(1).at(0);
///     assert_eq!(packet::try_receive(slot, 1), None);
///     packet::send(slot, 7, 1, 0);
///     assert_eq!(packet::receive(slot, 1), 7);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn try_receive<T: Payload>(slot: Sym<Packet<T>>, epoch: u32) -> Option<T> {
    check_epoch(epoch);
    // SAFETY: `at` found the slot inside a live object.
    let packet = Packet::<T>(unsafe { sealed::Wire::load(slot.address()) });
    packet.look(epoch, Location::caller());
    packet.is_of(epoch).then(|| packet.value())
}

/// # Safety
/// The address is that of a live slot of this PE.
#[inline(always)]
#[track_caller]
unsafe fn wait_at<T: Payload>(address: u64, epoch: u32) -> T {
    let at = Location::caller();
    arch::poll(
        &<T::Wire as sealed::Wire>::watch(address, epoch),
        // SAFETY: the caller's promise.
        || Packet::<T>(unsafe { sealed::Wire::load(address) }),
        |packet| packet.is_of(epoch),
        |packet| packet.look(epoch, at),
    )
    .value()
}

/// Sends a run of values to as many slots at PE `to`, shared out among the tile's members. All members call it; no sync:
/// what `src` holds is ordered before the call for the whole tile.
///
/// Faults with `FaultKind::Length` unless both are of one length, and as [`send`].
///
/// ```
/// use shmem::packet::{self, Packet};
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 32, || {
///     let (slots, x) = (shmem_sim::symmetric::<Packet<f32>>(100), shmem_sim::symmetric::<f32>(100));
///     for i in Block.strided(100) {
///         x.store(i, i as f32);
///     }
///     Block.sync();
///     packet::send_run(Block, slots, x, 1, 1 - shmem::my_pe());
///     packet::receive_run(Block, x, slots, 1);
///     Block.sync();
///     assert_eq!(x.load(99), 99.0);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn send_run<T: Payload, G: Tile>(
    tile: G,
    slots: SymSlice<Packet<T>>,
    src: impl Run<T, G>,
    epoch: u32,
    to: impl Target,
) {
    check_epoch(epoch);
    let n = src.__len();
    check(slots.len() == n, FaultKind::Length, slots.len(), n);
    let (Span { address, space }, to) = (src.__span(), team::peer(to));
    let (mut i, step) = (u64::from(tile.rank()), u64::from(tile.size()));
    while i < n {
        // SAFETY: both are live, and i is inside.
        unsafe {
            let packet = Packet::<T>::new(load_value(address + i * size_of::<T>() as u64, space), epoch);
            sealed::Wire::store(packet.0, slots.offset() + i * size_of::<Packet<T>>() as u64, to);
        }
        i += step;
    }
}

/// Waits for the packets of this epoch in this PE's slots, and writes their values to `dst`, shared out among the members.
/// All of them call it; no sync: a member sees what others have written after the tile's.
///
/// Faults with `FaultKind::Length` unless both are of one length, and as [`receive`].
#[inline(always)]
#[track_caller]
pub fn receive_run<T: Payload, G: Tile>(tile: G, dst: impl Run<T, G>, slots: SymSlice<Packet<T>>, epoch: u32) {
    check_epoch(epoch);
    let n = dst.__len();
    check(slots.len() == n, FaultKind::Length, n, slots.len());
    let (Span { address, space }, from) = (dst.__span(), arch::heap_base() + slots.offset());
    let (mut i, step) = (u64::from(tile.rank()), u64::from(tile.size()));
    while i < n {
        let slot = size_of::<Packet<T>>() as u64;
        // SAFETY: inside the slots.
        let values: [T; IN_FLIGHT] = unsafe { wait_for(from + i * slot, step * slot, from + (n - 1) * slot, epoch) };
        let mut j = 0;
        while j < IN_FLIGHT {
            if i < n {
                // SAFETY: the run is live, and i is inside.
                unsafe { store_value(address + i * size_of::<T>() as u64, values[j], space) };
            }
            i += step;
            j += 1;
        }
    }
}

/// Packets of a run that a member looks at together.
const IN_FLIGHT: usize = 4;

/// As [`send_run`] from registers: element j of a member's array goes to slot `j * tile.size() + tile.rank()`.
///
/// Faults with `FaultKind::Length` unless there are just K slots for each member, and as [`send`].
///
/// ```
/// use shmem::packet::{self, Packet};
/// use shmem::prelude::*;
/// shmem_sim::run(2, 1, 32, || {
///     let slots = shmem_sim::symmetric::<Packet<u32>>(64);
///     let t = thread::index();
///     packet::send_each(Block, slots, [t, t + 32], 1, 1 - shmem::my_pe());
///     assert_eq!(packet::receive_each(Block, slots, 1), [t, t + 32]);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn send_each<const K: usize, T: Payload, G: Tile>(
    tile: G,
    slots: SymSlice<Packet<T>>,
    values: [T; K],
    epoch: u32,
    to: impl Target,
) {
    check_epoch(epoch);
    let (mut at, step) = place::<K, T, G>(tile, slots.offset(), slots.len());
    let to = team::peer(to);
    // A counted loop unrolls, and the array stays in registers.
    let mut j = 0;
    while j < K {
        // SAFETY: inside the slots, by the check of their number.
        unsafe { sealed::Wire::store(Packet::new(values[j], epoch).0, at, to) };
        at += step;
        j += 1;
    }
}

/// Waits for what [`send_each`] sends: all K loads are under way before the first is looked at. All members call it; no sync.
///
/// Faults as [`send_each`] and [`receive`].
#[inline(always)]
#[track_caller]
pub fn receive_each<const K: usize, T: Payload, G: Tile>(tile: G, slots: SymSlice<Packet<T>>, epoch: u32) -> [T; K] {
    check_epoch(epoch);
    let (first, step) = place::<K, T, G>(tile, arch::heap_base() + slots.offset(), slots.len());
    // SAFETY: inside the slots, by the check of their number.
    unsafe { wait_for(first, step, u64::MAX, epoch) }
}

/// Waits for K packets at the addresses from the first on, in place of those behind the last for that one. All loads are under way before the first
/// is looked at.
///
/// # Safety
/// They are addresses of live slots of this PE.
#[inline(always)]
#[track_caller]
unsafe fn wait_for<const K: usize, T: Payload>(first: u64, stride: u64, last: u64, epoch: u32) -> [T; K] {
    let location = Location::caller();
    let load = || {
        let (mut packets, mut j) = ([Packet::<T>::zeroed(); K], 0);
        while j < K {
            // SAFETY: the caller's promise.
            packets[j] = Packet(unsafe { sealed::Wire::load((first + j as u64 * stride).min(last)) });
            j += 1;
        }
        packets
    };
    let ready = |packets: &[Packet<T>; K]| {
        let (mut j, mut all) = (0, true);
        while j < K {
            all &= packets[j].is_of(epoch);
            j += 1;
        }
        all
    };
    let look = |packets: &[Packet<T>; K]| {
        let mut j = 0;
        while j < K {
            packets[j].look(epoch, location);
            j += 1;
        }
    };
    let all_there = first + (K as u64 - 1) * stride <= last;
    let (count, watch) = (
        if all_there { K as u64 } else { 1 },
        <T::Wire as sealed::Wire>::watch(first, epoch),
    );
    let packets = arch::poll(
        &arch::watch_any(watch, count, stride as usize, false),
        load,
        ready,
        look,
    );
    let (mut values, mut j) = ([T::zeroed(); K], 0);
    while j < K {
        values[j] = packets[j].value();
        j += 1;
    }
    values
}

/// The position of a member's first slot, and the bytes from one to the next.
#[inline(always)]
#[track_caller]
fn place<const K: usize, T: Payload, G: Tile>(tile: G, start: u64, len: u64) -> (u64, u64) {
    let (rank, size) = (u64::from(tile.rank()), u64::from(tile.size()));
    check(len == K as u64 * size, FaultKind::Length, K as u64 * size, len);
    let slot = size_of::<Packet<T>>() as u64;
    (start + rank * slot, size * slot)
}

/// By accesses as wide as T's alignment allows: it need not be its size.
macro_rules! pieces { ($call:ident, $t:ty, $($argument:expr),*) => {
    match align_of::<$t>() {
        1 => $call::<u8, 12, $t>($($argument),*),
        2 => $call::<u16, 6, $t>($($argument),*),
        4 => $call::<u32, 3, $t>($($argument),*),
        _ => $call::<u64, 1, $t>($($argument),*),
    }
} }

/// # Safety
/// The address is that of a live T in this space.
#[inline(always)]
#[track_caller]
unsafe fn load_value<T: Payload>(address: u64, space: Space) -> T {
    // SAFETY: the caller's promise.
    unsafe { pieces!(load_pieces, T, address, space) }
}

/// # Safety
/// The address is that of a live T in this space.
#[inline(always)]
#[track_caller]
unsafe fn store_value<T: Payload>(address: u64, value: T, space: Space) {
    // SAFETY: the caller's promise.
    unsafe { pieces!(store_pieces, T, address, value, space) }
}

/// # Safety
/// The address is that of a live T in this space, which consists of at most N pieces.
#[inline(always)]
#[track_caller]
unsafe fn load_pieces<P: Pod, const N: usize, T: Pod>(address: u64, space: Space) -> T {
    let mut pieces = [P::zeroed(); N];
    let mut j = 0;
    while j < size_of::<T>() / size_of::<P>() {
        // SAFETY: inside the T.
        pieces[j] = unsafe { arch::load(address + (j * size_of::<P>()) as u64, space, Strength::Weak) };
        j += 1;
    }
    // SAFETY: T is plain bits and no longer than the pieces.
    unsafe { (&raw const pieces).cast::<T>().read_unaligned() }
}

/// # Safety
/// As [`load_pieces`].
#[inline(always)]
#[track_caller]
unsafe fn store_pieces<P: Pod, const N: usize, T: Pod>(address: u64, value: T, space: Space) {
    let mut pieces = [P::zeroed(); N];
    // SAFETY: T is plain bits and no longer than the pieces.
    unsafe { (&raw mut pieces).cast::<T>().write_unaligned(value) };
    let mut j = 0;
    while j < size_of::<T>() / size_of::<P>() {
        // SAFETY: inside the T.
        unsafe { arch::store(address + (j * size_of::<P>()) as u64, pieces[j], space, Strength::Weak) };
        j += 1;
    }
}
