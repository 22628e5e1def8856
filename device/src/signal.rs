//! Signals on a stream: each kernel is one thread.
use shmem::prelude::*;
use shmem::signal::{Action, Add, Set};
use shmem::wait::{Allows, Condition, Eq, Ge, Gt, Le, Lt, Ne, Relation};

/// Applies the action at PE `to`. Everything earlier on the stream is done by then.
#[kernel(block = 1, for<Set>, for<Add>)]
pub fn signal_op<A: Action + KernelArg>(action: A, to: u32) {
    shmem::signal_op(action, to);
}

/// Waits on a signal of this PE.
#[kernel(block = 1, for<Eq>, for<Ne>, for<Gt>, for<Ge>, for<Lt>, for<Le>)]
pub fn signal_wait<R: Relation + 'static>(signal: Signal, until: Condition<R, u64>)
where
    Signal: Allows<R>,
{
    shmem::wait_until(Thread, signal, until);
}

/// Waits on a counter of this PE.
#[kernel(block = 1, for<Ge>, for<Gt>)]
pub fn counter_wait<R: Relation + 'static>(counter: Counter, until: Condition<R, u64>)
where
    Counter: Allows<R>,
{
    shmem::wait_until(Thread, counter, until);
}
