//! Starting the processes, and what they are told.

use crate::guard::Guard;
use crate::output;
use anyhow::Context;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use shmem_bootstrap::Secret;
use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader};
use std::net::TcpListener;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

/// How many streams of one process run side by side on a device.
const CONNECTIONS: &str = "CUDA_DEVICE_MAX_CONNECTIONS";

/// A process that was started.
pub(crate) struct Process {
    pub(crate) rank: u32,
    pub(crate) child: Child,
    pub(crate) pid: Pid,
    /// It was waited for: its number may be another's.
    pub(crate) over: bool,
}

/// All of them.
pub(crate) struct Job {
    pub(crate) processes: Vec<Process>,
    pub(crate) output: Vec<JoinHandle<()>>,
    pub(crate) guard: Guard,
    /// Rank 0 writes who failed first.
    pub(crate) reports: PipeReader,
}

impl Drop for Job {
    /// Whatever happened, nothing stays.
    fn drop(&mut self) {
        for process in self.processes.iter_mut().filter(|p| !p.over) {
            crate::watch::signal(process.pid, Signal::KILL);
            // It was killed: this takes no time.
            let _ = process.child.wait();
        }
    }
}

pub(crate) fn start(n: u32, command: &[OsString], prefix: bool, guard: Guard) -> anyhow::Result<Job> {
    let (program, arguments) = command.split_first().context("no program was named")?;
    // The socket is made here and handed on, so that nobody can take the port in between.
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("no port on 127.0.0.1")?;
    let root = listener.local_addr()?.to_string();
    let secret = Secret::random()?;
    let (reports, report) = std::io::pipe()?;
    let mut job = Job {
        reports,
        processes: Vec::new(),
        output: Vec::new(),
        guard,
    };
    for rank in 0..n {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("SHMEM_RANK", rank.to_string())
            .env("SHMEM_SIZE", n.to_string())
            .env("SHMEM_ROOT", &root)
            .env("SHMEM_SECRET", OsStr::from_bytes(secret.reveal()))
            .env_remove("SHMEM_SECRET_FILE")
            .env_remove("SHMEM_ROOT_FD")
            .env_remove("SHMEM_REPORT_FD")
            .stdin(stdin(rank))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        // Streams of PEs that share a device need a connection each.
        if std::env::var_os(CONNECTIONS).is_none() {
            command.env(CONNECTIONS, "32");
        }
        let handed_on = (rank == 0).then(|| [listener.as_raw_fd(), report.as_raw_fd()]);
        if let Some([socket, report]) = handed_on {
            command.env("SHMEM_ROOT_FD", socket.to_string());
            command.env("SHMEM_REPORT_FD", report.to_string());
        }
        let parent = rustix::process::getpid();
        // SAFETY: between fork and exec only system calls are made.
        unsafe { command.pre_exec(move || prepare(parent, handed_on)) };
        let mut child = command
            .spawn()
            .with_context(|| format!("{} can't be started", program.display()))?;
        let pid = Pid::from_raw(child.id() as i32).context("a process without a number")?;
        job.guard.add(pid);
        let label = if prefix { format!("[{rank}] ") } else { String::new() };
        let (out, err) = (child.stdout.take(), child.stderr.take());
        job.processes.push(Process {
            rank,
            child,
            pid,
            over: false,
        });
        job.output
            .extend(out.map(|o| output::copy(o, label.clone(), io::stdout())));
        job.output.extend(err.map(|e| output::copy(e, label, io::stderr())));
    }
    Ok(job)
}

/// Rank 0 reads what shmem-run is given, unless it is a terminal: that is for one process group, and this one is another.
fn stdin(rank: u32) -> Stdio {
    use std::io::IsTerminal;
    if rank == 0 && !io::stdin().is_terminal() {
        Stdio::inherit()
    } else {
        Stdio::null()
    }
}

/// In the new process.
fn prepare(parent: Pid, handed_on: Option<[RawFd; 2]>) -> io::Result<()> {
    // If shmem-run is killed, so is this. (The thread that starts processes is the main one, whose end this is about.)
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid() != Some(parent) {
        return Err(io::Error::other("shmem-run has ended"));
    }
    for fd in handed_on.into_iter().flatten() {
        // SAFETY: the socket's and the pipe's numbers, which are open until all processes are started, and the same here.
        let fd = unsafe { rustix::fd::BorrowedFd::borrow_raw(fd) };
        rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())?;
    }
    Ok(())
}
