//! Emulated network adapters, one for each PE: what carries a kernel's calls over [`Path::Ibgda`](crate::Path::Ibgda).
//!
//! Nothing here knows what a put is. A lane runs the code that a GPU would, which writes work queue entries and rings; the
//! adapters of `shmem-hca` do what the entries say, a seeded number of steps each time that lanes are switched, and as many
//! as it takes when no lane can run. What is wrong with an entry or doorbell fails the world.
//!
//! | file | what it holds |
//! |---|---|
//! | `setup` | adapters, queue pairs, and the tables that kernels read |
//! | `memory` | what adapters may read and write |
//! | `lane` | a lane that rings |

mod lane;
mod memory;
mod setup;

use crate::config::{Config, SimError};
use crate::failure::Failure;
use crate::memory::{Heaps, Mapping};
use crate::net::{Fault, Path};
use crate::rng::{Rng, below};
use memory::AdapterMemory;
use rustc_hash::FxHashMap;
use setup::{Made, Wanted};
use shmem::hook::{At, Watch};
use shmem::state::{COMPLETION, NetworkState, SendQueue};
use shmem_hca::{Fabric, Violation};
use shmem_ibgda::emulated::register_at;
use shmem_ibgda::{Emulated, Endpoint, Link};
use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::mem::offset_of;
use std::sync::{Arc, MutexGuard, PoisonError};

/// Bytes of a block, and of a completion.
const BLOCK: u64 = 64;
/// Where the word of a completion is that adapters write last.
const COMPLETION_TAIL: u64 = 60;
/// Label of the random sequence of steps.
const STEPS: u64 = 5;
/// Packets lost, in a million, in the worlds that lose any: eight losses in a row, which end a queue pair, don't happen.
const LOSS: u32 = 20_000;
/// Bytes of a packet at most, by world.
const MTU: [u32; 3] = [256, 1024, 4096];
/// Steps per switch of a warp, in eighths, by world.
const PACES: [usize; 5] = [1, 4, 16, 64, 512];
/// Steps while nothing else happens, at most, before lanes look again, by world.
const ALONE: [usize; 3] = [1, 3, 16];

/// Steps at once at a doorbell, at most, by world.
const EAGER: [usize; 3] = [1, 1, 32];

/// The adapters of a world.
pub(crate) struct Adapters {
    machine: Emulated<AdapterMemory>,
    /// What holds the queues: dropped with the world.
    _endpoints: Vec<Endpoint>,
    /// The memory of the queues, which kernels and adapters use.
    memory: Arc<Mapping>,
    /// The stores to it that are lost: PE, number. And how many each PE has made, where that matters.
    lost: Vec<(u32, u64)>,
    stores: RefCell<FxHashMap<u32, u64>>,
    /// By PE.
    states: Vec<u64>,
    /// By PE and number.
    queues: RefCell<FxHashMap<(u32, u32), Use>>,
    rng: Rng,
    pace: usize,
    alone: usize,
    eager: usize,
    /// There may be something to do.
    busy: Cell<bool>,
    failure: RefCell<Option<Failure>>,
}

/// What a queue pair is for.
struct Use {
    ctx: u32,
    to: u32,
    /// Where it was rung last.
    rung: Option<At>,
    /// Doorbells that were lost.
    unheard: u64,
    /// Why it has stopped, where that is not the kernel's fault.
    error: Option<String>,
}

fn fabric_of(machine: &Emulated<AdapterMemory>) -> MutexGuard<'_, Fabric<AdapterMemory>> {
    // Each of its functions leaves it whole, and one thread uses it.
    machine.fabric().lock().unwrap_or_else(PoisonError::into_inner)
}

/// The register that a lane has stored to.
#[derive(Clone, Copy)]
pub(crate) struct Doorbell {
    register: u64,
    value: u64,
    /// PE and number of the queue pair that it names.
    names: (u32, u32),
}

impl Adapters {
    /// None where load and store carries everything.
    pub(crate) fn new(config: &Config, heaps: &Arc<Heaps>) -> Result<Option<Self>, SimError> {
        let (path, node_pes) = config.path_and_node()?;
        if path != Path::Ibgda {
            return Ok(None);
        }
        config.check_adapters()?;
        let alone = config.node_pes.is_none();
        let rng = Rng::new(config.seed, &[STEPS]);
        let draw = |n| below(rng.next(), n);
        let loses = draw(4) == 0;
        let link = [Link::InfiniBand, Link::Ethernet][draw(2)];
        let fabric = shmem_hca::Config {
            loss: if loses { LOSS } else { 0 },
            mtu: MTU[draw(MTU.len())],
            ..shmem_hca::Config::strict(rng.next())
        };
        let (pace, steps_alone) = (PACES[draw(PACES.len())], ALONE[draw(ALONE.len())]);
        let eager = EAGER[draw(EAGER.len())];
        let Made {
            machine,
            endpoints,
            memory,
            states,
            queues,
        } = setup::make(
            heaps,
            &Wanted {
                contexts: config.contexts,
                log2: config.queue_blocks.ilog2(),
                crosses: &|from, to| alone || from / node_pes != to / node_pes,
                config: fabric,
                link,
            },
        )?;
        let queues = queues.into_iter().map(|(names, (ctx, to))| {
            let queue = Use {
                ctx,
                to,
                rung: None,
                unheard: 0,
                error: None,
            };
            (names, queue)
        });
        for fault in &config.faults {
            if let Fault::CutOff { pe, at: 0 } = *fault
                && let Some(adapter) = machine.adapter(pe as usize)
            {
                fabric_of(&machine).set_reachable(adapter, false);
            }
        }
        let lost = config.faults.iter().filter_map(|fault| match *fault {
            Fault::LoseStore { pe, at } => Some((pe, at)),
            _ => None,
        });
        Ok(Some(Self {
            machine,
            _endpoints: endpoints,
            memory,
            lost: lost.collect(),
            stores: RefCell::default(),
            states,
            queues: RefCell::new(queues.collect()),
            rng,
            pace,
            alone: steps_alone,
            eager,
            busy: Cell::new(false),
            failure: RefCell::default(),
        }))
    }

