//! Which devices each process uses: two processes on one would wait for each other for ever.

use crate::ProcessError;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;

/// Names a device in every process, whatever CUDA_VISIBLE_DEVICES says, and on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Uuid(pub(crate) [u8; 16]);

impl fmt::Display for Uuid {
    /// As nvidia-smi writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GPU-")?;
        for (i, byte) in self.0.iter().enumerate() {
            let dash = if matches!(i, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

/// A device that a process runs kernels on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceUse {
    pub(crate) uuid: Uuid,
    /// MPS runs the kernels of several processes on it at the same time.
    pub(crate) mps: bool,
}

/// Refuses one device in two processes, whose devices are given by rank, unless both have it through MPS.
pub(crate) fn exclusive<'a>(all: impl IntoIterator<Item = &'a [DeviceUse]>) -> Result<(), ProcessError> {
    let mut seen: HashMap<Uuid, (u32, DeviceUse)> = HashMap::new();
    for (rank, devices) in (0..).zip(all) {
        for &device in devices {
            let (first, other) = *seen.entry(device.uuid).or_insert((rank, device));
            if first != rank && !(other.mps && device.mps) {
                return Err(ProcessError::SameDevice {
                    first,
                    second: rank,
                    device: device.uuid.to_string(),
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(number: u8) -> DeviceUse {
        let uuid = Uuid([0xa0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, number]);
        DeviceUse { uuid, mps: false }
    }

    fn check(all: &[&[DeviceUse]]) -> Result<(), ProcessError> {
        exclusive(all.iter().copied())
    }

    #[test]
    fn each_process_has_devices_of_its_own() {
        assert_eq!(check(&[]), Ok(()));
        // The simulator's have none.
        assert_eq!(check(&[&[], &[]]), Ok(()));
        assert_eq!(check(&[&[gpu(0), gpu(1)], &[gpu(2)], &[gpu(3)]]), Ok(()));
        // Several PEs of one process may be on one.
        assert_eq!(check(&[&[gpu(0), gpu(0)], &[gpu(1)]]), Ok(()));
    }

    #[test]
    fn two_processes_on_one_device_are_named() {
        let device = "GPU-a0010203-0405-0607-0809-0a0b0c0d0e02".to_owned();
        let refused = check(&[&[gpu(1)], &[gpu(0), gpu(2)], &[gpu(3)], &[gpu(2)]]).unwrap_err();
        let text = refused.to_string();
        let (first, second) = (1, 3);
        assert_eq!(refused, ProcessError::SameDevice { first, second, device });
        assert!(
            text.contains("processes 1 and 3") && text.contains("CUDA_VISIBLE_DEVICES"),
            "{text}"
        );
    }

    #[test]
    fn with_mps_in_both_they_may_share() {
        let mps = DeviceUse { mps: true, ..gpu(0) };
        assert_eq!(check(&[&[mps], &[mps], &[mps]]), Ok(()));
        assert!(check(&[&[mps], &[gpu(0)]]).is_err());
        assert!(check(&[&[gpu(0)], &[mps]]).is_err());
    }
}
