//! A device's fault record as a typed error.

use shmem::fault::FaultKind;
use shmem::state::FaultRecord;
use shmem_mlx5::completion::Syndrome;
use std::fmt;

/// An error that a kernel met: where, in which thread, with which values.
///
/// ```
/// use shmem::prelude::*;
/// use shmem::fault::FaultKind;
/// use shmem_host::{Backend, Error, World, collective_launch};
///
/// #[kernel]
/// pub fn off_by_one(data: SymSlice<u32>) {
///     data.store(data.len(), 1);
/// }
///
/// let run = World::builder().pes(1).backend(Backend::Sim).build()?.run(|pe| {
///     let data = pe.alloc::<u32>(8)?;
///     collective_launch!(pe, off_by_one<<<1, 1>>>(&data))?;
///     pe.stream().synchronize()
/// });
/// let Err(Error::Device(fault)) = run else { panic!("a store to element 8 of 8 is a fault") };
/// assert_eq!((fault.kind, fault.a, fault.b), (FaultKind::Index, 8, 8));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceFault {
    /// The PE whose kernel it was.
    pub pe: u32,
    /// The kernel. On a GPU, all that were launched since the PE's streams were last seen idle, with commas: one of them.
    pub kernel: String,
    /// What went wrong; says what `a` and `b` are.
    pub kind: FaultKind,
    /// The first value.
    pub a: u64,
    /// The second value.
    pub b: u64,
    /// Source file of the call, its last 128 bytes; empty where the place was not recorded.
    pub file: String,
    /// Line of the call.
    pub line: u32,
    /// Column of the call.
    pub column: u32,
    /// Block in the grid: x, y, z.
    pub block: [u32; 3],
    /// Thread in the block: x, y, z.
    pub thread: [u32; 3],
    /// A panic's text, on the simulator.
    pub message: Option<String>,
}

impl std::error::Error for DeviceFault {}

impl DeviceFault {
    /// Reads the record; the caller knows that it is complete.
    pub(crate) fn new(pe: u32, record: &FaultRecord, kernel: String, message: Option<String>) -> Self {
        let unknown = || format!("fault number {}, which this host program does not know", record.kind);
        let (kind, message) = match FaultKind::from_number(record.kind) {
            Some(kind) => (kind, message),
            None => (FaultKind::Panic, Some(message.unwrap_or_else(unknown))),
        };
        Self {
            pe,
            kernel,
            kind,
            a: record.a,
            b: record.b,
            file: record.file().into_owned(),
            line: record.line,
            column: record.column,
            block: record.block,
            thread: record.thread,
            message,
        }
    }

    fn what(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (a, b) = (self.a, self.b);
        match self.kind {
            FaultKind::Index => write!(f, "index {a} is outside an object of {b} elements"),
            FaultKind::Range => write!(f, "range {a}..{b} is outside the object"),
            FaultKind::Chunk => write!(f, "chunk {a} of {b} elements is outside the object"),
            FaultKind::Cast => write!(
                f,
                "{b} bytes at offset {a:#x} can't be read as elements of that type: size or alignment differs"
            ),
            FaultKind::Pe => write!(f, "PE {a} is outside the world of {b}"),
            FaultKind::Length => write!(f, "the destination has {a} elements and the source {b}"),
            FaultKind::TimeLimit => write!(
                f,
                "a wait lasted longer than the time limit: {:.1} s, value last seen {a}; look for the PE that should \
                 have answered, or set SHMEM_TIMEOUT (seconds, 0 for none)",
                b as f64 / 1e9
            ),
            FaultKind::PeerFailed => write!(f, "another PE failed while this one waited"),
            FaultKind::Panic => match &self.message {
                Some(text) => write!(f, "{text}"),
                None => write!(
                    f,
                    "a panic (index, unwrap, assert); build with the feature `located-panics` of shmem-intrinsics to see where"
                ),
            },
            FaultKind::Tile => write!(f, "a tile of {a} threads does not divide a block of {b}"),
            FaultKind::Network => match &self.message {
                Some(text) => write!(f, "{text}"),
                None => write!(
                    f,
                    "the network could not complete an operation to PE {a}: {}; vendor syndrome {:#04x}",
                    Syndrome::from_u8(b as u8),
                    b >> 8
                ),
            },
            FaultKind::Slot => write!(f, "barrier slot {a} does not exist, there are {b}"),
            FaultKind::Epoch if a == 0 => {
                write!(f, "a packet has epoch 0, which empty slots have: count epochs from 1")
            }
            FaultKind::Epoch => write!(
                f,
                "a packet of epoch {b} lies where one of epoch {a} is waited for: its sender was more than one epoch ahead, or \
                 epochs began anew in a used buffer"
            ),
            FaultKind::Overlap => write!(
                f,
                "the destination at {a:#x} of the heap overlaps the source at {b:#x}, and the call is not in place: give it the \
                 same object, or two that don't touch"
            ),
            FaultKind::Arrivals => write!(f, "an mbarrier of {a} arrivals was asked for: 1 to {b} can be counted"),
            FaultKind::Staging => write!(
                f,
                "a bulk engine was given {a} bytes of shared memory: it needs {b} at least, and tens of KiB to be fast"
            ),
            other => write!(f, "{other:?} (a = {a}, b = {b})"),
        }
    }
}

