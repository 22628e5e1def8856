//! A line of results.

use serde::{Deserialize, Serialize};

/// Unit of a row of the simulator, which has no figure.
pub(crate) const SIMULATED: &str = "simulated";

/// One line of results, with the columns of the peer's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// What is measured, as the peer's suite names it.
    pub(crate) bench: String,
    /// Call, scope and shape.
    pub(crate) variant: String,
    /// Bytes of one transfer; of a collective, what one call is given: for each destination of alltoall, for each PE's part
    /// of fcollect and `reduce_scatter`.
    pub(crate) bytes: u64,
    /// The figure; NaN where the data came out wrong. None on the simulator.
    pub(crate) value: Option<f64>,
    /// Its unit.
    pub(crate) unit: String,
}

impl Row {
    /// Whether both are figures of the same thing.
    pub(crate) fn is(&self, other: &Self) -> bool {
        (&self.bench, &self.variant, self.bytes) == (&other.bench, &other.variant, other.bytes)
    }

    /// The figure in a row, six digits of it; nothing where there is none.
    pub(crate) fn text(&self) -> String {
        self.value.map_or_else(String::new, digits)
    }
}

/// Six significant digits.
pub(crate) fn digits(x: f64) -> String {
    if x == 0.0 || !x.is_finite() {
        return if x.is_nan() { "nan".to_owned() } else { x.to_string() };
    }
    let before = (x.abs().log10().floor() as i32 + 1).clamp(-9, 6);
    let text = format!("{x:.*}", (6 - before) as usize);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}
