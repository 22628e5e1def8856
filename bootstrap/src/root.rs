//! Rank 0's server: one thread that waits for all connections at once, brings parts of calls together, and passes on news of failures.
//!
//! Strangers cost a connection each, up to a limit, and no thread: the oldest one that has not shown who it is makes room for the next.

use crate::BootstrapError;
use crate::call::Call;
use crate::error::{PeerFailure, Refusal};
use crate::message::{FINISH, Frames, JOIN, MAGIC, Message, VERSION};
use crate::proof::Claim;
use crate::random::random;
use crate::secret::{Nonce, Secret};
use crate::socket::{Listener, Socket};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a connection may take to show who it is.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Connections beyond one per process that may be in a handshake.
const STRANGERS: usize = 64;
/// No message before the handshake is longer.
pub(crate) const HANDSHAKE_FRAME: usize = 1024;
/// How long rank 0's own process waits for the last news to leave.
const LINGER: Duration = Duration::from_millis(500);

/// What the server needs to know.
pub(crate) struct Job {
    pub(crate) size: u32,
    pub(crate) secret: Option<Secret>,
    pub(crate) node: String,
    pub(crate) longest_part: usize,
    /// Gets the rank of the first process that fails: a launcher sees ends only, and who hears of a failure may end before who failed.
    pub(crate) report: Option<Arc<File>>,
}

/// Starts the thread. `own` is the connection of rank 0's own process, which needs no handshake; when it closes, the thread ends.
pub(crate) fn start(job: Job, listener: Listener, own: Socket) -> Result<JoinHandle<()>, BootstrapError> {
    let system = |what| {
        move |e: io::Error| BootstrapError::System {
            what,
            cause: e.to_string(),
        }
    };
    listener
        .set_nonblocking()
        .map_err(system("a socket that does not block"))?;
    own.set_nonblocking().map_err(system("a socket that does not block"))?;
    let mut root = Root::new(job, listener);
    root.add(own, "this process".into(), Some(0));
    root.names[0].clone_from(&root.job.node);
    std::thread::Builder::new()
        .name("shmem-rendezvous".into())
        .spawn(move || root.serve())
        .map_err(system("a thread for the rendezvous"))
}

struct Connection {
    socket: Socket,
    from: String,
    since: Instant,
    nonce: Nonce,
    rank: Option<u32>,
    input: Frames,
    output: VecDeque<Arc<[u8]>>,
    /// Bytes of the first output that have left.
    sent: usize,
    /// Nothing more is read; it is dropped once its output has left.
    closing: bool,
}

/// Why a connection ends.
enum End {
    Closed,
    Broken(String),
}

/// A call of which parts have come.
struct Pending {
    first: u32,
    call: Call,
    parts: Vec<Option<Vec<u8>>>,
    came: usize,
}

struct Root {
    job: Job,
    /// Until all have come.
    listener: Option<Listener>,
    connections: Vec<Option<Connection>>,
    /// Which ranks have come; they stay when they end.
    here: Vec<bool>,
    /// Their nodes.
    names: Vec<String>,
    joined: u32,
    number: u64,
    pending: Option<Pending>,
    done: Vec<bool>,
    failure: Option<PeerFailure>,
    /// Rank 0's own process hears of a failure when the others have, or at this time: it may exit at once.
    tell_own: Option<Instant>,
    end: Option<Instant>,
}

impl Root {
    fn new(job: Job, listener: Listener) -> Self {
        let size = job.size as usize;
        Self {
            job,
            listener: Some(listener),
            connections: Vec::new(),
            here: vec![false; size],
            names: vec![String::new(); size],
            joined: 0,
            number: 1,
            pending: None,
            done: vec![false; size],
            failure: None,
            tell_own: None,
            end: None,
        }
    }

