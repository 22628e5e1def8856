//! A process's end: joining, calls, news of failures, leaving.

use crate::call::Call;
use crate::error::{BootstrapError, PeerFailure};
use crate::handshake;
use crate::message::{FINISH, Frames, JOIN, LONGEST_CAUSE, Message};
use crate::node::{Nodes, this_node};
use crate::root::{self, Job, LOST};
use crate::settings::{Settings, Source};
use crate::socket::Socket;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The most bytes of one process in one call, in small jobs.
const LONGEST_PART: usize = 1 << 20;
/// The most bytes that one call brings to a process.
const LONGEST_WHOLE: usize = 1 << 26;
/// How long to wait for rank 0's word on who is missing, and for the echo of one's own failure.
const WORD: Duration = Duration::from_millis(500);

/// This process's place in a job of one or several processes, and its connection to the others.
///
/// A value, not a global: drop it and join again, and several may live in one process (as in the example, where threads stand for
/// processes). Calls are collective: every process makes the same ones in the same order. They block until all have come, at most `limit`
/// ([`Duration::MAX`]: without limit); the error names those that have not. After an error of a collective call this process is out of step
/// with the others: [`fail`](Self::fail), or drop the value, which tells them.
///
/// ```
/// use shmem_bootstrap::{Bootstrap, RootAddress, Secret, Settings};
/// use std::time::Duration;
///
/// let limit = Duration::from_secs(10);
/// let address = RootAddress::Unix(format!("shmem-doc-{}", std::process::id()));
/// let processes: Vec<_> = (0..3)
///     .map(|rank| Settings::new(rank, 3, address.clone()))
///     .map(|settings| std::thread::spawn(move || {
///         let job = Bootstrap::join(&settings)?;
///         let all = job.allgather(&[job.rank() as u8 * 10], limit)?;
///         assert_eq!(all, [[0], [10], [20]]);
///         assert_eq!(job.broadcast(1, if job.rank() == 1 { b"hello" } else { b"" }, limit)?, b"hello");
///         assert_eq!((job.local_rank(), job.local_size()), (job.rank(), 3));
///         job.finish(limit)
///     }))
///     .collect();
/// for process in processes {
///     process.join().unwrap()?;
/// }
/// # Ok::<(), shmem_bootstrap::BootstrapError>(())
/// ```
#[derive(Debug)]
pub struct Bootstrap {
    rank: u32,
    size: u32,
    nodes: Nodes,
    source: Source,
    link: Link,
    /// Ends with the connection.
    reader: Option<JoinHandle<()>>,
    /// Rank 0's server.
    root: Option<JoinHandle<()>>,
}

/// The connection, and what came over it.
#[derive(Debug)]
struct Link {
    rank: u32,
    socket: Arc<Socket>,
    news: Arc<News>,
    /// One call at a time; the number of the next.
    turn: Mutex<u64>,
    /// Whole messages only.
    writing: Mutex<()>,
}

#[derive(Debug, Default)]
struct News {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    nodes: Option<Vec<String>>,
    complete: Option<(u64, Vec<Vec<u8>>)>,
    missing: Option<(u64, Vec<u32>)>,
    failure: Option<PeerFailure>,
    /// This process is out of step.
    broken: Option<BootstrapError>,
    all_done: bool,
    /// From whom, in the order of arrival.
    letters: VecDeque<(u32, Vec<u8>)>,
    /// The socket is being closed here.
    leaving: bool,
    on_failure: Vec<OnFailure>,
}

type OnFailure = Box<dyn FnOnce(&PeerFailure) + Send>;

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("failure", &self.failure)
            .finish_non_exhaustive()
    }
}

