//! Where rows go.

mod csv;
mod json;
pub(crate) mod plot;
mod table;

use crate::cli::Common;
use crate::peer::{Peer, PeerRow};
use crate::row::Row;
use anyhow::{Context, ensure};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stdout};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// What stands in every output of the simulator.
pub(crate) const NO_FIGURES: &str = "simulator: a row says that its benchmark ran (nan: with wrong data); there are no times, which would say nothing of GPUs";

/// What is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Csv,
    Json,
}

/// What the rows were measured on.
pub(crate) struct About {
    pub(crate) backend: &'static str,
    pub(crate) pes: u32,
}

impl About {
    pub(crate) fn simulated(&self) -> bool {
        self.backend == "sim"
    }
}

/// Takes rows as they come. Only the process of PE 0 gets any, and writes anything.
pub(crate) struct Output {
    about: About,
    peers: Vec<Peer>,
    format: Format,
    csv: Option<PathBuf>,
    json: Option<PathBuf>,
    plot: Option<PathBuf>,
    rows: Mutex<Vec<Row>>,
    bar: ProgressBar,
}

impl Output {
    pub(crate) fn new(about: About, peers: Vec<Peer>, common: &Common, benchmarks: usize) -> anyhow::Result<Self> {
        ensure!(
            common.plot.is_none() || !about.simulated(),
            "--plot on the simulator: it has no figures to draw; plots of measured rows are made by `shmem-perf compare --plot`"
        );
        let format = common.format.unwrap_or(if stdout().is_terminal() {
            Format::Table
        } else {
            Format::Csv
        });
        let bar = ProgressBar::with_draw_target(Some(benchmarks as u64), ProgressDrawTarget::hidden());
        bar.set_style(ProgressStyle::with_template("{bar:20} {pos}/{len} {elapsed} {msg}")?);
        Ok(Self {
            about,
            peers,
            format,
            csv: common.csv.clone(),
            json: common.json.clone(),
            plot: common.plot.clone(),
            rows: Mutex::default(),
            bar,
        })
    }

    /// PE 0 begins a benchmark.
    pub(crate) fn begin(&self, name: &'static str) {
        if self.bar.is_hidden() {
            // Hidden all the same where that is no terminal.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        } else {
            self.bar.inc(1);
        }
        self.bar.set_message(name);
    }

    pub(crate) fn row(&self, row: Row) {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let first = rows.is_empty();
        self.bar.suspend(|| match self.format {
            Format::Table => table::print(&self.about, first, &row, self.peer_of(&row)),
            Format::Csv => print!(
                "{}",
                csv::text(&self.about, first, &row, self.peer_of(&row), self.with_peers())
            ),
            Format::Json => {}
        });
        rows.push(row);
    }

    fn with_peers(&self) -> bool {
        !self.peers.is_empty()
    }

    /// The first peer's row of the same thing.
    fn peer_of(&self, row: &Row) -> Option<&PeerRow> {
        self.peers
            .iter()
            .flat_map(|peer| &peer.rows)
            .find(|theirs| theirs.row.is(row))
    }

    /// Writes what is written at the end.
    pub(crate) fn finish(&self) -> anyhow::Result<()> {
        self.bar.finish_and_clear();
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        if rows.is_empty() {
            return Ok(());
        }
        if self.format == Format::Json {
            println!("{}", json::text(&self.about, &rows, &self.peers)?);
        }
        if let Some(file) = &self.json {
            write(file, &json::text(&self.about, &rows, &self.peers)?)?;
        }
        if let Some(file) = &self.csv {
            let lines = (0..)
                .zip(rows.iter())
                .map(|(i, row)| csv::text(&self.about, i == 0, row, self.peer_of(row), self.with_peers()));
            write(file, &lines.collect::<String>())?;
        }
        if let Some(folder) = &self.plot {
            plot::draw(folder, &rows, &self.peers)?;
        }
        Ok(())
    }
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(file, text).with_context(|| format!("could not write {}", file.display()))
}

/// This day, in UTC: 2026-11-30.
pub(crate) fn today() -> String {
    time::OffsetDateTime::now_utc().date().to_string()
}

/// Bytes in units of 1024, where they are whole.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0 => String::new(),
        _ if bytes.is_multiple_of(1 << 30) => format!("{}G", bytes >> 30),
        _ if bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{}K", bytes >> 10),
        _ => bytes.to_string(),
    }
}

/// Ours over theirs, where both have a figure.
pub(crate) fn ratio(ours: &Row, theirs: &Row) -> Option<f64> {
    Some(ours.value? / theirs.value?)
}
