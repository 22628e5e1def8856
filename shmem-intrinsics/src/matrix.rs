//! Products of matrices of halves by the tensor cores: a whole warp makes each call.
//!
//! | call | PTX |
//! |---|---|
//! | [`mma`] | `mma.sync.m16n8k16`, f32 += bf16 * bf16 or f16 * f16 |
//! | [`ldmatrix`], [`ldmatrix_trans`] | `ldmatrix.m8n8.x1`, `.x2`, `.x4`, `.trans` |
//! | [`Strip`], [`Panel`] | `cp.async` into shared memory, `ldmatrix` out of it, without bank conflicts |
//! | [`block::multiply`] | a tile of 128 x 256 by a block, from all of these |
//!
//! # Fragments
//!
//! The lanes hold a matrix among them, each the same few elements of it, two halves in a word. With `g = lane / 4` and
//! `t = lane % 4`:
//!
//! | matrix | of a lane | word or number i |
//! |---|---|---|
//! | A, 16 x 16 | `[T; 4]` | row `g + 8 * (i % 2)`, columns `2 * t + 8 * (i / 2)` and the next |
//! | B, 16 x 8 | `[T; 2]` | rows `2 * t + 8 * i` and the next, column `g` |
//! | C and D, 16 x 8 | `[f32; 4]` | row `g + 8 * (i / 2)`, column `2 * t + i % 2` ([`place`]) |
//!
//! A program that multiplies by a matrix B stored by its columns, as weights are, reads rows of its transpose:
//! [`Panel::b`]. CUDA's `nvcuda::wmma` does the same with fragments whose layout it hides.

use crate::arch::{self, Space, Span};
use crate::async_copy::DeviceMemory;
use crate::fault::{FaultKind, check};
use crate::tile::{Block, InBlock};
use crate::vector::{Bf16x2, Bf16x8, F16x2, F16x8};
use crate::{Index, Pod, Shared, warp};
use core::marker::PhantomData;

pub mod block;

mod sealed {
    pub trait Product {
        fn mma(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4];
        /// # Safety
        /// That of the functions of `arch`.
        unsafe fn begin_products(sums: &mut [[f32; 4]; 32], a: u64, b: u64);
    }
}

/// Two halves of a matrix that lie side by side: [`Bf16x2`], [`F16x2`].
pub trait Halves: Pod + sealed::Product {
    /// 16 bytes of a row: [`Bf16x8`], [`F16x8`].
    type Line: Pod;
}

impl Halves for Bf16x2 {
    type Line = Bf16x8;
}
impl sealed::Product for Bf16x2 {
    #[inline(always)]
    #[track_caller]
    fn mma(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
        arch::mma_bf16(a, b, c)
    }
    #[inline(always)]
    #[track_caller]
    unsafe fn begin_products(sums: &mut [[f32; 4]; 32], a: u64, b: u64) {
        // SAFETY: the caller's promise.
        unsafe { arch::begin_products_bf16(sums, a, b) }
    }
}

impl Halves for F16x2 {
    type Line = F16x8;
}
impl sealed::Product for F16x2 {
    #[inline(always)]
    #[track_caller]
    fn mma(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
        arch::mma_f16(a, b, c)
    }
    #[inline(always)]
    #[track_caller]
    unsafe fn begin_products(sums: &mut [[f32; 4]; 32], a: u64, b: u64) {
        // SAFETY: the caller's promise.
        unsafe { arch::begin_products_f16(sums, a, b) }
    }
}

