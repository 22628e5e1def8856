//! Operations that have not taken effect, by where they go.
//!
//! A link is a PE's context to one target. Each pending operation has a time at which it takes effect; when it is issued,
//! that is put behind the times of all that it must not overtake. So the order of times is always an allowed one, and
//! nothing has to be looked up when operations take effect.

use super::op::{Effect, Op, Remote, Team};
use shmem::hook::SignalUpdate;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// When an operation takes effect: the time in nanoseconds, its place among those of the same time, its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Due {
    pub(crate) ns: u64,
    pub(crate) tie: u32,
    pub(crate) number: u64,
}

/// The time of what never takes effect.
pub(crate) const NEVER: u64 = u64::MAX;

/// An operation that has not taken effect.
pub(crate) struct Pending {
    pub(crate) op: Op,
    pub(crate) to: Remote,
    pub(crate) effect: Effect,
    pub(crate) due: Due,
    /// The latest among it and those issued before it on its link.
    latest: Due,
    /// The `put_signal` that it is part of, until its signal is issued.
    pub(crate) team: Option<Team>,
    /// What it comes behind on other links: theirs with a smaller number.
    pub(crate) across: Vec<(usize, u64)>,
}

/// What an operation must not overtake.
#[derive(Default)]
pub(crate) struct Behind {
    pub(crate) latest: Option<Due>,
    pub(crate) across: Vec<(usize, u64)>,
}

impl Behind {
    fn add(&mut self, due: Option<Due>) {
        self.latest = self.latest.max(due);
    }
}

struct Link {
    pe: u32,
    ctx: u32,
    target: u32,
    /// In the order of issue, by number.
    pending: BTreeMap<u64, Box<Pending>>,
    /// Those with a smaller number are acknowledged: whatever the PE issues to the target comes behind them.
    acknowledged: u64,
}

impl Link {
    /// The latest of those with a smaller number than this.
    fn latest_of(&self, number: u64) -> Option<Due> {
        let (_, last) = self.pending.range(..number).next_back()?;
        Some(last.latest)
    }
}

#[derive(Default)]
pub(crate) struct Links {
    index: HashMap<(u32, u32, u32), usize>,
    all: Vec<Link>,
    /// By issuing PE.
    of: HashMap<u32, Vec<usize>>,
    due: BTreeSet<(Due, usize)>,
    never: usize,
}

impl Links {
    pub(crate) fn link(&mut self, pe: u32, ctx: u32, target: u32) -> usize {
        let Self { index, all, of, .. } = self;
        *index.entry((pe, ctx, target)).or_insert_with(|| {
            all.push(Link {
                pe,
                ctx,
                target,
                pending: BTreeMap::new(),
                acknowledged: 0,
            });
            of.entry(pe).or_default().push(all.len() - 1);
            all.len() - 1
        })
    }

