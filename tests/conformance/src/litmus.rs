//! Litmus tests: outcomes that the ordering contract forbids over load and store, counted over many rounds, while other
//! warps of the same blocks put to an unrelated object.
//!
//! The first warp of each block plays, with that of the same block at other PEs, on words of its own. Every PE plays every
//! part in every round, and signals keep rounds apart, so that no round needs a barrier.
use shmem::prelude::*;
use shmem::relaxed;
use shmem::scope::Gpu;

/// Elements of a block's data: several for each lane of the warp that plays.
pub const DATA: u32 = 128;
/// Elements that a warp of the traffic puts at a time.
pub const NOISE: u32 = 256;

/// What every litmus test has.
#[repr(C)]
#[derive(Clone, Copy, KernelArg)]
pub struct Game {
    rounds: u32,
    /// Forbidden outcomes.
    wrong: Global<u32>,
    /// For each block, whether its part is over.
    over: Global<u32>,
    /// A row for each warp.
    noise: SymSlice<u32>,
    quiet: SymSlice<u32>,
}

impl Game {
    /// The first warp of each block plays; the others make traffic until it is done.
    #[inline(always)]
    fn play(self, all: Collective, litmus: impl FnOnce()) {
        let over = self.over.word::<Gpu>(Block.id());
        if Warp.id() == 0 {
            litmus();
            if Warp.leader() {
                over.store_release(1);
            }
        } else {
            let warp = Block.id() * Warp::per_block() + Warp.id();
            let len = self.noise.len() as u32 / (thread::grid_size() * Warp::per_block());
            let (to_row, from) = (self.noise.chunk(warp, len), self.quiet.chunk(warp, len));
            let mut to = shmem::my_pe();
            // The wait holds at once, and gives every lane the same value.
            while shmem::wait_until(Warp, over, ge(0)) == 0 {
                to = (to + 1) % shmem::n_pes();
                shmem::put(Warp, to_row, from, to);
            }
        }
        all.barrier(all.grid(), shmem::world());
    }

    #[inline(always)]
    fn expect(self, allowed: bool) {
        if !allowed {
            self.wrong.word::<Gpu>(0).add(1);
        }
    }

    /// Whether a row has the round's elements, each read by another lane than the one that most likely wrote it.
    #[inline(always)]
    fn expect_row(self, row: SymSlice<u32>, round: u32, value: impl Fn(u32, u32) -> u32) {
        for i in Warp.strided(DATA) {
            let other = DATA - 1 - i;
            self.expect(row.load(other) == value(round, other));
        }
    }
}

#[inline(always)]
fn value(round: u32, i: u32) -> u32 {
    round << 8 | i
}

#[inline(always)]
fn fill(row: SymSlice<u32>, round: u32) {
    for i in Warp.strided(DATA) {
        row.store(i, value(round, i));
    }
    Warp.sync();
}

/// The receiver has read: the sender may go on. Returns when this PE may go on as well.
#[inline(always)]
fn answer(back: Signal, round: u32, sender: u32) {
    Warp.sync();
    if Warp.leader() {
        shmem::signal_op(back.set(u64::from(round)), sender);
    }
    shmem::wait_until(Warp, back, ge(u64::from(round)));
}

/// put, fence and a signal that orders nothing itself.
pub const FENCE: u32 = 0;
/// put_signal.
pub const PUT_SIGNAL: u32 = 1;
/// put, quiet, p.
pub const QUIET: u32 = 2;

/// Message passing: whoever sees the signal sees the data.
#[kernel(collective)]
pub fn message_passing(
    all: Collective,
    game: Game,
    form: u32,
    data: SymSlice<u32>,
    src: SymSlice<u32>,
    word: SymSlice<u64>,
    signals: SymSlice<SignalWord>,
) {
    let (me, n, b) = (shmem::my_pe(), shmem::n_pes(), Block.id());
    let (right, left) = ((me + 1) % n, (me + n - 1) % n);
    let (data, src, word) = (data.chunk(b, DATA), src.chunk(b, DATA), word.at(b));
    let (there, back) = (signals.at(2 * b), signals.at(2 * b + 1));
    game.play(all, || {
        for round in 1..=game.rounds {
            let epoch = u64::from(round);
            fill(src, round);
            if form == PUT_SIGNAL {
                shmem::put_signal(Warp, data, src, there.set(epoch), right);
            } else {
                shmem::put(Warp, data, src, right);
                if form == FENCE {
                    shmem::fence(Warp);
                } else {
                    shmem::quiet(Warp);
                }
                if Warp.leader() {
                    if form == FENCE {
                        relaxed::signal_op(there.set(epoch), right);
                    } else {
                        shmem::p(word, epoch, right);
                    }
                }
            }
            if form == QUIET {
                shmem::wait_until(Warp, word, eq(epoch));
            } else {
                shmem::wait_until(Warp, there, eq(epoch));
            }
            game.expect_row(data, round, value);
            answer(back, round, left);
        }
    });
}

