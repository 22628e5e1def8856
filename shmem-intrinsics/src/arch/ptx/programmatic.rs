//! Programmatic dependent launch, which sm_90 brought. The comments are the builder's, as in `cluster.rs`.

use core::arch::asm;

/// Waits until the kernel ahead in the stream has ended and all that it wrote can be read; lets the one behind place its blocks.
/// Without such a launch both do nothing.
#[inline(always)]
pub(crate) fn follow() {
    // SAFETY: no operands. What follows stays behind it: to the compiler this reads and writes memory.
    unsafe {
        asm!(
            "griddepcontrol.wait; // shmem-before-90",
            "griddepcontrol.launch_dependents; // shmem-before-90",
            options(nostack),
        );
    }
}
