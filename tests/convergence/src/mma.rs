//! Matrix multiplication of a warp. LLVM's intrinsic is not marked convergent, and `asm!` can't be: an `activemask` that
//! nobody uses, right before it, keeps both in their place, and ptxas deletes it.

pub(crate) use device::unguarded;
use shmem::matrix::{self, Halves};
use shmem::prelude::*;
use shmem::vector::{Bf16x2, F16x2};

#[cfg(target_arch = "nvptx64")]
mod device {
    #[repr(C)]
    pub(super) struct Tile(f32, f32, f32, f32);

    unsafe extern "unadjusted" {
        #[link_name = "llvm.nvvm.activemask"]
        safe fn activemask() -> u32;
        #[link_name = "llvm.nvvm.mma.m16n8k16.row.col.bf16"]
        fn mma_(a0: u32, a1: u32, a2: u32, a3: u32, b0: u32, b1: u32, c0: f32, c1: f32, c2: f32, c3: f32) -> Tile;
    }

    #[inline(always)]
    pub(super) fn mma(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
        activemask();
        unguarded(a, b, c)
    }

    /// For the counter-example too.
    #[inline(always)]
    pub(crate) fn unguarded(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
        // SAFETY: registers in, registers out.
        let d = unsafe { mma_(a[0], a[1], a[2], a[3], b[0], b[1], c[0], c[1], c[2], c[3]) };
        [d.0, d.1, d.2, d.3]
    }

    #[inline(always)]
    pub(super) fn mma_asm(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
        let mut d = [0.0; 4];
        activemask();
        // SAFETY: registers in, registers out.
        unsafe {
            core::arch::asm!(
                "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
                "{{{d0}, {d1}, {d2}, {d3}}}, {{{a0}, {a1}, {a2}, {a3}}}, {{{b0}, {b1}}}, {{{c0}, {c1}, {c2}, {c3}}};",
                d0 = out(reg32) d[0], d1 = out(reg32) d[1], d2 = out(reg32) d[2], d3 = out(reg32) d[3],
                a0 = in(reg32) a[0], a1 = in(reg32) a[1], a2 = in(reg32) a[2], a3 = in(reg32) a[3],
                b0 = in(reg32) b[0], b1 = in(reg32) b[1],
                c0 = in(reg32) c[0], c1 = in(reg32) c[1], c2 = in(reg32) c[2], c3 = in(reg32) c[3],
                options(nomem, nostack)
            );
        }
        d
    }
}

/// No kernel of this package runs: the host only has to compile them.
#[cfg(not(target_arch = "nvptx64"))]
mod device {
    pub(crate) fn mma(_: [u32; 4], _: [u32; 2], c: [f32; 4]) -> [f32; 4] {
        c
    }
    pub(super) use mma as mma_asm;
    pub(crate) use mma as unguarded;
}

/// A product that one arm uses.
#[kernel]
pub fn sink(o: Global<u32>, x: u32, y: u32) {
    let t = thread::index();
    let d = device::mma([x, y, o.load(t), t], [x, o.load(t + 1)], [1.0, 2.0, 3.0, 4.0]);
    if t.is_multiple_of(4) {
        store(o, t, d);
    }
}

/// The same, as `asm!`.
#[kernel]
pub fn sink_asm(o: Global<u32>, x: u32, y: u32) {
    let t = thread::index();
    let d = device::mma_asm([x, y, o.load(t), t], [x, o.load(t + 1)], [1.0, 2.0, 3.0, 4.0]);
    if t.is_multiple_of(4) {
        store(o, t, d);
    }
}

/// An Option that is made before a product and matched after it, together with it.
#[kernel]
pub fn option(o: Global<u32>, x: u32, y: u32) {
    let t = thread::index();
    let v = if t < x { Some(o.load(t)) } else { None };
    let d = device::mma([x, y, t, 3], [x, y], [1.0, 2.0, 3.0, 4.0]);
    if let Some(v) = v {
        o.store(t + 64, v + d[0].to_bits());
    }
}

/// The same, as `asm!`.
#[kernel]
pub fn option_asm(o: Global<u32>, x: u32, y: u32) {
    let t = thread::index();
    let v = if t < x { Some(o.load(t)) } else { None };
    let d = device::mma_asm([x, y, t, 3], [x, y], [1.0, 2.0, 3.0, 4.0]);
    if let Some(v) = v {
        o.store(t + 64, v + d[0].to_bits());
    }
}

/// A product between two ifs on one condition.
#[kernel]
pub fn two_ifs(o: Global<u32>, x: u32, y: u32) {
    let t = thread::index();
    let c = t < x;
    if c {
        o.store(t, 1);
    }
    let d = device::mma([x, y, t, 3], [x, y], [1.0, 2.0, 3.0, 4.0]);
    if c {
        store(o, t, d);
    } else {
        o.store(t, d[0].to_bits());
    }
}

/// The same, as `asm!`.
#[kernel]
pub fn two_ifs_asm(o: Global<u32>, x: u32, y: u32) {
    let t = thread::index();
    let c = t < x;
    if c {
        o.store(t, 1);
    }
    let d = device::mma_asm([x, y, t, 3], [x, y], [1.0, 2.0, 3.0, 4.0]);
    if c {
        store(o, t, d);
    } else {
        o.store(t, d[0].to_bits());
    }
}

/// The library's calls between two ifs on one condition: an intrinsic for bf16, `asm!` for f16.
#[kernel(for<Bf16x2>, for<F16x2>)]
pub fn library<T: Operand>(o: Global<u32>, x: u32) {
    shared!(lines: [u128; 32]);
    let t = thread::index();
    let c = t < x;
    if c {
        o.store(t, 1);
    }
    let a: [T; 4] = matrix::ldmatrix(lines.cast(), t % 32);
    let d = matrix::mma(a, [a[0], a[1]], [1.0; 4]);
    if c {
        store(o, t, d);
    } else {
        o.store(t, d[0].to_bits());
    }
}

/// The product between an Option that is made and its match.
#[kernel(for<Bf16x2>, for<F16x2>)]
pub fn library_option<T: Operand>(o: Global<u32>, x: u32) {
    let t = thread::index();
    let v = if t < x { Some(o.load(t)) } else { None };
    let a: [T; 4] = [x, t, 3, 4].map(shmem::bytemuck::cast);
    let d = matrix::mma(a, [a[0], a[1]], [1.0; 4]);
    if let Some(v) = v {
        o.store(t + 64, v + d[0].to_bits());
    }
}

/// For the instances.
pub trait Operand: Halves {}
impl Operand for Bf16x2 {}
impl Operand for F16x2 {}

#[inline(always)]
fn store(o: Global<u32>, t: u32, d: [f32; 4]) {
    for (i, d) in d.into_iter().enumerate() {
        o.store(4 * t + i as u32, d.to_bits());
    }
}
