//! The host's side: memory and launches.

use crate::{EXPERTS, Inbox, PES, Packed, RECEIVE, SEND, Shape, TOP, Tokens};
use crate::{combine, combine_packets, dispatch, dispatch_packets};
use anyhow::ensure;
use shmem::SignalWord;
use shmem::vector::{Bf16x8, F32x4, U32x4};
use shmem_host::{Buf, Error, Pe, SymBuf, collective_launch};
use std::cell::Cell;

/// Tokens of all PEs together up to which packets are faster.
pub const FEW: u32 = 32;

/// How kernels are launched, and what for.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// How many of everything.
    pub shape: Shape,
    /// Whether rows go as e4m3 with a scale for each 128 numbers.
    pub fp8: bool,
    /// Whether rows go in packets and not by puts, or what is faster: packets for [`FEW`] tokens of all PEs together. Packets go to every PE.
    pub packets: Option<bool>,
    /// Blocks at most, or as many as are resident at once.
    pub blocks: Option<u32>,
    /// Threads of a block: a multiple of 32, at most 1024; with packets no more than 512 are taken.
    pub threads: u32,
}

impl Config {
    /// Dynamic shared memory of what dispatches among n PEs.
    pub fn dispatch_bytes(self, n: u32) -> u32 {
        let part = self.shape.part(self.parts(n));
        let staged = if self.fp8 { part.hidden / 8 } else { 0 };
        (staged + self.message(n)) * 16
    }

    /// Dynamic shared memory of what combines.
    pub fn combine_bytes(self, n: u32) -> u32 {
        // Packets come to shared memory too.
        let rows = 1 + u32::from(self.packets(n));
        rows * self.shape.part(self.parts(n)).sums() * 16
    }

    /// Threads of a block.
    fn threads(self, n: u32) -> u32 {
        if self.packets(n) {
            self.threads.min(512)
        } else {
            self.threads
        }
    }

    /// Whether rows go in packets.
    pub fn packets(self, n: u32) -> bool {
        self.packets.unwrap_or(n * self.shape.tokens <= FEW)
    }

    /// Blocks that share a row, each with its part: of few tokens some, so that all multiprocessors send. The same on every PE.
    pub fn parts(self, n: u32) -> u32 {
        const BLOCKS: u32 = 96;
        let unit = if self.fp8 { 512 } else { 8 };
        let fits = |parts: &u32| {
            self.shape.hidden.is_multiple_of(unit * parts) && (n + 1) * self.shape.tokens * parts <= BLOCKS
        };
        if self.packets(n) {
            [4, 2].into_iter().find(fits).unwrap_or(1)
        } else {
            1
        }
    }

    /// Lines of a message.
    fn message(self, n: u32) -> u32 {
        let part = self.shape.part(self.parts(n));
        if self.fp8 {
            part.message::<true>()
        } else {
            part.message::<false>()
        }
    }

    fn check(self, n: u32) -> anyhow::Result<()> {
        let Shape {
            tokens,
            top,
            experts,
            hidden,
        } = self.shape;
        ensure!(
            n as usize <= PES
                && (1..=EXPERTS as u32).contains(&experts)
                && (1..=TOP as u32).contains(&top)
                && top <= experts,
            "{experts} experts on {n} PEs, {top} of them for each token: at most {EXPERTS} on {PES}, {TOP} for each"
        );
        let multiple = if self.fp8 { 128 } else { 8 };
        ensure!(
            hidden > 0 && hidden.is_multiple_of(multiple),
            "rows of {hidden} numbers: take a multiple of {multiple}"
        );
        let numbers = u64::from(self.shape.local(n)) * u64::from(n) * u64::from(tokens) * u64::from(hidden / 4);
        ensure!(
            (1..1 << 16).contains(&tokens) && numbers < 1 << 31,
            "{tokens} tokens on {n} PEs: slots have 16 bits, indices 32"
        );
        ensure!(
            self.threads > 0 && self.threads.is_multiple_of(32) && self.threads <= 1024 && self.blocks != Some(0),
            "{} threads: blocks have 32, 64, .. 1024",
            self.threads
        );
        Ok(())
    }
}

/// What one PE needs for dispatches and combines. At most two dispatches may be answered by combines at a time; every PE makes
/// the same calls in the same order, on its default stream. All calls may be captured in graphs.
pub struct Moe<'a> {
    pe: &'a Pe,
    config: Config,
    most: u32,
    rows: SymBuf<U32x4>,
    ready: SymBuf<SignalWord>,
    count: SymBuf<SignalWord>,
    back: SymBuf<F32x4>,
    answered: SymBuf<SignalWord>,
    epoch: Buf<u64>,
    ticket: Buf<u32>,
    /// A dispatch has been sent and not received.
    sent: Cell<bool>,
}

