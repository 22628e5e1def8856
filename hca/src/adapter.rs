//! What an adapter is: how it is connected, what it can do, what it has.

use crate::fabric::Fabric;
use crate::firmware::Capabilities;
use crate::identity::Link;
use crate::memory::Memory;
use crate::state::{Adapter, Page, QueuePair};

impl<M: Memory> Fabric<M> {
    /// How an adapter's port is connected; [`Link::InfiniBand`] where nobody says otherwise.
    pub fn set_link(&mut self, adapter: Adapter, link: Link) {
        if let Some(state) = self.adapters.get_mut(adapter.0) {
            state.link = link;
        }
    }

    /// How an adapter's port is connected.
    pub fn link(&self, adapter: Adapter) -> Link {
        self.adapters.get(adapter.0).map(|a| a.link).unwrap_or_default()
    }

    /// What an adapter says of itself from now on.
    pub fn set_capabilities(&mut self, adapter: Adapter, capabilities: Capabilities) {
        if let Some(state) = self.adapters.get_mut(adapter.0) {
            state.capabilities = capabilities;
        }
    }

    /// The page of that number.
    pub fn page(&self, adapter: Adapter, number: u32) -> Option<Page> {
        self.adapters.get(adapter.0)?.pages.get(number as usize)?;
        Some(Page {
            adapter: adapter.0,
            number,
        })
    }

    /// The queue pairs of an adapter, in the order they were made.
    pub fn queue_pairs_of(&self, adapter: Adapter) -> Vec<QueuePair> {
        let all = self
            .queue_pairs
            .iter()
            .filter(|qp| !qp.gone && qp.id.adapter == adapter.0);
        all.map(|qp| qp.id).collect()
    }
}
