//! Tensor cores of a warp. No lane works alone, and LLVM doesn't know that of these: a call of `activemask`, which is
//! convergent, stands right before each and keeps it in one piece. ptxas deletes those calls.
//!
//! LLVM's intrinsics serve where Rust can name their operands: not pointers into shared memory, nor vectors of f16.

use core::arch::asm;

/// What the intrinsic returns.
#[repr(C)]
struct Accumulators(f32, f32, f32, f32);

unsafe extern "unadjusted" {
    #[link_name = "llvm.nvvm.activemask"]
    fn activemask() -> u32;
    #[link_name = "llvm.nvvm.mma.m16n8k16.row.col.bf16"]
    #[expect(clippy::too_many_arguments, reason = "the intrinsic's")]
    fn mma(a0: u32, a1: u32, a2: u32, a3: u32, b0: u32, b1: u32, c0: f32, c1: f32, c2: f32, c3: f32) -> Accumulators;
}

#[inline(always)]
pub(crate) fn mma_bf16(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
    // SAFETY: registers in, registers out; all lanes come here.
    let d = unsafe {
        activemask();
        mma(a[0], a[1], a[2], a[3], b[0], b[1], c[0], c[1], c[2], c[3])
    };
    [d.0, d.1, d.2, d.3]
}

#[inline(always)]
pub(crate) fn mma_f16(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
    let mut d = [0.0; 4];
    // SAFETY: as above.
    unsafe {
        activemask();
        asm!(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
            "{{{d0}, {d1}, {d2}, {d3}}}, {{{a0}, {a1}, {a2}, {a3}}}, {{{b0}, {b1}}}, {{{c0}, {c1}, {c2}, {c3}}};",
            d0 = out(reg32) d[0], d1 = out(reg32) d[1], d2 = out(reg32) d[2], d3 = out(reg32) d[3],
            a0 = in(reg32) a[0], a1 = in(reg32) a[1], a2 = in(reg32) a[2], a3 = in(reg32) a[3],
            b0 = in(reg32) b[0], b1 = in(reg32) b[1],
            c0 = in(reg32) c[0], c1 = in(reg32) c[1], c2 = in(reg32) c[2], c3 = in(reg32) c[3],
            options(nomem, nostack),
        );
    }
    d
}

macro_rules! ldmatrix { ($($name:ident = $modifier:literal;)*) => { $(
    /// # Safety
    /// Each lane's is the shared address of a live line of 16 bytes; all lanes call it. N is 1, 2 or 4.
    #[inline(always)]
    pub(crate) unsafe fn $name<const N: usize>(line: u64) -> [u32; N] {
        let (mut r, line) = ([0; 4], line as u32);
        // SAFETY: the caller's promise.
        unsafe {
            match N {
                1 => {
                    activemask();
                    asm!(
                        concat!("ldmatrix.sync.aligned.m8n8.x1", $modifier, ".shared.b16 {{{r0}}}, [{a}];"),
                        r0 = out(reg32) r[0], a = in(reg32) line, options(nostack),
                    );
                }
                2 => {
                    activemask();
                    asm!(
                        concat!("ldmatrix.sync.aligned.m8n8.x2", $modifier, ".shared.b16 {{{r0}, {r1}}}, [{a}];"),
                        r0 = out(reg32) r[0], r1 = out(reg32) r[1], a = in(reg32) line, options(nostack),
                    );
                }
                _ => {
                    activemask();
                    asm!(
                        concat!("ldmatrix.sync.aligned.m8n8.x4", $modifier, ".shared.b16 {{{r0}, {r1}, {r2}, {r3}}}, [{a}];"),
                        r0 = out(reg32) r[0], r1 = out(reg32) r[1], r2 = out(reg32) r[2], r3 = out(reg32) r[3],
                        a = in(reg32) line, options(nostack),
                    );
                }
            }
        }
        let mut matrices = [0; N];
        let mut i = 0;
        while i < N {
            matrices[i] = r[i];
            i += 1;
        }
        matrices
    }
)* } }
ldmatrix! {
    ldmatrix = "";
    ldmatrix_trans = ".trans";
}
