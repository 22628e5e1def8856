//! Jobs of processes that are programs of this workspace.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// No job takes longer unless something is wrong.
const LIMIT: Duration = Duration::from_mins(2);
/// A variable that everything of a job inherits.
const MARK: &str = "SHMEM_TEST_MARK";

/// A program of the workspace, built as this test is.
pub(crate) fn program(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let exe = std::env::current_exe().unwrap();
        let folder = exe.parent().and_then(Path::parent).unwrap();
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        // Of the packages that `cargo xtask test` tests, and with a test among it: so dependencies have the same features there
        // and here, and are not compiled again.
        cargo.args(["build", "--workspace", "--exclude", "seeds", "--test", "launchers"]);
        cargo.args(["--bin", "shmem-run", "--bin", "simple-shift", "--bin", "ring"]);
        if folder.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(cargo.status().unwrap().success());
        folder.to_owned()
    };
    FOLDER.get_or_init(build).join(name)
}

/// A port for torchrun's store; in a job on one node it is a name and no more.
pub(crate) fn port(number: u16) -> u16 {
    20000 + (std::process::id() % 300) as u16 * 100 + number
}

/// How a process ended, and what it wrote.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

struct Process {
    child: Child,
    out: JoinHandle<String>,
    err: JoinHandle<String>,
}

/// Some processes and what they start. One job at a time: what it leaves behind would be seen.
pub(crate) struct Job {
    mark: String,
    shm: BTreeSet<PathBuf>,
    processes: Vec<Process>,
    /// Pids of everything seen with the mark, whose sockets would tell them.
    pids: BTreeSet<u32>,
    _alone: std::sync::MutexGuard<'static, ()>,
}

impl Job {
    pub(crate) fn new() -> Self {
        static JOBS: AtomicU32 = AtomicU32::new(0);
        static ALONE: Mutex<()> = Mutex::new(());
        program("");
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let number = JOBS.fetch_add(1, Ordering::Relaxed);
        Self {
            mark: format!("{}-{number}", std::process::id()),
            shm: shm(),
            processes: vec![],
            pids: BTreeSet::new(),
            _alone: alone,
        }
    }

    pub(crate) fn start(&mut self, command: &mut Command) {
        let foreign = ["SHMEM_", "PMIX_", "OMPI_"];
        let set: Vec<_> = command.get_envs().map(|(name, _)| name.to_owned()).collect();
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if foreign.iter().any(|start| text.starts_with(start)) && !set.contains(&name) {
                command.env_remove(&name);
            }
        }
        command
            .env("SHMEM_BACKEND", "sim")
            .env("SHMEM_HEAP", "64M")
            .env(MARK, &self.mark);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        self.processes.push(Process {
            child,
            out: thread::spawn(move || text(out)),
            err: thread::spawn(move || text(err)),
        });
    }

    /// Until it has the simulator's thread: then it is in a World with the others.
    pub(crate) fn wait_until_joined(&self, process: usize) {
        let begun = Instant::now();
        let tasks = format!("/proc/{}/task", self.processes[process].child.id());
        let is_simulator = |task: std::io::Result<std::fs::DirEntry>| {
            let name = task.and_then(|task| std::fs::read_to_string(task.path().join("comm")));
            name.is_ok_and(|name| name.trim() == "shmem-sim")
        };
        while !std::fs::read_dir(&tasks).unwrap().any(is_simulator) {
            assert!(begun.elapsed() < LIMIT, "no World was made");
            thread::sleep(Duration::from_millis(1));
        }
    }

    pub(crate) fn kill(&mut self, process: usize) {
        self.processes[process].child.kill().unwrap();
    }

    /// Waits for all; looks that nothing is left of them.
    pub(crate) fn finish(mut self) -> Vec<Ended> {
        let begun = Instant::now();
        let ended = std::mem::take(&mut self.processes).into_iter().map(|mut process| {
            let status = loop {
                self.pids.extend(marked(&self.mark));
                match process.child.try_wait().unwrap() {
                    Some(status) => break status,
                    None if begun.elapsed() > LIMIT => {
                        process.child.kill().unwrap();
                        process.child.wait().unwrap();
                        let said = (process.out.join().unwrap(), process.err.join().unwrap());
                        panic!("a process did not end within {LIMIT:?}: {said:?}");
                    }
                    None => thread::sleep(Duration::from_millis(20)),
                }
            };
            Ended {
                status,
                out: process.out.join().unwrap(),
                err: process.err.join().unwrap(),
            }
        });
        let ended = ended.collect();
        self.leaves_nothing();
        ended
    }

    fn leaves_nothing(&self) {
        // Open MPI's daemon ends after mpirun has.
        let begun = Instant::now();
        loop {
            let processes = marked(&self.mark);
            let new: Vec<_> = shm().difference(&self.shm).cloned().collect();
            let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
            let sockets: Vec<_> = sockets.lines().filter(|line| self.has_socket(line)).collect();
            if processes.is_empty() && new.is_empty() && sockets.is_empty() {
                return;
            }
            assert!(
                begun.elapsed() < Duration::from_secs(5),
                "left behind: processes {processes:?}, shared memory {new:?}, sockets {sockets:?}"
            );
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn has_socket(&self, line: &str) -> bool {
        let of = |pid: &u32| line.contains(&format!("@shmem-{pid}-"));
        self.pids.iter().any(of)
    }
}

fn text(mut from: impl Read) -> String {
    let mut bytes = vec![];
    from.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn shm() -> BTreeSet<PathBuf> {
    let entries = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    // Files of this project, and of nobody else who works on this machine.
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().contains("shmem"));
    ours.map(|entry| entry.path()).collect()
}

/// Processes that have this mark.
fn marked(mark: &str) -> BTreeSet<u32> {
    let wanted = format!("{MARK}={mark}");
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|one| one == wanted.as_bytes()) {
            found.insert(pid);
        }
    }
    found
}