/// Store buffering: of two PEs that each put, quiet and get what the other has put, one sees it. Each lane plays for
/// itself: in even rounds at words of the reader, in odd rounds at words of the writer.
#[kernel(collective)]
pub fn store_buffering(
    all: Collective,
    game: Game,
    cells: SymSlice<u32>,
    told: SymSlice<u32>,
    signals: SymSlice<SignalWord>,
) {
    let (me, n, b, lane) = (shmem::my_pe(), shmem::n_pes(), Block.id(), Warp.rank());
    // The last of an odd number plays with itself.
    let other = if (me ^ 1) < n { me ^ 1 } else { me };
    let (cells, told, there) = (cells.chunk(b, 64), told.chunk(b, 64), signals.at(b));
    game.play(all, || {
        for round in 1..=game.rounds {
            let epoch = u64::from(round);
            let cell = cells.chunk(round % 2, 32).at(lane);
            let (writes_at, reads_at) = if round % 2 == 0 { (other, me) } else { (me, other) };
            shmem::p(cell, round, writes_at);
            shmem::quiet(Thread);
            let seen = shmem::g(cell, reads_at);
            // What the other one saw: a row for every second round, for it may be one ahead.
            let told = told.chunk(round % 2, 32).at(lane);
            shmem::p(told, seen, other);
            shmem::fence(Warp);
            if Warp.leader() {
                shmem::signal_op(there.set(epoch), other);
            }
            shmem::wait_until(Warp, there, ge(epoch));
            game.expect(seen == round || told.load() == round);
        }
    });
}

/// Two puts to one address with a fence between: the later one wins. In odd rounds another lane issues it.
#[kernel(collective)]
pub fn overwritten(
    all: Collective,
    game: Game,
    data: SymSlice<u32>,
    src: SymSlice<u32>,
    signals: SymSlice<SignalWord>,
) {
    let (me, n, b, lane) = (shmem::my_pe(), shmem::n_pes(), Block.id(), Warp.rank());
    let (right, left) = ((me + 1) % n, (me + n - 1) % n);
    let (data, src) = (data.chunk(b, DATA), src.chunk(b, DATA));
    let (there, back) = (signals.at(2 * b), signals.at(2 * b + 1));
    let later = |round: u32, i: u32| value(round, i) | 0x80;
    game.play(all, || {
        for round in 1..=game.rounds {
            if round % 2 == 0 {
                for i in Warp.strided(DATA) {
                    shmem::p(data.at(i), value(round, i), right);
                    shmem::fence(Thread);
                    shmem::p(data.at(i), later(round, i), right);
                }
            } else {
                fill(src, round);
                shmem::put(Warp, data, src, right);
                shmem::fence(Warp);
                for i in Warp.strided(DATA) {
                    let i = (i - lane) + (lane + 7) % 32;
                    shmem::p(data.at(i), later(round, i), right);
                }
            }
            shmem::fence(Warp);
            if Warp.leader() {
                relaxed::signal_op(there.set(u64::from(round)), right);
            }
            shmem::wait_until(Warp, there, eq(u64::from(round)));
            game.expect_row(data, round, later);
            answer(back, round, left);
        }
    });
}

/// After a flush the source may be written again, by any lane: the old data arrives.
#[kernel(collective)]
pub fn source_reused(
    all: Collective,
    game: Game,
    data: SymSlice<u32>,
    src: SymSlice<u32>,
    signals: SymSlice<SignalWord>,
) {
    let (me, n, b) = (shmem::my_pe(), shmem::n_pes(), Block.id());
    let (right, left) = ((me + 1) % n, (me + n - 1) % n);
    let (data, src) = (data.chunk(b, DATA), src.chunk(b, DATA));
    let (there, back) = (signals.at(2 * b), signals.at(2 * b + 1));
    game.play(all, || {
        for round in 1..=game.rounds {
            fill(src, round);
            shmem::put_nbi(Warp, data, src, right);
            shmem::flush(Warp);
            for i in Warp.strided(DATA) {
                src.store(DATA - 1 - i, !0);
            }
            shmem::fence(Warp);
            if Warp.leader() {
                relaxed::signal_op(there.set(u64::from(round)), right);
            }
            shmem::wait_until(Warp, there, eq(u64::from(round)));
            game.expect_row(data, round, value);
            answer(back, round, left);
        }
    });
}

