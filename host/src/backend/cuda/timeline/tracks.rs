//! From records to the tracks of a trace file.

use shmem::timeline::{Kind, NO_PEER, Record};
use shmem_sim::{Arg, Trace, TrackId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A clock's rate is taken from records that lie this far apart.
const FAR_NS: u64 = 100_000;
/// A step of `%globaltimer` at most.
const STEP_NS: f64 = 1100.0;

/// What a PE has left.
pub(super) struct Pe {
    pub(super) records: Vec<Record>,
    pub(super) times: Times,
    pub(super) names: HashMap<u64, String>,
    /// Calls that there was no room for.
    pub(super) lost: u64,
    pub(super) device: String,
}

/// Turns clocks into nanoseconds.
pub(super) struct Times {
    /// Cycles in a nanosecond.
    rate: f64,
    /// By multiprocessor: a reading of its clock, and the nanoseconds then.
    anchors: HashMap<u32, (u64, f64)>,
    /// Added to this device's times, for the host's.
    offset_ns: i64,
}

impl Times {
    /// `rate`: cycles in a nanosecond, where the records don't show it.
    pub(super) fn new(records: &[Record], rate: f64, offset_ns: i64) -> Self {
        let mut ends: HashMap<u32, (&Record, &Record)> = HashMap::new();
        for record in records {
            let (first, last) = ends.entry(record.sm).or_insert((record, record));
            if record.begin_clock < first.begin_clock {
                *first = record;
            }
            if record.begin_clock > last.begin_clock {
                *last = record;
            }
        }
        let far = |(first, last): &(&Record, &Record)| last.begin_ns.saturating_sub(first.begin_ns);
        let widest = ends
            .values()
            .max_by_key(|both| far(both))
            .filter(|both| far(both) >= FAR_NS);
        let rate = widest.map_or(rate, |both| {
            (both.1.begin_clock - both.0.begin_clock) as f64 / far(both) as f64
        });
        let mut anchors: HashMap<u32, (u64, f64)> = ends
            .iter()
            .map(|(sm, (first, _))| (*sm, (first.begin_clock, first.begin_ns as f64)))
            .collect();
        // The coarse clock is behind by up to a step: the record that it is least behind at says the most.
        for record in records {
            if let Some((clock, ns)) = anchors.get_mut(&record.sm) {
                *ns = ns.max(record.begin_ns as f64 - (record.begin_clock - *clock) as f64 / rate);
            }
        }
        Self {
            rate,
            anchors,
            offset_ns,
        }
    }

    /// When a call began and returned, in the host's time.
    fn of(&self, record: &Record) -> (i64, i64) {
        let coarse = record.begin_ns as f64;
        let begin = self.anchors.get(&record.sm).map_or(coarse, |(clock, ns)| {
            ns + (record.begin_clock.saturating_sub(*clock)) as f64 / self.rate
        });
        // Rates change in the long run.
        let begin = begin.clamp(coarse, coarse + STEP_NS);
        let lasts = record.end_clock.saturating_sub(record.begin_clock) as f64 / self.rate;
        (
            begin.round() as i64 + self.offset_ns,
            (begin + lasts).round() as i64 + self.offset_ns,
        )
    }
}

impl Pe {
    pub(super) fn first_ns(&self) -> Option<i64> {
        self.records.iter().map(|record| self.times.of(record).0).min()
    }

    fn name(&self, record: &Record) -> &str {
        self.names.get(&record.file).map_or("?", String::as_str)
    }
}

/// Adds a PE's tracks; times are counted from `start`.
pub(super) fn add(trace: &mut Trace, pe: u32, of: &Pe, start: i64) {
    let label = match of.lost {
        0 => of.device.clone(),
        lost => format!("{}; {lost} later calls are not shown", of.device),
    };
    trace.process(pe, &format!("PE {pe}"), &label);
    let mut thread = add_kernels(trace, pe, of, start);
    let mut tracks: BTreeMap<(u32, u32), Vec<&Record>> = BTreeMap::new();
    for record in &of.records {
        tracks.entry((record.block, record.thread)).or_default().push(record);
    }
    for ((block, rank), mut records) in tracks {
        thread += 1;
        trace.thread(
            (pe, thread),
            &match rank {
                0 => format!("block {block}"),
                _ => format!("block {block}, thread {rank}"),
            },
        );
        records.sort_by_key(|r| (r.begin_ns, r.begin_clock, Reverse(r.end_clock)));
        add_calls(trace, (pe, thread), of, &records, start);
    }
}

/// Calls of one thread, in the order of their beginnings, the outer ones first.
fn add_calls(trace: &mut Trace, at: TrackId, of: &Pe, records: &[&Record], start: i64) {
    // Those under way: when they end by the clock, and in the file.
    let mut open: Vec<(u32, u64, u64)> = Vec::new();
    let mut free = 0;
    for record in records {
        // Whatever has ended by the clock ends ahead of this one in the file as well.
        while let Some((sm, end_clock, end)) = open.last()
            && (*sm != record.sm || *end_clock < record.end_clock)
        {
            free = free.max(*end);
            open.pop();
        }
        let (begin, end) = of.times.of(record);
        let begin = ((begin - start).max(0) as u64).max(free);
        let end = ((end - start).max(0) as u64).max(begin);
        let (begin, end) = match open.last() {
            Some((.., outer)) => (begin.min(*outer), end.min(*outer)),
            None => (begin, end),
        };
        open.push((record.sm, record.end_clock, end));
        let kind = Kind::from_number(record.kind);
        let mut args: Vec<(&str, Arg)> = Vec::new();
        let (name, category) = match kind {
            Some(Kind::Block) => (of.name(record).to_owned(), "kernel"),
            Some(kind) => (kind.name().to_owned(), category(kind)),
            None => (format!("call {}", record.kind), "?"),
        };
        if kind != Some(Kind::Block) {
            args.push(("at", format!("{}:{}", of.name(record), record.line).into()));
        }
        if record.peer != NO_PEER {
            args.extend([("PE", record.peer.into()), ("bytes", record.bytes.into())]);
        }
        args.push(("multiprocessor", record.sm.into()));
        trace.slice(at, &name, category, begin, end, &args);
    }
}

fn category(kind: Kind) -> &'static str {
    match kind {
        Kind::Block => "kernel",
        Kind::Wait | Kind::Barrier => "wait",
        Kind::Fence | Kind::Quiet | Kind::Flush | Kind::SyncBlock | Kind::SyncGrid => "order",
        _ => "operation",
    }
}

