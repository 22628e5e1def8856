//! Memory that lanes share: the heaps, single words, and a version that says whether any of it has changed.

use crate::config::{Config, Processes, SimError};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use shmem::hook::AtomicOp;
use shmem::{bf16, f16};
use std::cell::Cell;
use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// Anonymous pages that are zero at first and cost memory once they are written. Unmapped when dropped.
pub(crate) struct Mapping {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: it owns pages, not what is stored there; they may be unmapped from any thread.
unsafe impl Send for Mapping {}
// SAFETY: it only tells where the pages are.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(crate) fn new(bytes: usize, what: &'static str) -> Result<Self, SimError> {
        let (prot, flags) = (
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        );
        // SAFETY: new pages at an address that the system chooses; nothing else refers to them.
        match unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, prot, flags) } {
            Ok(start) => Ok(Self {
                start: start.cast(),
                bytes,
            }),
            Err(errno) => Err(SimError::Map {
                what,
                bytes: bytes as u64,
                source: errno.into(),
            }),
        }
    }

    /// Memory that other processes map too.
    fn shared(file: BorrowedFd<'_>, bytes: usize, what: &'static str) -> Result<Self, SimError> {
        let refused = |source| SimError::Map {
            what,
            bytes: bytes as u64,
            source,
        };
        // Pages beyond a file's end can't be touched.
        let there = fstat(file).map_err(|errno| refused(errno.into()))?.st_size;
        if u64::try_from(there).is_ok_and(|there| there < bytes as u64) {
            return Err(refused(std::io::Error::other(format!("the file has {there} bytes"))));
        }
        let (prot, flags) = (
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED | MapFlags::NORESERVE,
        );
        // SAFETY: new pages at an address that the system chooses; what others do there is what shared memory is for.
        match unsafe { mmap(std::ptr::null_mut(), bytes, prot, flags, file, 0) } {
            Ok(start) => Ok(Self {
                start: start.cast(),
                bytes,
            }),
            Err(errno) => Err(refused(errno.into())),
        }
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.start
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped; whoever holds addresses inside was told that they end here.
        // An error would mean that the pages are not mapped: there is nothing left to do.
        let _ = unsafe { munmap(self.start.cast(), self.bytes) };
    }
}

/// Memory that processes share by its descriptor, and that keeps its size.
pub(crate) fn heap_file(bytes: u64) -> std::io::Result<OwnedFd> {
    let file = memfd_create("shmem heap", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, bytes)?;
    // A size that changed would end whoever touches the pages that are gone.
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}

/// Every PE's symmetric heap.
pub(crate) struct Heaps {
    maps: Vec<Mapping>,
    bytes: u64,
    /// What they are mapped from, where other processes map it too.
    files: Option<Arc<[OwnedFd]>>,
}

impl Heaps {
    pub(crate) fn new(pes: u32, bytes: u64) -> Result<Self, SimError> {
        let maps = (0..pes)
            .map(|_| Mapping::new(bytes as usize, "a symmetric heap"))
            .collect::<Result<_, _>>()?;
        let files = None;
        Ok(Self { maps, bytes, files })
    }

    /// As the configuration says: of this process, or shared with others.
    pub(crate) fn of(config: &Config) -> Result<Self, SimError> {
        let Some(Processes { heaps, .. }) = &config.processes else {
            return Self::new(config.pes, config.heap_bytes);
        };
        let bytes = config.heap_bytes;
        let map = |file: &OwnedFd| Mapping::shared(file.as_fd(), bytes as usize, "a symmetric heap");
        let maps = heaps.iter().map(map).collect::<Result<_, _>>()?;
        let files = Some(Arc::clone(heaps));
        Ok(Self { maps, bytes, files })
    }

    /// Where a range of whole pages begins.
    fn range(&self, pe: u32, offset: u64, bytes: u64) -> io::Result<*mut c_void> {
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        if !inside || bytes == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(self.base(pe).wrapping_add(offset as usize).cast())
    }

    /// Puts a file's first bytes in the place of a range of the PE's heap.
    ///
    /// # Safety
    /// The file has so many bytes and can't become shorter; nothing uses the range meanwhile.
    pub(crate) unsafe fn replace(&self, pe: u32, offset: u64, bytes: u64, file: BorrowedFd<'_>) -> io::Result<()> {
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
        let start = self.range(pe, offset, bytes)?;
        // SAFETY: inside this heap's own mapping, which nothing uses there; the system wants whole pages.
        unsafe { mmap(start, bytes as usize, prot, flags, file, 0) }?;
        Ok(())
    }

