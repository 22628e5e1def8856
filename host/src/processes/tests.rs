//! Processes played by threads: all that processes do but die. Each has a World of its own, which shares nothing with the
//! others' but what goes through descriptors and bytes.

use super::*;
use crate::rendezvous::{Host, Missed, Rendezvous};
use crate::{
    Backend, Builder, CollectiveError, ConfigError, HeapError, MemoryHandles, Path, Pe, RegisterError, TeamError,
    UserMemory, World,
};
use crate::{collective_launch, launch};
use shmem::fault::FaultKind;
use shmem::prelude::*;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, mpsc};
use std::thread;
use std::time::Instant;

type Inbox = (Mutex<mpsc::Sender<Vec<u8>>>, Mutex<mpsc::Receiver<Vec<u8>>>);

/// What the threads share.
struct Job {
    meeting: Rendezvous<Vec<u8>>,
    failure: OnceLock<(u32, String)>,
    size: u32,
    /// Letters to each rank, and how many there were.
    letters: Vec<Inbox>,
    sent: AtomicU32,
}

impl Job {
    fn new(size: u32) -> Arc<Self> {
        let inbox = |_| {
            let (to, from) = mpsc::channel();
            (Mutex::new(to), Mutex::new(from))
        };
        Arc::new(Self {
            meeting: Rendezvous::new(Layout::alone(size)),
            failure: OnceLock::new(),
            size,
            letters: (0..size).map(inbox).collect(),
            sent: AtomicU32::new(0),
        })
    }
}

impl Host for Job {
    fn failed(&self) -> bool {
        self.failure.get().is_some()
    }

    fn limit(&self) -> Option<Duration> {
        None
    }

    fn is_held_up(&self, _: u32) -> bool {
        false
    }

    fn release(&self, _: Range<u32>) {}

    fn come(&self, _: u32, _: u64) {}

    fn came(&self, _: u32) -> u64 {
        0
    }

    fn ask(&self, _: &[u32]) {}
}

struct Member {
    job: Arc<Job>,
    rank: u32,
}

impl Processes for Member {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.job.size
    }

    fn allgather(&self, mine: Vec<u8>, _: Option<Duration>) -> Result<Vec<Vec<u8>>, String> {
        match self.job.meeting.meet(self.rank, mine, &*self.job) {
            Ok(all) => Ok(all.to_vec()),
            Err(Missed::Failed) => Err("a process has failed".to_owned()),
            Err(other) => Err(format!("{other:?}")),
        }
    }

    fn send(&self, to: u32, letter: &[u8], _: Option<Duration>) -> Result<(), String> {
        self.job.sent.fetch_add(1, Relaxed);
        let inbox = self.job.letters[to as usize].0.lock().unwrap();
        inbox.send(letter.to_vec()).map_err(|error| error.to_string())
    }

    fn receive(&self, within: Duration) -> Result<Option<Vec<u8>>, String> {
        let letter = self.job.letters[self.rank as usize]
            .1
            .lock()
            .unwrap()
            .recv_timeout(within);
        match self.failure() {
            Some((_, cause)) if letter.is_err() => Err(cause),
            _ => Ok(letter.ok()),
        }
    }

    fn fail(&self, cause: &str) {
        self.job.failure.get_or_init(|| (self.rank, cause.to_owned()));
        self.job.meeting.wake();
    }

    fn failure(&self) -> Option<(u32, String)> {
        self.job.failure.get().cloned()
    }

    fn finish(&self, _: Option<Duration>) -> Result<(), String> {
        Ok(())
    }
}

/// Runs `f` on so many PEs in each of so many processes; their results by rank.
fn in_processes(counts: &[u32], limit: f64, f: impl Fn(Pe) -> Result<(), Error> + Sync) -> Vec<Result<(), Error>> {
    on_machines(&vec![None; counts.len()], counts, limit, f).0
}

