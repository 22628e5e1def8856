//! Programmatic dependent launch, which sm_90 brought. The comments are the builder's, as in `cluster.rs`.

use super::registers::{grid_dim, places};
use core::arch::asm;

/// Waits until the kernel ahead in the stream has ended and all that it wrote can be read. Then it lets the one behind place its
/// blocks, unless this one has so many itself that both would leave too little for other streams.
///
/// Without such launches both do nothing.
#[inline(always)]
pub(crate) fn follow() {
    // SAFETY: no operands. What follows stays behind it: to the compiler this reads and writes memory.
    unsafe { asm!("griddepcontrol.wait; // shmem-before-90", options(nostack)) }
    let ([x, y, z], places) = (grid_dim().map(u64::from), places());
    // At most a quarter of the multiprocessors: three such factors don't wrap.
    if x <= places && y <= places && z <= places && x * y * z <= places {
        // SAFETY: as above.
        unsafe { asm!("griddepcontrol.launch_dependents; // shmem-before-90", options(nostack)) }
    }
}
