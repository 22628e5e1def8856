//! The handshake's two proofs. Each is over both sides' fresh random numbers, so that none can be used again, and over all that its sender
//! says of itself.

use crate::message::VERSION;
use crate::secret::{Nonce, Secret, Tag};

/// What a process says of itself.
pub(crate) struct Claim<'a> {
    pub(crate) rank: u32,
    pub(crate) size: u32,
    pub(crate) node: &'a str,
    /// Rank 0's random number and the process's own.
    pub(crate) nonces: [Nonce; 2],
}

impl Claim<'_> {
    /// Without a secret (a Unix socket whose users were compared) there is nothing to prove.
    pub(crate) fn sign(&self, secret: Option<&Secret>) -> Tag {
        secret.map_or([0; 32], |s| self.with(|parts| s.sign(parts)))
    }

    pub(crate) fn holds(&self, secret: Option<&Secret>, tag: &Tag) -> bool {
        secret.is_none_or(|s| self.with(|parts| s.verify(parts, tag)))
    }

    /// The root's answer to a claim that held: over the claim's own proof, which covers everything else.
    pub(crate) fn answer(&self, secret: Option<&Secret>, claim: &Tag) -> Tag {
        secret.map_or([0; 32], |s| s.sign(&self.answer_parts(claim)))
    }

    pub(crate) fn answer_holds(&self, secret: Option<&Secret>, claim: &Tag, tag: &Tag) -> bool {
        secret.is_none_or(|s| s.verify(&self.answer_parts(claim), tag))
    }

    fn with<T>(&self, then: impl FnOnce(&[&[u8]]) -> T) -> T {
        then(&[
            b"shmem-bootstrap process",
            &VERSION.to_le_bytes(),
            &self.rank.to_le_bytes(),
            &self.size.to_le_bytes(),
            self.node.as_bytes(),
            &self.nonces[0],
            &self.nonces[1],
        ])
    }

    fn answer_parts<'a>(&'a self, claim: &'a Tag) -> [&'a [u8]; 4] {
        [b"shmem-bootstrap root", &self.nonces[1], &self.nonces[0], claim]
    }
}
