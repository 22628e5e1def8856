//! `shmem-perf BENCH`: rows `bench,variant,bytes,value,unit`.

mod bandwidth;
mod collective;
mod init;
mod latency;
mod launch;
mod measure;

use anyhow::ensure;
use clap::{Args, Parser, Subcommand};
use shmem_host::World;
use shmem_perf::call;
use shmem_perf::collectives::kind;

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand, Clone)]
enum Bench {
    /// Bandwidth of put from PE 0 to PE 1, by blocks.
    #[command(name = "put_bw")]
    PutBw(Sweep),
    /// Bandwidth of get by PE 0 from PE 1, by blocks.
    #[command(name = "get_bw")]
    GetBw(Sweep),
    /// Half round trips of p, signals and put_signal.
    #[command(name = "pingpong")]
    Pingpong,
    /// One get at a time, by a thread and by a block.
    #[command(name = "get_latency")]
    GetLatency,
    /// Barriers of the world.
    #[command(name = "barrier")]
    Barrier,
    /// Half round trips of packets.
    #[command(name = "packet_pingpong")]
    PacketPingpong,
    /// alltoall by a block and by a grid.
    #[command(name = "alltoall")]
    Alltoall,
    /// broadcast.
    #[command(name = "bcast")]
    Bcast,
    /// fcollect.
    #[command(name = "fcollect")]
    Fcollect,
    /// Float sums to everyone.
    #[command(name = "reduction")]
    Reduction,
    /// Float sums, to each its part.
    #[command(name = "reducescatter")]
    Reducescatter,
    /// Collective launches back to back, beside the driver's own call; the same from a graph.
    #[command(name = "launch")]
    Launch,
    /// From the first call of the library to the first barrier, in as many processes as a launcher has started.
    #[command(name = "init")]
    Init,
}

#[derive(Args, Clone)]
struct Sweep {
    /// The smallest transfer, in bytes (K, M).
    #[arg(short = 'b', default_value = "64K", value_parser = bytes)]
    begin: usize,
    /// The largest.
    #[arg(short = 'e', default_value = "256M", value_parser = bytes)]
    end: usize,
    /// From one size to the next.
    #[arg(short = 'f', default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..))]
    factor: u32,
    /// Shapes, as blocks x threads.
    #[arg(short = 's', default_value = "8x1024,32x1024,132x1024,32x256", value_delimiter = ',', value_parser = shape)]
    shapes: Vec<(u32, u32)>,
}

fn bytes(text: &str) -> Result<usize, String> {
    let wrong = || format!("`{text}`: a size is a multiple of 4 bytes, not 0, with K or M after it for units");
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let unit = match unit {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        _ => return Err(wrong()),
    };
    let n = digits.parse::<usize>().ok().and_then(|n| n.checked_mul(unit));
    n.filter(|n| *n > 0 && n.is_multiple_of(4)).ok_or_else(wrong)
}

fn shape(text: &str) -> Result<(u32, u32), String> {
    let parsed = text
        .split_once('x')
        .and_then(|(b, t)| Some((b.parse().ok()?, t.parse().ok()?)));
    parsed.ok_or_else(|| format!("`{text}`: a shape is blocks x threads, as in 8x1024"))
}

fn main() -> anyhow::Result<()> {
    let bench = Cli::parse().bench;
    if matches!(bench, Bench::Init) {
        return init::to_first_barrier();
    }
    let world = World::from_env()?;
    ensure!(
        world.n() >= 2,
        "these go between PE 0 and PE 1: this world has {}",
        world.n()
    );
    if world.backend_name() == "sim" {
        println!("# simulator: these rows check the data; their times are no performance figures");
    }
    world.run(|pe| -> anyhow::Result<()> {
        let print = |row: measure::Row| {
            if pe.id() == 0 {
                println!("{row}");
            }
        };
        if pe.id() == 0 {
            println!("bench,variant,bytes,value,unit");
        }
        let sweep = |sweep: &Sweep, gets: bool| -> anyhow::Result<()> {
            for &shape in &sweep.shapes {
                let mut size = sweep.begin;
                while size <= sweep.end {
                    if gets {
                        print(bandwidth::row::<{ call::GET }>(&pe, shape, size)?);
                        print(bandwidth::row::<{ call::GET_NBI }>(&pe, shape, size)?);
                    } else {
                        print(bandwidth::row::<{ call::PUT }>(&pe, shape, size)?);
                        print(bandwidth::row::<{ call::PUT_NBI }>(&pe, shape, size)?);
                    }
                    size = size.saturating_mul(sweep.factor as usize);
                }
            }
            Ok(())
        };
        match &bench {
            Bench::PutBw(s) => sweep(s, false),
            Bench::GetBw(s) => sweep(s, true),
            Bench::Pingpong => latency::pingpongs(&pe, print),
            Bench::GetLatency => latency::gets(&pe, print),
            Bench::Barrier => latency::world_barriers(&pe, print),
            Bench::PacketPingpong => collective::packets(&pe, print),
            Bench::Alltoall => collective::rows::<{ kind::ALLTOALL }>(&pe, print),
            Bench::Bcast => collective::rows::<{ kind::BCAST }>(&pe, print),
            Bench::Fcollect => collective::rows::<{ kind::FCOLLECT }>(&pe, print),
            Bench::Reduction => collective::rows::<{ kind::REDUCTION }>(&pe, print),
            Bench::Reducescatter => collective::rows::<{ kind::REDUCESCATTER }>(&pe, print),
            Bench::Launch => launch::back_to_back(&pe, print),
            // Has made a World of its own.
            Bench::Init => Ok(()),
        }
    })
}
