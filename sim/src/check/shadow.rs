//! Who touched which byte last: an entry for every byte of memory that kernels share, kept by pages.

use rustc_hash::FxHashMap;

const PAGE: u64 = 4096;
const WORD: usize = 4;

/// The last write of some bytes, and the reads since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) write: u32,
    pub(crate) reads: u32,
}

/// As fine as its accesses were.
enum Page {
    Whole(Cell),
    // Made on the heap: this runs on the small stacks of lanes.
    Words(Box<[Cell]>),
    Bytes(Box<[Cell]>),
}

impl Page {
    fn refine(&mut self, to_bytes: bool) {
        let finer = match self {
            Self::Whole(cell) if to_bytes => Self::Bytes(vec![*cell; PAGE as usize].into()),
            Self::Whole(cell) => Self::Words(vec![*cell; PAGE as usize / WORD].into()),
            Self::Words(words) if to_bytes => Self::Bytes(words.iter().flat_map(|cell| [*cell; WORD]).collect()),
            _ => return,
        };
        *self = finer;
    }

    fn cells(&mut self) -> (&mut [Cell], usize) {
        match self {
            Self::Whole(cell) => (std::slice::from_mut(cell), PAGE as usize),
            Self::Words(words) => (&mut words[..], WORD),
            Self::Bytes(bytes) => (&mut bytes[..], 1),
        }
    }
}

#[derive(Default)]
pub(crate) struct Shadow {
    pages: FxHashMap<u64, Page>,
}

impl Shadow {
    /// Calls `f` for the cells of a range of bytes, once for equal neighbours, with the address of the first.
    pub(crate) fn update<E>(
        &mut self,
        address: u64,
        bytes: u64,
        mut f: impl FnMut(Cell, u64) -> Result<Cell, E>,
    ) -> Result<(), E> {
        let end = address + bytes;
        let mut at = address;
        let mut last: Option<(Cell, Cell)> = None;
        while at < end {
            let start = at / PAGE * PAGE;
            let stop = end.min(start + PAGE);
            let page = self.pages.entry(start).or_insert(Page::Whole(Cell::default()));
            if stop - at < PAGE {
                page.refine(!(at | stop).is_multiple_of(WORD as u64));
            }
            let (cells, size) = page.cells();
            let first = (at - start) as usize / size;
            for (i, cell) in cells[first..]
                .iter_mut()
                .take(((stop - at) as usize).div_ceil(size))
                .enumerate()
            {
                let new = match last {
                    Some((old, new)) if old == *cell => new,
                    _ => f(*cell, at.max(start + ((first + i) * size) as u64))?,
                };
                last = Some((*cell, new));
                *cell = new;
            }
            at = stop;
        }
        Ok(())
    }

    /// Forgets a range of bytes.
    pub(crate) fn forget(&mut self, address: u64, bytes: u64) {
        let clear = |_, _| Ok::<_, std::convert::Infallible>(Cell::default());
        let Ok(()) = self.update(address, bytes, clear);
    }

    pub(crate) fn cells_mut(&mut self) -> impl Iterator<Item = &mut Cell> {
        self.pages.values_mut().flat_map(|page| page.cells().0.iter_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(shadow: &mut Shadow, address: u64, bytes: u64, write: u32) -> u32 {
        let mut calls = 0;
        shadow
            .update(address, bytes, |cell, _| {
                calls += 1;
                Ok::<_, ()>(Cell { write, ..cell })
            })
            .unwrap();
        calls
    }

    fn read(shadow: &mut Shadow, address: u64) -> u32 {
        let mut found = 0;
        shadow
            .update(address, 1, |cell, _| {
                found = cell.write;
                Ok::<_, ()>(cell)
            })
            .unwrap();
        found
    }

    #[test]
    fn every_byte_has_its_last_write() {
        let mut shadow = Shadow::default();
        assert_eq!(mark(&mut shadow, 4096 - 8, 3 * 4096, 1), 1);
        assert_eq!(mark(&mut shadow, 4096, 4096, 2), 1);
        mark(&mut shadow, 5001, 3, 3);
        mark(&mut shadow, 9004, 4, 4);
        let expected = [
            (4087, 0),
            (4088, 1),
            (4095, 1),
            (4096, 2),
            (5000, 2),
            (5001, 3),
            (5003, 3),
            (5004, 2),
            (8191, 2),
            (8192, 1),
            (9003, 1),
            (9004, 4),
            (9007, 4),
            (9008, 1),
            (16375, 1),
            (16376, 0),
        ];
        for (address, write) in expected {
            assert_eq!(read(&mut shadow, address), write, "at {address}");
        }
        shadow.forget(4096, 4096);
        assert_eq!((read(&mut shadow, 5001), read(&mut shadow, 9004)), (0, 4));
    }
}
