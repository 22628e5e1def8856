//! Host programs: what a kernel did is known to its own PE's host and stream, and to no other PE before they meet.

use crate::{Case, Expected::Kind, Host};
use shmem_host::{Error, Pe};
use shmem_sim::BugKind::{Unordered, WriteConflict};
use shmem_sim::Sim;

const LEN: usize = 64;

/// The rest of a host's case.
const HOST: Case = Case {
    name: "",
    about: "",
    seen: "",
    expected: Kind(Unordered),
    host: None,
    world: || Sim::new(1),
    kernel: |_| (),
};

fn right(pe: &Pe) -> u32 {
    (pe.id() + 1) % pe.n()
}

/// An inbox, and what is sent.
fn buffers(pe: &Pe) -> Result<(SymBuf, Buf), Error> {
    let (inbox, row) = (pe.alloc(LEN)?, pe.buffer(LEN)?);
    row.write(&[pe.id(); LEN])?;
    pe.barrier_all()?;
    Ok((inbox, row))
}

type SymBuf = shmem_host::SymBuf<u32>;
type Buf = shmem_host::Buf<u32>;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "host reads before the peers are done",
        about: "The host waits for its own PE's kernel, and reads what the left neighbour's kernel puts.",
        expected: Kind(Unordered),
        host: Some(Host {
            pes: 3,
            run: |pe, fixed| {
                let (inbox, row) = buffers(pe)?;
                pe.stream().put(&inbox, &row, right(pe))?;
                if fixed {
                    pe.stream().barrier_all()?;
                }
                inbox.to_vec()?;
                pe.barrier_all()
            },
        }),
        ..HOST
    },
    Case {
        name: "host clears its inbox under a put",
        about: "Between two rounds the host clears its inbox; its left neighbour may be in the next round already.",
        expected: Kind(WriteConflict),
        host: Some(Host {
            pes: 2,
            run: |pe, fixed| {
                let (inbox, row) = buffers(pe)?;
                for _ in 0..2 {
                    inbox.write(&[0; LEN])?;
                    if fixed {
                        pe.barrier_all()?;
                    }
                    pe.stream().put(&inbox, &row, right(pe))?;
                    pe.barrier_all()?;
                }
                Ok(())
            },
        }),
        ..HOST
    },
    Case {
        name: "a stream's order for a barrier",
        about: "A put, and behind it on the stream a read of what comes from the left: a stream waits for no other PE.",
        expected: Kind(Unordered),
        host: Some(Host {
            pes: 2,
            run: |pe, fixed| {
                let ((inbox, row), out) = (buffers(pe)?, pe.buffer::<u32>(LEN)?);
                pe.stream().put(&inbox, &row, right(pe))?;
                if fixed {
                    pe.stream().barrier_all()?;
                }
                pe.stream().get(&out, &inbox, pe.id())?;
                pe.barrier_all()
            },
        }),
        ..HOST
    },
    Case {
        name: "two streams without an order",
        about: "The host reads, behind the default stream, what a kernel on another stream writes.",
        expected: Kind(Unordered),
        host: Some(Host {
            pes: 1,
            run: |pe, fixed| {
                let ((inbox, _row), out) = (buffers(pe)?, pe.buffer::<u32>(LEN)?);
                let stream = pe.new_stream()?;
                stream.get(&out, &inbox, pe.id())?;
                if fixed {
                    stream.synchronize()?;
                }
                out.to_vec()?;
                stream.synchronize()
            },
        }),
        ..HOST
    },
    Case {
        name: "a get before the peer's host has written",
        about: "Every PE writes its table and gets its neighbour's, whose host may not have written it.",
        expected: Kind(Unordered),
        host: Some(Host {
            pes: 2,
            run: |pe, fixed| {
                let (table, out) = (pe.alloc::<u32>(LEN)?, pe.buffer::<u32>(LEN)?);
                table.write(&[pe.id(); LEN])?;
                if fixed {
                    pe.barrier_all()?;
                }
                pe.stream().get(&out, &table, right(pe))?;
                pe.barrier_all()
            },
        }),
        ..HOST
    },
];
