//! One PE's adapter, from its choice to connected queue pairs.

use crate::blob::{Blob, ChunkKey};
use crate::calls::{Adapter, Calls, Device, Gid, Link, Object, Port, RegisterPage};
use crate::choice;
use crate::error::{BlobFault, IbgdaError};
use crate::memory::{Memory, Part, QueueMemory, Request};
use crate::settings::{Pages, Settings};
use shmem_mlx5::QueueSize;
use shmem_mlx5::cmd::capability::{self, Group, atomic, general, roce};
use shmem_mlx5::cmd::completion_queue::CreateCompletionQueue;
use shmem_mlx5::cmd::queue_pair::{self, CreateQueuePair, Mtu, ReadyToReceive, ReadyToSend, Route};
use shmem_mlx5::cmd::{self, Field};
use shmem_mlx5::doorbell::SEND_OFFSET;

/// Where a queue pair's parts are: all that a kernel needs to drive it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueParts {
    /// Its blocks of 64 bytes.
    pub ring: u64,
    /// The word of its record that is the send queue's.
    pub record: u64,
    /// The doorbell register, 8 bytes.
    pub register: u64,
    /// The 64 bytes to which all its completions go.
    pub completion: u64,
    /// Where answers land, as kernels read it: (2^`log2` + 1) slots of 64 bytes.
    pub landing: u64,
    /// The same, as entries name it.
    pub landing_at: u64,
    /// The key for that.
    pub landing_key: u32,
    /// Its number, which entries say.
    pub number: u32,
    /// Log2 of its blocks.
    pub log2: u32,
}

/// Bytes of a record's line: adapters read records, and each line that they read is one queue's own.
const RECORD_LINE: u64 = 64;
/// Bytes of a slot where an answer lands.
const LANDING_SLOT: u64 = 64;
/// What umems and keys are made of.
const PAGE: u64 = 4096;
/// Reads and atomics in flight that are wanted, as log2.
const LOG_READS: u8 = 4;
/// Tries after the first: the most that there is.
const RETRIES: u8 = 7;
/// Hops of RoCE packets.
const HOPS: u8 = 64;
/// The first source port of RoCE v2 packets; which one is taken spreads queue pairs over the paths of the network.
const UDP_PORTS: u16 = 0xc000;

struct Queue {
    parts: QueueParts,
    object: Object,
    connected: bool,
}

/// One PE's opened adapter, and what was made of it. Dropping it ends its queue pairs and keys; kernels that use them
/// must have ended.
pub struct Endpoint {
    device: Box<dyn Device>,
    adapter: Adapter,
    port: Port,
    gid: Gid,
    settings: Settings,
    domain: u32,
    event_queue: u8,
    can: Can,
    shared: Option<(RegisterPage, u64)>,
    pes: u32,
    queues: Vec<Queue>,
    parts: Vec<QueueParts>,
    chunks: Vec<ChunkKey>,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint")
            .field("adapter", &self.adapter.name)
            .field("port", &self.port.number)
            .field("gid", &self.gid)
            .field("queues", &self.parts)
            .field("chunks", &self.chunks)
            .finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Chooses an adapter and port, opens it, and checks that it can be driven by kernels.
    ///
    /// # Errors
    /// [`IbgdaError`]: what is missing, and what to do.
    pub fn open(calls: &dyn Calls, settings: &Settings) -> Result<Self, IbgdaError> {
        let mut adapters = calls.adapters()?;
        let (a, p) = choice::choose(&adapters, settings)?;
        let adapter = adapters.swap_remove(a);
        let port = adapter.ports[p].clone();
        let gid = choice::gid(&adapter.name, &port, settings.gid_index)?;
        choice::partition(&adapter.name, &port, settings.partition)?;
        let mut device = calls.open(&adapter.name)?;
        let can = Can::ask(&mut *device, &adapter.name, port.link)?;
        let domain = device.domain()?;
        let event_queue = device.event_queue()?;
        Ok(Self {
            device,
            adapter,
            port,
            gid,
            settings: settings.clone(),
            domain,
            event_queue,
            can,
            shared: None,
            pes: 0,
            queues: Vec::new(),
            parts: Vec::new(),
            chunks: Vec::new(),
        })
    }

    /// The adapter that was chosen.
    pub fn adapter(&self) -> &Adapter {
        &self.adapter
    }

