//! What each host thread has submitted and does, and which collective launches belong together.

use crate::failure::Failure;
use crate::kernel::Kernel;
use std::collections::VecDeque;

/// What a host thread does, as the simulator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    Runs,
    WaitsFor(u32),
    InCollective,
    Ended,
    /// Whatever it does, another process does it.
    Elsewhere,
}

/// One PE's host thread.
pub(crate) struct Host {
    streams: Vec<Stream>,
    /// Streams that it waits for.
    waits: Vec<u32>,
    /// Host collectives that it is in.
    blocked: u32,
    detached: bool,
    elsewhere: bool,
    /// It has kept the simulator waiting since it last did anything.
    late: bool,
    collectives: u64,
    plains: u64,
}

#[derive(Default)]
struct Stream {
    submitted: u64,
    done: u64,
}

impl Host {
    pub(crate) fn new() -> Self {
        Self {
            streams: vec![Stream::default()],
            waits: Vec::new(),
            blocked: 0,
            detached: false,
            elsewhere: false,
            late: false,
            collectives: 0,
            plains: 0,
        }
    }

    /// One of another process.
    pub(crate) fn elsewhere() -> Self {
        Self {
            elsewhere: true,
            ..Self::new()
        }
    }

    pub(crate) fn add_stream(&mut self) -> u32 {
        self.streams.push(Stream::default());
        self.streams.len() as u32 - 1
    }

    pub(crate) fn check_stream(&self, pe: u32, stream: u32) -> Result<(), Failure> {
        let streams = self.streams.len();
        if (stream as usize) < streams {
            return Ok(());
        }
        Err(Failure::Launch {
            report: format!("PE {pe} has no stream {stream}: it has {streams}, counted from 0"),
        })
    }

    /// Collective launches so far.
    pub(crate) fn collectives(&self) -> u64 {
        self.collectives
    }

    /// Notes a launch. Returns its number among the host's collective, or plain, ones.
    pub(crate) fn submit(&mut self, stream: u32, collective: bool) -> u64 {
        self.late = false;
        self.streams[stream as usize].submitted += 1;
        let count = if collective {
            &mut self.collectives
        } else {
            &mut self.plains
        };
        let number = *count;
        *count += 1;
        number
    }

    /// Notes the end of a launch. True where it was the stream's last.
    pub(crate) fn job_done(&mut self, stream: u32) -> bool {
        self.streams[stream as usize].done += 1;
        self.drained(stream)
    }

    /// Takes all launches as ended.
    pub(crate) fn drain(&mut self) {
        for stream in &mut self.streams {
            stream.done = stream.submitted;
        }
    }

    pub(crate) fn drained(&self, stream: u32) -> bool {
        let stream = &self.streams[stream as usize];
        stream.done >= stream.submitted
    }

    pub(crate) fn wait(&mut self, stream: u32) {
        self.late = false;
        self.waits.push(stream);
    }

    pub(crate) fn waited(&mut self, stream: u32) {
        if let Some(i) = self.waits.iter().position(|&s| s == stream) {
            self.waits.swap_remove(i);
        }
    }

    pub(crate) fn block(&mut self) {
        self.late = false;
        self.blocked += 1;
    }

    /// Twice for one `block` is no harm: whoever lets a host go says so, and so does the host.
    pub(crate) fn unblock(&mut self) {
        self.blocked = self.blocked.saturating_sub(1);
    }

    pub(crate) fn detach(&mut self) {
        self.detached = true;
    }

    /// A wait that is over ends here, not when its thread gets to run: the host runs as soon as the stream has drained.
    pub(crate) fn doing(&self) -> Doing {
        if self.elsewhere {
            Doing::Elsewhere
        } else if self.detached {
            Doing::Ended
        } else if let Some(&stream) = self.waits.iter().find(|&&stream| !self.drained(stream)) {
            Doing::WaitsFor(stream)
        } else if self.blocked > 0 {
            Doing::InCollective
        } else {
            Doing::Runs
        }
    }

    pub(crate) fn keeps_waiting(&self) -> bool {
        !self.late && self.doing() == Doing::Runs
    }

    /// Whether it runs and is not waited for.
    pub(crate) fn is_away(&self) -> bool {
        self.late && self.doing() == Doing::Runs
    }

    pub(crate) fn is_late(&self) -> bool {
        self.late
    }

    /// Stops waiting for it until it does something.
    pub(crate) fn lose_patience(&mut self) {
        self.late |= self.keeps_waiting();
    }
}

/// Collective launches that not every PE of this process has made.
pub(crate) struct Gangs {
    pes: u32,
    /// The oldest first.
    open: VecDeque<Gang>,
    /// The number of the oldest.
    first: u64,
}

struct Gang {
    kernel: Kernel,
    /// Who launched it first.
    pe: u32,
    joined: u32,
}

impl Gangs {
    pub(crate) fn new(pes: u32) -> Self {
        Self {
            pes,
            open: VecDeque::new(),
            first: 0,
        }
    }

    /// Notes a PE's collective launch of this number. All PEs make theirs in one order: the k-th of each belong together.
    pub(crate) fn join(&mut self, number: u64, pe: u32, kernel: Kernel) -> Result<(), Failure> {
        match self.open.get_mut((number - self.first) as usize) {
            None => self.open.push_back(Gang { kernel, pe, joined: 1 }),
            Some(gang) if gang.kernel.matches(&kernel) => gang.joined += 1,
            Some(gang) => {
                return Err(Failure::Launch {
                    report: format!(
                        "collective launch number {number} differs: PE {} launches {}, PE {pe} launches {}; every PE \
                         launches the same collective kernels in the same order, with the same grid, block and dynamic \
                         shared memory",
                        gang.pe,
                        gang.kernel.beside(&kernel),
                        kernel.beside(&gang.kernel)
                    ),
                });
            }
        }
        if self.open.front().is_some_and(|gang| gang.joined == self.pes) {
            self.open.pop_front();
            self.first += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_runs_again_once_its_stream_has_drained() {
        let mut host = Host::new();
        let stream = host.add_stream();
        assert_eq!((host.submit(stream, false), host.submit(stream, false)), (0, 1));
        assert_eq!(host.submit(stream, true), 0);
        assert!(host.keeps_waiting());
        host.wait(stream);
        assert_eq!(host.doing(), Doing::WaitsFor(stream));
        assert!(!host.job_done(stream) && !host.job_done(stream) && host.job_done(stream));
        assert_eq!(host.doing(), Doing::Runs);
    }

    #[test]
    fn patience_lasts_until_the_host_does_something() {
        let mut host = Host::new();
        host.lose_patience();
        assert!(host.is_late() && !host.keeps_waiting());
        host.block();
        assert_eq!(host.doing(), Doing::InCollective);
        host.unblock();
        host.unblock();
        assert!(host.keeps_waiting());
    }

    #[test]
    fn a_gang_is_open_until_every_pe_has_joined() {
        let kernel = |name| Kernel {
            name,
            symbol: "",
            place: ("a.rs", 1),
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
            cluster: 1,
        };
        let mut gangs = Gangs::new(2);
        gangs.join(0, 0, kernel("a")).unwrap();
        gangs.join(1, 0, kernel("b")).unwrap();
        gangs.join(0, 1, kernel("a")).unwrap();
        assert_eq!((gangs.open.len(), gangs.first), (1, 1));
        let error = gangs.join(1, 1, kernel("c")).unwrap_err().to_string();
        assert!(
            error.contains("PE 0 launches b<<<") && error.contains("PE 1 launches c<<<"),
            "{error}"
        );
    }
}