    /// Address of a PE's `NetworkState`.
    pub(crate) fn state(&self, pe: u32) -> u64 {
        self.states[pe as usize]
    }

    /// Whether a store of a PE's lane is one of those that are lost.
    pub(crate) fn loses(&self, pe: u32, address: u64) -> bool {
        if self.lost.is_empty() || !self.has(address) {
            return false;
        }
        let mut stores = self.stores.borrow_mut();
        let number = stores.entry(pe).or_default();
        *number += 1;
        self.lost.contains(&(pe, *number))
    }

    /// The word that decides, where a lane waits for a completion: what adapters write last of it.
    pub(crate) fn watched(&self, watch: Watch) -> Watch {
        if watch.bytes as usize != COMPLETION || !self.has(watch.address) {
            return watch;
        }
        // SAFETY: the address is that of a queue, which `setup` has made in memory that `self` keeps.
        let completion = unsafe { &*(watch.address as *const SendQueue) }.completion;
        Watch {
            address: completion + COMPLETION_TAIL,
            bytes: 4,
            ..watch
        }
    }

    /// Whether an address lies in the memory of queues.
    fn has(&self, address: u64) -> bool {
        let start = self.memory.start() as u64;
        (start..start + self.memory.bytes() as u64).contains(&address)
    }

    /// What a word is that a lane waits for, if it is one of the queues.
    pub(crate) fn describe(&self, address: u64) -> Option<String> {
        self.has(address).then(|| "its PE's network adapter".to_owned())
    }

    /// What kernels have written and not rung for, for reports.
    pub(crate) fn report(&self) -> String {
        let mut text = String::new();
        let queues = self.queues.borrow();
        let mut queues: Vec<_> = queues
            .iter()
            .map(|(&(pe, _), queue)| ((pe, queue.to, queue.ctx), queue))
            .collect();
        queues.sort_unstable_by_key(|(order, _)| *order);
        for ((pe, to, ctx), Use { unheard, error, .. }) in queues {
            let [next, rung] = self.positions(pe, ctx, to);
            let behind = next.wrapping_sub(rung);
            if behind > 0 {
                let _ = writeln!(
                    text,
                    "network, PE {pe} to PE {to}, context {ctx}: {behind} blocks were given out that the adapter was not told of"
                );
            }
            if let Some(error) = error {
                let _ = writeln!(
                    text,
                    "network, PE {pe} to PE {to}, context {ctx}: {error}; no call has looked since"
                );
            }
            if *unheard > 0 {
                let _ = writeln!(
                    text,
                    "network, PE {pe} to PE {to}, context {ctx}: the link is frozen: {unheard} doorbells were not heard"
                );
            }
        }
        text
    }

    /// Blocks given out, and blocks that the adapter was told of.
    fn positions(&self, pe: u32, ctx: u32, to: u32) -> [u64; 2] {
        // SAFETY: made by `setup`, in memory that `self` keeps.
        let table = unsafe { &*(self.states[pe as usize] as *const NetworkState) }.queues;
        let index = u64::from(ctx) * self.states.len() as u64 + u64::from(to);
        let queue = table + index * size_of::<SendQueue>() as u64;
        [offset_of!(SendQueue, next), offset_of!(SendQueue, rung)]
            // SAFETY: words of the queue.
            .map(|offset| unsafe { crate::memory::load(queue + offset as u64, 8) } as u64)
    }

    /// What a store to an address of a PE would ring; None where there is no register.
    pub(crate) fn doorbell(&self, pe: u32, register: u64, value: u64) -> Option<Doorbell> {
        let (adapter, ..) = register_at(register)?;
        if self.machine.adapter(pe as usize)?.number() != adapter {
            return None;
        }
        // Bytes 4 to 6 of what lies in memory.
        let number = u32::from_be_bytes(value.to_ne_bytes()[4..].try_into().ok()?) >> 8;
        Some(Doorbell {
            register,
            value,
            names: (pe, number),
        })
    }

