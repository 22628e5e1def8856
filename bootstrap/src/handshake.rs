//! How a process other than rank 0 gets through to it.

use crate::BootstrapError;
use crate::error::Refusal;
use crate::message::{Frames, LONGEST_CAUSE, MAGIC, Message, VERSION};
use crate::proof::Claim;
use crate::random::random;
use crate::settings::Settings;
use crate::socket::Socket;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

/// Between attempts: rank 0 may not have been started yet.
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// What ends an attempt.
enum Stop {
    /// Rank 0 is not there yet, or did not have time: try again.
    Again(String),
    Final(BootstrapError),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Again(error.to_string())
    }
}

/// Connects and shows the secret, again and again until the limit.
pub(crate) fn reach(settings: &Settings, node: &str, begun: Instant) -> Result<(Socket, Frames), BootstrapError> {
    // A limit that never comes is a year.
    let deadline = begun + settings.limit_value().min(Duration::from_hours(365 * 24));
    let mut pause = PAUSE;
    loop {
        let cause = match attempt(settings, node, deadline) {
            Ok(connection) => return Ok(connection),
            Err(Stop::Final(error)) => return Err(error),
            Err(Stop::Again(cause)) => cause,
        };
        if Instant::now() + pause >= deadline {
            return Err(BootstrapError::Unreachable {
                rank: settings.rank(),
                address: settings.root().to_string(),
                waited: begun.elapsed(),
                cause,
            });
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn attempt(settings: &Settings, node: &str, deadline: Instant) -> Result<(Socket, Frames), Stop> {
    let address = settings.root();
    let not_ours = |cause: &str| {
        Stop::Final(BootstrapError::NotOurRoot {
            address: address.to_string(),
            cause: cause.into(),
        })
    };
    let socket = Socket::connect(address, deadline)?;
    socket.tune()?;
    let secret = settings.secret_value();
    let me = rustix::process::geteuid().as_raw();
    if let Some(user) = socket.other_user().filter(|user| secret.is_none() && *user != me) {
        return Err(not_ours(&format!("it runs as user {user}, this process as user {me}")));
    }
    // A refusal may carry a failure's cause.
    let mut frames = Frames::new(2 * LONGEST_CAUSE);
    let challenge = receive(&socket, &mut frames, deadline)?;
    let Some(Message::Challenge {
        magic: MAGIC,
        version,
        nonce: theirs,
    }) = challenge
    else {
        return Err(not_ours("it does not speak this protocol"));
    };
    let refused = |refusal| {
        Stop::Final(BootstrapError::Refused {
            rank: settings.rank(),
            address: address.to_string(),
            refusal,
        })
    };
    if version != VERSION {
        return Err(refused(Refusal::Version {
            root: version,
            peer: VERSION,
        }));
    }
    let (rank, size) = (settings.rank(), settings.size());
    let nonce = random().map_err(Stop::Final)?;
    let claim = Claim {
        rank,
        size,
        node,
        nonces: [theirs, nonce],
    };
    let tag = claim.sign(secret);
    let hello = Message::Hello {
        version: VERSION,
        rank,
        size,
        node: node.into(),
        nonce,
        tag,
    };
    (&socket).write_all(&hello.encode())?;
    match receive(&socket, &mut frames, deadline)? {
        Some(Message::Welcome { tag: answer }) if claim.answer_holds(secret, &tag, &answer) => {}
        Some(Message::Welcome { .. }) => return Err(not_ours("it does not have the job secret")),
        Some(Message::Refused(refusal)) => return Err(refused(refusal)),
        _ => return Err(not_ours("it does not speak this protocol")),
    }
    socket.set_read_limit(None)?;
    Ok((socket, frames))
}

/// The next message; `None` if what came is not one.
fn receive(socket: &Socket, frames: &mut Frames, deadline: Instant) -> Result<Option<Message>, Stop> {
    let mut buffer = [0; 1024];
    loop {
        match frames.next() {
            Ok(Some(message)) => return Ok(Some(message)),
            Ok(None) => {}
            Err(_) => return Ok(None),
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Stop::Again("it took the connection, but did not answer".into()));
        }
        socket.set_read_limit(Some(left))?;
        match { socket }.read(&mut buffer) {
            Ok(0) => return Err(Stop::Again("it closed the connection".into())),
            Ok(count) => frames.feed(&buffer[..count]),
            Err(e) if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
            Err(e) => return Err(e.into()),
        }
    }
}
