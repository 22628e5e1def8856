//! A lane's asynchronous copies: they take effect when they are waited for, and not before.

use shmem::hook::Access;
use std::cell::RefCell;
use std::collections::VecDeque;

/// One element: from, to.
pub(crate) type Copy = (Access, Access);

/// What a lane has begun to copy.
#[derive(Default)]
pub(crate) struct AsyncCopies {
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    open: Vec<Copy>,
    groups: VecDeque<Vec<Copy>>,
}

impl AsyncCopies {
    pub(crate) fn begin(&self, copy: Copy) {
        self.state.borrow_mut().open.push(copy);
    }

    pub(crate) fn commit(&self) {
        let mut state = self.state.borrow_mut();
        let group = std::mem::take(&mut state.open);
        state.groups.push_back(group);
    }

    /// The copies of all groups but the newest `pending`, oldest first.
    pub(crate) fn complete(&self, pending: u32) -> Vec<Copy> {
        let groups = &mut self.state.borrow_mut().groups;
        let n = groups.len().saturating_sub(pending as usize);
        groups.drain(..n).flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shmem::hook::{Space, Strength};

    fn at(address: u64) -> Access {
        Access {
            address,
            bytes: 4,
            space: Space::Global,
            strength: Strength::Weak,
        }
    }

    #[test]
    fn groups_complete_in_order_and_only_once_committed() {
        let copies = AsyncCopies::default();
        for group in 0..3 {
            copies.begin((at(group), at(10 + group)));
            copies.commit();
        }
        copies.begin((at(3), at(13)));
        let addresses = |pending| -> Vec<u64> { copies.complete(pending).iter().map(|c| c.0.address).collect() };
        assert_eq!(addresses(2), [0]);
        assert_eq!(addresses(0), [1, 2]);
        assert_eq!(addresses(0), []);
        copies.commit();
        assert_eq!(addresses(0), [3]);
    }
}
