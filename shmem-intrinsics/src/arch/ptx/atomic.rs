//! Atomic accesses: `asm!` with order and scope spelled out, because rustc lowers core's read-modify-writes
//! to a bare `atom`: relaxed and at gpu scope, which is wrong for peers.
//!
//! | function | instruction |
//! |---|---|
//! | `load`, `store` | `ld.relaxed`, `ld.acquire`; `st.relaxed`, `st.release` |
//! | `fetch_add swap compare_swap fetch_and fetch_or fetch_xor` | `atom`, every order |
//! | `add and or xor` | `red`, relaxed or release |
//!
//! The sum of `Bf16x2` has an instruction from sm_90 on only, and a dependency can't tell what it is compiled for: it is a
//! loop of compare-and-swap, whose sum is one `fma.rn.bf16x2` (sm_80).

use super::memory::bits;
use super::registers::peer_base;
use crate::arch::{Order, Place, Target};
use crate::atomic::{AtomicAdd, Sum};
use crate::network;
use crate::team::Peer;
use core::arch::asm;

#[inline(always)]
fn resolve(target: Target) -> (u64, Place) {
    match target {
        Target::At { offset, to } => (peer_base(to.pe) + offset, Place::Peer),
        Target::Here { address, place } => (address, place),
    }
}

/// The word's place, where the network carries atomics on it.
#[inline(always)]
fn carried(target: Target) -> Option<(u64, Peer)> {
    match target {
        Target::At { offset, to } if network::carries(to.pe) => Some((offset, to)),
        _ => None,
    }
}

/// A record of an atomic at a PE, in builds that have records.
macro_rules! record {
    ($target:expr, $t:ty) => {
        #[cfg(shmem_timeline)]
        let _span = {
            let (at_peer, pe) = match $target {
                Target::At { to, .. } => (true, to.pe),
                Target::Here { .. } => (false, 0),
            };
            super::timeline::begin(at_peer, crate::timeline::Kind::Atomic, pe, size_of::<$t>() as u64)
        };
    };
}

/// `$emit!(".order.scope.space" ..)` at the place.
macro_rules! placed {
    ($place:expr, $order:literal, $emit:ident, $($rest:tt)*) => {
        match $place {
            Place::Cta => $emit!($order, ".cta.global", $($rest)*),
            Place::Gpu => $emit!($order, ".gpu.global", $($rest)*),
            Place::System | Place::Peer => $emit!($order, ".sys.global", $($rest)*),
            Place::Shared => $emit!($order, ".cta.shared", $($rest)*),
        }
    };
}

/// The same in the orders that the instruction has.
macro_rules! ordered {
    ($place:expr, $order:expr, $emit:ident, $($rest:tt)*) => {
        match $order {
            Order::Relaxed => placed!($place, ".relaxed", $emit, $($rest)*),
            Order::Acquire => placed!($place, ".acquire", $emit, $($rest)*),
            Order::Release => placed!($place, ".release", $emit, $($rest)*),
            Order::AcqRel => placed!($place, ".acq_rel", $emit, $($rest)*),
        }
    };
}

macro_rules! ld {
    ($order:literal, $place:literal, $type:literal, $class:ident, $a:ident) => {{
        let r;
        asm!(concat!("ld", $order, $place, $type, " {r}, [{a}];"), r = out($class) r, a = in(reg64) $a, options(nostack));
        r
    }};
}

macro_rules! st {
    ($order:literal, $place:literal, $type:literal, $class:ident, $a:ident, $v:ident) => {
        asm!(concat!("st", $order, $place, $type, " [{a}], {v};"), a = in(reg64) $a, v = in($class) $v, options(nostack))
    };
}

macro_rules! atom {
    ($order:literal, $place:literal, $op:literal, $class:ident, $a:ident, $v:ident) => {{
        let r;
        asm!(
            concat!("atom", $order, $place, $op, " {r}, [{a}], {v};"),
            r = out($class) r, a = in(reg64) $a, v = in($class) $v, options(nostack),
        );
        r
    }};
}

