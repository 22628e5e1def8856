//! What kernels of one PE know of its queues, in memory of its device.

use crate::backend::cuda::driver::{Address, out};
use crate::backend::cuda::error::CudaError;
use crate::backend::cuda::gpu::{Context, Gpu};
use crate::backend::cuda::poll::settle;
use shmem::state::{NetworkState, SendQueue};
use shmem_ibgda::QueueParts;
use std::slice;

/// Keys of all heaps, in granules of one size.
pub(super) struct Keys {
    pub(super) granule_log2: u32,
    /// Granules of a heap.
    pub(super) granules: u64,
    /// For each PE one for each granule.
    pub(super) of_granules: Vec<u32>,
}

/// The tables. They stay until the value is dropped; the device lives longer.
pub(super) struct Tables {
    context: Context,
    address: Address,
}

/// Bytes between the parts of a table.
const ALIGN: usize = 256;

/// Where the parts of the memory begin, in bytes.
struct Places {
    queues: usize,
    keys: usize,
    taken: usize,
    end: usize,
}

impl Places {
    fn new(queues: &[QueueParts], keys: &Keys) -> Self {
        let after = |at: usize, bytes: usize| (at + bytes).next_multiple_of(ALIGN);
        let first = after(0, size_of::<NetworkState>());
        let second = after(
            first,
            size_of_val(queues) / size_of::<QueueParts>() * size_of::<SendQueue>(),
        );
        let third = after(second, size_of_val(&*keys.of_granules));
        let words: usize = queues.iter().map(taken_bytes).sum();
        Self {
            queues: first,
            keys: second,
            taken: third,
            end: third + words,
        }
    }
}

/// Bytes of the words of a queue's landings.
fn taken_bytes(queue: &QueueParts) -> usize {
    size_of::<u32>() << queue.log2
}

impl Tables {
    /// `queues`: that of context `c` to PE `p` at `c * PEs + p`.
    pub(super) fn new(gpu: &Gpu, contexts: u32, queues: &[QueueParts], keys: &Keys) -> Result<Self, CudaError> {
        let (_current, places, mut address) = (gpu.enter()?, Places::new(queues, keys), Address(0));
        // SAFETY: a context is current; `drop` frees it.
        unsafe { gpu.driver.cuMemAlloc_v2(out(&mut address), places.end) }?;
        let tables = Self {
            context: gpu.context(),
            address,
        };
        let bytes = contents(address.0, contexts, queues, keys, &places);
        // SAFETY: fresh memory that is longer, and `bytes` lives until the copies have ended, below.
        unsafe {
            gpu.driver
                .cuMemcpyHtoDAsync_v2(address, bytes.as_ptr().cast(), bytes.len(), gpu.control)?;
            let taken = Address(address.0 + places.taken as u64);
            gpu.driver
                .cuMemsetD8Async(taken, 0, places.end - places.taken, gpu.control)?;
        }
        // SAFETY: the stream is live, and its context current.
        settle(|| unsafe { gpu.driver.stream_is_idle(gpu.control) })?;
        Ok(tables)
    }

    /// Where kernels find them.
    pub(super) fn address(&self) -> u64 {
        self.address.0
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        // Refusals mean that the context is lost.
        if let Ok(_current) = self.context.enter() {
            // SAFETY: allocated in `new`; no kernel runs any more.
            let _ = unsafe { self.context.driver.cuMemFree_v2(self.address) };
        }
    }
}

/// All but the words of landings, which are zero, for memory at `base`.
fn contents(base: u64, contexts: u32, queues: &[QueueParts], keys: &Keys, places: &Places) -> Vec<u8> {
    let mut bytes = vec![0; places.taken];
    let state = NetworkState {
        queues: base + places.queues as u64,
        contexts,
        granule_log2: keys.granule_log2,
        keys: base + places.keys as u64,
        granules: keys.granules,
    };
    put(&mut bytes, 0, &state);
    let mut taken = base + places.taken as u64;
    for (i, parts) in queues.iter().enumerate() {
        let queue = SendQueue {
            ring: parts.ring,
            record: parts.record,
            register: parts.register,
            completion: parts.completion,
            landing: parts.landing,
            landing_at: parts.landing_at,
            taken,
            landing_key: parts.landing_key,
            number: parts.number,
            log2: parts.log2,
            ..SendQueue::UNUSED
        };
        put(&mut bytes, places.queues + i * size_of::<SendQueue>(), &queue);
        taken += taken_bytes(parts) as u64;
    }
    for (i, key) in keys.of_granules.iter().enumerate() {
        put(&mut bytes, places.keys + i * size_of::<u32>(), key);
    }
    bytes
}

/// Plain numbers without padding: a table, or a key.
fn put<T: Copy>(bytes: &mut [u8], at: usize, value: &T) {
    // SAFETY: of the value's size; callers give types all of whose bytes are numbers'.
    let from = unsafe { slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>()) };
    bytes[at..at + from.len()].copy_from_slice(from);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn tables_lie_where_the_state_says() {
        let queue = |number, log2| QueueParts {
            ring: 0x1000 * u64::from(number),
            record: 2,
            register: 3,
            completion: 4,
            landing: 5,
            landing_at: 6,
            landing_key: 7,
            number,
            log2,
        };
        let (queues, base) = ([queue(1, 4), queue(2, 4), queue(3, 4), queue(4, 4)], 1 << 40);
        let keys = Keys {
            granule_log2: 21,
            granules: 3,
            of_granules: (10..16).collect(),
        };
        let places = Places::new(&queues, &keys);
        let bytes = contents(base, 2, &queues, &keys, &places);
        let at = |address: u64| (address - base) as usize;
        let long = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        let table = at(long(offset_of!(NetworkState, queues)));
        assert!(table.is_multiple_of(128) && base.is_multiple_of(256));
        assert_eq!(word(offset_of!(NetworkState, contexts)), 2);
        let mut taken = long(table + offset_of!(SendQueue, taken));
        for i in 0..4 {
            let queue = table + 256 * i;
            assert_eq!(long(queue + offset_of!(SendQueue, ring)), 0x1000 * (i as u64 + 1));
            assert_eq!(word(queue + offset_of!(SendQueue, number)), i as u32 + 1);
            assert_eq!(long(queue + offset_of!(SendQueue, taken)), taken);
            taken += 4 << 4;
        }
        assert_eq!(at(taken), places.end);
        let first = at(long(offset_of!(NetworkState, keys)));
        assert!((0..6).all(|i| word(first + 4 * i) == 10 + i as u32));
        assert!(first + 24 <= at(long(table + offset_of!(SendQueue, taken))));
    }
}
