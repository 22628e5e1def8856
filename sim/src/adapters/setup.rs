//! Makes the adapters of a world, their queue pairs, and the tables that kernels read.

use super::memory::{AdapterMemory, place};
use crate::config::SimError;
use crate::memory::{Heaps, Mapping};
use shmem::state::{LANDING, NetworkState, SendQueue};
use shmem_hca::{
    Access, Adapter, CompletionQueueConfig, Config, Connection, Domain, Fabric, Page, Permissions, QueuePair,
    QueuePairConfig, SetupError,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of a block of a send queue, and of a completion.
const BLOCK: u64 = 64;
/// Bytes of a page of registers.
pub(super) const PAGE: u64 = 4096;
/// Where a queue pair's register is in its page.
const REGISTER: u64 = 0x800;
/// Where the send queue's 4 bytes are in a queue pair's record.
const SEND_RECORD: u64 = 4;
/// Tries after the first, as hosts set it up.
const RETRIES: u32 = 7;
/// Reads and atomics in flight.
const MAX_READS: u32 = 16;
/// Memory that the queues of a world may take: each block is written when they are made.
const MOST_BYTES: u64 = 4 << 30;

/// What an adapter needs to know of a world.
pub(super) struct Wanted<'a> {
    pub(super) contexts: u32,
    pub(super) log2: u32,
    /// Whether the network carries what a PE issues to another.
    pub(super) crosses: &'a dyn Fn(u32, u32) -> bool,
    pub(super) config: Config,
}

/// Adapters, and where things are.
pub(super) struct Made {
    pub(super) fabric: Fabric<AdapterMemory>,
    pub(super) memory: Arc<Mapping>,
    /// By PE.
    pub(super) adapters: Vec<Adapter>,
    /// By PE: its page of registers, and the page's address.
    pub(super) pages: Vec<(Page, u64)>,
    /// By PE: the address of its `NetworkState`.
    pub(super) states: Vec<u64>,
    /// By context, PE, and the PE at the other end.
    pub(super) queues: BTreeMap<(u32, u32, u32), QueuePair>,
}

/// Hands out addresses, upwards.
struct Layout(u64);

impl Layout {
    fn take(&mut self, bytes: u64, align: u64) -> u64 {
        let at = self.0.next_multiple_of(align);
        self.0 = at + bytes;
        at
    }
}

/// Where the memory of a PE's adapter is, as offsets.
struct Part {
    page: u64,
    state: u64,
    keys: u64,
    table: u64,
    /// By context and PE; None where no adapter is needed.
    queues: Vec<Option<Queue>>,
}

#[derive(Clone, Copy)]
struct Queue {
    ring: u64,
    /// The queue pair's record, and behind it that of its completion queue.
    record: u64,
    completion: u64,
    landing: u64,
    taken: u64,
}

fn part(layout: &mut Layout, pe: u32, pes: u32, wanted: &Wanted<'_>) -> Part {
    let blocks = 1u64 << wanted.log2;
    let table = size_of::<SendQueue>() as u64 * u64::from(wanted.contexts * pes);
    Part {
        page: layout.take(PAGE, PAGE),
        state: layout.take(size_of::<NetworkState>() as u64, BLOCK),
        keys: layout.take(4 * u64::from(pes), BLOCK),
        table: layout.take(table, 2 * BLOCK),
        queues: (0..wanted.contexts * pes)
            .map(|index| {
                (wanted.crosses)(pe, index % pes).then(|| Queue {
                    ring: layout.take(BLOCK * blocks, BLOCK),
                    record: layout.take(16, BLOCK),
                    completion: layout.take(BLOCK, BLOCK),
                    landing: layout.take(LANDING * (blocks + 1), LANDING),
                    taken: layout.take(4 * (blocks + 1), BLOCK),
                })
            })
            .collect(),
    }
}

fn unmade(error: &SetupError) -> SimError {
    SimError::Adapters {
        cause: error.to_string(),
    }
}

pub(super) fn make(heaps: &Arc<Heaps>, wanted: &Wanted<'_>) -> Result<Made, SimError> {
    let pes = heaps.pes();
    let queue = (2 * BLOCK + LANDING + 4) << wanted.log2;
    let count = (0..pes * pes).filter(|i| (wanted.crosses)(i / pes, i % pes)).count() as u64;
    let bytes = queue * count * u64::from(wanted.contexts);
    if bytes > MOST_BYTES {
        return Err(SimError::QueueMemory {
            bytes,
            most: MOST_BYTES,
            contexts: wanted.contexts,
            blocks: 1 << wanted.log2,
            count,
        });
    }
    let mut layout = Layout(0);
    let parts: Vec<Part> = (0..pes).map(|pe| part(&mut layout, pe, pes, wanted)).collect();
    let memory = Arc::new(Mapping::new(
        layout.0.max(1) as usize,
        "the queues of network adapters",
    )?);
    let fabric = Fabric::new(AdapterMemory::new(heaps, &memory), wanted.config);
    fill(fabric, heaps, memory, &parts, wanted).map_err(|error| unmade(&error))
}

