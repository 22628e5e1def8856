//! Errors in kernels: each becomes a typed error with its place and values, and nobody hangs: not the block of the thread
//! that ended, and not the other PEs.
use shmem::prelude::*;

/// One thread of the last PE does what is wrong; the rest of its block is at a barrier, and the other PEs wait for a
/// signal that never comes.
#[kernel]
pub fn go_wrong(data: SymSlice<u32>, never: SymSlice<SignalWord>, how: u32) {
    let (me, n) = (shmem::my_pe(), shmem::n_pes());
    if how == WHOLE_WARP {
        // The warp's group is the block: what waits for it in the group's sync must end.
        let group = Block.groups::<2>();
        if me == n - 1 && warp::warp_id() == 1 {
            wrong(data, 0);
        }
        group.sync();
    } else if me == n - 1 && thread::index() == 37 {
        wrong(data, how);
    }
    Block.sync();
    if me != n - 1 {
        shmem::wait_until(Block, never.at(0), eq(1));
    } else if how == TIME_LIMIT {
        shmem::wait_until(Thread, never.at(0), eq(1));
    }
}

pub const TIME_LIMIT: u32 = 6;
pub const WHOLE_WARP: u32 = 20;
pub const GRID: u32 = 21;

/// As [`go_wrong`], but what the thread leaves behind is the barrier of its grid.
#[kernel(collective)]
pub fn grid_goes_wrong(all: Collective, data: SymSlice<u32>, never: SymSlice<SignalWord>) {
    let last = shmem::my_pe() == shmem::n_pes() - 1;
    if last && Block.id() == 1 && thread::index() < 38 {
        // Threads 0 to 37, so that the one that arrives for its block is among them.
        wrong(data, 0);
    }
    all.grid().sync();
    if !last {
        shmem::wait_until(all.grid(), never.at(0), eq(1));
    }
}

fn wrong(data: SymSlice<u32>, how: u32) {
    let len = data.len();
    match how {
        0 => data.store(len + 5, 1),
        1 => drop_slice(data.slice(3..len + 1)),
        2 => drop_slice(data.chunk(2, len / 2)),
        3 => drop_slice(data.slice(1..3).cast::<u64>().cast()),
        4 => shmem::p(data.at(0), 1, shmem::n_pes() + 3),
        5 => shmem::put(Thread, data.slice(0..4), data.slice(0..3), 0),
        7 => {
            let table = [1u32, 2, 3];
            data.store(0, table[data.load(0) as usize + 3]);
        }
        8 => data.at(-1).store(1),
        10 => _ = shmem::fetch_add(data.at(0), 1, shmem::n_pes() + 3),
        11 => _ = shmem::test_all(Thread, data.slice(0..4), eq(data.slice(0..3))),
        12 => _ = shmem::test_some(Thread, data.slice(0..4), eq(0), &mut [0; 3]),
        13 => _ = shmem::ptr(data.at(0), shmem::n_pes() + 3).map(|x| x.store(1)),
        14 => shmem::p(data.at(0), 1, shmem::node().pe(shmem::node().n_pes() + 3)),
        9 => assert!(data.is_empty(), "a kernel's own assertion"),
        _ => {}
    }
}

