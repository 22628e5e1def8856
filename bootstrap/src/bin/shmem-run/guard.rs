//! Ends what the processes started when shmem-run itself is killed.
//!
//! The processes have the kernel's word for that (PR_SET_PDEATHSIG), but what they start in turn does not. So a second shmem-run, in a
//! session of its own, holds the end of a pipe: when it closes, it kills the process groups that it was told of.

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::BTreeSet;
use std::io::{BufRead, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

/// shmem-run's end.
pub(crate) struct Guard {
    child: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command
            .arg("--guard")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Not in the terminal's group: Ctrl-C is not for it.
            .process_group(0)
            .current_dir("/");
        let mut child = command.spawn().context("the guard can't be started")?;
        let pipe = child.stdin.take();
        Ok(Self { child, pipe })
    }

    pub(crate) fn add(&mut self, group: Pid) {
        self.tell('+', group);
    }

    /// Before the group's leader is waited for: its number may be another's after that.
    pub(crate) fn remove(&mut self, group: Pid) {
        self.tell('-', group);
    }

    fn tell(&mut self, what: char, group: Pid) {
        if let Some(pipe) = &mut self.pipe {
            // Without a guard the job still runs.
            let _ = writeln!(pipe, "{what}{}", group.as_raw_nonzero());
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.pipe = None;
        // It ends with the pipe.
        let _ = self.child.wait();
    }
}

/// The guard's side.
pub(crate) fn serve() {
    let mut groups = BTreeSet::new();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let (what, number) = line.split_at_checked(1).unwrap_or_default();
        match (what, number.parse::<i32>().ok().and_then(Pid::from_raw)) {
            ("+", Some(group)) => groups.insert(group.as_raw_nonzero()),
            ("-", Some(group)) => groups.remove(&group.as_raw_nonzero()),
            _ => false,
        };
    }
    for group in groups {
        if let Some(group) = Pid::from_raw(group.get()) {
            // Gone already, most likely.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