impl Bootstrap {
    /// Joins the job: connects to rank 0 (rank 0: listens), shows the secret, and waits until all processes have come, at most
    /// [`Settings::limit`]. Collective.
    ///
    /// # Errors
    /// [`TimedOut`](BootstrapError::TimedOut) names who has not come; [`Unreachable`](BootstrapError::Unreachable),
    /// [`Refused`](BootstrapError::Refused), [`NotOurRoot`](BootstrapError::NotOurRoot), [`NoSecret`](BootstrapError::NoSecret),
    /// [`Listen`](BootstrapError::Listen), [`PeerFailed`](BootstrapError::PeerFailed).
    pub fn join(settings: &Settings) -> Result<Self, BootstrapError> {
        let begun = Instant::now();
        settings.check()?;
        let (rank, size) = (settings.rank(), settings.size());
        let node = settings.node_name().map_or_else(this_node, Into::into);
        let system = |e: std::io::Error| BootstrapError::System {
            what: "a connection",
            cause: e.to_string(),
        };
        let (socket, root, frames) = if rank == 0 {
            let (own, served) = UnixStream::pair().map_err(system)?;
            let job = Job {
                size,
                secret: settings.secret_value().cloned(),
                node,
                longest_part: longest_part(size),
                report: settings.report(),
            };
            let root = root::start(job, settings.listen()?, Socket::Unix(served))?;
            (Socket::Unix(own), Some(root), Frames::new(0))
        } else {
            let (socket, frames) = handshake::reach(settings, &node, begun)?;
            (socket, None, frames)
        };
        let socket = Arc::new(socket);
        let news = Arc::new(News::default());
        let reader = {
            let (socket, news) = (socket.clone(), news.clone());
            std::thread::Builder::new()
                .name("shmem-bootstrap".into())
                .spawn(move || news.listen(&socket, frames, LONGEST_WHOLE + 8 * size as usize + 2 * LONGEST_CAUSE))
                .map_err(system)?
        };
        let mut joined = Self {
            rank,
            size,
            nodes: Nodes::new(&[]),
            source: settings.source(),
            link: Link {
                rank,
                socket,
                news,
                turn: Mutex::new(JOIN + 1),
                writing: Mutex::new(()),
            },
            reader: Some(reader),
            root,
        };
        let names = joined
            .link
            .wait(Call::Join, JOIN, begun, settings.limit_value(), |state| {
                state.nodes.take()
            })?;
        joined.nodes = Nodes::new(&names);
        tracing::debug!(rank, size, source = %joined.source, nodes = joined.nodes.names.len(), "joined");
        Ok(joined)
    }

    /// This process's number, from 0.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Processes in the job.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// How many processes of this node have lower ranks.
    pub fn local_rank(&self) -> u32 {
        self.nodes.local_rank(self.rank)
    }

    /// Processes on this node.
    pub fn local_size(&self) -> u32 {
        self.nodes.local_size(self.rank)
    }

    /// The node of each rank. Nodes are numbered from 0 in order of their lowest ranks; processes are on one node if host name and boot id
    /// are the same.
    pub fn nodes(&self) -> &[u32] {
        &self.nodes.of
    }

    /// A node's name: host name and boot id. `None` if there is no such node.
    pub fn node_name(&self, node: u32) -> Option<&str> {
        self.nodes.names.get(node as usize).map(String::as_str)
    }

    /// What told this process of the job.
    pub fn source(&self) -> Source {
        self.source
    }

    /// The most bytes that a process may give to [`allgather`](Self::allgather), [`broadcast`](Self::broadcast) or [`send`](Self::send): 1 MiB, and in jobs of
    /// more than 64 processes so many that all of them together are 64 MiB.
    pub fn max_bytes(&self) -> usize {
        longest_part(self.size)
    }

    /// Returns when all processes have called it. Collective.
    ///
    /// # Errors
    /// As all collective calls: [`TimedOut`](BootstrapError::TimedOut), [`PeerFailed`](BootstrapError::PeerFailed),
    /// [`Mismatch`](BootstrapError::Mismatch), [`RootSilent`](BootstrapError::RootSilent).
    pub fn barrier(&self, limit: Duration) -> Result<(), BootstrapError> {
        self.call(Call::Barrier, &[], limit).map(|_| ())
    }

    /// The bytes of every process, by rank; their lengths may differ. Collective.
    ///
    /// # Errors
    /// [`TooLarge`](BootstrapError::TooLarge) (nothing was sent, this process is still in step), and those of [`barrier`](Self::barrier).
    pub fn allgather(&self, mine: &[u8], limit: Duration) -> Result<Vec<Vec<u8>>, BootstrapError> {
        self.call(Call::AllGather, mine, limit)
    }

    /// The bytes of rank `from`; what the others give is not looked at. Collective.
    ///
    /// # Errors
    /// [`NoSuchRank`](BootstrapError::NoSuchRank) (nothing was sent), and those of [`allgather`](Self::allgather).
    pub fn broadcast(&self, from: u32, data: &[u8], limit: Duration) -> Result<Vec<u8>, BootstrapError> {
        let call = Call::Broadcast { from };
        self.check_rank(call, from)?;
        let parts = self.call(call, if from == self.rank { data } else { &[] }, limit)?;
        Ok(parts.into_iter().next().unwrap_or_default())
    }