    /// Its port.
    pub fn port(&self) -> &Port {
        &self.port
    }

    /// Registers a chunk of the symmetric heap, `bytes` at `memory`, which entries of this PE and of its peers name
    /// from `offset` on: its offset in the heap. Returns its key, for local and remote use: everything is allowed, and
    /// writes are in order. `offset` and the memory's address must lie equally far into a page of 4096 bytes. The
    /// memory stays as long as the endpoint does.
    ///
    /// # Errors
    /// [`IbgdaError::Size`], [`IbgdaError::Register`].
    pub fn add_memory(&mut self, offset: u64, bytes: u64, memory: &Memory) -> Result<u32, IbgdaError> {
        let end = offset.checked_add(bytes).filter(|_| bytes > 0);
        let Some(end) = end else {
            return Err(IbgdaError::Size {
                what: "a chunk's bytes",
                seen: bytes,
                expected: "1 to the end of the address space".into(),
            });
        };
        if !(offset ^ memory.address).is_multiple_of(PAGE) {
            return Err(IbgdaError::Size {
                what: "a chunk's offset",
                seen: offset,
                expected: format!(
                    "as far into a page of {PAGE} bytes as its address {:#x}",
                    memory.address
                ),
            });
        }
        if let Some(other) = self.chunks.iter().find(|c| offset < c.start + c.bytes && c.start < end) {
            return Err(IbgdaError::Size {
                what: "a chunk's offset",
                seen: offset,
                expected: format!("apart from the chunk at {:#x}, {:#x} bytes", other.start, other.bytes),
            });
        }
        let key = self.device.key(offset, memory, bytes)?;
        self.chunks.push(ChunkKey {
            start: offset,
            bytes,
            key,
        });
        Ok(key)
    }

    /// Makes queue pairs of 2^`log2` blocks: one for each of `contexts` further contexts and each of `pes` PEs, this
    /// one included. `memory` is asked once for each [`Part`], for all of these queues together, and filled by the
    /// caller as the request says.
    ///
    /// Where device memory can't be registered ([`IbgdaError::Register`]), the same call with pinned host memory that
    /// the device has mapped makes queues that work, and are slower.
    ///
    /// # Errors
    /// [`IbgdaError`]. What was made until then stays unused until the endpoint is dropped.
    pub fn add_queues(
        &mut self,
        contexts: u32,
        pes: u32,
        log2: u32,
        memory: &mut dyn QueueMemory,
    ) -> Result<(), IbgdaError> {
        if pes == 0 || self.pes != 0 && self.pes != pes {
            return Err(IbgdaError::Size {
                what: "number of PEs",
                seen: pes.into(),
                expected: match self.pes {
                    0 => "1 or more".into(),
                    pes => format!("{pes}, as in earlier contexts"),
                },
            });
        }
        let size = u8::try_from(log2).ok().and_then(QueueSize::from_log2);
        let Some(size) = size.filter(|size| size.log2() <= self.can.log_max_blocks) else {
            return Err(IbgdaError::Size {
                what: "log2 of a queue's blocks",
                seen: log2.into(),
                expected: format!("0 to {}", self.can.log_max_blocks.min(QueueSize::MAX_LOG2)),
            });
        };
        let count = u64::from(contexts) * u64::from(pes);
        let most = 1u64 << self.can.log_max_queue_pairs.min(24);
        if count + self.queues.len() as u64 > most {
            return Err(IbgdaError::Size {
                what: "queue pairs",
                seen: count + self.queues.len() as u64,
                expected: format!("at most {most}: fewer contexts"),
            });
        }
        if count == 0 {
            return Ok(());
        }
        let pieces = Pieces::make(&mut *self.device, memory, count, size)?;
        let mut made = Vec::new();
        for i in 0..count {
            made.push(self.queue(i, size, &pieces, memory)?);
        }
        self.pes = pes;
        self.parts.extend(made.iter().map(|queue| queue.parts));
        self.queues.extend(made);
        Ok(())
    }

