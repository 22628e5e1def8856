//! `shmem-perf plot`: draws a table of the examples beside their peers, one plot for each example.

use crate::output::plot::{Plot, draw_one};
use anyhow::{Context, ensure};
use clap::Args;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Args, Clone)]
pub(crate) struct PlotArgs {
    /// A table of ours and a peer's: example,shape,ours,peer,peer_name,unit,date.
    table: PathBuf,
    /// Where `EXAMPLE.svg` go.
    folder: PathBuf,
}

/// A line of the table.
#[derive(Deserialize)]
struct Line {
    example: String,
    shape: String,
    ours: f64,
    /// Nothing where there is no peer.
    peer: Option<f64>,
    peer_name: String,
    unit: String,
}

pub(crate) fn main(args: &PlotArgs) -> anyhow::Result<()> {
    let PlotArgs { table, folder } = args;
    let text = std::fs::read_to_string(table).with_context(|| format!("could not read {}", table.display()))?;
    let plots = plots(&text).with_context(|| format!("{}", table.display()))?;
    ensure!(!plots.is_empty(), "{} has no rows", table.display());
    std::fs::create_dir_all(folder).with_context(|| format!("could not make {}", folder.display()))?;
    for (name, plot) in plots {
        draw(folder, &name, &plot)?;
    }
    Ok(())
}

fn draw(folder: &Path, name: &str, plot: &Plot) -> anyhow::Result<()> {
    let file = folder.join(format!("{name}.svg"));
    draw_one(&file, name, plot).with_context(|| format!("could not draw {}", file.display()))
}

/// What is measured, and of which size: `dispatch bf16` and `8x7168 top 8 of 64`. A size begins with the first number; a type belongs to
/// what is measured, wherever it stands.
fn split(shape: &str) -> (String, String) {
    let shape = shape.replace('_', " ");
    let begins_with_digit = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    let is_type = |word: &str| !begins_with_digit(word) && word.ends_with(|c: char| c.is_ascii_digit());
    let (types, words): (Vec<&str>, Vec<&str>) = shape.split(' ').partition(|word| is_type(word));
    let at = words.iter().position(|word| begins_with_digit(word));
    let (name, size) = words.split_at(at.unwrap_or(words.len()));
    ([name, &types].concat().join(" "), size.join(" "))
}

/// By the name of the example.
fn plots(text: &str) -> anyhow::Result<BTreeMap<String, Plot>> {
    let mut plots = BTreeMap::<String, Plot>::new();
    for line in csv::Reader::from_reader(text.as_bytes()).deserialize() {
        let Line {
            example,
            shape,
            ours,
            peer,
            peer_name,
            unit,
        } = line?;
        let plot = plots.entry(example.clone()).or_default();
        ensure!(
            plot.unit.is_empty() || plot.unit == unit,
            "{example} has rows in {} and in {unit}: one plot has one unit",
            plot.unit
        );
        plot.unit = unit;
        let (what, size) = split(&shape);
        let what = if what.is_empty() { example } else { what };
        let x = plot.place(&size);
        plot.ours.entry(what.clone()).or_default().push((x, ours));
        if let Some(peer) = peer {
            plot.peers.entry((what, peer_name)).or_default().push((x, peer));
        }
    }
    Ok(plots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_have_a_name_and_a_size() {
        let split = |shape| {
            let (what, size) = split(shape);
            format!("{what}|{size}")
        };
        assert_eq!(
            split("dispatch fp8 8x7168 top 8 of 64 on 2"),
            "dispatch fp8|8x7168 top 8 of 64 on 2"
        );
        assert_eq!(split("add+rmsnorm_alone_16x8192"), "add+rmsnorm alone|16x8192");
        assert_eq!(split("allreduce+add_16x8192_bf16"), "allreduce+add bf16|16x8192");
        assert_eq!(split("16384x16384 on 2"), "|16384x16384 on 2");
        assert_eq!(split("update_xor_2^20_words"), "update xor|2^20 words");
    }

    #[test]
    fn the_table_of_the_examples_is_drawn() {
        let text = include_str!("../../docs/results/fused-2xh200.csv");
        let plots = plots(text).unwrap();
        assert_eq!(plots.len(), 5);
        let folder = std::env::temp_dir().join(format!("shmem-perf-plot-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (name, plot) in &plots {
            let (ours, peers) = (plot.ours.values(), plot.peers.values());
            let points: usize = ours.chain(peers).map(Vec::len).sum();
            draw(&folder, name, plot).unwrap();
            let svg = std::fs::read_to_string(folder.join(format!("{name}.svg"))).unwrap();
            let lines: Vec<&str> = text.lines().filter(|line| line.starts_with(&**name)).collect();
            let empty = lines.iter().filter(|line| line.contains(",,")).count();
            assert_eq!(points, 2 * lines.len() - empty, "{name}");
            assert!(plot.ours.keys().all(|what| svg.contains(&**what)), "{name}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn rows_that_are_none_are_said() {
        let table = |rows: &str| plots(&format!("example,shape,ours,peer,peer_name,unit,date\n{rows}"));
        assert!(table("moe,1x8,fast,,,us,2026-11-30\n").is_err());
        let error = table("moe,1x8,1,,,us,2026-11-30\nmoe,2x8,1,,,ms,2026-11-30\n")
            .err()
            .unwrap();
        assert_eq!(error.to_string(), "moe has rows in us and in ms: one plot has one unit");
    }
}