macro_rules! cas {
    ($order:literal, $place:literal, $op:literal, $class:ident, $a:ident, $c:ident, $v:ident) => {{
        let r;
        asm!(
            concat!("atom", $order, $place, $op, " {r}, [{a}], {c}, {v};"),
            r = out($class) r, a = in(reg64) $a, c = in($class) $c, v = in($class) $v, options(nostack),
        );
        r
    }};
}

macro_rules! red {
    ($order:literal, $place:literal, $op:literal, $class:ident, $a:ident, $v:ident) => {
        asm!(concat!("red", $order, $place, $op, " [{a}], {v};"), a = in(reg64) $a, v = in($class) $v, options(nostack))
    };
}

/// Order: relaxed or acquire.
///
/// # Safety
/// The target is a live word.
#[inline(always)]
#[cfg_attr(shmem_timeline, track_caller)]
pub(crate) unsafe fn load<T: AtomicAdd>(target: Target, order: Order) -> T {
    if let Some(at) = carried(target) {
        return network::access(network::Op::Fetch, at, T::zeroed(), T::zeroed(), true);
    }
    let (a, place) = resolve(target);
    record!(target, T);
    // SAFETY: the caller's promise.
    unsafe {
        match (size_of::<T>(), order) {
            (4, Order::Relaxed) => bits::<u32, T>(placed!(place, ".relaxed", ld, ".u32", reg32, a)),
            (4, _) => bits::<u32, T>(placed!(place, ".acquire", ld, ".u32", reg32, a)),
            (_, Order::Relaxed) => bits::<u64, T>(placed!(place, ".relaxed", ld, ".u64", reg64, a)),
            (_, _) => bits::<u64, T>(placed!(place, ".acquire", ld, ".u64", reg64, a)),
        }
    }
}

/// Order: relaxed or release.
///
/// # Safety
/// The target is a live word.
#[inline(always)]
#[cfg_attr(shmem_timeline, track_caller)]
pub(crate) unsafe fn store<T: AtomicAdd>(target: Target, value: T, order: Order) {
    if let Some(at) = carried(target) {
        network::access(network::Op::Set, at, value, T::zeroed(), false);
        return;
    }
    let (a, place) = resolve(target);
    record!(target, T);
    // SAFETY: the caller's promise.
    unsafe {
        if size_of::<T>() == 4 {
            let v: u32 = bits(value);
            match order {
                Order::Relaxed => placed!(place, ".relaxed", st, ".u32", reg32, a, v),
                _ => placed!(place, ".release", st, ".u32", reg32, a, v),
            }
        } else {
            let v: u64 = bits(value);
            match order {
                Order::Relaxed => placed!(place, ".relaxed", st, ".u64", reg64, a, v),
                _ => placed!(place, ".release", st, ".u64", reg64, a, v),
            }
        }
    }
}

/// # Safety
/// The target is a live word.
#[inline(always)]
#[cfg_attr(shmem_timeline, track_caller)]
pub(crate) unsafe fn compare_swap<T: AtomicAdd>(target: Target, expected: T, value: T, order: Order) -> T {
    if let Some(at) = carried(target) {
        return network::access(network::Op::CompareSwap, at, value, expected, true);
    }
    let (a, place) = resolve(target);
    record!(target, T);
    // SAFETY: the caller's promise.
    unsafe {
        if size_of::<T>() == 4 {
            bits(cas_u32(a, place, bits(expected), bits(value), order))
        } else {
            let (c, v): (u64, u64) = (bits(expected), bits(value));
            bits::<u64, T>(ordered!(place, order, cas, ".cas.b64", reg64, a, c, v))
        }
    }
}

/// # Safety
/// The address is that of a live word of 4 bytes.
#[inline(always)]
unsafe fn cas_u32(a: u64, place: Place, c: u32, v: u32, order: Order) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { ordered!(place, order, cas, ".cas.b32", reg32, a, c, v) }
}

