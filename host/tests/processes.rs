//! Worlds of several processes, for real: this program starts itself, as a launcher would, and kills what it started.

#[path = "common/own.rs"]
mod own;

use own::Own;
use shmem::prelude::*;
use shmem_host::{CollectiveError, Error, HeapError, Pe, SymBuf, TeamError, World, collective_launch, launch};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const SCENARIO: &str = "SHMEM_TEST_SCENARIO";
/// In which a failure is known everywhere, and every process has ended: on a machine that does other things too.
const PROMPT: Duration = Duration::from_secs(5);

#[kernel]
fn shift(dst: SymSlice<u32>) {
    shmem::p(dst.at(0), 10 + shmem::my_pe(), (shmem::my_pe() + 1) % shmem::n_pes());
}

/// A token goes around once.
#[kernel]
fn ring(token: SymSlice<SignalWord>, round: u64) {
    let (me, n) = (shmem::my_pe(), shmem::n_pes());
    let next = token.at(0).set(round);
    if me == 0 {
        shmem::signal_op(next, 1 % n);
    }
    shmem::wait_until(Thread, token.at(0), ge(round));
    if me > 0 {
        shmem::signal_op(next, (me + 1) % n);
    }
}

#[kernel]
fn store_at(data: SymSlice<u32>, i: u32) {
    data.store(i, 1);
}

#[kernel]
fn wait_for_nobody(word: SymSlice<SignalWord>) {
    shmem::wait_until(Thread, word.at(0), eq(1));
}

#[kernel(collective)]
fn shift_in(all: Collective, member: Membership, dst: SymSlice<u32>) {
    if let Some(team) = member.team() {
        shmem::p(dst.at(0), 10 + team.my_pe(), team.pe((team.my_pe() + 1) % team.n_pes()));
        all.barrier(Thread, team);
    }
}

/// Teams of PEs of several processes, made again and again.
fn teams(pe: &Pe) -> Result<(), Error> {
    let (world, dst) = (pe.world(), pe.alloc::<u32>(1)?);
    for round in 0..100 {
        let team = match round % 2 {
            0 => pe.team(&(0..pe.n()).rev().collect::<Vec<_>>())?,
            _ => world.split_strided(0, 2, pe.n().div_ceil(2))?,
        };
        collective_launch!(pe, shift_in<<<1, 1>>>(team.as_ref(), &dst))?;
        if let Some(team) = &team {
            let (me, n) = (team.my_pe(), team.n_pes());
            assert_eq!(dst.read(0)?, 10 + (me + n - 1) % n);
            pe.stream().barrier(team)?;
        }
        pe.barrier_all()?;
    }
    let Err(Error::Team(TeamError::Mismatch { first, second })) = world.split_2d(1 + pe.id()).map(drop) else {
        panic!("different splits were not refused")
    };
    assert_eq!((first.0, second.0), (0, 1));
    teams_of_teams(pe, &dst)
}

/// Made by their members alone, while the other PEs are elsewhere.
fn teams_of_teams(pe: &Pe, dst: &SymBuf<u32>) -> Result<(), Error> {
    let n = pe.n();
    let most = pe.team(&(1..n).rev().collect::<Vec<_>>())?;
    for round in 0..50 {
        let Some(most) = &most else { break };
        let pair = most.split_strided(0, most.n_pes().max(2) - 1, most.n_pes().min(2))?;
        if let Some(pair) = &pair {
            assert_eq!(pair.members()[0], n - 1);
            pe.stream().barrier(pair)?;
            let (row, column) = pair.split_2d(1)?;
            assert_eq!((row.n_pes(), column.n_pes()), (1, pair.n_pes()));
        }
        if round % 10 == 0 {
            pe.stream().sync(most)?;
        }
    }
    pe.barrier_all()?;
    collective_launch!(pe, shift_in<<<1, 1>>>(most.as_ref(), dst))?;
    if let Some(team) = &most {
        let (me, n) = (team.my_pe(), team.n_pes());
        assert_eq!(dst.read(0)?, 10 + (me + n - 1) % n);
        let refused = team.split(&[n]).map(drop);
        assert!(
            matches!(refused, Err(Error::Team(TeamError::Outside { .. }))),
            "{refused:?}"
        );
    }
    pe.barrier_all()
}

