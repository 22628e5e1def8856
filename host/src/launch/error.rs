//! Why a launch was refused.

use super::Dim3;
use shmem::{BlockBounds, Region};

/// A launch that was refused. Nothing was enqueued, and the World stays usable.
///
/// ```
/// use shmem::prelude::*;
/// use shmem_host::{Backend, Error, LaunchError, World, launch};
///
/// #[kernel]
/// pub fn nothing() {}
///
/// World::builder().pes(1).backend(Backend::Sim).build()?.run(|pe| {
///     let refused = launch!(pe, nothing<<<1, 1025>>>());
///     assert!(matches!(refused, Err(Error::Launch(LaunchError::Block { threads: 1024, .. }))));
///     launch!(pe, nothing<<<1, 1024>>>())
/// })?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// A block without threads, or with more than the device takes.
    #[error(
        "{kernel}: a block of {block} threads was asked for: give 1 to {threads} threads, at most {most} along x, y, z"
    )]
    Block {
        /// The kernel.
        kernel: String,
        /// The block.
        block: Dim3,
        /// Threads that a block may have.
        threads: u32,
        /// Threads along each axis.
        most: Dim3,
    },
    /// Another block than the kernel was compiled for.
    #[error("{kernel}: a block of {block} threads was asked for, the kernel is compiled for {}", bounds_text(*bounds))]
    BlockBounds {
        /// The kernel.
        kernel: String,
        /// The block.
        block: Dim3,
        /// What the kernel's attribute says.
        bounds: BlockBounds,
    },
    /// More threads than there are registers for.
    #[error(
        "{kernel}: a block of {threads} threads was asked for, its registers allow {most}: use smaller blocks, or compile \
         it for them with #[kernel(max_block = {threads})]"
    )]
    Registers {
        /// The kernel.
        kernel: String,
        /// Threads asked for.
        threads: u32,
        /// Threads that fit.
        most: u32,
    },
    /// A kernel that communicates, in a World with PEs that do not reach each other by load and store.
    #[error(
        "{kernel}: PEs {pe} and {peer} do not reach each other's memory by load and store, and there is no transport between \
         them: use GPUs with NVLink or peer access (nvidia-smi topo -p2p r), or a World of PEs that have it"
    )]
    NoTransport {
        /// The kernel.
        kernel: String,
        /// This PE.
        pe: u32,
        /// A PE without a path to it.
        peer: u32,
    },
    /// A block that the kernel's tiles do not divide.
    #[error(
        "{kernel}: a block of {threads} threads was asked for, and the kernel uses tiles of {tile} lanes: give a multiple of \
         {tile}"
    )]
    Tile {
        /// The kernel.
        kernel: String,
        /// Threads asked for.
        threads: u32,
        /// Lanes of its largest SubWarp.
        tile: u32,
    },
    /// Clusters that the grid is not made of, that are too large, or that device or kernel don't have.
    #[error(
        "{kernel}: clusters of {cluster} blocks were asked for in a grid of {grid}: {}",
        cluster_advice(*most)
    )]
    Cluster {
        /// The kernel.
        kernel: String,
        /// Blocks of a cluster.
        cluster: u32,
        /// The grid.
        grid: Dim3,
        /// Blocks that a cluster may have; 1 where device or kernel have no clusters.
        most: u32,
    },
    /// A collective launch on a stream of which there are too many: each has a barrier for the grids of its kernels.
    #[error(
        "{kernel}: a collective launch on stream {stream} of a PE was asked for, and only the first {most} streams take them: \
         drop streams that are no longer used"
    )]
    TooManyStreams {
        /// The kernel.
        kernel: String,
        /// The stream, as the PE numbers them.
        stream: usize,
        /// How many there may be.
        most: usize,
    },
    /// A grid without blocks, or with more than the device takes.
    #[error("{kernel}: a grid of {grid} blocks was asked for: give at least 1 and at most {most} along x, y, z")]
    Grid {
        /// The kernel.
        kernel: String,
        /// The grid.
        grid: Dim3,
        /// Blocks along each axis.
        most: Dim3,
    },
    /// A grid of more blocks than the device counts. Only the simulator has such a limit.
    #[error("{kernel}: a grid of {asked} blocks was asked for: give at most {most} in all")]
    Blocks {
        /// The kernel.
        kernel: String,
        /// Blocks asked for.
        asked: u64,
        /// Blocks that there may be.
        most: u64,
    },
    /// More shared memory than a block may have.
    #[error(
        "{kernel}: {asked} bytes of dynamic shared memory were asked for; with the {declared} that the kernel declares, a \
         block may have {most}"
    )]
    SharedMemory {
        /// The kernel.
        kernel: String,
        /// Bytes that the launch asks for.
        asked: u32,
        /// Bytes that the kernel declares.
        declared: u32,
        /// Bytes that a block may have in all.
        most: u32,
    },
    /// A collective launch with more blocks than can be resident at once.
    #[error(
        "{kernel}: a collective launch of {asked} blocks was asked for, at most {most} of {threads} threads and \
         {shared_bytes} bytes of dynamic shared memory are resident at once on PE {pe}: {}",
        grid_advice(*most)
    )]
    GridTooLarge {
        /// The kernel.
        kernel: String,
        /// The PE.
        pe: u32,
        /// Blocks asked for.
        asked: u64,
        /// Blocks that fit.
        most: u32,
        /// Threads of a block.
        threads: u32,
        /// Dynamic shared memory of a block.
        shared_bytes: u32,
    },
    /// A collective kernel in a plain launch.
    #[error("{kernel} is a collective kernel: launch it on every PE with collective_launch!")]
    NeedsCollectiveLaunch {
        /// The kernel.
        kernel: String,
    },
    /// An argument that names memory or a team which this PE has not got.
    #[error(
        "{kernel}: an argument names {}, and {}",
        region_text(*region),
        stale_text(*pe, *region, *why)
    )]
    StaleHandle {
        /// The kernel.
        kernel: String,
        /// The PE.
        pe: u32,
        /// The memory, or the team.
        region: Region,
        /// What became of it.
        why: Stale,
    },
}