/// The same where each process names its machine; also how many letters went from one to another.
fn on_machines(
    hosts: &[Option<&str>],
    counts: &[u32],
    limit: f64,
    f: impl Fn(Pe) -> Result<(), Error> + Sync,
) -> (Vec<Result<(), Error>>, u32) {
    let size = counts.len() as u32;
    let job = Job::new(size);
    let start = Instant::now();
    let results = thread::scope(|scope| {
        let processes: Vec<_> = (0..size)
            .map(|rank| {
                let (member, f) = (Member { job: job.clone(), rank }, &f);
                scope.spawn(move || {
                    World::builder()
                        .backend(Backend::Sim)
                        .pes(counts[rank as usize])
                        .heap(32 << 20)
                        .time_limit(Some(Duration::from_secs_f64(limit)))
                        .host_id(hosts[rank as usize])
                        .processes(Arc::new(member))
                        .build()?
                        .run(f)
                })
            })
            .collect();
        processes.into_iter().map(|process| process.join().unwrap()).collect()
    });
    assert!(start.elapsed() < Duration::from_secs(20), "took {:?}", start.elapsed());
    (results, job.sent.load(Relaxed))
}

#[kernel]
fn shift(dst: SymSlice<u32>) {
    shmem::p(dst.at(0), 10 + shmem::my_pe(), (shmem::my_pe() + 1) % shmem::n_pes());
}

