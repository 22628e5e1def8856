//! barrier and sync: device calls on all PEs.

use crate::bench::Bench;
use crate::options::{Scope, name};
use shmem::Kernel;
use shmem_perf::barriers;

const SCOPES: [Scope; 3] = [Scope::Thread, Scope::Warp, Scope::Block];

pub(crate) fn barrier(b: &Bench) -> anyhow::Result<()> {
    rows::<1>(b, "barrier_all")
}

pub(crate) fn sync(b: &Bench) -> anyhow::Result<()> {
    rows::<0>(b, "sync_all")
}

fn rows<const QUIETS: u32>(b: &Bench, call: &str) -> anyhow::Result<()>
where
    barriers<0, QUIETS>: Kernel<Args = (u32,)>,
    barriers<1, QUIETS>: Kernel<Args = (u32,)>,
    barriers<2, QUIETS>: Kernel<Args = (u32,)>,
{
    for scope in b.options.scopes(b.name, &SCOPES)? {
        let shape = (1, b.threads_of(scope)?);
        let seconds = b.seconds(4..=u32::MAX, |n| match scope {
            Scope::Thread => b.pe.launch(Bench::together(shape), barriers::<0, QUIETS>(n)),
            Scope::Warp => b.pe.launch(Bench::together(shape), barriers::<1, QUIETS>(n)),
            _ => b.pe.launch(Bench::together(shape), barriers::<2, QUIETS>(n)),
        })?;
        b.us("barrier", &format!("{call}_{}", name(&scope)), 0, seconds);
    }
    Ok(())
}
