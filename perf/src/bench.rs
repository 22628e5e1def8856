//! What a benchmark has at hand: its PE, the options, a clock, data and their check, a place for rows.

use crate::options::{OptionError, Options, Scope};
use crate::row::{Row, SIMULATED};
use shmem::{Global, Kernel, SymSlice};
use shmem_host::{Buf, Error, LaunchConfig, Pe, SymBuf, launch};
use shmem_perf::data::{Expect, Number, check, fill, rule};
use std::cell::Cell;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering};

/// How long a repetition runs, in seconds; the peer's run as long.
const REPETITION: f64 = 0.008;
/// The same of a quick run.
const QUICK: f64 = 0.002;
/// Repetitions whose median a row is.
const REPETITIONS: u32 = 5;
/// Blocks and threads of what fills and checks data.
const DATA: (u32, u32) = (256, 256);
/// The same on the simulator, whose data are a few elements.
const DATA_SIMULATED: (u32, u32) = (2, 32);

/// Blocks and threads per block.
pub(crate) type Shape = (u32, u32);

/// Sizes in bytes: `begin`, times `factor` and so on, and `end`.
#[derive(Clone, Copy)]
pub(crate) struct Sweep {
    pub(crate) begin: usize,
    pub(crate) end: usize,
    pub(crate) factor: usize,
    /// What the simulator stops at.
    pub(crate) simulated: usize,
}

/// `begin`, times `factor` and so on, and `end`.
fn steps(begin: usize, end: usize, factor: usize) -> Vec<usize> {
    let mut sizes: Vec<_> = std::iter::successors(Some(begin), |size| size.checked_mul(factor))
        .take_while(|size| *size < end)
        .collect();
    sizes.push(end);
    sizes
}

/// What is shared by the PEs of this process.
pub(crate) struct Shared<'a> {
    pub(crate) options: &'a Options,
    /// Takes the rows, from PE 0 alone.
    pub(crate) print: &'a (dyn Fn(Row) + Sync),
    /// How many rows were wrong.
    pub(crate) wrong_rows: &'a AtomicU32,
}

/// One PE's part in a benchmark.
pub(crate) struct Bench<'a> {
    pub(crate) pe: &'a Pe,
    pub(crate) options: &'a Options,
    /// Whether times say nothing.
    pub(crate) simulated: bool,
    /// Seconds from the first call of the library to the first barrier, the slowest PE's.
    pub(crate) init: f64,
    /// The benchmark's name on the command line.
    pub(crate) name: &'static str,
    shared: &'a Shared<'a>,
    board: SymBuf<f64>,
    wrong: Buf<u32>,
    /// Whether what the next row reports came out right on every PE.
    right: Cell<bool>,
}

impl<'a> Bench<'a> {
    /// Collective. `init`: this PE's seconds up to the first barrier.
    pub(crate) fn new(pe: &'a Pe, shared: &'a Shared<'a>, init: f64) -> anyhow::Result<Self> {
        let mut bench = Self {
            pe,
            options: shared.options,
            simulated: pe.device_name() == "the simulator",
            init,
            name: "",
            shared,
            board: pe.alloc(pe.n() as usize)?,
            wrong: pe.buffer(1)?,
            right: Cell::new(true),
        };
        bench.init = bench.slowest(init)?;
        Ok(bench)
    }

    /// Whether this PE is 0 or 1, between which point-to-point rows are.
    pub(crate) fn in_pair(&self) -> bool {
        self.pe.id() < 2
    }

    /// The other PE of the pair.
    pub(crate) fn peer(&self) -> u32 {
        1 - self.pe.id().min(1)
    }

    /// The largest of what the PEs have, on every PE. Collective.
    pub(crate) fn slowest(&self, mine: f64) -> anyhow::Result<f64> {
        shmem_host::collective_launch!(self.pe, shmem_perf::post<<<1, 32>>>(&self.board, mine))?;
        let most = self.board.to_vec()?.into_iter().fold(f64::NEG_INFINITY, f64::max);
        self.pe.barrier_all()?;
        Ok(most)
    }

    /// The row's sizes: `sweep`, or as the options say. `element`: bytes of one element.
    pub(crate) fn sizes(&self, sweep: Sweep, element: usize) -> Result<Vec<usize>, OptionError> {
        let options = self.options;
        options.elements(self.name, element)?;
        let end = match options.end {
            Some(end) => end,
            None if self.simulated => sweep.end.min(sweep.simulated),
            None if options.quick => sweep.end.min(16 << 20),
            None => sweep.end,
        };
        let begin = options.begin.unwrap_or(sweep.begin.min(end));
        if begin > end {
            return Err(OptionError::Order { begin, end });
        }
        let factor = match options.factor {
            Some(factor) => factor,
            None if options.quick => sweep.factor.saturating_pow(3),
            None => sweep.factor,
        };
        Ok(steps(begin, end, factor))
    }

