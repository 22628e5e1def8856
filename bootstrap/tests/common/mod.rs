//! Processes of a job for tests: the test binary starts itself again, with a part to play in SCENARIO.
#![allow(dead_code, reason = "every test binary takes what it needs")]

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The variable that says which part a process plays.
pub(crate) const SCENARIO: &str = "BOOTSTRAP_TEST_SCENARIO";
/// No test's call takes longer unless something is wrong.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);
/// The launcher.
pub(crate) const RUN: &str = env!("CARGO_BIN_EXE_shmem-run");

/// Arguments after which this binary plays its part: the test `peer`, and nothing else.
pub(crate) const PEER: [&str; 4] = ["peer", "--exact", "--nocapture", "--test-threads=1"];

/// This binary, playing a part.
pub(crate) fn part_of(scenario: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(PEER);
    prepare(&mut command, scenario);
    command
}

/// This binary, playing a part, after a launcher and its arguments.
pub(crate) fn launched(launcher: &str, arguments: &[&str], scenario: &str) -> Command {
    let mut command = Command::new(launcher);
    command.args(arguments).arg(std::env::current_exe().unwrap()).args(PEER);
    prepare(&mut command, scenario);
    command
}

fn prepare(command: &mut Command, scenario: &str) {
    for (name, _) in std::env::vars().filter(|(n, _)| n.starts_with("SHMEM_") || n.starts_with("PMIX_")) {
        command.env_remove(name);
    }
    for name in [
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
    ] {
        command.env_remove(name);
    }
    command
        .env(SCENARIO, scenario)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
}

/// How a process ended, and all that it wrote.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) when: Instant,
}

/// Waits for it; kills it and panics after the limit.
pub(crate) fn finish(mut child: Child, limit: Duration) -> Ended {
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let out = std::thread::spawn(move || {
        let mut text = Vec::new();
        out.read_to_end(&mut text).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    });
    let err = std::thread::spawn(move || {
        let mut text = Vec::new();
        err.read_to_end(&mut text).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    });
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > limit {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!(
                "a process did not end within {limit:?}: {} {}",
                out.join().unwrap(),
                err.join().unwrap()
            );
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let when = Instant::now();
    Ended {
        status,
        out: out.join().unwrap(),
        err: err.join().unwrap(),
        when,
    }
}

/// A small generator for seeds: the same numbers in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}
