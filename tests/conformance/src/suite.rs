//! The host side of the suite.

use anyhow::{Context, ensure};
use shmem_host::{Backend, Builder, Path, Pe, World};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// One test: what it is called, and what each PE does.
#[derive(Clone, Copy)]
pub struct Case {
    pub name: &'static str,
    pub run: fn(&Pe) -> anyhow::Result<()>,
}

/// Cases that leave the world as they found it.
pub fn cases() -> Vec<Case> {
    [
        crate::scalar::CASES,
        crate::put::CASES,
        crate::get::CASES,
        crate::bulk::CASES,
        crate::signal::CASES,
        crate::order::CASES,
        crate::barrier::CASES,
        crate::warp::CASES,
        crate::shared::CASES,
        crate::thread::CASES,
        crate::generic::CASES,
        crate::atomic::CASES,
        crate::word::CASES,
        crate::ptr::CASES,
        crate::wait_many::CASES,
        crate::refused::CASES,
        crate::grid::CASES,
        crate::warp_group::CASES,
        crate::team::CASES,
        crate::made_team::CASES,
        crate::context::CASES,
        crate::vector::CASES,
        crate::fp8::CASES,
        crate::math::CASES,
        crate::matrix::CASES,
        crate::reduce::CASES,
        crate::registers::CASES,
        crate::print::CASES,
        crate::async_copy::CASES,
        crate::cluster::CASES,
        crate::mbarrier::CASES,
        crate::litmus::CASES,
        crate::stream::CASES,
        crate::packet::CASES,
        crate::collective::CASES,
        crate::collective_reduce::CASES,
        crate::stream_collective::CASES,
    ]
    .concat()
}

/// A world of the simulator to be, over the path that `SHMEM_PATH` names: `cargo xtask test --path`.
///
/// # Panics
/// It names none.
pub fn simulator(pes: u32) -> Builder {
    let path = std::env::var("SHMEM_PATH").map_or(Path::Auto, |name| name.parse().expect("SHMEM_PATH"));
    // Over adapters the largest cases take some minutes of one processor.
    let limit = Some(Duration::from_mins(10));
    World::builder()
        .backend(Backend::Sim)
        .pes(pes)
        .path(path)
        .time_limit(limit)
}

/// What a case needs that not every path has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    Nothing,
    /// Load and store reaches every PE.
    LoadStore,
    /// Load and store reaches every PE, or none.
    OneDomain,
}

impl Needs {
    /// Of the case of this name.
    pub fn of(name: &str) -> Self {
        NEEDS
            .iter()
            .find(|(known, _)| *known == name)
            .map_or(Self::Nothing, |(_, needs)| *needs)
    }

    fn met(self, reached: &[bool]) -> bool {
        match self {
            Self::Nothing => true,
            Self::LoadStore => reached.iter().all(|&reached| reached),
            Self::OneDomain => reached.iter().all(|&other| other == reached[0]),
        }
    }
}

/// The cases that need something, and why.
const NEEDS: [(&str, Needs); 9] = [
    // Atomics of GPUs and of adapters on one word are not atomic with each other.
    ("atomics: sums of every type", Needs::OneDomain),
    ("atomics: swap, set and fetch of every type", Needs::OneDomain),
    ("atomics: every operation on integers", Needs::OneDomain),
    ("atomics: a lock", Needs::OneDomain),
    ("atomics: release and acquire", Needs::OneDomain),
    // They go through pointers to every PE.
    ("ptr: store and load of every element size", Needs::LoadStore),
    ("ptr: atomics and a wait", Needs::LoadStore),
    // Quiet says no more than acknowledged over a network.
    ("litmus: store buffering with quiet", Needs::LoadStore),
    ("litmus: causality over three PEs", Needs::LoadStore),
];

/// Every case in one world of the simulator, whose seed is its number of PEs; unchecked, for the suite's size.
///
/// # Panics
/// Where a case fails.
pub fn simulated(pes: u32) {
    simulated_in(&simulator(pes), pes);
}

