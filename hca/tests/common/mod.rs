//! What the tests share: PEs with memory, keys and queue pairs, driven through crate `shmem_mlx5` as a kernel would.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]

use shmem_hca::{
    Access, Adapter, CompletionQueueConfig, Config, Connection, Domain, Fabric, Memory, Page, Permissions, Place,
    QueuePairConfig, Ram, Space, Step,
};
use shmem_mlx5::completion::{Kind, Syndrome, Tail};
use shmem_mlx5::{Index, Local, LocalKey, Post, QueueSize, Remote, RemoteKey, Unit, doorbell};

/// Where each PE's memory starts for keys; in its space it starts elsewhere.
pub const HEAP: u64 = 0x7_0000_0000;
pub const HEAP_BYTES: usize = 1 << 16;
/// Where the heap is in the PE's space.
pub const BASE: u64 = 0x10_0000;
const QUEUES: u64 = 0x1000_0000;

pub struct Pe {
    pub adapter: Adapter,
    pub domain: Domain,
    pub page: Page,
    pub space: Space,
    /// Writes in order.
    pub strict: u32,
    /// Writes in any order.
    pub relaxed: u32,
}

/// The software side of a queue pair.
pub struct Queue {
    pub qp: shmem_hca::QueuePair,
    pub number: shmem_mlx5::QueuePair,
    pub pe: usize,
    pub to: usize,
    pub page: Page,
    pub size: QueueSize,
    pub start: Place,
    pub record: Place,
    pub completions: Place,
    pub completion_size: QueueSize,
    pub completion_record: Place,
    pub collapsed: bool,
    /// Position of the next entry.
    pub posted: u64,
    /// Up to here completions were seen.
    pub done: u64,
    /// Completions taken.
    pub taken: u64,
    last: Option<Unit>,
    /// Length of each entry that is not seen done, by its first block.
    lengths: std::collections::VecDeque<(u64, u16)>,
}

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub pes: usize,
    pub log2: u8,
    pub completions_log2: u8,
    pub collapsed: bool,
    pub access: Access,
    pub retries: u32,
    pub max_reads: u32,
    pub permissions: Permissions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            pes: 2,
            log2: 4,
            completions_log2: 4,
            collapsed: false,
            access: Access::ALL,
            retries: 7,
            max_reads: 4,
            permissions: Permissions::ALL,
        }
    }
}

pub struct Rig {
    pub fabric: Fabric<Ram>,
    pub pes: Vec<Pe>,
    /// `queues[from][to]`.
    pub queues: Vec<Vec<Queue>>,
}

pub fn place(space: u32, address: u64) -> Place {
    Place {
        space: Space(space),
        address,
    }
}

impl Rig {
    pub fn new(config: Config, options: Options) -> Self {
        let mut fabric = Fabric::new(Ram::new(), config);
        let pes: Vec<Pe> = (0..options.pes)
            .map(|i| {
                let adapter = fabric.add_adapter();
                let space = Space(i as u32);
                let memory = place(space.0, BASE);
                fabric.memory_mut().add(memory, HEAP_BYTES);
                let domain = fabric.add_domain(adapter).unwrap();
                let bytes = HEAP_BYTES as u64;
                let relaxed = Access {
                    relaxed_ordering: true,
                    ..options.access
                };
                Pe {
                    adapter,
                    domain,
                    page: fabric.add_page(adapter, None).unwrap(),
                    space,
                    strict: fabric
                        .add_key(domain, 0x11, HEAP, bytes, memory, options.access)
                        .unwrap(),
                    relaxed: fabric.add_key(domain, 0x22, HEAP, bytes, memory, relaxed).unwrap(),
                }
            })
            .collect();
        let mut queues: Vec<Vec<Queue>> = Vec::new();
        for (from, pe) in pes.iter().enumerate() {
            queues.push(
                (0..pes.len())
                    .map(|to| Self::queue(&mut fabric, pe, from, to, options))
                    .collect(),
            );
        }
        for queue in queues.iter().flatten() {
            let other = queues[queue.to][queue.pe].qp;
            fabric.init(queue.qp, options.permissions).unwrap();
            let connection = Connection {
                adapter: other.adapter(),
                queue_pair: other.number(),
                retries: options.retries,
                max_reads: options.max_reads,
            };
            fabric.ready_to_receive(queue.qp, connection).unwrap();
        }
        for queue in queues.iter().flatten() {
            fabric.ready_to_send(queue.qp).unwrap();
        }
        Self { fabric, pes, queues }
    }

