//! Results of peers.

use crate::row::Row;
use anyhow::{Context, bail};
use std::path::Path;

/// A row of a peer, under the name that it has with us.
#[derive(Clone, Debug)]
pub(crate) struct PeerRow {
    /// Whose it is.
    pub(crate) peer: String,
    pub(crate) row: Row,
}

/// What one file holds.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) rows: Vec<PeerRow>,
}

/// What a row of torch_baseline.py, which measures graphs, is among ours.
///
/// | its name | peer | ours | whether our size is for each PE |
/// |---|---|---|---|
const TORCH: [(&str, &str, &str, bool); 6] = [
    ("nccl_allreduce_f32", "nccl", "sum_reduce_float_graph", false),
    ("nccl_allgather", "nccl", "fcollect_int32_graph", false),
    ("nccl_alltoall", "nccl", "alltoall_int32_graph", true),
    ("nccl_reduce_scatter_f32", "nccl", "sum_reducescatter_float_graph", true),
    (
        "symm_one_shot_allreduce_bf16",
        "torch-symm-one-shot",
        "sum_reduce_bf16_graph",
        false,
    ),
    (
        "symm_two_shot_allreduce_bf16",
        "torch-symm-two-shot",
        "sum_reduce_bf16_graph",
        false,
    ),
];
/// The header of the peer's suite, and of ours.
const HEADER: &str = "bench,variant,bytes,value,unit";

impl Peer {
    /// Reads rows of the peer's suite, of ours, or of torch_baseline.py, which `pes` PEs have measured.
    pub(crate) fn read(file: &Path, pes: u32) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(file).with_context(|| format!("could not read {}", file.display()))?;
        let rows = if text.lines().any(|line| line.starts_with(HEADER)) {
            let name = file
                .file_stem()
                .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
            let rows = read_rows(&text).with_context(|| format!("{}", file.display()))?;
            rows.into_iter()
                .map(|row| PeerRow {
                    peer: name.clone(),
                    row,
                })
                .collect()
        } else {
            text.lines().filter_map(|line| torch_row(line, pes)).collect()
        };
        let read = Self { rows };
        if read.rows.is_empty() {
            bail!(
                "{} has no rows: expected `{HEADER}`, or `name,bytes,us` of torch_baseline.py",
                file.display()
            );
        }
        Ok(read)
    }
}

/// Rows under the header, which files put one behind the other repeat.
pub(crate) fn read_rows(text: &str) -> anyhow::Result<Vec<Row>> {
    let lines: Vec<&str> = text.lines().collect();
    let header = lines
        .iter()
        .find(|line| line.starts_with(HEADER))
        .with_context(|| format!("no header `{HEADER}`"))?;
    let rows = lines.iter().filter(|line| !line.starts_with(HEADER));
    let table = std::iter::once(header)
        .chain(rows)
        .copied()
        .collect::<Vec<_>>()
        .join("\n");
    let mut reader = csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .from_reader(table.as_bytes());
    Ok(reader.deserialize().collect::<Result<Vec<Row>, _>>()?)
}

/// `name,bytes,us`. What could not be measured is NaN; other lines are none.
fn torch_row(line: &str, pes: u32) -> Option<PeerRow> {
    let mut fields = line.splitn(3, ',');
    let (name, bytes, us) = (fields.next()?, fields.next()?.parse::<u64>().ok()?, fields.next()?);
    let value = Some(us.trim().parse().unwrap_or(f64::NAN));
    let (peer, bench, variant, bytes) = match TORCH.iter().find(|(theirs, ..)| *theirs == name) {
        Some((_, peer, variant, each)) => {
            let bytes = if *each { bytes / u64::from(pes) } else { bytes };
            (*peer, "coll_stream", *variant, bytes)
        }
        None => ("torch", "torch", name, bytes),
    };
    Some(PeerRow {
        peer: peer.to_owned(),
        row: Row {
            bench: bench.to_owned(),
            variant: variant.to_owned(),
            bytes,
            value,
            unit: "us".to_owned(),
        },
    })
}
