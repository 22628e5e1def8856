//! Products of a warpgroup. Each lane computes its own numbers when they begin: of two panels' rows it reads those that it needs.

use super::{Space, Strength, load};
use crate::matrix::place;
use crate::tile::Tile;
use crate::vector::{Bf16x8, F16x8};

pub(crate) type Sums = [[f32; 4]; 32];

/// A kernel that asks takes what older GPUs have.
pub(crate) fn has_wgmma() -> bool {
    false
}

#[track_caller]
pub(crate) fn show_panels<G: Tile>(tile: G) {
    tile.sync();
}

/// In f64 and rounded once for each panel.
#[track_caller]
fn products(sums: &mut Sums, a: u64, b: u64, line: impl Fn(u64) -> [f32; 8]) {
    let row_of = |panel: u64, row: u32| -> [f32; 64] {
        let lines: [[f32; 8]; 8] =
            core::array::from_fn(|i| line(panel + u64::from(row) * 128 + u64::from(i as u32 ^ (row % 8)) * 16));
        core::array::from_fn(|k| lines[k / 8][k % 8])
    };
    let thread = crate::thread::index() % 128;
    let (warp, lane) = (thread / 32, thread % 32);
    let rows = [0, 2].map(|i| row_of(a, 16 * warp + place(lane, i).0));
    for (j, sums) in sums.iter_mut().enumerate() {
        let columns = [0, 1].map(|i| row_of(b, 8 * j as u32 + place(lane, i).1));
        for (i, sum) in sums.iter_mut().enumerate() {
            let products = rows[i / 2].iter().zip(&columns[i % 2]);
            let products = products.map(|(&x, &y)| f64::from(x) * f64::from(y));
            *sum = (f64::from(*sum) + products.sum::<f64>()) as f32;
        }
    }
}

macro_rules! begin { ($($name:ident = $line:ident;)*) => { $(
    /// # Safety
    /// Both are shared addresses of panels, of 64 rows and of 256.
    #[track_caller]
    pub(crate) unsafe fn $name(sums: &mut Sums, a: u64, b: u64) {
        products(sums, a, b, |line| {
            // SAFETY: a line of one of them.
            let line: $line = unsafe { load(line, Space::Shared, Strength::Weak) };
            line.f32()
        });
    }
)* } }
begin! {
    begin_products_bf16 = Bf16x8;
    begin_products_f16 = F16x8;
}

pub(crate) fn wait_products<const N: u32>() {}

pub(crate) fn end_products(_: &mut Sums) {}