fn communicate(pe: &Pe) -> Result<(), Error> {
    let (dst, token) = (pe.alloc::<u32>(1)?, pe.signals(1)?);
    collective_launch!(pe, shift<<<1, 1>>>(&dst))?;
    pe.stream().barrier_all()?;
    let n = pe.n();
    assert_eq!(dst.read(0)?, 10 + (pe.id() + n - 1) % n);
    for round in 1..=5 {
        collective_launch!(pe, ring<<<1, 1>>>(&token, round))?;
    }
    pe.barrier_all()
}

/// What a process does that was started with the name of a scenario. Prints how it ended.
fn scenario(name: &str) -> Result<(), Error> {
    match name {
        "communicate" => {
            // More than one World after the other, too.
            for _ in 0..3 {
                World::from_env()?.run(|pe| communicate(&pe))?;
            }
            Ok(())
        }
        "teams" => World::from_env()?.run(|pe| teams(&pe)),
        "mismatch" => World::from_env()?.run(|pe| {
            let refused = pe.alloc::<u16>(3 + pe.id() as usize).map(drop);
            let Err(Error::Heap(HeapError::AllocMismatch { first, second })) = &refused else {
                panic!("{refused:?}")
            };
            assert_eq!((first.0, first.1.len, second.0, second.1.len), (0, 3, 1, 4));
            pe.barrier_all()
        }),
        "again" => {
            let worlds = |count| {
                (0..count).try_for_each(|_| {
                    World::from_env()?.run(|pe| {
                        let (row, _) = pe.world().split_2d(2)?;
                        for _ in 0..10 {
                            pe.stream().barrier(&row.split_2d(1)?.1)?;
                        }
                        pe.barrier_all()
                    })
                })
            };
            worlds(10)?;
            let before = Own::now();
            worlds(100)?;
            let after = Own::now();
            assert!(after.is_no_more_than(&before), "{before:?} became {after:?}");
            Ok(())
        }
        "limit" => World::from_env()?.run(|pe| {
            // SHMEM_HEAP=32M, of every process alike.
            let stats = pe.heap_stats();
            assert_eq!((stats.limit, stats.used), (32 << 20, 0));
            let half = stats.free as usize / 2;
            let (first, rest) = (pe.alloc::<u8>(half)?, pe.heap_stats());
            let refused = pe.alloc::<u8>(half + 1024).map(drop);
            let Err(Error::Heap(HeapError::Limit { asked, free, limit, .. })) = refused else {
                panic!("{refused:?}")
            };
            assert!(asked >= half as u64 + 1024 && (free, limit) == (rest.free, 32 << 20));
            drop(first);
            pe.alloc::<u8>(half + 1024).map(drop)
        }),
        "ends-early" => World::from_env()?.run(|pe| match pe.id() {
            0 => {
                let result = pe.barrier_all();
                assert!(matches!(
                    result,
                    Err(Error::Collective(CollectiveError::PeerEnded { ended: 1, .. }))
                ));
                result
            }
            _ => Ok(()),
        }),
        "fault" => World::from_env()?.run(|pe| {
            let (data, word) = (pe.alloc::<u32>(4)?, pe.signals(1)?);
            match pe.id() {
                0 => launch!(pe, store_at<<<1, 1>>>(&data, 4))?,
                _ => launch!(pe, wait_for_nobody<<<1, 1>>>(&word))?,
            }
            pe.stream().synchronize()
        }),
        "for-ever" => World::from_env()?.run(|pe| {
            println!("READY");
            loop {
                communicate(&pe)?;
                let (row, _) = pe.world().split_2d(2)?;
                let pair = row.split(&(0..row.n_pes()).rev().collect::<Vec<_>>())?;
                pe.stream().barrier(pair.as_ref().unwrap_or(&row))?;
            }
        }),
        "adapters" => World::from_env().map(drop),
        other => panic!("there is no scenario {other}"),
    }
}

