//! Shared memory of one block.

use std::cell::RefCell;

/// What an array holds before anyone writes it, so that a kernel that counts on zeros fails here first.
const POISON: u128 = u128::from_ne_bytes([0xa5; 16]);

/// A block's arrays; they live as long as it does.
#[derive(Default)]
pub(crate) struct SharedMemory {
    arrays: RefCell<Vec<Array>>,
}

struct Array {
    id: u64,
    bytes: usize,
    // Boxed: lanes keep the address while the list grows.
    words: Box<[u128]>,
}

impl Array {
    fn start(&mut self) -> *mut u8 {
        self.words.as_mut_ptr().cast()
    }
}

impl SharedMemory {
    /// Calls `f` with the start and the bytes of every array.
    pub(crate) fn each(&self, f: impl Fn(u64, u64)) {
        for array in self.arrays.borrow().iter() {
            f(array.words.as_ptr() as u64, array.bytes as u64);
        }
    }

    /// The array of this identity; makes it at the first call, and says where.
    ///
    /// # Errors
    /// It exists, but is smaller: its size is returned.
    pub(crate) fn array(&self, id: u64, bytes: usize, made: impl FnOnce(u64)) -> Result<*mut u8, usize> {
        let mut arrays = self.arrays.borrow_mut();
        if let Some(array) = arrays.iter_mut().find(|a| a.id == id) {
            return if bytes <= array.bytes {
                Ok(array.start())
            } else {
                Err(array.bytes)
            };
        }
        let words = vec![POISON; bytes.div_ceil(16).max(1)].into_boxed_slice();
        let mut array = Array { id, bytes, words };
        let start = array.start();
        arrays.push(array);
        made(start as u64);
        Ok(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_keeps_its_place_and_starts_out_poisoned() {
        let shared = SharedMemory::default();
        let first = shared.array(1, 40, |_| ()).unwrap();
        for id in 2..50 {
            shared.array(id, 8, |_| ()).unwrap();
        }
        assert_eq!(shared.array(1, 32, |_| ()), Ok(first));
        assert_eq!(shared.array(1, 48, |_| ()), Err(40));
        assert_eq!(first as usize % 16, 0);
        // SAFETY: 40 bytes, alive with `shared`.
        assert_eq!(unsafe { first.add(39).read() }, 0xa5);
    }
}
