//! Which events come before others: vector clocks whose entries are runs of a block's lanes.
//!
//! A lane counts epochs, and every event of its has one. Lanes that meet go on with the same epoch, so that what all of a
//! block's threads know of another block is mostly a single run, and shared by all of them.

use super::ends::Ends;
use std::rc::Rc;

/// A thread of a block of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct LaneId {
    /// Number of the block among all that have begun in this world.
    pub(crate) block: u32,
    pub(crate) thread: u16,
}

/// Events of some lanes of a block, in the epochs after `after` up to `upto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) block: u32,
    pub(crate) first: u16,
    /// One past the last.
    pub(crate) end: u16,
    pub(crate) after: u32,
    pub(crate) upto: u32,
}

impl Run {
    pub(crate) fn of(lane: LaneId, after: u32, upto: u32) -> Self {
        Self {
            block: lane.block,
            first: lane.thread,
            end: lane.thread + 1,
            after,
            upto,
        }
    }
}

/// A set of events, by block, lane and epoch, ascending. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Set(Option<Rc<[Run]>>);

impl Set {
    fn runs(&self) -> &[Run] {
        self.0.as_deref().unwrap_or_default()
    }

    pub(crate) fn from_runs(mut runs: Vec<Run>) -> Self {
        runs.retain(|run| run.after < run.upto);
        runs.sort_unstable_by_key(|run| (run.block, run.first, run.after));
        let mut out: Vec<Run> = Vec::with_capacity(runs.len());
        for run in runs {
            match out.last_mut() {
                Some(last)
                    if (last.block, last.end, last.after, last.upto) == (run.block, run.first, run.after, run.upto) =>
                {
                    last.end = run.end;
                }
                _ => out.push(run),
            }
        }
        if out.is_empty() {
            Self(None)
        } else {
            Self(Some(out.into()))
        }
    }

    pub(crate) fn contains(&self, lane: LaneId, epoch: u32) -> bool {
        let runs = self.runs();
        let start = runs.partition_point(|run| run.block < lane.block);
        runs[start..]
            .iter()
            .take_while(|run| run.block == lane.block)
            .any(|run| (run.first..run.end).contains(&lane.thread) && run.after < epoch && epoch <= run.upto)
    }

    pub(crate) fn same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(a), Some(b)) => Rc::ptr_eq(a, b) || a == b,
            _ => false,
        }
    }

    /// Those of some blocks.
    pub(crate) fn of_blocks(&self, belongs: impl Fn(u32) -> bool) -> Self {
        let runs = self.runs();
        if runs.iter().all(|run| belongs(run.block)) {
            return self.clone();
        }
        Self::from_runs(runs.iter().copied().filter(|run| belongs(run.block)).collect())
    }

    pub(crate) fn with(&self, run: Run) -> Self {
        self.join(&Self(Some([run].into())))
    }

    /// Both.
    pub(crate) fn join(&self, other: &Self) -> Self {
        let (Some(a), Some(b)) = (&self.0, &other.0) else {
            return if self.0.is_some() { self.clone() } else { other.clone() };
        };
        if Rc::ptr_eq(a, b) || covers(a, b) {
            return self.clone();
        }
        if covers(b, a) {
            return other.clone();
        }
        let mut out = Vec::with_capacity(a.len() + b.len());
        let (mut a_left, mut b_left) = (&a[..], &b[..]);
        loop {
            let block = match (a_left.first(), b_left.first()) {
                (Some(x), Some(y)) => x.block.min(y.block),
                (Some(x), None) | (None, Some(x)) => x.block,
                (None, None) => break,
            };
            let from_a = take_block(&mut a_left, block);
            let from_b = take_block(&mut b_left, block);
            join_block(from_a, from_b, &mut out);
        }
        if out == a[..] {
            self.clone()
        } else if out == b[..] {
            other.clone()
        } else {
            Self(Some(out.into()))
        }
    }
}

