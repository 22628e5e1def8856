//! Where the members of a team meet, apart from the other PEs.
//!
//! Each process has a place of its own for them. Members bring what they give to the places of all processes that have some:
//! to that of their own by hand, to the others by a letter ([`Post`]). Where everything is there, it is a round.

use crate::collective::Turn;
use crate::layout::Layout;
use crate::post::{Letter, NoLetter, Post};
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
    /// Meetings of nodes, which are there for good: members in other processes may be a round ahead.
    nodes: Vec<Arc<Rendezvous<Turn>>>,
    /// What came for meetings that no member here has been to, in order, with the PE that brings it.
    early: HashMap<Key, Vec<(u32, Turn)>>,
}

/// The members of a team, and where they meet while one of them needs it.
type Open = (Arc<[u32]>, Weak<Rendezvous<Turn>>);

impl Meetings {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code runs under the lock that could leave the state half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The meeting of a team, which the first member to ask makes.
    fn of(&self, key: Key, members: &Arc<[u32]>, shared: &Shared) -> Arc<Rendezvous<Turn>> {
        let mut state = self.lock();
        if let Some(open) = state.open.get(&key).and_then(|(_, meeting)| meeting.upgrade()) {
            return open;
        }
        let meeting = Arc::new(Rendezvous::new(Layout::alone(members.len() as u32)));
        for (pe, turn) in state.early.remove(&key).unwrap_or_default() {
            bring(&meeting, members, pe, turn, shared);
        }
        if key.0.is_none() {
            state.nodes.push(meeting.clone());
        }
        for (index, pe) in (0..).zip(&**members) {
            if state.ended.contains(pe) {
                meeting.end(index);
            }
        }
        state.open.insert(key, (members.clone(), Arc::downgrade(&meeting)));
        meeting
    }

    /// Takes in letters of this machine's processes until the post is stopped.
    pub(crate) fn receive(&self, post: &Post, shared: &Shared) {
        loop {
            match post.receive() {
                Ok(None) => return,
                Ok(Some(letter)) => self.read(letter, post, shared),
                Err(cause) => {
                    let here = shared.group.layout.local().start;
                    return shared.fail(here, format!("the inbox can't be read: {cause}"));
                }
            }
        }
    }

    /// Takes in letters of other machines' processes until the post is stopped.
    pub(crate) fn receive_far(&self, post: &Post, shared: &Shared) {
        // Once a process has failed, which is learned elsewhere, no letter matters.
        while let Ok(Some(letter)) = post.receive_far() {
            self.read(letter, post, shared);
        }
    }

    fn read(&self, letter: Result<Letter, NoLetter>, post: &Post, shared: &Shared) {
        match letter {
            Ok(Letter::End { pe }) => self.end(pe),
            Ok(Letter::Turn { team, pe, turn }) => self.arrived(team, pe, *turn, shared),
            Ok(Letter::Ask { rank }) => {
                let slots = shared.group.slots();
                // Who does not get it asks again.
                let _ = post.send(&Letter::Slots(slots), [rank], &|| shared.failed());
            }
            Ok(Letter::Slots(slots)) => shared.group.note_slots(&slots),
            Err(NoLetter) => {
                let here = shared.group.layout.local().start;
                shared.fail(here, "a process sent what is no letter".to_owned());
            }
        }
    }

    fn arrived(&self, team: Key, pe: u32, turn: Turn, shared: &Shared) {
        let mut state = self.lock();
        let open = state.open.get(&team);
        match open.and_then(|(members, meeting)| Some((members.clone(), meeting.upgrade()?))) {
            None => state.early.entry(team).or_default().push((pe, turn)),
            Some((members, meeting)) => {
                // Whoever meets may hold its lock while it asks about the World.
                drop(state);
                bring(&meeting, &members, pe, turn, shared);
            }
        }
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

fn bring(meeting: &Rendezvous<Turn>, members: &[u32], pe: u32, turn: Turn, shared: &Shared) {
    if let Some(index) = members.iter().position(|&member| member == pe) {
        meeting.bring(index as u32, turn, &Members(shared, members));
    } else {
        tracing::warn!(pe, ?members, "a PE came to the meeting of a team that it is not in");
    }
}

/// One member's part of a team's meeting.
pub(crate) struct Circle {
    pub(crate) members: Arc<[u32]>,
    key: Key,
    /// Its index.
    me: u32,
    /// The other processes that have members, by rank.
    elsewhere: Box<[u32]>,
    meeting: Arc<Rendezvous<Turn>>,
}

impl Circle {
    pub(crate) fn new(shared: &Shared, block: Option<u32>, members: &Arc<[u32]>, me: u32) -> Self {
        let (layout, key) = (&shared.group.layout, (block, members[0]));
        let elsewhere = members.iter().filter(|&&pe| !layout.is_local(pe));
        let mut elsewhere: Vec<_> = elsewhere.map(|&pe| layout.rank_of(pe)).collect();
        elsewhere.sort_unstable();
        elsewhere.dedup();
        Self {
            members: members.clone(),
            key,
            me,
            elsewhere: elsewhere.into(),
            meeting: shared.meetings.of(key, members, shared),
        }
    }

    /// As [`Rendezvous::meet`], among the members and in their order.
    pub(crate) fn meet(&self, turn: Turn, shared: &Shared) -> Result<Arc<[Turn]>, Missed> {
        let pe = |index: u32| self.members[index as usize];
        let host = Members(shared, &self.members);
        if let Some(post) = shared.group.post().filter(|_| !self.elsewhere.is_empty()) {
            let (team, turn) = (self.key, Box::new(turn.clone()));
            let letter = Letter::Turn {
                team,
                pe: pe(self.me),
                turn,
            };
            let others = self.elsewhere.iter().copied();
            post.send(&letter, others, &|| shared.failed()).map_err(Missed::Lost)?;
        }
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

    fn ask(&self, absent: &[u32]) {
        let absent: Vec<_> = absent.iter().map(|&index| self.1[index as usize]).collect();
        self.0.ask(&absent);
    }

    fn came(&self, _: u32) -> u64 {
        0 // To this meeting everybody's value comes by itself.
    }

    fn release(&self, indices: Range<u32>) {
        let members = indices.map(|index| self.1[index as usize]);
        let here = |pe: &u32| self.0.group.layout.is_local(*pe);
        self.0.platform.release(&mut members.filter(here));
    }
}
