//! The examples as jobs of several processes: by shmem-run, by torchrun's variables, by mpirun. Each job prints what it should,
//! and leaves nothing behind.

mod job;

use job::{Ended, Job, program};
use std::process::Command;

/// Lines that a job printed, in order.
fn lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// What PEs 0 to n - 1 print between them, in order.
fn each(n: u32, line: impl Fn(u32) -> String) -> Vec<String> {
    let mut lines: Vec<_> = (0..n).map(line).collect();
    lines.sort_unstable();
    lines
}

const EXAMPLES: [&str; 2] = ["simple-shift", "ring"];

/// Whether everyone ended well, and a job of `n` PEs printed what the example prints.
fn check(example: &str, n: u32, ended: &[Ended]) {
    assert!(
        ended.iter().all(|one| one.status.success()),
        "{example}, {n} PEs: {ended:?}"
    );
    let all = ended.iter().map(|one| one.out.as_str()).collect::<String>();
    let expected = each(n, |pe| match example {
        "simple-shift" => format!("PE {pe}/{n} received {}", (pe + n - 1) % n),
        _ => format!("PE {pe}/{n} ring verified: 100 launches of 3 rounds, 4012 elements"),
    });
    assert_eq!(lines(&all), expected, "{ended:?}");
}

#[test]
fn shmem_run_starts_2_to_8_processes() {
    for n in 2..=8 {
        for example in EXAMPLES.into_iter().take(if n % 3 == 2 { 2 } else { 1 }) {
            let mut job = Job::new();
            let run = program("shmem-run");
            job.start(
                Command::new(run)
                    .args(["--no-prefix", "-n", &n.to_string(), "--"])
                    .arg(program(example)),
            );
            check(example, n, &job.finish());
        }
    }
}

#[test]
fn processes_have_several_pes_each() {
    for example in EXAMPLES {
        let mut job = Job::new();
        let mut command = Command::new(program("shmem-run"));
        command.args(["--no-prefix", "-n", "3", "--"]).arg(program(example));
        job.start(command.env("SHMEM_NPES", "2"));
        check(example, 6, &job.finish());
    }
}

/// As torchrun starts them: its store, at MASTER_PORT, is nothing to us.
fn torchrun(job: &mut Job, example: &str, n: u32, port: u16) {
    for rank in 0..n {
        let variables = [
            ("RANK", rank.to_string()),
            ("LOCAL_RANK", rank.to_string()),
            ("GROUP_RANK", "0".to_owned()),
            ("WORLD_SIZE", n.to_string()),
            ("LOCAL_WORLD_SIZE", n.to_string()),
            ("MASTER_ADDR", "127.0.0.1".to_owned()),
            ("MASTER_PORT", port.to_string()),
            ("TORCHELASTIC_RUN_ID", "none".to_owned()),
        ];
        job.start(Command::new(program(example)).envs(variables));
    }
}

#[test]
fn torchruns_variables_are_enough() {
    for (i, n) in (0..).zip([2, 3, 8]) {
        for (j, example) in (0..).zip(EXAMPLES) {
            let mut job = Job::new();
            torchrun(&mut job, example, n, job::port(2 * i + j));
            check(example, n, &job.finish());
        }
    }
}

#[test]
fn mpirun_needs_nothing_set() {
    if Command::new("mpirun").arg("--version").output().is_err() {
        eprintln!("skipped: there is no mpirun here (Debian: openmpi-bin; `cargo xtask setup` installs it)");
        return;
    }
    for n in [2, 4] {
        for example in EXAMPLES {
            let mut job = Job::new();
            let mut command = Command::new("mpirun");
            command.args(["--allow-run-as-root", "--oversubscribe", "-n", &n.to_string()]);
            job.start(command.arg(program(example)));
            check(example, n, &job.finish());
        }
    }
}

/// A process is killed while the ring turns: the others say whose PE it was, and shmem-run tells the signal.
#[test]
fn the_others_end_when_one_is_killed() {
    for seed in 0..5 {
        let mut job = Job::new();
        torchrun(&mut job, "ring", 4, job::port(20 + seed));
        let victim = (seed + 1) as usize % 4;
        job.wait_until_joined(victim);
        job.kill(victim);
        for (rank, ended) in job.finish().iter().enumerate().filter(|(rank, _)| *rank != victim) {
            let told = format!("PE {victim} failed: its connection closed without a goodbye");
            assert!(
                !ended.status.success() && ended.err.contains(&told),
                "seed {seed}, process {rank}, {victim} killed: {ended:?}"
            );
        }
    }
}
