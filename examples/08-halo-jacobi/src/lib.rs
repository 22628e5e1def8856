//! Jacobi iteration in two dimensions, rows split among PEs: blocks put the boundary rows that they compute, while the others compute
//! what lies inside.

mod column;
mod field;
mod kernel;
pub use field::Field;
pub use kernel::jacobi;

#[cfg(not(target_arch = "nvptx64"))]
mod check;
#[cfg(not(target_arch = "nvptx64"))]
mod host;
#[cfg(not(target_arch = "nvptx64"))]
pub use check::check;
#[cfg(not(target_arch = "nvptx64"))]
pub use host::{Config, Solver, reference};
