//! Wire formats of NVIDIA's mlx5 adapters (ConnectX-4 and later): what a GPU writes to a send queue and reads from a
//! completion queue, and the commands that make the queues. Formats only: no device, no memory, no loops, no
//! dependencies, and `no_std`, so that kernels use it as it is.
//!
//! | file | what it holds | rdma-core's `mlx5dv.h` |
//! |---|---|---|
//! | [`be`] | [`Be16`], [`Be32`], [`Be64`]: big-endian numbers that can't be taken for native ones | `__be32` .. |
//! | [`mod@unit`] | [`Unit`]: 16 bytes of an entry, what one store of a GPU writes | "octoword" |
//! | [`opcode`] | [`Opcode`]: what an entry asks for | `MLX5_OPCODE_..` |
//! | [`key`] | [`Local`], [`Remote`], [`LocalKey`], [`RemoteKey`], [`QueuePair`], [`Length`]: places and numbers in entries | `lkey`, `rkey` |
//! | [`segment`] | [`Control`](segment::Control) and the other parts of entries, each with its size checked | `mlx5_wqe_.._seg` |
//! | [`entry`] | [`write`](entry::write), [`read`](entry::read), [`fetch_add`](entry::fetch_add), ..: whole entries as arrays of units | |
//! | [`index`] | [`Index`], [`QueueSize`]: positions that wrap at 2^16 | `wqe_cnt`, `cur_post` |
//! | [`doorbell`] | the record and the register | `MLX5_SND_DBR`, `bf.reg` |
//! | [`completion`] | [`Completion`](completion::Completion), [`Tail`](completion::Tail), [`Syndrome`](completion::Syndrome) | `mlx5_cqe64`, `mlx5_err_cqe` |
//! | [`cmd`] | commands of the set-up, their fields by bit offset | `mlx5_ifc.h` |
//!
//! Facts are from public headers (rdma-core's `mlx5dv.h`, `wqe.h` and `mlx5_ifc.h`, Linux' `include/linux/mlx5`) and
//! NVIDIA's Programmer's Reference Manual. `hca/tests/probe.rs` compares them with what a C compiler makes of Debian's
//! headers.
//!
//! ```
//! use shmem_mlx5::*;
//!
//! let qp = QueuePair::new(0x123).unwrap();
//! let size = QueueSize::from_log2(4).unwrap(); // 16 blocks of 64 bytes
//! let from = Local { address: 0x1000, key: LocalKey(0x700) };
//! let to = Remote { address: 0x2000, key: RemoteKey(0x800) };
//! let post = Post::new(Index::new(17), qp).signalled();
//! let units = entry::write(post, to, from, Length::new(4096).unwrap());
//! assert_eq!(units.len(), 3);
//! // The 48 bytes go here in the queue, then the record is written, then the register.
//! assert_eq!(size.offset(post.index), 64);
//! let next = post.index.after(units.len());
//! assert_eq!(doorbell::record(next).to_bytes(), [0, 0, 0, 18]);
//! assert_eq!(doorbell::register(units[0]).to_be_bytes(), [0, 0, 17, 8, 0, 1, 0x23, 3]);
//! ```
#![no_std]
#![forbid(unsafe_code)]

pub mod be;
pub mod cmd;
pub mod completion;
pub mod doorbell;
pub mod entry;
pub mod index;
pub mod key;
pub mod opcode;
pub mod segment;
pub mod unit;

pub use be::{Be16, Be32, Be64};
pub use entry::{Post, When};
pub use index::{Index, QueueSize};
pub use key::{Length, Local, LocalKey, QueuePair, Remote, RemoteKey};
pub use opcode::Opcode;
pub use unit::Unit;