macro_rules! bitwise { ($($op:ident $name:ident $without:ident: $b32:literal $b64:literal;)*) => { $(
    /// # Safety
    /// The target is a live word.
    #[inline(always)]
    #[cfg_attr(shmem_timeline, track_caller)]
    pub(crate) unsafe fn $name<T: AtomicAdd>(target: Target, value: T, order: Order) -> T {
        if let Some(at) = carried(target) {
            return network::access(network::Op::$op, at, value, T::zeroed(), true);
        }
        let (a, place) = resolve(target);
        record!(target, T);
        // SAFETY: the caller's promise.
        unsafe {
            if size_of::<T>() == 4 {
                let v: u32 = bits(value);
                bits::<u32, T>(ordered!(place, order, atom, $b32, reg32, a, v))
            } else {
                let v: u64 = bits(value);
                bits::<u64, T>(ordered!(place, order, atom, $b64, reg64, a, v))
            }
        }
    }

    /// Order: relaxed or release.
    ///
    /// # Safety
    /// The target is a live word.
    #[inline(always)]
    #[cfg_attr(shmem_timeline, track_caller)]
    pub(crate) unsafe fn $without<T: AtomicAdd>(target: Target, value: T, order: Order) {
        if let Some(at) = carried(target) {
            network::access(network::Op::$op, at, value, T::zeroed(), false);
            return;
        }
        let (a, place) = resolve(target);
        record!(target, T);
        // SAFETY: the caller's promise.
        unsafe {
            if size_of::<T>() == 4 {
                let v: u32 = bits(value);
                match order {
                    Order::Relaxed => placed!(place, ".relaxed", red, $b32, reg32, a, v),
                    _ => placed!(place, ".release", red, $b32, reg32, a, v),
                }
            } else {
                let v: u64 = bits(value);
                match order {
                    Order::Relaxed => placed!(place, ".relaxed", red, $b64, reg64, a, v),
                    _ => placed!(place, ".release", red, $b64, reg64, a, v),
                }
            }
        }
    }
)* } }
bitwise! {
    And fetch_and and: ".and.b32" ".and.b64";
    Or fetch_or or: ".or.b32" ".or.b64";
    Xor fetch_xor xor: ".xor.b32" ".xor.b64";
}

/// # Safety
/// The target is a live word.
#[inline(always)]
#[cfg_attr(shmem_timeline, track_caller)]
pub(crate) unsafe fn swap<T: AtomicAdd>(target: Target, value: T, order: Order) -> T {
    if let Some(at) = carried(target) {
        return network::access(network::Op::Swap, at, value, T::zeroed(), true);
    }
    let (a, place) = resolve(target);
    record!(target, T);
    // SAFETY: the caller's promise.
    unsafe {
        if size_of::<T>() == 4 {
            let v: u32 = bits(value);
            bits::<u32, T>(ordered!(place, order, atom, ".exch.b32", reg32, a, v))
        } else {
            let v: u64 = bits(value);
            bits::<u64, T>(ordered!(place, order, atom, ".exch.b64", reg64, a, v))
        }
    }
}

/// # Safety
/// The target is a live word.
#[inline(always)]
#[cfg_attr(shmem_timeline, track_caller)]
pub(crate) unsafe fn fetch_add<T: AtomicAdd>(target: Target, value: T, order: Order) -> T {
    if let Some(at) = carried(target) {
        return network::access(network::Op::Add, at, value, T::zeroed(), true);
    }
    let (a, place) = resolve(target);
    record!(target, T);
    // SAFETY: the caller's promise.
    unsafe {
        if size_of::<T>() == 4 {
            let v: u32 = bits(value);
            bits::<u32, T>(match T::SUM {
                Sum::F32 => ordered!(place, order, atom, ".add.f32", reg32, a, v),
                Sum::F16x2 => ordered!(place, order, atom, ".add.noftz.f16x2", reg32, a, v),
                Sum::Bf16x2 => add_bf16x2(a, place, v, order),
                _ => ordered!(place, order, atom, ".add.u32", reg32, a, v),
            })
        } else {
            let v: u64 = bits(value);
            bits::<u64, T>(match T::SUM {
                Sum::F64 => ordered!(place, order, atom, ".add.f64", reg64, a, v),
                _ => ordered!(place, order, atom, ".add.u64", reg64, a, v),
            })
        }
    }
}

