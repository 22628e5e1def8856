//! The blocks of a cluster, and their barrier: it opens when all their lanes that have not ended are there.

use crate::block::{Block, check_sync_all};
use std::cell::RefCell;
use std::rc::{Rc, Weak};

pub(crate) struct Cluster {
    /// Blocks that there are.
    size: u32,
    /// Those that have begun, by rank.
    blocks: RefCell<Vec<Weak<Block>>>,
}

impl Cluster {
    pub(crate) fn new(size: u32) -> Rc<Self> {
        Rc::new(Self {
            size,
            blocks: RefCell::default(),
        })
    }

    /// A block has begun, the next one by rank.
    pub(crate) fn add(&self, block: &Rc<Block>) {
        self.blocks.borrow_mut().push(Rc::downgrade(block));
    }

    /// Whether all blocks have begun.
    pub(crate) fn complete(&self) -> bool {
        self.blocks.borrow().len() == self.size as usize
    }

    /// The first block, unless it has ended.
    pub(crate) fn first(&self) -> Option<Rc<Block>> {
        self.blocks.borrow().first().and_then(Weak::upgrade)
    }

    /// Threads that have not ended and are not at the barrier, of how many blocks.
    pub(crate) fn missing(&self) -> (u32, u32) {
        let missing = self
            .live()
            .map(|block| block.live() - block.at_cluster.count.get())
            .sum();
        (missing, self.size)
    }

    /// Lets the lanes at the barrier go on, if nobody is missing. False where somebody is.
    pub(crate) fn open(&self) -> bool {
        if !self.complete() || self.live().any(|block| block.at_cluster.count.get() < block.live()) {
            return false;
        }
        check_sync_all(&self.blocks(), |block| &block.at_cluster);
        self.live().for_each(|block| block.leave(&block.at_cluster));
        true
    }

    /// Those that are there.
    pub(crate) fn blocks(&self) -> Vec<Rc<Block>> {
        self.live().collect()
    }

    fn live(&self) -> impl Iterator<Item = Rc<Block>> {
        let blocks = self.blocks.borrow();
        (0..blocks.len()).filter_map(move |i| blocks[i].upgrade())
    }
}

impl Block {
    /// A lane comes to the cluster's barrier. False where it has to wait.
    pub(crate) fn arrive_at_cluster(&self, thread: u32) -> bool {
        self.at_cluster.add(thread);
        self.cluster.open() && {
            self.unready(thread);
            true
        }
    }
}
