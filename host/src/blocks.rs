//! One PE's book of the blocks that teams have in the heaps: which are free here.
//!
//! The members of a team use the same block. A split therefore takes one that is free on each of them, which they find from
//! what they tell each other when they meet ([`choose`]). PEs that are in no common team know nothing of each other's
//! blocks, and need not.
//!
//! A block is free again once every member has dropped the team. Two members know it of each other from the first meeting
//! at which both have, so that none has to tell longer than the others need to hear.

use shmem::state::MAX_TEAMS;
use std::collections::HashMap;

#[derive(Debug)]
pub(crate) struct Blocks {
    /// Bit b: block b is free.
    free: u64,
    held: HashMap<u32, Held>,
}

#[derive(Debug)]
struct Held {
    dropped: bool,
    /// Other members, but for those known to have dropped it together with this PE.
    others: Vec<u32>,
}

impl Blocks {
    pub(crate) fn new() -> Self {
        const { assert!(MAX_TEAMS == u64::BITS) };
        Self {
            free: u64::MAX,
            held: HashMap::new(),
        }
    }

    pub(crate) fn free(&self) -> u64 {
        self.free
    }

    pub(crate) fn take(&mut self, block: u32, others: Vec<u32>) {
        self.free &= !(1 << block);
        let dropped = false;
        self.held.insert(block, Held { dropped, others });
    }

    /// This PE has dropped the team, and its streams no longer use it.
    pub(crate) fn drop_one(&mut self, block: u32) {
        if let Some(held) = self.held.get_mut(&block) {
            held.dropped = true;
            self.free_if_settled(block);
        }
    }

    /// Blocks of teams that this PE has dropped and others perhaps not, as bits.
    pub(crate) fn dropped(&self) -> u64 {
        let dropped = self.held.iter().filter(|(_, held)| held.dropped);
        dropped.fold(0, |bits, (block, _)| bits | 1 << block)
    }

    /// At a meeting, PE `pe` says which it has dropped, and has heard which this one has (`mine`).
    pub(crate) fn settle(&mut self, pe: u32, theirs: u64, mine: u64) {
        for block in bits(theirs & mine) {
            if let Some(held) = self.held.get_mut(&block) {
                held.others.retain(|&other| other != pe);
                self.free_if_settled(block);
            }
        }
    }

    fn free_if_settled(&mut self, block: u32) {
        if self
            .held
            .get(&block)
            .is_some_and(|held| held.dropped && held.others.is_empty())
        {
            self.held.remove(&block);
            self.free |= 1 << block;
        }
    }
}

fn bits(set: u64) -> impl Iterator<Item = u32> {
    (0..u64::BITS).filter(move |bit| set & 1 << bit != 0)
}

/// A block for each group of members, free on all of them. `free`: of each member, by index. None where one group gets none.
pub(crate) fn choose(groups: &[Vec<u32>], mut free: Vec<u64>) -> Option<Vec<u32>> {
    let one = |group: &Vec<u32>| {
        let common = group
            .iter()
            .fold(u64::MAX, |common, &member| common & free[member as usize]);
        let block = (common != 0).then(|| common.trailing_zeros())?;
        for &member in group {
            free[member as usize] &= !(1 << block);
        }
        Some(block)
    };
    groups.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn groups_without_a_common_member_may_share_a_block() {
        let free = vec![u64::MAX, u64::MAX, u64::MAX - 1, u64::MAX];
        let groups = [vec![0, 1], vec![2, 3], vec![0, 2], vec![1, 3]];
        assert_eq!(choose(&groups, free), Some(vec![0, 1, 2, 2]));
        assert_eq!(choose(&[vec![0, 1]], vec![0b01, 0b10]), None);
    }

    #[test]
    fn a_block_is_free_once_both_have_dropped_at_one_meeting() {
        let (mut a, mut b) = (Blocks::new(), Blocks::new());
        a.take(0, vec![1]);
        b.take(0, vec![0]);
        let meet = |a: &mut Blocks, b: &mut Blocks| {
            let (of_a, of_b) = (a.dropped(), b.dropped());
            a.settle(1, of_b, of_a);
            b.settle(0, of_a, of_b);
        };
        a.drop_one(0);
        meet(&mut a, &mut b);
        assert_eq!((a.free() & 1, b.free() & 1), (0, 0), "one of them still has it");
        b.drop_one(0);
        assert_eq!((a.free() & 1, b.free() & 1), (0, 0), "nobody has told");
        meet(&mut a, &mut b);
        assert_eq!((a.free() & 1, b.free() & 1), (1, 1));
    }

    proptest! {
        /// Teams among four PEs, dropped one by one, and meetings of some of them, in any order: no PE is ever in two teams of
        /// one block, members agree on blocks, and in the end everything is free.
        #[test]
        fn members_agree_and_nothing_is_lost(
            steps in prop::collection::vec((0u32..3, 1usize..16, any::<prop::sample::Index>()), 1..200)
        ) {
            let mut pes: Vec<Blocks> = (0..4).map(|_| Blocks::new()).collect();
            // Who is left in each team: the members, its block, and those that have not dropped it.
            let mut live: Vec<(u32, Vec<u32>)> = vec![];
            let meet = |pes: &mut Vec<Blocks>, who: &[u32]| {
                let said: Vec<u64> = pes.iter().map(Blocks::dropped).collect();
                for &a in who {
                    for &b in who {
                        pes[a as usize].settle(b, said[b as usize], said[a as usize]);
                    }
                }
            };
            for (what, set, pick) in steps {
                let who: Vec<u32> = (0..4).filter(|pe| set & 1 << pe != 0).collect();
                match what {
                    0 => {
                        let free = pes.iter().map(Blocks::free).collect();
                        if let Some(blocks) = choose(std::slice::from_ref(&who), free) {
                            for &pe in &who {
                                prop_assert!(!live.iter().any(|(b, left)| *b == blocks[0] && left.contains(&pe)));
                                let others = who.iter().copied().filter(|&other| other != pe).collect();
                                pes[pe as usize].take(blocks[0], others);
                            }
                            live.push((blocks[0], who));
                        }
                    }
                    1 if !live.is_empty() => {
                        let at = pick.index(live.len());
                        let (block, left) = &mut live[at];
                        let pe = left.pop().unwrap();
                        pes[pe as usize].drop_one(*block);
                        if left.is_empty() {
                            live.remove(at);
                        }
                    }
                    _ => meet(&mut pes, &who),
                }
            }
            for (block, left) in live {
                for pe in left {
                    pes[pe as usize].drop_one(block);
                }
            }
            meet(&mut pes, &[0, 1, 2, 3]);
            prop_assert!(pes.iter().all(|pe| pe.free() == u64::MAX));
        }
    }
}