    /// Sends bytes to the process `to`, at most [`max_bytes`](Self::max_bytes), by way of rank 0's; returns before they are there. What one
    /// process sends to another arrives in order, for its [`receive`](Self::receive). Not collective: it may be called beside a collective
    /// call of another thread.
    ///
    /// ```
    /// # use shmem_bootstrap::{Bootstrap, RootAddress, Settings};
    /// # use std::time::Duration;
    /// # let address = RootAddress::Unix(format!("shmem-letters-{}", std::process::id()));
    /// # let processes: Vec<_> = (0..2)
    /// #     .map(|rank| Settings::new(rank, 2, address.clone()))
    /// #     .map(|settings| std::thread::spawn(move || {
    /// let limit = Duration::from_secs(10);
    /// let job = Bootstrap::join(&settings)?;
    /// let other = 1 - job.rank();
    /// job.send(other, b"hello", limit)?;
    /// assert_eq!(job.receive(limit)?, Some((other, b"hello".to_vec())));
    /// job.finish(limit)
    /// #     }))
    /// #     .collect();
    /// # for process in processes {
    /// #     process.join().unwrap()?;
    /// # }
    /// # Ok::<(), shmem_bootstrap::BootstrapError>(())
    /// ```
    ///
    /// # Errors
    /// [`NoSuchRank`](BootstrapError::NoSuchRank) and [`TooLarge`](BootstrapError::TooLarge) (nothing was sent),
    /// [`PeerFailed`](BootstrapError::PeerFailed), [`RootSilent`](BootstrapError::RootSilent) where rank 0's process takes nothing for as
    /// long as `limit`.
    pub fn send(&self, to: u32, data: &[u8], limit: Duration) -> Result<(), BootstrapError> {
        let call = Call::Send { to };
        self.check_rank(call, to)?;
        self.check_bytes(call, data)?;
        self.link.in_step()?;
        let data = data.to_vec();
        self.link.send(&Message::Letter { rank: to, data }, call, limit)
    }

    /// What a process has [sent](Self::send) to this one, and which, the oldest first; `None` where nothing comes within `limit`. Not
    /// collective.
    ///
    /// # Errors
    /// [`PeerFailed`](BootstrapError::PeerFailed) once all is taken that came before.
    pub fn receive(&self, limit: Duration) -> Result<Option<(u32, Vec<u8>)>, BootstrapError> {
        let deadline = Instant::now().checked_add(limit);
        let there = |state: &mut State| !state.letters.is_empty() || state.bad().is_some();
        let (mut state, _) = self.link.news.wait_until(deadline, there);
        match (state.letters.pop_front(), state.bad()) {
            (None, Some(error)) => Err(error),
            (letter, _) => Ok(letter),
        }
    }

    fn check_rank(&self, call: Call, rank: u32) -> Result<(), BootstrapError> {
        let size = self.size;
        if rank < size {
            Ok(())
        } else {
            Err(BootstrapError::NoSuchRank { call, rank, size })
        }
    }

    fn check_bytes(&self, call: Call, data: &[u8]) -> Result<(), BootstrapError> {
        let (bytes, limit, size) = (data.len(), self.max_bytes(), self.size);
        if bytes <= limit {
            Ok(())
        } else {
            Err(BootstrapError::TooLarge {
                call,
                bytes,
                limit,
                size,
            })
        }
    }

    fn call(&self, call: Call, data: &[u8], limit: Duration) -> Result<Vec<Vec<u8>>, BootstrapError> {
        self.check_bytes(call, data)?;
        let begun = Instant::now();
        let mut turn = lock(&self.link.turn);
        let number = *turn;
        self.link.in_step()?;
        *turn += 1;
        self.link.send(
            &Message::Part {
                number,
                call,
                data: data.to_vec(),
            },
            call,
            limit,
        )?;
        let take = |state: &mut State| state.complete.take_if(|(n, _)| *n == number).map(|(_, parts)| parts);
        self.link.wait(call, number, begun, limit, take)
    }

    /// Tells all processes that this one can't go on, and why; they learn it within a second, also in the midst of a call. The first
    /// failure of a job counts, later ones are not told. Not collective. Texts over 4096 bytes are cut.
    pub fn fail(&self, cause: &str) {
        self.link.fail(cause);
    }

