//! What can go wrong, and what to do.

use crate::memory::{MemoryError, Part};
use shmem_mlx5::cmd::Status;

/// What the set-up can't do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IbgdaError {
    /// A library that can't be loaded.
    #[error(
        "{library}: {cause}; install rdma-core's user libraries (Debian and Ubuntu: libibverbs1 and ibverbs-providers)"
    )]
    Library {
        /// Which.
        library: &'static str,
        /// What the loader says.
        cause: String,
    },
    /// A library without a function.
    #[error("{library} has no {function}: rdma-core is older than 32; install a newer one")]
    Function {
        /// Which library.
        library: &'static str,
        /// Which function.
        function: &'static str,
    },
    /// No adapter at all.
    #[error(
        "no mlx5 adapter on this machine: `ls /sys/class/infiniband` lists those that the kernel knows; load the modules mlx5_core and mlx5_ib, \
         and in a container pass /dev/infiniband through"
    )]
    NoAdapter,
    /// No adapter that is allowed and up.
    #[error(
        "no active port among {candidates}: `ibstat` or `rdma link` shows why a port is down; SHMEM_HCA chooses others"
    )]
    NoActivePort {
        /// What was looked at.
        candidates: String,
    },
    /// A variable that can't be understood.
    #[error("{name}={value}: {expected}")]
    Setting {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: String,
        /// What is possible.
        expected: String,
    },
    /// A GID table without a usable entry.
    #[error("{adapter} port {port} has no {wanted}: {advice}")]
    NoGid {
        /// The adapter.
        adapter: String,
        /// Its port.
        port: u8,
        /// What was looked for.
        wanted: String,
        /// What to do.
        advice: &'static str,
    },
    /// A call that the kernel or a library refuses.
    #[error("{adapter}: {call} failed: {cause}; {advice}")]
    Call {
        /// The adapter.
        adapter: String,
        /// Which call.
        call: &'static str,
        /// The system's words.
        cause: std::io::Error,
        /// What to do.
        advice: &'static str,
    },
    /// Memory that can't be registered.
    #[error("{adapter}: {bytes} bytes at {address:#x} can't be registered: {cause}; {advice}")]
    Register {
        /// The adapter.
        adapter: String,
        /// Where.
        address: u64,
        /// How much.
        bytes: u64,
        /// The system's words.
        cause: std::io::Error,
        /// What to do.
        advice: &'static str,
    },
    /// A command that the firmware refuses.
    #[error("{adapter}: firmware refuses {command}: {status:?}, syndrome {syndrome:#010x}; {}", advice(*.status))]
    Refused {
        /// The adapter.
        adapter: String,
        /// Which command.
        command: &'static str,
        /// How it ended.
        status: Status,
        /// What the maker's support wants to know.
        syndrome: u32,
    },
    /// An adapter or firmware that lacks something.
    #[error("{adapter} can't be driven by kernels: {what} is {seen}, must be {expected}; {advice}")]
    Capability {
        /// The adapter.
        adapter: String,
        /// What.
        what: &'static str,
        /// It has.
        seen: u64,
        /// It must have.
        expected: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// A size that is not possible.
    #[error("{what} of {seen}: {expected}")]
    Size {
        /// Of what.
        what: &'static str,
        /// Asked for.
        seen: u64,
        /// Possible.
        expected: String,
    },
    /// The caller has no memory for queues.
    #[error("no memory for {part:?} parts of queues, {bytes} bytes: {cause}")]
    Memory {
        /// What for.
        part: Part,
        /// How much.
        bytes: u64,
        /// The caller's words.
        cause: MemoryError,
    },
    /// Memory for queues that is not as asked for.
    #[error("memory for {part:?} parts of queues is at {address:#x}: align it to {align}")]
    Alignment {
        /// What for.
        part: Part,
        /// Where it is.
        address: u64,
        /// What its address must be a multiple of.
        align: u64,
    },
    /// Registers that can't be mapped for kernels.
    #[error(
        "registers at {address:#x} can't be mapped for kernels: {cause}; the NVIDIA driver needs the option PeerMappingOverride=1 (docs/src/cluster.md)"
    )]
    Registers {
        /// Where the host has them.
        address: u64,
        /// The caller's words.
        cause: MemoryError,
    },
    /// What a peer tells of itself can't be understood.
    #[error("what PE {pe} tells of its adapter {cause}; run the same version of the program everywhere")]
    Blob {
        /// Which PE; its place in the list.
        pe: u32,
        /// What is wrong.
        cause: BlobFault,
    },
    /// A peer whose port can't be reached from here.
    #[error("PE {pe}'s port is {theirs}, this one is {ours}: choose ports of one network by SHMEM_HCA")]
    OtherNetwork {
        /// Which PE.
        pe: u32,
        /// What it has.
        theirs: String,
        /// What this one has.
        ours: String,
    },
}

/// What is wrong with a blob.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlobFault {
    /// Other bytes altogether.
    #[error("does not begin as it must")]
    Magic,
    /// Of another version.
    #[error("is of version {seen}, not {expected}")]
    Version {
        /// Theirs.
        seen: u16,
        /// Ours.
        expected: u16,
    },
    /// Cut, or damaged.
    #[error("can't be read ({0})")]
    Damaged(String),
    /// Bytes behind its end.
    #[error("has {0} bytes too many")]
    Longer(usize),
    /// No chunk has all of a part of the heap.
    #[error("has no key for {bytes:#x} bytes at {start:#x} of its heap")]
    NoKey {
        /// Where the part starts in the heap.
        start: u64,
        /// Its bytes.
        bytes: u64,
    },
    /// Numbers that do not belong together.
    #[error("has {what} {seen}, must be {expected}")]
    Number {
        /// Of what.
        what: &'static str,
        /// Theirs.
        seen: u64,
        /// What it must be.
        expected: String,
    },
}

/// What to do where firmware refuses a command.
fn advice(status: Status) -> &'static str {
    match status {
        Status::BadOperation => "this firmware does not know it: update it (`mlxfwmanager`)",
        Status::Limit | Status::NoResources => {
            "fewer contexts or PEs, or shorter queues; `mlxconfig` raises the adapter's limits"
        }
        Status::BadSystemState | Status::Internal => "reset the adapter (`mlxfwreset`) and look at `dmesg`",
        _ => "this is a fault of the set-up: report it, with the syndrome and `ibv_devinfo -v`",
    }
}