impl fmt::Display for DeviceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PE {}: ", self.pe)?;
        self.what(f)?;
        if !self.file.is_empty() {
            write!(f, ", at {}:{}:{}", self.file, self.line, self.column)?;
        }
        write!(f, ", block {:?}, thread {:?}", self.block, self.thread)?;
        match self.kernel.as_str() {
            "" => Ok(()),
            several if several.contains(", ") => write!(f, ", in one of the kernels {several}"),
            one => write!(f, ", in kernel {one}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, a: u64, b: u64) -> FaultRecord {
        let mut record = FaultRecord {
            ready: 1,
            kind,
            a,
            b,
            line: 7,
            column: 3,
            ..FaultRecord::EMPTY
        };
        record.block = [1, 0, 0];
        record.thread = [31, 2, 0];
        record.file[..10].copy_from_slice(b"src/lib.rs");
        record.file_len = 10;
        record
    }

    #[test]
    fn says_what_where_and_in_which_kernel() {
        let fault = DeviceFault::new(2, &record(1, 12, 10), "ring".into(), None);
        assert_eq!(
            fault.to_string(),
            "PE 2: index 12 is outside an object of 10 elements, at src/lib.rs:7:3, block [1, 0, 0], thread [31, 2, 0], \
             in kernel ring"
        );
    }

    #[test]
    fn several_kernels_are_all_named_and_an_unknown_place_is_left_out() {
        let mut unplaced = record(9, 0, 0);
        unplaced.file_len = 0;
        let text = DeviceFault::new(0, &unplaced, "a, b".into(), None).to_string();
        assert!(text.contains("located-panics"), "{text}");
        assert!(
            text.ends_with("block [1, 0, 0], thread [31, 2, 0], in one of the kernels a, b"),
            "{text}"
        );
    }

    #[test]
    fn every_kind_names_its_values() {
        for number in 1..=11 {
            let kind = FaultKind::from_number(number).unwrap();
            let text = DeviceFault::new(0, &record(number, 777, 888), String::new(), Some("boom".into())).to_string();
            let needs_values = !matches!(kind, FaultKind::PeerFailed | FaultKind::Panic);
            assert!(
                !needs_values || text.contains("777") || text.contains("0x309"),
                "{kind:?}: {text}"
            );
        }
    }

    #[test]
    fn an_adapters_error_says_what_to_do() {
        let text = DeviceFault::new(0, &record(12, 3, 0x9615), String::new(), None).to_string();
        assert!(
            text.contains("to PE 3: the target did not acknowledge (syndrome 0x15): check that the target runs")
                && text.contains("vendor syndrome 0x96"),
            "{text}"
        );
    }

    #[test]
    fn a_number_from_a_newer_device_side_is_no_panic_of_ours() {
        let fault = DeviceFault::new(0, &record(999, 0, 0), String::new(), None);
        assert!(fault.to_string().contains("fault number 999"));
        let long = FaultRecord {
            file_len: 4000,
            ..record(1, 0, 0)
        };
        assert_eq!(DeviceFault::new(0, &long, String::new(), None).file.len(), 128);
    }
}
