//! The ends of the processes, signals, the exit code.

use crate::job::Job;
use anyhow::Context;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::io::{BufRead, BufReader};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// What is waited for.
enum Event {
    /// This process of the list has ended, and is still to be reaped.
    Ended(usize),
    Signal(i32),
    /// Rank 0 says that this rank failed first.
    Failed(u32),
}

/// The signals that are passed on.
pub(crate) fn signals() -> anyhow::Result<Signals> {
    Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2]).context("signals can't be waited for")
}

/// To a whole group; it may be gone.
pub(crate) fn signal(group: Pid, signal: Signal) {
    let _ = kill_process_group(group, signal);
}

/// What is done next to processes that are still there.
#[derive(Clone, Copy)]
enum Next {
    Terminate,
    Kill,
}

/// Waits for all; the exit code.
pub(crate) fn watch(mut job: Job, mut signals: Signals, grace: Duration) -> u8 {
    let (events, next) = mpsc::channel();
    let stop = signals.handle();
    let passes = {
        let events = events.clone();
        std::thread::spawn(move || signals.forever().all(|s| events.send(Event::Signal(s)).is_ok()))
    };
    for (at, process) in job.processes.iter().enumerate() {
        let (events, pid) = (events.clone(), process.pid);
        std::thread::spawn(move || {
            // Seen, but not reaped: its number stays its own until its group has been ended.
            while waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
                .is_err_and(|e| e == rustix::io::Errno::INTR)
            {}
            // Without a receiver all is over.
            let _ = events.send(Event::Ended(at));
        });
    }
    if let Ok(reports) = job.reports.try_clone() {
        // Waited for with the last lines: it ends with rank 0.
        job.output.push(std::thread::spawn(move || {
            let ranks = BufReader::new(reports)
                .lines()
                .map_while(Result::ok)
                .filter_map(|l| l.parse().ok());
            let _ = ranks.map(Event::Failed).try_for_each(|e| events.send(e));
        }));
    }
    let mut left = job.processes.len();
    let mut code = 0;
    let mut codes = vec![0; left];
    let mut first = None;
    let mut deadline: Option<(Instant, Next)> = None;
    while left > 0 {
        let event = match deadline {
            None => next.recv().ok(),
            Some((at, _)) => next.recv_timeout(at.saturating_duration_since(Instant::now())).ok(),
        };
        match event {
            Some(Event::Ended(at)) => {
                let ended = reap(&mut job, at);
                codes[at] = ended;
                left -= 1;
                if ended != 0 && code == 0 {
                    code = ended;
                    deadline.get_or_insert((Instant::now() + grace, Next::Terminate));
                }
            }
            Some(Event::Failed(rank)) => first = first.or(Some(rank)),
            Some(Event::Signal(number)) => {
                if let Some(s) = Signal::from_named_raw(number) {
                    to_all(&job, s);
                }
                if !matches!(number, SIGUSR1 | SIGUSR2) && !matches!(deadline, Some((_, Next::Kill))) {
                    deadline = Some((Instant::now() + grace, Next::Kill));
                }
            }
            None => {
                deadline = if let Some((_, Next::Terminate)) = deadline {
                    to_all(&job, Signal::TERM);
                    Some((Instant::now() + grace, Next::Kill))
                } else {
                    to_all(&job, Signal::KILL);
                    None
                };
            }
        }
    }
    stop.close();
    // A thread that only waits has nothing to say.
    let _ = passes.join();
    finish_output(&mut job);
    // Reports were written before their processes ended.
    while let Ok(event) = next.try_recv() {
        if let Event::Failed(rank) = event {
            first = first.or(Some(rank));
        }
    }
    let cause = first
        .and_then(|rank| codes.get(rank as usize))
        .copied()
        .filter(|code| *code != 0);
    cause.unwrap_or(code)
}

fn to_all(job: &Job, s: Signal) {
    for process in job.processes.iter().filter(|p| !p.over) {
        signal(process.pid, s);
    }
}

/// Ends what the process left in its group, and says how it ended.
fn reap(job: &mut Job, at: usize) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let process = &mut job.processes[at];
    signal(process.pid, Signal::KILL);
    job.guard.remove(process.pid);
    let (rank, status) = (process.rank, process.child.wait());
    process.over = true;
    let Ok(status) = status else { return 1 };
    match (status.code(), status.signal()) {
        (Some(0), _) => return 0,
        (Some(code), _) => eprintln!("shmem-run: process {rank} exited with code {code}"),
        (None, Some(s)) => eprintln!("shmem-run: process {rank} was ended by signal {s}"),
        (None, None) => {}
    }
    status.code().or(status.signal().map(|s| 128 + s)).unwrap_or(1) as u8
}

/// Waits for the last lines, but not for who left the process groups and holds a pipe.
fn finish_output(job: &mut Job) {
    const LAST_LINES: Duration = Duration::from_secs(1);
    let deadline = Instant::now() + LAST_LINES;
    while Instant::now() < deadline && !job.output.iter().all(std::thread::JoinHandle::is_finished) {
        std::thread::sleep(Duration::from_millis(1));
    }
}
