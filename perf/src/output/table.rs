//! Rows for people, printed as they come.

use super::{About, NO_FIGURES, ratio};
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

/// Bytes in units of 1024, where they are whole.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        0 => String::new(),
        _ if bytes.is_multiple_of(1 << 30) => format!("{}G", bytes >> 30),
        _ if bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{}K", bytes >> 10),
        _ => bytes.to_string(),
    }
}
