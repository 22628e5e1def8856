//! What all lanes of a world share on the simulator's thread.

use crate::adapters::Adapters;
use crate::agree::Agreement;
use crate::check::Checker;
use crate::choices::Choices;
use crate::clock::{Clock, TICK_NS};
use crate::config::{Config, SimError};
use crate::cut::Cut;
use crate::failure::Failure;
use crate::memory::{Heaps, Memory};
use crate::net::{Effects, Network, Path};
use crate::stack::{Guard, StackPool};
use crate::timeline::Timeline;
use shmem::state::{DeviceState, MAX_PES, SystemArea};
use std::cell::{Cell, OnceCell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) memory: Rc<Memory>,
    pub(crate) net: Network,
    /// What carries operations to other nodes over [`Path::Ibgda`]; None over other paths.
    pub(crate) adapters: Option<Adapters>,
    pub(crate) choices: Rc<Choices>,
    pub(crate) stacks: RefCell<StackPool>,
    states: Box<[DeviceState]>,
    /// The PEs whose lanes run here.
    local: Range<u32>,
    switches: Cell<u64>,
    /// What a stretch of a lane takes.
    stretch_ns: u64,
    clock: Rc<Clock>,
    failure: Rc<OnceCell<Failure>>,
    pub(crate) check: Option<Rc<Checker>>,
    pub(crate) timeline: Option<Rc<Timeline>>,
    pub(crate) cut: Option<Cut>,
    pub(crate) agreement: Agreement,
    /// Lanes have run beside a host that did other things: its speed may have decided what they found.
    ran_beside_host: Cell<bool>,
    ending: Cell<bool>,
    damaged: Cell<bool>,
}

impl World {
    pub(crate) fn new(config: &Config, heaps: Arc<Heaps>) -> Result<Self, SimError> {
        let stacks = RefCell::new(StackPool::from_env()?);
        let area = SystemArea::new(config.pes);
        let mut peer_base = [0; MAX_PES];
        for pe in 0..config.pes {
            peer_base[pe as usize] = heaps.base(pe) as u64;
        }
        let (path, node_pes) = config.path_and_node()?;
        let adapters = Adapters::new(config, &heaps)?;
        // Adapters carry everything where nobody says what a node is.
        let alone = adapters.is_some() && config.node_pes.is_none();
        let states = (0..config.pes).map(|my_pe| {
            let node_start = my_pe / node_pes * node_pes;
            let node_size = node_pes.min(config.pes - node_start);
            let node = node_start..node_start + node_size;
            let mut peer_base = peer_base;
            if path != Path::LoadStore {
                let strangers = (0..config.pes).filter(|pe| !node.contains(pe));
                strangers.for_each(|pe| peer_base[pe as usize] = 0);
            }
            if alone {
                peer_base[my_pe as usize] = 0;
            }
            DeviceState {
                my_pe,
                n_pes: config.pes,
                heap_base: heaps.base(my_pe) as u64,
                heap_bytes: config.heap_bytes,
                fault: 0,
                time_limit_ns: config.time_limit.map_or(0, |limit| limit.as_nanos() as u64),
                world_sync: area.world_sync,
                node_sync: area.node_sync,
                node_start,
                node_size,
                places: 0,
                network: adapters.as_ref().map_or(0, |adapters| adapters.state(my_pe)),
                peer_base,
            }
        });
        let states = states.collect();
        let memory = Rc::new(Memory::new(Arc::clone(&heaps)));
        let failure = Rc::default();
        let place = Box::new(move |address| heaps.place(address));
        let check = config
            .checked()
            .then(|| Rc::new(Checker::new(config.seed, config.pes, &failure, place)));
        let (clock, choices) = (Rc::<Clock>::default(), Rc::new(Choices::new(config)));
        let timeline = Timeline::new(config, &clock);
        Ok(Self {
            seed: config.seed,
            net: Network::new(
                config,
                Effects::new(&memory, check.clone()),
                &clock,
                &choices,
                timeline.clone(),
            )?,
            choices,
            memory,
            stacks,
            states,
            adapters,
            local: config.local(),
            switches: Cell::new(0),
            stretch_ns: if config.model.is_some() { 0 } else { TICK_NS },
            clock,
            failure,
            check,
            timeline,
            cut: Cut::from_env()?,
            agreement: Agreement::default(),
            ran_beside_host: Cell::new(false),
            ending: Cell::new(false),
            damaged: Cell::new(false),
        })
    }

    /// Bytes at the start of each heap that are the library's own.
    pub(crate) fn system_bytes(&self) -> u64 {
        SystemArea::new(self.pes()).bytes
    }

    /// Whether an address lies in the library's words of a PE: barriers and the like wait there.
    pub(crate) fn is_barrier_word(&self, pe: u32, address: u64) -> bool {
        let offset = address.checked_sub(self.memory.heaps.base(pe) as u64);
        offset.is_some_and(|offset| offset < self.system_bytes())
    }

    pub(crate) fn pes(&self) -> u32 {
        self.states.len() as u32
    }

    pub(crate) fn local(&self) -> Range<u32> {
        self.local.clone()
    }

    /// Whether other processes run lanes of this world.
    pub(crate) fn has_others(&self) -> bool {
        self.local.len() < self.states.len()
    }

    pub(crate) fn state(&self, pe: u32) -> &DeviceState {
        &self.states[pe as usize]
    }

    /// Counts a switch to a lane.
    pub(crate) fn count_switch(&self) {
        self.switches.set(self.switches.get() + 1);
        self.clock.pass_ns(self.stretch_ns);
    }

    pub(crate) fn switches(&self) -> u64 {
        self.switches.get()
    }

    /// A look at the clock takes time, so that a loop that only does that ends.
    pub(crate) fn now_ns(&self) -> u64 {
        self.pass_ns(TICK_NS);
        self.clock.now_ns()
    }

    /// The time, looked at by nobody.
    pub(crate) fn time_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    pub(crate) fn pass_ns(&self, ns: u64) {
        self.clock.pass_ns(ns);
    }

    /// Lanes have run while a host did other things.
    pub(crate) fn lose_repeatability(&self) {
        self.ran_beside_host.set(true);
    }

    pub(crate) fn may_not_repeat(&self) -> bool {
        self.ran_beside_host.get()
    }

    /// Notes why the world fails; the first reason stays.
    pub(crate) fn fail(&self, failure: Failure) {
        let _ = self.failure.set(failure);
    }

    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.failure.get()
    }

    /// Lets the network adapters do something. What they write is news to lanes that wait, and what they find wrong fails the
    /// world. False where they have done nothing, or there are none.
    pub(crate) fn adapters_do(&self, what: impl FnOnce(&Adapters) -> bool) -> bool {
        let Some(adapters) = &self.adapters else {
            return false;
        };
        let done = what(adapters);
        if adapters.take_changed() {
            self.memory.expect_changes();
        }
        if let Some(failure) = adapters.take_failure() {
            self.fail(failure);
        }
        done
    }

    /// From now on lanes are resumed only to end.
    pub(crate) fn end(&self) {
        self.ending.set(true);
    }

    pub(crate) fn ending(&self) -> bool {
        self.ending.get()
    }

    /// A lane has written below its stack: no stack may be trusted, nor unwound.
    pub(crate) fn stacks_damaged(&self) {
        self.damaged.set(true);
    }

    pub(crate) fn damaged(&self) -> bool {
        self.damaged.get()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if !self.damaged() {
            std::mem::replace(self.stacks.get_mut(), StackPool::new(0, Guard::RedZone)).keep();
        }
    }
}
