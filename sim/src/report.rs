//! The text that says why nothing goes on: who waits on what, and where.

use crate::block::{Block, bits};
use crate::desk::{Order, PATIENCE};
use crate::failure::triple;
use crate::hosts::Doing;
use crate::lane::{Lane, Wait};
use crate::launch::{Launch, RESIDENT_LANES};
use crate::memory;
use crate::world::World;
use shmem::hook::{At, Watch};
use shmem::state::{MAX_TEAMS, SYNC_SLOTS, SystemArea, TeamBlock};
use std::fmt::Write as _;

/// Blocks whose lanes are told; of others only the number.
const BLOCKS_TOLD: usize = 32;
/// Runs of numbers that a list has.
const RUNS_TOLD: usize = 8;

/// Words of a wait for any of several.
const WORDS_TOLD: u64 = 8;

pub(crate) struct Report<'a> {
    text: String,
    world: &'a World,
    /// Blocks told so far.
    blocks: usize,
    /// Some launch waits for hosts.
    waits_for_hosts: bool,
}

impl<'a> Report<'a> {
    pub(crate) fn new(heading: &str, world: &'a World) -> Self {
        Self {
            text: format!("{heading} (seed {})\n", world.seed),
            world,
            blocks: 0,
            waits_for_hosts: false,
        }
    }

    pub(crate) fn finish(mut self) -> String {
        if self.world.may_not_repeat() {
            self.line(&format!(
                "a host was away for more than {PATIENCE:?}: this schedule may not repeat"
            ));
        }
        self.text
    }