    /// Undoes [`replace`](Self::replace).
    ///
    /// # Safety
    /// Nothing uses the range meanwhile.
    pub(crate) unsafe fn restore(&self, pe: u32, offset: u64, bytes: u64) -> io::Result<()> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::FIXED | MapFlags::NORESERVE;
        let (start, length) = (self.range(pe, offset, bytes)?, bytes as usize);
        match &self.files {
            // SAFETY: as in `replace`; the heap's file is as long as the heap.
            Some(files) => unsafe {
                let file = &files[pe as usize];
                mmap(start, length, prot, flags | MapFlags::SHARED, file, offset)?;
            },
            // SAFETY: as in `replace`.
            None => unsafe {
                mmap_anonymous(start, length, prot, flags | MapFlags::PRIVATE)?;
            },
        }
        Ok(())
    }

    pub(crate) fn base(&self, pe: u32) -> *mut u8 {
        self.maps[pe as usize].start()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn pes(&self) -> u32 {
        self.maps.len() as u32
    }

    /// Which PE's heap an address lies in, and where there.
    pub(crate) fn place(&self, address: u64) -> Option<(u32, u64)> {
        (0..self.pes()).find_map(|pe| {
            let offset = address.checked_sub(self.base(pe) as u64)?;
            (offset < self.bytes).then_some((pe, offset))
        })
    }
}

/// Memory as the lanes change it. The version counts changes, so that waiting lanes are looked at only when there is news.
pub(crate) struct Memory {
    pub(crate) heaps: Arc<Heaps>,
    version: Cell<u64>,
}

impl Memory {
    pub(crate) fn new(heaps: Arc<Heaps>) -> Self {
        Self {
            heaps,
            version: Cell::new(0),
        }
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.get()
    }

    /// What another process has changed is no news here: lanes that wait look once more.
    pub(crate) fn expect_changes(&self) {
        self.touch();
    }

    fn touch(&self) {
        self.version.set(self.version.get() + 1);
    }

    /// A store of what is there already is no news: a lock that spins on swap does not keep a deadlock alive.
    ///
    /// # Safety
    /// A live, aligned word of `bytes` bytes.
    pub(crate) unsafe fn store(&self, address: u64, bytes: u32, value: u128) {
        // SAFETY: the caller's promise.
        unsafe {
            if load(address, bytes) != low(value, bytes) {
                store(address, bytes, value);
                self.touch();
            }
        }
    }

    /// Returns the old value.
    ///
    /// # Safety
    /// A live, aligned word of `bytes` bytes, 4 or 8.
    pub(crate) unsafe fn atomic(&self, address: u64, bytes: u32, op: AtomicOp, operand: u64, comparand: u64) -> u64 {
        // SAFETY: the caller's promise.
        unsafe {
            let old = match bytes {
                4 => u64::from(atomic_u32(address, op, operand as u32, comparand as u32)),
                8 => atomic_u64(address, op, operand, comparand),
                _ => unreachable!("an atomic of {bytes} bytes"),
            };
            if load(address, bytes) != u128::from(old) {
                self.touch();
            }
            old
        }
    }

    /// Copies bytes; the two ranges may overlap, as a put to oneself may.
    ///
    /// # Safety
    /// Both ranges are live.
    pub(crate) unsafe fn copy(&self, to: *mut u8, from: *const u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy(from, to, bytes) };
        self.touch();
    }
}

/// The bytes of a value that a word has room for.
pub(crate) fn low(value: u128, bytes: u32) -> u128 {
    value & mask(bytes)
}

fn mask(bytes: u32) -> u128 {
    u128::MAX >> (128 - 8 * bytes.clamp(1, 16))
}

macro_rules! word {
    ($atomic:ident at $address:expr) => {
        // SAFETY: the caller of `load` or `store` promises a live, aligned word; every access to it is atomic.
        unsafe { $atomic::from_ptr($address as *mut _) }
    };
}

/// # Safety
/// A live, aligned word of 1, 2, 4, 8 or 16 bytes; 16 are read as two halves, as a GPU may.
pub(crate) unsafe fn load(address: u64, bytes: u32) -> u128 {
    match bytes {
        1 => word!(AtomicU8 at address).load(Ordering::Acquire).into(),
        2 => word!(AtomicU16 at address).load(Ordering::Acquire).into(),
        4 => word!(AtomicU32 at address).load(Ordering::Acquire).into(),
        8 => word!(AtomicU64 at address).load(Ordering::Acquire).into(),
        16 => {
            let low = word!(AtomicU64 at address).load(Ordering::Acquire);
            let high = word!(AtomicU64 at address + 8).load(Ordering::Acquire);
            u128::from(high) << 64 | u128::from(low)
        }
        _ => unreachable!("an access of {bytes} bytes"),
    }
}

