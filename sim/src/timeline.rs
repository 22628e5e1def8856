//! What kernels did and when, as a trace file.
//!
//! Each PE has a track for each stream, with its kernels; one for each lane that leads a call, with the calls; and one for
//! what lands on it. Arrows lead from calls to landings. Where nobody asks for the file, a world has no [`Timeline`].
//!
//! Simulated time stands still while a lane runs: what it does at one time is shown one nanosecond after the other, so that
//! slices nest strictly.

use crate::clock::Clock;
use crate::config::Config;
use crate::failure::triple;
use crate::kernel::Kernel;
use crate::lane::Lane;
use crate::trace::{Arg, Trace, TrackId};
use rustc_hash::FxHashMap;
use shmem::hook::{At, Group, Watch};
use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;

/// Slices that a file has at most: what comes later is left out.
const MOST: usize = 2_000_000;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Line {
    Kernels {
        stream: u32,
    },
    Lane {
        stream: u32,
        block: u32,
        thread: u32,
    },
    /// What lands: as many lines as it takes for slices not to overlap.
    Arrivals {
        line: u32,
    },
}

struct Track {
    pe: u32,
    line: Line,
    /// The first time that is free.
    next: u64,
    /// Slices that have begun and not ended, the outermost first.
    open: Vec<Slice>,
    /// A wait that may go on.
    wait: Option<Waiting>,
}

struct Waiting {
    begin: u64,
    last: u64,
    at: At,
    watch: Watch,
    name: &'static str,
}

struct Slice {
    track: usize,
    name: &'static str,
    begin: u64,
    end: u64,
    at: Option<At>,
    detail: Detail,
}

/// What else there is to tell of a slice.
pub(crate) enum Detail {
    None,
    /// A kernel's or a block's.
    Kernel(Kernel),
    /// An operation on another PE's memory.
    Reach {
        pe: u32,
        bytes: u64,
    },
    Wait(Watch),
}

/// Parts of one call that have landed: of all lanes of its tile, from the first to the last.
struct Landings {
    of: Landing,
    begin: u64,
    end: u64,
    parts: u32,
    bytes: u64,
    track: usize,
}

/// The PE and the issuer, the block, the line and the operation, which of the calls there.
type CallKey = ((u32, u32), [u32; 3], (usize, &'static str), u32);
/// A lane's track, and the time there.
type Point = (usize, u64);

fn place(at: At) -> usize {
    std::ptr::from_ref(at).addr()
}

struct Arrow {
    name: &'static str,
    from: Point,
    /// Which landing, and when.
    to: (usize, u64),
}

#[derive(Default)]
struct Events {
    tracks: Vec<Track>,
    index: FxHashMap<(u32, Line), usize>,
    slices: Vec<Slice>,
    /// How often a lane has made a call at a line, and the number of the one that it makes now.
    calls: FxHashMap<((u32, Line), usize), u32>,
    now: FxHashMap<(u32, Line), u32>,
    /// Operations under way, by number: from where, and in which call.
    under_way: FxHashMap<u64, (Option<Point>, u32)>,
    landed: FxHashMap<CallKey, usize>,
    landings: Vec<Landings>,
    arrows: Vec<Arrow>,
}

pub(crate) struct Timeline {
    file: PathBuf,
    clock: Rc<Clock>,
    /// Times are those of a model.
    modelled: bool,
    events: RefCell<Events>,
    written: Cell<bool>,
}

/// A slice that ends when this is dropped.
pub(crate) struct Span<'a>(Option<(&'a Timeline, usize)>);

impl Span<'_> {
    /// Leaves the end to whoever calls `Timeline::end` with the track.
    pub(crate) fn keep(self) -> Option<usize> {
        let track = self.0.map(|(_, track)| track);
        std::mem::forget(self);
        track
    }
}

impl Drop for Span<'_> {
    fn drop(&mut self) {
        if let Some((timeline, track)) = self.0 {
            timeline.end(track);
        }
    }
}

impl Events {
    fn track(&mut self, pe: u32, line: Line) -> usize {
        let Self { tracks, index, .. } = self;
        *index.entry((pe, line)).or_insert_with(|| {
            tracks.push(Track {
                pe,
                line,
                next: 0,
                open: Vec::new(),
                wait: None,
            });
            tracks.len() - 1
        })
    }

    /// A time of its own on the track.
    fn stamp(&mut self, track: usize, now_ns: u64) -> u64 {
        let track = &mut self.tracks[track];
        let at = now_ns.max(track.next);
        track.next = at + 1;
        at
    }

    fn add(&mut self, slice: Slice) {
        if self.slices.len() < MOST {
            self.slices.push(slice);
        }
    }

