//! What carries operations from one PE to another.

use crate::config::SimError;
use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;

/// What carries operations between PEs: each allows other orders.
///
/// | path | operations of one context to one PE | quiet |
/// |---|---|---|
/// | `LoadStore` | in any order that fences allow | all PEs see them |
/// | `QueuePairs` | in the order of issue | acknowledged: later operations to that PE come behind them |
/// | `Proxy` | in any order that fences allow | as `QueuePairs` |
/// | `Ibgda` | as `QueuePairs`, by emulated adapters | as `QueuePairs` |
///
/// The first three are models of what a path may do. Over `Ibgda` lanes run the code that drives network adapters on GPUs,
/// and adapters are emulated down to each entry of their queues; the order of accesses is not checked there.
///
/// ```
/// assert_eq!("queue-pairs".parse(), Ok(shmem_sim::Path::QueuePairs));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Path {
    /// Loads and stores over `NVLink`.
    #[default]
    LoadStore,
    /// A NIC that the GPU drives (IBGDA): one queue pair for each context and PE.
    QueuePairs,
    /// A NIC that a host thread drives.
    Proxy,
    /// Emulated network adapters, which the kernel's own entries and doorbells drive. Where no
    /// [`node_pes`](crate::Config::node_pes) says how many PEs a node has, they carry everything, also from a PE to itself.
    Ibgda,
}

const VARIABLE: &str = "SHMEM_SIM_PATH";

/// What is no name of a [`Path`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no path: there are load-store, queue-pairs, proxy and ibgda")]
pub struct NoPath(String);

impl Path {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::LoadStore, Self::QueuePairs, Self::Proxy, Self::Ibgda];
    /// Those that are models, and whose order of accesses is checked.
    pub const MODELS: [Self; 3] = [Self::LoadStore, Self::QueuePairs, Self::Proxy];
    const NAMES: [&'static str; 4] = ["load-store", "queue-pairs", "proxy", "ibgda"];

    /// Quiet only waits for acknowledgements.
    pub(crate) fn only_acknowledges(self) -> bool {
        self != Self::LoadStore
    }

    /// What `SHMEM_SIM_PATH` holds, if it is set.
    pub(crate) fn from_env() -> Result<Option<Self>, SimError> {
        Self::from_value(std::env::var_os(VARIABLE))
    }

    fn from_value(value: Option<OsString>) -> Result<Option<Self>, SimError> {
        let Some(value) = value.filter(|value| !value.is_empty()) else {
            return Ok(None);
        };
        match value.to_string_lossy().parse() {
            Ok(path) => Ok(Some(path)),
            Err(NoPath(value)) => Err(SimError::Environment {
                variable: VARIABLE,
                value,
                wanted: "load-store, queue-pairs, proxy or ibgda",
            }),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES[*self as usize])
    }
}

impl FromStr for Path {
    type Err = NoPath;

    fn from_str(name: &str) -> Result<Self, NoPath> {
        Self::ALL
            .into_iter()
            .find(|path| path.to_string() == name)
            .ok_or_else(|| NoPath(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt as _;

    #[test]
    fn the_variable_is_a_path_or_refused() {
        let read = |bytes: &[u8]| Path::from_value(Some(OsString::from_vec(bytes.to_vec())));
        assert_eq!(Path::from_value(None).unwrap(), None);
        assert_eq!(read(b"").unwrap(), None);
        assert_eq!(read(b"ibgda").unwrap(), Some(Path::Ibgda));
        for wrong in [&b"IBGDA"[..], b"ibgda ", b"ibgda\xff"] {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.contains("queue-pairs, proxy or ibgda"), "{error}");
        }
    }
}