/// Whether each run of the second lies inside one of the first: mostly what was joined before is joined again.
fn covers(a: &[Run], b: &[Run]) -> bool {
    // Many are as well joined as compared.
    let few = b.len() <= 4;
    let mut left = a;
    few && b.iter().all(|y| {
        let skip = left.iter().take_while(|x| x.block < y.block).count();
        left = &left[skip..];
        left.iter()
            .take_while(|x| x.block == y.block)
            .any(|x| x.first <= y.first && x.end >= y.end && x.after <= y.after && x.upto >= y.upto)
    })
}

fn take_block<'a>(runs: &mut &'a [Run], block: u32) -> &'a [Run] {
    let n = runs.iter().take_while(|run| run.block == block).count();
    let (mine, rest) = runs.split_at(n);
    *runs = rest;
    mine
}

/// Joins the runs of one block.
fn join_block(a: &[Run], b: &[Run], out: &mut Vec<Run>) {
    match (a, b) {
        (_, []) => return out.extend_from_slice(a),
        ([], _) => return out.extend_from_slice(b),
        ([x], [y]) if x.first <= y.first && x.end >= y.end && x.after <= y.after && x.upto >= y.upto => {
            return out.push(*x);
        }
        ([x], [y]) if y.first <= x.first && y.end >= x.end && y.after <= x.after && y.upto >= x.upto => {
            return out.push(*y);
        }
        _ => {}
    }
    let base = out.len();
    if join_plain(a, b, out).is_some() {
        return;
    }
    out.truncate(base);
    let block = a[0].block;
    let mut edges: Vec<u16> = a.iter().chain(b).flat_map(|run| [run.first, run.end]).collect();
    edges.sort_unstable();
    edges.dedup();
    // Runs of the lanes before, which those of equal epochs are joined with.
    let mut before = base..base;
    // Runs over the lanes looked at, of those that are left: both lists ascend by their first lanes.
    let (mut a_left, mut b_left, mut over) = (a, b, Vec::<Run>::new());
    let mut epochs = Vec::<(u32, u32)>::new();
    for pair in edges.windows(2) {
        let (first, end) = (pair[0], pair[1]);
        over.retain(|run| run.end > first);
        for left in [&mut a_left, &mut b_left] {
            let begun = left.iter().take_while(|run| run.first <= first).count();
            over.extend_from_slice(&left[..begun]);
            *left = &left[begun..];
        }
        if over.is_empty() {
            continue;
        }
        epochs.clear();
        epochs.extend(over.iter().map(|run| (run.after, run.upto)));
        epochs.sort_unstable();
        let start = out.len();
        for &(after, upto) in &epochs {
            match out[start..].last_mut() {
                Some(last) if after <= last.upto => last.upto = last.upto.max(upto),
                _ => out.push(Run {
                    block,
                    first,
                    end,
                    after,
                    upto,
                }),
            }
        }
        let same = before.len() == out.len() - start
            && out[before.clone()]
                .iter()
                .zip(&out[start..])
                .all(|(x, y)| (x.end, x.after, x.upto) == (y.first, y.after, y.upto));
        if same && !before.is_empty() {
            out.truncate(start);
            out[before.clone()].iter_mut().for_each(|run| run.end = end);
        } else {
            before = start..out.len();
        }
    }
}