/// A token goes around `rounds` times.
#[kernel]
fn ring(token: SymSlice<SignalWord>, rounds: u64) {
    let (me, n) = (shmem::my_pe(), shmem::n_pes());
    for round in 1..=rounds {
        if me > 0 || round > 1 {
            let comes = if me == 0 { round - 1 } else { round };
            shmem::wait_until(Thread, token.at(0), ge(comes));
        }
        shmem::signal_op(token.at(0).set(round), (me + 1) % n);
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

fn fine(results: Vec<Result<(), Error>>) {
    for (rank, result) in results.into_iter().enumerate() {
        assert!(result.is_ok(), "process {rank}: {result:?}");
    }
}

#[test]
fn kernels_reach_pes_of_other_processes() {
    for counts in [&[1, 1, 1, 1][..], &[2, 2], &[1, 3], &[4]] {
        fine(in_processes(counts, 10.0, |pe| {
            let (dst, token) = (pe.alloc::<u32>(1)?, pe.signals(1)?);
            collective_launch!(pe, shift<<<1, 1>>>(&dst))?;
            pe.stream().barrier_all()?;
            assert_eq!((pe.n(), dst.read(0)?), (4, 10 + (pe.id() + 3) % 4));
            collective_launch!(pe, ring<<<1, 1>>>(&token, 20))?;
            pe.barrier_all()?;
            assert_eq!(token.read(0)?.value(), 20);
            Ok(())
        }));
    }
}

#[test]
fn the_heaps_books_agree() {
    fine(in_processes(&[1, 2], 10.0, |pe| {
        for i in 0..50usize {
            let small = pe.alloc::<u64>(i)?;
            let large = pe.alloc::<u8>(3 << 20)?;
            drop(small);
            assert!(large.to_vec()?.iter().all(|byte| *byte == 0), "fresh memory is zero");
            large.write(&[7; 64])?;
        }
        Ok(())
    }));
}

#[test]
fn a_mismatch_names_both_processes_values() {
    fine(in_processes(&[1, 1], 10.0, |pe| {
        let refused = pe.alloc::<u64>(10 + pe.id() as usize);
        let Err(Error::Heap(HeapError::AllocMismatch { first, second })) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!((first.0, first.1.len, second.0, second.1.len), (0, 10, 1, 11));
        assert!(second.1.site.file().ends_with("tests.rs") && second.1.element == "u64");
        let other = if pe.id() == 0 {
            pe.barrier_all()
        } else {
            pe.alloc::<u8>(1).map(drop)
        };
        assert!(
            matches!(other, Err(Error::Collective(CollectiveError::Mismatch { .. }))),
            "{other:?}"
        );
        pe.barrier_all()
    }));
}

#[test]
fn a_fault_reaches_the_other_processes() {
    let results = in_processes(&[1, 1], 10.0, |pe| {
        let (data, word) = (pe.alloc::<u32>(4)?, pe.signals(1)?);
        if pe.id() == 1 {
            launch!(pe, store_at<<<1, 1>>>(&data, 4))?;
            // Nobody asks for its end.
            thread::sleep(Duration::from_secs(1));
        } else {
            launch!(pe, wait_for_nobody<<<1, 1>>>(&word))?;
        }
        let start = Instant::now();
        let told = pe.stream().synchronize();
        assert!(start.elapsed() < Duration::from_secs(1));
        told
    });
    let Err(Error::PeerFailed { pe: 1, cause }) = &results[0] else {
        panic!("{results:?}")
    };
    assert!(cause.contains("index 4 is outside an object of 4 elements"), "{cause}");
    assert!(
        matches!(&results[1], Err(Error::Device(fault)) if fault.kind == FaultKind::Index),
        "{results:?}"
    );
}

#[test]
fn a_closures_error_and_one_that_ends_early_reach_the_others() {
    let results = in_processes(&[2, 1], 10.0, |pe| match pe.id() {
        2 => Err(HeapError::Alignment { align: 3 }.into()),
        _ => pe.barrier_all(),
    });
    assert!(
        matches!(results[0], Err(Error::PeerFailed { pe: 2, .. })),
        "{results:?}"
    );
    assert!(matches!(results[1], Err(Error::Heap(_))), "{results:?}");

    let results = in_processes(&[1, 1], 10.0, |pe| match pe.id() {
        1 => Ok(()),
        _ => pe.barrier_all(),
    });
    let ended = CollectiveError::PeerEnded {
        pe: 0,
        call: String::new(),
        ended: 1,
    };
    let Err(Error::Collective(CollectiveError::PeerEnded { pe, ended: who, .. })) = &results[0] else {
        panic!("{results:?}, not {ended:?}")
    };
    assert_eq!((*pe, *who), (0, 1));
    assert!(
        matches!(results[1], Err(Error::PeerFailed { pe: 0, .. })),
        "{results:?}"
    );
}

#[test]
fn who_does_not_come_is_named() {
    let results = in_processes(&[1, 1, 1], 0.3, |pe| {
        if pe.id() == 1 {
            thread::sleep(Duration::from_secs(1));
        }
        pe.barrier_all()
    });
    let named = |result: &Result<(), Error>| {
        matches!(result, Err(Error::Collective(CollectiveError::TimeLimit { absent, .. })) if *absent == [1])
            || matches!(result, Err(Error::PeerFailed { pe: 0 | 2, cause }) if cause.contains("PEs [1]"))
    };
    assert!(results.iter().all(named), "{results:?}");
}

#[test]
fn a_pe_that_its_device_holds_up_is_waited_for() {
    fine(in_processes(&[1, 1], 0.4, |pe| {
        if pe.id() == 1 {
            // Longer than the limit of one kernel, but so many may take so long.
            for _ in 0..4 {
                launch!(pe, sleep<<<1, 1>>>(150_000_000))?;
            }
        }
        pe.barrier_all()
    }));
}

/// Takes that much of the host's time.
#[kernel]
fn sleep(ns: u64) {
    #[cfg(not(target_arch = "nvptx64"))]
    thread::sleep(Duration::from_nanos(ns));
}

#[test]
fn a_kernel_that_waits_for_another_process_ends_at_the_limit() {
    let results = in_processes(&[1, 1], 0.3, |pe| {
        let word = pe.signals(1)?;
        if pe.id() == 0 {
            collective_launch!(pe, wait_for_nobody<<<1, 1>>>(&word))?;
        }
        pe.barrier_all()
    });
    let Err(Error::TimeLimit { report, .. }) = &results[0] else {
        panic!("{results:?}")
    };
    assert!(report.contains("waits for PEs of other processes"), "{report}");
    assert!(
        matches!(results[1], Err(Error::PeerFailed { pe: 0, .. })),
        "{results:?}"
    );
}

#[test]
fn processes_with_other_settings_are_told() {
    let job = Job::new(2);
    let errors = thread::scope(|scope| {
        let build = |rank| {
            let member = Member { job: job.clone(), rank };
            scope.spawn(move || {
                let builder = World::builder().backend(Backend::Sim).heap(u64::from(rank + 1) << 25);
                builder.processes(Arc::new(member)).build().map(drop)
            })
        };
        [build(0), build(1)].map(|process| process.join().unwrap())
    });
    for error in errors {
        let Err(Error::Process(ProcessError::Differ { first, second, .. })) = error else {
            panic!("{error:?}")
        };
        assert_eq!(
            (first, second),
            ((0, "33554432 bytes".to_owned()), (1, "67108864 bytes".to_owned()))
        );
    }
}

/// Each would else wait for what the other doesn't do, or take the other's words for its own.
#[test]
fn processes_that_disagree_on_what_carries_operations_are_told() {
    type Change = fn(Builder) -> Builder;
    let changes: [(&str, Change, [&str; 2]); 3] = [
        (
            "the path (SHMEM_PATH)",
            |b| b.path(Path::LoadStore),
            ["auto", "load-store"],
        ),
        (
            "contexts with send queues (SHMEM_IBGDA_CONTEXTS)",
            |b| b.queue_contexts(3),
            ["8", "3"],
        ),
        (
            "memory handles (SHMEM_HANDLES)",
            |b| b.handles(MemoryHandles::Fabric),
            ["fd", "fabric"],
        ),
    ];
    for (what, change, values) in changes {
        let job = Job::new(2);
        let build = |rank| {
            let builder = World::builder().backend(Backend::Sim);
            let builder = if rank == 1 { change(builder) } else { builder };
            let member = Member { job: job.clone(), rank };
            thread::spawn(move || builder.processes(Arc::new(member)).build().map(drop))
        };
        for process in [build(0), build(1)] {
            let error = process.join().unwrap().expect_err(what).to_string();
            let [first, second] = values;
            let told = format!("process 0 has {what} {first}, process 1 has {second}: start every process");
            assert!(error.contains(&told), "{error}");
        }
    }
}

#[kernel(collective)]
fn meet(all: Collective, member: Membership) {
    if let Some(team) = member.team() {
        all.barrier(Block, team);
    }
}

#[test]
fn teams_of_teams_are_made_by_members_in_any_processes() {
    for counts in [&[1, 1, 1, 1, 1, 1, 1][..], &[1, 2, 2, 2], &[4, 3], &[7]] {
        fine(in_processes(counts, 10.0, |pe| {
            // PEs 6, 2, 1, 4, of which the last two go on; the others come to no call.
            let list = pe.team(&[6, 2, 1, 4])?;
            let mut pair = None;
            if let Some(team) = &list {
                pair = team.split(&[3, 2])?;
                assert_eq!(pair.is_some(), [1, 4].contains(&pe.id()));
            }
            if let Some(pair) = &pair {
                assert_eq!(pair.members(), [4, 1]);
                assert_eq!(pair.translate_to(0, list.as_ref().unwrap()), Some(3));
                for _ in 0..200 {
                    let (row, column) = pair.split_2d(1)?;
                    assert_eq!((row.n_pes(), column.members()), (1, &[4, 1][..]));
                }
            }
            collective_launch!(pe, meet<<<1, 32>>>(pair.as_ref()))?;
            collective_launch!(pe, meet<<<1, 32>>>(list.as_ref()))?;
            pe.barrier_all()
        }));
    }
}

#[test]
fn teams_have_members_on_several_machines() {
    for hosts in [["a", "b", "a"], ["a", "b", "b"], ["a", "b", "c"]] {
        let (results, letters) = on_machines(&hosts.map(Some), &[1, 2, 1], 10.0, |pe| {
            let team = pe.team(&[3, 1])?;
            for _ in 0..50 {
                if let Some(team) = &team {
                    assert_eq!(
                        team.split(&[1, 0])?.map(|team| team.members().to_vec()),
                        Some(vec![1, 3])
                    );
                }
                pe.barrier_all()?;
            }
            collective_launch!(pe, meet<<<1, 32>>>(team.as_ref()))?;
            pe.barrier_all()
        });
        fine(results);
        let apart = hosts[1] != hosts[2];
        assert_eq!(letters >= 100, apart, "{hosts:?}: {letters} letters");
    }
}

#[kernel]
fn nap(ms: u64) {
    thread::sleep(Duration::from_millis(ms));
}

#[test]
fn whose_device_is_busy_on_another_machine_is_waited_for() {
    for hosts in [[None, None], [None, Some("b")]] {
        fine(
            on_machines(&hosts, &[1, 1], 0.5, |pe| {
                if pe.id() == 1 {
                    for _ in 0..5 {
                        launch!(pe, nap<<<1, 1>>>(300))?;
                    }
                    pe.stream().synchronize()?;
                }
                pe.barrier_all()
            })
            .0,
        );
    }
}

#[test]
fn who_is_missing_on_another_machine_is_named() {
    let hosts = [Some("a"), Some("b"), Some("b")];
    let (results, _) = on_machines(&hosts, &[1, 1, 1], 0.5, |pe| {
        if pe.id() == 2 {
            thread::sleep(Duration::from_secs(1));
        }
        pe.barrier_all()
    });
    let told = |result: &Result<(), Error>| match result {
        Err(Error::Collective(CollectiveError::TimeLimit { absent, .. })) => absent == &[2],
        Err(Error::PeerFailed { cause, .. }) => cause.contains("for PEs [2]"),
        _ => false,
    };
    assert!(results.iter().all(told), "{results:?}");
}

#[test]
fn members_of_other_processes_that_disagree_end_or_stay_away_are_named() {
    fine(in_processes(&[1, 1, 1, 1], 10.0, |pe| {
        let Some(team) = pe.team(&[3, 0, 2])? else {
            return pe.barrier_all();
        };
        let refused = team.split(&[0, u32::from(pe.id() == 2) + 1]).map(drop);
        let Err(Error::Team(TeamError::Mismatch { first, second })) = &refused else {
            panic!("{refused:?}")
        };
        assert_eq!((first.0, second.0), (3, 2));
        assert!(first.1.starts_with("split([0, 1])") && second.1.starts_with("split([0, 2])"));
        // Goes on.
        assert_eq!(team.split(&[2, 1])?.is_some(), pe.id() != 3);
        pe.barrier_all()
    }));

    let results = in_processes(&[1, 1, 1], 10.0, |pe| {
        let team = pe.team(&[2, 0])?;
        match (&team, pe.id()) {
            (Some(team), 2) => team.split(&[0]).map(drop),
            (None, _) => pe.barrier_all(),
            _ => Ok(()),
        }
    });
    let ended = matches!(
        &results[2],
        Err(Error::Collective(CollectiveError::PeerEnded { pe: 2, ended: 0, .. }))
    );
    // PE 1 may be the first to notice.
    let other = matches!(&results[2], Err(Error::PeerFailed { pe: 1, cause }) if cause.contains("PE 0 has ended"));
    assert!(ended || other, "{results:?}");

    let results = in_processes(&[1, 1, 1], 0.3, |pe| {
        let team = pe.team(&[2, 0])?;
        if let Some(team) = team.filter(|_| pe.id() == 0) {
            return team.split(&[0]).map(drop);
        }
        thread::sleep(Duration::from_secs(1));
        Ok(())
    });
    let Err(Error::Collective(CollectiveError::TimeLimit { absent, .. })) = &results[0] else {
        panic!("{results:?}")
    };
    assert_eq!(*absent, [2]);
}

#[test]
fn a_member_that_hears_nothing_is_told_of_failures() {
    let results = in_processes(&[1, 1, 1], 10.0, |pe| {
        let team = pe.team(&[2, 0])?;
        match (&team, pe.id()) {
            (Some(team), 0) => team.split(&[0]).map(drop),
            (_, 1) => Err(HeapError::Alignment { align: 3 }.into()),
            _ => loop {
                pe.stream().synchronize()?;
                thread::sleep(Duration::from_millis(1));
            },
        }
    });
    for result in [&results[0], &results[2]] {
        assert!(matches!(result, Err(Error::PeerFailed { pe: 1, .. })), "{results:?}");
    }
}

fn sealed(bytes: u64) -> OwnedFd {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
    let file = memfd_create("user's", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&file, bytes).unwrap();
    fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
    file
}

#[test]
fn registered_memory_is_reached_from_other_processes() {
    for counts in [&[1, 1][..], &[2, 3], &[1, 1, 1]] {
        fine(in_processes(counts, 10.0, |pe| {
            for round in 0..20 {
                let file = sealed(4096);
                let data = pe.register::<u32>(UserMemory::File(file.as_fd()), 1)?;
                collective_launch!(pe, shift<<<1, 1>>>(&data))?;
                pe.barrier_all()?;
                let mut word = [0; 4];
                rustix::io::pread(&file, &mut word, 0).unwrap();
                let n = pe.n();
                assert_eq!(u32::from_ne_bytes(word), 10 + (pe.id() + n - 1) % n);
                drop(data);
                // Its place comes back to every process.
                if round % 2 == 1 {
                    pe.barrier_all()?;
                    let all = pe.alloc::<u32>(pe.heap_stats().largest_free as usize / 4)?;
                    let last = all.part(all.len() - 1..)?;
                    assert_eq!(all.read(all.len() - 1)?, 0);
                    pe.barrier_all()?;
                    collective_launch!(pe, shift<<<1, 1>>>(last))?;
                    pe.barrier_all()?;
                    assert_eq!(all.read(all.len() - 1)?, 10 + (pe.id() + n - 1) % n);
                }
            }
            // One that can't be is refused everywhere, in words where it is another process's.
            let file = sealed(if pe.id() == 1 { 1 } else { 4096 });
            match pe.register::<u32>(UserMemory::File(file.as_fd()), 1).map(drop) {
                Err(Error::Register(RegisterError::TooShort { pe: 1, .. })) => {}
                Err(Error::Heap(HeapError::Refused { cause })) if pe.id() != 1 => {
                    assert!(cause.starts_with("PE 1: the object takes 4096 bytes"), "{cause}");
                }
                other => panic!("{other:?}"),
            }
            pe.barrier_all()
        }));
    }
}

#[test]
fn numbers_of_pes_that_make_no_world_are_told_everywhere() {
    let results = in_processes(&[1, 0, 2], 10.0, |pe| pe.barrier_all());
    assert!(
        matches!(results[1], Err(Error::Config(ConfigError::NoPes))),
        "{results:?}"
    );
    for result in [&results[0], &results[2]] {
        let Err(Error::PeerFailed { pe: 1, cause }) = result else {
            panic!("{results:?}")
        };
        assert!(cause.contains("a World of 0 PEs"), "{cause}");
    }
    for result in in_processes(&[1000, 25], 10.0, |pe| pe.barrier_all()) {
        assert!(
            matches!(result, Err(Error::Config(ConfigError::TooManyPes { asked: 1025 }))),
            "{result:?}"
        );
    }
}
