//! Letters between processes that not all of them need: what members of a team tell each other.
//!
//! Every process has one inbox, which the others got the other end of when they met: a socket without a name, gone with the
//! process. Letters of one sender arrive in the order in which they were sent, whole or not at all.

use crate::collective::Turn;
use crate::fds::Channels;
use crate::meetings::Key;
use crate::wire;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
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
}

/// Bytes that are none.
pub(crate) struct NoLetter;

pub(crate) struct Post {
    inbox: UnixDatagram,
    /// By rank; one's own too.
    outboxes: Vec<UnixDatagram>,
    limit: Option<Duration>,
}

impl Post {
    /// Every process calls it. A letter waits as long as `limit` for one that takes none.
    pub(crate) fn open(
        channels: &Channels,
        rank: u32,
        limit: Option<Duration>,
        given_up: &dyn Fn() -> bool,
    ) -> io::Result<Self> {
        let (inbox, mine) = UnixDatagram::pair()?;
        mine.set_write_timeout(Some(LOOK))?;
        let mut all = channels.share(&[mine.as_fd()], given_up)?;
        all[rank as usize] = vec![mine.into()];
        let outbox = |files: Vec<_>| match <[_; 1]>::try_from(files) {
            Ok([file]) => Ok(UnixDatagram::from(file)),
            Err(files) => Err(io::Error::other(format!("a process sent {} inboxes", files.len()))),
        };
        let outboxes = all.into_iter().map(outbox).collect::<io::Result<_>>()?;
        Ok(Self { inbox, outboxes, limit })
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
        to.into_iter().try_for_each(|rank| {
            self.drop_in(rank, &bytes, given_up)
                .map_err(|cause| format!("process {rank} takes no letters: {cause}"))
        })
    }

    fn drop_in(&self, rank: u32, bytes: &[u8], given_up: &dyn Fn() -> bool) -> io::Result<()> {
        let start = Instant::now();
        loop {
            match self.outboxes[rank as usize].send(bytes) {
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

    /// Ends the thread that receives.
    pub(crate) fn stop(&self, rank: u32) {
        // An empty letter to oneself wakes it where it waits; where there is no room for one, the end of the socket does.
        if self.drop_in(rank, &[], &|| true).is_err() {
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
        let (outboxes, limit) = (vec![mine], None);
        Post { inbox, outboxes, limit }
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
            post.outboxes[0].send(&noise).unwrap();
            let read = post.receive();
            let is_letter = wire::decode::<Letter>(&noise).is_some();
            prop_assert!(matches!(read, Ok(Some(letter)) if letter.is_ok() == is_letter));
        }
    }
}
