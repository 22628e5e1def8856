//! The host's side: words and boxes of the kernels, and the choice among them.
use crate::Norm;
use crate::packets::{self, by_packets, by_packets_short};
use crate::passes::{self, by_passes};
use crate::puts::{self, by_puts};
use anyhow::ensure;
use shmem::collective::Min;
use shmem::packet::Packet;
use shmem::vector::Bf16x8;
use shmem::{Kernel, SignalWord};
use shmem_host::{Buf, LaunchConfig, Pe, Stream, SymBuf, Team};

/// How the partial rows get to where they are added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// In packets, all to all.
    Packets,
    /// Every PE reads all of them.
    OneShot,
    /// Every PE reads those of its share of the tokens, and puts the sums to all.
    TwoShot,
    /// Every PE puts all of them to all, while it adds up those before. Among few PEs alone: [`is_for`](Self::is_for).
    Puts,
}

impl Algorithm {
    /// Whether it is for so many PEs.
    pub fn is_for(self, pes: u32) -> bool {
        self != Self::Puts || pes <= puts::PES
    }
}

/// Among so many PEs packets are taken for up to so many bytes of rows. Estimates: in packets a PE takes in 4/3 (n - 1) bytes for
/// each, by passes 1 among two and 2 (n - 1) / n among more, and some 4 to 6 us for meeting; over a link of 355 GB/s.
const PACKETS: [(u32, usize); 5] = [
    (1, usize::MAX),
    (2, 2 << 20),
    (3, 1 << 20),
    (4, 768 << 10),
    (u32::MAX, 256 << 10),
];

/// Up to so many bytes of rows puts are faster than one shot, among two: 21 us for 23 there, and 68 for 64 at 16 MiB.
const PUTS: usize = 4 << 20;

/// Numbers of a line.
const LINE: usize = 8;

/// What one call works on, alike on all PEs of the team but for `x`. Rows of `hidden` bf16, in lines of eight.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// This PE's part of the sum. May be written again by what follows on the stream.
    pub x: &'a SymBuf<Bf16x8>,
    /// Is added, and takes the sum.
    pub residual: &'a SymBuf<Bf16x8>,
    /// One row.
    pub weight: &'a Buf<Bf16x8>,
    /// The normalised rows.
    pub out: &'a Buf<Bf16x8>,
    /// How many rows, up to those of [`FusedNorm::new`].
    pub tokens: usize,
    /// Is added to the mean of the squares.
    pub eps: f32,
}

/// Sums over a team with residual and RMSNorm, for rows of one length.
pub struct FusedNorm<'a> {
    pe: &'a Pe,
    team: &'a Team,
    hidden: usize,
    tokens: usize,
    /// Tokens that packets are taken for, and have boxes for.
    in_packets: usize,
    boxes: SymBuf<Packet<[u32; 3]>>,
    epochs: Buf<u32>,
    told: SymBuf<SignalWord>,
    steps: Buf<u64>,
    /// Rows that are put.
    inbox: SymBuf<Bf16x8>,
    /// Blocks by packets, by one shot, by two shots, by puts, at most.
    grids: [u32; 4],
    /// Launches packets as an ordinary kernel, not collectively, which sees to all blocks' start at once unless it is a programmatic launch:
    /// no more blocks than the device has room for, which are all that is on it. See the README.
    pub plain: bool,
}

impl<'a> FusedNorm<'a> {
    /// For up to `tokens` rows of `hidden` numbers, a multiple of 8 from 8 to 16384. Collective over the World, whose PEs are in
    /// teams of one size.
    ///
    /// # Errors
    /// Sizes that are not as above; those of allocations.
    pub fn new(pe: &'a Pe, team: &'a Team, hidden: usize, tokens: usize) -> anyhow::Result<Self> {
        let limit = PACKETS
            .iter()
            .find(|(most, _)| team.n_pes() <= *most)
            .map_or(0, |(_, bytes)| *bytes);
        Self::with_packets(pe, team, hidden, tokens, limit)
    }