    fn queue(fabric: &mut Fabric<Ram>, pe: &Pe, from: usize, to: usize, options: Options) -> Queue {
        let size = QueueSize::from_log2(options.log2).unwrap();
        let completion_size = QueueSize::from_log2(options.completions_log2).unwrap();
        let start = place(from as u32, QUEUES + to as u64 * 0x100_0000);
        let (completions, record) = (start.after(0x80_0000), start.after(0x40_0000));
        let completion_record = record.after(0x40);
        let memory = fabric.memory_mut();
        memory.add(start, size.bytes());
        memory.add(completions, completion_size.bytes());
        memory.add(record, 0x80);
        for slot in 0..u64::from(completion_size.count()) {
            memory
                .write(completions.after(slot * 64 + 63), &[shmem_mlx5::completion::INVALID])
                .unwrap();
        }
        let cq = fabric
            .add_completion_queue(
                pe.adapter,
                CompletionQueueConfig {
                    start: completions,
                    log2: options.completions_log2,
                    record: completion_record,
                    collapsed: options.collapsed,
                    ignore_overrun: options.collapsed,
                },
            )
            .unwrap();
        let qp = fabric
            .add_queue_pair(
                pe.adapter,
                QueuePairConfig {
                    domain: pe.domain,
                    page: pe.page,
                    start,
                    log2: options.log2,
                    record,
                    completions: cq,
                },
            )
            .unwrap();
        Queue {
            qp,
            number: shmem_mlx5::QueuePair::new(qp.number()).unwrap(),
            pe: from,
            to,
            page: pe.page,
            size,
            start,
            record,
            completions,
            completion_size,
            completion_record,
            collapsed: options.collapsed,
            posted: 0,
            done: 0,
            taken: 0,
            last: None,
            lengths: std::collections::VecDeque::new(),
        }
    }

    /// A place in a PE's heap, as its own entries name it.
    pub fn local(&self, pe: usize, offset: u64) -> Local {
        Local {
            address: HEAP + offset,
            key: LocalKey(self.pes[pe].strict),
        }
    }

    /// A place in a PE's heap, as others name it.
    pub fn remote(&self, pe: usize, offset: u64) -> Remote {
        Remote {
            address: HEAP + offset,
            key: RemoteKey(self.pes[pe].strict),
        }
    }

    pub fn remote_relaxed(&self, pe: usize, offset: u64) -> Remote {
        Remote {
            address: HEAP + offset,
            key: RemoteKey(self.pes[pe].relaxed),
        }
    }

    pub fn heap(&self, pe: usize, offset: u64, bytes: usize) -> Vec<u8> {
        let mut all = vec![0; bytes];
        self.fabric
            .memory()
            .read(place(pe as u32, BASE + offset), &mut all)
            .unwrap();
        all
    }

    pub fn set_heap(&mut self, pe: usize, offset: u64, bytes: &[u8]) {
        self.fabric
            .memory_mut()
            .write(place(pe as u32, BASE + offset), bytes)
            .unwrap();
    }

    /// What the next entry says of itself.
    pub fn next(&self, from: usize, to: usize) -> Post {
        let queue = &self.queues[from][to];
        Post::new(Index::of(queue.posted), queue.number)
    }

    /// Writes an entry to its place, without telling the adapter.
    pub fn write(&mut self, from: usize, to: usize, units: &[Unit]) {
        let queue = &mut self.queues[from][to];
        for (i, unit) in units.iter().enumerate() {
            let offset = queue.size.offset_of_unit(Index::of(queue.posted), i);
            self.fabric
                .memory_mut()
                .write(queue.start.after(offset as u64), &unit.to_bytes())
                .unwrap();
        }
        let blocks = shmem_mlx5::unit::blocks(units.len());
        queue.lengths.push_back((queue.posted, blocks));
        queue.posted += u64::from(blocks);
        queue.last = Some(units[0]);
    }