    /// Ends the wait of a track: it has gone on since its last look.
    fn end_wait(&mut self, track: usize) {
        if let Some(wait) = self.tracks[track].wait.take() {
            let end = self.stamp(track, wait.last);
            self.add(Slice {
                track,
                name: wait.name,
                begin: wait.begin,
                end,
                at: Some(wait.at),
                detail: Detail::Wait(wait.watch),
            });
        }
    }

    fn begin(&mut self, track: usize, now_ns: u64, name: &'static str, at: Option<At>, detail: Detail) {
        self.end_wait(track);
        let begin = self.stamp(track, now_ns);
        self.tracks[track].open.push(Slice {
            track,
            name,
            begin,
            end: begin,
            at,
            detail,
        });
    }

    fn end(&mut self, track: usize, now_ns: u64) {
        self.end_wait(track);
        let end = self.stamp(track, now_ns);
        if let Some(slice) = self.tracks[track].open.pop() {
            self.add(Slice { end, ..slice });
        }
    }
}

/// A landing is shown so much later at most, rather than on a line of its own.
const NUDGE_NS: u64 = 64;

impl Events {
    /// Gives each landing a track on which it overlaps with no other.
    fn lay_out_landings(&mut self) {
        let mut landings = std::mem::take(&mut self.landings);
        let mut order: Vec<usize> = (0..landings.len()).collect();
        order.sort_by_key(|&i| (landings[i].of.pe, landings[i].begin));
        let (mut pe, mut lines): (_, Vec<u64>) = (None, Vec::new());
        for i in order {
            let landing = &mut landings[i];
            if pe.replace(landing.of.pe) != Some(landing.of.pe) {
                lines.clear();
            }
            let free_at = |at: u64| lines.iter().position(|free| *free <= at);
            let line = free_at(landing.begin).or_else(|| free_at(landing.begin + NUDGE_NS));
            let line = line.unwrap_or_else(|| {
                lines.push(0);
                lines.len() - 1
            });
            landing.begin = landing.begin.max(lines[line]);
            landing.end = landing.end.max(landing.begin) + 1;
            lines[line] = landing.end;
            landing.track = self.track(landing.of.pe, Line::Arrivals { line: line as u32 });
        }
        self.landings = landings;
    }
}

fn line_of(lane: &Lane) -> (u32, Line) {
    let home = &lane.block().home;
    let (stream, block, thread) = (home.stream, home.rank, lane.rank);
    (home.pe, Line::Lane { stream, block, thread })
}

impl Timeline {
    /// None where nobody has asked for it.
    pub(crate) fn new(config: &Config, clock: &Rc<Clock>) -> Option<Rc<Self>> {
        let file = Trace::file(config.timeline.as_deref()?);
        Some(Rc::new(Self {
            file,
            clock: Rc::clone(clock),
            modelled: config.model.is_some(),
            events: RefCell::default(),
            written: Cell::new(false),
        }))
    }

    /// A kernel begins on a PE.
    pub(crate) fn kernel(&self, pe: u32, stream: u32, kernel: &Kernel) {
        let mut events = self.events.borrow_mut();
        let track = events.track(pe, Line::Kernels { stream });
        events.begin(track, self.clock.now_ns(), kernel.name, None, Detail::Kernel(*kernel));
    }

    /// It has ended there, and what it has issued has landed.
    pub(crate) fn kernel_ended(&self, pe: u32, stream: u32) {
        let mut events = self.events.borrow_mut();
        let track = events.track(pe, Line::Kernels { stream });
        events.end(track, self.clock.now_ns());
    }

    /// A block begins; it is told on the track of its first lane.
    pub(crate) fn block(&self, first: &Lane) {
        let mut events = self.events.borrow_mut();
        let (pe, line) = line_of(first);
        let track = events.track(pe, line);
        let kernel = first.block().kernel;
        events.begin(track, self.clock.now_ns(), kernel.name, None, Detail::Kernel(kernel));
    }

    /// Its last lane has ended.
    pub(crate) fn block_ended(&self, first: &Lane) {
        let mut events = self.events.borrow_mut();
        let (pe, line) = line_of(first);
        let track = events.track(pe, line);
        events.end(track, self.clock.now_ns());
    }

    pub(crate) fn end(&self, track: usize) {
        self.events.borrow_mut().end(track, self.clock.now_ns());
    }