/// What became of the memory or the team that a handle names.
///
/// ```
/// use shmem::prelude::*;
/// use shmem_host::{Backend, Error, LaunchError, Stale, World, launch};
///
/// #[kernel]
/// pub fn clear(x: SymSlice<u32>) {
///     x.store(thread::index(), 0);
/// }
///
/// World::builder().pes(1).backend(Backend::Sim).build()?.run(|pe| {
///     let old = pe.alloc::<u32>(32)?;
///     let handle = old.handle();
///     drop(old);
///     let new = pe.alloc::<u32>(32)?; // at the same place
///     let refused = launch!(pe, clear<<<1, 32>>>(handle));
///     assert!(matches!(
///         refused,
///         Err(Error::Launch(LaunchError::StaleHandle { why: Stale::Reused { .. }, .. }))
///     ));
///     launch!(pe, clear<<<1, 32>>>(&new))
/// })?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stale {
    /// Its buffer or team was dropped, and nothing is there now.
    Dropped,
    /// Its buffer was dropped, and a newer one is there.
    Reused {
        /// The newer buffer.
        by: Region,
    },
    /// It is a buffer of another PE alone, or another PE's handle of a team.
    OtherPe {
        /// That PE.
        pe: u32,
    },
    /// It is no buffer and no team of this World.
    Foreign,
    /// It goes beyond its buffer.
    Beyond {
        /// The buffer.
        buffer: Region,
    },
}

fn stale_text(pe: u32, region: Region, why: Stale) -> String {
    if let Region::Team { .. } = region {
        return match why {
            Stale::Dropped => format!("PE {pe} has dropped that team: keep it until the launch"),
            Stale::OtherPe { pe: other } => {
                format!(
                    "that is PE {other}'s handle of it: each member passes its own, and others pass none (Membership)"
                )
            }
            _ => format!("PE {pe} has had no such team: it belongs to another World, or no host made the handle"),
        };
    }
    match why {
        Stale::Dropped => format!("PE {pe} has dropped that buffer: keep it until the launch"),
        Stale::Reused { by } => format!(
            "PE {pe} has dropped that buffer; in its place lies a newer one, {}: take the handle of that, or keep the old \
             buffer until the launch",
            region_text(by)
        ),
        Stale::OtherPe { pe: other } => {
            format!(
                "that is a buffer of PE {other} alone, not of PE {pe}: PEs reach each other's copies of pe.alloc only"
            )
        }
        Stale::Foreign => {
            format!("PE {pe} has had no such buffer: it belongs to another World, or no host made the handle")
        }
        Stale::Beyond { buffer } => format!("the buffer is {} only", region_text(buffer)),
    }
}

fn cluster_advice(most: u32) -> String {
    match most {
        1 => "a cluster has one block on this device, or in this image; more need compute capability 9.0 and a kernel compiled \
              for sm_90 (SHMEM_ARCH)"
            .to_owned(),
        most => format!("give 1 to {most} blocks, so many that they divide the grid along x"),
    }
}

fn grid_advice(most: u32) -> String {
    match most {
        0 => "use smaller blocks, or fewer PEs on one device".to_owned(),
        most => format!("launch {most}, and let each do more (pe.max_collective_grid tells the number)"),
    }
}

fn bounds_text(bounds: BlockBounds) -> String {
    match bounds {
        BlockBounds::Any => "any block".to_owned(),
        BlockBounds::AtMost(most) => format!("at most {most} threads"),
        BlockBounds::Exactly(shape) => format!("blocks of {} only", Dim3::from(shape)),
    }
}

fn region_text(region: Region) -> String {
    match region {
        Region::Symmetric { offset, bytes, serial } => format!(
            "{bytes} bytes at offset {offset:#x} of the symmetric heap (allocation {})",
            serial.number()
        ),
        Region::Global { address, bytes, serial } => {
            format!(
                "{bytes} bytes at device address {address:#x} (buffer {})",
                serial.number()
            )
        }
        Region::Team { serial } => format!("a team (number {})", serial.number()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_that_is_too_large_comes_with_advice_that_can_be_followed() {
        let text = |most| {
            let kernel = "ring".to_owned();
            LaunchError::GridTooLarge {
                kernel,
                pe: 3,
                asked: 300,
                most,
                threads: 1024,
                shared_bytes: 64,
            }
            .to_string()
        };
        assert!(text(264).contains("300 blocks") && text(264).contains("on PE 3: launch 264"));
        assert!(text(0).ends_with("use smaller blocks, or fewer PEs on one device"));
    }
}
