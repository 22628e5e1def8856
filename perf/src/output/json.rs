//! All rows as one JSON object.

use super::{About, NO_FIGURES, ratio, today};
use crate::peer::Peer;
use crate::row::Row;
use serde::Serialize;

#[derive(Serialize)]
struct Report<'a> {
    suite: &'static str,
    version: &'static str,
    date: String,
    backend: &'static str,
    pes: u32,
    simulated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
    rows: Vec<Line<'a>>,
}

/// A figure that is not one (NaN) is null, and `wrong` is true.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    row: &'a Row,
    wrong: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    peers: Vec<Beside<'a>>,
}

#[derive(Serialize)]
struct Beside<'a> {
    name: &'a str,
    value: Option<f64>,
    /// Ours over theirs.
    ratio: Option<f64>,
}

pub(super) fn text(about: &About, rows: &[Row], peers: &[Peer]) -> anyhow::Result<String> {
    let beside = |row: &Row| -> Vec<Beside<'_>> {
        let all = peers.iter().flat_map(|peer| &peer.rows);
        all.filter(|theirs| theirs.row.is(row))
            .map(|theirs| Beside {
                name: &theirs.peer,
                value: theirs.row.value,
                ratio: ratio(row, &theirs.row),
            })
            .collect()
    };
    let report = Report {
        suite: "shmem-perf",
        version: env!("CARGO_PKG_VERSION"),
        date: today(),
        backend: about.backend,
        pes: about.pes,
        simulated: about.simulated(),
        note: about.simulated().then_some(NO_FIGURES),
        rows: rows
            .iter()
            .map(|row| Line {
                row,
                wrong: row.value.is_some_and(f64::is_nan),
                peers: beside(row),
            })
            .collect(),
    };
    Ok(serde_json::to_string_pretty(&report)?)
}