/// Keeps the checks of what makes a slice.
#[inline(never)]
fn drop_slice(slice: SymSlice<u32>) {
    if slice.len() == 0x1234_5678_9abc {
        slice.store(0, 1);
    }
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use anyhow::{bail, ensure};
    use shmem::fault::FaultKind;
    use shmem_host::{Error, Pe, World, collective_launch, launch};
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    /// A way to go wrong, and what the record must say.
    pub struct Fault {
        pub name: &'static str,
        how: u32,
        kind: FaultKind,
        a: Option<u64>,
        b: Option<u64>,
    }

    const LEN: u64 = 100;

    const fn fault(name: &'static str, how: u32, kind: FaultKind, a: u64, b: u64) -> Fault {
        Fault {
            name,
            how,
            kind,
            a: Some(a),
            b: Some(b),
        }
    }

    pub const FAULTS: &[Fault] = &[
        fault("index past the end", 0, FaultKind::Index, LEN + 5, LEN),
        fault("slice past the end", 1, FaultKind::Range, 3, LEN + 1),
        fault("chunk past the end", 2, FaultKind::Chunk, 2, LEN / 2),
        Fault {
            name: "cast of a misaligned slice",
            how: 3,
            kind: FaultKind::Cast,
            a: None,
            b: Some(8),
        },
        Fault {
            name: "PE out of range",
            how: 4,
            kind: FaultKind::Pe,
            a: None,
            b: None,
        },
        Fault {
            name: "index outside a team",
            how: 14,
            kind: FaultKind::Pe,
            a: None,
            b: None,
        },
        fault("a whole warp of a group", WHOLE_WARP, FaultKind::Index, LEN + 5, LEN),
        fault("threads of a grid at its barrier", GRID, FaultKind::Index, LEN + 5, LEN),
        fault("put of different lengths", 5, FaultKind::Length, 4, 3),
        Fault {
            name: "atomic at a PE out of range",
            how: 10,
            kind: FaultKind::Pe,
            a: None,
            b: None,
        },
        fault("a value too few for the words", 11, FaultKind::Length, 4, 3),
        fault("too little room for indices", 12, FaultKind::Length, 3, 4),
        Fault {
            name: "pointer to a PE out of range",
            how: 13,
            kind: FaultKind::Pe,
            a: None,
            b: None,
        },
        Fault {
            name: "a wait past the time limit",
            how: TIME_LIMIT,
            kind: FaultKind::TimeLimit,
            a: None,
            b: None,
        },
        Fault {
            name: "index panic",
            how: 7,
            kind: FaultKind::Panic,
            a: None,
            b: None,
        },
        fault("negative index", 8, FaultKind::Index, u64::MAX, LEN),
        Fault {
            name: "assertion",
            how: 9,
            kind: FaultKind::Panic,
            a: None,
            b: None,
        },
    ];

    /// The last PE fails, and its host looks away: what came from it may be anything, so that the other PEs of its process are told all the same,
    /// wherever they wait for a stream.
    ///
    /// # Errors
    /// Nobody is told.
    pub fn run_unnoticed(world: World) -> anyhow::Result<()> {
        const PATIENCE: Duration = Duration::from_secs(20);
        let (last, told) = (world.n() - 1, AtomicU32::new(0));
        let here = AtomicU32::new(0);
        let result = world.run(|pe: Pe| -> Result<(), Error> {
            let (data, never) = (pe.alloc::<u32>(LEN as usize)?, pe.signals(1)?);
            here.fetch_add(1, Ordering::Relaxed);
            pe.barrier_all()?;
            let start = Instant::now();
            if pe.id() == last {
                launch!(pe, go_wrong<<<1, 64>>>(&data, &never, 0))?;
                while told.load(Ordering::Relaxed) + 1 < here.load(Ordering::Relaxed) && start.elapsed() < PATIENCE {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            let mut ended = Ok(());
            while ended.is_ok() && start.elapsed() < PATIENCE {
                ended = pe.stream().synchronize();
            }
            told.fetch_add(1, Ordering::Relaxed);
            match ended {
                Err(Error::PeerFailed { .. } | Error::Device(_)) => ended,
                other => panic!("PE {} of {}: {other:?}", pe.id(), pe.n()),
            }
        });
        ensure!(result.is_err(), "the world ended without an error");
        Ok(())
    }

    impl Fault {
        /// Runs it in a world of its own, which fails.
        pub fn run(&self, world: World) -> anyhow::Result<()> {
            let (last, gpu) = (world.n() - 1, world.backend_name() == "cuda");
            let how = self.how;
            let here = AtomicBool::new(false);
            let result = world.run(|pe: Pe| -> Result<(), Error> {
                let data = pe.alloc::<u32>(LEN as usize)?;
                let never = pe.signals(1)?;
                if how == GRID {
                    collective_launch!(pe, grid_goes_wrong<<<3, 64>>>(&data, &never))?;
                } else {
                    collective_launch!(pe, go_wrong<<<2, 64>>>(&data, &never, how))?;
                }
                here.fetch_or(pe.id() == last, Ordering::Relaxed);
                let ended = pe.stream().synchronize();
                match (&ended, pe.id() == last) {
                    (Err(Error::PeerFailed { .. }), false) | (Err(Error::Device(_)), true) => {}
                    // A wait that nobody answers has two forms: the simulator sees that it can never end.
                    (Err(_), _) if how == TIME_LIMIT => {}
                    (other, _) => panic!("PE {} of {}: {other:?}", pe.id(), pe.n()),
                }
                ended
            });
            let Err(error) = result else {
                bail!("the world ended without an error")
            };
            if how == TIME_LIMIT {
                let text = error.to_string();
                ensure!(text.contains("fault.rs"), "no place in: {text}");
                return Ok(());
            }
            if let Error::PeerFailed { pe, cause } = &error
                && !here.into_inner()
            {
                // In another process, which tells what it failed with.
                ensure!(
                    *pe == last && cause.contains("in kernel go_wrong") || how == GRID,
                    "{error}"
                );
                return Ok(());
            }
            let Error::Device(fault) = error else {
                bail!("not a device fault: {error}")
            };
            ensure!(fault.kind == self.kind, "{fault}");
            ensure!(
                self.a.is_none_or(|a| a == fault.a) && self.b.is_none_or(|b| b == fault.b),
                "{fault}"
            );
            let threads = match how {
                WHOLE_WARP => 32..64,
                GRID => 0..38,
                _ => 37..38,
            };
            ensure!(fault.pe == last && threads.contains(&fault.thread[0]), "{fault}");
            ensure!(fault.kernel.contains("go") && fault.kernel.contains("wrong"), "{fault}");
            // A panic's place costs registers, so that a GPU does not record it.
            if !(gpu && self.kind == FaultKind::Panic) {
                ensure!(fault.file.ends_with("fault.rs") && fault.line > 0, "no place: {fault}");
            }
            Ok(())
        }
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::{FAULTS, Fault, run_unnoticed};