    fn of(&self, pe: u32) -> impl Iterator<Item = usize> + '_ {
        self.of.get(&pe).into_iter().flatten().copied()
    }

    /// Adds what was issued before the number `fence` on the link.
    pub(crate) fn behind_fence(&self, link: usize, fence: u64, behind: &mut Behind) {
        let link = &self.all[link];
        behind.add(link.latest_of(fence));
    }

    /// Adds everything on the link.
    pub(crate) fn behind_all(&self, link: usize, behind: &mut Behind) {
        behind.add(self.all[link].latest_of(u64::MAX));
    }

    /// Adds what the lanes of a `put_signal` have put, and takes it as told.
    pub(crate) fn behind_team(&mut self, link: usize, team: Team, behind: &mut Behind) {
        for pending in self.all[link].pending.values_mut().filter(|p| p.team == Some(team)) {
            pending.team = None;
            behind.add(Some(pending.due));
        }
    }

    /// Adds updates of the same word.
    pub(crate) fn behind_word(&self, link: usize, offset: u64, behind: &mut Behind) {
        for pending in self.all[link].pending.values() {
            if matches!(pending.effect, Effect::Signal(SignalUpdate { offset: at, .. }) if at == offset) {
                behind.add(Some(pending.due));
            }
        }
    }

    /// Adds what is acknowledged of all links to the same target.
    pub(crate) fn behind_acknowledged(&self, link: usize, behind: &mut Behind) {
        let (pe, target) = (self.all[link].pe, self.all[link].target);
        for i in self.of(pe) {
            let other = &self.all[i];
            if other.target != target {
                continue;
            }
            let latest = other.latest_of(other.acknowledged);
            behind.add(latest);
            if latest.is_some() && i != link {
                behind.across.push((i, other.acknowledged));
            }
        }
    }

    pub(crate) fn acknowledged(&self, link: usize) -> u64 {
        self.all[link].acknowledged
    }

    pub(crate) fn acknowledge(&mut self, link: usize, number: u64) {
        self.all[link].acknowledged = number;
    }

    pub(crate) fn push(
        &mut self,
        link: usize,
        (op, to, effect): (Op, Remote, Effect),
        due: Due,
        team: Option<Team>,
        across: Vec<(usize, u64)>,
    ) {
        let pending = &mut self.all[link].pending;
        let last = pending.last_key_value();
        let latest = last.map_or(due, |(_, last)| last.latest.max(due));
        let issued = Pending {
            op,
            to,
            effect,
            due,
            latest,
            team,
            across,
        };
        pending.insert(due.number, Box::new(issued));
        self.never += usize::from(due.ns == NEVER);
        self.due.insert((due, link));
    }

    fn take(&mut self, (due, link): (Due, usize)) -> Option<Box<Pending>> {
        self.due.remove(&(due, link));
        self.never -= usize::from(due.ns == NEVER);
        self.all[link].pending.remove(&due.number)
    }

    /// Those that will take effect some time.
    pub(crate) fn coming(&self) -> usize {
        self.due.len() - self.never
    }

    /// When the next one takes effect.
    pub(crate) fn next_ns(&self) -> u64 {
        self.due.first().map_or(NEVER, |(due, _)| due.ns)
    }

    /// Takes the next one that is due.
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<Box<Pending>> {
        let first = *self.due.first()?;
        (first.0.ns <= now_ns).then(|| self.take(first))?
    }

    /// Takes those of some links with a number below, in the order of their times. None where one of them never takes
    /// effect.
    #[expect(clippy::vec_box, reason = "they are large, and lie in boxes already")]
    pub(crate) fn take_older(&mut self, which: &[usize], number: u64) -> Option<Vec<Box<Pending>>> {
        let mut dues = Vec::new();
        for &link in which {
            let older = self.all[link].pending.range(..number);
            dues.extend(older.map(|(_, p)| (p.due, link)));
        }
        dues.sort_unstable();
        if dues.last().is_some_and(|(due, _)| due.ns == NEVER) {
            return None;
        }
        Some(dues.into_iter().filter_map(|due| self.take(due)).collect())
    }

    /// The PE's links of a context.
    pub(crate) fn of_context(&self, pe: u32, ctx: u32) -> Vec<(usize, u32)> {
        let links = self.of(pe).map(|i| (i, &self.all[i]));
        links
            .filter(|(_, link)| link.ctx == ctx && !link.pending.is_empty())
            .map(|(i, link)| (i, link.target))
            .collect()
    }

    /// Whether all of a PE's operations with a smaller number have taken effect.
    pub(crate) fn settled(&self, pe: u32, number: u64) -> bool {
        self.of(pe)
            .all(|link| self.all[link].pending.range(..number).next().is_none())
    }

    /// Hands out what is pending of a PE, link by link.
    pub(crate) fn pending_of(&mut self, pe: u32) -> impl Iterator<Item = (usize, &mut Pending)> {
        let links = self.of.get(&pe);
        let mut mine = vec![false; self.all.len()];
        links.into_iter().flatten().for_each(|&link| mine[link] = true);
        let links = self.all.iter_mut().enumerate().filter(move |(i, _)| mine[*i]);
        links.flat_map(|(i, link)| link.pending.values_mut().map(move |p| (i, &mut **p)))
    }

    /// How many are pending from where to where, for reports.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (u32, u32, &Pending, usize)> {
        let busy = self
            .all
            .iter()
            .filter_map(|link| link.pending.first_key_value().map(|(_, p)| (link, &**p)));
        busy.map(|(link, first)| (link.pe, link.target, first, link.pending.len()))
    }
}