    /// Threads of a block that makes a call of this scope. `-t` is for blocks and grids, where no scope is asked for.
    pub(crate) fn threads_of(&self, scope: Scope) -> Result<u32, OptionError> {
        let asked = self.options.scope == Some(scope);
        match scope {
            Scope::Thread if asked => self.options.threads("a thread", 1, 1),
            Scope::Warp if asked => self.options.threads("a warp", 32, 32),
            Scope::Thread => Ok(1),
            Scope::Warp => Ok(32),
            Scope::Block | Scope::Grid | Scope::All => {
                self.options
                    .threads(self.name, if self.simulated { 64 } else { 1024 }, 1024)
            }
        }
    }

    /// Seconds of one iteration. `launch` enqueues this many, or nothing on a PE that keeps still; `bounds` are how many may
    /// be asked for. Collective; the slowest PE counts.
    ///
    /// The median of the repetitions, each one run of `launch` between two events of the stream, after a warm-up.
    pub(crate) fn seconds<E: From<Error>>(
        &self,
        bounds: RangeInclusive<u32>,
        launch: impl Fn(u32) -> Result<(), E>,
    ) -> anyhow::Result<f64>
    where
        anyhow::Error: From<E>,
    {
        let took = |iters: u32| -> anyhow::Result<f64> {
            self.pe.barrier_all()?;
            let took = self.pe.stream().timed(|| launch(iters))?;
            self.slowest(took.as_secs_f64())
        };
        let (least, most) = bounds.into_inner();
        let iters = match self.options.iters {
            Some(iters) => {
                let warmup = self.options.warmup.unwrap_or(iters);
                if warmup > 0 {
                    took(warmup)?;
                }
                iters
            }
            // A run only checks that the benchmark works.
            None if self.simulated => least,
            None => {
                let length = if self.options.quick { QUICK } else { REPETITION };
                let mut iters = least;
                // The first launch of a kernel is slow; the last of these is the warm-up.
                for _ in 0..3 {
                    let once = took(iters)? / f64::from(iters);
                    // The events' clock may say 0 of a short run.
                    iters = ((length / once.max(1e-8)) as u32).clamp(least, most);
                }
                took(self.options.warmup.unwrap_or(iters).max(1))?;
                iters
            }
        };
        let repetitions = match self.options.repetitions {
            Some(repetitions) => repetitions,
            None if self.simulated => 1,
            None => REPETITIONS,
        };
        let mut seconds = (0..repetitions)
            .map(|_| took(iters))
            .collect::<anyhow::Result<Vec<_>>>()?;
        seconds.sort_by(f64::total_cmp);
        Ok(seconds[seconds.len() / 2] / f64::from(iters))
    }

    fn data_shape(&self) -> Shape {
        if self.simulated { DATA_SIMULATED } else { DATA }
    }

    /// Fills `x` with what this PE moves, `len` elements again and again, or with what it reduces, where `len` is 0.
    pub(crate) fn fill<T: Number>(&self, x: SymSlice<T>, len: usize) -> Result<(), Error>
    where
        fill<T>: Kernel<Args = (SymSlice<T>, u32, u64)>,
    {
        let (blocks, threads) = self.data_shape();
        launch!(self.pe, fill::<T><<<blocks, threads>>>(x, self.pe.id(), len as u64))
    }

    /// Whether `x` is as expected, where this PE has a result (`look`): else the next row is wrong. Collective.
    pub(crate) fn check<T: Number>(&self, look: bool, x: SymSlice<T>, expect: Expect) -> anyhow::Result<()>
    where
        check<T>: Kernel<Args = (SymSlice<T>, Expect, Global<u32>)>,
    {
        if !self.options.verify {
            return Ok(());
        }
        // What peers put is there.
        self.pe.barrier_all()?;
        let mut wrong = 0;
        if look {
            self.wrong.write(&[0])?;
            let (blocks, threads) = self.data_shape();
            launch!(self.pe, check::<T><<<blocks, threads>>>(x, expect, &self.wrong))?;
            wrong = self.wrong.read(0)?;
        }
        self.judge(wrong.into())
    }

    /// As [`check`](Self::check), of what was copied from PE `from`, `len` elements again and again.
    pub(crate) fn check_copy(&self, look: bool, x: SymSlice<u32>, from: u32, len: usize) -> anyhow::Result<()> {
        let expect = Expect {
            rule: rule::COPY,
            op: 0,
            from,
            me: self.pe.id(),
            n: self.pe.n(),
            len: len as u64,
            first: 0,
        };
        self.check(look, x, expect)
    }

    /// This PE found so many elements wrong. Collective.
    pub(crate) fn judge(&self, wrong: u64) -> anyhow::Result<()> {
        if !self.options.verify {
            return Ok(());
        }
        if wrong > 0 {
            eprintln!("# PE {}: the next row of {} has {wrong} wrong", self.pe.id(), self.name);
        }
        if self.slowest(wrong as f64)? > 0.0 {
            self.right.set(false);
        }
        Ok(())
    }