    /// Queue `i` of those that `pieces` are for.
    fn queue(
        &mut self,
        i: u64,
        size: QueueSize,
        pieces: &Pieces,
        memory: &mut dyn QueueMemory,
    ) -> Result<Queue, IbgdaError> {
        let (page, mapped) = self.page(memory)?;
        let (ring, record) = (i * ring_bytes(size), i * 2 * RECORD_LINE);
        let completions = CreateCompletionQueue {
            log2: 0,
            page: page.number,
            event_queue: self.event_queue,
            memory: pieces.completion.number,
            offset: i * PAGE,
            record_memory: pieces.record.number,
            record_offset: record + RECORD_LINE,
            collapsed: true,
            ignore_overrun: true,
        };
        let (_, completions) = self.create(&completions.command())?;
        let queue = CreateQueuePair {
            domain: self.domain,
            page: page.number,
            completions,
            log2: size.log2(),
            memory: pieces.ring.number,
            offset: ring,
            record_memory: pieces.record.number,
            record_offset: record,
            timestamp_format: self.can.timestamp_format,
        };
        let (object, number) = self.create(&queue.command())?;
        let landing = i * landing_bytes(size);
        Ok(Queue {
            object,
            connected: false,
            parts: QueueParts {
                ring: pieces.ring.address + ring,
                record: pieces.record.address + record + SEND_OFFSET as u64,
                register: mapped + (page.register - page.address),
                completion: pieces.completion.address + i * PAGE,
                landing: pieces.landing.address + landing,
                landing_at: pieces.landing.start + landing,
                landing_key: pieces.landing.number,
                number,
                log2: size.log2().into(),
            },
        })
    }

    /// A page of registers, and where kernels have it.
    fn page(&mut self, memory: &mut dyn QueueMemory) -> Result<(RegisterPage, u64), IbgdaError> {
        if let Some(shared) = self.shared {
            return Ok(shared);
        }
        let page = self.device.page()?;
        let mapped = memory
            .map_registers(page.address, PAGE)
            .map_err(|cause| IbgdaError::Registers {
                address: page.address,
                cause,
            })?;
        if self.settings.pages == Pages::Shared {
            self.shared = Some((page, mapped));
        }
        Ok((page, mapped))
    }

    fn create(&mut self, command: &[u8]) -> Result<(Object, u32), IbgdaError> {
        let mut answer = [0; cmd::ANSWER_BYTES];
        let object = self.device.create(command, &mut answer)?;
        Ok((object, cmd::NUMBER.get(&answer) as u32))
    }

    /// What peers need to know of this PE's adapter, once its chunks and queues are added: [`Blob::to_bytes`] of it
    /// goes through the bootstrap.
    pub fn blob(&self) -> Blob {
        Blob {
            ethernet: self.port.link == Link::Ethernet,
            lid: self.port.lid,
            gid: self.gid.bytes,
            mtu: self.port.mtu as u8,
            log_reads: self.can.log_reads,
            pes: self.pes,
            numbers: self.parts.iter().map(|parts| parts.number).collect(),
            chunks: self.chunks.clone(),
        }
    }

    /// Connects what is not connected yet: of each context, the queue pair to PE `p` with that PE's queue pair to this
    /// one, `me`. `blobs` are those of all PEs, in their order. A barrier of all PEs must follow before a kernel posts:
    /// until then a peer may not take requests.
    ///
    /// # Errors
    /// [`IbgdaError`].
    pub fn connect(&mut self, me: u32, blobs: &[Blob]) -> Result<(), IbgdaError> {
        if blobs.len() as u64 != u64::from(self.pes) || me >= self.pes {
            return Err(IbgdaError::Size {
                what: "blobs",
                seen: blobs.len() as u64,
                expected: format!("one of each of {} PEs, with this PE, {me}, among them", self.pes),
            });
        }
        let contexts = self.queues.len() / blobs.len().max(1);
        for (pe, blob) in blobs.iter().enumerate() {
            self.agrees(pe as u32, blob)?;
            let mut mac = None;
            for context in 0..contexts {
                let at = context * blobs.len();
                if self.queues[at + pe].connected {
                    continue;
                }
                let remote = blob.numbers[at + me as usize];
                self.connect_one(at + pe, remote, blob, &mut mac)?;
                self.queues[at + pe].connected = true;
            }
        }
        Ok(())
    }