    /// The failure that this process has heard of, its own included. Does not block.
    pub fn failure(&self) -> Option<PeerFailure> {
        lock(&self.link.news.state).failure.clone()
    }

    /// Has `then` called once when a failure is heard of, on a thread of this crate's; at once if one was. It should be short, and must
    /// not call this value.
    pub fn on_failure(&self, then: impl FnOnce(&PeerFailure) + Send + 'static) {
        let mut state = lock(&self.link.news.state);
        match state.failure.clone() {
            None => state.on_failure.push(Box::new(then)),
            Some(failure) => {
                drop(state);
                then(&failure);
            }
        }
    }

    /// Leaves the job in order: returns when all processes have called it, so that none takes another's end for a failure. Collective.
    ///
    /// # Errors
    /// Those of [`barrier`](Self::barrier).
    pub fn finish(self, limit: Duration) -> Result<(), BootstrapError> {
        let begun = Instant::now();
        self.link.in_step()?;
        self.link.send(&Message::Bye, Call::Finish, limit)?;
        self.link
            .wait(Call::Finish, FINISH, begun, limit, |state| state.all_done.then_some(()))
    }
}

impl Drop for Bootstrap {
    /// Without [`finish`](Self::finish) it is a failure, which the others are told of.
    fn drop(&mut self) {
        let over = {
            let mut state = lock(&self.link.news.state);
            if state.all_done || state.failure.is_some() {
                state.leaving = true;
            }
            state.leaving
        };
        if !over {
            let panicking = std::thread::panicking();
            let broken = lock(&self.link.news.state).broken.clone();
            match broken {
                _ if panicking => self.link.fail("a thread of it panicked"),
                Some(error) => self.link.fail(&error.to_string()),
                None => self
                    .link
                    .fail("it left without finishing: an error or an early return, its own output says more"),
            }
            lock(&self.link.news.state).leaving = true;
        }
        self.link.socket.shutdown();
        for thread in [self.reader.take(), self.root.take()].into_iter().flatten() {
            // A panic there was seen as the end of the connection.
            let _ = thread.join();
        }
    }
}

impl Link {
    /// Nothing has happened after which calls are without sense.
    fn in_step(&self) -> Result<(), BootstrapError> {
        lock(&self.news.state).bad().map_or(Ok(()), Err)
    }

    fn send(&self, message: &Message, call: Call, limit: Duration) -> Result<(), BootstrapError> {
        let begun = Instant::now();
        let bytes = message.encode();
        let _whole = lock(&self.writing);
        // A limit of nothing would mean none.
        let write_limit = limit.max(Duration::from_millis(1));
        let sent = self
            .socket
            .set_write_limit((limit != Duration::MAX).then_some(write_limit))
            .and_then(|()| (&*self.socket).write_all(&bytes));
        let Err(error) = sent else { return Ok(()) };
        if matches!(
            error.kind(),
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
        ) {
            let silent = BootstrapError::RootSilent {
                rank: self.rank,
                call,
                waited: begun.elapsed(),
            };
            return Err(self.news.break_with(silent));
        }
        // The reader sees it too, and may know more: the connection's last message could be the news of a failure.
        let (mut state, _) = self
            .news
            .wait_until(Some(Instant::now() + WORD), |state| state.bad().is_some());
        Err(state.failed(LOST))
    }

    /// Waits for what `take` takes.
    fn wait<T>(
        &self,
        call: Call,
        number: u64,
        begun: Instant,
        limit: Duration,
        take: impl Fn(&mut State) -> Option<T>,
    ) -> Result<T, BootstrapError> {
        let mut taken = None;
        let mut look = |state: &mut State| {
            taken = take(state);
            taken.is_some() || state.bad().is_some()
        };
        let came = self.news.wait_until(begun.checked_add(limit), &mut look).1;
        if !came && self.send(&Message::WhoIsMissing { number }, call, WORD).is_ok() {
            // An answer that nobody is missing means that the call is complete, and the result is on its way.
            let answered = |state: &State| {
                state
                    .missing
                    .as_ref()
                    .is_some_and(|(n, ranks)| *n == number && !ranks.is_empty())
            };
            drop(
                self.news
                    .wait_until(Some(Instant::now() + WORD), |state| look(state) || answered(state)),
            );
        }
        if let Some(taken) = taken {
            return Ok(taken);
        }
        let (rank, waited) = (self.rank, begun.elapsed());
        let mut state = lock(&self.news.state);
        if let Some(error) = state.bad() {
            return Err(error);
        }
        let error = match state.missing.take() {
            Some((n, missing)) if n == number => BootstrapError::TimedOut {
                rank,
                call,
                waited,
                missing,
            },
            _ => BootstrapError::RootSilent { rank, call, waited },
        };
        state.broken = Some(error.clone());
        Err(error)
    }

