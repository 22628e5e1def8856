//! File descriptors between the processes of a machine: memory travels as one.
//!
//! Each process opens a [`Door`], a Unix socket without a file, and tells the others its [`Card`]. Then every pair has one
//! connection, for as long as the [`Channels`] live. Whoever connects must run under the same user and know the card's
//! token; others are dropped. Nothing stays behind when a process is killed.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use rustix::process::geteuid;
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Descriptors in one message; the system takes 253.
const MESSAGE: usize = 64;
/// Descriptors at once from one process.
const MOST: u32 = 1 << 16;
/// How often a process that expects another looks whether it still makes sense.
const LOOK: Duration = Duration::from_millis(1);
/// How long somebody who has connected may take to say who it is.
const INTRODUCTION: Duration = Duration::from_secs(1);

/// Where others find a process, and what they prove that they belong to it with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Card {
    /// Says in listings whose socket it is.
    pid: u32,
    name: [u8; 16],
    token: [u8; 16],
}

/// Where a process lets others in.
pub(crate) struct Door {
    listener: UnixListener,
    card: Card,
}

impl Door {
    pub(crate) fn open() -> io::Result<Self> {
        let card = Card {
            pid: std::process::id(),
            name: random()?,
            token: random()?,
        };
        let listener = UnixListener::bind_addr(&card.address()?)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, card })
    }

    pub(crate) fn card(&self) -> &Card {
        &self.card
    }
}

impl Card {
    /// An abstract name: it is in no file system, and gone with the process.
    fn address(&self) -> io::Result<SocketAddr> {
        let name = u128::from_be_bytes(self.name);
        SocketAddr::from_abstract_name(format!("shmem-{}-{name:032x}", self.pid))
    }
}

fn random() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    // So few bytes are never cut short.
    getrandom(&mut bytes[..], GetRandomFlags::empty())?;
    Ok(bytes)
}

/// A connection to every other process of the machine.
#[derive(Debug)]
pub(crate) struct Channels {
    /// By rank; none to oneself, and to other machines.
    streams: Vec<Option<Mutex<UnixStream>>>,
}

