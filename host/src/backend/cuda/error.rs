//! What the CUDA driver refuses.

use super::driver::{NO_DEVICE, STUB_LIBRARY};

/// The CUDA driver is missing, too old, or refused a call.
///
/// ```
/// use shmem_host::{Backend, CudaError, Error, World};
///
/// match World::builder().backend(Backend::Cuda).build() {
///     Ok(world) => println!("{} devices", world.n()),
///     Err(Error::Cuda(CudaError::NoDriver { looked_for })) => println!("no driver; looked for {looked_for}"),
///     Err(other) => println!("{other}"),
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// No driver library.
    #[error(
        "no CUDA driver on this machine (looked for {looked_for}): install NVIDIA's driver, or run on the simulator \
         (SHMEM_BACKEND=sim)"
    )]
    NoDriver {
        /// Names of the library that were tried.
        looked_for: String,
    },
    /// The driver lacks a function.
    #[error("the CUDA driver has no {function}: it is older than CUDA 12.0; install a newer one")]
    OldDriver {
        /// What is missing.
        function: &'static str,
    },
    /// A driver, but no device.
    #[error(
        "the CUDA driver finds no device: show one to this process (CUDA_VISIBLE_DEVICES), or run on the simulator \
         (SHMEM_BACKEND=sim)"
    )]
    NoDevice,
    /// A device that lacks what this library builds on.
    #[error("device {device} ({name}) does not support {what}, which this library builds on")]
    Unsupported {
        /// Its number.
        device: i32,
        /// Its name.
        name: String,
        /// What is missing.
        what: &'static str,
    },
    /// A device that did not run what was there before any kernel.
    #[error("the device did not zero its memory in time: another program may hold it up; look with nvidia-smi")]
    Stuck,
    /// A call that the driver refused.
    #[error("{call} returned {result} ({code}){}", advice(*code))]
    Call {
        /// The call with its values.
        call: String,
        /// The result's name.
        result: String,
        /// The result.
        code: u32,
    },
}

impl CudaError {
    /// Whether there is nothing here to run on, rather than something that is broken.
    pub(crate) fn means_no_device(&self) -> bool {
        matches!(
            self,
            Self::NoDriver { .. }
                | Self::NoDevice
                | Self::Call {
                    code: NO_DEVICE | STUB_LIBRARY,
                    ..
                }
        )
    }

    pub(super) fn code(&self) -> Option<u32> {
        match self {
            Self::Call { code, .. } => Some(*code),
            _ => None,
        }
    }
}

fn advice(code: u32) -> &'static str {
    match code {
        // Illegal address, launch time-out, assert, hardware errors: the context is lost.
        214 | 220 | 700 | 702 | 710 | 714..=719 | 721 => {
            ": a kernel broke the device's context, and every further call in this process fails: start it anew"
        }
        803 | 804 => {
            ": the driver's library and its kernel module have different versions: reboot, or reinstall the driver"
        }
        800 => ": fabric handles need NVIDIA's IMEX service and its permission; SHMEM_HANDLES=fd needs neither",
        802 => ": the device is not ready; on machines with NVSwitch, nvidia-fabricmanager must run",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(code: u32) -> CudaError {
        let call = "cuMemMap(address: 0x1000, size: 2097152)".to_owned();
        CudaError::Call {
            call,
            result: "CUDA_ERROR_X".to_owned(),
            code,
        }
    }

    #[test]
    fn a_refused_call_says_which_with_its_values() {
        let text = call(1).to_string();
        assert_eq!(
            text,
            "cuMemMap(address: 0x1000, size: 2097152) returned CUDA_ERROR_X (1)"
        );
        assert!(call(700).to_string().ends_with("start it anew"));
    }

    #[test]
    fn only_absence_lets_the_simulator_take_over() {
        let none = CudaError::NoDriver {
            looked_for: "libcuda.so".into(),
        };
        assert!(none.means_no_device() && CudaError::NoDevice.means_no_device() && call(NO_DEVICE).means_no_device());
        assert!(!call(803).means_no_device() && !CudaError::OldDriver { function: "cuMemMap" }.means_no_device());
    }
}
