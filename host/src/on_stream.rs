//! Communication in stream order, without a kernel of one's own. Every call returns at once.
//!
//! | call | NVSHMEM |
//! |---|---|
//! | [`put`](Stream::put), [`get`](Stream::get) | `nvshmemx_putmem_on_stream`, `nvshmemx_getmem_on_stream` |
//! | [`put_signal`](Stream::put_signal) | `nvshmemx_putmem_signal_on_stream` |
//! | [`signal_op`](Stream::signal_op) | `nvshmemx_signal_op_on_stream` |
//! | [`signal_wait`](Stream::signal_wait) | `nvshmemx_signal_wait_until_on_stream` |
//! | [`quiet`](Stream::quiet) | `nvshmemx_quiet_on_stream` |
//! | [`sync_all`](Stream::sync_all), [`barrier_all`](Stream::barrier_all) | `nvshmemx_sync_all_on_stream`, `nvshmemx_barrier_all_on_stream` |

use crate::backend::Place;
use crate::session::Session;
use crate::{Buf, Error, LaunchConfig, Stream, SymBuf};
use shmem::signal::{Add, Set};
use shmem::wait::{Condition, Eq, Ge, Gt, Le, Lt, Ne, Relation};
use shmem::{Call, Counter, Global, IntoArg, Kernel, KernelArg, Pod, Region, Signal, SymSlice, bf16, f16};
use shmem_device::rma::{Cut, LINE};
use shmem_device::{collective, order, rma, signal};

/// An operation on a stream that was refused. Nothing was enqueued, and the World stays usable.
///
/// ```
/// use shmem_host::{Backend, Error, StreamError, World};
///
/// World::builder().pes(2).backend(Backend::Sim).build()?.run(|pe| {
///     let data = pe.alloc::<u32>(8)?;
///     let refused = pe.stream().put(&data, data.part(0..4)?, 1);
///     assert!(matches!(refused, Err(Error::Stream(StreamError::Length { dst: 8, src: 4, .. }))));
///     let refused = pe.stream().put(&data, &data, 2);
///     assert!(matches!(refused, Err(Error::Stream(StreamError::Pe { to: 2, pes: 2, .. }))));
///     Ok::<(), Error>(())
/// })?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, ::core::cmp::Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// Source and destination are not of one length.
    #[error("PE {pe}: {call} on a stream from {src} elements to {dst}: give as many on both sides")]
    Length {
        /// Who called.
        pe: u32,
        /// The operation.
        call: &'static str,
        /// Elements of the destination.
        dst: u64,
        /// Elements of the source.
        src: u64,
    },
    /// There is no such PE.
    #[error("PE {pe}: {call} on a stream names PE {to}, and the World has {pes}: give 0 to {}", pes - 1)]
    Pe {
        /// Who called.
        pe: u32,
        /// The operation.
        call: &'static str,
        /// The PE that was named.
        to: u32,
        /// How many there are.
        pes: u32,
    },
    /// Source and destination of a collective don't fit each other.
    #[error(
        "PE {pe}: {call} on a stream with {whole} elements on one side and {part} on the other, among {n} PEs: the one is {n} \
         times as long as the other"
    )]
    Whole {
        /// Who called.
        pe: u32,
        /// The operation.
        call: &'static str,
        /// Elements of the side that has a part for each member.
        whole: u64,
        /// Elements of the other.
        part: u64,
        /// Members of the team.
        n: u32,
    },
    /// A length that can't be divided among the members.
    #[error("PE {pe}: {call} on a stream of {len} elements among {n} PEs: give a multiple of {n}, a part for each")]
    Parts {
        /// Who called.
        pe: u32,
        /// The operation.
        call: &'static str,
        /// Elements.
        len: u64,
        /// Members of the team.
        n: u32,
    },
    /// Lists that have not just one part for each member.
    #[error(
        "PE {pe}: {call} on a stream with {sends} parts to send and {receives} to receive among {n} PEs: give {n} of each, empty ones \
         among them"
    )]
    Lists {
        /// Who called.
        pe: u32,
        /// The operation.
        call: &'static str,
        /// Parts to send.
        sends: u64,
        /// Parts to receive.
        receives: u64,
        /// Members of the team.
        n: u32,
    },
    /// The team has no such member.
    #[error("PE {pe}: {call} on a stream names root {root} of a team of {n} PEs: give an index in the team, 0 to {}", n - 1)]
    Root {
        /// Who called.
        pe: u32,
        /// The operation.
        call: &'static str,
        /// The root's index.
        root: u32,
        /// Members of the team.
        n: u32,
    },
    /// Source and destination overlap, and the call is not in place.
    #[error(
        "PE {pe}: {call} on a stream from offset {src} of the heap to {dst}, where source and destination overlap: keep them \
         apart, or give the same place where the call may be in place"
    )]
    Overlap {
        /// Who called.
        pe: u32,
        /// The operation.
        call: &'static str,
        /// Where the destination begins, in bytes.
        dst: u64,
        /// Where the source begins.
        src: u64,
    },
    /// The team has no such slot.
    #[error("PE {pe}: {call} on a stream at slot {slot} of a team: give 0 to {}", slots - 1)]
    Slot {
        /// Who called.
        pe: u32,
        /// The operation.
        call: &'static str,
        /// The slot.
        slot: u32,
        /// How many a team has.
        slots: u32,
    },
    /// A caller's stream of another context than the PE's.
    #[error(
        "PE {pe}: the stream is of another context than the primary one of {device}: make it there (cuDevicePrimaryCtxRetain; \
         cudarc and cust 0.3 do so by themselves), on the device of this PE"
    )]
    OtherContext {
        /// Who called.
        pe: u32,
        /// Its device.
        device: String,
    },
    /// The backend has no such streams.
    #[error("PE {pe}: a CUDA stream was given, and backend {backend} has none: use Pe::stream and Pe::new_stream")]
    NotOnThisBackend {
        /// Who called.
        pe: u32,
        /// The backend.
        backend: &'static str,
    },
}

