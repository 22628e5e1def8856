//! `cargo xtask run gups`: checks updates and inserts; with `--bench`, rows beside those of `peer/gups.cu`.
use anyhow::{Context, ensure};
use clap::Parser;
use gups::check::{Shape, check, inserts, keys};
use gups::hash::insert;
use gups::update::{count_others, op, update};
use shmem::collective::Max;
use shmem::{Kernel, SymSlice};
use shmem_host::{Error, Pe, World, launch};
use std::path::PathBuf;

/// Random remote atomics: updates of a table over all PEs, inserts into a hash table over all PEs.
#[derive(Parser)]
struct Options {
    /// Measures, and prints `example,shape,ours,peer,peer_name,unit,date`.
    #[arg(long)]
    bench: bool,
    /// Rows of peer/gups.cu, `shape,figure`, to stand beside ours.
    #[arg(long, value_name = "FILE")]
    peer: Option<PathBuf>,
    /// Words of a PE's table: 2 to the power of these.
    #[arg(long)]
    log_words: Vec<u32>,
    /// Updates of a PE, else 2^26.
    #[arg(long)]
    updates: Option<u64>,
    /// Blocks of a launch, else as many as the device has room for.
    #[arg(long)]
    blocks: Option<u32>,
    /// Threads of a block.
    #[arg(long, default_value_t = 1024)]
    threads: u32,
}

/// Runs, whose median is the row.
const RUNS: usize = 5;

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let peers = match &options.peer {
        Some(file) => std::fs::read_to_string(file).with_context(|| format!("could not read {}", file.display()))?,
        None => String::new(),
    };
    World::from_env()?.run(|pe| {
        if options.bench {
            return Bench::new(&pe, &options, &peers)?.run();
        }
        let simulated = pe.device_name() == "the simulator";
        let (shape, words) = if simulated {
            ((2, 64), 1 << 7)
        } else {
            ((64, 256), 1 << 18)
        };
        check(&pe, shape, words)?;
        println!(
            "PE {}/{} gups verified: updates and inserts, {words} words",
            pe.id(),
            pe.n()
        );
        Ok(())
    })
}

struct Bench<'a> {
    pe: &'a Pe,
    peers: &'a str,
    /// Times say nothing there.
    simulated: bool,
    shape: Shape,
    log_words: Vec<u32>,
    updates: u64,
}

impl<'a> Bench<'a> {
    fn new(pe: &'a Pe, options: &Options, peers: &'a str) -> anyhow::Result<Self> {
        let simulated = pe.device_name() == "the simulator";
        let threads = if simulated { 64 } else { options.threads };
        let room = pe.max_collective_grid::<insert>(threads, 0)?;
        let log_words = match options.log_words.as_slice() {
            [] if simulated => vec![6],
            [] => vec![20, 24, 27],
            words => words.to_vec(),
        };
        ensure!(
            log_words.iter().all(|log| *log < 40),
            "2 to the power of {log_words:?} words: more than 39 is too much"
        );
        Ok(Self {
            pe,
            peers,
            simulated,
            shape: (options.blocks.unwrap_or(if simulated { 2 } else { room }), threads),
            log_words,
            updates: options.updates.unwrap_or(if simulated { 200 } else { 1 << 26 }),
        })
    }

    fn run(&self) -> anyhow::Result<()> {
        if self.pe.id() == 0 {
            println!("example,shape,ours,peer,peer_name,unit,date");
        }
        for &log in &self.log_words {
            self.update::<{ op::XOR }, { op::XOR }>("xor", log)?;
            self.update::<{ op::ADD }, { op::SUB }>("add", log)?;
            self.insert(log)?;
        }
        Ok(())
    }

    /// Updates that are undone by UNDO.
    fn update<const OP: u32, const UNDO: u32>(&self, name: &str, log: u32) -> anyhow::Result<()>
    where
        update<OP>: Kernel<Args = (SymSlice<u64>, u64, u64)>,
        update<UNDO>: Kernel<Args = (SymSlice<u64>, u64, u64)>,
    {
        let (pe, (blocks, threads)) = (self.pe, self.shape);
        let table = pe.alloc::<u64>(1 << log)?;
        let first = u64::from(pe.id()) * self.updates;
        let mut times = vec![];
        for _ in 0..=RUNS {
            times.push(self.seconds(|| launch!(pe, update::<OP><<<blocks, threads>>>(&table, first, self.updates)))?);
            launch!(pe, update::<UNDO><<<blocks, threads>>>(&table, first, self.updates))?;
        }
        pe.barrier_all()?;
        let wrong = pe.buffer::<u32>(1)?;
        launch!(pe, count_others<<<blocks, threads>>>(&table, &wrong))?;
        let wrong = wrong.read(0)?;
        ensure!(
            wrong == 0,
            "{wrong} words are wrong after updates by {name} that were undone"
        );
        self.row(&format!("update_{name}_2^{log}_words"), self.updates, &mut times);
        Ok(())
    }

    /// Half as many random keys as there are words, some of them equal.
    fn insert(&self, log: u32) -> anyhow::Result<()> {
        let (pe, (blocks, threads)) = (self.pe, self.shape);
        let (words, half) = (1 << log, 1usize << log >> 1);
        let key = |from: u32| keys(from, half, words as u64 * 4);
        // The largest table would be checked for minutes.
        if log <= 24 {
            inserts(pe, self.shape, words, key)?;
        }
        let (table, keys, counts) = (pe.alloc::<u64>(words)?, pe.buffer::<u64>(half)?, pe.buffer::<u64>(3)?);
        keys.write(&key(pe.id()))?;
        let (zeros, mut times) = (vec![0; words], vec![]);
        for _ in 0..=RUNS {
            table.write(&zeros)?;
            times.push(self.seconds(|| launch!(pe, insert<<<blocks, threads>>>(&table, &keys, &counts)))?);
            pe.barrier_all()?;
        }
        self.row(&format!("insert_2^{log}_words"), half as u64, &mut times);
        Ok(())
    }

    /// Those of the slowest PE.
    fn seconds(&self, launch: impl FnOnce() -> Result<(), Error>) -> anyhow::Result<f64> {
        let (mine, slowest) = (self.pe.alloc::<f64>(1)?, self.pe.alloc::<f64>(1)?);
        self.pe.barrier_all()?;
        mine.write(&[self.pe.stream().timed(launch)?.as_secs_f64()])?;
        self.pe.stream().reduce(&self.pe.world(), Max, &slowest, &mine)?;
        Ok(slowest.read(0)?)
    }

    /// 10^9 of all PEs in a second.
    fn row(&self, shape: &str, each: u64, times: &mut [f64]) {
        if self.pe.id() != 0 {
            return;
        }
        // The first one is the warm-up.
        let times = &mut times[1..];
        times.sort_by(f64::total_cmp);
        let rate = each as f64 * f64::from(self.pe.n()) / times[times.len() / 2] * 1e-9;
        let ours = if self.simulated {
            String::new()
        } else {
            format!("{rate:.3}")
        };
        let theirs = self
            .peers
            .lines()
            .find_map(|line| line.strip_prefix(shape)?.strip_prefix(','));
        let peer_name = theirs.map_or("", |_| "nvshmem");
        let date = time::OffsetDateTime::now_utc().date();
        println!("gups,{shape},{ours},{},{peer_name},G/s,{date}", theirs.unwrap_or(""));
    }
}
