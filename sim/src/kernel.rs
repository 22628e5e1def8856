//! A kernel as it is handed to the simulator.

use crate::failure::Failure;
use std::fmt::{self, Write as _};
use std::sync::Arc;

/// Threads that a block may have on every GPU.
const MAX_BLOCK: u32 = 1024;
/// Blocks that a cluster may have on every GPU that has clusters.
const MAX_CLUSTER: u32 = 8;

/// What one lane of a kernel does.
pub type LaneBody = dyn Fn() + Send + Sync;

/// One launch of a kernel on one PE.
#[derive(Clone)]
pub struct KernelJob {
    /// The kernel's name, for reports.
    pub name: &'static str,
    /// Tells the instances of a generic kernel apart, which have one name and place. Empty where nothing has to.
    pub symbol: &'static str,
    /// File and line of the kernel.
    pub place: (&'static str, u32),
    /// Blocks in the grid.
    pub grid: [u32; 3],
    /// Threads in a block, at most 1024 of them.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared_bytes: usize,
    /// Blocks in a cluster, at most 8: neighbours along x, whose number in the grid it divides.
    pub cluster: u32,
    /// Starts only when every PE has launched it, with all its blocks resident.
    pub collective: bool,
    /// Run by every lane.
    pub lane: Arc<LaneBody>,
}

impl fmt::Debug for KernelJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelJob")
            .field("kernel", &self.kernel())
            .field("collective", &self.collective)
            .finish_non_exhaustive()
    }
}

/// A kernel's name and size: a job without what its lanes do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    pub(crate) name: &'static str,
    pub(crate) symbol: &'static str,
    pub(crate) place: (&'static str, u32),
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: usize,
    pub(crate) cluster: u32,
}

impl KernelJob {
    pub(crate) fn kernel(&self) -> Kernel {
        let Self {
            name,
            symbol,
            place,
            grid,
            block,
            shared_bytes,
            cluster,
            ..
        } = *self;
        Kernel {
            name,
            symbol,
            place,
            grid,
            block,
            shared_bytes,
            cluster,
        }
    }
}

impl Kernel {
    /// Threads of a block.
    pub(crate) fn threads(&self) -> u32 {
        self.block.iter().product()
    }

    /// Blocks of the grid.
    pub(crate) fn blocks(&self) -> u32 {
        self.grid.iter().product()
    }

    pub(crate) fn check(&self) -> Result<(), Failure> {
        let count = |size: [u32; 3]| size.iter().map(|&n| u128::from(n)).product::<u128>();
        let allowed = |n: u128, most: u32| (1..=u128::from(most)).contains(&n);
        if allowed(count(self.grid), u32::MAX) && allowed(count(self.block), MAX_BLOCK) {
            return self.check_cluster();
        }
        Err(Failure::Launch {
            report: format!(
                "kernel {self} can't be launched: a grid has 1 to {} blocks, a block 1 to {MAX_BLOCK} threads",
                u32::MAX
            ),
        })
    }

    fn check_cluster(&self) -> Result<(), Failure> {
        let Self { cluster, grid, .. } = *self;
        if (1..=MAX_CLUSTER).contains(&cluster) && grid[0].is_multiple_of(cluster) {
            return Ok(());
        }
        Err(Failure::Launch {
            report: format!(
                "kernel {self} can't be launched in clusters of {cluster} blocks: a cluster has 1 to {MAX_CLUSTER}, and \
                 divides the grid along x"
            ),
        })
    }

    /// Whether PEs that launch these two together launch the same kernel.
    pub(crate) fn matches(&self, other: &Self) -> bool {
        let key = |kernel: &Self| {
            let shape = (kernel.grid, kernel.block, kernel.shared_bytes, kernel.cluster);
            (kernel.name, kernel.symbol, kernel.place, shape)
        };
        key(self) == key(other)
    }

    /// As [`Display`](fmt::Display), with what shows how it differs from another one.
    pub(crate) fn beside(&self, other: &Self) -> String {
        let mut text = self.to_string();
        if self.shared_bytes != other.shared_bytes {
            let _ = write!(text, " with {} bytes of dynamic shared memory", self.shared_bytes);
        }
        if self.cluster != other.cluster {
            let _ = write!(text, " in clusters of {} blocks", self.cluster);
        }
        if self.symbol != other.symbol && (self.name, self.place) == (other.name, other.place) {
            let _ = write!(text, " as {}", self.symbol);
        }
        text
    }
}

/// As it would be launched: `name<<<grid, block>>> (file:line)`.
impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |[x, y, z]: [u32; 3]| {
            if y == 1 && z == 1 {
                x.to_string()
            } else {
                format!("({x}, {y}, {z})")
            }
        };
        let (file, line) = self.place;
        write!(
            f,
            "{}<<<{}, {}>>> ({file}:{line})",
            self.name,
            size(self.grid),
            size(self.block)
        )
    }
}

/// Coordinates of the i-th element of a box, x fastest.
pub(crate) fn unrank(i: u32, [x, y, _]: [u32; 3]) -> [u32; 3] {
    [i % x, i / x % y, i / x / y]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(grid: [u32; 3], block: [u32; 3]) -> Kernel {
        Kernel {
            name: "k",
            symbol: "",
            place: ("a.rs", 3),
            grid,
            block,
            shared_bytes: 0,
            cluster: 1,
        }
    }

    #[test]
    fn sizes_have_limits() {
        assert!(kernel([1; 3], [1024, 1, 1]).check().is_ok());
        assert!(kernel([u32::MAX, 1, 1], [1; 3]).check().is_ok());
        for (grid, block) in [
            ([0, 1, 1], [1; 3]),
            ([1; 3], [1025, 1, 1]),
            ([u32::MAX; 3], [1; 3]),
            ([1; 3], [u32::MAX; 3]),
        ] {
            let text = kernel(grid, block).check().unwrap_err().to_string();
            assert!(text.contains("k<<<") && text.contains("a.rs:3"), "{text}");
        }
    }

    #[test]
    fn x_runs_fastest() {
        assert_eq!(unrank(0, [2, 3, 4]), [0, 0, 0]);
        assert_eq!(unrank(5, [2, 3, 4]), [1, 2, 0]);
        assert_eq!(unrank(23, [2, 3, 4]), [1, 2, 3]);
    }
}
