//! Emulated mlx5 adapters: what a GPU's doorbell makes them do, on a machine without any, and as strict as they are.
//!
//! A [`Fabric`] holds adapters and the network between them. Whoever embeds it gives it [`Memory`], calls
//! [`Fabric::store`] where a kernel writes a register, and [`Fabric::step`] as often as it likes: each step is one thing
//! that can happen next, drawn from a seed. Or a thread calls [`Fabric::poll`], and the registers lie in memory too.
//!
//! | file | what it holds |
//! |---|---|
//! | [`tables`] | every field of entries, completions and records by its bits: a reading of the public headers of its own |
//! | [`decode`], `request` | bytes to requests; whatever the bytes are |
//! | [`memory`] | [`Memory`], [`Place`]: the embedder's bytes; [`Ram`] for tests; [`pinned`] for queues that a GPU writes |
//! | [`keys`] | [`Access`], [`KeyFault`](keys::KeyFault): what keys allow |
//! | [`fabric`], [`config`], [`setup`] | [`Fabric`]: adapters, and what is made of them |
//! | [`firmware`] | [`Fabric::command`]: the same by the firmware's commands, as a host's set-up sends them; memory for them (`umem`); the end of queues (`remove`) |
//! | [`identity`] | [`Identity`]: what others call an adapter (`adapter`: what it is and can do) |
//! | `doorbell` | [`Fabric::store`]: registers, records, fetching |
//! | [`wire`] | [`Fabric::step`]: what can happen next (`queue`), packets (`arrive`), bytes (`land`), reports (`finish`, `completion`) |
//! | `poll` | [`Fabric::poll`]: registers in memory |
//! | [`violation`] | [`Violation`], [`Fault`]: everything that can be wrong, with what was seen |
//!
//! What it checks that a real adapter only suffers from: entries that were not written, or changed, when they should not;
//! doorbells out of order; indices; counts of units; reserved fields; queues that overflow. Such a fault is a
//! [`Violation`], an error completion, and the end of the queue pair.
//!
//! Not emulated: receive queues (sends and writes with immediate data fail as where no receive is posted), shared receive
//! queues, datagrams, signatures, more than one port.
//!
//! ```
//! use shmem_hca::*;
//!
//! // Memory: a send queue of 4 blocks, a completion queue of 4, records, data.
//! let at = |address| Place { space: Space(0), address };
//! let mut ram = Ram::new();
//! ram.add(at(0x1000), 0x1000);
//! for slot in 0..4 {
//!     ram.write(at(0x1100 + 64 * slot + 63), &[0xf0])?;
//! }
//! let mut fabric = Fabric::new(ram, Config::strict(1));
//! let adapter = fabric.add_adapter();
//! let (page, domain) = (fabric.add_page(adapter, None)?, fabric.add_domain(adapter)?);
//! let key = fabric.add_key(domain, 0, 0x1400, 0x100, at(0x1400), Access::ALL)?;
//! let completions = CompletionQueueConfig {
//!     start: at(0x1100), log2: 2, record: at(0x1208), collapsed: false, ignore_overrun: false,
//! };
//! let completions = fabric.add_completion_queue(adapter, completions)?;
//! let queues = QueuePairConfig { domain, page, start: at(0x1000), log2: 2, record: at(0x1200), completions };
//! let qp = fabric.add_queue_pair(adapter, queues)?;
//! // Connected to itself.
//! fabric.init(qp, Permissions::ALL)?;
//! fabric.ready_to_receive(qp, Connection { adapter, queue_pair: qp.number(), retries: 7, max_reads: 16 })?;
//! fabric.ready_to_send(qp)?;
//!
//! // Write 4 bytes that lie in the entry itself, at 0x1480.
//! let mut entry = [0; 48];
//! entry[3] = 8; // RDMA write
//! entry[4..8].copy_from_slice(&(qp.number() << 8 | 3).to_be_bytes());
//! entry[11] = 8; // completes always
//! entry[16..24].copy_from_slice(&0x1480u64.to_be_bytes());
//! entry[24..28].copy_from_slice(&key.to_be_bytes());
//! entry[32..36].copy_from_slice(&0x8000_0004u32.to_be_bytes());
//! entry[36..40].copy_from_slice(b"data");
//! fabric.memory_mut().write(at(0x1000), &entry)?;
//! fabric.memory_mut().write(at(0x1204), &1u32.to_be_bytes())?;
//! fabric.store(page, 0x800, &entry[..8]);
//! fabric.run();
//!
//! assert_eq!(fabric.take_violations(), []);
//! let (mut data, mut done) = ([0; 4], [0; 64]);
//! fabric.memory().read(at(0x1480), &mut data)?;
//! assert_eq!(&data, b"data");
//! fabric.memory().read(at(0x1100), &mut done)?;
//! assert_eq!(done[60..], [0, 0, 0, 0]); // entry 0, a request, owner 0
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod adapter;
mod arrive;
mod completion;
pub mod config;
pub mod counters;
pub mod decode;
mod doorbell;
pub mod fabric;
mod finish;
pub mod firmware;
pub mod identity;
pub mod keys;
mod land;
pub mod memory;
pub mod pinned;
mod poll;
mod queue;
mod remove;
mod request;
mod rng;
pub mod setup;
mod state;
pub mod tables;
mod umem;
pub mod violation;
pub mod wire;

pub use config::{Config, Delivery, RegisterRule};
pub use counters::Counters;
pub use fabric::Fabric;
pub use identity::{Identity, Link};
pub use keys::Access;
pub use memory::{Memory, Place, Ram, Space, Unmapped};
pub use pinned::Pinned;
pub use setup::{CompletionQueueConfig, Connection, Permissions, QueuePairConfig, SetupError};
pub use state::{Adapter, CompletionQueue, Domain, Page, QueuePair, State};
pub use violation::{Fault, Violation};
pub use wire::{Step, StepKind};
