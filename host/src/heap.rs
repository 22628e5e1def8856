//! The symmetric heap's book: which block lies where, and when it is free again.
//!
//! Every PE keeps one of its own. All of them see the same requests and the same drops in the same order (what the PEs
//! gave each other at a rendezvous), so they never differ, in one process or in many.

use crate::Site;
use crate::allocator::Allocator;
use crate::heap_stats::{Backed, HeapStats};
use serde::{Deserialize, Serialize};
use shmem::state::SystemArea;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::Location;

/// Every block starts at a multiple of this many bytes.
pub(crate) const BLOCK: u64 = 512;
/// The largest alignment: heaps start at page boundaries.
const MOST_ALIGN: u64 = 4096;

/// What a PE asked for. PEs that allocate together ask for the same; in [`HeapError::AllocMismatch`] they did not.
///
/// ```
/// use shmem_host::{Backend, Error, HeapError, World};
///
/// World::builder().pes(2).backend(Backend::Sim).build()?.run(|pe| {
///     let refused = pe.alloc::<u64>(10 + pe.id() as usize);
///     let Err(Error::Heap(HeapError::AllocMismatch { first, second })) = refused else { panic!() };
///     assert_eq!((first.0, first.1.len, second.0, second.1.len), (0, 10, 1, 11));
///     Ok::<(), Error>(())
/// })?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AllocRequest {
    /// Name of the element type.
    pub element: Cow<'static, str>,
    /// How many elements.
    pub len: u64,
    /// Bytes of an element.
    pub size: u64,
    /// What the first element's address is a multiple of.
    pub align: u64,
    /// Whether the memory is to be zero.
    pub zero: bool,
    /// The call.
    pub site: Site,
}

impl AllocRequest {
    pub(crate) fn of<T>(len: usize, site: &'static Location<'static>) -> Self {
        let (size, align) = (size_of::<T>() as u64, align_of::<T>() as u64);
        Self {
            element: Cow::Borrowed(std::any::type_name::<T>()),
            len: len as u64,
            size,
            align,
            zero: true,
            site: site.into(),
        }
    }

    /// At a multiple of `align`, if that is more than the element type's.
    pub(crate) fn aligned(self, align: usize) -> Self {
        let asked = align as u64;
        // What is no alignment stays, to be refused.
        let align = if asked.is_power_of_two() {
            self.align.max(asked)
        } else {
            asked
        };
        Self { align, ..self }
    }

    /// With whatever was in the memory before.
    pub(crate) fn uninit(self) -> Self {
        Self { zero: false, ..self }
    }
}

impl fmt::Display for AllocRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            element,
            len,
            size,
            align,
            zero,
            site,
        } = self;
        let as_it_is = if *zero { "" } else { ", uninitialised" };
        write!(
            f,
            "{len} x {element} ({size} bytes, alignment {align}{as_it_is}) at {site}"
        )
    }
}