impl Channels {
    /// Connects process `rank` with all others, whose cards are given by rank, None on other machines. A wait lasts as long as `limit`, here and
    /// later, or until `given_up`.
    pub(crate) fn connect(
        door: &Door,
        rank: u32,
        cards: &[Option<Card>],
        limit: Option<Duration>,
        given_up: &dyn Fn() -> bool,
    ) -> io::Result<Self> {
        let mut streams: Vec<Option<Mutex<UnixStream>>> = cards.iter().map(|_| None).collect();
        for (slot, card) in streams.iter_mut().zip(&cards[..rank as usize]) {
            let Some(card) = card else { continue };
            let mut stream = UnixStream::connect_addr(&card.address()?)?;
            if !same_user(&stream)? {
                return Err(io::Error::other("the socket of another process is another user's"));
            }
            stream.write_all(&introduction(card, rank))?;
            *slot = Some(Mutex::new(stream));
        }
        let start = Instant::now();
        let mut missing = cards[rank as usize + 1..].iter().flatten().count();
        while missing > 0 {
            match door.listener.accept() {
                Ok((stream, _)) => {
                    if let Some((from, stream)) = admit(door, stream)
                        && from > rank
                        && cards.get(from as usize).is_some_and(Option::is_some)
                        && let Some(slot @ None) = streams.get_mut(from as usize)
                    {
                        *slot = Some(Mutex::new(stream));
                        missing -= 1;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if given_up() {
                        return Err(io::Error::other("another process has failed"));
                    }
                    if limit.is_some_and(|limit| start.elapsed() >= limit) {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    thread::sleep(LOOK);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let channels = Self { streams };
        for rank in 0..cards.len() as u32 {
            if let Ok(stream) = channels.stream(rank) {
                stream.set_read_timeout(limit.filter(|limit| !limit.is_zero()))?;
            }
        }
        Ok(channels)
    }

    fn stream(&self, rank: u32) -> io::Result<MutexGuard<'_, UnixStream>> {
        let stream = self.streams.get(rank as usize).and_then(Option::as_ref);
        let stream = stream.ok_or_else(|| io::Error::other(format!("there is no connection to process {rank}")))?;
        Ok(stream.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sends descriptors to a process, which gets its own for the same files.
    pub(crate) fn send(&self, to: u32, files: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut stream = self.stream(to)?;
        stream.write_all(&(files.len() as u32).to_le_bytes())?;
        for files in files.chunks(MESSAGE) {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MESSAGE))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            if !ancillary.push(SendAncillaryMessage::ScmRights(files)) {
                return Err(io::Error::other("no room for descriptors in a message"));
            }
            // A byte for each message keeps them apart.
            sendmsg(
                &*stream,
                &[IoSlice::new(&[files.len() as u8])],
                &mut ancillary,
                SendFlags::NOSIGNAL,
            )?;
        }
        Ok(())
    }

    /// What a process has sent, in the order of its calls.
    pub(crate) fn receive(&self, from: u32, given_up: &dyn Fn() -> bool) -> io::Result<Vec<OwnedFd>> {
        let mut stream = self.stream(from)?;
        await_message(&stream, given_up)?;
        let mut count = [0; 4];
        stream.read_exact(&mut count)?;
        let count = u32::from_le_bytes(count);
        if count > MOST {
            return Err(io::Error::other(format!(
                "process {from} announces {count} descriptors"
            )));
        }
        let mut files = Vec::new();
        while files.len() < count as usize {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MESSAGE))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut byte = [0];
            let mut into = [IoSliceMut::new(&mut byte)];
            let message = recvmsg(&*stream, &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
            if message.bytes == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let before = files.len();
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(received) = message {
                    files.extend(received);
                }
            }
            // The system leaves out what this process may not open any more.
            if files.len() - before != usize::from(byte[0]) || files.len() > count as usize {
                return Err(io::Error::other(
                    "descriptors were lost on the way: this process may have too many open (ulimit -n)",
                ));
            }
        }
        Ok(files)
    }

    /// Gives every other process these, and gets theirs, by rank; one's own list is empty. Collective.
    /// It is given up once `given_up` says so.
    pub(crate) fn share(&self, files: &[BorrowedFd<'_>], given_up: &dyn Fn() -> bool) -> io::Result<Vec<Vec<OwnedFd>>> {
        let others = || (0..self.streams.len() as u32).map(|rank| (rank, self.streams[rank as usize].is_some()));
        for (rank, _) in others().filter(|(_, there)| *there) {
            self.send(rank, files)?;
        }
        others()
            .map(|(rank, there)| {
                if there {
                    self.receive(rank, given_up)
                } else {
                    Ok(Vec::new())
                }
            })
            .collect()
    }
}

/// Waits until there is something to read, or the end.
fn await_message(stream: &UnixStream, given_up: &dyn Fn() -> bool) -> io::Result<()> {
    let limit = stream.read_timeout()?;
    let start = Instant::now();
    let slice = Timespec {
        tv_sec: 0,
        tv_nsec: 10_000_000,
    };
    loop {
        match poll(&mut [PollFd::new(stream, PollFlags::IN)], Some(&slice)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        if given_up() {
            return Err(io::Error::other("another process has failed"));
        }
        if limit.is_some_and(|limit| start.elapsed() >= limit) {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

fn introduction(to: &Card, rank: u32) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[..16].copy_from_slice(&to.token);
    bytes[16..].copy_from_slice(&rank.to_le_bytes());
    bytes
}

fn same_user(stream: &UnixStream) -> io::Result<bool> {
    Ok(socket_peercred(stream.as_fd())?.uid == geteuid())
}

/// Who has connected, if it is one of us.
fn admit(door: &Door, mut stream: UnixStream) -> Option<(u32, UnixStream)> {
    if !same_user(&stream).ok()? {
        return None;
    }
    stream.set_nonblocking(false).ok()?;
    stream.set_read_timeout(Some(INTRODUCTION)).ok()?;
    let mut bytes = [0; 20];
    stream.read_exact(&mut bytes).ok()?;
    let rank = u32::from_le_bytes(bytes[16..].try_into().ok()?);
    // How long the comparison takes tells a stranger nothing: it has one try for each connection, and the same user's
    // processes may read each other's memory anyway.
    (bytes == introduction(door.card(), rank)).then_some((rank, stream))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn files_arrive_and_strangers_do_not() {
        let doors = [(); 3].map(|()| Door::open().unwrap());
        let cards: Vec<_> = doors.iter().map(|door| Some(door.card().clone())).collect();
        let limit = Some(Duration::from_secs(5));
        // One that does not know the token, one that says nothing and goes.
        let address = || doors[0].card().address().unwrap();
        let mut stranger = UnixStream::connect_addr(&address()).unwrap();
        stranger.write_all(&[0; 20]).unwrap();
        drop(UnixStream::connect_addr(&address()).unwrap());
        thread::scope(|scope| {
            for rank in 0..3u32 {
                let (door, cards) = (&doors[rank as usize], &cards);
                scope.spawn(move || {
                    let channels = Channels::connect(door, rank, cards, limit, &|| false).unwrap();
                    for count in [1, 70 * rank as usize] {
                        let mut mine = Vec::new();
                        for i in 0..count {
                            let file = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
                            write!(File::from(file.try_clone().unwrap()), "{rank} {i}").unwrap();
                            mine.push(file);
                        }
                        let mine: Vec<_> = mine.iter().map(OwnedFd::as_fd).collect();
                        let all = channels.share(&mine, &|| false).unwrap();
                        for (from, files) in all.into_iter().enumerate() {
                            let own = from == rank as usize;
                            let expected = [1, 70 * from][usize::from(count != 1)];
                            assert_eq!(files.len(), if own { 0 } else { expected });
                            for (i, file) in files.into_iter().enumerate() {
                                let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
                                assert_eq!(std::fs::read_to_string(path).unwrap(), format!("{from} {i}"));
                            }
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn one_that_does_not_come_is_not_waited_for_longer_than_the_limit() {
        let (door, other) = (Door::open().unwrap(), Door::open().unwrap());
        let cards = [&door, &other].map(|door| Some(door.card().clone()));
        let wait = |limit, given_up: &dyn Fn() -> bool| Channels::connect(&door, 0, &cards, limit, given_up);
        let error = wait(Some(Duration::from_millis(20)), &|| false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(wait(None, &|| true).is_err());
    }
}
