//! What goes over a connection: messages, and the bytes that they are.
//!
//! A frame is its length (4 bytes, of what follows), a byte that says which message, and the message's fields in order.
//! Numbers are little-endian; texts, byte strings and lists come after their length.

use crate::call::Call;
use crate::error::{PeerFailure, Refusal};
use crate::secret::{Nonce, Tag};

/// Raised with every change of a message.
pub(crate) const VERSION: u16 = 1;
/// Tells this protocol from others that might listen at the port.
pub(crate) const MAGIC: [u8; 8] = *b"shmem\0bs";

/// Sent by rank 0's server (R) or by a process (P).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// R: the first words on a connection.
    Challenge { magic: [u8; 8], version: u16, nonce: Nonce },
    /// P: who it is, and the proof that it has the secret.
    Hello {
        version: u16,
        rank: u32,
        size: u32,
        node: String,
        nonce: Nonce,
        tag: Tag,
    },
    /// R: instead of a welcome.
    Refused(Refusal),
    /// R: the proof that it has the secret too.
    Welcome { tag: Tag },
    /// R: all have come; the node of each rank.
    Ready { nodes: Vec<String> },
    /// P: its part of collective call number `number`.
    Part { number: u64, call: Call, data: Vec<u8> },
    /// R: the call is complete.
    Complete { number: u64, parts: Vec<Vec<u8>> },
    /// R: calls of two ranks don't fit together.
    Mismatch {
        first: u32,
        first_call: Call,
        second: u32,
        second_call: Call,
    },
    /// P: who has not come to this call?
    WhoIsMissing { number: u64 },
    /// R: these.
    Missing { number: u64, ranks: Vec<u32> },
    /// P: I can't go on.
    Fail { cause: String },
    /// R: this process can't.
    Failed(PeerFailure),
    /// P: I need nothing any more.
    Bye,
    /// R: nobody does.
    AllDone,
}

/// [`Message::WhoIsMissing`] of the calls that have no number: [`Call::Join`], [`Call::Finish`].
pub(crate) const JOIN: u64 = 0;
pub(crate) const FINISH: u64 = u64::MAX;

/// Longer texts about failures are cut, so that news of them always fit.
pub(crate) const LONGEST_CAUSE: usize = 4096;

/// Bytes that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("a frame of {length} bytes, at most {limit} are expected")]
    TooLong { length: usize, limit: usize },
    #[error("message {kind} does not exist")]
    Kind { kind: u8 },
    #[error("message {kind} ends too early or has impossible fields")]
    Fields { kind: u8 },
    #[error("message {kind} has {left} bytes too many")]
    Trailing { kind: u8, left: usize },
}

impl Message {
    /// The frame.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer(vec![0; 4]);
        match self {
            Self::Challenge { magic, version, nonce } => {
                out.u8(1).fixed(magic).u16(*version).fixed(nonce);
            }
            Self::Hello {
                version,
                rank,
                size,
                node,
                nonce,
                tag,
            } => {
                out.u8(2)
                    .u16(*version)
                    .u32(*rank)
                    .u32(*size)
                    .bytes(node.as_bytes())
                    .fixed(nonce)
                    .fixed(tag);
            }
            Self::Refused(refusal) => {
                out.u8(3);
                match refusal {
                    Refusal::WrongSecret => out.u8(0),
                    Refusal::Version { root, peer } => out.u8(1).u16(*root).u16(*peer),
                    Refusal::Size { root, peer } => out.u8(2).u32(*root).u32(*peer),
                    Refusal::RankTaken { rank } => out.u8(3).u32(*rank),
                    Refusal::JobFailed(failure) => out.u8(4).failure(failure),
                };
            }
            Self::Welcome { tag } => {
                out.u8(4).fixed(tag);
            }
            Self::Ready { nodes } => {
                out.u8(5).u32(nodes.len() as u32);
                for node in nodes {
                    out.bytes(node.as_bytes());
                }
            }
            Self::Part { number, call, data } => {
                out.u8(6).u64(*number).call(*call).bytes(data);
            }
            Self::Complete { number, parts } => {
                out.u8(7).u64(*number).u32(parts.len() as u32);
                for part in parts {
                    out.bytes(part);
                }
            }
            Self::Mismatch {
                first,
                first_call,
                second,
                second_call,
            } => {
                out.u8(8).u32(*first).call(*first_call).u32(*second).call(*second_call);
            }
            Self::WhoIsMissing { number } => {
                out.u8(9).u64(*number);
            }
            Self::Missing { number, ranks } => {
                out.u8(10).u64(*number).u32(ranks.len() as u32);
                for rank in ranks {
                    out.u32(*rank);
                }
            }
            Self::Fail { cause } => {
                out.u8(11).bytes(cut(cause).as_bytes());
            }
            Self::Failed(failure) => {
                out.u8(12).failure(failure);
            }
            Self::Bye => {
                out.u8(13);
            }
            Self::AllDone => {
                out.u8(14);
            }
        }
        let length = (out.0.len() - 4) as u32;
        out.0[..4].copy_from_slice(&length.to_le_bytes());
        out.0
    }

    /// The message of a frame's content: all after the length.
    fn decode(content: &[u8]) -> Result<Self, Malformed> {
        let (&kind, rest) = content.split_first().ok_or(Malformed::Fields { kind: 0 })?;
        let mut fields = Reader(rest);
        let message = Self::fields(kind, &mut fields)?.ok_or(Malformed::Fields { kind })?;
        match fields.0.len() {
            0 => Ok(message),
            left => Err(Malformed::Trailing { kind, left }),
        }
    }

    fn fields(kind: u8, r: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        let read = |r: &mut Reader<'_>| {
            Some(match kind {
                1 => Self::Challenge {
                    magic: r.fixed()?,
                    version: r.u16()?,
                    nonce: r.fixed()?,
                },
                2 => Self::Hello {
                    version: r.u16()?,
                    rank: r.u32()?,
                    size: r.u32()?,
                    node: r.text()?,
                    nonce: r.fixed()?,
                    tag: r.fixed()?,
                },
                3 => Self::Refused(match r.u8()? {
                    0 => Refusal::WrongSecret,
                    1 => Refusal::Version {
                        root: r.u16()?,
                        peer: r.u16()?,
                    },
                    2 => Refusal::Size {
                        root: r.u32()?,
                        peer: r.u32()?,
                    },
                    3 => Refusal::RankTaken { rank: r.u32()? },
                    4 => Refusal::JobFailed(r.failure()?),
                    _ => return None,
                }),
                4 => Self::Welcome { tag: r.fixed()? },
                5 => Self::Ready {
                    nodes: r.list(4, Reader::text)?,
                },
                6 => Self::Part {
                    number: r.u64()?,
                    call: r.call()?,
                    data: r.bytes()?.to_vec(),
                },
                7 => Self::Complete {
                    number: r.u64()?,
                    parts: r.list(4, |r| r.bytes().map(<[u8]>::to_vec))?,
                },
                8 => Self::Mismatch {
                    first: r.u32()?,
                    first_call: r.call()?,
                    second: r.u32()?,
                    second_call: r.call()?,
                },
                9 => Self::WhoIsMissing { number: r.u64()? },
                10 => Self::Missing {
                    number: r.u64()?,
                    ranks: r.list(4, Reader::u32)?,
                },
                11 => Self::Fail { cause: r.text()? },
                12 => Self::Failed(r.failure()?),
                13 => Self::Bye,
                14 => Self::AllDone,
                _ => return None,
            })
        };
        match kind {
            1..=14 => Ok(read(r)),
            _ => Err(Malformed::Kind { kind }),
        }
    }
}

