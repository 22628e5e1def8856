//! Protection domains and pages of registers. Their answers hold a [`NUMBER`](super::NUMBER).

use super::{Opcode, command};

/// Makes a protection domain.
pub fn alloc_domain() -> [u8; 16] {
    command(Opcode::AllocPd)
}

/// Makes a page of registers.
pub fn alloc_page() -> [u8; 16] {
    command(Opcode::AllocUar)
}