/// Causality over three PEs: the first one's data is seen by the third, which hears of it from the second. In even rounds
/// the data lies at the second, which the third reads; in odd rounds it was put to the third, and quiet done.
#[kernel(collective)]
pub fn causality(
    all: Collective,
    game: Game,
    near: SymSlice<u32>,
    far: SymSlice<u32>,
    src: SymSlice<u32>,
    signals: SymSlice<SignalWord>,
) {
    let (me, n, b) = (shmem::my_pe(), shmem::n_pes(), Block.id());
    let (second, third) = ((me + 1) % n, (me + 2) % n);
    let (left, first) = ((me + n - 1) % n, (me + 2 * n - 2) % n);
    let (near, src) = (near.chunk(b, DATA), src.chunk(b, DATA));
    let (relayed, far) = (far.chunk(2 * b, DATA), far.chunk(2 * b + 1, DATA));
    let (to_second, to_third, back) = (signals.at(3 * b), signals.at(3 * b + 1), signals.at(3 * b + 2));
    game.play(all, || {
        for round in 1..=game.rounds {
            let epoch = u64::from(round);
            fill(src, round);
            if round % 2 == 1 {
                shmem::put(Warp, far, src, third);
                shmem::quiet(Warp);
            }
            shmem::put_signal(Warp, near, src, to_second.set(epoch), second);
            shmem::wait_until(Warp, to_second, ge(epoch));
            shmem::put_signal(Warp, relayed, src, to_third.set(epoch), second);
            shmem::wait_until(Warp, to_third, ge(epoch));
            game.expect_row(relayed, round, value);
            if round % 2 == 1 {
                game.expect_row(far, round, value);
            } else {
                for i in Warp.strided(DATA) {
                    let other = DATA - 1 - i;
                    game.expect(shmem::g(near.at(other), left) == value(round, other));
                }
            }
            answer(back, round, first);
        }
    });
}

