//! Collectives in stream order. Every member of the team makes the same call; it returns at once, and graphs may hold it.
//!
//! | call | NVSHMEM |
//! |---|---|
//! | [`broadcast`](Stream::broadcast) | `nvshmemx_TYPE_broadcast_on_stream` |
//! | [`fcollect`](Stream::fcollect) | `nvshmemx_TYPE_fcollect_on_stream` |
//! | [`alltoall`](Stream::alltoall) | `nvshmemx_TYPE_alltoall_on_stream` |
//! | [`alltoallv`](Stream::alltoallv) | |
//! | [`reduce`](Stream::reduce) | `nvshmemx_TYPE_sum_reduce_on_stream`, .. |
//! | [`reduce_scatter`](Stream::reduce_scatter) | `nvshmemx_TYPE_sum_reducescatter_on_stream`, .. |
//! | [`reduce_to`](Stream::reduce_to) | |

mod choice;

use crate::on_stream::start;
use crate::{Error, LaunchConfig, Stream, StreamError};
use choice::{Asked, Choice, choose};
use shmem::collective::by_blocks::{Call, OpName};
use shmem::collective::{And, Max, Min, Or, Part, Prod, ReduceOp, Sum, Xor};
use shmem::state::SYNC_SLOTS;
use shmem::{IntoArg, Pod, SymSlice, Team, bf16, f16};
use shmem_device::collective;

/// An operation that a reduction on a stream may be given for elements of `T`: `Sum`, `Prod`, `Min` and `Max` of i8 to i64, u8
/// to u64, f16, bf16, f32 and f64; `And`, `Or` and `Xor` of the integers ([`shmem::collective`]).
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not reduce elements of `{T}`",
    note = "Sum, Prod, Min and Max take i8 to i64, u8 to u64, f16, bf16, f32, f64; And, Or and Xor the integers"
)]
pub trait StreamReduce<T: Pod>: ReduceOp<T> + sealed::Sealed {
    #[doc(hidden)]
    const __NAME: OpName;
    #[doc(hidden)]
    fn __enqueue(stream: &Stream, launch: Launch, team: Team, dst: SymSlice<T>, src: SymSlice<T>) -> Result<(), Error>;
}

/// What is launched.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Launch(Choice);

mod sealed {
    pub trait Sealed {}
}

/// `[type by the kernel of ..] [operation as its name ..];`
macro_rules! reductions { ($([$($t:ident by $kernel:ident)*] $ops:tt;)*) => { $($( reductions!(@type $t $kernel $ops); )*)* };
    (@type $t:ident $kernel:ident [$($op:ident as $name:ident)*]) => { $(
        impl StreamReduce<$t> for $op {
            const __NAME: OpName = OpName::$name;
            fn __enqueue(stream: &Stream, launch: Launch, team: Team, dst: SymSlice<$t>, src: SymSlice<$t>) -> Result<(), Error> {
                let (dst, src) = (dst.cast::<$kernel>(), src.cast::<$kernel>());
                let call = collective::reduces::<$kernel>(team, dst, src, launch.0.plan);
                stream.session().launch(&stream.config(launch.0), &call)
            }
        }
    )* };
}
reductions! {
    [i8 by u8 i16 by u16 i32 by u32 i64 by u64]
        [Sum as Sum Prod as Prod Min as MinSigned Max as MaxSigned And as And Or as Or Xor as Xor];
    [u8 by u8 u16 by u16 u32 by u32 u64 by u64]
        [Sum as Sum Prod as Prod Min as Min Max as Max And as And Or as Or Xor as Xor];
    [f16 by f16 bf16 by bf16 f32 by f32 f64 by f64]
        [Sum as Sum Prod as Prod Min as Min Max as Max];
}
macro_rules! sealed { ($($op:ident)*) => { $( impl sealed::Sealed for $op {} )* } }
sealed!(Sum Prod Min Max And Or Xor);

