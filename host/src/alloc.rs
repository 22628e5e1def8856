//! Collective allocation from the symmetric heap.
//!
//! 1. All PEs meet and compare what they ask for.
//! 2. Each finds the same place in its own book of the heap. Where there is none, all drain their streams, meet again with
//!    what they have dropped, and try once more.
//! 3. Each makes memory for it on its own device, zeroed.
//! 4. All meet again: the block exists once every PE has it, or for none.

use crate::collective::{Call, Turn};
use crate::heap::{AllocRequest, Heap, HeapError, Placed};
use crate::session::Session;
use crate::{Error, Site};

impl Session {
    pub(crate) fn alloc_symmetric(&self, request: AllocRequest) -> Result<Placed, Error> {
        let site = request.site.clone();
        let turns = self.meet(Call::Alloc(request), &site)?;
        let request = Heap::agree(turns.iter().filter_map(requested))?;
        let placed = self.place(request, &site)?;
        let backed = self.back(&placed);
        let turns = self.meet(Call::Ready(backed), &site)?;
        match turns.iter().find_map(Turn::refused) {
            None => {
                let (pe, offset, serial) = (self.pe, placed.offset, placed.serial);
                tracing::debug!(pe, offset, serial, %site, "allocation");
                Ok(placed)
            }
            Some(error) => {
                self.heap.borrow_mut().free(placed.serial);
                Err(error)
            }
        }
    }

    fn place(&self, request: &AllocRequest, site: &Site) -> Result<Placed, Error> {
        let first = self.heap.borrow_mut().place(request);
        match first {
            Err(HeapError::Limit { .. }) => {
                self.wait_all()?;
                self.meet(Call::Reclaim, site)?;
                Ok(self.heap.borrow_mut().place(request)?)
            }
            other => Ok(other?),
        }
    }

    fn back(&self, placed: &Placed) -> Result<(), Error> {
        let what = || format!("memory for {} bytes of symmetric heap", placed.bytes);
        self.watched(self.shared.time_limit, &what, |watch| {
            self.device.back(placed.end(), watch)?;
            let address = self.device.heap_base() + placed.offset;
            self.device.reused(address, placed.bytes);
            match placed.used {
                0 => Ok(()),
                used => self.device.zero(address, used, watch),
            }
        })
    }
}

fn requested(turn: &Turn) -> Option<&AllocRequest> {
    match &turn.call {
        Call::Alloc(request) => Some(request),
        _ => None,
    }
}
