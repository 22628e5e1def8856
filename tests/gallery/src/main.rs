//! `cargo xtask gallery`.

use clap::Parser;
use gallery::{Outcome, all, details, table, write};
use std::path::PathBuf;
use std::time::Instant;

/// Runs every planted bug and its fixed twin with many seeds. Fails unless every bug is named and every twin clean.
#[derive(Parser)]
struct Cli {
    /// Seeds of each twin.
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
    /// Seeds of each bug.
    #[arg(long, default_value_t = 1000)]
    bug_seeds: u64,
    /// Only the cases whose names hold this text.
    #[arg(long)]
    only: Option<String>,
    /// Prints every report whole.
    #[arg(long)]
    reports: bool,
    /// A page with markers, between which the table is put.
    #[arg(long)]
    write: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    let since = Instant::now();
    let mut outcomes = Vec::new();
    for case in all().filter(|case| cli.only.as_ref().is_none_or(|text| case.name.contains(text))) {
        let outcome = Outcome::of(case, cli.bug_seeds, cli.seeds);
        let rate = |tally: &gallery::Tally| tally.seeds as f64 / tally.took.as_secs_f64();
        eprintln!(
            "{}: found in {} of {}, {} otherwise; twin: {} of {} fail; {:.0} and {:.0} seeds/s",
            case.name,
            outcome.bug.found,
            outcome.bug.seeds,
            outcome.bug.other,
            outcome.twin.other,
            outcome.twin.seeds,
            rate(&outcome.bug),
            rate(&outcome.twin),
        );
        outcomes.push(outcome);
    }
    let (named, clean) = (
        outcomes.iter().filter(|o| o.is_named()).count(),
        outcomes.iter().filter(|o| o.is_clean()).count(),
    );
    let text = table(&outcomes);
    println!("{text}");
    if cli.reports || named + clean < 2 * outcomes.len() {
        println!("{}", details(&outcomes));
    }
    if let Some(page) = &cli.write {
        write(page, &text)?;
    }
    println!(
        "{named} of {} bugs named, {clean} twins clean, {:.0?}",
        outcomes.len(),
        since.elapsed()
    );
    anyhow::ensure!(
        named == outcomes.len() && clean == outcomes.len(),
        "the simulator does not find what it should"
    );
    Ok(())
}
