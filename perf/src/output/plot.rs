//! SVG plots of bandwidth and latency against size, with the peers' rows dashed in the same colours.

use super::size;
use crate::peer::Peer;
use crate::row::Row;
use anyhow::Context;
use plotters::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;

/// One line: what it shows, and its points by size.
type Lines = BTreeMap<String, Vec<(f64, f64)>>;

/// A plot's lines, ours and the peers'.
#[derive(Default)]
pub(crate) struct Plot {
    pub(crate) unit: String,
    pub(crate) ours: Lines,
    /// By the name of our line, and the peer.
    pub(crate) peers: BTreeMap<(String, String), Vec<(f64, f64)>>,
    /// Sizes that are no bytes, in the order in which they were met.
    sizes: Vec<String>,
}

impl Plot {
    /// Where a size lies that is no number of bytes: on an axis of powers of two, as far from the next one as from the last.
    pub(crate) fn place(&mut self, size: &str) -> f64 {
        let known = self.sizes.iter().position(|one| one == size);
        let i = known.unwrap_or_else(|| {
            self.sizes.push(size.to_owned());
            self.sizes.len() - 1
        });
        (i as f64).exp2()
    }

    /// What stands at a place: its size. Between sizes that are no bytes nothing does.
    fn label(&self, x: f64) -> String {
        if self.sizes.is_empty() {
            return size(x as u64);
        }
        let i = x.log2();
        let is_place = (i - i.round()).abs() < 0.01;
        let size = self.sizes.get(i.round() as usize).filter(|_| is_place);
        size.cloned().unwrap_or_default()
    }
}

/// Draws `folder/NAME.svg` for each group of rows that has several sizes.
pub(crate) fn draw(folder: &Path, ours: &[Row], peers: &[Peer]) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("could not make {}", folder.display()))?;
    for (name, plot) in plots(ours, peers) {
        let file = folder.join(format!("{name}.svg"));
        draw_one(&file, &name, &plot).with_context(|| format!("could not draw {}", file.display()))?;
    }
    Ok(())
}

fn plots(ours: &[Row], peers: &[Peer]) -> BTreeMap<String, Plot> {
    let mut plots = BTreeMap::<String, Plot>::new();
    let point = |row: &Row| {
        row.value
            .filter(|value| value.is_finite())
            .map(|value| (row.bytes as f64, value))
    };
    for row in ours {
        let Some(at) = point(row) else { continue };
        let plot = plots.entry(group(row)).or_default();
        plot.unit.clone_from(&row.unit);
        plot.ours.entry(row.variant.clone()).or_default().push(at);
    }
    for theirs in peers.iter().flat_map(|peer| &peer.rows) {
        let Some(at) = point(&theirs.row) else { continue };
        // Theirs alone are no comparison.
        if let Some(plot) = plots.get_mut(&group(&theirs.row))
            && plot.ours.contains_key(&theirs.row.variant)
        {
            let line = (theirs.row.variant.clone(), theirs.peer.clone());
            plot.peers.entry(line).or_default().push(at);
        }
    }
    for plot in plots.values_mut() {
        plot.ours.retain(|_, line| line.len() > 1);
        let ours = &plot.ours;
        plot.peers.retain(|(variant, _), _| ours.contains_key(variant));
        let lines = plot.ours.values_mut().chain(plot.peers.values_mut());
        lines.for_each(|line| line.sort_by(|a, b| a.0.total_cmp(&b.0)));
    }
    plots.retain(|_, plot| !plot.ours.is_empty());
    plots
}

/// What is drawn together: a benchmark's variants that begin alike.
fn group(row: &Row) -> String {
    let words = if row.variant.contains("_reduce") { 2 } else { 1 };
    let start: Vec<_> = row.variant.split('_').collect();
    if start.len() <= words {
        return row.bench.clone();
    }
    format!("{}_{}", row.bench, start[..words].join("_"))
}

pub(crate) fn draw_one(file: &Path, name: &str, plot: &Plot) -> anyhow::Result<()> {
    let points = || plot.ours.values().chain(plot.peers.values()).flatten();
    let (mut sizes, mut values) = ((f64::MAX, 0.0f64), (f64::MAX, 0.0f64));
    for (x, y) in points() {
        sizes = (sizes.0.min(*x), sizes.1.max(*x));
        values = (values.0.min(*y), values.1.max(*y));
    }
    let area = SVGBackend::new(file, (1100, 640)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut builder = ChartBuilder::on(&area);
    builder
        .caption(name, ("sans-serif", 22))
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(64);
    // Names of sizes are longer than numbers of bytes.
    let (before, behind) = if plot.sizes.is_empty() { (1.0, 1.01) } else { (0.7, 1.4) };
    let x = (sizes.0 * before..sizes.1 * behind).log_scale().base(2.0);
    let highest = points().max_by(|a, b| a.1.total_cmp(&b.1)).map_or(0.0, |point| point.0);
    // Where lines that rise leave room, or lines that fall.
    let legend = if plot.unit != "us" {
        SeriesLabelPosition::LowerRight
    } else if highest * highest > sizes.0 * sizes.1 {
        SeriesLabelPosition::UpperLeft
    } else {
        SeriesLabelPosition::UpperRight
    };
    macro_rules! chart {
        ($y:expr) => {{
            let mut chart = builder.build_cartesian_2d(x, $y)?;
            chart
                .configure_mesh()
                .x_desc(if plot.sizes.is_empty() { "bytes" } else { "" })
                .y_desc(plot.unit.as_str())
                .x_label_formatter(&|x| plot.label(*x))
                .light_line_style(TRANSPARENT)
                .draw()?;
            for (i, (variant, line)) in plot.ours.iter().enumerate() {
                let color = Palette99::pick(i).to_rgba();
                chart
                    .draw_series(LineSeries::new(line.iter().copied(), color.stroke_width(2)).point_size(3))?
                    .label(variant.as_str())
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
                for ((_, peer), line) in plot.peers.iter().filter(|((of, _), _)| of == variant) {
                    let dashed = DashedLineSeries::new(line.iter().copied(), 6, 4, color.stroke_width(1));
                    chart
                        .draw_series(dashed)?
                        .label(format!("{variant}, {peer}"))
                        .legend(move |(x, y)| PathElement::new([(x, y), (x + 8, y)], color.stroke_width(1)));
                }
            }
            chart
                .configure_series_labels()
                .position(legend.clone())
                .background_style(WHITE.mix(0.85))
                .border_style(BLACK.mix(0.3))
                .draw()?;
        }};
    }
    if plot.unit == "us" {
        let base = if plot.sizes.is_empty() { 10.0 } else { 2.0 };
        chart!((values.0 * 0.9..values.1 * 1.1).log_scale().base(base));
    } else {
        chart!(0.0..values.1 * 1.1);
    }
    area.present()?;
    Ok(())
}
