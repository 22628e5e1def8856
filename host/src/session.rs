//! A PE from the inside: its device, its streams, what it has dropped, and how it failed. One thread only.

use crate::Error;
use crate::LaunchConfig;
use crate::backend::{Device, Halt, Marker, Stopwatch, StreamId, Watch};
use crate::blocks::Blocks;
use crate::collective::Call;
use crate::graph::Recorded;
use crate::handles::Handles;
use crate::heap::Heap;
use crate::launch::Kernels;
use crate::shared::Shared;
use shmem::Serial;
use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::c_void;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How long a PE of a failed World waits for its kernels to see it, before it leaves the device as it is.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// Dropped blocks that one turn tells of: it has to fit into a message.
const DROPS: usize = 4096;

pub(crate) struct Session {
    /// Before the device, whose marks they hold.
    dropped: RefCell<Vec<Dropped>>,
    pub(crate) pe: u32,
    pub(crate) shared: Arc<Shared>,
    pub(crate) device: Box<dyn Device>,
    pub(crate) heap: RefCell<Heap>,
    pub(crate) handles: RefCell<Handles>,
    /// Of teams.
    pub(crate) blocks: RefCell<Blocks>,
    pub(crate) kernels: Kernels,
    /// A PE without a path of loads and stores to this one or back.
    pub(crate) beyond_reach: Option<u32>,
    /// The number of the next context; 0 is the default one.
    pub(crate) contexts: Cell<u32>,
    /// Buffers of this PE alone, so far.
    local: Cell<u64>,
    streams: RefCell<Vec<StreamState>>,
    /// The capture that is under way.
    pub(crate) capture: RefCell<Option<Recorded>>,
    /// The error that this PE returns from now on.
    error: OnceCell<Error>,
    closed: Cell<bool>,
}

#[derive(Default)]
struct StreamState {
    /// Launches since the stream was last seen idle.
    pending: u32,
    /// Their kernels, each once.
    kernels: Vec<Cow<'static, str>>,
    /// How often it was seen idle.
    drained: u64,
    /// It is a caller's.
    foreign: bool,
    /// No handle names it any more.
    unused: bool,
    /// Its slot may be used by a graph until this stream has drained once more: how often it had.
    lent_to: Option<(StreamId, u64)>,
}

impl StreamState {
    /// Nobody has it, and nothing is on it.
    fn is_free(&self) -> bool {
        self.unused && self.pending == 0
    }
}

/// Memory that was dropped, but that a stream may still use.
struct Dropped {
    memory: Memory,
    marks: Vec<Box<dyn Marker>>,
}

pub(crate) enum Memory {
    /// A block of the symmetric heap, by serial number.
    Symmetric(u64),
    /// Device memory, by address.
    Local(u64),
    /// Host memory, by address.
    Host(u64),
    /// The block of a team.
    Team(u32),
}

impl Session {
    #[track_caller]
    pub(crate) fn open(shared: Arc<Shared>, pe: u32) -> Result<Rc<Self>, Error> {
        let device = shared.platform.clone().open(pe)?;
        let heap = Heap::new(shared.pes(), shared.platform.heap_bytes());
        let handles = Handles::new(shared.serial(0).world(), pe, shared.pes());
        let session = Self {
            beyond_reach: shared.platform.beyond_reach(pe),
            pe,
            shared,
            device,
            heap: RefCell::new(heap),
            handles: RefCell::new(handles),
            blocks: RefCell::new(Blocks::new()),
            kernels: Kernels::default(),
            contexts: Cell::new(1),
            local: Cell::new(0),
            streams: RefCell::new(vec![StreamState::default()]),
            capture: RefCell::default(),
            dropped: RefCell::default(),
            error: OnceCell::new(),
            closed: Cell::new(false),
        };
        session.load_library();
        tracing::debug!(pe, "the library's kernels are loaded");
        // Nobody launches before everybody is ready: opening a device beside a kernel that waits could deadlock.
        session.meet(Call::Start, &Location::caller().into())?;
        Ok(Rc::new(session))
    }

