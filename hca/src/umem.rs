//! Memory that commands name by number.

use crate::fabric::Fabric;
use crate::memory::{Memory, Place};
use crate::setup::SetupError;
use crate::state::Adapter;

impl<M: Memory> Fabric<M> {
    /// Registers memory that commands may name (`mlx5dv_devx_umem_reg`): its number.
    ///
    /// # Errors
    /// [`SetupError::Unknown`], [`SetupError::Unmapped`], [`SetupError::Empty`].
    pub fn register_umem(&mut self, adapter: Adapter, place: Place, bytes: u64) -> Result<u32, SetupError> {
        let Some(last) = bytes.checked_sub(1) else {
            return Err(SetupError::Empty("umem"));
        };
        for end in [place, place.after(last)] {
            self.memory.read(end, &mut [0])?;
        }
        let state = self.adapter(adapter.0)?;
        state.made_umems += 1;
        // No two adapters have the same ones by accident.
        let number = adapter.0 as u32 * 0x1000 + state.made_umems;
        state.umems.insert(number, (place, bytes));
        Ok(number)
    }

    /// Gives up a umem. What was made of it stays.
    ///
    /// # Errors
    /// [`SetupError::Unknown`].
    pub fn remove_umem(&mut self, adapter: Adapter, number: u32) -> Result<(), SetupError> {
        let gone = self.adapter(adapter.0)?.umems.remove(&number);
        gone.map(|_| ()).ok_or(SetupError::Unknown("umem"))
    }
}
