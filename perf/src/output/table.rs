//! Rows for people, printed as they come.

use super::{About, NO_FIGURES, ratio, size};
use crate::peer::PeerRow;
use crate::row::{Row, digits};

pub(super) fn print(about: &About, first: bool, row: &Row, peer: Option<&PeerRow>) {
    if first {
        if about.simulated() {
            println!("{NO_FIGURES}");
        }
        println!("{:20} {:42} {:>8} {:>12} unit", "bench", "variant", "bytes", "value");
    }
    let beside = peer.map_or_else(String::new, |peer| {
        let ratio = ratio(row, &peer.row).map_or_else(String::new, |ratio| format!(", ours/theirs {ratio:.2}"));
        format!("  {} {}{ratio}", peer.peer, peer.row.text())
    });
    let Row {
        bench, variant, unit, ..
    } = row;
    let figure = row.value.map_or_else(String::new, digits);
    println!(
        "{bench:20} {variant:42} {:>8} {figure:>12} {unit:9}{beside}",
        size(row.bytes)
    );
}