/// As [`simulated`], over another path; with short queues for few contexts, which are made sooner.
///
/// # Panics
/// Where a case fails.
pub fn simulated_over(path: Path, pes: u32) {
    let builder = simulator(pes).path(path).queue_contexts(2).queue_blocks(32);
    simulated_in(&builder, pes);
}

fn simulated_in(builder: &Builder, pes: u32) {
    let world = || Ok(builder.clone().seed(pes.into()).check(false).build()?);
    if let Err(error) = run(world, false) {
        panic!("{pes} PEs: {error:?}");
    }
}

/// Runs every case in one world, on every PE; then each fault in a world of its own. Returns how many passed.
///
/// # Errors
/// The first case that failed, by name.
pub fn run(world: impl Fn() -> anyhow::Result<World>, log: bool) -> anyhow::Result<usize> {
    run_named(world, log, &[])
}

/// The same for the cases and faults that have one of these in their names; all if there are none.
///
/// # Errors
/// What the first that failed says.
pub fn run_named(world: impl Fn() -> anyhow::Result<World>, log: bool, names: &[String]) -> anyhow::Result<usize> {
    let is_meant = |name: &str| names.is_empty() || names.iter().any(|part| name.contains(&**part));
    let cases: Vec<_> = cases().into_iter().filter(|case| is_meant(case.name)).collect();
    let planted = || crate::fault::FAULTS.iter().filter(|fault| is_meant(fault.name));
    ensure!(
        !cases.is_empty() || planted().next().is_some() || is_meant(UNNOTICED),
        "no case has one of {names:?} in its name: without arguments it prints all of them"
    );
    let passed = AtomicUsize::new(0);
    world()?.run(|pe| -> anyhow::Result<()> {
        let reached = crate::ptr::reached(&pe)?;
        let (log, mut done) = (log && pe.id() == 0, 0);
        for case in &cases {
            if !Needs::of(case.name).met(&reached) {
                if log {
                    println!("not over this path: {}", case.name);
                }
                continue;
            }
            (case.run)(&pe).with_context(|| format!("{} on PE {} of {}", case.name, pe.id(), pe.n()))?;
            pe.barrier_all()?;
            if log {
                println!("ok {}", case.name);
            }
            done += 1;
        }
        passed.fetch_max(done, Ordering::Relaxed);
        Ok(())
    })?;
    for fault in planted() {
        fault.run(world()?).with_context(|| format!("fault {}", fault.name))?;
        passed.fetch_add(1, Ordering::Relaxed);
        if log {
            println!("ok fault {}", fault.name);
        }
    }
    if is_meant(UNNOTICED) {
        crate::fault::run_unnoticed(world()?).context(UNNOTICED)?;
        passed.fetch_add(1, Ordering::Relaxed);
        if log {
            println!("ok {UNNOTICED}");
        }
    }
    Ok(passed.into_inner())
}

const UNNOTICED: &str = "a fault that the PE's host does not look at";

static LITTLE: AtomicBool = AtomicBool::new(false);

/// From now on cases take little data, few rounds and few threads, for runs of many seeds.
pub fn take_little() {
    LITTLE.store(true, Ordering::Relaxed);
}

/// The one or the other.
pub(crate) fn full_or_little<T>(full: T, little: T) -> T {
    if LITTLE.load(Ordering::Relaxed) { little } else { full }
}

/// The numbers of a sweep over an element type: all of them, or every fifth, others for each size of an element.
pub(crate) fn few<T>(all: u32) -> impl Iterator<Item = u32> {
    let first = full_or_little(0, size_of::<T>().trailing_zeros());
    (first..all).step_by(full_or_little(1, 5))
}

/// Numbers that look random and depend on every argument.
pub fn noise(seed: u64, i: u64) -> u64 {
    let mut x = (seed ^ i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(0x1234_5678_9abc_def1);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
