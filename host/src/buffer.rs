//! Memory that kernels work on, as the host holds it: freed when dropped, read and written in whole elements.
//!
//! | | allocated by | kernel's handle | who reaches it |
//! |---|---|---|---|
//! | [`SymBuf`] | every PE together: `pe.alloc`, `pe.signals`, `pe.counters` | `SymSlice` | every PE |
//! | [`Buf`] | one PE: `pe.buffer` | `Global` | its own PE |

use crate::Error;
use crate::backend::{Halt, StreamId, Watch};
use crate::heap::{AllocRequest, Placed};
use crate::session::{Memory, Session};
use shmem::{Global, IntoArg, Pod, Region, Serial, Sym, SymSlice, bytemuck};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::panic::Location;
use std::rc::Rc;

/// A host read or write that does not lie inside its buffer.
///
/// ```
/// use shmem_host::{Backend, Error, World};
///
/// World::builder().pes(1).backend(Backend::Sim).build()?.run(|pe| {
///     let Err(Error::Range(error)) = pe.buffer::<u8>(4)?.read(4) else { panic!() };
///     assert_eq!((error.start, error.end, error.len), (4, 5, 4));
///     Ok::<(), Error>(())
/// })?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("PE {pe}: elements {start}..{end} of a buffer of {len} elements were asked for")]
#[non_exhaustive]
pub struct RangeError {
    /// The PE whose buffer it is.
    pub pe: u32,
    /// The first element asked for.
    pub start: u64,
    /// The one behind the last.
    pub end: u64,
    /// Elements of the buffer.
    pub len: u64,
}

/// Elements in device memory, without an opinion on who frees them.
struct Elements<T> {
    session: Rc<Session>,
    address: u64,
    len: usize,
    element: PhantomData<fn() -> T>,
}

impl<T: Pod> Elements<T> {
    fn new(session: &Rc<Session>, address: u64, len: usize) -> Self {
        const { assert!(size_of::<T>() > 0, "elements of a buffer have at least one byte") };
        Self {
            session: session.clone(),
            address,
            len,
            element: PhantomData,
        }
    }

    fn bytes(&self) -> u64 {
        self.len as u64 * size_of::<T>() as u64
    }

    #[track_caller]
    fn read(&self, start: usize, into: &mut [T]) -> Result<(), Error> {
        let at = Location::caller();
        let address = self.range(start, into.len())?;
        self.copy(|session, watch| session.device.read(address, bytemuck::cast_slice_mut(into), at, watch))
    }

    #[track_caller]
    fn write(&self, start: usize, from: &[T]) -> Result<(), Error> {
        let at = Location::caller();
        let address = self.range(start, from.len())?;
        self.copy(|session, watch| session.device.write(address, bytemuck::cast_slice(from), at, watch))
    }

    fn bounds(&self, range: impl RangeBounds<usize>) -> Result<(usize, usize), Error> {
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&last) => last.saturating_add(1),
            Bound::Excluded(&end) => end,
            Bound::Unbounded => self.len,
        };
        if start > end || end > self.len {
            return Err(RangeError {
                pe: self.session.pe,
                start: start as u64,
                end: end as u64,
                len: self.len as u64,
            }
            .into());
        }
        Ok((start, end))
    }

    fn range(&self, start: usize, count: usize) -> Result<u64, Error> {
        let (pe, len) = (self.session.pe, self.len as u64);
        let (start, end) = (start as u64, (start as u64).saturating_add(count as u64));
        if end > len {
            return Err(RangeError { pe, start, end, len }.into());
        }
        Ok(self.address + start * size_of::<T>() as u64)
    }

    fn copy(&self, copy: impl FnOnce(&Session, &Watch<'_>) -> Result<(), Halt>) -> Result<(), Error> {
        self.session.wait(StreamId(0))?;
        let what = || "a copy between host and device".to_owned();
        self.session.watched(self.session.shared.time_limit, &what, |watch| {
            copy(&self.session, watch)
        })
    }
}

