//! What goes over a connection: messages, and the bytes that they are.
//!
//! A frame is its length (4 bytes, of what follows), a byte that says which message, and the message's fields in order.
//! Numbers are little-endian; texts, byte strings and lists come after their length.

use crate::call::Call;
use crate::error::{PeerFailure, Refusal};
use crate::secret::{Nonce, Tag};

/// Raised with every change of a message.
pub(crate) const VERSION: u16 = 2;
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
    /// P: for the process of this rank. R: from that process.
    Letter { rank: u32, data: Vec<u8> },
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
            Self::Letter { rank, data } => {
                out.u8(15).u32(*rank).bytes(data);
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
                15 => Self::Letter {
                    rank: r.u32()?,
                    data: r.bytes()?.to_vec(),
                },
                _ => return None,
            })
        };
        match kind {
            1..=15 => Ok(read(r)),
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
            Call::Send { to } => self.u8(5).u32(to),
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
            5 => Call::Send { to: self.u32()? },
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

/// For the fuzz target and the test that does the same with fewer inputs: whatever comes, the decoder returns, holds no
/// more than it must, and what it understands is written back as the same bytes.
pub(crate) fn decode_anything(bytes: &[u8], limit: usize, step: usize) {
    let mut frames = Frames::new(limit);
    let mut understood = Vec::new();
    for chunk in bytes.chunks(step.max(1)) {
        frames.feed(chunk);
        loop {
            match frames.next() {
                Ok(Some(message)) => understood.extend(message.encode()),
                Ok(None) => break,
                Err(_) => return assert!(bytes.starts_with(&understood)),
            }
        }
        assert!(frames.buffer.len() <= limit + 4 + chunk.len());
    }
    assert!(bytes.starts_with(&understood));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn call() -> impl Strategy<Value = Call> {
        prop_oneof![
            Just(Call::Join),
            Just(Call::Barrier),
            Just(Call::AllGather),
            any::<u32>().prop_map(|from| Call::Broadcast { from }),
            Just(Call::Finish),
            any::<u32>().prop_map(|to| Call::Send { to }),
        ]
    }

    fn failure() -> impl Strategy<Value = PeerFailure> {
        (any::<u32>(), ".{0,40}").prop_map(|(rank, cause)| PeerFailure { rank, cause })
    }

    fn refusal() -> impl Strategy<Value = Refusal> {
        prop_oneof![
            Just(Refusal::WrongSecret),
            any::<(u16, u16)>().prop_map(|(root, peer)| Refusal::Version { root, peer }),
            any::<(u32, u32)>().prop_map(|(root, peer)| Refusal::Size { root, peer }),
            any::<u32>().prop_map(|rank| Refusal::RankTaken { rank }),
            failure().prop_map(Refusal::JobFailed),
        ]
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), 0..50)
    }

    fn message() -> impl Strategy<Value = Message> {
        let list = |item| prop::collection::vec(item, 0..5);
        prop_oneof![
            any::<([u8; 8], u16, Nonce)>().prop_map(|(magic, version, nonce)| Message::Challenge {
                magic,
                version,
                nonce
            }),
            (any::<(u16, u32, u32, Nonce, Tag)>(), ".{0,40}").prop_map(|((version, rank, size, nonce, tag), node)| {
                Message::Hello {
                    version,
                    rank,
                    size,
                    node,
                    nonce,
                    tag,
                }
            }),
            refusal().prop_map(Message::Refused),
            any::<Tag>().prop_map(|tag| Message::Welcome { tag }),
            prop::collection::vec(".{0,20}", 0..5).prop_map(|nodes| Message::Ready { nodes }),
            (any::<u64>(), call(), bytes()).prop_map(|(number, call, data)| Message::Part { number, call, data }),
            (any::<u64>(), list(bytes())).prop_map(|(number, parts)| Message::Complete { number, parts }),
            (any::<(u32, u32)>(), call(), call()).prop_map(|((first, second), first_call, second_call)| {
                Message::Mismatch {
                    first,
                    first_call,
                    second,
                    second_call,
                }
            }),
            any::<u64>().prop_map(|number| Message::WhoIsMissing { number }),
            any::<(u64, Vec<u32>)>().prop_map(|(number, ranks)| Message::Missing { number, ranks }),
            ".{0,40}".prop_map(|cause| Message::Fail { cause }),
            failure().prop_map(Message::Failed),
            Just(Message::Bye),
            Just(Message::AllDone),
            (any::<u32>(), bytes()).prop_map(|(rank, data)| Message::Letter { rank, data }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn messages_come_back_however_the_stream_is_cut(
            messages in prop::collection::vec(message(), 1..6),
            step in 1_usize..100,
        ) {
            let stream: Vec<u8> = messages.iter().flat_map(Message::encode).collect();
            let mut frames = Frames::new(1 << 16);
            let mut back = Vec::new();
            for chunk in stream.chunks(step) {
                frames.feed(chunk);
                while let Some(message) = frames.next().unwrap() {
                    back.push(message);
                }
            }
            prop_assert_eq!(back, messages);
        }

        #[test]
        fn a_truncated_message_is_refused_or_waited_for(message in message(), keep in any::<prop::sample::Index>()) {
            let whole = message.encode();
            let mut cut = whole[..4 + keep.index(whole.len() - 4)].to_vec();
            let mut frames = Frames::new(1 << 16);
            frames.feed(&cut);
            prop_assert_eq!(frames.next(), Ok(None));
            // Also if its length says that it is whole.
            let length = cut.len() as u32 - 4;
            cut[..4].copy_from_slice(&length.to_le_bytes());
            let mut frames = Frames::new(1 << 16);
            frames.feed(&cut);
            prop_assert!(frames.next().is_err());
        }

        /// The fuzz target's harness, for as long as a test may take.
        #[test]
        fn random_bytes_do_no_harm(noise in prop::collection::vec(any::<u8>(), 0..300), step in 1_usize..64) {
            decode_anything(&noise, 1 << 10, step);
        }

        /// The same with one byte of a good message changed, and with frames whose length and kind are right.
        #[test]
        fn damaged_messages_do_no_harm(
            message in message(),
            at in any::<prop::sample::Index>(),
            to in any::<u8>(),
            noise in bytes(),
            kind in 0_u8..20,
        ) {
            let mut damaged = message.encode();
            let at = at.index(damaged.len());
            damaged[at] = to;
            decode_anything(&damaged, 1 << 16, 1 << 16);
            let mut framed = (noise.len() as u32 + 1).to_le_bytes().to_vec();
            framed.push(kind);
            framed.extend(noise);
            decode_anything(&framed, 1 << 16, 7);
        }
    }

    #[test]
    fn a_long_cause_is_cut_between_characters() {
        let long = "\u{20ac}".repeat(LONGEST_CAUSE);
        let mut frames = Frames::new(2 * LONGEST_CAUSE);
        frames.feed(&Message::Fail { cause: long }.encode());
        let Some(Message::Fail { cause }) = frames.next().unwrap() else {
            panic!("no message")
        };
        assert_eq!(cause.len(), LONGEST_CAUSE / 3 * 3);
    }

    #[test]
    fn a_count_that_cannot_be_takes_no_memory() {
        let mut complete = Message::Complete {
            number: 1,
            parts: Vec::new(),
        }
        .encode();
        let at = complete.len() - 4;
        complete[at..].copy_from_slice(&u32::MAX.to_le_bytes());
        let mut frames = Frames::new(1 << 10);
        frames.feed(&complete);
        assert_eq!(frames.next(), Err(Malformed::Fields { kind: 7 }));
        let mut frames = Frames::new(1 << 10);
        frames.feed(b"GET / HTTP/1.1");
        assert_eq!(
            frames.next(),
            Err(Malformed::TooLong {
                length: 0x2054_4547,
                limit: 1 << 10
            })
        );
    }
}