    pub fn write_record(&mut self, from: usize, to: usize) {
        let queue = &self.queues[from][to];
        let word = doorbell::record(Index::of(queue.posted)).to_bytes();
        let at = queue.record.after(doorbell::SEND_OFFSET as u64);
        self.fabric.memory_mut().write(at, &word).unwrap();
    }

    pub fn write_register(&mut self, from: usize, to: usize) {
        let queue = &self.queues[from][to];
        let value = doorbell::register(queue.last.unwrap()).to_be_bytes();
        self.fabric.store(queue.page, doorbell::REGISTER_OFFSET as u64, &value);
    }

    pub fn ring(&mut self, from: usize, to: usize) {
        self.write_record(from, to);
        self.write_register(from, to);
    }

    /// Posts one entry and rings.
    pub fn post(&mut self, from: usize, to: usize, units: &[Unit]) {
        self.write(from, to, units);
        self.ring(from, to);
    }

    /// Takes one completion, if there is one: its kind, the entry's first block, and what went wrong.
    pub fn take(&mut self, from: usize, to: usize) -> Option<(Kind, u64, Syndrome)> {
        let queue = &mut self.queues[from][to];
        assert!(!queue.collapsed);
        let slot = queue.taken & u64::from(queue.completion_size.count() - 1);
        let mut bytes = [0; 64];
        self.fabric
            .memory()
            .read(queue.completions.after(slot * 64), &mut bytes)
            .unwrap();
        let tail = Tail::from_bytes(bytes[60..].try_into().unwrap());
        let kind = tail.kind().unwrap();
        if kind == Kind::Invalid || tail.owner() != queue.completion_size.owner(queue.taken) {
            return None;
        }
        queue.taken += 1;
        let word = doorbell::completion_record(queue.taken).to_bytes();
        self.fabric.memory_mut().write(queue.completion_record, &word).unwrap();
        let position = tail.index().position_before(queue.posted);
        queue.advance(position);
        Some((kind, position, Syndrome::from_u8(bytes[55])))
    }

    /// Looks at a collapsed queue.
    pub fn look(&mut self, from: usize, to: usize) -> Option<Kind> {
        let queue = &mut self.queues[from][to];
        assert!(queue.collapsed);
        let mut bytes = [0; 4];
        self.fabric
            .memory()
            .read(queue.completions.after(60), &mut bytes)
            .unwrap();
        let tail = Tail::from_bytes(bytes);
        let kind = tail.kind().unwrap();
        if kind == Kind::Invalid {
            return None;
        }
        let position = tail.index().position_before(queue.posted);
        queue.advance(position);
        Some(kind)
    }

    /// Steps until a queue pair has `blocks` free.
    pub fn make_room(&mut self, from: usize, to: usize, blocks: u64) {
        loop {
            let queue = &self.queues[from][to];
            if queue.posted + blocks - queue.done <= u64::from(queue.size.count()) {
                return;
            }
            let idle = self.fabric.step().is_none();
            if self.queues[from][to].collapsed {
                self.look(from, to);
            } else if let Some((kind, ..)) = self.take(from, to) {
                assert_eq!(kind, Kind::Request);
                continue;
            }
            let queue = &self.queues[from][to];
            let free = queue.posted + blocks - queue.done <= u64::from(queue.size.count());
            assert!(
                !idle || free,
                "nothing to wait for: {:?}",
                self.fabric.take_violations()
            );
        }
    }

    pub fn step(&mut self) -> Option<Step> {
        self.fabric.step()
    }

    pub fn clean(&mut self) {
        let violations = self.fabric.take_violations();
        assert!(violations.is_empty(), "{}", violations[0]);
    }
}

impl Queue {
    /// The entry at `position` is done, and so are those before it.
    fn advance(&mut self, position: u64) {
        while let Some(&(first, blocks)) = self.lengths.front() {
            if first > position {
                break;
            }
            self.lengths.pop_front();
            self.done = first + u64::from(blocks);
        }
    }
}