/// An allocation that was refused, on every PE alike. The World stays usable.
///
/// ```
/// use shmem_host::{Backend, Error, HeapError, World};
///
/// World::builder().pes(2).backend(Backend::Sim).heap(32 << 20).build()?.run(|pe| {
///     let refused = pe.alloc::<u64>(4 << 20);
///     assert!(matches!(refused, Err(Error::Heap(HeapError::Limit { asked: 0x200_0000, limit: 0x200_0000, .. }))));
///     pe.alloc::<u64>(1 << 10).map(drop)
/// })?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeapError {
    /// PEs asked for different things.
    #[error(
        "PE {} asked for {}, but PE {} for {}: allocation is collective, every PE makes the same calls in the same order",
        first.0, first.1, second.0, second.1
    )]
    AllocMismatch {
        /// A PE and what it asked for.
        first: Box<(u32, AllocRequest)>,
        /// The first PE that asked for something else.
        second: Box<(u32, AllocRequest)>,
    },
    /// More bytes than an address can count.
    #[error("{len} elements of {size} bytes are more than any memory holds")]
    TooLarge {
        /// Elements asked for.
        len: u64,
        /// Bytes of one.
        size: u64,
    },
    /// An alignment that is none, or beyond the heap's.
    #[error("memory at multiples of {align} bytes was asked for: give a power of two, at most {MOST_ALIGN}")]
    Alignment {
        /// The alignment asked for.
        align: u64,
    },
    /// The heap's address space is used up.
    #[error(
        "{asked} bytes of symmetric heap were asked for on every PE; of its {limit} bytes {free} are free, {largest} of \
         them in one piece: drop what is not needed, or give each PE more (SHMEM_HEAP or Builder::heap)"
    )]
    Limit {
        /// Bytes asked for.
        asked: u64,
        /// Bytes free.
        free: u64,
        /// The largest free piece.
        largest: u64,
        /// Bytes that the heap has in all.
        limit: u64,
    },
    /// The device's memory is used up.
    #[error(
        "PE {pe}: {asked} bytes of device memory were asked for, {}",
        memory_text(*free, *total, device)
    )]
    OutOfMemory {
        /// The PE whose device it is.
        pe: u32,
        /// Bytes asked for.
        asked: u64,
        /// Bytes free; 0 on the simulator, where the system does not say.
        free: u64,
        /// Bytes that the device has; 0 on the simulator.
        total: u64,
        /// The device.
        device: String,
    },
    /// A PE of another process could not make the memory.
    #[error("{cause}")]
    Refused {
        /// Its words.
        cause: String,
    },
}

fn memory_text(free: u64, total: u64, device: &str) -> String {
    match total {
        0 => "and the system refused them: ask for less".to_owned(),
        total => {
            format!("{free} of {total} are free on {device}: ask for less, or look who else uses the device")
        }
    }
}

/// Where a new block lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    /// Names the block on every PE: a number that no other block of this heap had.
    pub(crate) serial: u64,
    /// Offset from the heap's base.
    pub(crate) offset: u64,
    /// Bytes of the block.
    pub(crate) bytes: u64,
    /// Bytes at its start that held something before.
    pub(crate) used: u64,
    /// The memory is the program's own.
    pub(crate) registered: bool,
}

impl Placed {
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.bytes
    }
}

#[derive(Debug)]
struct Block {
    placed: Placed,
    /// PEs that have not dropped it.
    holders: u32,
}

#[derive(Debug)]
pub(crate) struct Heap {
    pes: u32,
    limit: u64,
    allocator: Allocator,
    blocks: BTreeMap<u64, Block>,
    placed: u64,
    /// The most bytes that blocks had at once.
    peak: u64,
    /// Nothing lay above this offset yet.
    high_water: u64,
}

impl Heap {
    pub(crate) fn new(pes: u32, limit: u64) -> Self {
        let start = SystemArea::new(pes).bytes;
        Self {
            pes,
            limit,
            allocator: Allocator::new(start, limit),
            blocks: BTreeMap::new(),
            placed: 0,
            peak: 0,
            high_water: start,
        }
    }