/// # Safety
/// As for [`load`].
unsafe fn store(address: u64, bytes: u32, value: u128) {
    match bytes {
        1 => word!(AtomicU8 at address).store(value as u8, Ordering::Release),
        2 => word!(AtomicU16 at address).store(value as u16, Ordering::Release),
        4 => word!(AtomicU32 at address).store(value as u32, Ordering::Release),
        8 => word!(AtomicU64 at address).store(value as u64, Ordering::Release),
        16 => {
            word!(AtomicU64 at address).store(value as u64, Ordering::Release);
            word!(AtomicU64 at address + 8).store((value >> 64) as u64, Ordering::Release);
        }
        _ => unreachable!("an access of {bytes} bytes"),
    }
}

/// The sum that a word of 4 bytes holds after an addition.
fn sum_u32(op: AtomicOp, old: u32, operand: u32) -> u32 {
    match op {
        AtomicOp::AddF32 => (f32::from_bits(old) + f32::from_bits(operand)).to_bits(),
        AtomicOp::AddF16x2 => halves(old, operand, |a, b| (f16::from_bits(a) + f16::from_bits(b)).to_bits()),
        AtomicOp::AddBf16x2 => halves(old, operand, |a, b| (bf16::from_bits(a) + bf16::from_bits(b)).to_bits()),
        _ => unreachable!("{op:?} of 4 bytes"),
    }
}

/// The sum that a word of 8 bytes holds after an addition.
fn sum_u64(op: AtomicOp, old: u64, operand: u64) -> u64 {
    match op {
        AtomicOp::AddF64 => (f64::from_bits(old) + f64::from_bits(operand)).to_bits(),
        _ => unreachable!("{op:?} of 8 bytes"),
    }
}

fn halves(a: u32, b: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
    u32::from(f(a as u16, b as u16)) | u32::from(f((a >> 16) as u16, (b >> 16) as u16)) << 16
}