    /// The error to return at once where the World has failed.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.error.get() {
            Some(error) => Err(error.clone()),
            None if self.shared.failed() => Err(self.world_failed()),
            None => Ok(()),
        }
    }

    /// This PE's error in a World that has failed.
    pub(crate) fn world_failed(&self) -> Error {
        let known = self.device.failure().or_else(|| {
            // Kernels learn of another process's failure from its kernels, before the news are here.
            self.shared.await_failure();
            self.shared.peer_failed()
        });
        self.fatal(known.unwrap_or_else(|| Error::PeerFailed {
            pe: self.pe,
            cause: "its kernels were ended".to_owned(),
        }))
    }

    /// Fails the World with this error, and returns what this PE failed with first.
    pub(crate) fn fatal(&self, mut error: Error) -> Error {
        if let Error::Device(fault) = &mut error
            && fault.kernel.is_empty()
        {
            fault.kernel = self.kernels_in_flight();
        }
        match &error {
            Error::PeerFailed { pe, cause } => self.shared.fail(*pe, cause.clone()),
            own => self.shared.fail(self.pe, own.to_string()),
        }
        self.error.get_or_init(|| error).clone()
    }

    /// Runs a wait of the device's. `what` names it where it does not end.
    pub(crate) fn watched<T>(
        &self,
        limit: Option<Duration>,
        what: &dyn Fn() -> String,
        wait: impl FnOnce(&Watch<'_>) -> Result<T, Halt>,
    ) -> Result<T, Error> {
        let watch = Watch {
            failed: &|| self.shared.failed(),
            limit,
        };
        self.shared
            .hold_up(self.pe, || wait(&watch))
            .map_err(|halt| match halt {
                Halt::WorldFailed => self.world_failed(),
                Halt::TimeLimit => {
                    let (limit, report) = (limit.unwrap_or_default(), String::new());
                    self.fatal(Error::TimeLimit {
                        pe: self.pe,
                        what: what(),
                        limit,
                        report,
                    })
                }
                Halt::Error(error) if error.is_fatal() => self.fatal(error),
                Halt::Error(error) => error,
            })
    }

    /// Waits until the stream has drained. The limit grows with what is on the stream, so that many short kernels in a
    /// row are not taken for one that hangs.
    pub(crate) fn wait(&self, stream: StreamId) -> Result<(), Error> {
        self.check()?;
        self.refuse_wait_in_capture(stream)?;
        let pending = self.streams.borrow()[stream.0].pending;
        let limit = self
            .shared
            .time_limit
            .map(|limit| limit.saturating_mul(pending.saturating_add(1)));
        let what = || {
            format!(
                "stream {} with {pending} launch(es) of {}",
                stream.0,
                self.kernels_in_flight()
            )
        };
        self.watched(limit, &what, |watch| self.device.wait(stream, watch))?;
        let state = &mut self.streams.borrow_mut()[stream.0];
        state.pending = 0;
        state.drained += 1;
        state.kernels.clear();
        Ok(())
    }

    /// The serial of the next buffer of this PE alone: PEs take turns in the numbers, so that each tells whose it is.
    pub(crate) fn local_serial(&self) -> Serial {
        let before = self.local.replace(self.local.get() + 1);
        let (pe, pes) = (u64::from(self.pe), u64::from(self.shared.pes()));
        self.shared.serial(before * pes + pe)
    }

    pub(crate) fn stopwatch(&self, stream: StreamId) -> Result<Box<dyn Stopwatch>, Error> {
        self.check()?;
        self.refuse_in_capture("Stream::timed")?;
        self.device.stopwatch(stream)
    }

    pub(crate) fn wait_all(&self) -> Result<(), Error> {
        let count = self.streams.borrow().len();
        (0..count).try_for_each(|stream| self.wait(StreamId(stream)))?;
        // A network's operations are only issued by then.
        if self.shared.platform.has_network() {
            self.launch(&LaunchConfig::new(1, 32), &shmem_device::order::quiet())?;
            self.wait(StreamId(0))?;
        }
        Ok(())
    }

    pub(crate) fn launched(&self, stream: StreamId, kernel: Cow<'static, str>) {
        let state = &mut self.streams.borrow_mut()[stream.0];
        state.pending = state.pending.saturating_add(1);
        // Mostly the very same text.
        let place = |name: &str| (name.as_ptr(), name.len());
        let same = |known: &Cow<'static, str>| place(known) == place(&kernel) || *known == kernel;
        if !state.kernels.iter().any(same) {
            state.kernels.push(kernel);
        }
    }

    /// Counts launches of kernels that [`launched`](Self::launched) has named.
    pub(crate) fn launched_more(&self, stream: StreamId, launches: u32) {
        let state = &mut self.streams.borrow_mut()[stream.0];
        state.pending = state.pending.saturating_add(launches);
    }

    /// How often the stream has been seen idle.
    pub(crate) fn drained(&self, stream: StreamId) -> u64 {
        self.streams.borrow()[stream.0].drained
    }

    /// Whether the stream has been seen idle since it was so for the `before`-th time.
    pub(crate) fn has_drained(&self, stream: StreamId, before: u64) -> bool {
        self.drained(stream) != before
    }

    fn kernels_in_flight(&self) -> String {
        let streams = self.streams.borrow();
        let mut names: Vec<_> = streams
            .iter()
            .flat_map(|stream| &stream.kernels)
            .map(AsRef::as_ref)
            .collect();
        names.sort_unstable();
        names.dedup();
        names.join(", ")
    }

    pub(crate) fn new_stream(&self) -> Result<StreamId, Error> {
        self.check()?;
        let mut streams = self.streams.borrow_mut();
        // One with work on it would order the new stream's work behind it.
        let free = |lent: &(StreamId, u64)| streams[lent.0.0].drained != lent.1;
        let idle = streams
            .iter()
            .position(|stream| stream.is_free() && !stream.foreign && stream.lent_to.as_ref().is_none_or(free));
        if let Some(id) = idle {
            streams[id].unused = false;
            streams[id].lent_to = None;
            return Ok(StreamId(id));
        }
        let id = self.device.new_stream()?;
        streams.push(StreamState::default());
        Ok(id)
    }

    /// A number for a caller's stream.
    ///
    /// # Safety
    /// `raw` is a live stream of the device's driver, until [`drop_stream`](Self::drop_stream).
    pub(crate) unsafe fn adopt_stream(&self, raw: *mut c_void) -> Result<StreamId, Error> {
        self.check()?;
        let mut streams = self.streams.borrow_mut();
        let place = streams.iter().position(|stream| stream.is_free() && stream.foreign);
        // SAFETY: the caller's.
        let id = unsafe { self.device.adopt_stream(raw, place.map(StreamId)) }?;
        if place.is_none() {
            streams.push(StreamState::default());
        }
        let state = &mut streams[id.0];
        (state.foreign, state.unused) = (true, false);
        Ok(id)
    }

    pub(crate) fn drop_stream(&self, stream: StreamId) {
        let state = &mut self.streams.borrow_mut()[stream.0];
        state.unused = true;
        if state.foreign {
            self.device.release_stream(stream);
        }
    }

    /// As [`drop_stream`](Self::drop_stream), for one whose slot a graph has that may still run on another stream.
    pub(crate) fn drop_stream_after(&self, stream: StreamId, lent_to: Option<(StreamId, u64)>) {
        self.streams.borrow_mut()[stream.0].lent_to = lent_to;
        self.drop_stream(stream);
    }

    /// Queues memory to be freed once everything now on the PE's streams has run.
    pub(crate) fn drop_memory(&self, memory: Memory) {
        if self.closed.get() || self.shared.failed() {
            return; // Goes with the World.
        }
        let streams = self.streams.borrow();
        let busy = (0..).zip(streams.iter()).filter(|(_, stream)| stream.pending > 0);
        let marks: Result<_, _> = busy.map(|(id, _)| self.device.mark(StreamId(id))).collect();
        // Where no mark can be made, nobody knows when the memory is free: it goes with the World.
        if let Ok(marks) = marks {
            self.dropped.borrow_mut().push(Dropped { memory, marks });
        }
    }

    /// Frees dropped device memory that no stream uses any more.
    pub(crate) fn sweep(&self) {
        for memory in self.take_unused(|memory| matches!(memory, Memory::Local(_) | Memory::Host(_))) {
            match memory {
                Memory::Local(address) => self.device.free(address),
                Memory::Host(address) => self.device.free_host(address),
                Memory::Symmetric(_) | Memory::Team(_) => {}
            }
        }
    }

    /// Dropped blocks of the symmetric heap that no stream uses any more.
    pub(crate) fn unused_blocks(&self) -> Vec<u64> {
        let unused = self.take_unused(|memory| matches!(memory, Memory::Symmetric(_)));
        unused
            .into_iter()
            .filter_map(|memory| {
                if let Memory::Symmetric(serial) = memory {
                    Some(serial)
                } else {
                    None
                }
            })
            .collect()
    }

    /// Notes the teams that were dropped and that no stream uses any more.
    pub(crate) fn sweep_teams(&self) {
        for memory in self.take_unused(|memory| matches!(memory, Memory::Team(_))) {
            if let Memory::Team(block) = memory {
                self.blocks.borrow_mut().drop_one(block);
            }
        }
    }

    fn take_unused(&self, wanted: impl Fn(&Memory) -> bool) -> Vec<Memory> {
        let unused = |dropped: &mut Dropped| wanted(&dropped.memory) && dropped.marks.iter().all(|mark| mark.reached());
        self.dropped
            .borrow_mut()
            .extract_if(.., unused)
            .take(DROPS)
            .map(|dropped| dropped.memory)
            .collect()
    }

    /// Drains the streams, and returns the error that nobody asked for yet.
    pub(crate) fn finish(&self) -> Result<(), Error> {
        let result = self
            .wait_all()
            .and_then(|()| self.device.settle().map_err(|error| self.fatal(error)));
        let watch = Watch {
            failed: &|| false,
            limit: Some(LAST_WAIT),
        };
        let drains = |stream| !matches!(self.device.wait(StreamId(stream), &watch), Err(Halt::TimeLimit));
        let drained = result.is_ok() || (0..self.streams.borrow().len()).all(drains);
        self.sweep();
        self.closed.set(true);
        self.device.close(drained);
        result.and_then(|()| self.check_leaks())
    }

    /// On the simulator, whose business is to find mistakes, a buffer that outlives its World is one.
    fn check_leaks(&self) -> Result<(), Error> {
        let left = self.handles.borrow().left();
        if self.shared.platform.name() != "sim" || left.is_empty() || self.shared.failed() {
            return Ok(());
        }
        Err(Error::Leaked { pe: self.pe, left })
    }
}
