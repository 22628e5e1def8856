//! `cargo xtask run fused-norm`: checks every algorithm; with `--bench`, rows beside those of `torch_baseline.py`.
use anyhow::{Context, ensure};
use clap::Parser;
use fused_norm::reference::{Run, check};
use fused_norm::{Algorithm, FusedNorm};
use shmem::collective::Max;
use shmem_host::{Pe, Team, World};
use std::path::PathBuf;

/// All-reduce, residual add and RMSNorm of bf16 in one kernel.
#[derive(Parser)]
struct Options {
    /// Measures, and prints `example,shape,ours,peer,peer_name,unit,date`.
    #[arg(long)]
    bench: bool,
    /// Rows of torch_baseline.py, `name,bytes,us`, to stand beside ours.
    #[arg(long, value_name = "FILE")]
    peer: Option<PathBuf>,
    /// Numbers of a row, a multiple of 8 up to 16384, else 8192; 1032 on the simulator.
    #[arg(long)]
    hidden: Option<usize>,
    /// Rows of a call; measured are these, else 1 to 4096.
    #[arg(long)]
    tokens: Vec<usize>,
    /// Measures each algorithm as well, under names of their own.
    #[arg(long)]
    each: bool,
    /// Takes packets for up to so many bytes of rows.
    #[arg(long)]
    packets: Option<usize>,
    /// Takes no more blocks than this.
    #[arg(long)]
    blocks: Option<u32>,
    /// Launches packets as an ordinary kernel, not collectively.
    #[arg(long)]
    plain: bool,
}

/// Calls of a graph: PEs begin it some 20 us apart, of which each call has a share. `perf/fused.sh` has torch_baseline.py make as many.
const IN_GRAPH: usize = 100;
/// Runs of the graph, whose median is the row.
const RUNS: usize = 7;
const ALGORITHMS: [(Algorithm, &str); 4] = [
    (Algorithm::Packets, "packets"),
    (Algorithm::OneShot, "one_shot"),
    (Algorithm::TwoShot, "two_shot"),
    (Algorithm::Puts, "puts"),
];

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let peers = match &options.peer {
        Some(file) => std::fs::read_to_string(file).with_context(|| format!("could not read {}", file.display()))?,
        None => String::new(),
    };
    let world = World::from_env()?;
    world.run(|pe| {
        let simulated = pe.device_name() == "the simulator";
        if options.bench {
            bench(&pe, &options, &peers, simulated)
        } else {
            checks(&pe, &options, simulated)
        }
    })
}

fn checks(pe: &Pe, options: &Options, simulated: bool) -> anyhow::Result<()> {
    let hidden = options.hidden.unwrap_or(if simulated { 1032 } else { 8192 });
    let calls = if simulated { vec![3, 1, 4] } else { vec![16, 3, 61] };
    let calls = if options.tokens.is_empty() {
        calls
    } else {
        options.tokens.clone()
    };
    check(pe, hidden, &calls, None, 1)?;
    for (algorithm, _) in ALGORITHMS.iter().filter(|(by, _)| by.is_for(pe.n())) {
        check(pe, hidden, &calls, Some(*algorithm), 2)?;
    }
    println!(
        "PE {}/{} fused-norm verified: calls of {calls:?} rows of {hidden}",
        pe.id(),
        pe.n()
    );
    Ok(())
}

fn bench(pe: &Pe, options: &Options, peers: &str, simulated: bool) -> anyhow::Result<()> {
    let hidden = options.hidden.unwrap_or(if simulated { 1032 } else { 8192 });
    let tokens = match options.tokens.as_slice() {
        [] if simulated => vec![1, 2],
        [] => vec![1, 4, 16, 64, 256, 1024, 4096],
        tokens => tokens.to_vec(),
    };
    if pe.id() == 0 {
        println!("example,shape,ours,peer,peer_name,unit,date");
    }
    let world = pe.world();
    let (alone, _) = world.split_2d(1)?;
    let (all, one): (Vec<u32>, _) = ((0..pe.n()).collect(), [pe.id()]);
    for tokens in tokens {
        let bench = |team: &Team, members: &[u32], names: &[(Option<Algorithm>, String)]| -> anyhow::Result<()> {
            let mut norm = match options.packets {
                Some(limit) => FusedNorm::with_packets(pe, team, hidden, tokens, limit)?,
                None => FusedNorm::new(pe, team, hidden, tokens)?,
            };
            norm.plain = options.plain;
            norm.limit_blocks(options.blocks.unwrap_or(u32::MAX))?;
            for (by, name) in names.iter().filter(|(by, _)| by.is_none_or(|by| norm.fits(tokens, by))) {
                let us = measure(pe, &norm, hidden, tokens, *by, members, simulated)?;
                if pe.id() == 0 {
                    row(name, us, peers, simulated);
                }
            }
            Ok(())
        };
        let name = format!("nccl_allreduce+add+rmsnorm_{tokens}x{hidden}_bf16");
        let mut names = vec![(None, name.clone())];
        if options.each {
            names.extend(ALGORITHMS.map(|(by, what)| (Some(by), format!("{name}_{what}"))));
        }
        bench(&world, &all, &names)?;
        bench(&alone, &one, &[(None, format!("add+rmsnorm_alone_{tokens}x{hidden}"))])?;
    }
    Ok(())
}

/// Microseconds of a call, those of the slowest PE.
fn measure(
    pe: &Pe,
    norm: &FusedNorm<'_>,
    hidden: usize,
    tokens: usize,
    by: Option<Algorithm>,
    members: &[u32],
    simulated: bool,
) -> anyhow::Result<f64> {
    let stream = pe.stream();
    let run = Run::new(pe, hidden, tokens, 1, 1)?;
    norm.enqueue(stream, run.rows(0, tokens), by)?;
    run.check(members, &[(0, tokens)])?;
    let (calls, runs) = if simulated { (2, 1) } else { (IN_GRAPH, RUNS) };
    let graph = stream.capture(|| (0..calls).try_for_each(|_| norm.enqueue(stream, run.rows(0, tokens), by)))?;
    let (mine, slowest) = (pe.alloc::<f64>(1)?, pe.alloc::<f64>(1)?);
    let mut times = vec![];
    for _ in 0..=runs {
        pe.barrier_all()?;
        let took = stream.timed(|| graph.launch(stream))?;
        mine.write(&[took.as_secs_f64() * 1e6 / calls as f64])?;
        stream.reduce(&pe.world(), Max, &slowest, &mine)?;
        times.push(slowest.read(0)?);
    }
    // The first one is the warm-up.
    let times = &mut times[1..];
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    ensure!(median.is_finite(), "a time of {median} us");
    Ok(median)
}

fn row(name: &str, us: f64, peers: &str, simulated: bool) {
    let theirs = peers
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(',')?.rsplit(',').next());
    let ours = if simulated { String::new() } else { format!("{us:.2}") };
    let peer_name = theirs.map_or("", |_| "torch");
    let date = time::OffsetDateTime::now_utc().date();
    println!(
        "fused-norm,{name},{ours},{},{peer_name},us,{date}",
        theirs.unwrap_or("")
    );
}