    /// Tells what another part of the world has written: whole lines.
    pub(crate) fn text(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    /// Tells where the lanes of a launch are.
    pub(crate) fn launch(&mut self, launch: &Launch) {
        let blocks = launch.blocks();
        let told = BLOCKS_TOLD.saturating_sub(self.blocks).min(blocks.len());
        self.blocks += told;
        for block in &blocks[..told] {
            self.block(block);
        }
        if blocks.len() > told {
            self.line(&format!(
                "kernel {}: {} blocks more have not ended",
                launch.kernel,
                blocks.len() - told
            ));
        }
        if launch.not_begun() > 0 {
            self.line(&format!(
                "kernel {}: {} blocks have not begun: no more than {RESIDENT_LANES} lanes of a launch that is not \
                 collective are resident at once",
                launch.kernel,
                launch.not_begun()
            ));
        }
    }

    fn block(&mut self, block: &Block) {
        let (pe, index) = (block.home.pe, block.lanes[0].view.block);
        self.line(&format!("kernel {} on PE {pe}, block {}:", block.kernel, triple(index)));
        let mut groups: Vec<(String, Vec<u32>)> = Vec::new();
        for lane in &block.lanes {
            let what = self.lane(block, lane);
            match groups.iter_mut().find(|(text, _)| *text == what) {
                Some((_, threads)) => threads.push(lane.rank),
                None => groups.push((what, vec![lane.rank])),
            }
        }
        for (what, threads) in groups {
            let count = if threads.len() > 1 {
                format!("{} lanes, ", threads.len())
            } else {
                String::new()
            };
            self.line(&format!("  {count}{}: {what}", numbers("thread", threads)));
        }
    }

    fn lane(&self, block: &Block, lane: &Lane) -> String {
        let (warp, bit) = (&block.warps[lane.rank as usize / 32], 1 << (lane.rank % 32));
        let at = place(lane.at.get());
        if warp.alive.get() & bit == 0 {
            return "has ended".to_owned();
        }
        if warp.ready.get() & bit != 0 {
            return format!("can run, was last at {at}");
        }
        match lane.wait.get() {
            Wait::Start => "has not begun".to_owned(),
            Wait::Barrier => {
                let missing = block.missing(&block.at_barrier, 0, block.warps.len() as u32);
                format!(
                    "at {at} waits for the block barrier; not arrived: {}",
                    numbers("thread", missing)
                )
            }
            Wait::Warps { first, count } => {
                let missing = block.missing(&block.at_warps, first, count);
                let ended = (first..first + count).filter(|&warp| block.warps[warp as usize].alive.get() == 0);
                let warps = first..first + count;
                format!(
                    "at {at} waits for its group, {}; not arrived: {}; ended: {}",
                    numbers("warp", warps),
                    numbers("thread", missing),
                    numbers("warp", ended)
                )
            }
            Wait::Cluster => {
                let (missing, blocks) = block.cluster.missing();
                format!(
                    "at {at} waits for the barrier of its cluster of {blocks} blocks; not arrived: {missing} threads"
                )
            }
            Wait::Grid => {
                let missing = block.missing(&block.at_grid, 0, block.warps.len() as u32);
                let (arrived, blocks) = block.grid.arrived();
                format!(
                    "at {at} waits for the grid barrier; {arrived} of {blocks} blocks have arrived; not arrived of this \
                     one: {}",
                    numbers("thread", missing)
                )
            }
            wait @ (Wait::Sync(mask) | Wait::Exchange(mask)) => {
                let kind = if matches!(wait, Wait::Sync(_)) {
                    "sync"
                } else {
                    "exchange"
                };
                let missing =
                    bits(mask & warp.alive.get() & !warp.company(lane.rank % 32)).map(|bit| lane.rank / 32 * 32 + bit);
                format!(
                    "at {at} waits for a warp {kind} of lanes {mask:#x}; not arrived: {}",
                    numbers("thread", missing)
                )
            }
            Wait::Memory(watch) => format!("at {at} waits for {}", self.watch(&watch)),
        }
    }

    fn watch(&self, watch: &Watch) -> String {
        if watch.address == 0 {
            return "a condition of its own".to_owned();
        }
        let adapters = self.world.adapters.as_ref();
        if let Some(text) = adapters.and_then(|adapters| adapters.describe(watch.address)) {
            return text;
        }
        let place = self.world.memory.heaps.place(watch.address);
        if let Some((of, offset)) = place
            && let Some(barrier) = self.barrier(of, offset)
        {
            return barrier;
        }
        let place = match place {
            Some((pe, offset)) => format!("symmetric offset {offset:#x} of PE {pe}"),
            None => format!("address {:#x}", watch.address),
        };
        let word = |i: u64| {
            // SAFETY: the lane still waits for the words.
            let now = unsafe { memory::load(watch.address + i * u64::from(watch.stride), watch.bytes) };
            number(now as u64, watch.bytes)
        };
        let wanted = if watch.each {
            "a value of its own".to_owned()
        } else {
            number(watch.value, watch.bytes)
        };
        let (bytes, comparison) = (watch.bytes, watch.comparison);
        if watch.count == 1 {
            return format!(
                "a word: the {bytes} bytes at {place} are {}, wanted {comparison} {wanted}",
                word(0)
            );
        }
        let values: Vec<String> = (0..watch.count.min(WORDS_TOLD)).map(word).collect();
        format!(
            "any of {} words, or of some of them: from {place} on, {bytes} bytes each, they are {}{}, wanted {comparison} \
             {wanted}",
            watch.count,
            values.join(", "),
            if watch.count > WORDS_TOLD { ", .." } else { "" }
        )
    }

    /// What a wait for a word of the library's own is about: a PE that others wait for at a barrier.
    fn barrier(&self, of: u32, offset: u64) -> Option<String> {
        let pes = self.world.pes();
        let area = SystemArea::new(pes);
        let node = self.world.state(of).node_start;
        let teams = [
            (area.world_sync, 0, pes, "the world"),
            (area.node_sync, node, self.world.state(of).node_size, "the node"),
        ];
        let built_in = teams.into_iter().find_map(|(start, first, pes, team)| {
            let word = offset.checked_sub(start + TeamBlock::WORDS)? / 8;
            let (slot, pe) = (word / u64::from(pes), u64::from(first) + word % u64::from(pes));
            (slot < SYNC_SLOTS as u64).then(|| format!("a barrier of {team} (slot {slot}): PE {pe} has not come"))
        });
        let built_in = built_in.or_else(|| {
            teams.into_iter().find_map(|(start, first, n, team)| {
                let (slot, block, index) = meeting(pes, n, offset.checked_sub(start)?)?;
                let pe = u64::from(first) + index;
                Some(format!(
                    "a collective of {team} on a stream (slot {slot}, block {block}): PE {pe} has not come"
                ))
            })
        });
        built_in.or_else(|| self.made_barrier(of, offset.checked_sub(area.teams)?))
    }

    /// Likewise of a team that was made; the offset is that in the blocks.
    fn made_barrier(&self, of: u32, offset: u64) -> Option<String> {
        let (pes, heaps) = (self.world.pes(), &self.world.memory.heaps);
        let (number, inside) = (offset / TeamBlock::bytes(pes), offset % TeamBlock::bytes(pes));
        if number >= MAX_TEAMS.into() {
            return None;
        }
        let block = heaps.base(of) as u64 + SystemArea::new(pes).teams + number * TeamBlock::bytes(pes);
        // SAFETY: blocks lie in every heap, and the offset is a word's in this one.
        let word = |at: u64| unsafe { memory::load(block + at, 4) } as u32;
        let n = word(TeamBlock::size(pes));
        if let Some((slot, block, index)) = meeting(pes, n, inside) {
            let pe = word(TeamBlock::members(n) + 4 * index);
            return Some(format!(
                "a collective of a team of {n} PEs on a stream (slot {slot}, block {block}): PE {pe}, its index {index}, has not come"
            ));
        }
        let word_at = inside.checked_sub(TeamBlock::WORDS)? / 8;
        let slot = word_at.checked_div(n.into())?;
        let index = word_at % u64::from(n);
        let pe = word(TeamBlock::members(n) + 4 * index);
        (slot < SYNC_SLOTS as u64)
            .then(|| format!("a barrier of a team of {n} PEs (slot {slot}): PE {pe}, its index {index}, has not come"))
    }

    /// Tells about a collective launch at the head of a stream that some PEs have not made, or not yet come to.
    pub(crate) fn waiting_launch(&mut self, order: &Order, missing: &[u32]) {
        let Order {
            pe,
            stream,
            job,
            number,
        } = order;
        self.waits_for_hosts = true;
        self.line(&format!(
            "PE {pe}, stream {stream}: collective kernel {} (launch number {number}) waits for {} to come to it",
            job.kernel(),
            numbers("PE", missing.iter().copied())
        ));
    }

    /// Tells what the host threads do. That one has ended matters only where a launch waits for it.
    pub(crate) fn hosts(&mut self, hosts: &[Doing]) {
        let mut groups: Vec<(&Doing, Vec<u32>)> = Vec::new();
        for (pe, doing) in (0..).zip(hosts) {
            match groups.iter_mut().find(|(other, _)| *other == doing) {
                Some((_, pes)) => pes.push(pe),
                None => groups.push((doing, vec![pe])),
            }
        }
        for (doing, pes) in groups {
            let what = match doing {
                Doing::Runs => "runs".to_owned(),
                Doing::WaitsFor(stream) => format!("waits for stream {stream}"),
                Doing::InCollective => "waits in a host collective".to_owned(),
                Doing::Ended => "has ended".to_owned(),
                Doing::Elsewhere => "is in another process".to_owned(),
            };
            if *doing != Doing::Ended || self.waits_for_hosts {
                self.line(&format!("host of {}: {what}", numbers("PE", pes)));
            }
        }
    }
}

fn place(at: Option<At>) -> String {
    at.map_or_else(|| "its start".to_owned(), ToString::to_string)
}

/// As the kernel's source most likely writes it: a word of 4 or 8 bytes with its upper bit set is a negative number.
fn number(bits: u64, bytes: u32) -> String {
    match bytes {
        4 => (bits as u32 as i32).to_string(),
        8 => (bits as i64).to_string(),
        _ => bits.to_string(),
    }
}

/// `PE 3`, `threads 0-4, 7`: ascending numbers as runs.
pub(crate) fn numbers(noun: &str, list: impl IntoIterator<Item = u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for n in list {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == n => *last = n,
            _ => runs.push((n, n)),
        }
    }
    let plural = if let [(a, b)] = runs[..] { a != b } else { true };
    let mut text = if runs.is_empty() {
        "none".to_owned()
    } else {
        format!("{noun}{} ", if plural { "s" } else { "" })
    };
    for (i, &(a, b)) in runs.iter().take(RUNS_TOLD).enumerate() {
        let comma = if i > 0 { ", " } else { "" };
        let _ = if a == b {
            write!(text, "{comma}{a}")
        } else {
            write!(text, "{comma}{a}-{b}")
        };
    }
    if runs.len() > RUNS_TOLD {
        text.push_str(", ..");
    }
    text
}

