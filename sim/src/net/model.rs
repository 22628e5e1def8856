//! What a network would do, by a few numbers: a model, not a measurement.

use std::cell::RefCell;
use std::collections::HashMap;

/// Times of a network by latency and bandwidth, to ask what a kernel would do on machines that one does not have.
///
/// It is a model: what comes out follows from the numbers that go in and from the waits of the kernel, and says nothing of a
/// machine whose numbers differ. Only communication takes time: an operation waits for its PE's port to send and for the
/// other's to receive, each of which carries one after the other, and travels in between. Computation, launches, and what
/// the lanes of a PE do among themselves take none. A world with a model makes no random decisions.
///
/// ```
/// use shmem::prelude::*;
/// use shmem_sim::{LinkModel, Model, Sim, signals};
///
/// let link = LinkModel { latency_ns: 800, bytes_per_ns: 100.0, message_ns: 0 };
/// let report = Sim::new(64).model(Model::all(link)).run(|| {
///     let (me, n) = (shmem::my_pe(), shmem::n_pes());
///     let token = signals(1).at(0);
///     if me > 0 {
///         shmem::wait_until(Thread, token, eq(1));
///     }
///     if me + 1 < n {
///         shmem::signal_op(token.set(1), me + 1);
///     }
/// }).unwrap();
/// let modelled = report.modelled.unwrap();
/// assert!((63 * 800..63 * 802).contains(&modelled.as_nanos()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// Between PEs of a node.
    pub node: LinkModel,
    /// Between nodes: see [`Config::node_pes`](crate::Config::node_pes).
    pub across: LinkModel,
}

/// One class of links of a [`Model`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkModel {
    /// From the sender's port to the receiver's, in nanoseconds.
    pub latency_ns: u64,
    /// What a PE's port carries in each direction, in bytes per nanosecond, which is GB/s.
    pub bytes_per_ns: f64,
    /// How long a port is taken by a call beyond its bytes, in nanoseconds.
    pub message_ns: u64,
}

impl Model {
    /// One node, or nodes that make no difference.
    pub fn all(link: LinkModel) -> Self {
        Self {
            node: link,
            across: link,
        }
    }
}

/// Picoseconds: small messages take less than a nanosecond.
type Ps = u64;
const PS: Ps = 1000;

/// What comes in one call: its parts count as one message.
pub(super) type Call = (usize, usize);

#[derive(Clone, Copy, Default)]
struct Port {
    free: Ps,
    last: Option<(Call, u32)>,
}

impl Port {
    /// Takes the port for so many bytes, from a time on. Returns until when.
    fn take(&mut self, from: Ps, link: LinkModel, bytes: u64, call: Call, other: u32) -> Ps {
        let message = if self.last.replace((call, other)) == Some((call, other)) {
            0
        } else {
            link.message_ns * PS
        };
        let carries = (bytes as f64 / link.bytes_per_ns * PS as f64) as Ps;
        self.free = self.free.max(from) + message + carries;
        self.free
    }
}

/// The ports of all PEs.
pub(super) struct Ports {
    model: Model,
    /// By PE, and whether across nodes: to send and to receive.
    ports: RefCell<HashMap<(u32, bool), [Port; 2]>>,
}

impl Ports {
    pub(super) fn new(model: Model) -> Self {
        Self {
            model,
            ports: RefCell::default(),
        }
    }

    fn link(&self, across: bool) -> LinkModel {
        if across { self.model.across } else { self.model.node }
    }

    pub(super) fn latency_ns(&self, across: bool) -> u64 {
        self.link(across).latency_ns
    }

    /// When so many bytes that are sent now have landed.
    pub(super) fn landing_ns(&self, now_ns: u64, way: (u32, u32), across: bool, bytes: u64, call: Call) -> u64 {
        let (link, (from, to)) = (self.link(across), way);
        if from == to {
            return now_ns;
        }
        let mut ports = self.ports.borrow_mut();
        let sender = &mut ports.entry((from, across)).or_default()[0];
        let first = sender.free.max(now_ns * PS);
        let sent = sender.take(now_ns * PS, link, bytes, call, to);
        let receiver = &mut ports.entry((to, across)).or_default()[1];
        // It begins to arrive before the last of it has been sent.
        let arrives = receiver.take(first + link.latency_ns * PS, link, bytes, call, from);
        arrives.max(sent + link.latency_ns * PS).div_ceil(PS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports() -> Ports {
        let link = |latency_ns, bytes_per_ns| LinkModel {
            latency_ns,
            bytes_per_ns,
            message_ns: 5,
        };
        Ports::new(Model {
            node: link(100, 10.0),
            across: link(1000, 1.0),
        })
    }

    #[test]
    fn messages_take_latency_overhead_and_bytes() {
        let ports = ports();
        assert_eq!(ports.landing_ns(0, (0, 1), false, 1000, (1, 1)), 100 + 5 + 100);
        assert_eq!(ports.landing_ns(0, (2, 3), true, 1000, (1, 1)), 1000 + 5 + 1000);
        assert_eq!(ports.landing_ns(7, (4, 4), true, 1000, (1, 1)), 7);
    }

    #[test]
    fn a_port_carries_one_after_the_other() {
        let ports = ports();
        assert_eq!(ports.landing_ns(0, (0, 1), false, 1000, (1, 1)), 205);
        // From the same sender, in the same call and in another one.
        assert_eq!(ports.landing_ns(0, (0, 1), false, 1000, (1, 1)), 305);
        assert_eq!(ports.landing_ns(0, (0, 2), false, 1000, (2, 1)), 410);
        // To the same receiver.
        assert_eq!(ports.landing_ns(0, (3, 1), false, 1000, (3, 1)), 410);
    }
}
