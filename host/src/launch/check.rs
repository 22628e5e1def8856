//! What is checked before anything is enqueued, so that a refused launch changes nothing.

use super::{Dim3, LaunchConfig, LaunchError, Ready};
use crate::Error;
use crate::backend::{KernelInfo, Limits};
use crate::session::Session;
use shmem::state::GRID_SLOTS;
use shmem::{BlockBounds, Region};

impl Session {
    /// Checks what depends on the launch alone; returns the threads of a block.
    pub(crate) fn check_shape(&self, kernel: &str, config: &LaunchConfig<'_>) -> Result<u32, LaunchError> {
        let Limits {
            threads: most_threads,
            block: most_block,
            grid: most_grid,
            ..
        } = self.device.limits();
        let LaunchConfig { grid, block, .. } = *config;
        let threads = block.count();
        if threads == 0 || threads > most_threads.into() || !block.within(most_block) {
            let (kernel, most) = (kernel.to_owned(), most_block.into());
            return Err(LaunchError::Block {
                kernel,
                block,
                threads: most_threads,
                most,
            });
        }
        if grid.count() == 0 || !grid.within(most_grid) {
            return Err(LaunchError::Grid {
                kernel: kernel.to_owned(),
                grid,
                most: most_grid.into(),
            });
        }
        Ok(threads as u32)
    }

    /// Checks what depends on the compiled kernel.
    pub(crate) fn check_resources(
        &self,
        kernel: &str,
        ready: &Ready,
        threads: u32,
        config: &LaunchConfig<'_>,
    ) -> Result<(), Error> {
        let kernel = || kernel.to_owned();
        let (most, asked, declared) = (
            self.device.limits().shared_bytes,
            config.shared_bytes,
            ready.loaded.shared_bytes,
        );
        if threads > ready.loaded.threads {
            return Err(LaunchError::Registers {
                kernel: kernel(),
                threads,
                most: ready.loaded.threads,
            }
            .into());
        }
        let tile = ready.loaded.tile;
        if !threads.is_multiple_of(tile) {
            let kernel = kernel();
            return Err(LaunchError::Tile { kernel, threads, tile }.into());
        }
        let (cluster, grid, most_cluster) = (config.cluster, config.grid, ready.loaded.cluster);
        if cluster == 0 || cluster > most_cluster || !grid.x.is_multiple_of(cluster) {
            return Err(LaunchError::Cluster {
                kernel: kernel(),
                cluster,
                grid,
                most: most_cluster,
            }
            .into());
        }
        if asked.saturating_add(declared) > most {
            return Err(LaunchError::SharedMemory {
                kernel: kernel(),
                asked,
                declared,
                most,
            }
            .into());
        }
        let (blocks, most_blocks) = (config.grid.count(), self.device.limits().blocks);
        if !config.collective && blocks > most_blocks {
            return Err(LaunchError::Blocks {
                kernel: kernel(),
                asked: blocks,
                most: most_blocks,
            }
            .into());
        }
        if config.collective {
            let (stream, most) = (self.target(config.stream_id()).0, GRID_SLOTS);
            if stream >= most {
                let kernel = kernel();
                return Err(LaunchError::TooManyStreams { kernel, stream, most }.into());
            }
        }
        if config.collective || config.resident {
            let (asked, most) = (config.grid.count(), self.resident(ready, config.resources(threads))?);
            if asked > most.into() {
                let (pe, shared_bytes) = (self.pe, config.shared_bytes);
                let error = LaunchError::GridTooLarge {
                    kernel: kernel(),
                    pe,
                    asked,
                    most,
                    threads,
                    shared_bytes,
                };
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Refuses a kernel that communicates where a PE is beyond reach: there is no transport yet that would take its calls there.
    pub(super) fn check_reach(
        &self,
        kernel: &str,
        collective: bool,
        regions: impl FnOnce(&mut dyn FnMut(Region)),
    ) -> Result<(), LaunchError> {
        let Some(peer) = self.beyond_reach else {
            return Ok(());
        };
        let mut communicates = collective;
        regions(&mut |region| communicates |= !matches!(region, Region::Global { .. }));
        if !communicates {
            return Ok(());
        }
        let (kernel, pe) = (kernel.to_owned(), self.pe);
        Err(LaunchError::NoTransport { kernel, pe, peer })
    }

    /// Checks that what the arguments name is this PE's, and live.
    pub(crate) fn check_handles(
        &self,
        kernel: &str,
        regions: impl FnOnce(&mut dyn FnMut(Region)),
    ) -> Result<(), LaunchError> {
        let (handles, mut stale) = (self.handles.borrow(), None);
        regions(&mut |region| {
            if let Err(why) = handles.check(region) {
                stale = Some((region, why));
            }
        });
        match stale {
            None => Ok(()),
            Some((region, why)) => Err(LaunchError::StaleHandle {
                kernel: kernel.to_owned(),
                pe: self.pe,
                region,
                why,
            }),
        }
    }
}

/// Checks what the kernel's attribute says.
pub(super) fn check_kernel(kernel: &KernelInfo, config: &LaunchConfig<'_>) -> Result<(), LaunchError> {
    if kernel.collective && !config.collective {
        return Err(LaunchError::NeedsCollectiveLaunch {
            kernel: kernel.name.to_owned(),
        });
    }
    check_bounds(kernel, config.block)
}

pub(super) fn check_bounds(kernel: &KernelInfo, block: Dim3) -> Result<(), LaunchError> {
    let fits = match kernel.bounds {
        BlockBounds::Any => true,
        BlockBounds::AtMost(most) => block.count() <= most.into(),
        BlockBounds::Exactly(shape) => block.axes() == shape,
    };
    if fits {
        return Ok(());
    }
    Err(LaunchError::BlockBounds {
        kernel: kernel.name.to_owned(),
        block,
        bounds: kernel.bounds,
    })
}