impl Stream {
    /// The root's `src` in every member's `dst`, both of the same length in elements. In place where `dst` is `src`. `root` is
    /// an index in the team.
    ///
    /// OpenSHMEM `shmem_broadcast` (9.9.5), NVSHMEM `nvshmemx_TYPE_broadcast_on_stream`. See [`reduce`](Self::reduce) for who
    /// calls, for order and for errors; [`StreamError::Root`].
    ///
    /// ```
    /// use shmem_host::{Backend, World};
    ///
    /// World::builder().pes(3).backend(Backend::Sim).build()?.run(|pe| {
    ///     let (world, x) = (pe.world(), pe.alloc::<u32>(100)?);
    ///     x.write(&[pe.id(); 100])?;
    ///     pe.stream().broadcast(&world, &x, &x, 2)?;
    ///     assert_eq!(x.to_vec()?, [2; 100]);
    ///     Ok::<(), shmem_host::Error>(())
    /// })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce).
    pub fn broadcast<T: Pod>(
        &self,
        team: impl IntoArg<Team>,
        dst: impl IntoArg<SymSlice<T>>,
        src: impl IntoArg<SymSlice<T>>,
        root: u32,
    ) -> Result<(), Error> {
        let call = Asking::new(self, "broadcast", Call::Broadcast, team, dst, src);
        call.lengths(1, 1)?;
        call.root(root)?;
        call.apart(Some(call.src))?;
        call.moves(call.src.len(), root)
    }

    /// Every member's `src` in every member's `dst`, one after the other in the order of their indices: `dst` is as many times
    /// as long as there are members. In place where `src` is the own part of `dst`.
    ///
    /// OpenSHMEM `shmem_fcollect` (9.9.7), NVSHMEM `nvshmemx_TYPE_fcollect_on_stream`. See [`reduce`](Self::reduce) for who
    /// calls, for order and for errors.
    ///
    /// ```
    /// use shmem_host::{Backend, World};
    ///
    /// World::builder().pes(2).backend(Backend::Sim).build()?.run(|pe| {
    ///     let (dst, src) = (pe.alloc::<u32>(2)?, pe.alloc::<u32>(1)?);
    ///     src.write(&[10 + pe.id()])?;
    ///     pe.stream().fcollect(&pe.world(), &dst, &src)?;
    ///     assert_eq!(dst.to_vec()?, [10, 11]);
    ///     Ok::<(), shmem_host::Error>(())
    /// })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce).
    pub fn fcollect<T: Pod>(
        &self,
        team: impl IntoArg<Team>,
        dst: impl IntoArg<SymSlice<T>>,
        src: impl IntoArg<SymSlice<T>>,
    ) -> Result<(), Error> {
        let call = Asking::new(self, "fcollect", Call::Fcollect, team, dst, src);
        call.lengths(call.n(), 1)?;
        call.apart_from_own(call.dst, call.src)?;
        call.moves(call.src.len(), 0)
    }

    /// Part i of `src` in the `dst` of member i, there as the part of this member's index. Both are of one length, as many equal
    /// parts as there are members. Not in place.
    ///
    /// OpenSHMEM `shmem_alltoall` (9.9.9), NVSHMEM `nvshmemx_TYPE_alltoall_on_stream`. See [`reduce`](Self::reduce) for who
    /// calls, for order and for errors.
    ///
    /// ```
    /// use shmem_host::{Backend, World};
    ///
    /// World::builder().pes(2).backend(Backend::Sim).build()?.run(|pe| {
    ///     let (dst, src) = (pe.alloc::<u32>(2)?, pe.alloc::<u32>(2)?);
    ///     src.write(&[10 * pe.id(), 10 * pe.id() + 1])?;
    ///     pe.stream().alltoall(&pe.world(), &dst, &src)?;
    ///     assert_eq!(dst.to_vec()?, [pe.id(), 10 + pe.id()]);
    ///     Ok::<(), shmem_host::Error>(())
    /// })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce).
    pub fn alltoall<T: Pod>(
        &self,
        team: impl IntoArg<Team>,
        dst: impl IntoArg<SymSlice<T>>,
        src: impl IntoArg<SymSlice<T>>,
    ) -> Result<(), Error> {
        let call = Asking::new(self, "alltoall", Call::Alltoall, team, dst, src);
        call.lengths(1, 1)?;
        call.parts()?;
        call.apart(None)?;
        call.moves(call.src.len() / u64::from(call.n()), 0)
    }