/// What a dispatch fills: the rows for this PE's experts, and where they came from.
pub struct Work {
    /// `[local expert][PEs * tokens]` rows.
    pub rows: Buf<U32x4>,
    /// The same of scales.
    pub scales: Buf<U32x4>,
    /// Rows of each local expert.
    pub len: Buf<u32>,
    /// `[source PE][token][top]`: the row of each job, or `NONE`.
    pub place: Buf<u32>,
    weight: Buf<f32>,
    epoch: Buf<u64>,
}

impl Work {
    /// As kernels take it.
    pub fn packed(&self) -> Packed {
        Packed {
            rows: self.rows.handle(),
            scales: self.scales.handle(),
            len: self.len.handle(),
            place: self.place.handle(),
            weight: self.weight.handle(),
            epoch: self.epoch.handle(),
        }
    }
}

/// A call whose first half is on the stream. Launch other work, and then [`receive`](Self::receive).
#[must_use = "PEs wait for what a dispatch or combine receives"]
pub struct Pending<F>(F);

impl<F: FnOnce() -> Result<(), Error>> Pending<F> {
    /// Enqueues the second half.
    ///
    /// # Errors
    /// Those of launches.
    pub fn receive(self) -> Result<(), Error> {
        self.0()
    }
}

impl<'a> Moe<'a> {
    /// Collective.
    ///
    /// # Errors
    /// A shape that the kernels don't have; those of allocations.
    pub fn new(pe: &'a Pe, config: Config) -> anyhow::Result<Self> {
        config.check(pe.n())?;
        let Config {
            shape: s, fp8, blocks, ..
        } = config;
        let (n, parts, packets) = (pe.n(), config.parts(pe.n()), config.packets(pe.n()));
        let threads = config.threads(n);
        let (shared, sums) = (config.dispatch_bytes(n), config.combine_bytes(n));
        let dispatches = match (fp8, packets) {
            (false, false) => pe.max_collective_grid::<dispatch<false>>(threads, shared)?,
            (false, true) => pe.max_collective_grid::<dispatch_packets<false>>(threads, shared)?,
            (true, false) => pe.max_collective_grid::<dispatch<true>>(threads, shared)?,
            (true, true) => pe.max_collective_grid::<dispatch_packets<true>>(threads, shared)?,
        };
        let combines = if packets {
            pe.max_collective_grid::<combine_packets>(threads, sums)?
        } else {
            pe.max_collective_grid::<combine>(threads, sums)?
        };
        let slots = 2 * (n * s.tokens * parts) as usize;
        // Four packets, of 16 bytes, for three lines.
        let room = |lines: u32| slots * (if packets { lines / 3 * 4 } else { lines }) as usize;
        Ok(Self {
            pe,
            config,
            most: blocks.unwrap_or(u32::MAX).min(dispatches).min(combines),
            rows: pe.alloc(room(config.message(n)))?,
            ready: pe.signals(slots)?,
            count: pe.signals(2 * (n * s.local(n)) as usize)?,
            back: pe.alloc(room(s.part(parts).sums()))?,
            answered: pe.signals(slots)?,
            epoch: pe.buffer(1)?,
            ticket: pe.buffer(1)?,
            sent: Cell::new(false),
        })
    }

    /// What it was made for.
    pub fn config(&self) -> Config {
        self.config
    }

    /// Room for what a dispatch fills.
    ///
    /// # Errors
    /// Those of allocations.
    pub fn work(&self) -> Result<Work, Error> {
        let (s, n) = (self.config.shape, self.pe.n());
        let rows = (s.local(n) * n * s.tokens) as usize;
        let jobs = (n * s.tokens * s.top) as usize;
        let (numbers, scales) = if self.config.fp8 {
            s.lines::<true>()
        } else {
            s.lines::<false>()
        };
        Ok(Work {
            rows: self.pe.buffer(rows * numbers as usize)?,
            // Never empty, so that it has an address.
            scales: self.pe.buffer((rows * scales as usize).max(1))?,
            len: self.pe.buffer(s.local(n) as usize)?,
            place: self.pe.buffer(jobs)?,
            weight: self.pe.buffer(jobs)?,
            epoch: self.pe.buffer(1)?,
        })
    }

    /// Room for the experts' results: rows laid out as [`Work::rows`], in bf16.
    ///
    /// # Errors
    /// Those of allocations.
    pub fn results(&self) -> Result<Buf<Bf16x8>, Error> {
        let (s, n) = (self.config.shape, self.pe.n());
        self.pe.buffer((s.local(n) * n * s.tokens * s.hidden / 8) as usize)
    }

    /// Enqueues a dispatch.
    ///
    /// # Errors
    /// Another one that has been sent and not received; those of launches.
    pub fn dispatch(&self, tokens: Tokens, work: &Work) -> anyhow::Result<()> {
        self.ensure_received()?;
        Ok(self.launch_dispatch(SEND | RECEIVE, tokens, work)?)
    }