    /// A lane waits for memory: from its first look to its last.
    pub(crate) fn waits(&self, lane: &Lane, watch: &Watch, at: At) {
        let name = if lane.world().is_barrier_word(lane.block().home.pe, watch.address) {
            "barrier"
        } else {
            "wait"
        };
        let (pe, line) = line_of(lane);
        let mut events = self.events.borrow_mut();
        let track = events.track(pe, line);
        let same =
            |wait: &Waiting| *wait.at == *at && (wait.watch.address, wait.watch.value) == (watch.address, watch.value);
        if !events.tracks[track].wait.as_ref().is_some_and(same) {
            events.end_wait(track);
            let begin = events.stamp(track, self.clock.now_ns());
            events.tracks[track].wait = Some(Waiting {
                begin,
                last: begin,
                at,
                watch: *watch,
                name,
            });
        }
    }

    /// It looks again.
    pub(crate) fn looks(&self, lane: &Lane) {
        let (pe, line) = line_of(lane);
        let mut events = self.events.borrow_mut();
        let track = events.track(pe, line);
        if let Some(wait) = &mut events.tracks[track].wait {
            wait.last = self.clock.now_ns();
        }
    }

    /// A lane makes a call that reaches another PE, as all lanes of its tile do.
    fn calls(&self, lane: &Lane, at: At) {
        let mut events = self.events.borrow_mut();
        let who = line_of(lane);
        let count = events.calls.entry((who, place(at))).or_default();
        *count += 1;
        let count = *count;
        events.now.insert(who, count);
    }

    /// An operation is issued, inside a slice of its lane.
    pub(crate) fn issued(&self, number: u64, lane: &Lane) {
        let who = line_of(lane);
        let mut events = self.events.borrow_mut();
        let call = events.now.get(&who).copied().unwrap_or(0);
        // Of a tile only the leader has a track, and an arrow.
        let leads = |track: &usize| {
            let inner = events.tracks[*track].open.last();
            inner.is_some_and(|slice| matches!(slice.detail, Detail::Reach { .. }))
        };
        let track = events.index.get(&who).copied().filter(leads);
        let from = track.map(|track| (track, events.stamp(track, self.clock.now_ns())));
        events.under_way.insert(number, (from, call));
    }

    /// It takes effect at a PE.
    pub(crate) fn landed(&self, number: u64, landing: &Landing) {
        let mut events = self.events.borrow_mut();
        let Events {
            under_way,
            landed,
            landings,
            arrows,
            ..
        } = &mut *events;
        let (from, call) = under_way.remove(&number).unwrap_or_default();
        // It is never shown ahead of its issue.
        let now_ns = self.clock.now_ns().max(from.map_or(0, |(_, at)| at + 1));
        let Landing {
            name,
            pe,
            from: issuer,
            at,
            block,
            ..
        } = *landing;
        let key = ((pe, issuer), block, (place(at), name), call);
        let slice = *landed.entry(key).or_insert_with(|| {
            landings.push(Landings {
                of: *landing,
                begin: now_ns,
                end: now_ns,
                parts: 0,
                bytes: 0,
                track: 0,
            });
            landings.len() - 1
        });
        let Landings {
            begin,
            end,
            parts,
            bytes,
            ..
        } = &mut landings[slice];
        *parts += 1;
        *bytes += landing.bytes;
        (*begin, *end) = (now_ns.min(*begin), now_ns.max(*end));
        if let Some(from) = from
            && arrows.len() < MOST
        {
            arrows.push(Arrow {
                name,
                from,
                to: (slice, now_ns),
            });
        }
    }

    /// Writes the file, once. What has not ended ends now.
    pub(crate) fn write(&self) {
        if self.written.replace(true) {
            return;
        }
        let mut events = self.events.borrow_mut();
        let now_ns = self.clock.now_ns();
        for track in 0..events.tracks.len() {
            while !events.tracks[track].open.is_empty() || events.tracks[track].wait.is_some() {
                events.end(track, now_ns);
            }
        }
        events.lay_out_landings();
        let text = self.trace(&events);
        if let Err(error) = text.write(&self.file) {
            eprintln!(
                "shmem-sim: the timeline could not be written to {}: {error}",
                self.file.display()
            );
        }
    }

