//! Products of a warpgroup, `wgmma`, which sm_90a has and nothing else: the comments are the builder's, as in `cluster.rs`.
//!
//! Between a product's begin and its wait the lanes' numbers are the tensor cores': nothing here may make the compiler copy
//! them. Operands are read from shared memory by the async proxy.

use super::bulk::fence_shared;
use crate::tile::Tile;
use core::arch::asm;

unsafe extern "unadjusted" {
    #[link_name = "llvm.nvvm.activemask"]
    fn activemask() -> u32;
}

/// 64 x 256 numbers of a warpgroup: of a lane 32 runs of 8 columns, each as `mma` has them.
pub(crate) type Sums = [[f32; 4]; 32];

/// Whether the image has these instructions.
#[inline(always)]
pub(crate) fn has_wgmma() -> bool {
    let has: u32;
    // SAFETY: sets a register.
    unsafe {
        asm!("mov.u32 {h}, 1; // shmem-except-90a mov.u32 {h}, 0;", h = out(reg32) has, options(pure, nomem, nostack));
    }
    has != 0
}

/// What all members wrote to shared memory is there for [`begin_products`] of all. It has a sync.
#[inline(always)]
#[track_caller]
pub(crate) fn show_panels<G: Tile>(tile: G) {
    fence_shared(tile);
}

/// "Matrix descriptor" of the PTX ISA: rows of 128 bytes, swizzled by 128 bytes, in groups of 8 that are 1024 bytes apart. The
/// address is a multiple of 1024.
#[inline(always)]
fn descriptor(address: u64) -> u64 {
    u64::from(address as u32 & 0x3_ffff) >> 4 | 1 << 16 | (1024 >> 4) << 32 | 1 << 62
}

/// `callback!(arguments; 0 1 .. 127)`
macro_rules! of_sums { ($callback:ident $($arguments:tt)*) => {
    $callback! { $($arguments)*;
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15
        16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
        32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47
        48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
        64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79
        80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95
        96 97 98 99 100 101 102 103 104 105 106 107 108 109 110 111
        112 113 114 115 116 117 118 119 120 121 122 123 124 125 126 127
    }
} }

/// One step of 16 columns.
macro_rules! step { ($types:literal; $first:literal $($i:literal)*) => {
    concat!(
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.", $types, " {{{", $first, "}", $(", {", $i, "}",)*
        "}}, a, b, p, 1, 1, 0, 0; // shmem-except-90a"
    )
} }

/// Four steps, from each to the next 32 bytes of the rows.
macro_rules! panel { ($types:literal $sums:ident $a:ident $b:ident; $($i:literal)*) => {
    // SAFETY: the caller's promise; all lanes come here.
    unsafe {
        activemask();
        asm!(
            "{{",
            ".reg .pred p;",
            ".reg .b64 a, b;",
            "setp.eq.u32 p, 0, 0;",
            "mov.b64 a, {a};",
            "mov.b64 b, {b};",
            "wgmma.fence.sync.aligned; // shmem-except-90a",
            step!($types; $($i)*),
            "add.s64 a, a, 2;",
            "add.s64 b, b, 2;",
            step!($types; $($i)*),
            "add.s64 a, a, 2;",
            "add.s64 b, b, 2;",
            step!($types; $($i)*),
            "add.s64 a, a, 2;",
            "add.s64 b, b, 2;",
            step!($types; $($i)*),
            "wgmma.commit_group.sync.aligned; // shmem-except-90a",
            "}}",
            $(inout(reg32) $sums[$i / 4][$i % 4],)*
            a = in(reg64) $a,
            b = in(reg64) $b,
            options(nostack),
        );
    }
} }

macro_rules! products { ($($name:ident = $types:literal;)*) => { $(
    /// Begins to add to the sums the products of 64 rows of a panel with 256 of another.
    ///
    /// # Safety
    /// Both are shared addresses of so many rows, multiples of 1024, alike in all lanes of the warpgroup, of which all call it.
    /// Nobody writes them before [`wait_products`] says so, nor reads the sums before [`end_products`].
    #[inline(always)]
    pub(crate) unsafe fn $name(sums: &mut Sums, a: u64, b: u64) {
        let (a, b) = (descriptor(a), descriptor(b));
        of_sums!(panel $types sums a b);
    }
)* } }
products! {
    begin_products_bf16 = "bf16.bf16";
    begin_products_f16 = "f16.f16";
}

/// All but the newest N of the warpgroup's products are done with their panels.
#[inline(always)]
pub(crate) fn wait_products<const N: u32>() {
    // SAFETY: waits; all lanes come here.
    unsafe {
        activemask();
        asm!("wgmma.wait_group.sync.aligned {n}; // shmem-except-90a", n = const N, options(nostack));
    }
}

/// The sums stand in it so that no use of them comes before.
macro_rules! end { ($sums:ident; $($i:literal)*) => {
    // SAFETY: waits; all lanes come here.
    unsafe {
        activemask();
        asm!(
            "wgmma.wait_group.sync.aligned 0; // shmem-except-90a",
            concat!("// ", $("{", $i, "} ",)*),
            $(inout(reg32) $sums[$i / 4][$i % 4],)*
            options(nostack),
        );
    }
} }

/// All products are done, and the sums may be read.
#[inline(always)]
pub(crate) fn end_products(sums: &mut Sums) {
    of_sums!(end sums);
}
