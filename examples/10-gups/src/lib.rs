//! Random remote atomics, the classic one-sided benchmark: updates of a table over all PEs, and a hash table over all PEs.
//!
//! | file | kernel | what it leans on |
//! |---|---|---|
//! | [`update`] | random updates without a result (HPCC RandomAccess) | `xor`, `add` |
//! | [`hash`] | insert into a set, linear probing | `compare_swap` |
//! | [`random`] | numbers | |

pub mod hash;
pub mod random;
pub mod update;

#[cfg(not(target_arch = "nvptx64"))]
pub mod check;