/// Order: relaxed or release.
///
/// # Safety
/// The target is a live word.
#[inline(always)]
#[cfg_attr(shmem_timeline, track_caller)]
pub(crate) unsafe fn add<T: AtomicAdd>(target: Target, value: T, order: Order) {
    if let Some(at) = carried(target) {
        network::access(network::Op::Add, at, value, T::zeroed(), false);
        return;
    }
    let (a, place) = resolve(target);
    record!(target, T);
    // SAFETY: the caller's promise.
    unsafe {
        if size_of::<T>() == 4 {
            let v: u32 = bits(value);
            match (T::SUM, order) {
                (Sum::F32, Order::Relaxed) => placed!(place, ".relaxed", red, ".add.f32", reg32, a, v),
                (Sum::F32, _) => placed!(place, ".release", red, ".add.f32", reg32, a, v),
                (Sum::F16x2, Order::Relaxed) => placed!(place, ".relaxed", red, ".add.noftz.f16x2", reg32, a, v),
                (Sum::F16x2, _) => placed!(place, ".release", red, ".add.noftz.f16x2", reg32, a, v),
                (Sum::Bf16x2, _) => {
                    add_bf16x2(a, place, v, order);
                }
                (_, Order::Relaxed) => placed!(place, ".relaxed", red, ".add.u32", reg32, a, v),
                (_, _) => placed!(place, ".release", red, ".add.u32", reg32, a, v),
            }
        } else {
            let v: u64 = bits(value);
            match (T::SUM, order) {
                (Sum::F64, Order::Relaxed) => placed!(place, ".relaxed", red, ".add.f64", reg64, a, v),
                (Sum::F64, _) => placed!(place, ".release", red, ".add.f64", reg64, a, v),
                (_, Order::Relaxed) => placed!(place, ".relaxed", red, ".add.u64", reg64, a, v),
                (_, _) => placed!(place, ".release", red, ".add.u64", reg64, a, v),
            }
        }
    }
}

/// Lock-free: a round fails only where another thread's has succeeded, so that nobody can make it wait for ever.
///
/// # Safety
/// The address is that of a live word of 4 bytes.
#[inline(always)]
unsafe fn add_bf16x2(a: u64, place: Place, v: u32, order: Order) -> u32 {
    /// 1.0 twice: the sum is `old * 1 + v`, rounded once.
    const ONES: u32 = 0x3f80_3f80;
    // SAFETY: the caller's promise.
    unsafe {
        let mut old: u32 = placed!(place, ".relaxed", ld, ".u32", reg32, a);
        loop {
            let sum: u32;
            asm!(
                "fma.rn.bf16x2 {d}, {x}, {one}, {v};",
                d = out(reg32) sum, x = in(reg32) old, one = in(reg32) ONES, v = in(reg32) v,
                options(pure, nomem, nostack),
            );
            let seen = cas_u32(a, place, old, sum, order);
            if seen == old {
                return old;
            }
            old = seen;
        }
    }
}

#[inline(always)]
pub(crate) fn fence(place: Place) {
    // SAFETY: a fence.
    unsafe {
        match place {
            Place::Cta | Place::Shared => asm!("fence.acq_rel.cta;", options(nostack)),
            Place::Gpu => asm!("fence.acq_rel.gpu;", options(nostack)),
            Place::System | Place::Peer => asm!("fence.acq_rel.sys;", options(nostack)),
        }
    }
}
