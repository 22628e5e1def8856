//! Runs kernels where there is no GPU: the same source, its lanes as coroutines, several PEs in one process.
//!
//! | file | what it holds |
//! |---|---|
//! | `run`, `objects` | [`run()`], [`Sim`], [`symmetric`]: a kernel under test, without a host program |
//! | `explore`, `seed` | [`explore()`]: many seeds, and what a failing one comes down to |
//! | `engine`, `desk`, `hosts` | [`Engine`]: a world as host threads see it, and how they meet the simulator's thread |
//! | `simulator` | what starts when, and when nothing can go on |
//! | `launch`, `queue` | resident blocks, and which lane runs next |
//! | `async_copy` | a lane's `cp.async` |
//! | `block`, `meet`, `lane`, `machine` | warps, barriers, coroutines, what a lane's calls do |
//! | `check` | the happens-before checker: finds missing fences, waits and syncs |
//! | `net`, `memory` | when an operation takes effect at another PE, and the memory it changes |
//! | `adapters` | emulated network adapters, which the kernel's own entries drive |
//! | `cut` | one call left out, by `SHMEM_SIM_SKIP` |
//! | `breaks` | what a lane meets of [`Fault`]s |
//! | `choices`, `rng`, `clock` | random decisions, by number; simulated time |
//! | `stack`, `overflow`, `panics` | stacks of lanes, and what becomes of kernels that leave theirs or panic |
//! | `timeline`, `trace` | what happened when, as a file for Perfetto |
//! | `report`, `failure` | why a world failed, as text |
//!
//! # What to know
//! - **One thread.** All lanes run on one OS thread, so a lane runs alone until it waits: at a barrier, a warp's sync or
//!   exchange, or in `wait_until` and `spin_until`. A loop without any of these can't be interrupted, not even by the time
//!   limit.
//! - **Replay.** The order in which lanes run follows from [`Config::seed`] and the order in which each host submits. What
//!   a kernel finds does not depend on the speed of host threads, as long as they block within 100 ms of their last call.
//! - **Memory** changes are seen when they come through the API, or at the latest when nothing else can run: a kernel
//!   under test may also wait for an atomic of the test's own.
//! - **Stacks** of lanes have 256 KiB (`SHMEM_SIM_STACK`), of which calls of `shmem` need the last 32. A lane that makes a
//!   call there has overflowed its stack: a fault of that lane. So is an overflow between calls, where the system can guard
//!   the stack; else it is noticed late, and the world ends without dropping what its lanes own. A kernel that overflows
//!   while it allocates by itself, which none for GPUs does, may hang.
//! - **Time** is simulated: it passes with every switch of lanes and every look at the clock.
//! - A **panic** in a kernel is a fault with message and place. Values of lanes that are ended are dropped.
//!
//! ```
//! use shmem::prelude::*;
//!
//! let error = shmem_sim::run(1, 1, 2, || {
//!     if thread::index() == 0 {
//!         shmem::wait_until(Thread, shmem_sim::signals(1).at(0), eq(3));
//!     }
//!     Block.sync();
//! }).unwrap_err();
//! assert!(error.to_string().contains("wanted == 3"));
//! ```

mod adapters;
mod agree;
mod async_copy;
mod block;
mod breaks;
mod check;
mod choices;
mod clock;
mod cluster;
mod config;
mod cut;
mod desk;
mod engine;
mod explore;
mod failure;
mod hosts;
mod kernel;
mod lane;
mod launch;
mod machine;
mod meet;
mod memory;
mod net;
mod objects;
mod overflow;
mod panics;
mod queue;
mod report;
mod rng;
mod run;
mod seed;
mod shared;
mod simulator;
mod stack;
mod timeline;
mod trace;
mod world;

pub use check::{Bug, BugKind, Party};
pub use config::{Config, Processes, SimError};
pub use engine::{Blocked, Engine, StreamId};
pub use explore::{Explored, Found, explore};
pub use failure::Failure;
pub use kernel::{KernelJob, LaneBody};
pub use net::{Delay, Fault, Link, LinkModel, Model, NoPath, Path, When};
pub use objects::{collective, contexts, counters, global, signals, symmetric, symmetric_with, team};
pub use run::{Dim3, Report, Sim, run};
pub use seed::{NoSeed, Seed, seed_from_env};
pub use trace::{Arg, Trace, TrackId};
