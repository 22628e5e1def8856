//! A thread that is the emulated adapters: it looks at the registers that kernels write, and does what was posted.

use crate::{Error, NetworkCounters, NetworkError};
use shmem_hca::{Fabric, Pinned, Violation};
use shmem_ibgda::Endpoint;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Looks without news before other threads may run after each.
const SPINS: u32 = 1 << 12;
/// Looks without news before the thread sleeps after each: some 50 ms.
const YIELDS: u32 = 1 << 17;
const SLEEP: Duration = Duration::from_micros(50);

/// What the thread and the World tell each other.
struct State {
    stop: AtomicBool,
    failure: OnceLock<Error>,
    entries: AtomicU64,
    doorbells: AtomicU64,
}

/// The thread. Dropping the value ends it.
pub(super) struct Adapters {
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread needs to say which PEs a fault concerns, and to end their kernels.
pub(super) struct Known {
    abort: Vec<u64>,
    /// Numbers of queue pairs, by adapter: that of context `c` to PE `p` at `c * pes + p`.
    queues: Vec<Vec<u32>>,
    pes: u32,
}

impl Known {
    /// `abort`: the addresses of the PEs' abort words, in memory of the host that stays as long as the thread runs.
    pub(super) fn new(abort: Vec<u64>, endpoints: &[Endpoint], pes: u32) -> Self {
        let numbers = |endpoint: &Endpoint| endpoint.queues().iter().map(|parts| parts.number).collect();
        Self {
            abort,
            queues: endpoints.iter().map(numbers).collect(),
            pes,
        }
    }

    fn fault(&self, violation: &Violation) -> Error {
        let mut numbers = self.queues.get(violation.adapter).into_iter().flatten();
        let which = numbers.position(|number| *number == violation.queue_pair);
        let which = which.map_or(String::new(), |i| {
            let (context, peer) = (i as u32 / self.pes, i as u32 % self.pes);
            format!(" (context {context}, to PE {peer})")
        });
        Error::Adapter {
            report: format!("the emulated adapter of PE {}: {violation}{which}", violation.adapter),
        }
    }

    /// Kernels of every PE end at their next wait.
    fn abort(&self) {
        for word in &self.abort {
            let word = std::ptr::with_exposed_provenance_mut::<u32>(*word as usize);
            // SAFETY: aligned, and in memory that outlives the thread; kernels and the driver access it as a word.
            unsafe { AtomicU32::from_ptr(word) }.store(1, Ordering::Release);
        }
    }
}

impl Adapters {
    pub(super) fn start(fabric: Arc<Mutex<Fabric<Pinned>>>, known: Known) -> Result<Self, std::io::Error> {
        let state = Arc::new(State {
            stop: AtomicBool::new(false),
            failure: OnceLock::new(),
            entries: AtomicU64::new(0),
            doorbells: AtomicU64::new(0),
        });
        let shared = state.clone();
        let thread = thread::Builder::new()
            .name("network adapters".to_owned())
            .spawn(move || {
                let ended = catch_unwind(AssertUnwindSafe(|| serve(&fabric, &known, &shared)));
                if let Err(payload) = ended {
                    let cause = text(&*payload);
                    let _ = shared.failure.set(NetworkError::Ended { cause }.into());
                    known.abort();
                }
            })?;
        Ok(Self {
            state,
            thread: Some(thread),
        })
    }

    /// The first fault.
    pub(super) fn failure(&self) -> Option<Error> {
        self.state.failure.get().cloned()
    }

    pub(super) fn counters(&self) -> NetworkCounters {
        NetworkCounters {
            entries: self.state.entries.load(Ordering::Relaxed),
            doorbells: self.state.doorbells.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Adapters {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // It catches what it panics with.
            let _ = thread.join();
        }
    }
}

fn serve(fabric: &Mutex<Fabric<Pinned>>, known: &Known, state: &State) {
    let mut idle = 0u32;
    while !state.stop.load(Ordering::Acquire) {
        let (steps, counters, violations) = {
            let mut fabric = fabric.lock().unwrap_or_else(PoisonError::into_inner);
            (fabric.poll(), fabric.counters(), fabric.take_violations())
        };
        if let Some(first) = violations.first() {
            // The first one is kept: others follow from it.
            let _ = state.failure.set(known.fault(first));
            known.abort();
        }
        state.entries.store(counters.entries, Ordering::Relaxed);
        state.doorbells.store(counters.doorbells, Ordering::Relaxed);
        idle = if steps > 0 { 0 } else { idle.saturating_add(1) };
        match idle {
            ..SPINS => std::hint::spin_loop(),
            SPINS..YIELDS => thread::yield_now(),
            YIELDS.. => thread::sleep(SLEEP),
        }
    }
}

fn text(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or(payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("(a panic without text)").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use shmem_hca::{Config, Space};
    use shmem_ibgda::{Emulated, Link, Pages, QueueParts, Region, Request, Settings};
    use shmem_mlx5::{Index, Post, QueuePair, doorbell, entry};
    use std::alloc::{Layout, alloc_zeroed};
    use std::time::Instant;

    const BYTES: usize = 1 << 20;
    const PAGE: u64 = 4096;

    /// Memory that is given out piece by piece, and never given back.
    struct Memory(u64);

    impl Memory {
        fn new(fabric: &Mutex<Fabric<Pinned>>) -> Self {
            let layout = Layout::from_size_align(BYTES, PAGE as usize).unwrap();
            // SAFETY: the layout has bytes.
            let start = unsafe { alloc_zeroed(layout) };
            // SAFETY: it is leaked, and everybody uses atomics once the thread runs.
            let place = unsafe { fabric.lock().unwrap().memory_mut().add(Space(0), start, BYTES) };
            Self(place.address)
        }

        fn take(&mut self, bytes: u64, fill: u8) -> u64 {
            let at = self.0;
            let start = std::ptr::with_exposed_provenance_mut::<u8>(at as usize);
            // SAFETY: inside the memory, and nobody else knows of it.
            unsafe { start.write_bytes(fill, bytes as usize) };
            self.0 += bytes.next_multiple_of(PAGE);
            at
        }
    }

    fn word(address: u64) -> &'static AtomicU32 {
        // SAFETY: inside the leaked memory, aligned, and accessed by atomics only.
        unsafe { AtomicU32::from_ptr(std::ptr::with_exposed_provenance_mut(address as usize)) }
    }

    fn long(address: u64) -> &'static AtomicU64 {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(std::ptr::with_exposed_provenance_mut(address as usize)) }
    }

