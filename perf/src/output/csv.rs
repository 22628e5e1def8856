//! Rows as CSV, with the peer's columns and, where there are peers, theirs beside it.

use super::{About, NO_FIGURES, ratio};
use crate::peer::PeerRow;
use crate::row::{Row, digits};

/// The row's line; before the first one, the header, and what is said of the simulator.
pub(super) fn text(about: &About, first: bool, row: &Row, peer: Option<&PeerRow>, with_peers: bool) -> String {
    let of = |text: &dyn Fn(&PeerRow) -> String| peer.map_or_else(String::new, text);
    // As many of the columns as there are.
    let columns = if with_peers { 8 } else { 5 };
    let header = [
        "bench",
        "variant",
        "bytes",
        "value",
        "unit",
        "peer",
        "peer_value",
        "ratio",
    ];
    let fields = [
        row.bench.clone(),
        row.variant.clone(),
        row.bytes.to_string(),
        row.text(),
        row.unit.clone(),
        of(&|peer| peer.peer.clone()),
        of(&|peer| peer.row.text()),
        of(&|peer| ratio(row, &peer.row).map_or_else(String::new, digits)),
    ];
    let mut writer = csv::Writer::from_writer(vec![]);
    let mut write = |fields: &[&str]| writer.write_record(fields).expect("a vector takes every record");
    if first {
        write(&header[..columns]);
    }
    write(&fields.each_ref().map(String::as_str)[..columns]);
    let lines = writer.into_inner().expect("a vector takes every record");
    let note = if first && about.simulated() {
        format!("# {NO_FIGURES}\n")
    } else {
        String::new()
    };
    note + &String::from_utf8_lossy(&lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(value: Option<f64>) -> Row {
        Row {
            bench: "barrier".to_owned(),
            variant: "barrier_all_block".to_owned(),
            bytes: 0,
            value,
            unit: "us".to_owned(),
        }
    }

    #[test]
    fn ratios_stand_beside_the_figures() {
        let about = About {
            backend: "cuda",
            pes: 2,
        };
        let peer = PeerRow {
            peer: "nvshmem".to_owned(),
            row: row(Some(5.0)),
        };
        let text = text(&about, true, &row(Some(1.25)), Some(&peer), true);
        let expected = "bench,variant,bytes,value,unit,peer,peer_value,ratio\nbarrier,barrier_all_block,0,1.25,us,nvshmem,5,0.25\n";
        assert_eq!(text, expected);
        assert_eq!(
            super::text(&about, false, &row(Some(f64::NAN)), None, false),
            "barrier,barrier_all_block,0,nan,us\n"
        );
    }

    #[test]
    fn figures_have_six_digits() {
        for (x, expected) in [
            (0.0, "0"),
            (374.123_456, "374.123"),
            (1_234_567.8, "1234568"),
            (0.012_345_678_9, "0.0123457"),
            (9.999_999_9, "10"),
            (5.0, "5"),
        ] {
            assert_eq!(digits(x), expected);
        }
    }
}
