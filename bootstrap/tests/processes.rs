//! Jobs of real processes, under each launcher, and with processes that are killed.

mod common;

use common::{Ended, LIMIT, RUN, Random, SCENARIO, finish, launched, part_of};
use shmem_bootstrap::{Bootstrap, BootstrapError, Settings};
use std::collections::BTreeSet;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Not a test of its own: what the processes of the other tests do.
#[test]
fn peer() {
    let Ok(scenario) = std::env::var(SCENARIO) else { return };
    let result = match scenario.as_str() {
        "calls" => calls(1),
        "again" => calls(10),
        "forever" => forever(),
        "fails" => fails(),
        "leaves" => leaves(),
        "impatient" => impatient(),
        other => panic!("{other}?"),
    };
    if let Err(error) = result {
        println!("error: {error}");
        std::process::exit(if matches!(error, BootstrapError::PeerFailed(_)) {
            7
        } else {
            8
        });
    }
}

fn join() -> Result<Bootstrap, BootstrapError> {
    Bootstrap::join(&Settings::from_env()?.expect("a launcher's variables"))
}

fn calls(times: usize) -> Result<(), BootstrapError> {
    for _ in 0..times {
        let job = join()?;
        let (rank, size) = (job.rank(), job.size());
        for round in 0..20 {
            let mine = vec![rank as u8; (rank as usize + round) % 5 * 100];
            let all = job.allgather(&mine, LIMIT)?;
            for (r, bytes) in all.iter().enumerate() {
                assert_eq!(*bytes, vec![r as u8; (r + round) % 5 * 100]);
            }
            let from = round as u32 % size;
            let word = format!("{round} of {rank}");
            assert_eq!(
                job.broadcast(from, word.as_bytes(), LIMIT)?,
                format!("{round} of {from}").as_bytes()
            );
            job.barrier(LIMIT)?;
        }
        assert_eq!((job.local_rank(), job.local_size()), (rank, size));
        println!("done {rank}/{size} by {}", job.source());
        job.finish(LIMIT)?;
    }
    Ok(())
}

