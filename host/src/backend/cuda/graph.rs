//! Graphs of one PE: captured from a stream, instantiated, launched.

use super::driver::{Driver, out};
use super::error::CudaError;
use crate::backend::GraphId;
use cudarc::driver::sys::{CUgraph, CUgraphExec, CUstream, CUstreamCaptureMode};
use std::collections::HashMap;
use std::ptr;

#[derive(Default)]
pub(super) struct Graphs {
    made: HashMap<GraphId, CUgraphExec>,
    next: usize,
}

impl Graphs {
    /// Starts to record what this PE's stream, which is idle, is given.
    pub(super) fn begin(driver: &Driver, stream: CUstream) -> Result<(), CudaError> {
        // The relaxed mode: loading a module or copying on another stream meanwhile is nobody's harm.
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream is live, and its context current.
        unsafe { driver.cuStreamBeginCapture_v2(stream, mode) }
    }

    pub(super) fn end(&mut self, driver: &Driver, stream: CUstream) -> Result<GraphId, CudaError> {
        let mut graph: CUgraph = ptr::null_mut();
        // SAFETY: `begin` began on this stream, from this thread.
        unsafe { driver.cuStreamEndCapture(stream, out(&mut graph)) }?;
        let mut exec: CUgraphExec = ptr::null_mut();
        // SAFETY: the graph is live; what is made of it does not need it any more.
        let made = unsafe {
            let made = driver.cuGraphInstantiateWithFlags(out(&mut exec), graph, 0);
            let _ = driver.cuGraphDestroy(graph);
            made
        };
        made?;
        let id = GraphId(self.next);
        self.next += 1;
        self.made.insert(id, exec);
        // What the first launch would otherwise do, perhaps beside a kernel that waits.
        // SAFETY: both are live.
        if let Err(error) = unsafe { driver.cuGraphUpload(exec, stream) } {
            self.destroy(driver, id);
            return Err(error);
        }
        Ok(id)
    }

    pub(super) fn launch(&self, driver: &Driver, graph: GraphId, stream: CUstream) -> Result<(), CudaError> {
        // SAFETY: both are live; functions of its kernels live as long as the World.
        unsafe { driver.cuGraphLaunch(self.made[&graph], stream) }
    }

    /// The driver frees it once it has run.
    pub(super) fn destroy(&mut self, driver: &Driver, graph: GraphId) {
        if let Some(exec) = self.made.remove(&graph) {
            // SAFETY: it is live, and destroyed once. A refusal means that the context is lost, and everything with it.
            let _ = unsafe { driver.cuGraphExecDestroy(exec) };
        }
    }

    pub(super) fn destroy_all(mut self, driver: &Driver) {
        let all: Vec<_> = self.made.keys().copied().collect();
        for graph in all {
            self.destroy(driver, graph);
        }
    }
}