    fn trace(&self, events: &Events) -> Trace {
        let mut order: Vec<usize> = (0..events.tracks.len()).collect();
        order.sort_by_key(|&track| (events.tracks[track].pe, events.tracks[track].line));
        let mut trace = Trace::default();
        let mut ids: Vec<TrackId> = vec![(0, 0); order.len()];
        let (mut pe, mut thread) = (None, 0);
        for track in order {
            let Track { pe: of, line, .. } = events.tracks[track];
            if pe.replace(of) != Some(of) {
                thread = 0;
                let label = if self.modelled {
                    "modelled times"
                } else {
                    "simulated times"
                };
                trace.process(of, &format!("PE {of}"), label);
            }
            thread += 1;
            ids[track] = (of, thread);
            trace.thread((of, thread), &line.to_string());
        }
        for slice in &events.slices {
            let (category, args) = slice.args();
            trace.slice(ids[slice.track], slice.name, category, slice.begin, slice.end, &args);
        }
        for landing in &events.landings {
            let Landing {
                name, from, at, block, ..
            } = landing.of;
            let args = [
                ("at", at.to_string().into()),
                ("from PE", from.into()),
                ("block", triple(block).into()),
                ("parts", landing.parts.into()),
                ("bytes", landing.bytes.into()),
            ];
            trace.slice(ids[landing.track], name, "landing", landing.begin, landing.end, &args);
        }
        for (id, arrow) in (1..).zip(&events.arrows) {
            let landing = &events.landings[arrow.to.0];
            let at = arrow.to.1.clamp(landing.begin, landing.end - 1);
            let (track, issued) = arrow.from;
            trace.arrow(id, arrow.name, (ids[track], issued), (ids[landing.track], at));
        }
        trace
    }
}

/// What lands, where and from where.
#[derive(Clone, Copy)]
pub(crate) struct Landing {
    pub(crate) name: &'static str,
    pub(crate) pe: u32,
    pub(crate) from: u32,
    pub(crate) at: At,
    pub(crate) block: [u32; 3],
    pub(crate) bytes: u64,
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let stream = |f: &mut std::fmt::Formatter<'_>, stream| match stream {
            0 => Ok(()),
            _ => write!(f, ", stream {stream}"),
        };
        match *self {
            Self::Kernels { stream } => write!(f, "kernels of stream {stream}"),
            Self::Lane {
                stream: of,
                block,
                thread,
            } => {
                write!(f, "block {block}")?;
                if thread > 0 {
                    write!(f, ", thread {thread}")?;
                }
                stream(f, of)
            }
            Self::Arrivals { line: 0 } => f.write_str("what lands here"),
            Self::Arrivals { line } => write!(f, "what lands here, {}", line + 1),
        }
    }
}

impl Slice {
    fn args(&self) -> (&'static str, Vec<(&'static str, Arg)>) {
        let mut args: Vec<(&'static str, Arg)> = Vec::new();
        if let Some(at) = self.at {
            args.push(("at", at.to_string().into()));
        }
        let category = match &self.detail {
            Detail::None => "order",
            Detail::Kernel(kernel) => {
                args.push(("launch", kernel.to_string().into()));
                "kernel"
            }
            Detail::Reach { pe, bytes } => {
                args.extend([("PE", (*pe).into()), ("bytes", (*bytes).into())]);
                "operation"
            }
            Detail::Wait(watch) if watch.address == 0 => "wait",
            Detail::Wait(watch) => {
                args.push(("for", format!("{} {}", watch.comparison, watch.value).into()));
                "wait"
            }
        };
        (category, args)
    }
}

impl Lane {
    /// A slice of the lane's track, where there is a timeline and the lane leads the call.
    pub(crate) fn span(&self, name: &'static str, leads: bool, at: At, detail: Detail) -> Span<'_> {
        let timeline = self.world().timeline.as_deref().filter(|_| !self.must_not_wait());
        if let (Some(timeline), Detail::Reach { .. }) = (timeline, &detail) {
            timeline.calls(self, at);
        }
        // Every lane of a barrier orders what it has done: of those that have done nothing, only the first one is shown.
        let idle = |timeline: &Timeline| self.rank > 0 && !timeline.events.borrow().index.contains_key(&line_of(self));
        let timeline = timeline.filter(|timeline| leads && !(matches!(detail, Detail::None) && idle(timeline)));
        Span(timeline.map(|timeline| {
            let mut events = timeline.events.borrow_mut();
            let (pe, line) = line_of(self);
            let track = events.track(pe, line);
            events.begin(track, timeline.clock.now_ns(), name, Some(at), detail);
            (timeline, track)
        }))
    }

    /// A slice of a call that a tile makes.
    pub(crate) fn span_of(&self, name: &'static str, group: Group, at: At) -> Span<'_> {
        self.span(name, self.leads(group), at, Detail::None)
    }

    /// Whether it is the first of a tile in its block.
    fn leads(&self, group: Group) -> bool {
        match group {
            Group::Thread => true,
            Group::Warp(mask) => {
                let warp = &self.block().warps[self.rank as usize / 32];
                (mask & warp.exists).trailing_zeros() == self.rank % 32
            }
            Group::Warps { first, .. } => self.rank == 32 * first,
            Group::Block | Group::Cluster | Group::Grid => self.rank == 0,
        }
    }
}