macro_rules! atomics { ($($name:ident: $atomic:ident, $t:ty, $sum:ident;)*) => { $(
    /// # Safety
    /// A live, aligned word.
    unsafe fn $name(address: u64, op: AtomicOp, operand: $t, comparand: $t) -> $t {
        let word = word!($atomic at address);
        match op {
            AtomicOp::Add => word.fetch_add(operand, Ordering::SeqCst),
            AtomicOp::Swap => word.swap(operand, Ordering::SeqCst),
            AtomicOp::And => word.fetch_and(operand, Ordering::SeqCst),
            AtomicOp::Or => word.fetch_or(operand, Ordering::SeqCst),
            AtomicOp::Xor => word.fetch_xor(operand, Ordering::SeqCst),
            AtomicOp::CompareSwap => {
                match word.compare_exchange(comparand, operand, Ordering::SeqCst, Ordering::SeqCst) {
                    Ok(old) | Err(old) => old,
                }
            }
            AtomicOp::Fetch => word.load(Ordering::SeqCst),
            AtomicOp::Set => word.swap(operand, Ordering::SeqCst),
            AtomicOp::AddF32 | AtomicOp::AddF64 | AtomicOp::AddF16x2 | AtomicOp::AddBf16x2 => {
                let sum = |old| Some($sum(op, old, operand));
                match word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, sum) {
                    Ok(old) | Err(old) => old,
                }
            }
        }
    }
)* } }
atomics! { atomic_u32: AtomicU32, u32, sum_u32; atomic_u64: AtomicU64, u64, sum_u64; }

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> (Memory, u64) {
        let heaps = Arc::new(Heaps::new(2, 1 << 20).unwrap());
        let at = heaps.base(1) as u64 + 64;
        (Memory::new(heaps), at)
    }

    #[test]
    fn words_of_every_size_come_back() {
        let (memory, at) = memory();
        let value = 0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0181u128;
        for bytes in [1, 2, 4, 8, 16] {
            // SAFETY: inside the heap, aligned to 16.
            unsafe {
                memory.store(at, bytes, value);
                assert_eq!(load(at, bytes), value & mask(bytes), "{bytes} bytes");
            }
        }
    }

    #[test]
    fn only_changes_count_as_news() {
        let (memory, at) = memory();
        // SAFETY: inside the heap, aligned.
        unsafe {
            memory.store(at, 8, 5);
            let seen = memory.version();
            memory.store(at, 8, 5);
            assert_eq!(memory.atomic(at, 8, AtomicOp::CompareSwap, 1, 0), 5);
            assert_eq!(memory.version(), seen);
            assert_eq!(memory.atomic(at, 8, AtomicOp::Add, 2, 0), 5);
            assert_eq!(memory.version(), seen + 1);
        }
    }

    #[test]
    fn atomics_do_what_they_say() {
        let (memory, at) = memory();
        let steps = [
            (AtomicOp::Swap, 0b1100, 0, 0b1100),
            (AtomicOp::And, 0b0110, 0, 0b0100),
            (AtomicOp::Or, 0b0011, 0, 0b0111),
            (AtomicOp::Xor, 0b0101, 0, 0b0010),
            (AtomicOp::CompareSwap, 9, 2, 9),
            (AtomicOp::Add, u64::MAX, 0, 8),
        ];
        for (op, operand, comparand, after) in steps {
            for at in [at, at + 8] {
                let bytes = if at.is_multiple_of(16) { 4 } else { 8 };
                // SAFETY: inside the heap, aligned.
                unsafe {
                    memory.atomic(at, bytes, op, operand, comparand);
                    assert_eq!(load(at, bytes), after, "{op:?} of {bytes} bytes");
                }
            }
        }
    }

    #[test]
    fn sums_of_floats_are_those_of_their_type() {
        let (memory, at) = memory();
        let pair = |a: u16, b: u16| u64::from(a) | u64::from(b) << 16;
        let (h, b) = (|x| f16::from_f32(x).to_bits(), |x| bf16::from_f32(x).to_bits());
        let steps = [
            (
                AtomicOp::AddF32,
                4,
                1.5f32.to_bits().into(),
                (-0.25f32).to_bits().into(),
                1.25f32.to_bits().into(),
            ),
            (
                AtomicOp::AddF64,
                8,
                1.5f64.to_bits(),
                2e300f64.to_bits(),
                2e300f64.to_bits(),
            ),
            // The half that overflows leaves the other alone.
            (
                AtomicOp::AddF16x2,
                4,
                pair(h(60000.0), h(1.0)),
                pair(h(60000.0), h(0.5)),
                pair(h(f32::INFINITY), h(1.5)),
            ),
            (
                AtomicOp::AddBf16x2,
                4,
                pair(b(256.0), b(-1.0)),
                pair(b(1.0), b(1.0)),
                pair(b(256.0), b(0.0)),
            ),
        ];
        for (op, bytes, old, operand, after) in steps {
            // SAFETY: inside the heap, aligned.
            unsafe {
                memory.atomic(at, bytes, AtomicOp::Set, old, 0);
                assert_eq!(memory.atomic(at, bytes, op, operand, 0), old);
                assert_eq!(memory.atomic(at, bytes, AtomicOp::Fetch, 0, 0), after, "{op:?}");
            }
        }
    }

    #[test]
    fn a_part_of_a_heap_is_a_file_for_a_while() {
        let files: Arc<[OwnedFd]> = [heap_file(1 << 20).unwrap(), heap_file(1 << 20).unwrap()].into();
        let mut shared = Config::new(2);
        shared.heap_bytes = 1 << 20;
        shared.processes = Some(Processes {
            local: 0..1,
            heaps: files,
        });
        for heaps in [Heaps::new(2, 1 << 20).unwrap(), Heaps::of(&shared).unwrap()] {
            let file = heap_file(8192).unwrap();
            rustix::io::pwrite(&file, &7u64.to_ne_bytes(), 4096).unwrap();
            let at = |offset: u64| heaps.base(1) as u64 + offset;
            // SAFETY: inside the heap, which nobody else uses; the file is sealed.
            unsafe {
                store(at(8192), 8, 1);
                store(at(4096 + 16384), 8, 2);
                heaps.replace(1, 8192, 8192, file.as_fd()).unwrap();
                assert_eq!((load(at(8192), 8), load(at(12288), 8)), (0, 7));
                store(at(8200), 8, 9);
                heaps.restore(1, 8192, 8192).unwrap();
                assert_eq!((load(at(8200), 8), load(at(12288), 8)), (0, 0));
                assert_eq!(load(at(4096 + 16384), 8), 2, "what lies beside it stays");
                for (offset, bytes) in [
                    (1 << 20, 4096),
                    ((1 << 20) - 4096, 8192),
                    (0, 0),
                    (u64::MAX, 4096),
                    (100, 4096),
                ] {
                    assert!(
                        heaps.replace(1, offset, bytes, file.as_fd()).is_err(),
                        "{offset} {bytes}"
                    );
                    assert!(heaps.restore(1, offset, bytes).is_err(), "{offset} {bytes}");
                }
            }
            let mut word = [0; 8];
            rustix::io::pread(&file, &mut word, 8).unwrap();
            assert_eq!(u64::from_ne_bytes(word), 9);
        }
    }

    #[test]
    fn an_address_tells_its_pe() {
        let (memory, at) = memory();
        assert_eq!(memory.heaps.place(at), Some((1, 64)));
        assert_eq!(memory.heaps.place(8), None);
    }
}