    /// The request that all agree on.
    pub(crate) fn agree<'a>(requests: impl Iterator<Item = &'a AllocRequest>) -> Result<&'a AllocRequest, HeapError> {
        let mut requests = (0..).zip(requests);
        let (pe, first) = requests.next().expect("a World has PEs");
        match requests.find(|(_, other)| *other != first) {
            None => Ok(first),
            Some((other, second)) => Err(HeapError::AllocMismatch {
                first: Box::new((pe, first.clone())),
                second: Box::new((other, second.clone())),
            }),
        }
    }

    pub(crate) fn place(&mut self, request: &AllocRequest) -> Result<Placed, HeapError> {
        if !request.align.is_power_of_two() || request.align > MOST_ALIGN {
            return Err(HeapError::Alignment { align: request.align });
        }
        let bytes = request.bytes_of(BLOCK).ok_or(request.too_large())?;
        let offset = self.allocator.take(bytes, BLOCK.max(request.align));
        let offset = offset.ok_or_else(|| self.full(bytes))?;
        // The heap's own memory grows from below, and not past memory of the program's own. The lowest place was taken.
        if self
            .blocks
            .values()
            .any(|other| other.placed.registered && other.placed.offset < offset)
        {
            self.allocator.give(offset, bytes);
            return Err(self.full(bytes));
        }
        let used = self.high_water.clamp(offset, offset + bytes) - offset;
        self.high_water = self.high_water.max(offset + bytes);
        Ok(self.keep(offset, bytes, used, false))
    }

    /// A range of whole pages for memory that is not the heap's own, as high as possible: not below `above`, where the heap
    /// has memory.
    pub(crate) fn place_high(&mut self, request: &AllocRequest, page: u64, above: u64) -> Result<Placed, HeapError> {
        let bytes = request.bytes_of(page).ok_or(request.too_large())?;
        let offset = self.allocator.take_high(bytes, page, above);
        let offset = offset.ok_or_else(|| self.full(bytes))?;
        Ok(self.keep(offset, bytes, 0, true))
    }

    fn full(&self, asked: u64) -> HeapError {
        HeapError::Limit {
            asked,
            free: self.allocator.free_bytes(),
            largest: self.allocator.largest(),
            limit: self.limit,
        }
    }

    fn keep(&mut self, offset: u64, bytes: u64, used: u64, registered: bool) -> Placed {
        self.peak = self.peak.max(self.used());
        let placed = Placed {
            serial: self.placed,
            offset,
            bytes,
            used,
            registered,
        };
        self.placed += 1;
        let holders = self.pes;
        self.blocks.insert(placed.serial, Block { placed, holders });
        placed
    }

    /// Bytes of all blocks.
    fn used(&self) -> u64 {
        self.limit - SystemArea::new(self.pes).bytes - self.allocator.free_bytes()
    }

    pub(crate) fn stats(&self, backed: Option<Backed>) -> HeapStats {
        HeapStats {
            limit: self.limit,
            system: SystemArea::new(self.pes).bytes,
            used: self.used(),
            free: self.allocator.free_bytes(),
            largest_free: self.allocator.largest(),
            peak: self.peak,
            objects: self.blocks.len() as u64,
            backed,
        }
    }

    /// One PE has dropped the block and its streams no longer use it. The last one frees it: then this is where it was.
    pub(crate) fn drop_one(&mut self, serial: u64) -> Option<Placed> {
        let block = self.blocks.get_mut(&serial)?;
        block.holders -= 1;
        if block.holders > 0 {
            return None;
        }
        self.free(serial)
    }

    /// Frees a block that no PE has got. Returns where it was.
    pub(crate) fn free(&mut self, serial: u64) -> Option<Placed> {
        let Block { placed, .. } = self.blocks.remove(&serial)?;
        self.allocator.give(placed.offset, placed.bytes);
        Some(placed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(len: u64, size: u64) -> AllocRequest {
        AllocRequest {
            len,
            size,
            ..AllocRequest::of::<u8>(0, Location::caller())
        }
    }

    /// A heap with so much room for users.
    fn heap(pes: u32, room: u64) -> Heap {
        Heap::new(pes, SystemArea::new(pes).bytes + room)
    }

    #[test]
    fn the_library_comes_first_and_blocks_are_multiples_of_512() {
        let mut heap = heap(4, 1 << 20);
        let system = SystemArea::new(4).bytes;
        let a = heap.place(&request(3, 4)).unwrap();
        let b = heap.place(&request(0, 4)).unwrap();
        assert_eq!(
            a,
            Placed {
                serial: 0,
                offset: system,
                bytes: 512,
                used: 0,
                registered: false
            }
        );
        assert_eq!(
            b,
            Placed {
                serial: 1,
                offset: system + 512,
                bytes: 512,
                used: 0,
                registered: false
            }
        );
    }

    #[test]
    fn a_block_is_reused_once_every_pe_has_dropped_it() {
        let mut heap = heap(3, 1 << 20);
        let a = heap.place(&request(600, 1)).unwrap();
        heap.drop_one(a.serial);
        heap.drop_one(a.serial);
        let b = heap.place(&request(1, 1)).unwrap();
        assert_eq!(b.offset, a.end());
        heap.drop_one(a.serial);
        let c = heap.place(&request(2000, 1)).unwrap();
        assert_eq!((c.offset, c.used), (b.end(), 0), "the hole is too small");
        let d = heap.place(&request(1024, 1)).unwrap();
        assert_eq!((d.offset, d.used), (a.offset, 1024));
    }

    #[test]
    fn what_is_used_ends_at_the_high_water_mark() {
        let mut heap = heap(1, 1 << 20);
        let a = heap.place(&request(512, 1)).unwrap();
        heap.free(a.serial);
        let b = heap.place(&request(2048, 1)).unwrap();
        assert_eq!((b.offset, b.used), (a.offset, 512));
    }

    #[test]
    fn refusals_name_their_values() {
        let free = 32 << 10;
        let mut heap = heap(2, free);
        let limit = HeapError::Limit {
            asked: 1 << 20,
            free,
            largest: free,
            limit: SystemArea::new(2).bytes + free,
        };
        assert_eq!(heap.place(&request(1 << 20, 1)), Err(limit));
        let huge = HeapError::TooLarge {
            len: u64::MAX,
            size: 16,
        };
        assert_eq!(heap.place(&request(u64::MAX, 16)), Err(huge));
        assert!(matches!(
            heap.place(&request(u64::MAX, 1)),
            Err(HeapError::TooLarge { .. })
        ));
        let aligned = AllocRequest {
            align: 8192,
            ..request(1, 1)
        };
        assert_eq!(heap.place(&aligned), Err(HeapError::Alignment { align: 8192 }));
        let crooked = request(1, 1).aligned(48);
        assert_eq!(heap.place(&crooked), Err(HeapError::Alignment { align: 48 }));
    }

    #[test]
    fn statistics_add_up() {
        let mut heap = heap(1, 1 << 20);
        let system = SystemArea::new(1).bytes;
        let limit = system + (1 << 20);
        let all = |heap: &Heap| {
            let stats = heap.stats(None);
            assert_eq!((stats.limit, stats.system + stats.used + stats.free), (limit, limit));
            (stats.used, stats.peak, stats.objects, stats.largest_free)
        };
        assert_eq!(all(&heap), (0, 0, 0, limit - system));
        let a = heap.place(&request(1000, 1)).unwrap();
        let b = heap.place(&request(1, 1)).unwrap();
        assert_eq!(all(&heap), (1536, 1536, 2, limit - system - 1536));
        heap.drop_one(a.serial);
        assert_eq!(all(&heap), (512, 1536, 1, limit - b.end()));
    }

    #[test]
    fn a_mismatch_names_both_pes() {
        let (a, b) = (request(8, 4), request(9, 4));
        let error = Heap::agree([&a, &a, &b, &b].into_iter()).unwrap_err().to_string();
        assert!(
            error.starts_with("PE 0 asked for 8 x u8 (4 bytes, alignment 1) at "),
            "{error}"
        );
        assert!(error.contains("but PE 2 for 9 x u8"), "{error}");
        assert_eq!(Heap::agree([&a, &a].into_iter()), Ok(&a));
    }

    proptest! {
        /// Books that see the same calls stay the same, and all dropped, everything is free.
        #[test]
        fn books_never_differ(steps in prop::collection::vec((any::<bool>(), 0u64..5000), 1..100)) {
            let (mut a, mut b) = (heap(2, 1 << 18), heap(2, 1 << 18));
            let mut live = vec![];
            for (drop, n) in steps {
                if drop && !live.is_empty() {
                    let serial = live.remove(n as usize % live.len());
                    for book in [&mut a, &mut b] {
                        book.drop_one(serial);
                        book.drop_one(serial);
                    }
                } else {
                    let placed = a.place(&request(n, 3));
                    prop_assert_eq!(&placed, &b.place(&request(n, 3)));
                    live.extend(placed.map(|p| p.serial));
                }
            }
            for serial in live {
                a.drop_one(serial);
                a.drop_one(serial);
            }
            prop_assert_eq!(a.allocator.largest(), 1 << 18);
        }
    }
}