/// This PE's side of a put or get on a stream: symmetric memory or memory of its own. Made from `&SymBuf`, `SymSlice`, `&Buf`
/// and `Global`; [`SymBuf::part`] and [`Buf::part`] give parts of a buffer.
#[derive(Clone, Copy, Debug)]
pub enum Here<T> {
    /// Its own copy of a symmetric object.
    Symmetric(SymSlice<T>),
    /// Its own memory.
    Local(Global<T>),
}

impl<T> From<SymSlice<T>> for Here<T> {
    fn from(slice: SymSlice<T>) -> Self {
        Self::Symmetric(slice)
    }
}

impl<T> From<Global<T>> for Here<T> {
    fn from(slice: Global<T>) -> Self {
        Self::Local(slice)
    }
}

impl<T: Pod> From<&SymBuf<T>> for Here<T> {
    fn from(buffer: &SymBuf<T>) -> Self {
        Self::Symmetric(buffer.handle())
    }
}

impl<T: Pod> From<&Buf<T>> for Here<T> {
    fn from(buffer: &Buf<T>) -> Self {
        Self::Local(buffer.handle())
    }
}

impl<T> Here<T> {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Symmetric(slice) => slice.len(),
            Self::Local(slice) => slice.len(),
        }
    }

    /// What it names.
    pub(crate) fn regions(&self, visit: &mut dyn FnMut(Region))
    where
        T: Pod,
    {
        match self {
            Self::Symmetric(slice) => slice.regions(visit),
            Self::Local(slice) => slice.regions(visit),
        }
    }
}

/// What a signal operation on a stream may be given: [`Signal::set`](shmem::Sym::set), [`Counter::add`](shmem::Sym::add).
pub trait StreamAction: sealed::Sealed {
    #[doc(hidden)]
    fn __enqueue(self, stream: &Stream, to: u32) -> Result<(), Error>;
}

