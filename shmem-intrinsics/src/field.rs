//! Fields of elements: an element may be larger than one access, and is reached field by field.

use crate::{Global, Sym};

/// `field!(element, Struct, name)`: the field of an element that is a `#[repr(C)]` struct.
///
/// | element | gives |
/// |---|---|
/// | `Sym<Struct>`: `table.at(i)` | `Sym<Field>`, for p, g, atomics, waits |
/// | `Global<Struct>`: `table.chunk(i, 1)` | `Global<Field>` of one element |
///
/// Faults with `FaultKind::Index` where the Global has no element.
///
/// ```
/// use shmem::prelude::*;
///
/// #[repr(C)]
/// #[derive(Clone, Copy)]
/// struct Entry {
///     key: u64,
///     value: [u32; 6],
/// }
/// // SAFETY: numbers without padding.
/// unsafe impl Zeroable for Entry {}
/// // SAFETY: as above.
/// unsafe impl Pod for Entry {}
///
/// shmem_sim::run(2, 1, 1, || {
///     let table = shmem_sim::symmetric::<Entry>(4);
///     let key = shmem::field!(table.at(3), Entry, key);
///     shmem::p(key, 77, shmem::my_pe());
///     shmem::quiet(Thread);
///     assert_eq!(key.load(), 77);
/// }).unwrap();
/// ```
#[macro_export]
macro_rules! field {
    ($element:expr, $struct:ty, $field:ident) => {{
        const OFFSET: usize = ::core::mem::offset_of!($struct, $field);
        // SAFETY: the offset and the type are those of the field.
        #[allow(unused_unsafe)]
        unsafe {
            $crate::field::Element::<$struct>::__field::<_, OFFSET>($element, |x: &$struct| &x.$field)
        }
    }};
}

/// An element whose fields can be reached.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no element of type `{S}`",
    note = "field!(element, Struct, name): the element is a `Sym<Struct>` (`x.at(i)`) or a `Global<Struct>` (`x.chunk(i, 1)`)"
)]
pub trait Element<S> {
    /// The handle of a field.
    #[doc(hidden)]
    type __Field<F>;
    /// # Safety
    /// A field of type F lies OFFSET bytes into S.
    #[doc(hidden)]
    unsafe fn __field<F, const OFFSET: usize>(self, typed: fn(&S) -> &F) -> Self::__Field<F>;
}

impl<S> Element<S> for Sym<S> {
    type __Field<F> = Sym<F>;
    #[inline(always)]
    unsafe fn __field<F, const OFFSET: usize>(self, _: fn(&S) -> &F) -> Sym<F> {
        self.inside(OFFSET as u64)
    }
}

impl<S> Element<S> for Global<S> {
    type __Field<F> = Global<F>;
    #[inline(always)]
    #[track_caller]
    unsafe fn __field<F, const OFFSET: usize>(self, _: fn(&S) -> &F) -> Global<F> {
        crate::fault::check(!self.is_empty(), crate::fault::FaultKind::Index, 0, 0);
        self.inside(OFFSET as u64)
    }
}
