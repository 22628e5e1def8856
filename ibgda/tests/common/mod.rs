//! What the tests share: a machine of emulated adapters, and PEs whose memory is the fabric's, driven as a kernel would.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]

use shmem_hca::{Config, Fabric, Memory as _, Place, Ram, Space};
use shmem_ibgda::memory::MemoryError;
use shmem_ibgda::{Blob, Calls, Emulated, Endpoint, IbgdaError, Link, Memory, QueueParts, Region, Request, Settings};
use shmem_mlx5::completion::{Kind, Tail};
use shmem_mlx5::{Index, Local, LocalKey, Post, QueuePair, QueueSize, Remote, RemoteKey, Unit, doorbell};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

pub const HEAP_BYTES: u64 = 1 << 16;
/// Where a PE's heap starts for entries.
pub const HEAP: u64 = 0x20_0000;

pub fn place(address: u64) -> Place {
    Place {
        space: Space(0),
        address,
    }
}

pub fn machine(adapters: usize, link: Link, seed: u64) -> Emulated<Ram> {
    let fabric = Arc::new(Mutex::new(Fabric::new(Ram::new(), Config::strict(seed))));
    Emulated::new(fabric, adapters, link)
}

pub fn fabric(machine: &Emulated<Ram>) -> MutexGuard<'_, Fabric<Ram>> {
    machine.fabric().lock().unwrap()
}

/// Memory of a PE: heap and queues, each piece at an address of its own.
pub fn allocate(machine: &Emulated<Ram>, next: &mut u64, bytes: u64, fill: u8) -> u64 {
    let address = *next;
    *next += bytes.next_multiple_of(4096) + 4096;
    let mut fabric = fabric(machine);
    fabric.memory_mut().add(place(address), bytes as usize);
    fabric
        .memory_mut()
        .write(place(address), &vec![fill; bytes as usize])
        .unwrap();
    address
}

pub struct Pe {
    pub endpoint: Endpoint,
    pub heap: u64,
    pub key: u32,
    next: u64,
}

impl Pe {
    pub fn open(
        machine: &Emulated<Ram>,
        calls: &dyn Calls,
        number: usize,
        settings: &Settings,
    ) -> Result<Self, IbgdaError> {
        let mut next = 0x7000_0000_0000 + number as u64 * 0x1_0000_0000;
        let mut endpoint = Endpoint::open(calls, settings)?;
        let heap = allocate(machine, &mut next, HEAP_BYTES, 0);
        let key = endpoint.add_memory(HEAP, HEAP_BYTES, &Memory::at(heap))?;
        Ok(Self {
            endpoint,
            heap,
            key,
            next,
        })
    }

    pub fn add_queues(
        &mut self,
        machine: &Emulated<Ram>,
        contexts: u32,
        pes: u32,
        log2: u32,
    ) -> Result<(), IbgdaError> {
        let next = &mut self.next;
        let mut memory = |request: &Request| -> Result<Region, MemoryError> {
            Ok(Region::at(allocate(machine, next, request.bytes, request.fill)))
        };
        self.endpoint.add_queues(contexts, pes, log2, &mut memory)
    }
}

/// PEs of a job, connected.
pub struct Job {
    pub machine: Emulated<Ram>,
    pub pes: Vec<Pe>,
    /// Blocks posted to each queue, by its number and record.
    posted: HashMap<(u32, u64), u64>,
}

impl Job {
    pub fn new(pes: u32, contexts: u32, link: Link, seed: u64) -> Self {
        Self::on(machine(pes as usize, link, seed), pes, contexts)
    }

    /// On a machine with an adapter for each PE.
    pub fn on(machine: Emulated<Ram>, pes: u32, contexts: u32) -> Self {
        Self::with(machine, pes, contexts, &Settings::default())
    }

    pub fn with(machine: Emulated<Ram>, pes: u32, contexts: u32, settings: &Settings) -> Self {
        let calls = machine.clone();
        let job = Self::through(machine, &calls, pes, contexts, settings).unwrap();
        assert_eq!(fabric(&job.machine).take_refusals(), []);
        job
    }

    /// With calls of another kind to the same machine.
    pub fn through(
        machine: Emulated<Ram>,
        calls: &dyn Calls,
        pes: u32,
        contexts: u32,
        settings: &Settings,
    ) -> Result<Self, IbgdaError> {
        let mut job = Self::apart(machine, calls, pes, contexts, settings)?;
        job.connect(|_| ())?;
        Ok(job)
    }

    /// With what PEs tell each other changed.
    pub fn changed(machine: Emulated<Ram>, pes: u32, change: impl FnOnce(&mut [Blob])) -> Self {
        let calls = machine.clone();
        let mut job = Self::apart(machine, &calls, pes, 1, &Settings::default()).unwrap();
        job.connect(change).unwrap();
        job
    }