    /// The PE at the other end of what is rung.
    pub(crate) fn target(&self, doorbell: &Doorbell) -> Option<u32> {
        self.queues.borrow().get(&doorbell.names).map(|queue| queue.to)
    }

    /// A lane rings: the adapter reads record and entries now.
    pub(crate) fn ring(&self, doorbell: &Doorbell, at: At) {
        if let Some(queue) = self.queues.borrow_mut().get_mut(&doorbell.names) {
            queue.rung = Some(at);
        }
        // It is one of the machine's.
        let _ = self.machine.store(doorbell.register, &doorbell.value.to_ne_bytes());
        self.busy.set(true);
        // It may be quicker than the lane's next call.
        let draw = self.rng.next();
        self.step(if draw.is_multiple_of(4) {
            below(draw, self.eager)
        } else {
            0
        });
    }

    /// A doorbell is lost.
    pub(crate) fn lose(&self, doorbell: &Doorbell) {
        if let Some(queue) = self.queues.borrow_mut().get_mut(&doorbell.names) {
            queue.unheard += 1;
        }
    }

    /// The adapter gives up what was posted to a queue pair.
    pub(crate) fn give_up(&self, doorbell: &Doorbell) {
        if let Some(queue) = self.queues.borrow_mut().get_mut(&doorbell.names) {
            let mut fabric = fabric_of(&self.machine);
            let (pe, number) = doorbell.names;
            let pairs = self
                .machine
                .adapter(pe as usize)
                .map(|adapter| fabric.queue_pairs_of(adapter));
            let pair = pairs.into_iter().flatten().find(|pair| pair.number() == number);
            if let Some(pair) = pair {
                // It is one of this fabric's.
                let _ = fabric.fail(pair);
            }
            queue.error = Some("the adapter gave up what was posted".to_owned());
            self.busy.set(true);
        }
    }

    /// From now on nothing reaches a PE's adapter, nor leaves it.
    pub(crate) fn cut_off(&self, pe: u32) {
        if let Some(adapter) = self.machine.adapter(pe as usize) {
            fabric_of(&self.machine).set_reachable(adapter, false);
        }
    }

    /// Some steps, while lanes run. Cheap where there is nothing to do.
    pub(crate) fn pass(&self) -> bool {
        if !self.busy.get() {
            return false;
        }
        let eighths = below(self.rng.next(), 2 * self.pace + 1);
        let more = below(self.rng.next(), 8) < eighths % 8;
        self.step(eighths / 8 + usize::from(more)) > 0
    }

    /// Some steps, where nothing else happens. False where there is nothing to do.
    pub(crate) fn go_on(&self) -> bool {
        self.busy.get() && self.step(1 + below(self.rng.next(), self.alone)) > 0
    }

    /// Everything that there is to do. False where there was nothing.
    pub(crate) fn drain(&self) -> bool {
        self.busy.get() && self.step(usize::MAX) > 0
    }

    /// Whether adapters have written to memory since this was last asked.
    pub(crate) fn take_changed(&self) -> bool {
        fabric_of(&self.machine).memory().take_changed()
    }

    /// What the adapters have found wrong.
    pub(crate) fn take_failure(&self) -> Option<Failure> {
        self.failure.borrow_mut().take()
    }

    fn step(&self, most: usize) -> usize {
        let mut fabric = fabric_of(&self.machine);
        let mut steps = 0;
        while steps < most {
            if fabric.step().is_none() {
                self.busy.set(false);
                break;
            }
            steps += 1;
        }
        self.look(&mut fabric);
        steps
    }

    /// Tells of what a kernel did wrong. A peer that is out of reach is no fault of the sender's, which learns of it by its
    /// completion.
    fn look(&self, fabric: &mut Fabric<AdapterMemory>) {
        let found = fabric.take_violations();
        let wrong = |violation: &&Violation| !matches!(violation.fault, shmem_hca::Fault::RetriesExceeded(_));
        for violation in found.iter().filter(|violation| !wrong(violation)) {
            let names = (violation.adapter as u32, violation.queue_pair);
            if let Some(queue) = self.queues.borrow_mut().get_mut(&names) {
                queue.error = Some(violation.fault.to_string());
            }
        }
        if let Some(violation) = found.iter().find(wrong)
            && self.failure.borrow().is_none()
        {
            let report = self.tell(violation);
            *self.failure.borrow_mut() = Some(Failure::Adapter { report });
        }
    }

    fn tell(&self, violation: &Violation) -> String {
        let Violation {
            adapter,
            queue_pair,
            index,
            fault,
        } = violation;
        let mut text = format!("the network adapter of PE {adapter}");
        let queues = self.queues.borrow();
        let found = queues.get(&(*adapter as u32, *queue_pair));
        if let Some(Use { ctx, to, .. }) = found {
            let _ = write!(text, ", context {ctx} to PE {to}");
        }
        let _ = write!(text, ", queue pair {queue_pair:#x}, entry {index:#06x}: {fault}");
        if let Some(Use { rung: Some(at), .. }) = found {
            let _ = write!(text, "; last rung by the call at {at}");
        }
        text
    }
}

#[cfg(test)]
mod tests;