/// What both buffers do alike.
macro_rules! buffer_methods {
    ($name:ident, $handle:ident) => {
        impl<T: Pod> $name<T> {
            /// How many elements.
            pub fn len(&self) -> usize {
                self.elements.len
            }

            /// Whether there are none.
            pub fn is_empty(&self) -> bool {
                self.elements.len == 0
            }

            /// What a kernel gets for it: plain bits that may be copied and sent. It is stale once the buffer is dropped,
            /// and a launch with it is refused, also where a newer buffer has its place. `&buffer` works as an argument too.
            pub fn handle(&self) -> $handle<T> {
                $handle::__new(self.start(), self.elements.len as u64).__of(self.serial)
            }

            /// Where this PE's elements lie on its device, a `CUdeviceptr`: for other libraries' copies and kernels.
            pub fn address(&self) -> u64 {
                self.elements.address
            }

            /// The handle of elements `range`, for kernels and for operations on a stream.
            ///
            /// # Errors
            /// [`Error::Range`] where they are not all inside.
            ///
            /// ```
            /// use shmem_host::{Backend, Error, World};
            ///
            /// World::builder().pes(1).backend(Backend::Sim).build()?.run(|pe| {
            ///     let data = pe.alloc::<u32>(10)?;
            ///     assert_eq!(data.part(4..)?.len(), 6);
            ///     assert!(matches!(data.part(4..11), Err(Error::Range(_))));
            ///     Ok::<(), Error>(())
            /// })?;
            /// # Ok::<(), Error>(())
            /// ```
            pub fn part(&self, range: impl RangeBounds<usize>) -> Result<$handle<T>, Error> {
                let (start, end) = self.elements.bounds(range)?;
                Ok(self.handle().slice(start..end))
            }

            /// Element `i` of this PE's own copy, after everything on the PE's default stream.
            ///
            /// # Errors
            /// [`Error::Range`] where there is no such element; any error of a kernel on the stream.
            #[track_caller]
            pub fn read(&self, i: usize) -> Result<T, Error> {
                let mut one = [T::zeroed()];
                self.elements.read(i, &mut one)?;
                Ok(one[0])
            }

            /// Elements from `start` on, as many as `into` holds; otherwise as [`read`](Self::read).
            ///
            /// # Errors
            /// As [`read`](Self::read).
            #[track_caller]
            pub fn read_into(&self, start: usize, into: &mut [T]) -> Result<(), Error> {
                self.elements.read(start, into)
            }

            /// All elements; otherwise as [`read`](Self::read).
            ///
            /// # Errors
            /// As [`read`](Self::read).
            #[track_caller]
            pub fn to_vec(&self) -> Result<Vec<T>, Error> {
                let mut all = vec![T::zeroed(); self.len()];
                self.elements.read(0, &mut all)?;
                Ok(all)
            }

            /// Writes elements from the first on, to this PE's own copy, after everything on the PE's default stream.
            /// Returns once they are there: kernels launched later see them.
            ///
            /// # Errors
            /// [`Error::Range`] where there are more than the buffer holds; any error of a kernel on the stream.
            #[track_caller]
            pub fn write(&self, from: &[T]) -> Result<(), Error> {
                self.elements.write(0, from)
            }

            /// Writes elements from `start` on; otherwise as [`write`](Self::write).
            ///
            /// # Errors
            /// As [`write`](Self::write).
            #[track_caller]
            pub fn write_at(&self, start: usize, from: &[T]) -> Result<(), Error> {
                self.elements.write(start, from)
            }
        }

        impl<T: Pod> IntoArg<$handle<T>> for &$name<T> {
            fn into_arg(self) -> $handle<T> {
                self.handle()
            }
        }

        impl<T: Pod> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(
                    f,
                    "{}({:?} of PE {})",
                    stringify!($name),
                    self.handle(),
                    self.elements.session.pe
                )
            }
        }
    };
}

/// Elements that every PE has, at the same place of its symmetric heap: `pe.alloc`.
///
/// Dropping it takes no other PE: the memory is used again once all PEs have dropped it and the kernels that were under way
/// then have ended, at the next allocation or barrier. OpenSHMEM `shmem_malloc`, NVSHMEM `nvshmem_malloc`.
///
/// ```
/// use shmem_host::{Backend, World};
///
/// World::builder().pes(2).backend(Backend::Sim).build()?.run(|pe| {
///     let data = pe.alloc::<u32>(4)?;
///     assert_eq!(data.to_vec()?, [0; 4]); // fresh memory is zero
///     data.write(&[pe.id(), 7])?;
///     assert_eq!((data.read(0)?, data.read(1)?), (pe.id(), 7));
///     Ok::<(), shmem_host::Error>(())
/// })?;
/// # Ok::<(), shmem_host::Error>(())
/// ```
pub struct SymBuf<T: Pod> {
    elements: Elements<T>,
    serial: Serial,
    offset: u64,
}

buffer_methods!(SymBuf, SymSlice);

