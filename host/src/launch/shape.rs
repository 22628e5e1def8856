//! What stands between `<<<` and `>>>`.

use crate::Stream;
use crate::backend::{Shape, StreamId};
use std::fmt;

/// A shape in up to three dimensions: blocks of a grid, threads of a block.
///
/// ```
/// use shmem_host::Dim3;
///
/// assert_eq!(Dim3::from(4), Dim3::new(4, 1, 1));
/// assert_eq!(Dim3::from((4, 2)), Dim3::new(4, 2, 1));
/// assert_eq!(Dim3::from((4, 2, 3)).count(), 24);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dim3 {
    /// Along x, the fastest.
    pub x: u32,
    /// Along y.
    pub y: u32,
    /// Along z.
    pub z: u32,
}

impl Dim3 {
    /// A shape.
    pub const fn new(x: u32, y: u32, z: u32) -> Self {
        Self { x, y, z }
    }

    /// How many there are, or the largest number where 64 bits can't count them.
    pub const fn count(self) -> u64 {
        (self.x as u64 * self.y as u64).saturating_mul(self.z as u64)
    }

    pub(super) fn within(self, most: [u32; 3]) -> bool {
        self.axes().iter().zip(most).all(|(n, most)| *n <= most)
    }

    pub(super) const fn axes(self) -> [u32; 3] {
        [self.x, self.y, self.z]
    }
}

impl From<u32> for Dim3 {
    fn from(x: u32) -> Self {
        Self::new(x, 1, 1)
    }
}

impl From<(u32, u32)> for Dim3 {
    fn from((x, y): (u32, u32)) -> Self {
        Self::new(x, y, 1)
    }
}

impl From<(u32, u32, u32)> for Dim3 {
    fn from((x, y, z): (u32, u32, u32)) -> Self {
        Self::new(x, y, z)
    }
}

impl From<[u32; 3]> for Dim3 {
    fn from([x, y, z]: [u32; 3]) -> Self {
        Self::new(x, y, z)
    }
}

impl fmt::Display for Dim3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {} x {}", self.x, self.y, self.z)
    }
}

/// How to launch a kernel: what stands between `<<<` and `>>>`.
///
/// ```
/// use shmem::prelude::*;
/// use shmem_host::{Backend, LaunchConfig, World};
///
/// #[kernel]
/// pub fn fill(data: SymSlice<u32>, value: u32) {
///     data.store(thread::index(), value);
/// }
///
/// World::builder().pes(1).backend(Backend::Sim).build()?.run(|pe| {
///     let data = pe.alloc::<u32>(32)?;
///     pe.launch(LaunchConfig::new(1, 32), fill(&data, 7))?; // the same as launch!(pe, fill<<<1, 32>>>(&data, 7))?
///     assert_eq!(data.to_vec()?, [7; 32]);
///     Ok::<(), shmem_host::Error>(())
/// })?;
/// # Ok::<(), shmem_host::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct LaunchConfig<'a> {
    pub(super) grid: Dim3,
    pub(super) block: Dim3,
    pub(super) shared_bytes: u32,
    pub(super) cluster: u32,
    pub(super) stream: Option<&'a Stream>,
    pub(super) collective: bool,
    pub(super) resident: bool,
}

impl<'a> LaunchConfig<'a> {
    /// A plain launch of `grid` blocks of `block` threads on the PE's default stream.
    pub fn new(grid: impl Into<Dim3>, block: impl Into<Dim3>) -> Self {
        Self {
            grid: grid.into(),
            block: block.into(),
            shared_bytes: 0,
            cluster: 1,
            stream: None,
            collective: false,
            resident: false,
        }
    }

    pub(crate) fn stream_id(&self) -> StreamId {
        self.stream.map_or(StreamId(0), Stream::id)
    }

    /// What it asks of a multiprocessor.
    pub(super) const fn resources(&self, threads: u32) -> Shape {
        Shape {
            threads,
            shared_bytes: self.shared_bytes,
            cluster: self.cluster,
        }
    }

    /// Gives each block this many bytes of dynamic shared memory.
    pub const fn shared_bytes(mut self, bytes: u32) -> Self {
        self.shared_bytes = bytes;
        self
    }

    /// Launches the grid in clusters of this many blocks, neighbours along x, which `Cluster` names in the kernel. A cluster has
    /// at most 8 blocks and divides the grid along x. More than one block needs a device of compute capability 9.0, and a
    /// kernel that was compiled for it.
    ///
    /// ```
    /// use shmem::prelude::*;
    /// use shmem_host::{Backend, LaunchConfig, World};
    ///
    /// #[kernel]
    /// pub fn ranks(out: Global<u32>) {
    ///     out.store(Block.id() * Block.size() + Block.rank(), Cluster.rank());
    /// }
    ///
    /// World::builder().pes(1).backend(Backend::Sim).build()?.run(|pe| {
    ///     let out = pe.buffer::<u32>(4)?;
    ///     pe.launch(LaunchConfig::new(4, 1).cluster(2), ranks(&out))?;
    ///     assert_eq!(out.to_vec()?, [0, 1, 0, 1]);
    ///     Ok::<(), shmem_host::Error>(())
    /// })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    pub const fn cluster(mut self, blocks: u32) -> Self {
        self.cluster = blocks;
        self
    }

    /// Launches on this stream.
    pub const fn stream(mut self, stream: &'a Stream) -> Self {
        self.stream = Some(stream);
        self
    }

    /// All blocks are resident at once, as those of a collective launch; but not every PE launches.
    pub(crate) const fn resident(mut self) -> Self {
        self.resident = true;
        self
    }

    /// The device has to see that all blocks are resident at once: one block, or one cluster, is so by itself.
    pub(super) fn cooperative(&self) -> bool {
        (self.collective || self.resident) && self.grid.count() > self.cluster.into()
    }

    /// Makes it a collective launch: every PE launches, and all blocks are resident at once.
    pub const fn collective(mut self) -> Self {
        self.collective = true;
        self
    }
}