/// a * b + c, of 16 x 16, 16 x 8 and 16 x 8 elements; the [module](crate::matrix) says which of them a lane has. All 32
/// lanes call it.
///
/// Products are exact; sums are f32. In which order, and with how many bits in between, is the GPU's business: results
/// differ in the last bits between architectures and from the simulator, which rounds once. PTX
/// `mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32`.
///
/// ```
/// use shmem::matrix;
/// use shmem::prelude::*;
/// use shmem::vector::Bf16x2;
/// shmem_sim::run(1, 1, 32, || {
///     // A has row numbers, B ones: each element of D is 16 times its row, and 1 that was there.
///     let row = |r: u32| Bf16x2::from_f32([r as f32; 2]);
///     let g = warp::lane_id() / 4;
///     let a = [row(g), row(g + 8), row(g), row(g + 8)];
///     let d = matrix::mma(a, [Bf16x2::from_f32([1.0; 2]); 2], [1.0; 4]);
///     assert_eq!(d[0], 16.0 * g as f32 + 1.0);
///     assert_eq!(d[3], 16.0 * (g + 8) as f32 + 1.0);
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn mma<T: Halves>(a: [T; 4], b: [T; 2], c: [f32; 4]) -> [f32; 4] {
    T::mma(words(a), words(b), c)
}

/// Row and column of a lane's number i of a 16 x 8 product, 0..4.
///
/// ```
/// assert_eq!(shmem::matrix::place(5, 3), (9, 3));
/// ```
#[inline(always)]
pub const fn place(lane: u32, i: u32) -> (u32, u32) {
    (lane / 4 + 8 * (i / 2), lane % 4 * 2 + i % 2)
}

/// Loads N matrices of 8 x 8 halves from shared memory: 1, 2 or 4. `line` of lane `8 * i + r` is row r of matrix i, an
/// index into `lines`; lanes beyond `8 * N` name any line. Word i of a lane is in row `lane / 4` of matrix i, columns
/// `lane % 4 * 2` and the next. All 32 lanes call it; what others wrote there is theirs to sync.
///
/// PTX `ldmatrix.sync.aligned.m8n8.xN.shared.b16`. Faults with `FaultKind::Index` where a line is outside.
///
/// ```
/// use shmem::matrix;
/// use shmem::prelude::*;
/// use shmem::vector::{Bf16x2, Bf16x8};
/// shmem_sim::run(1, 1, 32, || {
///     shared!(lines: [Bf16x8; 8]);
///     let lane = warp::lane_id();
///     if lane < 8 {
///         lines.store(lane, Bf16x8::from_f32(core::array::from_fn(|i| (8 * lane + i as u32) as f32)));
///     }
///     Warp.sync();
///     let [word] = matrix::ldmatrix::<1, Bf16x2>(lines, lane % 8);
///     assert_eq!(word.f32(), [2 * lane, 2 * lane + 1].map(|x| x as f32));
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn ldmatrix<const N: usize, T: Halves>(lines: Shared<T::Line>, line: impl Index) -> [T; N] {
    const { assert!(matches!(N, 1 | 2 | 4), "ldmatrix loads 1, 2 or 4 matrices") };
    // SAFETY: element `line` of the array.
    halves(unsafe { arch::ldmatrix(lines.position(line)) })
}

/// As [`ldmatrix`], each matrix transposed: word i of a lane is in rows `lane % 4 * 2` and the next of matrix i, column
/// `lane / 4`.
///
/// PTX `ldmatrix.sync.aligned.m8n8.xN.trans.shared.b16`. Faults with `FaultKind::Index` where a line is outside.
///
/// ```
/// use shmem::matrix;
/// use shmem::prelude::*;
/// use shmem::vector::{F16x2, F16x8};
/// shmem_sim::run(1, 1, 32, || {
///     shared!(lines: [F16x8; 8]);
///     let lane = warp::lane_id();
///     if lane < 8 {
///         lines.store(lane, F16x8::from_f32(core::array::from_fn(|i| (8 * lane + i as u32) as f32)));
///     }
///     Warp.sync();
///     let [word] = matrix::ldmatrix_trans::<1, F16x2>(lines, lane % 8);
///     let (row, column) = (lane % 4 * 2, lane / 4);
///     assert_eq!(word.f32(), [8 * row + column, 8 * (row + 1) + column].map(|x| x as f32));
/// }).unwrap();
/// ```
#[inline(always)]
#[track_caller]
pub fn ldmatrix_trans<const N: usize, T: Halves>(lines: Shared<T::Line>, line: impl Index) -> [T; N] {
    const { assert!(matches!(N, 1 | 2 | 4), "ldmatrix loads 1, 2 or 4 matrices") };
    // SAFETY: element `line` of the array.
    halves(unsafe { arch::ldmatrix_trans(lines.position(line)) })
}