/// Blocks of one launch.
struct Kernel<'a> {
    name: &'a str,
    blocks: BTreeSet<u32>,
    all: u32,
    begin: i64,
    end: i64,
}

/// Puts kernels together from their blocks: a block that comes again belongs to the next launch. Returns how many tracks
/// they take: kernels of several streams lie beside each other.
fn add_kernels(trace: &mut Trace, pe: u32, of: &Pe, start: i64) -> u32 {
    let mut blocks: Vec<(i64, i64, &Record)> = of
        .records
        .iter()
        .filter(|record| record.kind == Kind::Block as u32)
        .map(|record| (of.times.of(record).0, of.times.of(record).1, record))
        .collect();
    blocks.sort_by_key(|block| block.0);
    let mut kernels: Vec<Kernel<'_>> = Vec::new();
    for (begin, end, record) in blocks {
        let name = of.name(record);
        let last = kernels.iter_mut().rev().find(|kernel| kernel.name == name);
        match last {
            Some(kernel) if kernel.all == record.blocks && !kernel.blocks.contains(&record.block) => {
                kernel.blocks.insert(record.block);
                kernel.end = kernel.end.max(end);
            }
            _ => kernels.push(Kernel {
                name,
                blocks: BTreeSet::from([record.block]),
                all: record.blocks,
                begin,
                end,
            }),
        }
    }
    let mut tracks: Vec<i64> = Vec::new();
    for kernel in &kernels {
        let track = tracks.iter().position(|end| *end <= kernel.begin).unwrap_or_else(|| {
            tracks.push(0);
            trace.thread((pe, tracks.len() as u32), "kernels");
            tracks.len() - 1
        });
        tracks[track] = kernel.end;
        let at = |ns: i64| (ns - start).max(0) as u64;
        let args = [("blocks", kernel.all.into())];
        let (begin, end) = (at(kernel.begin), at(kernel.end));
        trace.slice((pe, track as u32 + 1), kernel.name, "kernel", begin, end, &args);
    }
    tracks.len() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use shmem::bytemuck::Zeroable;

    const RATE: f64 = 1.98;

    /// A call from one true time to another, as its thread would record it.
    fn record(kind: Kind, thread: u32, (begin, end): (u64, u64)) -> Record {
        Record {
            begin_ns: begin / 1024 * 1024,
            begin_clock: 77_000_000 + (begin as f64 * RATE) as u64,
            end_clock: 77_000_000 + (end as f64 * RATE) as u64,
            file: 1,
            kind: kind as u32,
            peer: NO_PEER,
            thread,
            blocks: 1,
            ..Record::zeroed()
        }
    }

    fn pe(records: Vec<Record>) -> Pe {
        Pe {
            times: Times::new(&records, 1.0, 0),
            names: HashMap::from([(1, "ring".to_owned())]),
            records,
            lost: 0,
            device: "a device".to_owned(),
        }
    }

    #[test]
    fn coarse_times_become_fine_ones() {
        let records: Vec<_> = (0..500u64)
            .map(|i| record(Kind::Put, 0, (1_000_000 + i * 777, 1_000_000 + i * 777 + 300)))
            .collect();
        let times = Times::new(&records, 1.0, 0);
        assert!((times.rate - RATE).abs() < 0.01, "{}", times.rate);
        for (i, record) in (0..).zip(&records) {
            let (begin, end) = times.of(record);
            let truth = 1_000_000 + i * 777;
            // Half of a step of the coarse clock: the rate is known from two of its readings.
            assert!((begin - truth).abs() < 512, "{begin} is not {truth}");
            assert!((end - begin - 300).abs() < 5);
        }
    }

    #[test]
    fn calls_nest_and_kernels_are_put_together() {
        let mut records = Vec::new();
        for launch in 0..3u64 {
            let t = 5_000_000 + launch * 60_000;
            records.push(record(Kind::SyncBlock, 0, (t + 500, t + 600)));
            records.push(record(Kind::Put, 0, (t + 100, t + 620)));
            records.push(record(Kind::Wait, 32, (t + 50, t + 4000)));
            records.push(record(Kind::Wait, 0, (t + 700, t + 4500)));
            records.push(record(Kind::Block, 0, (t, t + 5000)));
        }
        let mut trace = Trace::default();
        let of = pe(records);
        add(&mut trace, 0, &of, of.first_ns().unwrap());
        let text = trace.to_string();
        assert_eq!(text.matches(r#""cat":"kernel""#).count(), 3 + 3);
        assert_eq!(text.matches(r#""name":"block 0, thread 32""#).count(), 1);
        assert_eq!(text.matches(r#""at":"ring:0""#).count(), 12);
        // Outer slices come first, and end last.
        let place = |name: &str| text.find(&format!(r#""tid":2,"name":"{name}""#)).unwrap();
        assert!(place("ring") < place("put") && place("put") < place("sync of the block"));
    }

    #[test]
    fn no_records_are_no_tracks() {
        let mut trace = Trace::default();
        add(&mut trace, 0, &pe(Vec::new()), 0);
        assert!(!trace.to_string().contains("thread_name"));
    }
}