/// What can be waited on on a stream: a signal with every relation, a counter with `ge` and `gt`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be waited on with `{R}` on a stream",
    note = "a Signal takes every relation; a Counter is added to by anyone, so a wait for an exact count may miss it: use ge(..) or gt(..)"
)]
pub trait StreamWait<R>: sealed::Sealed {
    #[doc(hidden)]
    fn __enqueue(self, stream: &Stream, until: Condition<R, u64>) -> Result<(), Error>;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! actions { ($($action:ty)*) => { $(
    impl sealed::Sealed for $action {}
    impl StreamAction for $action {
        fn __enqueue(self, stream: &Stream, to: u32) -> Result<(), Error> {
            stream.one_thread(&signal::signal_op(self, to))
        }
    }
)* } }
actions!(Set Add);

macro_rules! waits { ($($word:ty, $kernel:ident: $($relation:ident)*;)*) => { $(
    impl sealed::Sealed for $word {}
    $(
        impl StreamWait<$relation> for $word {
            fn __enqueue(self, stream: &Stream, until: Condition<$relation, u64>) -> Result<(), Error> {
                stream.one_thread(&signal::$kernel(self, until))
            }
        }
    )*
)* } }
waits! {
    Signal, signal_wait: Eq Ne Gt Ge Lt Le;
    Counter, counter_wait: Ge Gt;
}

/// Cuts a transfer into whole lines, where both sides are aligned alike, and a rest by elements that stay whole, up to 8
/// bytes of them.
fn cut<T>(dst: u64, src: u64, bytes: u64) -> Cut {
    let width = match align_of::<T>() {
        8.. => 8,
        4 => 4,
        _ => 1,
    };
    if dst % LINE != src % LINE {
        let (head, body) = (bytes, 0);
        return Cut { head, body, width };
    }
    let head = (dst.wrapping_neg() % LINE).min(bytes);
    let body = (bytes - head) / LINE * LINE;
    Cut { head, body, width }
}

/// Where the object begins: an offset in the heap, whose start is aligned to more than a line, or an address.
pub(crate) fn start(object: &impl KernelArg) -> u64 {
    let mut start = 0;
    object.regions(&mut |region| match region {
        Region::Symmetric { offset, .. } => start = offset,
        Region::Global { address, .. } => start = address,
        Region::Team { .. } => {}
    });
    start
}

/// The copy at this PE.
fn place_at<T: Pod>(slice: &SymSlice<T>, pe: u32) -> Place {
    let offset = start(slice);
    Place::Heap { pe, offset }
}

/// Bytes that are worth a block.
const BLOCK_BYTES: u64 = 4096;
/// Blocks that fill a link.
const MOST_BLOCKS: u64 = 32;
/// Bytes from which on the device's copy engine makes a transfer, where it can. Over NVLink it moves 394 GB/s, the kernel 354:
/// with so many bytes that is 5 us, which an engine's longer start does not use up. It also leaves the multiprocessors to kernels.
const COPY_ENGINE_BYTES: u64 = 16 << 20;

impl Stream {
    /// Copies `src`, this PE's, to `dst` at PE `to`, both of the same length in elements. What follows on the stream may write
    /// the source again. The data is there for others once something that orders it follows: a [`quiet`](Self::quiet), a
    /// [`barrier_all`](Self::barrier_all), a [`signal_op`](Self::signal_op) on this stream.
    ///
    /// Elements arrive whole, up to 8 bytes, unless they are part of 16 MiB or more: those go by the GPU's copy engine, which
    /// promises no such thing.
    ///
    /// # Errors
    /// [`StreamError`] for lengths and PEs; [`LaunchError::StaleHandle`](crate::LaunchError::StaleHandle) for memory that
    /// this PE has dropped or never had.
    ///
    /// ```
    /// use shmem_host::{Backend, World};
    ///
    /// World::builder().pes(3).backend(Backend::Sim).build()?.run(|pe| {
    ///     let (all, mine) = (pe.alloc::<u32>(3)?, pe.buffer::<u32>(1)?);
    ///     mine.write(&[pe.id() * 10])?;
    ///     let here = pe.id() as usize;
    ///     for to in 0..pe.n() {
    ///         pe.stream().put(all.part(here..=here)?, &mine, to)?;
    ///     }
    ///     pe.stream().barrier_all()?;
    ///     assert_eq!(all.to_vec()?, [0, 10, 20]);
    ///     Ok::<(), shmem_host::Error>(())
    /// })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    pub fn put<T: Pod>(&self, dst: impl IntoArg<SymSlice<T>>, src: impl Into<Here<T>>, to: u32) -> Result<(), Error> {
        let (dst, src) = (dst.into_arg(), src.into());
        self.check_transfer("put", dst.len(), src.len(), to)?;
        self.enqueue_put(dst, src, to)
    }