    /// As [`new`](Self::new), and packets are taken for so many bytes of rows.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_packets(
        pe: &'a Pe,
        team: &'a Team,
        hidden: usize,
        tokens: usize,
        limit: usize,
    ) -> anyhow::Result<Self> {
        ensure!(
            hidden.is_multiple_of(LINE) && (LINE..=16384).contains(&hidden),
            "rows have {hidden} numbers, where a multiple of {LINE} up to 16384 is needed"
        );
        ensure!(
            (1..=1 << 20).contains(&tokens),
            "{tokens} tokens, where 1 to {} are possible",
            1 << 20
        );
        let (n, block) = (team.n_pes() as usize, block(hidden, packets::LINES));
        // One PE sends nothing, and takes packets' way for any number of tokens.
        let in_packets = (limit / (2 * hidden)).clamp(1, tokens);
        let boxes = if n == 1 { 1 } else { in_packets };
        let mut new = Self {
            team,
            hidden,
            tokens,
            in_packets,
            // Halves, packets of a thread.
            boxes: pe.alloc(2 * boxes * n * 4 * block as usize)?,
            epochs: pe.buffer(tokens)?,
            told: pe.signals(0)?,
            steps: pe.buffer(tokens)?,
            inbox: pe.alloc(0)?,
            grids: [
                if is_short(hidden) {
                    blocks::<by_packets_short>(pe, hidden, packets::LINES)?
                } else {
                    blocks::<by_packets>(pe, hidden, packets::LINES)?
                },
                blocks::<by_passes<false>>(pe, hidden, passes::LINES)?,
                blocks::<by_passes<true>>(pe, hidden, passes::LINES)?,
                blocks::<by_puts>(pe, hidden, puts::LINES)?,
            ],
            plain: false,
            pe,
        };
        new.limit_blocks(u32::MAX)?;
        Ok(new)
    }

    /// As if so many calls had been made in packets before. Collective over the World, ahead of the first call.
    ///
    /// # Errors
    /// Those of copies.
    pub fn start_at(&self, epoch: u32) -> anyhow::Result<()> {
        Ok(self.epochs.write(&vec![epoch; self.tokens])?)
    }

    /// Takes no more blocks than this. Collective over the World, between calls that have ended on every PE.
    ///
    /// # Errors
    /// Those of allocations.
    pub fn limit_blocks(&mut self, most: u32) -> anyhow::Result<()> {
        // Block b of each PE works with block b of every other: all have as many.
        let (mine, all) = (self.pe.alloc::<u32>(4)?, self.pe.alloc::<u32>(4)?);
        mine.write(&self.grids.map(|grid| grid.min(most).min(self.tokens as u32)))?;
        self.pe.stream().reduce(&self.pe.world(), Min, &all, &mine)?;
        all.read_into(0, &mut self.grids)?;
        let [_, one, two, put] = self.grids.map(|grid| grid as usize);
        let (blocks, n) = (one.max(two).max(put), self.team.n_pes());
        (self.told, self.steps) = (self.pe.signals(blocks * n as usize)?, self.pe.buffer(blocks)?);
        let rows = if Algorithm::Puts.is_for(n) {
            put * (puts::SLOTS * n) as usize
        } else {
            0
        };
        self.inbox = self.pe.alloc(rows * self.hidden / LINE)?;
        Ok(())
    }

    /// What a call of so many tokens takes.
    pub fn choice(&self, tokens: usize) -> Algorithm {
        match self.team.n_pes() {
            _ if self.fits(tokens, Algorithm::Packets) => Algorithm::Packets,
            2 if 2 * self.hidden * tokens <= PUTS => Algorithm::Puts,
            // Over two links, those of the one and of the other, go as many bytes in one pass as in two.
            2 => Algorithm::OneShot,
            _ => Algorithm::TwoShot,
        }
    }

    /// Whether an algorithm has room for so many tokens.
    pub fn fits(&self, tokens: usize, by: Algorithm) -> bool {
        let most = match by {
            Algorithm::Packets => self.in_packets,
            _ => self.tokens,
        };
        tokens <= most && by.is_for(self.team.n_pes())
    }

    /// Enqueues a call. Every PE makes it, the members of a team with the same sizes and algorithm; [`choice`](Self::choice) where
    /// none is asked for. Nobody needs a barrier ahead of it or behind it, and it may be captured.
    ///
    /// # Errors
    /// Buffers that are too short, more tokens than there is room for; those of a launch.
    pub fn enqueue(&self, stream: &Stream, rows: Rows<'_>, algorithm: Option<Algorithm>) -> anyhow::Result<()> {
        let (lines, n) = (self.hidden / LINE, self.team.n_pes());
        let algorithm = algorithm.unwrap_or_else(|| self.choice(rows.tokens));
        ensure!(
            self.fits(rows.tokens, algorithm),
            "{} tokens by {algorithm:?} among {n} PEs, where {} are possible, {} by packets, and by puts up to {} PEs",
            rows.tokens,
            self.tokens,
            self.in_packets,
            puts::PES
        );
        for (name, len, needed) in [
            ("x", rows.x.len(), rows.tokens),
            ("residual", rows.residual.len(), rows.tokens),
            ("weight", rows.weight.len(), 1),
            ("out", rows.out.len(), rows.tokens),
        ] {
            ensure!(
                len >= needed * lines,
                "{name} has {len} lines of {LINE} numbers, where {needed} rows of {lines} are needed"
            );
        }
        if rows.tokens == 0 {
            return Ok(());
        }
        let norm = Norm {
            team: self.team.handle(),
            x: rows.x.handle(),
            residual: rows.residual.handle(),
            weight: rows.weight.handle(),
            out: rows.out.handle(),
            tokens: rows.tokens as u32,
            lines: lines as u32,
            mean: 1.0 / self.hidden as f32,
            eps: rows.eps,
        };
        let rounds = if algorithm == Algorithm::TwoShot {
            norm.tokens.div_ceil(n)
        } else {
            norm.tokens
        };
        let grid = self.grids[algorithm as usize].min(rounds);
        let shape = |lines| LaunchConfig::new(grid, block(self.hidden, lines)).stream(stream);
        let (words, steps) = (&self.told, &self.steps);
        match algorithm {
            Algorithm::Packets => {
                let shape = shape(packets::LINES);
                let shape = if self.plain { shape } else { shape.collective() };
                if is_short(self.hidden) {
                    self.pe.launch(shape, by_packets_short(norm, &self.boxes, &self.epochs))
                } else {
                    self.pe.launch(shape, by_packets(norm, &self.boxes, &self.epochs))
                }
            }
            Algorithm::OneShot => {
                let call = by_passes::<false>(norm, words, steps);
                self.pe.launch(shape(passes::LINES).collective(), call)
            }
            Algorithm::TwoShot => {
                let call = by_passes::<true>(norm, words, steps);
                self.pe.launch(shape(passes::LINES).collective(), call)
            }
            Algorithm::Puts => {
                let call = by_puts(norm, &self.inbox, words, steps);
                self.pe.launch(shape(puts::LINES).collective(), call)
            }
        }?;
        Ok(())
    }
}

/// Threads for a row of which each holds so many lines.
fn block(hidden: usize, lines: usize) -> u32 {
    (hidden / LINE).div_ceil(lines).next_multiple_of(32) as u32
}

/// Whether packets have the kernel for short rows.
fn is_short(hidden: usize) -> bool {
    block(hidden, packets::LINES) <= packets::SHORT
}

fn blocks<K: Kernel>(pe: &Pe, hidden: usize, lines: usize) -> anyhow::Result<u32> {
    Ok(pe.max_collective_grid::<K>(block(hidden, lines), 0)?)
}
