//! Letters between processes that not all of them need: what members of a team tell each other.
//!
//! Every process has one inbox, which the others got the other end of when they met: a socket without a name, gone with the
//! process. Letters of one sender arrive in the order in which they were sent, whole or not at all.

use crate::collective::Turn;
use crate::fds::Channels;
use crate::layout::Layout;
use crate::meetings::Key;
use crate::processes::Processes;
use crate::wire;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a letter: less than the system takes in one piece, more than any turn has.
const LONGEST: usize = 128 << 10;
/// How often whoever waits for room in an inbox looks whether it still makes sense.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Serialize, Deserialize)]
pub(crate) enum Letter {
    /// What a PE brings to a meeting of this team.
    Turn { team: Key, pe: u32, turn: Box<Turn> },
    /// The PE comes to no meeting any more.
    End { pe: u32 },
    /// How far are the PEs of the process that this comes to? For that of rank `rank`, on another machine.
    Ask { rank: u32 },
    /// The answer: how many rounds each has come to, and whether its device holds it up.
    Slots(Vec<(u32, u64, bool)>),
}

/// Bytes that are none.
pub(crate) struct NoLetter;

pub(crate) struct Post {
    inbox: UnixDatagram,
    /// By rank; one's own too. None on other machines, where the bootstrap's connection brings letters.
    outboxes: Vec<Option<UnixDatagram>>,
    processes: Option<Arc<dyn Processes>>,
    stopped: AtomicBool,
    limit: Option<Duration>,
}

impl Post {
    /// Every process calls it. A letter waits as long as `limit` for one that takes none.
    pub(crate) fn open(
        channels: &Channels,
        layout: &Layout,
        processes: &Arc<dyn Processes>,
        limit: Option<Duration>,
        given_up: &dyn Fn() -> bool,
    ) -> io::Result<Self> {
        let (inbox, mine) = UnixDatagram::pair()?;
        mine.set_write_timeout(Some(LOOK))?;
        let mut all = channels.share(&[mine.as_fd()], given_up)?;
        all[layout.rank() as usize] = vec![mine.into()];
        let outbox = |(rank, files): (u32, Vec<_>)| match <[_; 1]>::try_from(files) {
            _ if !layout.is_near(rank) => Ok(None),
            Ok([file]) => Ok(Some(UnixDatagram::from(file))),
            Err(files) => Err(io::Error::other(format!("a process sent {} inboxes", files.len()))),
        };
        Ok(Self {
            inbox,
            outboxes: (0..).zip(all).map(outbox).collect::<io::Result<_>>()?,
            processes: (!layout.is_one_host()).then(|| processes.clone()),
            stopped: AtomicBool::new(false),
            limit,
        })
    }

    /// To these processes, by rank. One that takes no letters, because it is stopped, is waited for until the limit, or until
    /// `given_up`. The error is in words.
    pub(crate) fn send(
        &self,
        letter: &Letter,
        to: impl IntoIterator<Item = u32>,
        given_up: &dyn Fn() -> bool,
    ) -> Result<(), String> {
        let bytes = wire::encode(letter);
        if bytes.len() > LONGEST {
            return Err(format!(
                "a letter of {} bytes, at most {LONGEST} go in one",
                bytes.len()
            ));
        }
        to.into_iter()
            .try_for_each(|rank| match self.outboxes.get(rank as usize) {
                Some(Some(outbox)) => self
                    .drop_in(outbox, &bytes, given_up)
                    .map_err(|cause| format!("process {rank} takes no letters: {cause}")),
                Some(None) => self.far()?.send(rank, &bytes, self.limit),
                None => Err(format!("there is no process {rank}")),
            })
    }

    fn far(&self) -> Result<&dyn Processes, String> {
        let processes = self.processes.as_deref();
        processes.ok_or_else(|| "all processes are on this machine".to_owned())
    }