    /// Copies `src` at PE `from` to `dst`, this PE's, both of the same length in elements. What follows on the stream finds it
    /// there.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    ///
    /// ```
    /// use shmem_host::{Backend, World};
    ///
    /// World::builder().pes(2).backend(Backend::Sim).build()?.run(|pe| {
    ///     let (theirs, here) = (pe.alloc::<f32>(100)?, pe.buffer::<f32>(100)?);
    ///     theirs.write(&[pe.id() as f32; 100])?;
    ///     pe.stream().barrier_all()?;
    ///     pe.stream().get(&here, &theirs, 1 - pe.id())?;
    ///     assert_eq!(here.read(99)?, (1 - pe.id()) as f32);
    ///     pe.barrier_all() // nobody drops what another still reads
    /// })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    pub fn get<T: Pod>(&self, dst: impl Into<Here<T>>, src: impl IntoArg<SymSlice<T>>, from: u32) -> Result<(), Error> {
        let (dst, src) = (dst.into(), src.into_arg());
        self.check_transfer("get", dst.len(), src.len(), from)?;
        let bytes = src.len() * size_of::<T>() as u64;
        let places = (self.place(&dst), place_at(&src, from));
        match dst {
            Here::Symmetric(dst) => {
                let cut = cut::<T>(start(&dst), start(&src), bytes);
                self.moved(bytes, places, &rma::get(dst.cast(), src.cast(), cut, from))
            }
            Here::Local(dst) => {
                let cut = cut::<T>(start(&dst), start(&src), bytes);
                self.moved(bytes, places, &rma::get_local(dst.cast(), src.cast(), cut, from))
            }
        }
    }

    /// As [`put`](Self::put), then applies `action` at `to`: whoever observes the signal also observes the data, and all that
    /// was put on this stream before.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    ///
    /// ```
    /// use shmem::prelude::*;
    /// use shmem_host::{Backend, World};
    ///
    /// World::builder().pes(2).backend(Backend::Sim).build()?.run(|pe| {
    ///     let (dst, src, ready) = (pe.alloc::<u64>(50)?, pe.alloc::<u64>(50)?, pe.signals(1)?);
    ///     src.write(&[7; 50])?;
    ///     pe.stream().put_signal(&dst, &src, ready.at(0)?.set(1), 1 - pe.id())?;
    ///     pe.stream().signal_wait(ready.at(0)?, eq(1))?;
    ///     assert_eq!(dst.to_vec()?, [7; 50]);
    ///     Ok::<(), shmem_host::Error>(())
    /// })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    pub fn put_signal<T: Pod>(
        &self,
        dst: impl IntoArg<SymSlice<T>>,
        src: impl Into<Here<T>>,
        action: impl StreamAction,
        to: u32,
    ) -> Result<(), Error> {
        let (dst, src) = (dst.into_arg(), src.into());
        self.check_transfer("put_signal", dst.len(), src.len(), to)?;
        self.enqueue_put(dst, src, to)?;
        action.__enqueue(self, to)
    }

    /// Applies the action at PE `to`, after everything that is on the stream: whoever observes it also observes that.
    ///
    /// # Errors
    /// As [`put`](Self::put). Example at [`SymBuf::at`].
    pub fn signal_op(&self, action: impl StreamAction, to: u32) -> Result<(), Error> {
        self.check_pe("signal_op", to)?;
        action.__enqueue(self, to)
    }

    /// What follows on the stream runs once the word, this PE's, stands in the relation. It sees what was ordered before the
    /// observed update. Bounded by the World's time limit.
    ///
    /// On GPUs one thread waits, and takes its share of the device meanwhile.
    ///
    /// # Errors
    /// [`LaunchError::StaleHandle`](crate::LaunchError::StaleHandle). Example at [`put_signal`](Self::put_signal).
    pub fn signal_wait<R: Relation>(&self, word: impl StreamWait<R>, until: Condition<R, u64>) -> Result<(), Error> {
        word.__enqueue(self, until)
    }

    /// Everything that is on the stream is done before what follows: every PE can see its puts.
    ///
    /// # Errors
    /// [`LaunchError`](crate::LaunchError), [`ImageError`](crate::ImageError) where the library's kernel can't be launched.
    ///
    /// ```
    /// # use shmem_host::{Backend, World};
    /// World::builder().pes(2).backend(Backend::Sim).build()?.run(|pe| pe.stream().quiet())?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    pub fn quiet(&self) -> Result<(), Error> {
        self.session()
            .launch(&LaunchConfig::new(1, 32).stream(self), &order::quiet())
    }

    /// As [`barrier_all`](Self::barrier_all), but completes no puts: what follows comes after everything that is on the PEs'
    /// streams before.
    ///
    /// # Errors
    /// As [`barrier_all`](Self::barrier_all).
    ///
    /// ```
    /// # use shmem_host::{Backend, World};
    /// World::builder().pes(2).backend(Backend::Sim).build()?.run(|pe| pe.stream().sync_all())?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    pub fn sync_all(&self) -> Result<(), Error> {
        let config = LaunchConfig::new(1, 32).stream(self).collective();
        self.session().launch(&config, &order::sync_all())
    }

    fn check_pe(&self, call: &'static str, to: u32) -> Result<(), StreamError> {
        let (pe, pes) = (self.session().pe, self.session().shared.pes());
        if to >= pes {
            return Err(StreamError::Pe { pe, call, to, pes });
        }
        Ok(())
    }

    fn check_transfer(&self, call: &'static str, dst: u64, src: u64, to: u32) -> Result<(), StreamError> {
        if dst != src {
            let pe = self.session().pe;
            return Err(StreamError::Length { pe, call, dst, src });
        }
        self.check_pe(call, to)
    }

    fn enqueue_put<T: Pod>(&self, dst: SymSlice<T>, src: Here<T>, to: u32) -> Result<(), Error> {
        let bytes = dst.len() * size_of::<T>() as u64;
        let places = (place_at(&dst, to), self.place(&src));
        match src {
            Here::Symmetric(src) => {
                let cut = cut::<T>(start(&dst), start(&src), bytes);
                self.moved(bytes, places, &rma::put(dst.cast(), src.cast(), cut, to))
            }
            Here::Local(src) => {
                let cut = cut::<T>(start(&dst), start(&src), bytes);
                self.moved(bytes, places, &rma::put_local(dst.cast(), src.cast(), cut, to))
            }
        }
    }

    fn place<T: Pod>(&self, here: &Here<T>) -> Place {
        match here {
            Here::Symmetric(slice) => place_at(slice, self.session().pe),
            Here::Local(slice) => Place::Address(start(slice)),
        }
    }

    /// Enqueues a transfer of so many bytes from the second place to the first: a large one by the copy engine, and otherwise
    /// by the kernel, with blocks enough for it.
    fn moved<K: Kernel>(&self, bytes: u64, (dst, src): (Place, Place), call: &Call<K>) -> Result<(), Error> {
        if bytes == 0 {
            return self.session().check();
        }
        if bytes >= COPY_ENGINE_BYTES && self.session().copy_engine(self, (dst, src), bytes, call)? {
            return Ok(());
        }
        let blocks = bytes.div_ceil(BLOCK_BYTES).min(MOST_BLOCKS) as u32;
        self.session()
            .launch(&LaunchConfig::new(blocks, rma::BLOCK).stream(self), call)
    }

    fn one_thread<K: Kernel>(&self, call: &Call<K>) -> Result<(), Error> {
        self.session().launch(&LaunchConfig::new(1, 1).stream(self), call)
    }
}