    fn fail(&self, cause: &str) {
        if lock(&self.news.state).failure.is_some() {
            return;
        }
        let told = self
            .send(&Message::Fail { cause: cause.into() }, Call::Finish, WORD)
            .is_ok();
        // Until the news are out: this process may exit now, and is rank 0's server perhaps.
        let wait = if told { WORD } else { Duration::ZERO };
        let (state, heard) = self
            .news
            .wait_until(Some(Instant::now() + wait), |state| state.failure.is_some());
        if !heard {
            self.news.tell(
                state,
                PeerFailure {
                    rank: self.rank,
                    cause: cause.into(),
                },
            );
        }
    }
}

impl State {
    fn bad(&self) -> Option<BootstrapError> {
        self.failure
            .clone()
            .map(BootstrapError::PeerFailed)
            .or_else(|| self.broken.clone())
    }

    /// The failure that is known; if none is, that of rank 0.
    fn failed(&mut self, cause: &str) -> BootstrapError {
        if let Some(bad) = self.bad() {
            return bad;
        }
        let failure = PeerFailure {
            rank: 0,
            cause: cause.into(),
        };
        self.failure = Some(failure.clone());
        BootstrapError::PeerFailed(failure)
    }
}

impl News {
    /// Waits until `done`, or the time has come; says whether it was done.
    fn wait_until(
        &self,
        deadline: Option<Instant>,
        mut done: impl FnMut(&mut State) -> bool,
    ) -> (MutexGuard<'_, State>, bool) {
        let mut state = lock(&self.state);
        loop {
            if done(&mut state) {
                return (state, true);
            }
            let Some(deadline) = deadline else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return (state, false);
            }
            state = self
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    fn break_with(&self, error: BootstrapError) -> BootstrapError {
        lock(&self.state).broken.get_or_insert(error).clone()
    }

    /// The reader's thread.
    fn listen(&self, socket: &Socket, mut frames: Frames, limit: usize) {
        frames.set_limit(limit);
        let mut buffer = vec![0; 1 << 16];
        let cause = loop {
            match frames.next() {
                Ok(Some(message)) => {
                    self.take(message);
                    continue;
                }
                Ok(None) => {}
                Err(malformed) => break format!("its server sent nonsense: {malformed}"),
            }
            match { socket }.read(&mut buffer) {
                Ok(0) => break LOST.into(),
                Ok(count) => frames.feed(&buffer[..count]),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => break format!("{LOST} ({e})"),
            }
        };
        let state = lock(&self.state);
        if state.leaving || state.all_done {
            return;
        }
        self.tell(state, PeerFailure { rank: 0, cause });
    }

    fn take(&self, message: Message) {
        let mut state = lock(&self.state);
        match message {
            Message::Ready { nodes } => state.nodes = Some(nodes),
            Message::Complete { number, parts } => state.complete = Some((number, parts)),
            Message::Missing { number, ranks } => state.missing = Some((number, ranks)),
            Message::Mismatch {
                first,
                first_call,
                second,
                second_call,
            } => {
                let error = BootstrapError::Mismatch {
                    first,
                    first_call,
                    second,
                    second_call,
                };
                state.broken.get_or_insert(error);
            }
            Message::Failed(failure) => return self.tell(state, failure),
            Message::AllDone => state.all_done = true,
            Message::Letter { rank, data } => state.letters.push_back((rank, data)),
            // Nothing else comes from a server that has shown the secret.
            _ => {}
        }
        self.changed.notify_all();
    }

    fn tell(&self, mut state: MutexGuard<'_, State>, failure: PeerFailure) {
        let failure = state.failure.get_or_insert(failure).clone();
        let waiting = std::mem::take(&mut state.on_failure);
        drop(state);
        self.changed.notify_all();
        for then in waiting {
            then(&failure);
        }
    }
}

fn longest_part(size: u32) -> usize {
    LONGEST_PART.min(LONGEST_WHOLE / size as usize)
}

/// The lock, also after a panic of a thread that held it: every change of what it guards is one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
