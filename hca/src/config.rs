//! How adapters and the network behave.

/// When things arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// Late and in any order that a network of reliable queue pairs allows: what happens next is drawn from this seed at
    /// each [`Fabric::step`](crate::Fabric::step).
    Seeded(u64),
    /// At once and in the order of posting: for throughput.
    Eager,
}

/// How the register must agree with the record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegisterRule {
    /// It names the last entry that the record covers, whenever it is written.
    Exact,
    /// It may be behind: where registers are looked at later than they are written, the record may be newer by then.
    MayLag,
}

/// How adapters behave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// When things arrive.
    pub delivery: Delivery,
    /// Bytes of a packet at most; a packet lands in memory as one.
    pub mtu: u32,
    /// Packets lost, in a million. Not with [`Delivery::Eager`].
    pub loss: u32,
    /// How the register must agree with the record.
    pub register: RegisterRule,
    /// Makes free blocks unreadable, so that entries which were written in part are found; and compares entries before
    /// they are reported, so that ones which were overwritten early are found. Costs time, and writes to send queues,
    /// which real adapters do not.
    pub watch: bool,
    /// Atomics of 8 bytes give the old value in the host's byte order, as Linux sets adapters up, and not big-endian.
    /// Atomics of 4 bytes give it big-endian.
    pub native_atomics: bool,
    /// Connections are to queue pairs of this fabric: another one is refused. Else it may be elsewhere, where nothing arrives.
    pub closed: bool,
}

impl Config {
    /// The strictest, with everything drawn from `seed`.
    pub fn strict(seed: u64) -> Self {
        Self {
            delivery: Delivery::Seeded(seed),
            mtu: 1024,
            loss: 0,
            register: RegisterRule::Exact,
            watch: true,
            native_atomics: true,
            closed: true,
        }
    }

    /// For queues that a GPU writes and a thread polls ([`Fabric::poll`](crate::Fabric::poll)).
    pub fn polled() -> Self {
        Self {
            delivery: Delivery::Eager,
            mtu: 4096,
            loss: 0,
            register: RegisterRule::MayLag,
            watch: false,
            native_atomics: true,
            closed: true,
        }
    }
}
