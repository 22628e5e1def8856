//! What can go wrong. Messages say what happened, between whom, with which values, and what to do.

use crate::call::Call;
use std::time::Duration;

/// A process of the job that failed, and why: the same one everywhere, the first that rank 0 learnt of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerFailure {
    /// Its rank.
    pub rank: u32,
    /// What it said of itself, or what was seen of it.
    pub cause: String,
}

impl std::fmt::Display for PeerFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {} failed: {}", self.rank, self.cause)
    }
}

/// Why rank 0 did not take a process in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The proof of the job secret was wrong.
    #[error("the job secrets differ: give every process the same SHMEM_SECRET or SHMEM_SECRET_FILE")]
    WrongSecret,
    /// Another version of this crate.
    #[error("rank 0 speaks version {root} of the protocol, this process {peer}: build both from one source")]
    Version {
        /// Rank 0's.
        root: u16,
        /// Ours.
        peer: u16,
    },
    /// Another number of processes.
    #[error(
        "rank 0 was told of {root} processes, this one of {peer}: SHMEM_SIZE (WORLD_SIZE) must be the same everywhere"
    )]
    Size {
        /// Rank 0's.
        root: u32,
        /// Ours.
        peer: u32,
    },
    /// The rank is there already.
    #[error("rank {rank} is there already: two processes have the same SHMEM_RANK (RANK)")]
    RankTaken {
        /// The rank.
        rank: u32,
    },
    /// The job failed before this process came.
    #[error("the job failed before this process came: {0}")]
    JobFailed(PeerFailure),
}

/// Any error of this crate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BootstrapError {
    /// A variable is malformed or out of range.
    #[error("{name}={value:?}: {wanted} is expected")]
    Setting {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// What would do.
        wanted: String,
    },
    /// A variable is missing beside those that are there.
    #[error("{name} is not set, but {given} is: set all of {all}, or none")]
    MissingSetting {
        /// The one that is missing.
        name: &'static str,
        /// One that is there.
        given: &'static str,
        /// The whole group.
        all: &'static str,
    },
    /// A job over TCP has no secret.
    #[error(
        "no job secret for {root}: set SHMEM_SECRET (or SHMEM_SECRET_FILE, a file of mode 0600) to the same text for every \
         process, for example the output of `openssl rand -hex 32`"
    )]
    NoSecret {
        /// Where rank 0 is to be found.
        root: String,
    },
    /// The secret is too short to be one.
    #[error("the job secret has {bytes} bytes, at least {least} are needed: take the output of `openssl rand -hex 32`")]
    WeakSecret {
        /// Its length.
        bytes: usize,
        /// The least.
        least: usize,
    },
    /// The file with the secret can't be used.
    #[error("SHMEM_SECRET_FILE {path}: {cause}")]
    SecretFile {
        /// The file.
        path: String,
        /// Why not.
        cause: String,
    },
    /// Rank 0 can't listen.
    #[error("rank 0 can't listen at {address}: {cause}; choose another port, or end what uses it")]
    Listen {
        /// Where.
        address: String,
        /// The system's words.
        cause: String,
    },
    /// This process did not get through to rank 0.
    #[error(
        "rank {rank} did not reach rank 0 at {address} within {waited:.1?} ({cause}): see whether rank 0 was started, and \
         whether the address and port are open to this node"
    )]
    Unreachable {
        /// Ours.
        rank: u32,
        /// Where rank 0 should be.
        address: String,
        /// How long.
        waited: Duration,
        /// The last attempt's error.
        cause: String,
    },
    /// Rank 0 turned this process away.
    #[error("rank 0 at {address} refused rank {rank}: {refusal}")]
    Refused {
        /// Ours.
        rank: u32,
        /// Where rank 0 is.
        address: String,
        /// Why.
        refusal: Refusal,
    },
    /// Who listens at rank 0's address is not of this job.
    #[error("what answers at {address} is not rank 0 of this job ({cause}): see which process listens there")]
    NotOurRoot {
        /// Where.
        address: String,
        /// What gave it away.
        cause: String,
    },
    /// A collective call timed out.
    #[error("{call} timed out after {waited:.1?} on rank {rank}: {} not come", ranks(missing))]
    TimedOut {
        /// Ours.
        rank: u32,
        /// Which call.
        call: Call,
        /// How long.
        waited: Duration,
        /// Those that have not made the call.
        missing: Vec<u32>,
    },
    /// A collective call timed out and rank 0, which would know why, does not answer.
    #[error(
        "{call} timed out after {waited:.1?} on rank {rank}, and rank 0 does not answer: its process is stopped, or the \
         network to it is down"
    )]
    RootSilent {
        /// Ours.
        rank: u32,
        /// Which call.
        call: Call,
        /// How long.
        waited: Duration,
    },
    /// Another process failed, or this one said so of itself.
    #[error("{0}")]
    PeerFailed(PeerFailure),
    /// Two processes made different calls at the same place of the program.
    #[error(
        "rank {first} called {first_call} where rank {second} called {second_call}: all ranks make the same calls in the same order"
    )]
    Mismatch {
        /// Who came first.
        first: u32,
        /// With what.
        first_call: Call,
        /// Who differs.
        second: u32,
        /// In what.
        second_call: Call,
    },
    /// More bytes than one call carries.
    #[error(
        "{bytes} bytes were given to {call}, at most {limit} are taken from each of {size} processes: send them in parts"
    )]
    TooLarge {
        /// Which call.
        call: Call,
        /// How many.
        bytes: usize,
        /// How many would do.
        limit: usize,
        /// Processes in the job.
        size: u32,
    },
    /// A rank outside the job.
    #[error("rank {rank} was named in {call}, but there are only {size} processes")]
    NoSuchRank {
        /// Which call.
        call: Call,
        /// The rank.
        rank: u32,
        /// Processes in the job.
        size: u32,
    },
    /// PMIx refused a call.
    #[error("{call} of PMIx: {cause}; set SHMEM_RANK, SHMEM_SIZE, SHMEM_ROOT and SHMEM_SECRET to do without PMIx")]
    Pmix {
        /// Its function.
        call: &'static str,
        /// What it said.
        cause: String,
    },
    /// The operating system refused something it should not.
    #[error("{what}: {cause}")]
    System {
        /// What was asked of it.
        what: &'static str,
        /// Its words.
        cause: String,
    },
}

/// `rank 3 has`, `ranks 3, 5, 6 and 90 more have`, `someone has`.
fn ranks(missing: &[u32]) -> String {
    const SHOWN: usize = 16;
    let names: Vec<String> = missing.iter().take(SHOWN).map(u32::to_string).collect();
    match (missing, missing.len().saturating_sub(SHOWN)) {
        ([], _) => "someone has".into(),
        ([one], _) => format!("rank {one} has"),
        (_, 0) => format!("ranks {} have", names.join(", ")),
        (_, more) => format!("ranks {} and {more} more have", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_out_names_who_is_missing() {
        let error = |missing| BootstrapError::TimedOut {
            rank: 0,
            call: Call::Barrier,
            waited: Duration::from_secs(2),
            missing,
        };
        assert_eq!(
            error(vec![3]).to_string(),
            "barrier timed out after 2.0s on rank 0: rank 3 has not come"
        );
        assert!(error(vec![3, 5]).to_string().ends_with("ranks 3, 5 have not come"));
        assert!(
            error((0..40).collect())
                .to_string()
                .ends_with("15 and 24 more have not come")
        );
    }
}