/// Loads every instance of some kernels.
macro_rules! load { ($session:ident: $($module:ident::$kernel:ident $([$($argument:ty)*])?;)*) => { $(
    load!(@one $session $module::$kernel $([$($argument)*])?);
)* };
    (@one $session:ident $module:ident::$kernel:ident) => { $session.load_ahead::<$module::$kernel>() };
    (@one $session:ident $module:ident::$kernel:ident [$($argument:ty)*]) => {
        $( $session.load_ahead::<$module::$kernel<$argument>>(); )*
    };
}

impl Session {
    /// Loads the kernels of calls on streams before any kernel runs: loading beside one that waits could deadlock.
    pub(crate) fn load_stream_kernels(&self) {
        load! { self:
            order::quiet;
            order::sync_all;
            rma::put;
            rma::put_local;
            rma::get;
            rma::get_local;
            signal::signal_op [Set Add];
            signal::signal_wait [Eq Ne Gt Ge Lt Le];
            signal::counter_wait [Ge Gt];
            collective::moves;
            collective::moves_parts;
            collective::reduces [u8 u16 u32 u64 f16 bf16 f32 f64];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_aligned_and_nothing_is_left_out() {
        for bytes in (0..200).step_by(4) {
            for dst in (0..64).step_by(4) {
                for src in (0..64).step_by(4) {
                    let Cut { head, body, width } = cut::<f32>(dst, src, bytes);
                    assert_eq!((body % LINE, head % width, width), (0, 0, 4));
                    assert!(head + body <= bytes);
                    if body > 0 {
                        assert_eq!(((dst + head) % LINE, (src + head) % LINE), (0, 0));
                        assert!(head < LINE && bytes - head - body < LINE);
                    } else {
                        assert!(dst % LINE != src % LINE || bytes < 2 * LINE, "{dst} {src} {bytes}");
                    }
                }
            }
        }
        assert_eq!(
            cut::<u16>(2, 2, 20),
            Cut {
                head: 14,
                body: 0,
                width: 1
            }
        );
        assert_eq!(
            cut::<u64>(8, 24, 40),
            Cut {
                head: 8,
                body: 32,
                width: 8
            }
        );
    }
}
