//! Where a thread stands in its block and in the grid. Names as in Rust-CUDA's `cuda_std::thread`.

use crate::arch;

macro_rules! registers {
    ($($(#[doc = $doc:literal])* $name:ident = $source:ident[$i:literal];)*) => { $(
        $(#[doc = $doc])*
        #[inline(always)]
        #[track_caller]
        pub fn $name() -> u32 { arch::$source()[$i] }
    )* };
}

registers! {
    /// The thread's index in its block, x (`%tid.x`).
    thread_idx_x = thread_idx[0];
    /// The thread's index in its block, y (`%tid.y`).
    thread_idx_y = thread_idx[1];
    /// The thread's index in its block, z (`%tid.z`).
    thread_idx_z = thread_idx[2];
    /// The block's index in the grid, x (`%ctaid.x`).
    block_idx_x = block_idx[0];
    /// The block's index in the grid, y (`%ctaid.y`).
    block_idx_y = block_idx[1];
    /// The block's index in the grid, z (`%ctaid.z`).
    block_idx_z = block_idx[2];
    /// Threads of a block along x (`%ntid.x`).
    block_dim_x = block_dim[0];
    /// Threads of a block along y (`%ntid.y`).
    block_dim_y = block_dim[1];
    /// Threads of a block along z (`%ntid.z`).
    block_dim_z = block_dim[2];
    /// Blocks of the grid along x (`%nctaid.x`).
    grid_dim_x = grid_dim[0];
    /// Blocks of the grid along y (`%nctaid.y`).
    grid_dim_y = grid_dim[1];
    /// Blocks of the grid along z (`%nctaid.z`).
    grid_dim_z = grid_dim[2];
}

/// The thread's rank in its block, x fastest: `0..block_size()`.
///
/// ```
/// use shmem::thread;
/// shmem_sim::run(1, 1, 64, || assert!(thread::index() < 64)).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn index() -> u32 {
    let ([x, y, z], [nx, ny, _]) = (arch::thread_idx(), arch::block_dim());
    x + nx * (y + ny * z)
}

/// Threads in a block.
#[inline(always)]
#[track_caller]
pub fn block_size() -> u32 {
    let [x, y, z] = arch::block_dim();
    x * y * z
}

/// The block's rank in the grid, x fastest: `0..grid_size()`.
#[inline(always)]
#[track_caller]
pub fn block_index() -> u32 {
    let ([x, y, z], [nx, ny, _]) = (arch::block_idx(), arch::grid_dim());
    x + nx * (y + ny * z)
}

/// Blocks in the grid.
#[inline(always)]
#[track_caller]
pub fn grid_size() -> u32 {
    let [x, y, z] = arch::grid_dim();
    x * y * z
}
