//! Atomic accesses of a lane: to memory that it reaches, or to a PE's heap as an operation of its own.

use super::{from_bits, to_bits};
use crate::arch::{Order, Place, Target};
use crate::atomic::{AtomicAdd, Sum};
use crate::hook::{self, Access, Atomic, AtomicOp, current};
use crate::network;
use core::panic::Location;

/// What a place is made of.
fn parts(place: Place) -> (hook::Space, hook::Scope) {
    match place {
        Place::Cta => (hook::Space::Global, hook::Scope::Cta),
        Place::Gpu => (hook::Space::Global, hook::Scope::Gpu),
        Place::System => (hook::Space::Global, hook::Scope::System),
        Place::Shared => (hook::Space::Shared, hook::Scope::Cta),
        Place::Peer => (hook::Space::Symmetric, hook::Scope::System),
    }
}

impl From<Order> for hook::Strength {
    fn from(order: Order) -> Self {
        match order {
            Order::Relaxed => Self::Relaxed,
            Order::Acquire => Self::Acquire,
            Order::Release => Self::Release,
            Order::AcqRel => Self::AcqRel,
        }
    }
}

/// # Safety
/// The target is a live word.
#[track_caller]
unsafe fn access<T: AtomicAdd>(target: Target, order: Order, op: AtomicOp, values: [T; 2], fetches: bool) -> T {
    let at = Location::caller();
    let [operand, comparand] = values.map(|v| to_bits(v) as u64);
    let bytes = size_of::<T>() as u32;
    let machine = current().machine;
    let atomic = |scope| Atomic {
        op,
        operand,
        comparand,
        scope,
        fetches,
    };
    let old = match target {
        Target::Here { address, place } => {
            let (space, scope) = parts(place);
            let access = Access {
                address,
                bytes,
                space,
                strength: order.into(),
            };
            machine.atomic(access, &atomic(scope), at)
        }
        Target::At { offset, to } if network::carries(to.pe) => {
            let op = match op {
                AtomicOp::Fetch => network::Op::Fetch,
                AtomicOp::Set => network::Op::Set,
                AtomicOp::Swap => network::Op::Swap,
                AtomicOp::CompareSwap => network::Op::CompareSwap,
                AtomicOp::And => network::Op::And,
                AtomicOp::Or => network::Op::Or,
                AtomicOp::Xor => network::Op::Xor,
                _ => network::Op::Add,
            };
            let _reach = super::Reach::begin("atomic", true, to, bytes.into());
            return network::access(op, (offset, to), values[0], values[1], fetches);
        }
        Target::At { offset, to } => machine.atomic_at(
            offset,
            bytes,
            super::bare(to),
            order.into(),
            &atomic(hook::Scope::System),
            at,
        ),
    };
    from_bits(old.into())
}

fn add_op<T: AtomicAdd>() -> AtomicOp {
    match T::SUM {
        Sum::Integer => AtomicOp::Add,
        Sum::F32 => AtomicOp::AddF32,
        Sum::F64 => AtomicOp::AddF64,
        Sum::F16x2 => AtomicOp::AddF16x2,
        Sum::Bf16x2 => AtomicOp::AddBf16x2,
    }
}

/// # Safety
/// The target is a live word.
#[track_caller]
pub(crate) unsafe fn load<T: AtomicAdd>(target: Target, order: Order) -> T {
    // SAFETY: the caller's promise.
    unsafe { access(target, order, AtomicOp::Fetch, [T::zeroed(); 2], true) }
}

/// # Safety
/// The target is a live word.
#[track_caller]
pub(crate) unsafe fn compare_swap<T: AtomicAdd>(target: Target, expected: T, value: T, order: Order) -> T {
    // SAFETY: the caller's promise.
    unsafe { access(target, order, AtomicOp::CompareSwap, [value, expected], true) }
}

macro_rules! returning { ($($name:ident: $op:expr;)*) => { $(
    /// # Safety
    /// The target is a live word.
    #[track_caller]
    pub(crate) unsafe fn $name<T: AtomicAdd>(target: Target, value: T, order: Order) -> T {
        // SAFETY: the caller's promise.
        unsafe { access(target, order, $op, [value, T::zeroed()], true) }
    }
)* } }
returning! {
    fetch_add: add_op::<T>();
    swap: AtomicOp::Swap;
    fetch_and: AtomicOp::And;
    fetch_or: AtomicOp::Or;
    fetch_xor: AtomicOp::Xor;
}

macro_rules! without_result { ($($name:ident: $op:expr;)*) => { $(
    /// # Safety
    /// The target is a live word.
    #[track_caller]
    pub(crate) unsafe fn $name<T: AtomicAdd>(target: Target, value: T, order: Order) {
        // SAFETY: the caller's promise.
        unsafe { access(target, order, $op, [value, T::zeroed()], false) };
    }
)* } }
without_result! {
    store: AtomicOp::Set;
    add: add_op::<T>();
    and: AtomicOp::And;
    or: AtomicOp::Or;
    xor: AtomicOp::Xor;
}

#[track_caller]
pub(crate) fn fence(place: Place) {
    current().machine.fence_memory(parts(place).1, Location::caller());
}