/// Lines of a row of a [`Panel`].
const ROW_LINES: u32 = 8;
const LINE_BYTES: u64 = 16;
/// Halves of a row of a [`Panel`]: 128 bytes.
pub const PANEL_COLUMNS: u32 = 64;

/// ROWS whole rows of a matrix in device memory, which [`Panel::copy_async`] takes panels from.
pub struct Strip<T, const ROWS: u32> {
    address: u64,
    /// Bytes from one row to the next.
    stride: u64,
    panels: u32,
    space: Space,
    halves: PhantomData<fn() -> T>,
}

/// ROWS rows of 64 halves in shared memory: what a block multiplies in one step.
///
/// Line c of row r, 16 bytes, lies at place `c ^ (r % 8)` of the row's eight. So eight lines of one column, which an
/// `ldmatrix` reads at once, are in different banks, and so are those of one row. It is the layout that PTX calls the
/// 128-byte swizzle.
///
/// ```
/// use shmem::async_copy::{commit, wait_group};
/// use shmem::matrix::{self, Panel, Strip};
/// use shmem::prelude::*;
/// use shmem::vector::{Bf16x2, Bf16x8};
/// // One warp: 16 rows of x times 16 rows of y, each of 128 halves, gives 16 x 16 numbers.
/// shmem_sim::run(1, 1, 32, || {
///     shared!(lines: [Bf16x8; 2 * 16 * 8]);
///     let matrix = || shmem_sim::symmetric_with::<bf16>(16 * 128, |_, i| bf16::from_f32((i / 128) as f32));
///     let (x, y) = (Strip::<Bf16x2, 16>::new(matrix().cast(), 128), Strip::new(matrix().cast(), 128));
///     let (a, b) = (Panel::<_, 16>::new(lines.chunk(0, 128)), Panel::<_, 16>::new(lines.chunk(1, 128)));
///     let mut c = [[0.0; 4]; 2];
///     for k in 0..x.panels() {
///         a.copy_async::<32, _>(Block, x, k);
///         b.copy_async::<32, _>(Block, y, k);
///         commit();
///         wait_group::<0>();
///         Block.sync();
///         for k in 0..4 {
///             let (a, [b0, b1]) = (a.a(0, k), b.b(0, k));
///             c = [matrix::mma(a, b0, c[0]), matrix::mma(a, b1, c[1])];
///         }
///         Block.sync();
///     }
///     let (row, column) = matrix::place(warp::lane_id(), 3);
///     assert_eq!(c[1][3], (128 * row * (column + 8)) as f32);
/// }).unwrap();
/// ```
pub struct Panel<T, const ROWS: u32> {
    start: u64,
    halves: PhantomData<fn() -> T>,
}

macro_rules! copies { ($($name:ident)*) => { $(
    impl<T, const ROWS: u32> Clone for $name<T, ROWS> {
        #[inline(always)]
        fn clone(&self) -> Self {
            *self
        }
    }
    impl<T, const ROWS: u32> Copy for $name<T, ROWS> {}
)* } }
copies!(Strip Panel);

impl<T, const ROWS: u32> core::fmt::Debug for Strip<T, ROWS> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Strip({:#x}, {ROWS} rows, {} panels)", self.address, self.panels)
    }
}
impl<T, const ROWS: u32> core::fmt::Debug for Panel<T, ROWS> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Panel({:#x}, {ROWS} rows)", self.start)
    }
}

impl<T: Halves, const ROWS: u32> Strip<T, ROWS> {
    /// ROWS rows of `columns` halves each: all of `rows`. `columns` is a multiple of 64. One thread's own.
    ///
    /// Faults with `FaultKind::Length`: halves that `rows` has `a`, ROWS times `columns` in whole panels `b`.
    #[inline(always)]
    #[track_caller]
    pub fn new(rows: impl DeviceMemory<T::Line, Block>, columns: impl Index) -> Self {
        let panels = columns.index() / u64::from(PANEL_COLUMNS);
        let (len, whole) = (rows.__len() * 8, panels * u64::from(ROWS * PANEL_COLUMNS));
        check(
            len == whole && u32::try_from(panels).is_ok(),
            FaultKind::Length,
            len,
            whole,
        );
        let Span { address, space } = rows.__span();
        Self {
            address,
            space,
            stride: columns.index() * 2,
            panels: panels as u32,
            halves: PhantomData,
        }
    }