    /// Whether a peer's blob fits: same network, same queues.
    fn agrees(&self, pe: u32, blob: &Blob) -> Result<(), IbgdaError> {
        let fault = |what, seen: u64, expected: u64| IbgdaError::Blob {
            pe,
            cause: BlobFault::Number {
                what,
                seen,
                expected: expected.to_string(),
            },
        };
        if blob.link() != self.port.link {
            return Err(IbgdaError::OtherNetwork {
                pe,
                theirs: format!("{:?}", blob.link()),
                ours: format!("{:?}", self.port.link),
            });
        }
        if blob.pes != self.pes {
            return Err(fault("PEs", blob.pes.into(), self.pes.into()));
        }
        if blob.numbers.len() != self.queues.len() {
            return Err(fault(
                "queue pairs",
                blob.numbers.len() as u64,
                self.queues.len() as u64,
            ));
        }
        Ok(())
    }

    fn connect_one(
        &mut self,
        at: usize,
        remote: u32,
        blob: &Blob,
        mac: &mut Option<[u8; 6]>,
    ) -> Result<(), IbgdaError> {
        let (object, number) = (self.queues[at].object, self.queues[at].parts.number);
        let port = self.port.number;
        let route = self.route(number, remote, blob, mac)?;
        let to_init = queue_pair::init(number, port, self.settings.partition);
        let to_receive = ReadyToReceive {
            number,
            remote,
            port,
            mtu: smaller(self.port.mtu, blob.mtu),
            log_reads: self.can.log_reads,
            route,
        };
        let to_send = ReadyToSend {
            number,
            // No more than the other end takes.
            log_reads: self.can.log_reads.min(blob.log_reads),
            retries: RETRIES,
            ack_timeout: self.settings.ack_timeout,
        };
        for command in [to_init, to_receive.command(), to_send.command()] {
            self.device.modify(object, &command, &mut [0; cmd::ANSWER_BYTES])?;
        }
        Ok(())
    }

    /// How packets reach a peer. `mac` is what its address was resolved to before.
    fn route(&mut self, number: u32, remote: u32, blob: &Blob, mac: &mut Option<[u8; 6]>) -> Result<Route, IbgdaError> {
        let service_level = self.settings.service_level;
        if self.port.link == Link::InfiniBand {
            let same_subnet = blob.gid[..8] == self.gid.bytes[..8];
            return Ok(if same_subnet {
                Route::InfiniBand {
                    lid: blob.lid,
                    service_level,
                }
            } else {
                Route::InfiniBandRouted {
                    lid: blob.lid,
                    service_level,
                    gid: blob.gid,
                    gid_index: self.gid.index,
                    hop_limit: HOPS,
                }
            });
        }
        let mac = match *mac {
            Some(mac) => mac,
            None => *mac.insert(self.device.neighbour(self.port.number, self.gid.index, blob.gid)?),
        };
        Ok(Route::Roce {
            gid: blob.gid,
            mac,
            gid_index: self.gid.index,
            hop_limit: HOPS,
            traffic_class: self.settings.traffic_class,
            udp_source_port: UDP_PORTS | (number.wrapping_mul(0x9e37) ^ remote.wrapping_mul(0x79b9)) as u16 & 0x3fff,
        })
    }

    /// The queue pairs: that of context `c` to PE `p` at `c * pes + p`.
    pub fn queues(&self) -> &[QueueParts] {
        &self.parts
    }

    /// The chunks, in the order in which they were added.
    pub fn chunks(&self) -> &[ChunkKey] {
        &self.chunks
    }
}

/// Bytes from one ring to the next: firmware wants a queue to start at a page of its umem, completion queues too.
fn ring_bytes(size: QueueSize) -> u64 {
    (size.bytes() as u64).next_multiple_of(PAGE)
}

fn landing_bytes(size: QueueSize) -> u64 {
    (u64::from(size.count()) + 1) * LANDING_SLOT
}

fn smaller(ours: Mtu, theirs: u8) -> Mtu {
    let all = [
        Mtu::Bytes256,
        Mtu::Bytes512,
        Mtu::Bytes1024,
        Mtu::Bytes2048,
        Mtu::Bytes4096,
    ];
    let theirs = all.into_iter().find(|&mtu| mtu as u8 == theirs).unwrap_or(ours);
    if (theirs as u8) < ours as u8 { theirs } else { ours }
}

/// Memory that is registered: where kernels see it, where entries name it, and the number of its umem or key.
struct Piece {
    address: u64,
    start: u64,
    number: u32,
}

