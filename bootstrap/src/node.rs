//! Which processes are on one node.

/// The name of this node: processes of one job with the same name share memory. Host name and boot id, since containers on one machine may
/// be nodes of their own, and machines may have one name.
pub(crate) fn this_node() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    format!("{host} {}", boot.trim())
}

/// Where each rank is.
#[derive(Debug)]
pub(crate) struct Nodes {
    /// The node of each rank, numbered by their lowest rank.
    pub(crate) of: Vec<u32>,
    /// Names by number.
    pub(crate) names: Vec<String>,
}

impl Nodes {
    pub(crate) fn new(names: &[String]) -> Self {
        let mut numbers = std::collections::HashMap::new();
        let mut nodes = Self {
            of: Vec::with_capacity(names.len()),
            names: Vec::new(),
        };
        for name in names {
            let number = *numbers.entry(name).or_insert_with(|| {
                nodes.names.push(name.clone());
                nodes.names.len() as u32 - 1
            });
            nodes.of.push(number);
        }
        nodes
    }

    /// How many ranks of the same node come before it.
    pub(crate) fn local_rank(&self, rank: u32) -> u32 {
        let node = self.of[rank as usize];
        self.of[..rank as usize].iter().filter(|n| **n == node).count() as u32
    }

    pub(crate) fn local_size(&self, rank: u32) -> u32 {
        let node = self.of[rank as usize];
        self.of.iter().filter(|n| **n == node).count() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_numbered_by_their_first_rank() {
        let nodes = Nodes::new(&["b", "a", "b", "b", "a"].map(String::from));
        assert_eq!(nodes.of, [0, 1, 0, 0, 1]);
        assert_eq!(nodes.names, ["b", "a"]);
        assert_eq!((0..5).map(|r| nodes.local_rank(r)).collect::<Vec<_>>(), [0, 0, 1, 2, 1]);
        assert_eq!((nodes.local_size(0), nodes.local_size(4)), (3, 2));
    }
}