    fn drop_in(&self, outbox: &UnixDatagram, bytes: &[u8], given_up: &dyn Fn() -> bool) -> io::Result<()> {
        let start = Instant::now();
        loop {
            match outbox.send(bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if given_up() || self.limit.is_some_and(|limit| start.elapsed() >= limit) {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                sent => return sent.map(drop),
            }
        }
    }

    /// The next letter, or what was sent instead of one; None after [`stop`](Self::stop). One thread calls it.
    pub(crate) fn receive(&self) -> io::Result<Option<Result<Letter, NoLetter>>> {
        let mut bytes = vec![0; LONGEST + 1];
        let length = loop {
            match self.inbox.recv(&mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                received => break received?,
            }
        };
        let letter = || wire::decode(&bytes[..length]).ok_or(NoLetter);
        Ok((length > 0).then(letter))
    }

    /// Whether letters come from other machines.
    pub(crate) fn has_far(&self) -> bool {
        self.processes.is_some()
    }

    /// The next letter from another machine, or what was sent instead of one; None after [`stop`](Self::stop). An error, in words,
    /// once a process has failed. One thread calls it.
    pub(crate) fn receive_far(&self) -> Result<Option<Result<Letter, NoLetter>>, String> {
        while !self.stopped.load(Ordering::Acquire) {
            if let Some(bytes) = self.far()?.receive(LOOK)? {
                return Ok(Some(wire::decode(&bytes).ok_or(NoLetter)));
            }
        }
        Ok(None)
    }

    /// Ends the threads that receive.
    pub(crate) fn stop(&self, rank: u32) {
        self.stopped.store(true, Ordering::Release);
        // An empty letter to oneself wakes it where it waits; where there is no room for one, the end of the socket does.
        let own = self.outboxes[rank as usize].as_ref();
        if own.is_none_or(|own| self.drop_in(own, &[], &|| true).is_err()) {
            let _ = self.inbox.shutdown(Shutdown::Both);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Site;
    use crate::collective::Call;
    use proptest::prelude::*;
    use std::cell::Cell;
    use std::panic::Location;
    use std::thread;

    fn alone() -> Post {
        let (inbox, mine) = UnixDatagram::pair().unwrap();
        mine.set_write_timeout(Some(Duration::from_millis(10))).unwrap();
        Post {
            inbox,
            outboxes: vec![Some(mine)],
            processes: None,
            stopped: AtomicBool::new(false),
            limit: None,
        }
    }

    fn turn(dropped: usize) -> Letter {
        let turn = Turn {
            call: Call::Barrier,
            site: Site::from(Location::caller()),
            dropped: vec![u64::MAX; dropped],
            dropped_teams: 5,
        };
        Letter::Turn {
            team: (Some(3), 1),
            pe: 2,
            turn: Box::new(turn),
        }
    }

    #[test]
    fn letters_arrive_whole_and_in_order_until_it_is_stopped() {
        let post = alone();
        for pe in 0..3 {
            post.send(&Letter::End { pe }, [0], &|| false).unwrap();
        }
        post.send(&turn(10_000), [0], &|| false).unwrap();
        for expected in 0..3 {
            assert!(matches!(post.receive(), Ok(Some(Ok(Letter::End { pe }))) if pe == expected));
        }
        let Ok(Some(Ok(Letter::Turn { team, pe, turn }))) = post.receive() else {
            panic!("no turn")
        };
        assert_eq!((team, pe, turn.dropped.len()), ((Some(3), 1), 2, 10_000));
        post.stop(0);
        assert!(matches!(post.receive(), Ok(None)));
    }

    #[test]
    fn what_does_not_fit_or_reaches_nobody_is_told() {
        let post = alone();
        let too_long = post.send(&turn(20_000), [0], &|| false).unwrap_err();
        assert!(too_long.contains("at most 131072"), "{too_long}");
        drop(post.inbox);
        let gone = Post {
            inbox: UnixDatagram::unbound().unwrap(),
            ..post
        };
        let gone = gone.send(&Letter::End { pe: 0 }, [0], &|| false).unwrap_err();
        assert!(gone.starts_with("process 0 takes no letters"), "{gone}");
    }

    #[test]
    fn a_full_inbox_is_waited_for_until_it_makes_no_sense() {
        let mut post = alone();
        let end = Letter::End { pe: 0 };
        let looks = Cell::new(0);
        let given_up = || looks.replace(looks.get() + 1) == 3;
        let refused = (0..100_000)
            .find_map(|_| post.send(&end, [0], &given_up).err())
            .unwrap();
        assert!(refused.contains("timed out") && looks.get() == 4, "{refused}");
        post.limit = Some(Duration::from_millis(30));
        assert!(post.send(&end, [0], &|| false).is_err());
        // There is no room for the letter that ends it.
        thread::scope(|scope| {
            post.stop(0);
            scope.spawn(|| while let Ok(Some(Ok(Letter::End { pe: 0 }))) = post.receive() {});
        });
    }

    proptest! {
        /// Whatever another process sends, it is a letter or none.
        #[test]
        fn noise_is_no_letter(noise in prop::collection::vec(any::<u8>(), 1..400)) {
            let post = alone();
            post.outboxes[0].as_ref().unwrap().send(&noise).unwrap();
            let read = post.receive();
            let is_letter = wire::decode::<Letter>(&noise).is_some();
            prop_assert!(matches!(read, Ok(Some(letter)) if letter.is_ok() == is_letter));
        }
    }
}