/// What queues are made of.
struct Pieces {
    ring: Piece,
    record: Piece,
    completion: Piece,
    landing: Piece,
}

impl Pieces {
    fn make(
        device: &mut dyn Device,
        memory: &mut dyn QueueMemory,
        count: u64,
        size: QueueSize,
    ) -> Result<Self, IbgdaError> {
        let mut piece = |part, each: u64, fill| {
            let request = Request {
                part,
                bytes: (count * each).next_multiple_of(PAGE),
                align: PAGE,
                fill,
            };
            let region = memory.allocate(&request).map_err(|cause| IbgdaError::Memory {
                part,
                bytes: request.bytes,
                cause,
            })?;
            for address in [region.address, region.memory.address] {
                if !address.is_multiple_of(PAGE) {
                    return Err(IbgdaError::Alignment {
                        part,
                        address,
                        align: PAGE,
                    });
                }
            }
            let (start, memory) = (region.memory.address, &region.memory);
            let number = if part == Part::Landing {
                device.key(start, memory, request.bytes)?
            } else {
                device.umem(memory, request.bytes)?
            };
            Ok(Piece {
                address: region.address,
                start,
                number,
            })
        };
        Ok(Self {
            ring: piece(Part::Ring, ring_bytes(size), 0)?,
            record: piece(Part::Record, 2 * RECORD_LINE, 0)?,
            completion: piece(Part::Completion, PAGE, 0xff)?,
            landing: piece(Part::Landing, landing_bytes(size), 0)?,
        })
    }
}

/// What the adapter can do, as far as the set-up asks.
struct Can {
    log_max_blocks: u8,
    log_max_queue_pairs: u8,
    log_reads: u8,
    timestamp_format: u8,
}

impl Can {
    fn ask(device: &mut dyn Device, adapter: &str, link: Link) -> Result<Self, IbgdaError> {
        let mut ask = |group| {
            let mut answer = [0; capability::ANSWER_BYTES];
            device.query(&capability::query(group), &mut answer)?;
            Ok::<_, IbgdaError>(answer)
        };
        let (general_caps, atomic_caps) = (ask(Group::General)?, ask(Group::Atomic)?);
        let get = |field: Field| field.get(&general_caps);
        let need = |what, seen: u64, good: bool, expected, advice| {
            if good {
                return Ok(());
            }
            Err(IbgdaError::Capability {
                adapter: adapter.into(),
                what,
                seen,
                expected,
                advice,
            })
        };
        let update = "update the firmware (`mlxfwmanager`)";
        let seen = get(general::ATOMIC);
        need("support of atomics", seen, seen == 1, "1", update)?;
        let seen = atomic::OPERATIONS.get(&atomic_caps);
        need(
            "set of atomic operations",
            seen,
            seen & 0xf == 0xf,
            "0xf: with the masked ones",
            update,
        )?;
        let seen = atomic::SIZES.get(&atomic_caps);
        need(
            "set of atomic sizes",
            seen,
            seen & 0xc == 0xc,
            "12: 4 and 8 bytes",
            update,
        )?;
        let seen = atomic::NATIVE_8_BYTES.get(&atomic_caps);
        let host = "Linux' mlx5_core sets it where the firmware can; update both";
        need("byte order of atomic answers", seen, seen == 1, "1: the host's", host)?;
        let seen = get(general::LOG_MAX_MESSAGE);
        need("log2 of the longest message", seen, seen >= 30, "30", update)?;
        let mut timestamps = 0;
        if link == Link::Ethernet {
            let seen = get(general::ROCE);
            let advice = "enable RoCE (`devlink dev param set pci/.. name enable_roce value true cmode driverinit`, then reload)";
            need("support of RoCE", seen, seen == 1, "1", advice)?;
            timestamps = roce::TIMESTAMP_FORMATS.get(&ask(Group::Roce)?);
        }
        let reads = get(general::LOG_MAX_READS_SENDER).min(get(general::LOG_MAX_READS_TARGET));
        Ok(Self {
            log_max_blocks: get(general::LOG_MAX_QP_SIZE) as u8,
            log_max_queue_pairs: get(general::LOG_MAX_QP) as u8,
            log_reads: LOG_READS.min(reads as u8),
            // 1 is the adapter's default; one with a free-running clock only has no default but that.
            timestamp_format: u8::from(timestamps != 0),
        })
    }
}