/// After a barrier every lane sees what any lane of any PE has put before it. Two rows in turn: a PE may be one barrier
/// ahead of those that still read.
#[kernel(collective)]
pub fn behind_a_barrier(all: Collective, game: Game, cells: SymSlice<u32>) {
    let (me, n, b, lane) = (shmem::my_pe(), shmem::n_pes(), Block.id(), Warp.rank());
    let team = shmem::world().slot(1 + b);
    game.play(all, || {
        for round in 1..=game.rounds {
            let row = cells.chunk(2 * b + round % 2, 32 * n);
            for pe in 0..n {
                shmem::p(row.at(32 * me + lane), value(round, lane), pe);
            }
            all.barrier(Warp, team);
            for pe in 0..n {
                game.expect(row.load(32 * pe + (31 - lane)) == value(round, 31 - lane));
            }
        }
    });
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::suite::{Case, full_or_little};
    use anyhow::ensure;
    use shmem_host::{Buf, Pe, SymBuf, collective_launch};

    pub const CASES: &[Case] = &[
        Case {
            name: "litmus: message passing by put, fence, signal",
            run: |pe| messages(pe, FENCE),
        },
        Case {
            name: "litmus: message passing by put_signal",
            run: |pe| messages(pe, PUT_SIGNAL),
        },
        Case {
            name: "litmus: message passing by put, quiet, p",
            run: |pe| messages(pe, QUIET),
        },
        Case {
            name: "litmus: store buffering with quiet",
            run: buffering,
        },
        Case {
            name: "litmus: two puts to one address, a fence between",
            run: overwriting,
        },
        Case {
            name: "litmus: source rewritten after flush",
            run: reusing,
        },
        Case {
            name: "litmus: causality over three PEs",
            run: relaying,
        },
        Case {
            name: "litmus: every put is seen behind a barrier",
            run: meeting,
        },
    ];

    /// The memory of a [`Game`], and its shape.
    struct Board {
        game: Game,
        wrong: Buf<u32>,
        _over: Buf<u32>,
        _noise: [SymBuf<u32>; 2],
        blocks: u32,
        threads: u32,
    }

    impl Board {
        fn new(pe: &Pe) -> anyhow::Result<Self> {
            let gpu = pe.device_name() != "the simulator";
            let (rounds, blocks, threads) = if gpu {
                (full_or_little(100_000, 1000), 4, 128)
            } else {
                (full_or_little(50, 2), 2, 64)
            };
            let (wrong, over) = (pe.buffer::<u32>(1)?, pe.buffer::<u32>(blocks as usize)?);
            wrong.write(&[0])?;
            over.write(&vec![0; blocks as usize])?;
            let noise = || pe.alloc::<u32>((blocks * threads / 32 * full_or_little(NOISE, 32)) as usize);
            let noise = [noise()?, noise()?];
            let game = Game {
                rounds,
                wrong: wrong.handle(),
                over: over.handle(),
                noise: noise[0].handle(),
                quiet: noise[1].handle(),
            };
            Ok(Self {
                game,
                wrong,
                _over: over,
                _noise: noise,
                blocks,
                threads,
            })
        }

        /// Elements for every block.
        fn rows(&self, pe: &Pe, elements: u32) -> anyhow::Result<SymBuf<u32>> {
            Ok(pe.alloc((self.blocks * elements) as usize)?)
        }

        fn verdict(&self) -> anyhow::Result<()> {
            let wrong = self.wrong.read(0)?;
            ensure!(wrong == 0, "{wrong} forbidden outcomes in {} rounds", self.game.rounds);
            Ok(())
        }
    }

    fn messages(pe: &Pe, form: u32) -> anyhow::Result<()> {
        let board = Board::new(pe)?;
        let (game, grid, block) = (board.game, board.blocks, board.threads);
        let (data, src) = (board.rows(pe, DATA)?, board.rows(pe, DATA)?);
        let (word, signals) = (pe.alloc::<u64>(grid as usize)?, pe.signals(2 * grid as usize)?);
        collective_launch!(pe, message_passing<<<grid, block>>>(game, form, &data, &src, &word, &signals))?;
        board.verdict()
    }

    fn buffering(pe: &Pe) -> anyhow::Result<()> {
        let board = Board::new(pe)?;
        let (game, grid, block) = (board.game, board.blocks, board.threads);
        let (cells, told, signals) = (board.rows(pe, 64)?, board.rows(pe, 64)?, pe.signals(grid as usize)?);
        collective_launch!(pe, store_buffering<<<grid, block>>>(game, &cells, &told, &signals))?;
        board.verdict()
    }

    fn overwriting(pe: &Pe) -> anyhow::Result<()> {
        let board = Board::new(pe)?;
        let (game, grid, block) = (board.game, board.blocks, board.threads);
        let (data, src) = (board.rows(pe, DATA)?, board.rows(pe, DATA)?);
        let signals = pe.signals(2 * grid as usize)?;
        collective_launch!(pe, overwritten<<<grid, block>>>(game, &data, &src, &signals))?;
        board.verdict()
    }

    fn reusing(pe: &Pe) -> anyhow::Result<()> {
        let board = Board::new(pe)?;
        let (game, grid, block) = (board.game, board.blocks, board.threads);
        let (data, src) = (board.rows(pe, DATA)?, board.rows(pe, DATA)?);
        let signals = pe.signals(2 * grid as usize)?;
        collective_launch!(pe, source_reused<<<grid, block>>>(game, &data, &src, &signals))?;
        board.verdict()
    }

    fn relaying(pe: &Pe) -> anyhow::Result<()> {
        let board = Board::new(pe)?;
        let (game, grid, block) = (board.game, board.blocks, board.threads);
        let (near, far, src) = (board.rows(pe, DATA)?, board.rows(pe, 2 * DATA)?, board.rows(pe, DATA)?);
        let signals = pe.signals(3 * grid as usize)?;
        collective_launch!(pe, causality<<<grid, block>>>(game, &near, &far, &src, &signals))?;
        board.verdict()
    }

    fn meeting(pe: &Pe) -> anyhow::Result<()> {
        let board = Board::new(pe)?;
        let (game, grid, block) = (board.game, board.blocks, board.threads);
        let cells = board.rows(pe, 2 * 32 * pe.n())?;
        collective_launch!(pe, behind_a_barrier<<<grid, block>>>(game, &cells))?;
        board.verdict()
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