    /// Not connected yet.
    fn apart(
        machine: Emulated<Ram>,
        calls: &dyn Calls,
        pes: u32,
        contexts: u32,
        settings: &Settings,
    ) -> Result<Self, IbgdaError> {
        let mut all = vec![];
        for i in 0..pes as usize {
            let settings = Settings {
                hca: Some(format!("mlx5_{i}")),
                ..settings.clone()
            };
            let mut pe = Pe::open(&machine, calls, i, &settings)?;
            pe.add_queues(&machine, contexts, pes, 4)?;
            all.push(pe);
        }
        Ok(Self {
            machine,
            posted: HashMap::new(),
            pes: all,
        })
    }

    fn connect(&mut self, change: impl FnOnce(&mut [Blob])) -> Result<(), IbgdaError> {
        let blobs = self.pes.iter().map(|pe| Blob::parse(&pe.endpoint.blob().to_bytes()));
        let mut blobs = blobs.collect::<Result<Vec<Blob>, _>>().unwrap();
        change(&mut blobs);
        for (i, pe) in self.pes.iter_mut().enumerate() {
            pe.endpoint.connect(i as u32, &blobs)?;
        }
        Ok(())
    }

    pub fn add_contexts(&mut self, contexts: u32) {
        let pes = self.pes.len() as u32;
        for pe in &mut self.pes {
            pe.add_queues(&self.machine, contexts, pes, 4).unwrap();
        }
        self.connect(|_| ()).unwrap();
    }

    pub fn parts(&self, from: usize, context: usize, to: usize) -> QueueParts {
        self.pes[from].endpoint.queues()[context * self.pes.len() + to]
    }

    pub fn remote(&self, pe: usize, offset: u64) -> Remote {
        Remote {
            address: HEAP + offset,
            key: RemoteKey(self.pes[pe].key),
        }
    }

    pub fn local(&self, pe: usize, offset: u64) -> Local {
        Local {
            address: HEAP + offset,
            key: LocalKey(self.pes[pe].key),
        }
    }

    /// Posts one entry, rings, and lets everything happen. Returns the completion's kind.
    pub fn post(&mut self, from: usize, context: usize, to: usize, entry: impl Fn(Post) -> Vec<Unit>) -> Option<Kind> {
        self.post_to(self.parts(from, context, to), entry)
    }

    pub fn post_to(&mut self, parts: QueueParts, entry: impl Fn(Post) -> Vec<Unit>) -> Option<Kind> {
        self.post_many(parts, &[&entry])
    }

    /// Posts several entries, rings once, and lets everything happen. Returns the kind of the last one's completion.
    pub fn post_many(&mut self, parts: QueueParts, entries: &[&dyn Fn(Post) -> Vec<Unit>]) -> Option<Kind> {
        let posted = self.posted.entry((parts.number, parts.record)).or_default();
        let size = QueueSize::from_log2(parts.log2 as u8).unwrap();
        let (mut index, mut register) = (Index::of(*posted), [0; 8]);
        let mut locked = fabric(&self.machine);
        for entry in entries {
            index = Index::of(*posted);
            let units = entry(Post::new(index, QueuePair::new(parts.number).unwrap()).signalled());
            for (i, unit) in units.iter().enumerate() {
                let at = parts.ring + size.offset_of_unit(index, i) as u64;
                locked.memory_mut().write(place(at), &unit.to_bytes()).unwrap();
            }
            *posted += u64::from(shmem_mlx5::unit::blocks(units.len()));
            register = doorbell::register(units[0]).to_be_bytes();
        }
        let word = doorbell::record(Index::of(*posted)).to_bytes();
        locked.memory_mut().write(place(parts.record), &word).unwrap();
        drop(locked);
        let intercepted = self.machine.store(parts.register, &register);
        let mut fabric = fabric(&self.machine);
        if !intercepted {
            fabric.memory_mut().write(place(parts.register), &register).unwrap();
            fabric.poll();
        }
        fabric.run();
        let mut bytes = [0; 64];
        fabric.memory().read(place(parts.completion), &mut bytes).unwrap();
        let tail = Tail::from_bytes(bytes[60..].try_into().unwrap());
        // A completion of an earlier entry is none of this one.
        (tail.index() == index).then(|| tail.kind()).flatten()
    }

    pub fn heap(&self, pe: usize, offset: u64, bytes: usize) -> Vec<u8> {
        self.memory(self.pes[pe].heap + offset, bytes)
    }

    pub fn memory(&self, address: u64, bytes: usize) -> Vec<u8> {
        let mut all = vec![0; bytes];
        fabric(&self.machine).memory().read(place(address), &mut all).unwrap();
        all
    }

    pub fn set_heap(&self, pe: usize, offset: u64, bytes: &[u8]) {
        let address = self.pes[pe].heap + offset;
        fabric(&self.machine).memory_mut().write(place(address), bytes).unwrap();
    }

    pub fn clean(&self) {
        assert_eq!(fabric(&self.machine).take_violations(), []);
        assert_eq!(fabric(&self.machine).take_refusals(), []);
    }
}