    /// Part `sends[i]` of every member's `src` in part `receives[j]` of member i's `dst`, where j is the sender's index. The lists, one
    /// [`Part`] for each member, are in device memory: kernels earlier on the stream may have filled them in. A part that is sent is
    /// as long as the one it is received in, and parts of `dst` are apart. Not in place. `dst` and `src` have the same lengths on all
    /// members, which need not be used.
    ///
    /// MPI `MPI_Alltoallv`. See [`reduce`](Self::reduce) for who calls, for order and for errors; [`StreamError::Lists`]. What the lists
    /// say is looked at by the kernel: `FaultKind::Length` for a part of another length at the sender (`b`) than at the receiver (`a`), in
    /// elements; `FaultKind::Range` for one that is not inside, in bytes.
    ///
    /// ```
    /// use shmem::collective::Part;
    /// use shmem_host::{Backend, World};
    ///
    /// // PE 0 gives PE 1 three elements, and everything else is empty.
    /// World::builder().pes(2).backend(Backend::Sim).build()?.run(|pe| {
    ///     let (dst, src) = (pe.alloc::<u32>(8)?, pe.alloc::<u32>(8)?);
    ///     let (sends, receives) = (pe.alloc::<Part>(2)?, pe.alloc::<Part>(2)?);
    ///     let (none, len) = (Part::default(), 3);
    ///     match pe.id() {
    ///         0 => sends.write(&[none, Part { start: 5, len }])?,
    ///         _ => receives.write(&[Part { start: 1, len }, none])?,
    ///     }
    ///     src.write(&[0, 1, 2, 3, 4, 5, 6, 7])?;
    ///     pe.stream().alltoallv(&pe.world(), &dst, &src, &sends, &receives)?;
    ///     let got = if pe.id() == 1 { [0, 5, 6, 7, 0, 0, 0, 0] } else { [0; 8] };
    ///     assert_eq!(dst.to_vec()?, got);
    ///     Ok::<(), shmem_host::Error>(())
    /// })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce).
    pub fn alltoallv<T: Pod>(
        &self,
        team: impl IntoArg<Team>,
        dst: impl IntoArg<SymSlice<T>>,
        src: impl IntoArg<SymSlice<T>>,
        sends: impl IntoArg<SymSlice<Part>>,
        receives: impl IntoArg<SymSlice<Part>>,
    ) -> Result<(), Error> {
        let call = Asking::new(self, "alltoallv", Call::Alltoallv, team, dst, src);
        let (sends, receives) = (sends.into_arg(), receives.into_arg());
        call.lists(sends.len(), receives.len())?;
        call.apart(None)?;
        let most = call.dst.len().max(call.src.len());
        let Some(choice) = call.choice(most, 0, OpName::Sum)? else {
            return Ok(());
        };
        let (dst, src) = (call.dst.cast::<u8>(), call.src.cast::<u8>());
        let element = size_of::<T>() as u32;
        let kernel = collective::moves_parts(call.team, dst, src, sends, receives, element, choice.plan);
        self.session().launch(&self.config(choice), &kernel)
    }

    /// The elements of every member's `src`, combined by `op` in the order of the members' indices, in every member's `dst`. In
    /// place where `dst` is `src`.
    ///
    /// Results are those of the call in kernels, bit by bit ([`shmem::Collective::reduce`](shmem::Collective)): integers wrap,
    /// halves are added up in f32 and rounded once, and all members get the same bits.
    ///
    /// Every member of the team makes the same call, with the same lengths, in the same order; the others don't. What comes before
    /// on the stream is part of the source, and may have read or written the destination; what follows on the stream sees the result
    /// and may write both again. `team` is a `&Team`, or one at another slot, `team.handle().slot(3)`: one collective may be under
    /// way for each slot of a team, on all streams and in kernels together. It may be captured. Calls with no elements return at
    /// once.
    ///
    /// OpenSHMEM `shmem_sum_reduce`, .. (9.9.10), NVSHMEM `nvshmemx_TYPE_sum_reduce_on_stream`, .., NCCL `ncclAllReduce`.
    ///
    /// ```
    /// use shmem::collective::{Max, Sum};
    /// use shmem_host::{Backend, World};
    ///
    /// World::builder().pes(4).backend(Backend::Sim).build()?.run(|pe| {
    ///     let (world, stream) = (pe.world(), pe.stream());
    ///     let (row, _) = world.split_2d(2)?;
    ///     let (dst, src) = (pe.alloc::<f32>(1000)?, pe.alloc::<f32>(1000)?);
    ///     src.write(&[pe.id() as f32; 1000])?;
    ///     stream.reduce(&world, Sum, &dst, &src)?;
    ///     stream.reduce(&row, Max, &src, &src)?; // in place
    ///     assert_eq!((dst.read(999)?, src.read(0)?), (6.0, (pe.id() / 2 * 2 + 1) as f32));
    ///     Ok::<(), shmem_host::Error>(())
    /// })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`StreamError`] for lengths that don't fit each other, source and destination that overlap otherwise than in place, a slot
    /// that there is not; [`LaunchError::StaleHandle`](crate::LaunchError::StaleHandle) for memory and teams that this PE has dropped or
    /// never had. Nothing is enqueued then: since the other members wait, all should get the same error. Members that make
    /// different calls wait for each other up to the World's time limit; the simulator names both calls.
    pub fn reduce<T: Pod, O: StreamReduce<T>>(
        &self,
        team: impl IntoArg<Team>,
        _op: O,
        dst: impl IntoArg<SymSlice<T>>,
        src: impl IntoArg<SymSlice<T>>,
    ) -> Result<(), Error> {
        let call = Asking::new(self, "reduce", Call::Reduce, team, dst, src);
        call.lengths(1, 1)?;
        call.apart(Some(call.src))?;
        call.reduces::<O>(call.src.len(), 0)
    }