    /// Panels side by side: columns / 64.
    #[inline(always)]
    pub fn panels(self) -> u32 {
        self.panels
    }

    /// Some of its panels, all rows of them. Faults with `FaultKind::Range` where they are not all inside.
    ///
    /// ```
    /// use shmem::matrix::Strip;
    /// use shmem::prelude::*;
    /// use shmem::vector::Bf16x2;
    /// shmem_sim::run(1, 1, 32, || {
    ///     let rows = shmem_sim::symmetric::<bf16>(8 * 256);
    ///     let strip = Strip::<Bf16x2, 8>::new(rows.cast(), 256);
    ///     assert_eq!(strip.part(1..3).panels(), 2);
    /// }).unwrap();
    /// ```
    #[inline(always)]
    #[track_caller]
    #[must_use]
    pub fn part(self, panels: core::ops::Range<u32>) -> Self {
        let (a, b) = (panels.start, panels.end);
        check(a <= b && b <= self.panels, FaultKind::Range, a.into(), b.into());
        Self {
            address: self.address + u64::from(a * ROW_LINES) * LINE_BYTES,
            panels: b - a,
            ..self
        }
    }

    /// Rows `i * R ..` of it, R of them. Faults with `FaultKind::Chunk`.
    #[inline(always)]
    #[track_caller]
    #[must_use]
    pub fn rows<const R: u32>(self, i: u32) -> Strip<T, R> {
        check(i < ROWS / R, FaultKind::Chunk, i.into(), R.into());
        Strip {
            address: self.address + u64::from(i * R) * self.stride,
            stride: self.stride,
            panels: self.panels,
            space: self.space,
            halves: PhantomData,
        }
    }
}

impl<T: Halves, const ROWS: u32> Panel<T, ROWS> {
    /// Lines of 16 bytes that a panel takes.
    pub const LINES: u32 = {
        assert!(ROWS.is_multiple_of(8) && ROWS != 0, "a panel has a multiple of 8 rows");
        ROWS * ROW_LINES
    };

    /// A panel in `lines`, which are [`LINES`](Self::LINES). One thread's own. Faults with `FaultKind::Length`.
    #[inline(always)]
    #[track_caller]
    pub fn new(lines: Shared<T::Line>) -> Self {
        check(
            lines.len() == Self::LINES.into(),
            FaultKind::Length,
            lines.len(),
            Self::LINES.into(),
        );
        Self {
            start: lines.start(),
            halves: PhantomData,
        }
    }

    /// Rows `i * R ..` of it, R of them, a multiple of 8. Faults with `FaultKind::Chunk`.
    #[inline(always)]
    #[track_caller]
    #[must_use]
    pub fn rows<const R: u32>(self, i: u32) -> Panel<T, R> {
        check(
            i < Self::LINES / Panel::<T, R>::LINES,
            FaultKind::Chunk,
            i.into(),
            R.into(),
        );
        Panel {
            start: self.start + u64::from(i * Panel::<T, R>::LINES) * LINE_BYTES,
            halves: PhantomData,
        }
    }

