//! Memory as adapters see it: bytes at places, read and written by whoever embeds the emulator.

/// One of the embedder's address spaces: a PE's heap, the memory of a host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Default)]
pub struct Space(pub u32);

/// An address in a space.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub struct Place {
    /// Where it counts.
    pub space: Space,
    /// Address there.
    pub address: u64,
}

impl Place {
    /// `bytes` further on, wrapping like any address.
    #[must_use]
    pub fn after(self, bytes: u64) -> Self {
        Self {
            address: self.address.wrapping_add(bytes),
            ..self
        }
    }
}

/// There is no memory at a place that an adapter was told of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no memory at {:#x} of space {}: keep what queues and keys cover mapped until they are gone", .0.address, .0.space.0)]
pub struct Unmapped(pub Place);

/// Where bytes are. Accesses of 4 and 8 bytes at multiples of their size are single ones to whoever looks on; longer ones
/// are made of such, in no particular order.
pub trait Memory {
    /// Reads `into.len()` bytes.
    ///
    /// # Errors
    /// [`Unmapped`], and then what was read is unspecified.
    fn read(&self, at: Place, into: &mut [u8]) -> Result<(), Unmapped>;

    /// Writes `bytes`.
    ///
    /// # Errors
    /// [`Unmapped`], and then what was written is unspecified.
    fn write(&mut self, at: Place, bytes: &[u8]) -> Result<(), Unmapped>;

    /// Nothing that is read later is read before this.
    fn acquire(&self) {}

    /// Nothing that was written before this is seen after what is written later.
    fn release(&self) {}

    /// Replaces the native word of `bytes` (4 or 8) by what `change` makes of it, and returns the old one.
    ///
    /// # Errors
    /// [`Unmapped`].
    fn change(&mut self, at: Place, bytes: usize, change: &dyn Fn(u64) -> u64) -> Result<u64, Unmapped> {
        if bytes == 4 {
            let mut word = [0; 4];
            self.read(at, &mut word)?;
            let old = u64::from(u32::from_ne_bytes(word));
            self.write(at, &(change(old) as u32).to_ne_bytes())?;
            Ok(old)
        } else {
            let mut word = [0; 8];
            self.read(at, &mut word)?;
            let old = u64::from_ne_bytes(word);
            self.write(at, &change(old).to_ne_bytes())?;
            Ok(old)
        }
    }
}

/// Memory of the emulator's own: for tests, and for queues that nobody else has to see.
#[derive(Debug, Default)]
pub struct Ram(Vec<(Place, Vec<u8>)>);

impl Ram {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `bytes` of zeros at `at`.
    pub fn add(&mut self, at: Place, bytes: usize) {
        self.0.push((at, vec![0; bytes]));
    }

    fn find(&self, at: Place, bytes: usize) -> Option<(usize, usize)> {
        self.0.iter().enumerate().find_map(|(i, (start, memory))| {
            let offset = at.address.checked_sub(start.address)? as usize;
            (start.space == at.space && offset.checked_add(bytes)? <= memory.len()).then_some((i, offset))
        })
    }
}

impl Memory for Ram {
    fn read(&self, at: Place, into: &mut [u8]) -> Result<(), Unmapped> {
        let (i, offset) = self.find(at, into.len()).ok_or(Unmapped(at))?;
        into.copy_from_slice(&self.0[i].1[offset..offset + into.len()]);
        Ok(())
    }

    fn write(&mut self, at: Place, bytes: &[u8]) -> Result<(), Unmapped> {
        let (i, offset) = self.find(at, bytes.len()).ok_or(Unmapped(at))?;
        self.0[i].1[offset..offset + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}
