//! What PEs tell each other of their adapters, as bytes that the bootstrap carries.

use crate::calls::Link;
use crate::error::BlobFault;
use serde::{Deserialize, Serialize};

/// First bytes of every blob.
const MAGIC: [u8; 4] = *b"SHIB";
/// Raised with every change of what follows.
pub const VERSION: u16 = 1;

/// A registered chunk of a PE's symmetric heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ChunkKey {
    /// Where it starts in the heap: entries name its memory by offset in the heap.
    pub start: u64,
    /// Bytes.
    pub bytes: u64,
    /// The key.
    pub key: u32,
}

/// What a peer needs of a PE.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Blob {
    /// On Ethernet rather than InfiniBand.
    pub ethernet: bool,
    /// Local identifier, on InfiniBand.
    pub lid: u16,
    /// Global identifier.
    pub gid: [u8; 16],
    /// Code of the largest packet, 1 (256 bytes) to 5 (4096 bytes).
    pub mtu: u8,
    /// Reads and atomics that it takes at once from each queue pair, as log2.
    pub log_reads: u8,
    /// PEs that it has queue pairs for.
    pub pes: u32,
    /// Numbers of its queue pairs, each below 2^24: that of context `c` to PE `p` at `c * pes + p`.
    pub numbers: Vec<u32>,
    /// Its chunks, in the order in which they were added.
    pub chunks: Vec<ChunkKey>,
}

impl Blob {
    /// As bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        // Writing numbers to a vector does not fail.
        postcard::to_extend(self, bytes).unwrap_or_default()
    }

    /// Reads bytes that a peer sent, without trust.
    ///
    /// ```
    /// use shmem_ibgda::{Blob, error::BlobFault};
    /// assert_eq!(Blob::parse(b"something else"), Err(BlobFault::Magic));
    /// assert_eq!(Blob::parse(b"SHIB\x09\x00"), Err(BlobFault::Version { seen: 9, expected: 1 }));
    /// ```
    ///
    /// # Errors
    /// [`BlobFault`].
    pub fn parse(bytes: &[u8]) -> Result<Self, BlobFault> {
        let rest = bytes.strip_prefix(&MAGIC).ok_or(BlobFault::Magic)?;
        let (version, rest) = rest.split_first_chunk().ok_or(BlobFault::Magic)?;
        let seen = u16::from_le_bytes(*version);
        if seen != VERSION {
            return Err(BlobFault::Version {
                seen,
                expected: VERSION,
            });
        }
        let (blob, rest) = postcard::take_from_bytes::<Self>(rest).map_err(|e| BlobFault::Damaged(e.to_string()))?;
        if !rest.is_empty() {
            return Err(BlobFault::Longer(rest.len()));
        }
        blob.check()?;
        Ok(blob)
    }

    fn check(&self) -> Result<(), BlobFault> {
        let fault = |what, seen: u64, expected: &str| {
            Err(BlobFault::Number {
                what,
                seen,
                expected: expected.into(),
            })
        };
        if !(1..=5).contains(&self.mtu) {
            return fault("packet size", self.mtu.into(), "1 to 5");
        }
        if self.log_reads > 7 {
            return fault("log2 of reads", self.log_reads.into(), "0 to 7");
        }
        let whole = match self.pes {
            0 => self.numbers.is_empty(),
            pes => self.numbers.len().is_multiple_of(pes as usize),
        };
        if !whole {
            return fault("queue pairs", self.numbers.len() as u64, "a multiple of its PEs");
        }
        if let Some(&number) = self.numbers.iter().find(|&&n| n >> 24 != 0) {
            return fault("a queue pair's number", number.into(), "below 2^24");
        }
        let wraps = |chunk: &&ChunkKey| chunk.bytes == 0 || chunk.start.checked_add(chunk.bytes).is_none();
        if let Some(chunk) = self.chunks.iter().find(wraps) {
            return fault("a chunk's bytes", chunk.bytes, "1 to the end of the address space");
        }
        Ok(())
    }

    /// The key for `bytes` from `start` on of its heap.
    ///
    /// # Errors
    /// [`BlobFault::NoKey`]: no chunk has all of them.
    pub fn key(&self, start: u64, bytes: u64) -> Result<u32, BlobFault> {
        let has = |chunk: &&ChunkKey| {
            let offset = start.checked_sub(chunk.start);
            offset.is_some_and(|offset| offset <= chunk.bytes && bytes <= chunk.bytes - offset)
        };
        let chunk = self.chunks.iter().find(has);
        chunk.map(|chunk| chunk.key).ok_or(BlobFault::NoKey { start, bytes })
    }

    /// How its packets travel.
    pub fn link(&self) -> Link {
        if self.ethernet {
            Link::Ethernet
        } else {
            Link::InfiniBand
        }
    }
}