    /// Reports a figure. Every PE calls it.
    pub(crate) fn row(&self, bench: &str, variant: &str, bytes: usize, value: f64, unit: &str) {
        let right = self.right.replace(true);
        if self.pe.id() != 0 {
            return;
        }
        if !right {
            self.shared.wrong_rows.fetch_add(1, Ordering::Relaxed);
        }
        (self.shared.print)(Row {
            bench: bench.to_owned(),
            variant: variant.to_owned(),
            bytes: bytes as u64,
            value: match (right, self.simulated) {
                (false, _) => Some(f64::NAN),
                (true, true) => None,
                (true, false) => Some(value),
            },
            unit: if self.simulated { SIMULATED } else { unit }.to_owned(),
        });
    }

    /// Reports a time, in microseconds.
    pub(crate) fn us(&self, bench: &str, variant: &str, bytes: usize, seconds: f64) {
        self.row(bench, variant, bytes, seconds * 1e6, "us");
    }

    /// A launch of this shape on every PE together.
    pub(crate) fn together(shape: Shape) -> LaunchConfig<'static> {
        LaunchConfig::new(shape.0, shape.1).collective()
    }
}

#[cfg(test)]
mod tests {
    use super::{Bench, Shared, Sweep, steps};
    use crate::options::Options;
    use crate::row::Row;
    use crate::{collective, copy_engine, on_stream, pingpong, rma_bw};
    use shmem_host::{Backend, World};
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// The row of data in which the last element of PE 1's is wrong.
    fn wrong_row(verify: bool) -> anyhow::Result<(Row, u32)> {
        let options = Options {
            verify,
            ..Options::default()
        };
        let (rows, wrong_rows) = (Mutex::<Vec<Row>>::default(), AtomicU32::new(0));
        let shared = Shared {
            options: &options,
            print: &|row: Row| rows.lock().expect("no panic").push(row),
            wrong_rows: &wrong_rows,
        };
        let world = World::builder().backend(Backend::Sim).pes(2).build()?;
        world.run(|pe| -> anyhow::Result<()> {
            let bench = Bench::new(&pe, &shared, 0.0)?;
            let x = pe.alloc::<u32>(300)?;
            bench.fill(x.handle(), 100)?;
            if pe.id() == 1 {
                x.write_at(299, &[x.read(299)? + 1])?;
            }
            bench.check_copy(true, x.handle(), pe.id(), 100)?;
            bench.row("bench", "variant", 1200, 1.0, "us");
            // It was said once.
            bench.check_copy(pe.id() == 0, x.handle(), 0, 100)?;
            bench.row("bench", "next", 1200, 1.0, "us");
            Ok(())
        })?;
        let mut rows = rows.into_inner().expect("no panic");
        assert!(
            rows.len() == 2 && rows[1].value.is_none(),
            "PE 0 alone reports: {rows:?}"
        );
        Ok((rows.swap_remove(0), wrong_rows.load(Ordering::Relaxed)))
    }

    #[test]
    fn one_wrong_element_makes_the_row_nan() -> anyhow::Result<()> {
        let (row, wrong) = wrong_row(true)?;
        assert!(row.value.is_some_and(f64::is_nan) && wrong == 1, "{row:?}");
        let (row, wrong) = wrong_row(false)?;
        assert!(
            row.value.is_none() && wrong == 0,
            "--no-verify looks at nothing: {row:?}"
        );
        Ok(())
    }

    /// Sizes of the peer's rows, in KiB where they are not of 8 bytes.
    #[test]
    fn sizes_are_the_peers() {
        let of = |sweep: Sweep| steps(sweep.begin, sweep.end, sweep.factor);
        let kib = |sizes: &[usize]| sizes.iter().map(|kib| kib << 10).collect::<Vec<_>>();
        assert_eq!(
            of(rma_bw::SIZES),
            kib(&[4, 16, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10])
        );
        assert_eq!(
            of(pingpong::SIZES),
            [8, 32, 128, 512, 2048, 8192, 32768, 131_072, 524_288, 1_048_576]
        );
        assert_eq!(of(collective::SIZES), [8, 64, 512, 4096, 32768, 262_144, 1_048_576]);
        assert_eq!(
            of(on_stream::SIZES),
            kib(&[4, 32, 256, 2 << 10, 16 << 10, 128 << 10, 256 << 10])
        );
        assert_eq!(of(copy_engine::SIZES), [256 << 20]);
    }

    #[test]
    fn the_last_size_is_the_end() {
        assert_eq!(steps(8, 8, 2), [8]);
        assert_eq!(steps(8, 20, 2), [8, 16, 20]);
        assert_eq!(steps(1, usize::MAX, 1 << 40), [1, 1 << 40, usize::MAX]);
    }
}
