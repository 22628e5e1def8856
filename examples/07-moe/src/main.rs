//! `cargo xtask run moe`: dispatches tokens to experts that multiply, combines, and compares with the CPU. With `--bench` it measures.

use anyhow::Context;
use clap::Parser;
use moe::{Batch, Config, Moe, Routing, Set, Shape, check};
use shmem_host::{Pe, World};

#[derive(Parser)]
struct Args {
    /// Measures, and prints rows of CSV.
    #[arg(long)]
    bench: bool,
    /// Tokens of each PE that are measured.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 16, 32, 64, 128])]
    tokens: Vec<u32>,
    /// Experts of each token.
    #[arg(long, default_value_t = 8)]
    top: u32,
    /// Experts of all PEs.
    #[arg(long, default_value_t = 64)]
    experts: u32,
    /// Numbers of a row.
    #[arg(long, default_value_t = 7168)]
    hidden: u32,
    /// Blocks at most [default: as many as are resident]
    #[arg(long)]
    blocks: Option<u32>,
    /// Rows in packets, or by puts [default: packets for few tokens]
    #[arg(long)]
    packets: Option<bool>,
    /// Threads of a block.
    #[arg(long, default_value_t = 512)]
    threads: u32,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    World::from_env()?.run(|pe| if args.bench { bench(&pe, &args) } else { compare(&pe) })
}

fn compare(pe: &Pe) -> anyhow::Result<()> {
    let simulated = pe.device_name() == "the simulator";
    let (tokens, experts, hidden, blocks, threads) = if simulated {
        (3, 7, 128, Some(2), 64)
    } else {
        (45, 50, 1408, None, 512)
    };
    // The second one's rows go in parts.
    for (tokens, hidden) in [(tokens, hidden), (2, 1024)] {
        let shape = Shape {
            tokens,
            top: 5,
            experts,
            hidden,
        };
        for (routing, packets) in [
            (Routing::Any, None),
            (Routing::Some, Some(true)),
            (Routing::Some, Some(false)),
            (Routing::Same, Some(true)),
            (Routing::Same, Some(false)),
        ] {
            for fp8 in [false, true] {
                let config = Config {
                    shape,
                    fp8,
                    packets,
                    blocks,
                    threads,
                };
                check(pe, config, routing, 7).with_context(|| format!("{config:?}, {routing:?}"))?;
            }
        }
    }
    println!(
        "PE {}/{}: {tokens} tokens of {hidden} numbers, {experts} experts, in bf16 and in fp8: as on the CPU",
        pe.id(),
        pe.n()
    );
    Ok(())
}

fn bench(pe: &Pe, args: &Args) -> anyhow::Result<()> {
    let &Args {
        top,
        experts,
        hidden,
        packets,
        blocks,
        threads,
        ..
    } = args;
    if pe.id() == 0 {
        println!("example,shape,ours,peer,peer_name,unit,date");
    }
    for &tokens in &args.tokens {
        let shape = Shape {
            tokens,
            top,
            experts,
            hidden,
        };
        for fp8 in [false, true] {
            let moe = Moe::new(
                pe,
                Config {
                    shape,
                    fp8,
                    packets,
                    blocks,
                    threads,
                },
            )?;
            let set = Set::new(pe, shape, &moe)?;
            set.write(&Batch::new(shape, Routing::Any, 1, pe.id()))?;
            let format = if fp8 { "fp8" } else { "bf16" };
            let row = |what: &str, us: f64| {
                if pe.id() == 0 {
                    let (n, date) = (pe.n(), time::OffsetDateTime::now_utc().date());
                    println!("moe,{what} {format} {tokens}x{hidden} top {top} of {experts} on {n},{us:.2},,,us,{date}");
                }
            };
            row("dispatch", us(pe, || set.dispatch(&moe))?);
            let both = || {
                set.dispatch(&moe)?;
                Ok(set.combine(&moe)?)
            };
            row("dispatch+combine", us(pe, both)?);
        }
    }
    Ok(())
}

/// Microseconds of a call, from a graph of some.
fn us(pe: &Pe, call: impl Fn() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    // PEs begin the graph some 20 us apart, of which each call has a share.
    const CALLS: u32 = 100;
    const REPETITIONS: usize = 9;
    let stream = pe.stream();
    let graph = stream.capture(|| (0..CALLS).try_for_each(|_| call()))?;
    let mut took = Vec::new();
    // The first two are warm-ups.
    for repetition in 0..REPETITIONS + 2 {
        pe.barrier_all()?;
        let us = stream.timed(|| graph.launch(stream))?.as_secs_f64() * 1e6 / f64::from(CALLS);
        if repetition >= 2 {
            took.push(us);
        }
    }
    pe.barrier_all()?;
    took.sort_by(f64::total_cmp);
    Ok(took[REPETITIONS / 2])
}