/// Joins the runs of one block where each list has at most one for a lane, and so has the result: so it is mostly. None
/// where it is not; what was added then is of no use.
fn join_plain(mut a: &[Run], mut b: &[Run], out: &mut Vec<Run>) -> Option<()> {
    let base = out.len();
    // Those below have been joined.
    let mut lane = 0;
    loop {
        a = skip_plain(a, lane)?;
        b = skip_plain(b, lane)?;
        let (x, y) = (a.first(), b.first());
        let Some(first) = x.into_iter().chain(y).map(|run| run.first.max(lane)).min() else {
            return Some(());
        };
        let over = |run: &&Run| run.first <= first;
        let changes = |run: &Run| if over(&run) { run.end } else { run.first };
        let end = x.into_iter().chain(y).map(changes).min()?;
        let run = match (x.filter(over), y.filter(over)) {
            (Some(x), Some(y)) if x.after.max(y.after) <= x.upto.min(y.upto) => Run {
                after: x.after.min(y.after),
                upto: x.upto.max(y.upto),
                first,
                end,
                ..*x
            },
            (Some(run), None) | (None, Some(run)) => Run { first, end, ..*run },
            _ => return None,
        };
        match out[base..].last_mut() {
            Some(last) if (last.end, last.after, last.upto) == (first, run.after, run.upto) => last.end = end,
            _ => out.push(run),
        }
        lane = end;
    }
}

/// The runs that end above a lane; None where one that does not has a lane in common with the next.
fn skip_plain(mut runs: &[Run], lane: u16) -> Option<&[Run]> {
    while let [run, rest @ ..] = runs
        && run.end <= lane
    {
        if rest.first().is_some_and(|next| next.first < run.end) {
            return None;
        }
        runs = rest;
    }
    Some(runs)
}

/// Where put-like operations take effect one after the other once they are fenced: a context and a PE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Channel {
    pub(crate) ctx: u32,
    pub(crate) pe: u32,
}

impl Channel {
    /// All PEs: what a quiet of the context has completed.
    const ALL: u32 = u32::MAX;
    /// Sources of nbi operations, which a flush frees.
    const SOURCES: u32 = u32::MAX - 1;
    /// Data that nbi operations fetch.
    const FETCHED: u32 = u32::MAX - 2;

    pub(crate) fn all(ctx: u32) -> Self {
        Self { ctx, pe: Self::ALL }
    }

    pub(crate) fn sources(ctx: u32) -> Self {
        Self { ctx, pe: Self::SOURCES }
    }

    pub(crate) fn fetched(ctx: u32) -> Self {
        Self { ctx, pe: Self::FETCHED }
    }

    pub(crate) fn is_fetch(self) -> bool {
        self.pe == Self::FETCHED
    }
}

/// Operations that have taken effect, by channel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Done(Option<Rc<Vec<(Channel, Set)>>>);

impl Done {
    fn list(&self) -> &[(Channel, Set)] {
        self.0.as_deref().map(Vec::as_slice).unwrap_or_default()
    }

    pub(crate) fn contains(&self, channel: Channel, lane: LaneId, epoch: u32) -> bool {
        self.list()
            .iter()
            .any(|(c, set)| (*c == channel || *c == Channel::all(channel.ctx)) && set.contains(lane, epoch))
    }

    /// A context, other than the channel's own, in which the operation would be done.
    pub(crate) fn other_context(&self, ctx: u32) -> bool {
        self.list().iter().any(|(c, _)| c.ctx != ctx)
    }

    pub(crate) fn same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(a), Some(b)) => Rc::ptr_eq(a, b),
            _ => false,
        }
    }

    pub(crate) fn add(&mut self, channel: Channel, set: &Set) {
        if set.0.is_none() {
            return;
        }
        let list = Rc::make_mut(self.0.get_or_insert_default());
        match list.binary_search_by_key(&channel, |(c, _)| *c) {
            Ok(i) => list[i].1 = list[i].1.join(set),
            Err(i) => list.insert(i, (channel, set.clone())),
        }
    }

    fn retain(&mut self, keeps: impl Fn(u32) -> bool) {
        let of_others = |run: &Run| !keeps(run.block);
        if !self.list().iter().any(|(_, set)| set.runs().iter().any(of_others)) {
            return;
        }
        let kept = self
            .list()
            .iter()
            .map(|(channel, set)| (*channel, set.of_blocks(&keeps)));
        let kept: Vec<_> = kept.filter(|(_, set)| set.0.is_some()).collect();
        self.0 = (!kept.is_empty()).then(|| Rc::new(kept));
    }

    pub(crate) fn join(&mut self, other: &Self) {
        if self.0.is_none() {
            self.clone_from(other);
        } else if !self.same(other) {
            for (channel, set) in other.list() {
                self.add(*channel, set);
            }
        }
    }
}

