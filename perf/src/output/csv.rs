//! Rows as CSV, with the peer's columns and, where there are peers, theirs beside it.

use super::{About, NO_FIGURES, ratio};
use crate::peer::PeerRow;
use crate::row::{Row, digits};

/// The row's line; before the first one, the header, and what is said of the simulator.
pub(super) fn text(about: &About, first: bool, row: &Row, peer: Option<&PeerRow>, with_peers: bool) -> String {
    let mut lines = String::new();
    if first {
        if about.simulated() {
            lines += &format!("# {NO_FIGURES}\n");
        }
        lines += "bench,variant,bytes,value,unit";
        lines += if with_peers { ",peer,peer_value,ratio\n" } else { "\n" };
    }
    let mut fields = vec![
        row.bench.clone(),
        row.variant.clone(),
        row.bytes.to_string(),
        row.text(),
        row.unit.clone(),
    ];
    if with_peers {
        let of = |text: &dyn Fn(&PeerRow) -> String| peer.map_or_else(String::new, text);
        fields.push(of(&|peer| peer.peer.clone()));
        fields.push(of(&|peer| peer.row.text()));
        fields.push(of(&|peer| ratio(row, &peer.row).map_or_else(String::new, digits)));
    }
    let mut writer = csv::Writer::from_writer(vec![]);
    // A vector takes every write.
    let written = writer.write_record(&fields).map_err(|error| error.to_string());
    let bytes = writer.into_inner().map_err(|error| error.to_string());
    match written.and(bytes) {
        Ok(bytes) => lines += &String::from_utf8_lossy(&bytes),
        Err(error) => lines += &format!("# {error}\n"),
    }
    lines
}