/// Until an error.
fn forever() -> Result<(), BootstrapError> {
    let job = join()?;
    println!("up");
    let mut round = 0_u64;
    loop {
        match round % 3 {
            0 => job.barrier(LIMIT)?,
            1 => drop(job.allgather(&[7; 1000], LIMIT)?),
            // A process that computes hears of it without a call.
            _ => {
                let until = Instant::now() + Duration::from_millis(5);
                while Instant::now() < until && job.failure().is_none() {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
        round += 1;
    }
}

fn fails() -> Result<(), BootstrapError> {
    let job = join()?;
    job.barrier(LIMIT)?;
    if job.rank() == 1 {
        job.fail("no memory is left on GPU 1");
        // At once, without any destructor.
        std::process::exit(9);
    }
    job.barrier(LIMIT)
}

/// Until a call takes a second.
fn impatient() -> Result<(), BootstrapError> {
    let job = join()?;
    println!("up");
    loop {
        job.barrier(Duration::from_secs(1))?;
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// An early return of one process.
fn leaves() -> Result<(), BootstrapError> {
    let job = join()?;
    job.barrier(LIMIT)?;
    if job.rank() == 0 {
        return Ok(());
    }
    job.finish(LIMIT)
}

fn count(text: &str, what: &str) -> usize {
    text.matches(what).count()
}

fn by_variables(n: u32, scenario: &str, variables: impl Fn(u32, &mut Command)) -> Vec<Child> {
    (0..n)
        .map(|rank| {
            let mut command = part_of(scenario);
            variables(rank, &mut command);
            command.spawn().unwrap()
        })
        .collect()
}

fn all_done(ended: &[Ended], by: &str) {
    let n = ended.len();
    for (rank, e) in ended.iter().enumerate() {
        assert!(
            e.status.success() && e.out.contains(&format!("done {rank}/{n} by {by}")),
            "{e:?}"
        );
    }
}

#[test]
fn shmem_run_starts_2_to_8_processes() {
    for n in [1, 2, 3, 8] {
        let ended = finish(
            launched(RUN, &["-n", &n.to_string(), "--"], "calls").spawn().unwrap(),
            LIMIT,
        );
        assert!(ended.status.success(), "{ended:?}");
        for rank in 0..n {
            let (label, done) = (format!("[{rank}] "), format!("done {rank}/{n} by SHMEM_RANK"));
            let lines = ended
                .out
                .lines()
                .filter(|l| l.starts_with(&label) && l.ends_with(&done));
            assert_eq!(lines.count(), 1, "{ended:?}");
        }
    }
}

#[test]
fn a_job_is_made_anew_in_the_same_processes() {
    let ended = finish(launched(RUN, &["-n", "4", "--"], "again").spawn().unwrap(), LIMIT);
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(count(&ended.out, "done "), 40);
}

#[test]
fn torchruns_variables_on_one_node_need_no_secret() {
    let port = 20000 + std::process::id() % 10000;
    let children = by_variables(4, "again", |rank, command| {
        command
            .env("RANK", rank.to_string())
            .env("LOCAL_RANK", rank.to_string())
            .env("WORLD_SIZE", "4")
            .env("LOCAL_WORLD_SIZE", "4")
            .env("MASTER_ADDR", "127.0.0.1")
            .env("MASTER_PORT", port.to_string());
    });
    all_done(
        &children.into_iter().map(|c| finish(c, LIMIT)).collect::<Vec<_>>(),
        "torchrun",
    );
}

#[test]
fn torchruns_variables_with_a_secret_go_over_tcp() {
    // torchrun's own store has MASTER_PORT; the next one was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let children = by_variables(3, "calls", |rank, command| {
        command
            .env("RANK", rank.to_string())
            .env("WORLD_SIZE", "3")
            .env("MASTER_ADDR", "localhost")
            .env("MASTER_PORT", (port - 1).to_string())
            .env("SHMEM_SECRET", "a secret for this test");
    });
    all_done(
        &children.into_iter().map(|c| finish(c, LIMIT)).collect::<Vec<_>>(),
        "torchrun",
    );
}

#[test]
fn torchruns_variables_on_several_nodes_ask_for_a_secret() {
    let children = by_variables(1, "calls", |_, command| {
        let all = [
            ("RANK", "0"),
            ("WORLD_SIZE", "2"),
            ("LOCAL_WORLD_SIZE", "1"),
            ("MASTER_ADDR", "node1"),
            ("MASTER_PORT", "29500"),
        ];
        command.envs(all);
    });
    for ended in children.into_iter().map(|c| finish(c, LIMIT)) {
        assert!(
            ended.status.code() == Some(8) && ended.out.contains("set SHMEM_SECRET"),
            "{ended:?}"
        );
    }
}

#[test]
fn open_mpis_mpirun_needs_nothing_set() {
    if Command::new("mpirun").arg("--version").output().is_err() {
        eprintln!("skipped: there is no mpirun here (Debian: openmpi-bin; `cargo xtask setup` installs it)");
        return;
    }
    let mut command = launched(
        "mpirun",
        &["--allow-run-as-root", "--oversubscribe", "-n", "4"],
        "again",
    );
    let ended = finish(command.spawn().unwrap(), 3 * LIMIT);
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(count(&ended.out, "by PMIx"), 40, "{ended:?}");
}

#[test]
fn a_failure_is_told_with_its_cause() {
    let ended = finish(launched(RUN, &["-n", "4", "--"], "fails").spawn().unwrap(), LIMIT);
    // Of the one that failed, also if one that heard of it ended before.
    assert_eq!(ended.status.code(), Some(9), "{ended:?}");
    assert_eq!(
        count(&ended.out, "error: process 1 failed: no memory is left on GPU 1"),
        3,
        "{ended:?}"
    );
}

#[test]
fn an_early_return_is_a_failure() {
    let ended = finish(launched(RUN, &["-n", "3", "--"], "leaves").spawn().unwrap(), LIMIT);
    assert_eq!(ended.status.code(), Some(7), "{ended:?}");
    assert_eq!(
        count(&ended.out, "error: process 0 failed: it left without finishing"),
        2,
        "{ended:?}"
    );
}

/// For 50 seeds, one of the processes, rank 0 too, is killed at a random time; the others end with the news within a second.
#[test]
fn a_killed_process_is_known_to_the_others_in_time() {
    for seed in 0..50 {
        let mut random = Random(seed);
        let n = 2 + random.below(5) as u32;
        let name = format!("unix:bootstrap-test-{}-{seed}", std::process::id());
        let mut children = by_variables(n, "forever", |rank, command| {
            command
                .env("SHMEM_RANK", rank.to_string())
                .env("SHMEM_SIZE", n.to_string())
                .env("SHMEM_JOIN_TIMEOUT", "3")
                .env("SHMEM_ROOT", &name);
        });
        let victim = random.below(n.into()) as usize;
        // Also before all have come, now and then.
        std::thread::sleep(Duration::from_millis(random.below(150)));
        let mut killed = children.remove(victim);
        killed.kill().unwrap();
        let when = Instant::now();
        for ended in all(children) {
            let news = format!("error: process {victim} failed: its connection closed without a goodbye");
            let late = ended.when.duration_since(when);
            if ended.out.contains("up") {
                assert!(late < Duration::from_secs(1), "seed {seed}: after {late:?} {ended:?}");
                assert!(
                    ended.status.code() == Some(7) && ended.out.contains(&news),
                    "seed {seed}: {ended:?}"
                );
            } else {
                // The job was never complete: the limit of joining ends it.
                assert!(
                    !ended.status.success() && ended.out.contains("error: "),
                    "seed {seed}: {ended:?}"
                );
            }
        }
        killed.wait().unwrap();
    }
}

/// Waits for all at the same time: when each ended counts.
fn all(children: Vec<Child>) -> Vec<Ended> {
    let waiting: Vec<_> = children
        .into_iter()
        .map(|c| std::thread::spawn(move || finish(c, LIMIT)))
        .collect();
    waiting.into_iter().map(|w| w.join().unwrap()).collect()
}

/// Processes whose environment has this.
fn with_variable(text: &str) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
            continue;
        };
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.split(|b| *b == 0).any(|v| v == text.as_bytes()) {
            found.insert(pid);
        }
    }
    found
}