    /// Part i of every member's `src`, combined by `op` as [`reduce`](Self::reduce) does it, in the `dst` of member i: `src` is as many
    /// times as long as there are members. In place where `dst` is the own part of `src`.
    ///
    /// NVSHMEM `nvshmemx_TYPE_sum_reducescatter_on_stream`, .., NCCL `ncclReduceScatter`. See [`reduce`](Self::reduce) for who
    /// calls, for order and for errors.
    ///
    /// ```
    /// use shmem::collective::Sum;
    /// use shmem_host::{Backend, World};
    ///
    /// World::builder().pes(2).backend(Backend::Sim).build()?.run(|pe| {
    ///     let (dst, src) = (pe.alloc::<u64>(1)?, pe.alloc::<u64>(2)?);
    ///     src.write(&[1, 10 + u64::from(pe.id())])?;
    ///     pe.stream().reduce_scatter(&pe.world(), Sum, &dst, &src)?;
    ///     assert_eq!(dst.read(0)?, [2, 21][pe.id() as usize]);
    ///     Ok::<(), shmem_host::Error>(())
    /// })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce).
    pub fn reduce_scatter<T: Pod, O: StreamReduce<T>>(
        &self,
        team: impl IntoArg<Team>,
        _op: O,
        dst: impl IntoArg<SymSlice<T>>,
        src: impl IntoArg<SymSlice<T>>,
    ) -> Result<(), Error> {
        let call = Asking::new(self, "reduce_scatter", Call::ReduceScatter, team, dst, src);
        call.lengths(1, call.n())?;
        call.apart_from_own(call.src, call.dst)?;
        call.reduces::<O>(call.dst.len(), 0)
    }

    /// As [`reduce`](Self::reduce), with the result in the root's `dst` alone; what the others give for theirs is not written. `root`
    /// is an index in the team.
    ///
    /// MPI `MPI_Reduce`, NCCL `ncclReduce`. See [`reduce`](Self::reduce) for who calls, for order and for errors;
    /// [`StreamError::Root`].
    ///
    /// ```
    /// use shmem::collective::Xor;
    /// use shmem_host::{Backend, World};
    ///
    /// World::builder().pes(3).backend(Backend::Sim).build()?.run(|pe| {
    ///     let (dst, src) = (pe.alloc::<u8>(5)?, pe.alloc::<u8>(5)?);
    ///     src.write(&[1 << pe.id(); 5])?;
    ///     pe.stream().reduce_to(&pe.world(), Xor, &dst, &src, 1)?;
    ///     assert_eq!(dst.to_vec()?, if pe.id() == 1 { [7; 5] } else { [0; 5] });
    ///     Ok::<(), shmem_host::Error>(())
    /// })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce).
    pub fn reduce_to<T: Pod, O: StreamReduce<T>>(
        &self,
        team: impl IntoArg<Team>,
        _op: O,
        dst: impl IntoArg<SymSlice<T>>,
        src: impl IntoArg<SymSlice<T>>,
        root: u32,
    ) -> Result<(), Error> {
        let call = Asking::new(self, "reduce_to", Call::ReduceTo, team, dst, src);
        call.lengths(1, 1)?;
        call.root(root)?;
        call.apart(Some(call.src))?;
        call.reduces::<O>(call.src.len(), root)
    }

    /// A block waits for one of another PE, so that all must be resident.
    fn config(&self, choice: Choice) -> LaunchConfig<'_> {
        LaunchConfig::new(choice.blocks, choice.threads).stream(self).resident()
    }
}

/// A call, to be checked.
struct Asking<'a, T> {
    stream: &'a Stream,
    name: &'static str,
    call: Call,
    team: Team,
    dst: SymSlice<T>,
    src: SymSlice<T>,
}

impl<'a, T: Pod> Asking<'a, T> {
    fn new(
        stream: &'a Stream,
        name: &'static str,
        call: Call,
        team: impl IntoArg<Team>,
        dst: impl IntoArg<SymSlice<T>>,
        src: impl IntoArg<SymSlice<T>>,
    ) -> Self {
        Self {
            stream,
            name,
            call,
            team: team.into_arg(),
            dst: dst.into_arg(),
            src: src.into_arg(),
        }
    }

