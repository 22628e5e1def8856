//! `shmem-perf compare`: one table of our rows and of the peers' rows of the same thing.

use crate::output::{plot, size, today};
use crate::peer::{Peer, PeerRow, read_rows};
use crate::row::{Row, digits};
use anyhow::{Context, ensure};
use clap::Args;
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(Args, Clone)]
pub(crate) struct CompareArgs {
    /// Our rows, a CSV file of shmem-perf.
    ours: PathBuf,
    /// The peers': rows of the peer's suite, named by their file, or of torch_baseline.py.
    #[arg(required = true)]
    peers: Vec<PathBuf>,
    /// Where the table goes; default: it is printed.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The day of the measurement; default: today.
    #[arg(long)]
    date: Option<String>,
}

/// Each row of a peer with ours beside it, in the peers' order. No row of a peer is left out: ours is empty where there is
/// none of the same thing. `pes`: how many PEs torch_baseline.py had.
pub(crate) fn main(args: &CompareArgs, pes: u32, plots: Option<&Path>) -> anyhow::Result<()> {
    let text =
        std::fs::read_to_string(&args.ours).with_context(|| format!("could not read {}", args.ours.display()))?;
    let ours = read_rows(&text).with_context(|| format!("{}", args.ours.display()))?;
    ensure!(
        ours.iter().any(|row| row.value.is_some()),
        "{} has no figures: the simulator's rows have none",
        args.ours.display()
    );
    let peers = args
        .peers
        .iter()
        .map(|file| Peer::read(file, pes))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let rows: Vec<&PeerRow> = peers.iter().flat_map(|peer| &peer.rows).collect();
    let date = args.date.clone().unwrap_or_else(today);
    let out: Box<dyn Write> = match &args.output {
        None => Box::new(std::io::stdout()),
        Some(file) => {
            let created = std::fs::File::create(file).with_context(|| format!("could not write {}", file.display()))?;
            Box::new(created)
        }
    };
    let mut table = csv::Writer::from_writer(out);
    table.write_record(["bench", "variant", "bytes", "ours", "peer", "peer_name", "unit", "date"])?;
    let mut missing = vec![];
    for theirs in &rows {
        let PeerRow { peer, row } = theirs;
        let mine = ours.iter().find(|mine| mine.is(row));
        if mine.is_none() {
            missing.push(*theirs);
        }
        let mine = mine.map_or_else(String::new, Row::text);
        let (bytes, value) = (row.bytes.to_string(), row.text());
        table.write_record([&row.bench, &row.variant, &bytes, &mine, &value, peer, &row.unit, &date])?;
    }
    table.flush()?;
    if let Some(folder) = plots {
        plot::draw(folder, &ours, &peers)?;
    }
    if args.output.is_some() {
        summary(&ours, &rows);
    }
    for theirs in missing {
        let Row {
            bench, variant, bytes, ..
        } = &theirs.row;
        eprintln!("# {}: no row of ours for {bench},{variant},{bytes}", theirs.peer);
    }
    Ok(())
}

/// Whether more is better.
fn is_rate(unit: &str) -> bool {
    unit.ends_with("/s")
}

/// Prints each ratio, and marks those where the peer is ahead.
fn summary(ours: &[Row], rows: &[&PeerRow]) {
    let (mut compared, mut behind) = (0, 0);
    for PeerRow { peer, row } in rows {
        let mine = ours.iter().find(|mine| mine.is(row)).and_then(|mine| mine.value);
        let (Some(mine), Some(theirs)) = (mine, row.value) else {
            continue;
        };
        compared += 1;
        let ratio = mine / theirs;
        let ahead = if is_rate(&row.unit) { ratio >= 1.0 } else { ratio <= 1.0 };
        behind += usize::from(!ahead);
        let (mark, bytes) = (if ahead { ' ' } else { '*' }, size(row.bytes));
        let (bench, variant, unit) = (&row.bench, &row.variant, &row.unit);
        let (mine, theirs) = (digits(mine), digits(theirs));
        println!("{mark} {bench:20} {variant:32} {bytes:>6} {mine:>10} {theirs:>10} {unit:6} {ratio:6.3} {peer}");
    }
    println!("ours, theirs, ours/theirs: {compared} rows, ours is behind in {behind} (*)");
}