fn gone(mark: &str) {
    let begun = Instant::now();
    while !with_variable(mark).is_empty() {
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "left over: {:?}",
            with_variable(mark)
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn shmem_run_leaves_nothing_when_it_is_killed() {
    let mark = format!("killed-{}", std::process::id());
    let script = ["-n", "3", "--", "sh", "-c", "sleep 300 & sleep 300"];
    let mut run = Command::new(RUN)
        .args(script)
        .env("BOOTSTRAP_TEST_MARK", &mark)
        .spawn()
        .unwrap();
    let mark = format!("BOOTSTRAP_TEST_MARK={mark}");
    // shmem-run and its guard, three shells, six sleeps.
    while with_variable(&mark).len() < 11 {
        std::thread::sleep(Duration::from_millis(5));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    gone(&mark);
}

fn script(text: &str, more: &[&str]) -> (Command, String) {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let mark = format!(
        "script-{}-{}",
        std::process::id(),
        NUMBER.fetch_add(1, Ordering::Relaxed)
    );
    let mut command = Command::new(RUN);
    command
        .args(more)
        .args(["-n", "3", "--", "sh", "-c", text])
        .env("BOOTSTRAP_TEST_MARK", &mark);
    command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    (command, format!("BOOTSTRAP_TEST_MARK={mark}"))
}

#[test]
fn shmem_run_ends_the_rest_and_tells_the_first_failure() {
    for (how, code) in [("exit 5", 5), ("kill -9 $$", 137), ("kill -TERM $$", 143)] {
        let text = format!("[ $SHMEM_RANK = 1 ] && {{ sleep 0.1; {how}; }}; trap '' TERM; sleep 300 & wait; sleep 300");
        let (mut command, mark) = script(&text, &["--grace", "0.2"]);
        let ended = finish(command.spawn().unwrap(), LIMIT);
        assert_eq!(ended.status.code(), Some(code), "{ended:?}");
        assert!(ended.err.contains("shmem-run: process 1 "), "{ended:?}");
        gone(&mark);
    }
}

#[test]
fn shmem_run_forwards_signals() {
    let (mut command, mark) = script(
        "trap 'echo usr; exit 0' USR1; echo ready; while :; do sleep 0.01; done",
        &[],
    );
    let child = command.spawn().unwrap();
    let pid = child.id();
    let signaller = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500));
        Command::new("kill").args(["-USR1", &pid.to_string()]).status().unwrap()
    });
    let ended = finish(child, LIMIT);
    assert!(signaller.join().unwrap().success());
    assert_eq!(
        (ended.status.code(), count(&ended.out, "usr\n")),
        (Some(0), 3),
        "{ended:?}"
    );
    gone(&mark);
}