/// What somebody knows to come before: events of lanes, operations that have taken effect, and launches that have ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock {
    pub(crate) seen: Set,
    pub(crate) done: Done,
    pub(crate) ends: Ends,
}

impl Clock {
    pub(crate) fn is_empty(&self) -> bool {
        self.seen.0.is_none() && self.done.0.is_none() && self.ends.is_empty()
    }

    pub(crate) fn same(&self, other: &Self) -> bool {
        self.seen.same(&other.seen) && self.done.same(&other.done) && self.ends.same(&other.ends)
    }

    /// Keeps what is of these blocks.
    pub(crate) fn retain(&mut self, keeps: impl Fn(u32) -> bool) {
        self.seen = self.seen.of_blocks(&keeps);
        self.done.retain(&keeps);
    }

    pub(crate) fn join(&mut self, other: &Self) {
        if !self.seen.same(&other.seen) {
            self.seen = self.seen.join(&other.seen);
        }
        self.done.join(&other.done);
        self.ends.join(&other.ends);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(block: u32, thread: u16) -> LaneId {
        LaneId { block, thread }
    }

    fn run(block: u32, lanes: std::ops::Range<u16>, epochs: (u32, u32)) -> Set {
        Set::from_runs(vec![Run {
            block,
            first: lanes.start,
            end: lanes.end,
            after: epochs.0,
            upto: epochs.1,
        }])
    }

    /// Against plain sets of events.
    #[test]
    fn a_join_holds_what_either_holds() {
        let mut seed = 1u32;
        let mut draw = |n: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) % n
        };
        for _ in 0..2000 {
            let mut sum = Set::default();
            let mut parts = Vec::new();
            for _ in 0..=draw(6) {
                let (first, after) = (draw(6) as u16, draw(6));
                let part = run(draw(3), first..first + 1 + draw(4) as u16, (after, after + 1 + draw(4)));
                sum = sum.join(&part);
                parts.push(part);
            }
            for block in 0..3 {
                for thread in 0..10 {
                    for epoch in 0..12 {
                        let l = lane(block, thread);
                        let either = parts.iter().any(|part| part.contains(l, epoch));
                        assert_eq!(sum.contains(l, epoch), either, "{l:?} at {epoch}: {sum:?} of {parts:?}");
                    }
                }
            }
            assert!(parts.iter().all(|part| sum.join(part).same(&sum)));
        }
    }

    #[test]
    fn lanes_of_equal_epochs_are_one_run() {
        let parts = (0..32).map(|i| run(0, i..i + 1, (0, 7)));
        let sum = parts.fold(Set::default(), |sum, part| sum.join(&part));
        assert_eq!(sum.runs().len(), 1);
        let chain = (0..50).map(|i| run(0, 3..4, (i, i + 1)));
        let sum = chain.fold(sum, |sum, part| sum.join(&part));
        assert_eq!(sum.runs().len(), 3, "{sum:?}");
    }

    #[test]
    fn a_quiet_covers_every_pe_of_its_context_alone() {
        let mut done = Done::default();
        done.add(Channel::all(1), &run(0, 0..8, (0, 5)));
        done.add(Channel { ctx: 0, pe: 2 }, &run(0, 0..1, (2, 3)));
        assert!(done.contains(Channel { ctx: 1, pe: 9 }, lane(0, 7), 5));
        assert!(!done.contains(Channel { ctx: 0, pe: 9 }, lane(0, 7), 5));
        assert!(done.contains(Channel { ctx: 0, pe: 2 }, lane(0, 0), 3));
        assert!(!done.contains(Channel { ctx: 0, pe: 2 }, lane(0, 0), 2));
    }
}
