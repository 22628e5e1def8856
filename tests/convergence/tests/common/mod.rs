//! What the tests share.

use std::fmt::Display;
use std::io::Write;

/// Says that a test has nothing to look at, past the capture of test output; fails where PTX was asked for.
pub(crate) fn skip(why: impl Display) {
    let required = std::env::var("SHMEM_PTX").is_ok_and(|mode| mode == "require");
    assert!(!required, "SHMEM_PTX=require, and there is no PTX: {why}");
    drop(writeln!(std::io::stderr(), "skipped, for lack of PTX: {why}"));
}