    /// Enqueues the first half of a dispatch. Only the other half waits for other PEs.
    ///
    /// # Errors
    /// As [`dispatch`](Self::dispatch).
    pub fn dispatch_send<'b>(
        &'b self,
        tokens: Tokens,
        work: &'b Work,
    ) -> anyhow::Result<Pending<impl FnOnce() -> Result<(), Error> + 'b>> {
        self.ensure_received()?;
        self.launch_dispatch(SEND, tokens, work)?;
        self.sent.set(true);
        Ok(Pending(move || {
            self.sent.set(false);
            self.launch_dispatch(RECEIVE, tokens, work)
        }))
    }

    fn ensure_received(&self) -> anyhow::Result<()> {
        ensure!(
            !self.sent.get(),
            "PE {}: a dispatch has been sent and not received: call `receive` of what `dispatch_send` returned, and then the next dispatch",
            self.pe.id()
        );
        Ok(())
    }

    fn launch_dispatch(&self, halves: u32, tokens: Tokens, work: &Work) -> Result<(), Error> {
        let (pe, n, shape) = (self.pe, self.pe.n(), self.config.shape);
        let threads = self.config.threads(n);
        let (shared, inbox, out) = (self.config.dispatch_bytes(n), self.inbox(), work.packed());
        // A block for each part that comes, and for each that this PE sends.
        let grid = self.grid(n + 1);
        match (self.config.fp8, self.config.packets(n)) {
            (false, false) => {
                collective_launch!(pe, dispatch::<false><<<grid, threads, shared>>>(halves, shape, tokens, inbox, out))
            }
            (false, true) => {
                collective_launch!(pe, dispatch_packets::<false><<<grid, threads, shared>>>(halves, shape, tokens, inbox, out))
            }
            (true, false) => {
                collective_launch!(pe, dispatch::<true><<<grid, threads, shared>>>(halves, shape, tokens, inbox, out))
            }
            (true, true) => {
                collective_launch!(pe, dispatch_packets::<true><<<grid, threads, shared>>>(halves, shape, tokens, inbox, out))
            }
        }
    }

    /// Enqueues a combine of the experts' results `y`. `tokens` and `work` are those of the dispatch; `z` takes a row for each token.
    ///
    /// # Errors
    /// Those of launches.
    pub fn combine(&self, y: &Buf<Bf16x8>, work: &Work, tokens: Tokens, z: &Buf<Bf16x8>) -> Result<(), Error> {
        self.launch_combine(SEND | RECEIVE, y, work, tokens, z)
    }

    /// Enqueues the first half of a combine. Only the other half waits for other PEs; it reads `y` and `work` too.
    ///
    /// # Errors
    /// Those of launches.
    pub fn combine_send<'b>(
        &'b self,
        y: &'b Buf<Bf16x8>,
        work: &'b Work,
        tokens: Tokens,
        z: &'b Buf<Bf16x8>,
    ) -> Result<Pending<impl FnOnce() -> Result<(), Error> + 'b>, Error> {
        self.launch_combine(SEND, y, work, tokens, z)?;
        Ok(Pending(move || self.launch_combine(RECEIVE, y, work, tokens, z)))
    }

    fn launch_combine(
        &self,
        halves: u32,
        y: &Buf<Bf16x8>,
        work: &Work,
        tokens: Tokens,
        z: &Buf<Bf16x8>,
    ) -> Result<(), Error> {
        let (pe, n, shape) = (self.pe, self.pe.n(), self.config.shape);
        let threads = self.config.threads(n);
        let (shared, from, inbox, chosen) = (self.config.combine_bytes(n), work.packed(), self.inbox(), tokens.chosen);
        // A block for each part of a token here, and for each that another PE waits for.
        let grid = self.grid(n);
        if self.config.packets(n) {
            collective_launch!(pe, combine_packets<<<grid, threads, shared>>>(halves, shape, y, from, inbox, chosen, z))
        } else {
            collective_launch!(pe, combine<<<grid, threads, shared>>>(halves, shape, y, from, inbox, chosen, z))
        }
    }

    /// So many blocks for each part of a token, if there are.
    fn grid(&self, each: u32) -> u32 {
        (each * self.config.shape.tokens * self.config.parts(self.pe.n())).min(self.most)
    }

    fn inbox(&self) -> Inbox {
        Inbox {
            parts: self.config.parts(self.pe.n()),
            rows: self.rows.handle(),
            ready: self.ready.handle(),
            count: self.count.handle(),
            back: self.back.handle(),
            answered: self.answered.handle(),
            epoch: self.epoch.handle(),
            ticket: self.ticket.handle(),
        }
    }
}