    /// Begins to copy panel `k` of the strip here. All members of the tile call it, THREADS of them, a multiple of 8 that
    /// divides the lines. In place as [`copy_async`](crate::async_copy::copy_async) has it: after
    /// [`commit`](crate::async_copy::commit), [`wait_group`](crate::async_copy::wait_group) and a sync.
    ///
    /// PTX `cp.async.cg` of 16 bytes. Faults with `FaultKind::Tile` where the tile has another size, `FaultKind::Chunk`
    /// where there is no such panel.
    #[inline(always)]
    #[track_caller]
    pub fn copy_async<const THREADS: u32, G: InBlock>(self, tile: G, strip: Strip<T, ROWS>, k: u32) {
        const {
            assert!(
                THREADS.is_multiple_of(ROW_LINES) && Self::LINES.is_multiple_of(THREADS),
                "so many threads don't share out the panel's lines"
            )
        };
        check(
            tile.size() == THREADS,
            FaultKind::Tile,
            THREADS.into(),
            tile.size().into(),
        );
        check(k < strip.panels, FaultKind::Chunk, k.into(), PANEL_COLUMNS.into());
        let (row, line) = (tile.rank() % THREADS / ROW_LINES, tile.rank() % ROW_LINES);
        let mut from = strip.address + u64::from(row) * strip.stride + u64::from(k * ROW_LINES + line) * LINE_BYTES;
        // Constant trip counts unroll.
        let mut i = 0;
        while i < Self::LINES / THREADS {
            let to = self.line(row + i * (THREADS / ROW_LINES), line);
            // SAFETY: a line of the strip, and its place in the panel.
            unsafe { arch::copy_async::<T::Line>(to, from, strip.space) };
            from += u64::from(THREADS / ROW_LINES) * strip.stride;
            i += 1;
        }
    }

    /// 16 rows from `row` on by 16 columns from `16 * k` on, as A of [`mma`]. All 32 lanes call it, with a multiple of 8.
    ///
    /// PTX `ldmatrix.x4`. Faults with `FaultKind::Range` where they are outside.
    #[inline(always)]
    #[track_caller]
    pub fn a(self, row: u32, k: u32) -> [T; 4] {
        // Matrices: rows 0..8, rows 8..16, and both again for the next 8 columns.
        let lane = warp::lane_id() % 32;
        self.quarter(row, k, lane % 16, lane / 16)
    }

    /// The same block of a matrix that is stored by its columns: 16 columns of B from `row` on, their rows from `16 * k` on.
    /// Two fragments of 8 columns.
    #[inline(always)]
    #[track_caller]
    pub fn b(self, row: u32, k: u32) -> [[T; 2]; 2] {
        // Matrices: both halves of columns 0..8, then of columns 8..16.
        let lane = warp::lane_id() % 32;
        let [b0, b1, b2, b3] = self.quarter(row, k, lane / 16 * 8 + lane % 8, lane / 8 % 2);
        [[b0, b1], [b2, b3]]
    }

    /// Four matrices, of which this lane names the line `side` of row `within` of the block.
    #[inline(always)]
    #[track_caller]
    fn quarter(self, row: u32, k: u32, within: u32, side: u32) -> [T; 4] {
        let inside = row.is_multiple_of(8) && row + 16 <= ROWS && k < PANEL_COLUMNS / 16;
        check(inside, FaultKind::Range, row.into(), k.into());
        // SAFETY: inside the panel, by the check.
        halves(unsafe { arch::ldmatrix(self.start + place_of_line(within, 2 * k + side) + row_start(row)) })
    }

    /// Address of a line. A row's place has no part in the swizzle beyond its number modulo 8.
    #[inline(always)]
    fn line(self, row: u32, line: u32) -> u64 {
        self.start + place_of_line(row, line)
    }
}

/// Bytes from a panel's start to a row.
#[inline(always)]
fn row_start(row: u32) -> u64 {
    u64::from(row * ROW_LINES) * LINE_BYTES
}

/// Bytes from a panel's start to a line of a row.
#[inline(always)]
fn place_of_line(row: u32, line: u32) -> u64 {
    row_start(row) + u64::from(line ^ (row % 8)) * LINE_BYTES
}

#[inline(always)]
fn words<T: Halves, const N: usize>(halves: [T; N]) -> [u32; N] {
    let mut words = [0; N];
    let mut i = 0;
    while i < N {
        words[i] = bytemuck::cast(halves[i]);
        i += 1;
    }
    words
}

#[inline(always)]
fn halves<T: Halves, const N: usize>(words: [u32; N]) -> [T; N] {
    let mut halves = [T::zeroed(); N];
    let mut i = 0;
    while i < N {
        halves[i] = bytemuck::cast(words[i]);
        i += 1;
    }
    halves
}
