//! One operation at a time: put and quiet, get, p and quiet, g. PE 0 calls, PE 1 has the memory.

use crate::bench::{Bench, Sweep};
use crate::options::{Scope, name};
use shmem_host::launch;
use shmem_perf::{g_chain, get_by_block, get_by_thread, get_by_warp, order, p_then};
use shmem_perf::{put_quiet_by_block, put_quiet_by_thread, put_quiet_by_warp};

const SCOPES: [Scope; 3] = [Scope::Thread, Scope::Warp, Scope::Block];
/// The sizes of the peer's rows.
const SIZES: [usize; 4] = [8, 1 << 10, 64 << 10, 1 << 20];
/// From the first of them to the last, for those who choose others.
const SWEEP: Sweep = Sweep {
    begin: 8,
    end: 1 << 20,
    factor: 8,
    simulated: 256,
};
/// What gets step through, in bytes, and how far apart at least.
const STEPPED: usize = 8 << 20;
const APART: usize = 256;

fn sizes(b: &Bench) -> anyhow::Result<Vec<usize>> {
    let own = [b.options.begin, b.options.end, b.options.factor] == [None; 3];
    if own && !b.simulated {
        return Ok(SIZES.to_vec());
    }
    Ok(b.sizes(SWEEP, 4)?)
}

pub(crate) fn put(b: &Bench) -> anyhow::Result<()> {
    for scope in b.options.scopes(b.name, &SCOPES)? {
        let threads = b.threads_of(scope)?;
        for bytes in sizes(b)? {
            let len = bytes / 4;
            let (dst, src) = (b.pe.alloc::<u32>(len)?, b.pe.alloc::<u32>(len)?);
            b.fill(src.handle(), len)?;
            let (pe, dst_, src_) = (b.pe, &dst, &src);
            let seconds = b.seconds(2..=u32::MAX, |n| match (pe.id(), scope) {
                (0, Scope::Thread) => launch!(pe, put_quiet_by_thread<<<1, 1>>>(dst_, src_, 1, n)),
                (0, Scope::Warp) => launch!(pe, put_quiet_by_warp<<<1, 32>>>(dst_, src_, 1, n)),
                (0, _) => launch!(pe, put_quiet_by_block<<<1, threads>>>(dst_, src_, 1, n)),
                _ => Ok(()),
            })?;
            b.check_copy(b.pe.id() == 1, dst.handle(), 0, len)?;
            b.us("put_latency", &format!("putmem_quiet_{}", name(&scope)), bytes, seconds);
        }
    }
    Ok(())
}

pub(crate) fn get(b: &Bench) -> anyhow::Result<()> {
    for scope in b.options.scopes(b.name, &SCOPES)? {
        let threads = b.threads_of(scope)?;
        for bytes in sizes(b)? {
            // Places 256 bytes apart or more, and all of one content.
            let (len, stride) = (bytes / 4, bytes.next_multiple_of(APART) / 4);
            let slots = if b.simulated { 2 } else { (STEPPED / 4 / stride).max(2) };
            let (here, there) = (b.pe.alloc::<u32>(len)?, b.pe.alloc::<u32>(slots * stride)?);
            b.fill(there.handle(), stride)?;
            let (pe, here_, there_) = (b.pe, &here, &there);
            let stride = stride as u64;
            let seconds = b.seconds(2..=u32::MAX, |n| match (pe.id(), scope) {
                (0, Scope::Thread) => launch!(pe, get_by_thread<<<1, 1>>>(here_, there_, stride, 1, n)),
                (0, Scope::Warp) => launch!(pe, get_by_warp<<<1, 32>>>(here_, there_, stride, 1, n)),
                (0, _) => launch!(pe, get_by_block<<<1, threads>>>(here_, there_, stride, 1, n)),
                _ => Ok(()),
            })?;
            b.check_copy(b.pe.id() == 0, here.handle(), 1, len)?;
            b.us("get_latency", &format!("getmem_{}", name(&scope)), bytes, seconds);
        }
    }
    Ok(())
}

/// p and quiet.
pub(crate) fn p(b: &Bench) -> anyhow::Result<()> {
    let slots = b.pe.alloc::<u64>(1024)?;
    let seconds = b.seconds(4..=u32::MAX, |n| match b.pe.id() {
        0 => launch!(b.pe, p_then::<{ order::QUIET }><<<1, 1>>>(&slots, 1, n)),
        _ => Ok(()),
    })?;
    b.us("p_latency", "p_quiet_thread", 8, seconds);
    Ok(())
}

/// g: each brings the index of the next.
pub(crate) fn g(b: &Bench) -> anyhow::Result<()> {
    let links: u64 = if b.simulated { 8 } else { 16 << 10 };
    // 256 bytes apart.
    let step = 32;
    let (chain, last) = (b.pe.alloc::<u64>((links * step) as usize)?, b.pe.buffer::<u64>(1)?);
    let mut indices = vec![0; (links * step) as usize];
    for i in 0..links {
        indices[(i * step) as usize] = (i + 1) % links * step;
    }
    chain.write(&indices)?;
    let calls = std::cell::Cell::new(0);
    let seconds = b.seconds(4..=u32::MAX, |n| {
        calls.set(n);
        match b.pe.id() {
            0 => launch!(b.pe, g_chain<<<1, 1>>>(&chain, &last, 1, n)),
            _ => Ok(()),
        }
    })?;
    let wrong = b.pe.id() == 0 && last.read(0)? != u64::from(calls.get()) % links * step;
    b.judge(wrong.into())?;
    b.us("get_latency", "g_thread", 8, seconds);
    Ok(())
}
