//! Random bytes from the operating system.

use crate::BootstrapError;
use rustix::rand::{GetRandomFlags, getrandom};

/// Fresh random bytes, fit for nonces and secrets.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], BootstrapError> {
    let mut bytes = [0; N];
    let mut have = 0;
    while have < N {
        have += getrandom(&mut bytes[have..], GetRandomFlags::empty()).map_err(|e| BootstrapError::System {
            what: "getrandom",
            cause: e.to_string(),
        })?;
    }
    Ok(bytes)
}