    fn n(&self) -> u32 {
        self.team.n_pes()
    }

    fn pe(&self) -> u32 {
        self.stream.session().pe
    }

    /// The destination is `dst` times a part, and the source `src` times.
    fn lengths(&self, dst: u32, src: u32) -> Result<(), StreamError> {
        let (to, from) = (self.dst.len(), self.src.len());
        let fits = to.checked_mul(src.into()) == from.checked_mul(dst.into()) && to.checked_mul(src.into()).is_some();
        if fits {
            return Ok(());
        }
        let (pe, call, n) = (self.pe(), self.name, self.n());
        Err(if dst == src {
            let (dst, src) = (to, from);
            StreamError::Length { pe, call, dst, src }
        } else {
            let (whole, part) = if dst > src { (to, from) } else { (from, to) };
            StreamError::Whole {
                pe,
                call,
                whole,
                part,
                n,
            }
        })
    }

    /// Both have as many elements for each member.
    fn parts(&self) -> Result<(), StreamError> {
        let (len, n) = (self.src.len(), self.n());
        if len.is_multiple_of(n.into()) {
            return Ok(());
        }
        let (pe, call) = (self.pe(), self.name);
        Err(StreamError::Parts { pe, call, len, n })
    }

    /// Both lists have a part for each member.
    fn lists(&self, sends: u64, receives: u64) -> Result<(), StreamError> {
        let (pe, call, n) = (self.pe(), self.name, self.n());
        if sends == n.into() && receives == n.into() {
            return Ok(());
        }
        Err(StreamError::Lists {
            pe,
            call,
            sends,
            receives,
            n,
        })
    }

    fn root(&self, root: u32) -> Result<(), StreamError> {
        let (pe, call, n) = (self.pe(), self.name, self.n());
        if root < n {
            return Ok(());
        }
        Err(StreamError::Root { pe, call, root, n })
    }

    /// Source and destination are apart, or begin at the same place where the call may be in place.
    fn apart(&self, in_place: Option<SymSlice<T>>) -> Result<(), StreamError> {
        let place = in_place.map(|place| start(&place));
        let end = |x: &SymSlice<T>| start(x) + x.len() * size_of::<T>() as u64;
        let (dst, src) = (start(&self.dst), start(&self.src));
        if end(&self.dst) <= src || end(&self.src) <= dst || place == Some(dst) {
            return Ok(());
        }
        let (pe, call) = (self.pe(), self.name);
        Err(StreamError::Overlap { pe, call, dst, src })
    }

    /// The smaller object is apart from the whole one, or is this member's part of it.
    fn apart_from_own(&self, whole: SymSlice<T>, part: SymSlice<T>) -> Result<(), StreamError> {
        let own = start(&whole) + u64::from(self.team.my_pe()) * part.len() * size_of::<T>() as u64;
        if own == start(&part) { Ok(()) } else { self.apart(None) }
    }

    /// What to launch for parts of `len` elements; None where there is nothing to do.
    fn choice(&self, len: u64, root: u32, op: OpName) -> Result<Option<Choice>, Error> {
        let (session, slot) = (self.stream.session(), self.team.__slot());
        session.check()?;
        if slot as usize >= SYNC_SLOTS {
            let (pe, call, slots) = (self.pe(), self.name, SYNC_SLOTS as u32);
            return Err(StreamError::Slot { pe, call, slot, slots }.into());
        }
        if len == 0 {
            return Ok(None);
        }
        let asked = Asked {
            call: self.call,
            n: self.n(),
            bytes: len * size_of::<T>() as u64,
            in_place: start(&self.dst) == start(&self.src),
            root,
            op,
        };
        Ok(Some(choose(asked, session.shared.platform.stream_grid())))
    }

    fn moves(&self, len: u64, root: u32) -> Result<(), Error> {
        // No operation: any name.
        let Some(choice) = self.choice(len, root, OpName::Sum)? else {
            return Ok(());
        };
        let call = collective::moves(self.team, self.dst.cast::<u8>(), self.src.cast::<u8>(), choice.plan);
        self.stream.session().launch(&self.stream.config(choice), &call)
    }

    fn reduces<O: StreamReduce<T>>(&self, len: u64, root: u32) -> Result<(), Error> {
        match self.choice(len, root, O::__NAME)? {
            Some(choice) => O::__enqueue(self.stream, Launch(choice), self.team, self.dst, self.src),
            None => Ok(()),
        }
    }
}