/// At most [`LONGEST_CAUSE`] bytes of it.
pub(crate) fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST_CAUSE)]
}

struct Writer(Vec<u8>);

impl Writer {
    fn fixed(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }
    fn u8(&mut self, value: u8) -> &mut Self {
        self.fixed(&[value])
    }
    fn u16(&mut self, value: u16) -> &mut Self {
        self.fixed(&value.to_le_bytes())
    }
    fn u32(&mut self, value: u32) -> &mut Self {
        self.fixed(&value.to_le_bytes())
    }
    fn u64(&mut self, value: u64) -> &mut Self {
        self.fixed(&value.to_le_bytes())
    }
    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.u32(bytes.len() as u32).fixed(bytes)
    }
    fn failure(&mut self, failure: &PeerFailure) -> &mut Self {
        self.u32(failure.rank).bytes(cut(&failure.cause).as_bytes())
    }
    fn call(&mut self, call: Call) -> &mut Self {
        match call {
            Call::Join => self.u8(0),
            Call::Barrier => self.u8(1),
            Call::AllGather => self.u8(2),
            Call::Broadcast { from } => self.u8(3).u32(from),
            Call::Finish => self.u8(4),
        }
    }
}

/// Takes fields from the front; `None` when there are not enough bytes or they can't be.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }
    fn fixed<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }
    fn u8(&mut self) -> Option<u8> {
        self.fixed().map(u8::from_le_bytes)
    }
    fn u16(&mut self) -> Option<u16> {
        self.fixed().map(u16::from_le_bytes)
    }
    fn u32(&mut self) -> Option<u32> {
        self.fixed().map(u32::from_le_bytes)
    }
    fn u64(&mut self) -> Option<u64> {
        self.fixed().map(u64::from_le_bytes)
    }
    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()? as usize;
        self.take(length)
    }
    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }
    fn failure(&mut self) -> Option<PeerFailure> {
        Some(PeerFailure {
            rank: self.u32()?,
            cause: self.text()?,
        })
    }
    fn call(&mut self) -> Option<Call> {
        Some(match self.u8()? {
            0 => Call::Join,
            1 => Call::Barrier,
            2 => Call::AllGather,
            3 => Call::Broadcast { from: self.u32()? },
            4 => Call::Finish,
            _ => return None,
        })
    }
    /// A count and as many items of at least `least` bytes: a count that can't be is refused before memory is taken for it.
    fn list<T>(&mut self, least: usize, item: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.u32()? as usize;
        if count > self.0.len() / least {
            return None;
        }
        (0..count).map(|_| item(self)).collect()
    }
}

/// Cuts a stream of bytes into messages.
pub(crate) struct Frames {
    buffer: Vec<u8>,
    start: usize,
    limit: usize,
}

impl Frames {
    /// Takes frames of at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            limit,
        }
    }

    /// From now on takes longer ones: the other side has shown who it is.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole message, if it is there. After an error the stream has no meaning any more.
    pub(crate) fn next(&mut self) -> Result<Option<Message>, Malformed> {
        let waiting = &self.buffer[self.start..];
        let Some((length, rest)) = waiting.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length > self.limit {
            return Err(Malformed::TooLong {
                length,
                limit: self.limit,
            });
        }
        let Some(content) = rest.get(..length) else {
            return Ok(None);
        };
        let message = Message::decode(content)?;
        self.start += 4 + length;
        Ok(Some(message))
    }
}
