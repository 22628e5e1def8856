//! Copies within device memory: made at once, or recorded and made by each launch of the graph.

use std::collections::BTreeMap;

#[derive(Clone, Copy)]
pub(crate) struct Copy {
    pub(crate) to: u64,
    pub(crate) from: u64,
    pub(crate) size: usize,
}

impl Copy {
    /// # Safety
    /// Both sides have that many bytes.
    unsafe fn make(self) {
        // SAFETY: the caller's.
        unsafe { (self.to as *mut u8).copy_from(self.from as *const u8, self.size) }
    }
}

/// By streams that are recorded, graphs and what is made of them: no two handles are alike.
pub(crate) struct Copies(BTreeMap<usize, Vec<Copy>>);

impl Copies {
    pub(crate) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    pub(crate) fn begin(&mut self, stream: usize) {
        self.0.insert(stream, vec![]);
    }

    /// # Safety
    /// Both sides have that many bytes, also when a graph that it becomes part of is launched.
    pub(crate) unsafe fn enqueue(&mut self, stream: usize, copy: Copy) {
        match self.0.get_mut(&stream) {
            Some(recorded) => recorded.push(copy),
            // SAFETY: the caller's.
            None => unsafe { copy.make() },
        }
    }

    pub(crate) fn become_part(&mut self, of: usize, whole: usize) {
        let copies = self.0.remove(&of).unwrap_or_default();
        self.0.insert(whole, copies);
    }

    /// # Safety
    /// As `enqueue` said.
    pub(crate) unsafe fn launch(&self, graph: usize) {
        for copy in self.0.get(&graph).into_iter().flatten() {
            // SAFETY: the caller's.
            unsafe { copy.make() };
        }
    }
}