#[test]
fn shmem_run_prefixes_whole_lines_and_hides_the_secret() {
    let text = "printf 'a\\nb'; tr '\\0' ' ' </proc/$$/cmdline >&2; [ ${#SHMEM_SECRET} = 64 ] && exit 0";
    let (mut command, _) = script(text, &[]);
    let ended = finish(command.spawn().unwrap(), LIMIT);
    let lines: BTreeSet<&str> = ended.out.lines().collect();
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(
        lines,
        BTreeSet::from(["[0] a", "[0] b", "[1] a", "[1] b", "[2] a", "[2] b"])
    );
    assert!(ended.err.lines().all(|l| l.contains("] sh -c ")), "{ended:?}");
    let missing = finish(script("exit 0", &["-n0"]).0.spawn().unwrap(), LIMIT);
    assert_eq!(missing.status.code(), Some(2));
}

/// What is not there is said, by the processes that are.
#[test]
fn a_process_that_never_comes_is_named() {
    let name = format!("unix:bootstrap-test-absent-{}", std::process::id());
    let children = by_variables(3, "calls", |rank, command| {
        command
            .env("SHMEM_RANK", rank.to_string())
            .env("SHMEM_SIZE", "4")
            .env("SHMEM_ROOT", &name)
            .env("SHMEM_JOIN_TIMEOUT", "1");
    });
    for ended in all(children) {
        assert!(ended.out.contains("rank 3 has not come"), "{ended:?}");
        assert!(!ended.status.success());
    }
}

/// A process that is stopped is not dead: the time limit finds it. Whoever is stopped, nobody waits longer.
#[test]
fn a_stopped_process_is_found_by_the_time_limit() {
    use std::io::Read;
    for (stopped, what) in [(1, "rank 1 has not come"), (0, "rank 0 does not answer")] {
        let name = format!("unix:bootstrap-test-stopped-{}-{stopped}", std::process::id());
        let mut children = by_variables(3, "impatient", |rank, command| {
            command
                .env("SHMEM_RANK", rank.to_string())
                .env("SHMEM_SIZE", "3")
                .env("SHMEM_ROOT", &name);
        });
        // All of them: one that has not heard that all have come waits as long as it may for joining.
        for child in &mut children {
            let mut text = String::new();
            while !text.contains("up") {
                let mut byte = [0];
                child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
                text.push(byte[0].into());
            }
        }
        let mut frozen = children.remove(stopped);
        let pid = frozen.id().to_string();
        assert!(Command::new("kill").args(["-STOP", &pid]).status().unwrap().success());
        let when = Instant::now();
        for ended in all(children) {
            assert!(ended.out.contains("error: ") && ended.out.contains(what), "{ended:?}");
            let late = ended.when.duration_since(when);
            assert!(late < Duration::from_secs(4), "after {late:?} {ended:?}");
        }
        frozen.kill().unwrap();
        frozen.wait().unwrap();
    }
}
