//! How busy adapters are.

/// What a fabric's adapters have done so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Entries that were taken from queues, faulty ones too.
    pub entries: u64,
    /// Doorbells that were seen: writes of registers to a queue pair that works.
    pub doorbells: u64,
}