    fn serve(&mut self) {
        // Of a job of one.
        self.all_here();
        loop {
            self.tell_own();
            if self.ended() {
                return;
            }
            let ready = match self.wait() {
                Ok(ready) => ready,
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN | rustix::io::Errno::NOMEM) => continue,
                // Without poll there is no service: every process sees its connection close.
                Err(error) => return tracing::error!(%error, "the rendezvous can't wait for its connections"),
            };
            for (id, flags) in ready {
                if flags.intersects(PollFlags::OUT) {
                    self.flush(id);
                }
                // A connection of this round may have ended another, never replaced it: new ones come in `accept`.
                if flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                    self.receive(id);
                }
            }
            self.accept();
            self.expire();
        }
    }

    /// Connections on which something can be done.
    fn wait(&self) -> rustix::io::Result<Vec<(usize, PollFlags)>> {
        let (ids, mut fds): (Vec<_>, Vec<_>) = self
            .connections
            .iter()
            .enumerate()
            .filter_map(|(id, c)| Some((id, c.as_ref()?)))
            .map(|(id, c)| {
                let mut flags = if c.closing { PollFlags::empty() } else { PollFlags::IN };
                if !c.output.is_empty() {
                    flags |= PollFlags::OUT;
                }
                (id, PollFd::new(&c.socket, flags))
            })
            .unzip();
        fds.extend(self.listener.as_ref().map(|l| PollFd::new(l, PollFlags::IN)));
        let until = self.next_time().map(|t| {
            let left = t.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 })
        });
        poll(&mut fds, until.as_ref())?;
        Ok(ids
            .into_iter()
            .zip(&fds)
            .map(|(id, fd)| (id, fd.revents()))
            .filter(|(_, flags)| !flags.is_empty())
            .collect())
    }

    fn next_time(&self) -> Option<Instant> {
        let handshake = self.strangers().map(|(_, since)| since + HANDSHAKE).min();
        [handshake, self.tell_own, self.end].into_iter().flatten().min()
    }

    fn strangers(&self) -> impl Iterator<Item = (usize, Instant)> + '_ {
        let all = self.connections.iter().enumerate();
        all.filter_map(|(id, c)| c.as_ref().filter(|c| c.rank.is_none()).map(|c| (id, c.since)))
    }

    fn accept(&mut self) {
        // A flood must not keep the others waiting.
        const AT_ONCE: usize = 64;
        for _ in 0..AT_ONCE {
            let Some(listener) = &self.listener else { return };
            match listener.accept() {
                Ok((socket, from)) => self.greet(socket, from),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if matches!(e.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted) => {}
                Err(error) => {
                    tracing::warn!(%error, "the rendezvous can't take a connection");
                    // Out of file descriptors, most likely: it stays readable, and must not be asked without pause.
                    std::thread::sleep(Duration::from_millis(10));
                    return;
                }
            }
        }
    }

    fn greet(&mut self, socket: Socket, from: String) {
        let user = socket.other_user();
        if user.is_some_and(|user| self.job.secret.is_none() && user != rustix::process::geteuid().as_raw()) {
            return tracing::warn!(from, "a stranger's connection was dropped: another user");
        }
        if socket.set_nonblocking().is_err() {
            return;
        }
        if self.strangers().count() >= STRANGERS + self.job.size as usize {
            let oldest = self.strangers().min_by_key(|(_, since)| *since);
            if let Some((id, _)) = oldest {
                self.drop_stranger(id, "too many connections that do not say who they are");
            }
        }
        let Ok(nonce) = random() else { return };
        let id = self.add(socket, from, None);
        if let Some(c) = &mut self.connections[id] {
            c.nonce = nonce;
        }
        self.send(
            id,
            &Message::Challenge {
                magic: MAGIC,
                version: VERSION,
                nonce,
            },
        );
    }

    fn add(&mut self, socket: Socket, from: String, rank: Option<u32>) -> usize {
        let connection = Connection {
            socket,
            from,
            since: Instant::now(),
            nonce: [0; 32],
            rank: None,
            input: Frames::new(HANDSHAKE_FRAME),
            output: VecDeque::new(),
            sent: 0,
            closing: false,
        };
        let id = self.connections.iter().position(Option::is_none).unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        self.connections[id] = Some(connection);
        if let Some(rank) = rank {
            self.enroll(id, rank);
        }
        id
    }

    fn enroll(&mut self, id: usize, rank: u32) {
        if let Some(c) = &mut self.connections[id] {
            c.rank = Some(rank);
            if let Err(error) = c.socket.tune() {
                tracing::debug!(rank, %error, "a connection without keepalive");
            }
            c.input
                .set_limit(self.job.longest_part + HANDSHAKE_FRAME.max(2 * crate::message::LONGEST_CAUSE));
        }
        self.here[rank as usize] = true;
        self.joined += 1;
    }

    fn drop_stranger(&mut self, id: usize, why: &str) {
        if let Some(c) = self.connections[id].take() {
            tracing::warn!(from = c.from, why, "a stranger's connection was dropped");
        }
    }

    fn expire(&mut self) {
        let now = Instant::now();
        let late: Vec<_> = self
            .strangers()
            .filter(|(_, since)| now >= *since + HANDSHAKE)
            .collect();
        for (id, _) in late {
            self.drop_stranger(id, "it did not say who it is in time");
        }
    }

    fn receive(&mut self, id: usize) {
        if self.connections[id].as_ref().is_some_and(|c| c.closing) {
            // It was refused, and has gone before it could be told.
            self.connections[id] = None;
            return;
        }
        let end = self.read(id);
        let Err(end) = end else { return };
        let Some(c) = &mut self.connections[id] else { return };
        let Some(rank) = c.rank else {
            let why = match end {
                End::Closed => "it closed before it said who it is".into(),
                End::Broken(why) => why,
            };
            return self.drop_stranger(id, &why);
        };
        self.connections[id] = None;
        if rank == 0 {
            self.end = Some(Instant::now() + LINGER);
        }
        if !self.done[rank as usize] {
            let cause = match end {
                End::Closed => LOST.into(),
                End::Broken(why) => format!("{LOST} ({why})"),
            };
            self.fail(PeerFailure { rank, cause });
        }
    }

    /// Takes what has come, until nothing more is there.
    fn read(&mut self, id: usize) -> Result<(), End> {
        // Others have their turn after this much.
        const AT_ONCE: usize = 64;
        let mut buffer = [0; 1 << 14];
        for _ in 0..AT_ONCE {
            let Some(c) = self.connections[id].as_mut().filter(|c| !c.closing) else {
                return Ok(());
            };
            match (&c.socket).read(&mut buffer) {
                Ok(0) => return Err(End::Closed),
                Ok(count) => c.input.feed(&buffer[..count]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(End::Broken(e.to_string())),
            }
            while let Some(c) = self.connections[id].as_mut().filter(|c| !c.closing) {
                match c.input.next() {
                    Ok(Some(message)) => self.take(id, message)?,
                    Ok(None) => break,
                    Err(malformed) => return Err(End::Broken(malformed.to_string())),
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, id: usize, message: Message) -> Result<(), End> {
        let unexpected = || End::Broken("it sent a message that has no place here".into());
        let Some(rank) = self.connections[id].as_ref().and_then(|c| c.rank) else {
            return match message {
                hello @ Message::Hello { .. } => {
                    self.hello(id, hello);
                    Ok(())
                }
                _ => Err(unexpected()),
            };
        };
        match message {
            Message::Part { number, call, data } => self.part(rank, number, call, data),
            Message::WhoIsMissing { number } => {
                let ranks = self.missing(number);
                self.send(id, &Message::Missing { number, ranks });
                Ok(())
            }
            Message::Fail { cause } => {
                self.fail(PeerFailure { rank, cause });
                Ok(())
            }
            Message::Letter { rank: to, data } if to < self.job.size => {
                // For one that has gone, nobody waits: its end is news of its own.
                let letter = Message::Letter { rank, data };
                self.send_where(&letter, |of| of == Some(to));
                Ok(())
            }
            Message::Bye => {
                self.done[rank as usize] = true;
                if self.done.iter().all(|d| *d) {
                    self.send_all(&Message::AllDone);
                }
                Ok(())
            }
            _ => Err(unexpected()),
        }
    }

    fn hello(&mut self, id: usize, hello: Message) {
        let Message::Hello {
            version,
            rank,
            size,
            node,
            nonce,
            tag,
        } = hello
        else {
            return;
        };
        let Some(c) = &self.connections[id] else { return };
        let claim = Claim {
            rank,
            size,
            node: &node,
            nonces: [c.nonce, nonce],
        };
        let refusal = if version != VERSION {
            Some(Refusal::Version {
                root: VERSION,
                peer: version,
            })
        } else if !claim.holds(self.job.secret.as_ref(), &tag) {
            Some(Refusal::WrongSecret)
        } else if size != self.job.size {
            Some(Refusal::Size {
                root: self.job.size,
                peer: size,
            })
        } else if self.here.get(rank as usize).is_none_or(|here| *here) {
            Some(Refusal::RankTaken { rank })
        } else {
            self.failure.clone().map(Refusal::JobFailed)
        };
        if let Some(refusal) = refusal {
            tracing::warn!(from = c.from, rank, %refusal, "a process was refused");
            self.send(id, &Message::Refused(refusal));
            if let Some(c) = &mut self.connections[id] {
                c.closing = true;
            }
            self.flush(id);
            return;
        }
        let tag = claim.answer(self.job.secret.as_ref(), &tag);
        self.enroll(id, rank);
        self.names[rank as usize] = node;
        self.send(id, &Message::Welcome { tag });
        self.all_here();
    }

    fn all_here(&mut self) {
        if self.joined == self.job.size && self.listener.take().is_some() {
            let strangers: Vec<_> = self.strangers().collect();
            for (id, _) in strangers {
                self.drop_stranger(id, "the job is complete");
            }
            let nodes = std::mem::take(&mut self.names);
            self.send_all(&Message::Ready { nodes });
        }
    }

    fn part(&mut self, rank: u32, number: u64, call: Call, data: Vec<u8>) -> Result<(), End> {
        if self.failure.is_some() {
            return Ok(());
        }
        let size = self.job.size as usize;
        let valid = number == self.number && data.len() <= self.job.longest_part && self.listener.is_none();
        let pending = self.pending.get_or_insert_with(|| Pending {
            first: rank,
            call,
            parts: vec![None; size],
            came: 0,
        });
        if !valid || pending.parts[rank as usize].is_some() {
            return Err(End::Broken(format!(
                "part {number} of {call} came in place of {}",
                self.number
            )));
        }
        if pending.call != call {
            let (first, first_call) = (pending.first, pending.call);
            self.send_all(&Message::Mismatch {
                first,
                first_call,
                second: rank,
                second_call: call,
            });
            return Ok(());
        }
        pending.parts[rank as usize] = Some(data);
        pending.came += 1;
        if pending.came < size {
            return Ok(());
        }
        let mut parts: Vec<_> = self
            .pending
            .take()
            .into_iter()
            .flat_map(|p| p.parts)
            .flatten()
            .collect();
        match call {
            Call::Broadcast { from } => parts = parts.into_iter().skip(from as usize).take(1).collect(),
            Call::AllGather => {}
            _ => parts.clear(),
        }
        self.number += 1;
        self.send_all(&Message::Complete { number, parts });
        Ok(())
    }

    fn missing(&self, number: u64) -> Vec<u32> {
        let absent = |rank: &u32| {
            let at = *rank as usize;
            match number {
                JOIN => !self.here[at],
                FINISH => !self.done[at],
                n if n == self.number => self.pending.as_ref().is_none_or(|p| p.parts[at].is_none()),
                _ => false,
            }
        };
        (0..self.job.size).filter(absent).collect()
    }

    fn fail(&mut self, failure: PeerFailure) {
        if self.failure.is_some() {
            return;
        }
        tracing::warn!(rank = failure.rank, cause = failure.cause, "a process failed");
        if let Some(report) = &self.job.report {
            // The launcher may be gone.
            let _ = writeln!(&**report, "{}", failure.rank);
        }
        self.failure = Some(failure.clone());
        self.tell_own = Some(Instant::now() + LINGER / 2);
        self.send_where(&Message::Failed(failure), |rank| rank.is_some_and(|r| r != 0));
    }

    fn tell_own(&mut self) {
        let Some(at) = self.tell_own else { return };
        if Instant::now() < at && self.outputs().any(|(rank, empty)| rank != 0 && !empty) {
            return;
        }
        self.tell_own = None;
        if let Some(failure) = self.failure.clone() {
            self.send_where(&Message::Failed(failure), |rank| rank == Some(0));
        }
    }

    /// Ranks that are connected, and whether all that they were sent has left.
    fn outputs(&self) -> impl Iterator<Item = (u32, bool)> + '_ {
        let connected = self.connections.iter().flatten();
        connected.filter_map(|c| c.rank.map(|rank| (rank, c.output.is_empty())))
    }

    fn ended(&self) -> bool {
        self.end
            .is_some_and(|end| Instant::now() >= end || self.outputs().all(|(_, empty)| empty))
    }

    fn send(&mut self, id: usize, message: &Message) {
        self.enqueue(id, message.encode().into());
    }

    fn send_all(&mut self, message: &Message) {
        self.send_where(message, |rank| rank.is_some());
    }

    fn send_where(&mut self, message: &Message, to: impl Fn(Option<u32>) -> bool) {
        // Encoded once, however many get it.
        let bytes: Arc<[u8]> = message.encode().into();
        for id in 0..self.connections.len() {
            if self.connections[id].as_ref().is_some_and(|c| to(c.rank)) {
                self.enqueue(id, bytes.clone());
            }
        }
    }

    fn enqueue(&mut self, id: usize, bytes: Arc<[u8]>) {
        if let Some(c) = &mut self.connections[id] {
            c.output.push_back(bytes);
            self.flush(id);
        }
    }

    /// Sends what goes without waiting. Errors are seen by the next read, which knows whose end it is.
    fn flush(&mut self, id: usize) {
        let Some(c) = &mut self.connections[id] else { return };
        while let Some(first) = c.output.front() {
            match (&c.socket).write(&first[c.sent..]) {
                Ok(count) if c.sent + count < first.len() => c.sent += count,
                Ok(_) => {
                    c.sent = 0;
                    c.output.pop_front();
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => c.output.clear(),
            }
        }
        if c.closing {
            self.connections[id] = None;
        }
    }
}

/// What is known of a process whose connection ended.
pub(crate) const LOST: &str = "its connection closed without a goodbye: it crashed, was killed, or exited early; its own output \
                               says more";