impl<T: Pod> SymBuf<T> {
    /// The handle of element `i`: a signal or a counter, of buffers of those.
    ///
    /// # Errors
    /// [`Error::Range`] where there is no such element.
    ///
    /// ```
    /// # use shmem_host::{Backend, Error, World};
    /// World::builder().pes(1).backend(Backend::Sim).build()?.run(|pe| {
    ///     let ready = pe.signals(2)?;
    ///     pe.stream().signal_op(ready.at(1)?.set(7), 0)?;
    ///     assert_eq!(ready.read(1)?.value(), 7);
    ///     Ok::<(), Error>(())
    /// })?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn at(&self, i: usize) -> Result<Sym<T>, Error> {
        self.elements.bounds(i..=i)?;
        Ok(self.handle().at(i))
    }

    pub(crate) fn new(session: &Rc<Session>, request: &AllocRequest) -> Result<Self, Error> {
        session.refuse_in_capture("an allocation")?;
        let placed = session.alloc_symmetric(request)?;
        Ok(Self::placed(session, request, placed))
    }

    pub(crate) fn placed(session: &Rc<Session>, request: &AllocRequest, placed: Placed) -> Self {
        let (len, site) = (request.len as usize, request.site.clone());
        let address = session.device.heap_base() + placed.offset;
        let elements = Elements::new(session, address, len);
        let buffer = Self {
            elements,
            serial: session.shared.serial(placed.serial),
            offset: placed.offset,
        };
        let mut handles = session.handles.borrow_mut();
        handles.insert(buffer.region());
        handles.note(buffer.serial, site);
        buffer
    }

    fn start(&self) -> u64 {
        self.offset
    }

    fn region(&self) -> Region {
        Region::Symmetric {
            offset: self.offset,
            bytes: self.elements.bytes(),
            serial: self.serial,
        }
    }
}

impl<T: Pod> Drop for SymBuf<T> {
    fn drop(&mut self) {
        let session = &self.elements.session;
        session.handles.borrow_mut().remove(self.region());
        session.drop_memory(Memory::Symmetric(self.serial.number()));
    }
}

/// Elements in the memory of one PE's device: `pe.buffer`. No other PE reaches them.
///
/// ```
/// use shmem_host::{Backend, World};
///
/// World::builder().pes(1).backend(Backend::Sim).build()?.run(|pe| {
///     let data = pe.buffer::<f64>(3)?;
///     data.write_at(1, &[0.5])?;
///     assert_eq!(data.to_vec()?, [0.0, 0.5, 0.0]);
///     Ok::<(), shmem_host::Error>(())
/// })?;
/// # Ok::<(), shmem_host::Error>(())
/// ```
pub struct Buf<T: Pod> {
    elements: Elements<T>,
    serial: Serial,
    /// Somebody else frees it.
    foreign: bool,
}

buffer_methods!(Buf, Global);

impl<T: Pod> Buf<T> {
    pub(crate) fn new(session: &Rc<Session>, len: usize) -> Result<Self, Error> {
        session.check()?;
        session.refuse_in_capture("an allocation")?;
        session.sweep();
        let (bytes, size) = (len.checked_mul(size_of::<T>()), size_of::<T>() as u64);
        let bytes = bytes.ok_or(crate::HeapError::TooLarge { len: len as u64, size })? as u64;
        let what = || format!("an allocation of {bytes} bytes");
        let limit = session.shared.time_limit;
        let address = session.watched(limit, &what, |watch| session.device.alloc(bytes, watch))?;
        let buffer = Self {
            elements: Elements::new(session, address, len),
            serial: session.local_serial(),
            foreign: false,
        };
        session.handles.borrow_mut().insert(buffer.region());
        Ok(buffer)
    }

    /// Memory that somebody else has allocated and will free.
    pub(crate) fn foreign(session: &Rc<Session>, address: u64, len: usize) -> Self {
        let buffer = Self {
            elements: Elements::new(session, address, len),
            serial: session.local_serial(),
            foreign: true,
        };
        session.handles.borrow_mut().insert(buffer.region());
        buffer
    }

    fn start(&self) -> u64 {
        self.elements.address
    }

    fn region(&self) -> Region {
        Region::Global {
            address: self.elements.address,
            bytes: self.elements.bytes(),
            serial: self.serial,
        }
    }
}

impl<T: Pod> Drop for Buf<T> {
    fn drop(&mut self) {
        let session = &self.elements.session;
        session.handles.borrow_mut().remove(self.region());
        if !self.foreign {
            session.drop_memory(Memory::Local(self.elements.address));
        }
    }
}