    /// Two PEs with two contexts each, their abort words, and the thread.
    fn start() -> (Vec<Endpoint>, [u64; 2], Adapters) {
        let fabric = Arc::new(Mutex::new(Fabric::new(Pinned::new(), Config::polled())));
        let mut memory = Memory::new(&fabric);
        let (abort, mut pages) = ([0; 2].map(|_: u8| memory.take(64, 0)), memory.take(8 * PAGE, 0));
        let next = move || {
            pages += PAGE;
            Some(pages - PAGE)
        };
        let machine = Emulated::new(fabric.clone(), 2, Link::Ethernet).with_pages(Arc::new(Mutex::new(next)));
        let mut endpoints: Vec<_> = (0..2)
            .map(|pe| {
                let settings = Settings {
                    hca: Some(format!("mlx5_{pe}")),
                    pages: Pages::Each,
                    ..Settings::default()
                };
                let mut endpoint = Endpoint::open(&machine, &settings).unwrap();
                let mut give = |request: &Request| Ok(Region::at(memory.take(request.bytes, request.fill)));
                endpoint.add_queues(2, 2, 4, &mut give).unwrap();
                endpoint
            })
            .collect();
        let blobs: Vec<_> = endpoints.iter().map(Endpoint::blob).collect();
        for (pe, endpoint) in (0..).zip(&mut endpoints) {
            endpoint.connect(pe, &blobs).unwrap();
        }
        let known = Known::new(abort.to_vec(), &endpoints, 2);
        (endpoints, abort, Adapters::start(fabric, known).unwrap())
    }

    #[track_caller]
    fn wait(what: impl Fn() -> bool) {
        let start = Instant::now();
        while !what() {
            assert!(start.elapsed() < Duration::from_mins(1), "it does not come");
            thread::yield_now();
        }
    }

    /// A no-op, as the first entry of the queue; `record` as the kernel writes it.
    fn post(queue: &QueueParts, record: u16) {
        let post = Post::new(Index::of(0), QueuePair::new(queue.number).unwrap()).signalled();
        let [unit] = entry::nop(post);
        for (i, half) in unit.as_long().into_iter().enumerate() {
            long(queue.ring + 8 * i as u64).store(half, Ordering::Relaxed);
        }
        word(queue.record).store(doorbell::record(Index::of(record.into())).raw(), Ordering::Release);
        long(queue.register).store(doorbell::register(unit).raw(), Ordering::Release);
    }

    #[test]
    fn what_is_posted_is_done_and_counted() {
        let (endpoints, abort, adapters) = start();
        let queue = &endpoints[1].queues()[2];
        post(queue, 1);
        wait(|| word(queue.completion + 60).load(Ordering::Acquire).to_be() >> 28 == 0);
        wait(|| adapters.counters().entries == 1);
        assert_eq!(adapters.counters().doorbells, 1);
        assert!(adapters.failure().is_none());
        drop(adapters);
        assert_eq!(abort.map(|at| word(at).load(Ordering::Relaxed)), [0, 0]);
    }

    #[test]
    fn a_fault_names_the_pes_and_ends_kernels() {
        let (endpoints, abort, adapters) = start();
        // Context 1 to PE 1, told of an entry that its record doesn't have.
        post(&endpoints[0].queues()[3], 0);
        wait(|| adapters.failure().is_some());
        let Some(Error::Adapter { report }) = adapters.failure() else {
            panic!("{:?}", adapters.failure());
        };
        for part in ["adapter of PE 0", "(context 1, to PE 1)", "record"] {
            assert!(report.contains(part), "no `{part}` in: {report}");
        }
        wait(|| abort.iter().all(|at| word(*at).load(Ordering::Acquire) == 1));
        drop(adapters);
    }
}