fn fill(
    mut fabric: Fabric<AdapterMemory>,
    heaps: &Heaps,
    memory: Arc<Mapping>,
    parts: &[Part],
    wanted: &Wanted<'_>,
) -> Result<Made, SetupError> {
    let (pes, start) = (heaps.pes(), memory.start() as u64);
    let (mut adapters, mut pages, mut domains, mut keys) = (vec![], vec![], vec![], vec![]);
    for (pe, part) in (0..).zip(parts) {
        let adapter = fabric.add_adapter();
        let domain = fabric.add_domain(adapter)?;
        let heap = place(heaps.base(pe) as u64);
        keys.push(fabric.add_key(domain, 0, 0, heaps.bytes(), heap, Access::ALL)?);
        pages.push((fabric.add_page(adapter, None)?, start + part.page));
        adapters.push(adapter);
        domains.push(domain);
    }
    let mut queues = BTreeMap::new();
    for (pe, part) in (0..).zip(parts) {
        let landing_key = landing_key(&mut fabric, domains[pe as usize], &memory)?;
        for (index, queue) in (0..).zip(&part.queues) {
            let Some(queue) = queue.map(|queue| queue.behind(start)) else {
                continue;
            };
            let (ctx, to) = (index / pes, index % pes);
            let home = (adapters[pe as usize], domains[pe as usize], pages[pe as usize].0);
            let pair = queue_pair(&mut fabric, home, queue, wanted.log2)?;
            queues.insert((ctx, pe, to), pair);
            let register = pages[pe as usize].1 + REGISTER;
            let entry = SendQueue {
                ring: queue.ring,
                record: queue.record + SEND_RECORD,
                register,
                completion: queue.completion,
                landing: queue.landing,
                landing_at: queue.landing,
                taken: queue.taken,
                landing_key,
                number: pair.number(),
                log2: wanted.log2,
                // SAFETY: plain numbers.
                ..unsafe { std::mem::zeroed() }
            };
            let at = start + part.table + u64::from(index) * size_of::<SendQueue>() as u64;
            // SAFETY: inside the mapping, aligned by its layout, and nobody else knows of it yet.
            unsafe { (at as *mut SendQueue).write(entry) };
        }
        let state = NetworkState {
            queues: start + part.table,
            contexts: wanted.contexts,
            granule_log2: heaps.bytes().next_power_of_two().ilog2(),
            keys: start + part.keys,
            granules: 1,
        };
        // SAFETY: as above.
        unsafe {
            ((start + part.state) as *mut NetworkState).write(state);
            std::ptr::copy_nonoverlapping(keys.as_ptr(), (start + part.keys) as *mut u32, keys.len());
        }
    }
    for (&(ctx, from, to), &pair) in &queues {
        connect(&mut fabric, pair, adapters[to as usize], queues[&(ctx, to, from)])?;
    }
    Ok(Made {
        fabric,
        memory,
        adapters,
        pages,
        states: parts.iter().map(|part| start + part.state).collect(),
        queues,
    })
}

impl Queue {
    fn behind(self, start: u64) -> Self {
        Self {
            ring: start + self.ring,
            record: start + self.record,
            completion: start + self.completion,
            landing: start + self.landing,
            taken: start + self.taken,
        }
    }
}

/// Answers land anywhere in the queues' memory; nobody else may touch it.
fn landing_key(fabric: &mut Fabric<AdapterMemory>, domain: Domain, memory: &Mapping) -> Result<u32, SetupError> {
    let (start, bytes) = (memory.start() as u64, memory.bytes() as u64);
    let access = Access {
        local_write: true,
        ..Access::default()
    };
    fabric.add_key(domain, 0, start, bytes, place(start), access)
}

/// With a completion queue of its own, of one slot that is written again and again.
fn queue_pair(
    fabric: &mut Fabric<AdapterMemory>,
    (adapter, domain, page): (Adapter, Domain, Page),
    queue: Queue,
    log2: u32,
) -> Result<QueuePair, SetupError> {
    // SAFETY: inside the mapping; nobody else knows of it yet.
    unsafe { std::ptr::write_bytes(queue.completion as *mut u8, 0xff, BLOCK as usize) };
    let completions = fabric.add_completion_queue(
        adapter,
        CompletionQueueConfig {
            start: place(queue.completion),
            log2: 0,
            record: place(queue.record + 8),
            collapsed: true,
            ignore_overrun: true,
        },
    )?;
    fabric.add_queue_pair(
        adapter,
        QueuePairConfig {
            domain,
            page,
            start: place(queue.ring),
            log2: log2 as u8,
            record: place(queue.record),
            completions,
        },
    )
}

fn connect(
    fabric: &mut Fabric<AdapterMemory>,
    pair: QueuePair,
    adapter: Adapter,
    other: QueuePair,
) -> Result<(), SetupError> {
    let connection = Connection {
        adapter,
        queue_pair: other.number(),
        retries: RETRIES,
        max_reads: MAX_READS,
    };
    fabric.init(pair, Permissions::ALL)?;
    fabric.ready_to_receive(pair, connection)?;
    fabric.ready_to_send(pair)
}