/// Not a test of its own: what the processes of the tests run.
#[test]
fn child() {
    let Ok(name) = std::env::var(SCENARIO) else {
        return;
    };
    let result = scenario(&name);
    println!("RESULT {result:?}");
    std::process::exit(i32::from(result.is_err()));
}

struct Job(Vec<Child>);

impl Job {
    fn start(scenario: &str, size: u32, pes: u32) -> Self {
        Self::start_on(1, scenario, size, pes, 20)
    }

    /// They take turns on what they call so many machines, and have so many seconds to find each other.
    fn start_on(machines: u32, scenario: &str, size: u32, pes: u32, join_s: u32) -> Self {
        static JOBS: AtomicU32 = AtomicU32::new(0);
        let number = JOBS.fetch_add(1, Ordering::Relaxed);
        let root = format!("unix:shmem-test-{}-{number}", std::process::id());
        let start = |rank: u32| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "child", "--nocapture"])
                .env(SCENARIO, scenario)
                .env("SHMEM_BACKEND", "sim")
                .env("SHMEM_HEAP", "32M")
                .env("SHMEM_TIMEOUT", "20")
                .env("SHMEM_PATH", if scenario == "adapters" { "mixed" } else { "auto" })
                .env("SHMEM_JOIN_TIMEOUT", join_s.to_string())
                .env("SHMEM_HOST_ID", format!("machine {}", rank % machines))
                .env("SHMEM_NPES", pes.to_string())
                .env("SHMEM_RANK", rank.to_string())
                .env("SHMEM_SIZE", size.to_string())
                .env("SHMEM_ROOT", &root)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        };
        Self((0..size).map(start).collect())
    }

    /// How each process ended, within the limit, and what it printed.
    fn wait(mut self, limit: Duration) -> Vec<(ExitStatus, String)> {
        let start = Instant::now();
        let pids: Vec<u32> = self.0.iter().map(Child::id).collect();
        let mut ends = Vec::new();
        for mut child in self.0.drain(..) {
            let status = loop {
                match child.try_wait().unwrap() {
                    Some(status) => break Some(status),
                    None if start.elapsed() > limit => break None,
                    None => thread::sleep(Duration::from_millis(5)),
                }
            };
            if status.is_none() {
                child.kill().unwrap();
                child.wait().unwrap();
            }
            let mut text = String::new();
            for mut pipe in [
                child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read>),
                child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read>),
            ]
            .into_iter()
            .flatten()
            {
                pipe.read_to_string(&mut text).unwrap();
            }
            ends.push((status, text));
        }
        let ends = ends.into_iter().zip(&pids).map(|((status, text), pid)| {
            let status = status.unwrap_or_else(|| panic!("process {pid} did not end within {limit:?}:\n{text}"));
            (status, text)
        });
        let ends = ends.collect();
        // Memory without a name goes with those who have it; sockets have names.
        let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
        for pid in pids {
            assert!(
                !sockets.contains(&format!("@shmem-{pid}-")),
                "a socket of process {pid} is left"
            );
        }
        ends
    }
}

fn all_fine(scenario: &str, size: u32, pes: u32) {
    all_fine_on(1, scenario, size, pes);
}

fn all_fine_on(machines: u32, scenario: &str, size: u32, pes: u32) {
    for (rank, (status, text)) in Job::start_on(machines, scenario, size, pes, 20)
        .wait(Duration::from_secs(30))
        .iter()
        .enumerate()
    {
        assert!(
            status.success() && text.contains("RESULT Ok"),
            "{scenario}, process {rank}: {status}\n{text}"
        );
    }
}

#[test]
fn processes_communicate() {
    for (size, pes) in [(1, 1), (2, 1), (4, 1), (2, 2), (1, 3)] {
        all_fine("communicate", size, pes);
    }
}

#[test]
fn teams_span_processes() {
    for (size, pes) in [(2, 1), (3, 1), (2, 2), (5, 1), (3, 3)] {
        all_fine("teams", size, pes);
    }
}

