//! What the set-up asks of the machine, as two traits that can be trait objects.

use crate::error::IbgdaError;
use crate::memory::Memory;
use shmem_mlx5::cmd::queue_pair::Mtu;
use shmem_mlx5::cmd::{self, Status};

/// How a port's packets travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    /// InfiniBand: local identifiers, set by a subnet manager.
    InfiniBand,
    /// Ethernet: RoCE.
    Ethernet,
}

/// What a GID is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GidKind {
    /// InfiniBand.
    InfiniBand,
    /// RoCE v1, which the set-up does not use.
    RoceV1,
    /// RoCE v2: UDP over IP.
    RoceV2,
}

/// An entry of a port's table of global identifiers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gid {
    /// Its index.
    pub index: u8,
    /// What it is for.
    pub kind: GidKind,
    /// The identifier.
    pub bytes: [u8; 16],
}

/// A port of an adapter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    /// Its number, from 1.
    pub number: u8,
    /// How its packets travel.
    pub link: Link,
    /// Whether it is up.
    pub active: bool,
    /// Its local identifier; 0 on Ethernet.
    pub lid: u16,
    /// The largest packet that its network takes now.
    pub mtu: Mtu,
    /// Entries of its table of partition keys.
    pub partitions: u16,
    /// Its table of global identifiers, without empty entries.
    pub gids: Vec<Gid>,
}

/// An adapter, before it is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Adapter {
    /// As the system names it: `mlx5_0`.
    pub name: String,
    /// Where it is: its folder below `/sys/devices`, which names the bridges on the way. Empty where that is not known.
    pub path: String,
    /// Its ports.
    pub ports: Vec<Port>,
}

/// A page of registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisterPage {
    /// Its number in commands.
    pub number: u32,
    /// Where this process has it mapped.
    pub address: u64,
    /// Where its first register for sends lies.
    pub register: u64,
}

/// Something that [`Device::create`] made. It is destroyed with the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Object(pub(crate) usize);

/// A machine with adapters, real or emulated.
pub trait Calls: Send + Sync {
    /// The adapters, in the system's order.
    ///
    /// # Errors
    /// [`IbgdaError`].
    fn adapters(&self) -> Result<Vec<Adapter>, IbgdaError>;

    /// Opens the adapter of that name, for commands.
    ///
    /// # Errors
    /// [`IbgdaError`].
    fn open(&self, name: &str) -> Result<Box<dyn Device>, IbgdaError>;
}

/// An opened adapter. Whatever is made through it lives as long as it does.
pub trait Device: Send {
    /// Makes a protection domain; its number in commands.
    ///
    /// # Errors
    /// [`IbgdaError`].
    fn domain(&mut self) -> Result<u32, IbgdaError>;

    /// The event queue that completion queues name, whether they raise events or not.
    ///
    /// # Errors
    /// [`IbgdaError`].
    fn event_queue(&mut self) -> Result<u8, IbgdaError>;

    /// Makes a page of registers.
    ///
    /// # Errors
    /// [`IbgdaError`].
    fn page(&mut self) -> Result<RegisterPage, IbgdaError>;

    /// Registers memory for queues and records; its number in commands.
    ///
    /// # Errors
    /// [`IbgdaError`].
    fn umem(&mut self, memory: &Memory, bytes: u64) -> Result<u32, IbgdaError>;

    /// Registers memory that entries of the queue pairs of [`Device::domain`] name from address `start` on: everything
    /// is allowed, and writes are in order. The key is the same for local and remote use.
    ///
    /// # Errors
    /// [`IbgdaError`].
    fn key(&mut self, start: u64, memory: &Memory, bytes: u64) -> Result<u32, IbgdaError>;

    /// A command that makes an object.
    ///
    /// # Errors
    /// [`IbgdaError::Refused`], with the firmware's status.
    fn create(&mut self, input: &[u8], output: &mut [u8]) -> Result<Object, IbgdaError>;

    /// A command that changes an object.
    ///
    /// # Errors
    /// [`IbgdaError::Refused`], with the firmware's status.
    fn modify(&mut self, object: Object, input: &[u8], output: &mut [u8]) -> Result<(), IbgdaError>;

    /// A command that only asks.
    ///
    /// # Errors
    /// [`IbgdaError::Refused`], with the firmware's status.
    fn query(&mut self, input: &[u8], output: &mut [u8]) -> Result<(), IbgdaError>;

    /// The MAC address to which packets for `gid` are sent, from entry `gid_index` of the own table: the peer's, or
    /// that of the router on the way.
    ///
    /// # Errors
    /// [`IbgdaError`].
    fn neighbour(&mut self, port: u8, gid_index: u8, gid: [u8; 16]) -> Result<[u8; 6], IbgdaError>;
}

/// An error where an answer tells of one.
pub(crate) fn check(adapter: &str, input: &[u8], output: &[u8]) -> Result<(), IbgdaError> {
    match Status::of(output) {
        Status::Ok => Ok(()),
        status => Err(IbgdaError::Refused {
            adapter: adapter.into(),
            command: cmd::name(input),
            status,
            syndrome: cmd::SYNDROME.get(output) as u32,
        }),
    }
}