/// The slot, the block of a grid and the index of the member whose word lies there in the block of a team of `n`.
fn meeting(pes: u32, n: u32, inside: u64) -> Option<(u64, u64, u64)> {
    let (inside, bytes) = (
        inside.checked_sub(TeamBlock::meetings(pes))?,
        TeamBlock::meeting_bytes(pes),
    );
    let (slot, word) = (
        inside / bytes,
        (inside % bytes / 8).checked_sub(TeamBlock::MEETING_BLOCKS.into())?,
    );
    (slot < SYNC_SLOTS as u64 && n > 0).then(|| (slot, word / u64::from(n), word % u64::from(n)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_as_runs() {
        assert_eq!(numbers("thread", [3]), "thread 3");
        assert_eq!(numbers("PE", [0, 1, 2, 5, 7, 8]), "PEs 0-2, 5, 7-8");
        assert_eq!(numbers("PE", []), "none");
        assert_eq!(numbers("PE", (0..40).step_by(2)), "PEs 0, 2, 4, 6, 8, 10, 12, 14, ..");
    }

    #[test]
    fn words_read_as_they_were_written() {
        assert_eq!(number(7, 8), "7");
        assert_eq!(number(-1i32 as u64, 4), "-1");
        assert_eq!(number(u32::MAX.into(), 4), "-1");
        assert_eq!(number(-5i64 as u64, 8), "-5");
    }
}