#[test]
fn a_mismatch_is_an_error_and_no_end() {
    all_fine("mismatch", 2, 1);
}

#[test]
fn a_world_spans_machines() {
    for (machines, size, pes) in [(2, 2, 1), (2, 3, 2), (3, 5, 1)] {
        for scenario in ["communicate", "teams", "mismatch"]
            .into_iter()
            .take(if size == 2 { 3 } else { 2 })
        {
            all_fine_on(machines, scenario, size, pes);
        }
    }
}

#[test]
fn a_hundred_worlds_and_a_thousand_teams_leave_nothing() {
    for (size, pes) in [(3, 1), (2, 2)] {
        all_fine("again", size, pes);
    }
}

#[test]
fn what_is_beyond_the_heap_is_refused_in_every_process() {
    all_fine("limit", 2, 1);
}

#[test]
fn emulated_adapters_are_refused() {
    for (status, text) in Job::start("adapters", 2, 1).wait(PROMPT) {
        assert!(!status.success() && text.contains("RESULT Err("), "{text}");
        assert!(
            text.contains("Path { path: Mixed") || text.contains("one process emulates all adapters"),
            "{text}"
        );
    }
}

#[test]
fn a_process_that_ends_early_is_named() {
    let ends = Job::start("ends-early", 2, 1).wait(PROMPT);
    assert!(ends[0].1.contains("RESULT Err(Collective(PeerEnded {"), "{ends:?}");
    assert!(ends[1].1.contains("RESULT Err(PeerFailed { pe: 0,"), "{ends:?}");
}

#[test]
fn a_kernels_fault_ends_the_others() {
    let ends = Job::start("fault", 3, 1).wait(PROMPT);
    assert!(ends[0].1.contains("RESULT Err(Device("), "{ends:?}");
    for (_, text) in &ends[1..] {
        assert!(text.contains("RESULT Err(PeerFailed { pe: 0,"), "{text}");
        assert!(text.contains("index 4 is outside an object of 4 elements"), "{text}");
    }
}

/// A number that looks random.
fn mix(seed: u64) -> u64 {
    let x = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ x >> 31).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 20
}

#[test]
fn the_others_end_when_one_is_killed() {
    for seed in 0..50 {
        let (size, draw) = (2 + seed as u32 % 3, mix(seed));
        let pes = 1 + seed as u32 % 2;
        let victim = (draw % u64::from(size)) as usize;
        let mut job = Job::start_on(1 + u32::from(seed % 3 == 2), "for-ever", size, pes, 20);
        for child in &mut job.0 {
            let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
            assert!(lines.any(|line| line.unwrap().contains("READY")));
        }
        thread::sleep(Duration::from_micros(draw / 7 % 60_000));
        job.0[victim].kill().unwrap();
        for (rank, (status, text)) in job.wait(PROMPT).iter().enumerate() {
            if rank == victim {
                assert!(!status.success() && !text.contains("RESULT"), "seed {seed}: {text}");
            } else {
                let pe = victim as u32 * pes;
                let expected = format!("RESULT Err(PeerFailed {{ pe: {pe},");
                assert!(
                    text.contains(&expected),
                    "seed {seed}, process {rank} of {size}, {victim} killed: {text}"
                );
            }
        }
    }
}

#[test]
fn the_others_end_when_one_is_killed_at_the_start() {
    for seed in 0..10 {
        let (size, draw) = (3, mix(seed));
        // Rank 0 is where the others meet: without it they look for it as long as they may.
        let victim = 1 + (draw % u64::from(size - 1)) as usize;
        let mut job = Job::start_on(1, "for-ever", size, 1, 2);
        thread::sleep(Duration::from_micros(draw / 7 % 30_000));
        job.0[victim].kill().unwrap();
        for (rank, (_, text)) in job.wait(Duration::from_secs(15)).iter().enumerate() {
            let told = text.contains("RESULT Err(PeerFailed {") || text.contains("RESULT Err(Bootstrap(");
            assert!(
                rank == victim || told,
                "seed {seed}, process {rank}, {victim} killed: {text}"
            );
        }
    }
}
