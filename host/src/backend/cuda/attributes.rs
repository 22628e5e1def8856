//! Launches with attributes, which only `cuLaunchKernelEx` takes: in clusters of several blocks, and programmatic ones.

use super::driver::{Driver, out};
use super::error::CudaError;
use crate::backend::{Launch, Shape};
use cudarc::driver::sys::{CUfunction, CUlaunchAttribute, CUlaunchAttributeID, CUlaunchAttributeValue, CUlaunchConfig};
use cudarc::driver::sys::{CUlaunchAttributeValue_union__bindgen_ty_1 as ClusterDim, CUstream};
use std::ptr;

fn attribute(id: CUlaunchAttributeID, set: impl FnOnce(&mut CUlaunchAttributeValue)) -> CUlaunchAttribute {
    let mut value = CUlaunchAttributeValue { pad: [0; 64] };
    set(&mut value);
    CUlaunchAttribute { id, pad: [0; 4], value }
}

fn clusters_of(blocks: u32) -> CUlaunchAttribute {
    attribute(CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, |value| {
        value.clusterDim = ClusterDim { x: blocks, y: 1, z: 1 };
    })
}

fn config(
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    stream: CUstream,
    attributes: &mut [CUlaunchAttribute],
) -> CUlaunchConfig {
    CUlaunchConfig {
        gridDimX: grid[0],
        gridDimY: grid[1],
        gridDimZ: grid[2],
        blockDimX: block[0],
        blockDimY: block[1],
        blockDimZ: block[2],
        sharedMemBytes: shared_bytes,
        hStream: stream,
        attrs: attributes.as_mut_ptr(),
        numAttrs: attributes.len() as u32,
    }
}

/// # Safety
/// As for `cuLaunchKernel`.
pub(super) unsafe fn launch(
    driver: &Driver,
    function: CUfunction,
    stream: CUstream,
    launch: &Launch<'_>,
) -> Result<(), CudaError> {
    use CUlaunchAttributeID as Id;
    let cooperative = attribute(Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, |value| value.cooperative = 1);
    let programmatic = attribute(Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, |value| {
        value.programmaticStreamSerializationAllowed = 1;
    });
    let mut attributes = [clusters_of(launch.cluster), cooperative, programmatic];
    let wanted = [launch.cluster > 1, launch.cooperative, launch.programmatic];
    for (attribute, _) in attributes.iter_mut().zip(wanted).filter(|(_, wanted)| !wanted) {
        attribute.id = Id::CU_LAUNCH_ATTRIBUTE_IGNORE;
    }
    let config = config(launch.grid, launch.block, launch.shared_bytes, stream, &mut attributes);
    // SAFETY: the caller's; the driver reads the list of parameters, and the attributes live until it has.
    unsafe { driver.cuLaunchKernelEx(&config, function, launch.params.as_ptr().cast_mut(), ptr::null_mut()) }
}

/// Clusters that the device can have resident at once.
///
/// # Safety
/// The function is live, and its context current.
pub(super) unsafe fn resident(driver: &Driver, function: CUfunction, shape: Shape) -> Result<u32, CudaError> {
    let mut attributes = [clusters_of(shape.cluster)];
    let (grid, block) = ([shape.cluster, 1, 1], [shape.threads, 1, 1]);
    let config = config(grid, block, shape.shared_bytes, ptr::null_mut(), &mut attributes);
    let mut clusters = 0;
    // SAFETY: the caller's; the attributes live until the call returns.
    unsafe { driver.cuOccupancyMaxActiveClusters(out(&mut clusters), function, &config) }?;
    Ok(clusters as u32)
}
