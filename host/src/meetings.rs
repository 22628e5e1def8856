//! Where the members of a team meet, apart from the other PEs. They are PEs of one process.

use crate::collective::Turn;
use crate::layout::Layout;
use crate::rendezvous::{Host, Missed, Rendezvous};
use crate::shared::Shared;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// The meetings of teams that have had one. Two teams of one key never live at once.
#[derive(Default)]
pub(crate) struct Meetings(Mutex<State>);

/// The block of a team (none: the node) and its first member: teams that share a block share no member.
pub(crate) type Key = (Option<u32>, u32);

#[derive(Default)]
struct State {
    /// PEs that will come no more.
    ended: Vec<u32>,
    open: HashMap<Key, Open>,
}

/// The members of a team, and where they meet while one of them needs it.
type Open = (Arc<[u32]>, Weak<Rendezvous<Turn>>);

impl Meetings {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code runs under the lock that could leave the state half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The meeting of a team, which the first member to ask makes.
    pub(crate) fn of(&self, key: Key, members: &Arc<[u32]>) -> Arc<Rendezvous<Turn>> {
        let mut state = self.lock();
        if let Some(open) = state.open.get(&key).and_then(|(_, meeting)| meeting.upgrade()) {
            return open;
        }
        let meeting = Arc::new(Rendezvous::new(Layout::alone(members.len() as u32)));
        for (index, pe) in (0..).zip(&**members) {
            if state.ended.contains(pe) {
                meeting.end(index);
            }
        }
        state.open.insert(key, (members.clone(), Arc::downgrade(&meeting)));
        meeting
    }

    /// This PE will come no more.
    pub(crate) fn end(&self, pe: u32) {
        let mut state = self.lock();
        state.ended.push(pe);
        for (members, meeting) in state.open.values() {
            if let (Some(index), Some(meeting)) = (members.iter().position(|&p| p == pe), meeting.upgrade()) {
                meeting.end(index as u32);
            }
        }
    }

    /// Lets everyone who waits look again whether the World has failed.
    pub(crate) fn wake(&self) {
        let state = self.lock();
        state
            .open
            .values()
            .filter_map(|(_, meeting)| meeting.upgrade())
            .for_each(|meeting| meeting.wake());
    }
}

/// One member's part of a team's meeting.
pub(crate) struct Circle {
    pub(crate) members: Arc<[u32]>,
    /// Its index.
    me: u32,
    meeting: Arc<Rendezvous<Turn>>,
}

impl Circle {
    pub(crate) fn new(shared: &Shared, block: Option<u32>, members: &Arc<[u32]>, me: u32) -> Self {
        Self {
            members: members.clone(),
            me,
            meeting: shared.meetings.of((block, members[0]), members),
        }
    }

    /// As [`Rendezvous::meet`], among the members and in their order.
    pub(crate) fn meet(&self, turn: Turn, shared: &Shared) -> Result<Arc<[Turn]>, Missed> {
        let pe = |index: u32| self.members[index as usize];
        let host = Members(shared, &self.members);
        self.meeting.meet(self.me, turn, &host).map_err(|missed| match missed {
            Missed::Failed | Missed::Lost(_) => missed,
            Missed::Ended(index) => Missed::Ended(pe(index)),
            Missed::TimeLimit(absent) => Missed::TimeLimit(absent.into_iter().map(pe).collect()),
        })
    }
}

/// The World, as a meeting of these PEs sees it.
struct Members<'a>(&'a Shared, &'a [u32]);

impl Host for Members<'_> {
    fn failed(&self) -> bool {
        self.0.failed()
    }

    fn limit(&self) -> Option<Duration> {
        self.0.limit()
    }

    fn is_held_up(&self, index: u32) -> bool {
        self.0.is_held_up(self.1[index as usize])
    }

    fn come(&self, _: u32, _: u64) {}

    fn came(&self, _: u32) -> u64 {
        0 // Nobody is elsewhere.
    }

    fn release(&self, indices: Range<u32>) {
        self.0
            .platform
            .release(&mut indices.map(|index| self.1[index as usize]));
    }
}
