//! Every collective by every algorithm, with no barrier between; the lanes know what comes out of each.

use conformance::suite::noise;
use shmem::collective::{Algorithm, Part, Sum, room};
use shmem::prelude::*;
use shmem_sim::{collective, symmetric, team};

const ALGORITHMS: [Algorithm; 3] = [Algorithm::Packets, Algorithm::OneShot, Algorithm::TwoShot];

/// In the world, and in a team of every other PE in another order; on both sides of the most bytes that packets take. A block of each PE
/// calls it.
pub(crate) fn world_and_team() {
    let every_other: Vec<u32> = (0..shmem::n_pes()).rev().step_by(2).collect();
    let teams = [Some(shmem::world()), team(&every_other)];
    let lens = |n: u32| [room(n) as u32 / 4, room(n) as u32 / 4 + 1];
    // The half of them may send each other more.
    let most = lens(every_other.len() as u32)[1];
    let objects = Objects::new(shmem::n_pes(), most);
    for team in teams.into_iter().flatten() {
        for len in lens(team.n_pes()) {
            every_call(team, &objects.of(team.n_pes(), len));
        }
    }
}

/// What calls work on: of some there is a part of `len` elements for each member.
struct Objects {
    src: SymSlice<u32>,
    terms: SymSlice<f32>,
    to_all: SymSlice<u32>,
    from_all: SymSlice<u32>,
    total: SymSlice<f32>,
    sends: SymSlice<Part>,
    receives: SymSlice<Part>,
}

impl Objects {
    fn new(n: u32, len: u32) -> Self {
        let (n, len) = (n as usize, len as usize);
        Self {
            src: symmetric(n * len),
            terms: symmetric(n * len),
            to_all: symmetric(len),
            from_all: symmetric(n * len),
            total: symmetric(len),
            sends: symmetric(n),
            receives: symmetric(n),
        }
    }

    /// For fewer members, and shorter parts.
    fn of(&self, n: u32, len: u32) -> Self {
        Self {
            src: self.src.chunk(0, n * len),
            terms: self.terms.chunk(0, n * len),
            to_all: self.to_all.chunk(0, len),
            from_all: self.from_all.chunk(0, n * len),
            total: self.total.chunk(0, len),
            sends: self.sends.chunk(0, n),
            receives: self.receives.chunk(0, n),
        }
    }
}

/// Leaves what others may still write: the next call of the slot has them wait.
fn check<T: Pod + PartialEq + std::fmt::Debug>(got: SymSlice<T>, expected: impl Fn(usize) -> T) {
    for i in Block.strided(got.len() as u32) {
        assert_eq!(got.load(i), expected(i as usize), "element {i}");
    }
    Block.sync();
}

fn fill<T: Pod>(x: SymSlice<T>, element: impl Fn(usize) -> T) {
    for i in Block.strided(x.len() as u32) {
        x.store(i, element(i as usize));
    }
    Block.sync();
}

fn every_call(team: Team, objects: &Objects) {
    let Objects {
        src,
        terms,
        to_all,
        from_all,
        total,
        sends,
        receives,
    } = *objects;
    let (me, n, len) = (team.my_pe() as usize, team.n_pes() as usize, to_all.len() as usize);
    let (own, own_terms) = (src.chunk(0, to_all.len()), terms.chunk(0, to_all.len()));
    fill(src, |i| number(me, i));
    fill(terms, |i| term(me, i));
    for (k, by) in ALGORITHMS.into_iter().enumerate() {
        let (all, root) = (collective().by(by), [0, n - 1, n / 2][k]);
        all.broadcast(Block, team, to_all, own, root as u32);
        check(to_all, |i| number(root, i));
        if by != Algorithm::TwoShot {
            all.fcollect(Block, team, from_all, own);
            check(from_all, |i| number(i / len, i % len));
            all.alltoall(Block, team, from_all, src);
            check(from_all, |i| number(i / len, me * len + i % len));
            all.reduce_scatter(Block, team, Sum, total, terms);
            check(total, |i| sum(n, me * len + i));
        }
        all.sync(Block, team.slot(3));
        all.reduce(Block, team, Sum, total, own_terms);
        check(total, |i| sum(n, i));
        fill(total, |i| i as f32);
        all.reduce_to(Block, team, Sum, total, own_terms, root as u32);
        check(total, |i| if me == root { sum(n, i) } else { i as f32 });
    }
    for (list, at) in [(sends, 0), (receives, n)] {
        fill(list, |i| lists(me, n, len)[at + i]);
    }
    fill(from_all, |_| 7);
    collective().alltoallv(Block, team, from_all, src, sends, receives);
    check(from_all, |i| received(me, len, i).unwrap_or(7));
    // The size decides.
    fill(total, |i| term(me, i));
    collective().reduce(Block, team, Sum, total, total);
    check(total, |i| sum(n, i));
    collective().barrier(Block, team.slot(7));
}

/// Element `i` of a member's source.
pub(crate) fn number(member: usize, i: usize) -> u32 {
    noise(member as u64, i as u64) as u32
}

/// Not a whole one, so that a sum shows in which order it was made.
pub(crate) fn term(member: usize, i: usize) -> f32 {
    (noise(member as u64 + 1000, i as u64) % 16_001) as f32 / 1000.0 - 8.0
}

/// Element `i` of all members, in the order of their indices.
pub(crate) fn sum(n: usize, i: usize) -> f32 {
    (1..n).fold(term(0, i), |sum, member| sum + term(member, i))
}

/// How long a part from a member to a member is: most are shorter than `len`, and some empty.
pub(crate) fn length(from: usize, to: usize, len: usize) -> usize {
    len.saturating_sub((from + 2 * to) % (len + 3))
}

/// What a member sends and receives: parts as long as `length` says, of which the sent ones end where their place does.
pub(crate) fn lists(me: usize, n: usize, len: usize) -> Vec<Part> {
    let part = |start: usize, len: usize| Part {
        start: start as u64,
        len: len as u64,
    };
    let sends = (0..n).map(|to| part((to + 1) * len - length(me, to, len), length(me, to, len)));
    let receives = (0..n).map(|from| part(from * len, length(from, me, len)));
    sends.chain(receives).collect()
}

/// Element `i` of what those lists bring, if something comes there.
pub(crate) fn received(me: usize, len: usize, i: usize) -> Option<u32> {
    let (from, j) = (i / len, i % len);
    let length = length(from, me, len);
    (j < length).then(|| number(from, (me + 1) * len - length + j))
}
