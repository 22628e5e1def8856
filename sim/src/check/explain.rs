//! Which order two racing accesses lack, and the smallest call that would add it.

use super::access::{Access, What};
use super::finding::{Bug, BugKind};
use super::{Checker, Inner, Observed};

/// What tells of a write, and how the reader saw it.
struct Told<'a> {
    by: &'a Access,
    seen: &'a Observed,
    /// It was issued behind the write; else its thread had not met the one that wrote.
    behind: bool,
}

pub(super) fn explain(checker: &Checker, inner: &Inner, old: &Access, made: &Access, address: u64) -> Bug {
    // A write that landed late and a read that came too soon are one bug, whichever came first.
    let (kind, what, fix) = if old.what == What::Fresh {
        (
            BugKind::Uninitialised,
            "memory is read that nobody has written since it was allocated".to_owned(),
            match (checker.place)(address) {
                Some(_) => "write it first, on every PE that reads it, or allocate it with calloc",
                None => "write it first: shared memory holds anything at the beginning of a kernel",
            }
            .to_owned(),
        )
    } else if let Some(of_host) = with_host(inner, old, made) {
        of_host
    } else if made.what == What::Source && made.issued_before(old) {
        source_reused(made, old)
    } else if old.what.writes() && made.what.writes() {
        writes(inner, old, made)
    } else if old.what.writes() {
        read_too_soon(inner, old, made, false)
    } else if old.what != What::Source
        && (made.issued_before(old)
            || counted(inner, made, old)
            || told(inner, made, old).is_some_and(|told| told.behind)
            || (!made.over.get() && (made.channel.is_some() || same_block(old, made))))
    {
        // The reader had been told of the write, which landed after the read all the same; or there was nothing else to read.
        read_too_soon(inner, made, old, true)
    } else {
        overwritten(inner, old, made)
    };
    let mut calls = vec![inner.party(made.lane, made.what.name(), made.at)];
    if old.what != What::Fresh {
        calls.insert(0, inner.party(old.lane, old.what.name(), old.at));
    }
    let memory = match (checker.place)(address) {
        Some((pe, offset)) => format!("the symmetric heap of PE {pe} at offset {offset:#x}"),
        None => "memory of one PE that is not symmetric".to_owned(),
    };
    Bug {
        kind,
        what,
        calls,
        memory,
        fix,
        seed: checker.seed,
    }
}

/// One of the two is a host's, which nothing orders with what the other one's kernel does.
fn with_host(inner: &Inner, old: &Access, made: &Access) -> Option<(BugKind, String, String)> {
    let is_host = |access: &Access| inner.blocks[access.lane.block as usize].launch.is_none();
    let (host, other) = match (is_host(old), is_host(made)) {
        (true, _) => (old, made),
        (_, true) => (made, old),
        _ => return None,
    };
    let (at, from, name) = (pe(inner, host), pe(inner, other), other.what.name());
    let fix = if at == from && other.channel.is_none() {
        format!(
            "let the host wait for the kernel's stream (synchronize) between {} and {}",
            old.at, made.at
        )
    } else {
        format!(
            "let all PEs meet between {} and {}: pe.barrier_all(), or a barrier on the stream or in the kernel",
            old.at, made.at
        )
    };
    let (kind, what) = match (host.what.writes(), other.what.writes()) {
        (false, _) => (
            BugKind::Unordered,
            format!("the host of PE {at} reads, and PE {from} writes there by {name}: nothing says which comes first"),
        ),
        (true, true) => (
            BugKind::WriteConflict,
            format!("the host of PE {at} writes, and PE {from} too, by {name}: nothing says which comes first"),
        ),
        (true, false) => (
            BugKind::Unordered,
            format!("the host of PE {at} writes, and PE {from} reads there by {name}: nothing says which comes first"),
        ),
    };
    Some((kind, what, fix))
}

fn same_block(a: &Access, b: &Access) -> bool {
    a.lane.block == b.lane.block
}

fn pe(inner: &Inner, access: &Access) -> u32 {
    inner.blocks[access.lane.block as usize].pe
}

/// Whether the write is one of several that a counter tells of, on which the reader's block has waited.
fn counted(inner: &Inner, write: &Access, read: &Access) -> bool {
    let counters = &inner.blocks[read.lane.block as usize].counters;
    write.counter.is_some_and(|counter| counters.contains(&counter))
}

/// The newest signal, p or atomic that the reader's block has seen and which was issued behind the write; else one that
/// another thread of the writer's PE issued, in no order with it.
fn told<'a>(inner: &'a Inner, write: &Access, read: &Access) -> Option<Told<'a>> {
    let observed = &inner.blocks[read.lane.block as usize].observed;
    let all = || {
        observed.iter().rev().flat_map(|seen| {
            let earlier = seen.by.adders.iter().flat_map(|adders| adders.iter());
            [&seen.by].into_iter().chain(earlier).map(move |by| (&**by, seen))
        })
    };
    let behind = |by: &Access| write.issued_before(by) || (by.lane == write.lane && by.epoch > write.epoch);
    let beside = |by: &Access| pe(inner, by) == pe(inner, write) && by.lane != write.lane && !by.issued_before(write);
    let find = |told: &dyn Fn(&Access) -> bool| {
        all().find(|(by, _)| by.lane != read.lane && !std::ptr::eq(*by, write) && told(by))
    };
    if let Some((by, seen)) = find(&behind) {
        return Some(Told { by, seen, behind: true });
    }
    let (by, seen) = find(&beside)?;
    Some(Told {
        by,
        seen,
        behind: false,
    })
}

/// Whether the reader has heard from the writer before, and may have come for what it wrote then.
fn heard_before(inner: &Inner, write: &Access, read: &Access) -> bool {
    let observed = &inner.blocks[read.lane.block as usize].observed;
    write.over.get() && observed.iter().any(|seen| seen.by.issued_before(write))
}

/// Whether what tells of the write also says that it is there.
fn covers(by: &Access, write: &Access) -> bool {
    by.release.as_ref().is_some_and(|release| match write.channel {
        Some(channel) => release.done.contains(channel, write.lane, write.epoch),
        None => release.seen.contains(write.lane, write.epoch),
    })
}

/// A read that comes before the write is known to be there. `late`: it has read what was there before.
fn read_too_soon(inner: &Inner, write: &Access, read: &Access, late: bool) -> (BugKind, String, String) {
    let outcome = if late { "has read old data" } else { "may read old data" };
    if counted(inner, write, read) {
        return (
            BugKind::CounterAliasing,
            format!("the reader {outcome}: a counter tells how many puts have arrived, never which"),
            "give each chunk a signal of its own, or wait until the counter has all of them".to_owned(),
        );
    }
    if write.channel.is_some_and(super::Channel::is_fetch) {
        return (
            BugKind::GetNotComplete,
            format!("the reader {outcome}: a get_nbi is complete after quiet of its context"),
            format!("call quiet between {} and the first use of its data", write.at),
        );
    }
    let told = told(inner, write, read);
    if write.channel.is_none() && same_block(write, read) {
        return (
            BugKind::MissingSync,
            format!("the reader {outcome}: these threads of one block have not met between the store and the read"),
            "call the tile's sync() between the store and the read".to_owned(),
        );
    }
    if let Some(told) = &told {
        if told.behind && !told.seen.acquired {
            return relaxed_wait(told, outcome);
        }
        if told.behind && covers(told.by, write) && told.seen.reader != read.lane {
            return (
                BugKind::MissingSync,
                format!(
                    "the reader {outcome}: thread {} of its block has waited for it at {}, and the two have not met since",
                    told.seen.reader.thread, told.seen.at
                ),
                format!(
                    "let the whole tile wait at {}, or call its sync() after the wait",
                    told.seen.at
                ),
            );
        }
    }
    if heard_before(inner, write, read) && !told.as_ref().is_some_and(|told| told.behind) {
        return overtaken(inner, write, read);
    }
    let Some(channel) = write.channel else {
        return match told {
            Some(told) if told.behind && (told.by.release.is_none() || told.by.what == What::StrongStore) => {
                relaxed_signal(&told, outcome)
            }
            Some(told) if !told.behind => beside(write, &told, outcome),
            _ => unordered(inner, write, read, outcome),
        };
    };
    let elsewhere = read.clock.done.other_context(channel.ctx)
        || told.as_ref().is_some_and(|t| {
            t.by.clock.done.other_context(channel.ctx)
                || t.by
                    .release
                    .as_ref()
                    .is_some_and(|release| release.done.other_context(channel.ctx))
        });
    let name = write.what.name();
    if let Some(told) = &told {
        if elsewhere || told.by.channel.is_some_and(|c| c.ctx != channel.ctx) {
            return (
                BugKind::WrongContext,
                format!(
                    "the reader {outcome}: the {name} is of context {}, and what came after it ordered another context",
                    channel.ctx
                ),
                "fence, quiet and signal in the context of the put: ctx.fence(tile), ctx.quiet(tile), put_signal(.., ctx.to(pe))"
                    .to_owned(),
            );
        }
        if !told.behind {
            return beside(write, told, outcome);
        }
        if matches!(told.by.what, What::Sync | What::StrongStore) {
            return missing_quiet(inner, write, read, outcome);
        }
        return missing_fence(write, told, outcome);
    }
    if write.issued_before(read) {
        if elsewhere {
            return (
                BugKind::WrongContext,
                format!(
                    "the reader {outcome}: the {name} is of context {}, which was not quieted",
                    channel.ctx
                ),
                "call quiet of the put's own context: ctx.quiet(tile)".to_owned(),
            );
        }
        return missing_quiet(inner, write, read, outcome);
    }
    unordered(inner, write, read, outcome)
}

/// The signal was sent behind the write, and may arrive ahead of it.
fn missing_fence(write: &Access, told: &Told<'_>, outcome: &str) -> (BugKind, String, String) {
    let (name, by) = (write.what.name(), told.by);
    let fence = format!("call fence(tile) between {} and {}", write.at, by.at);
    if by.tail {
        return (
            BugKind::MissingFence,
            format!(
                "the reader {outcome}: the put_signal at {}, seen at {}, tells of its own data and not of the {name} before it",
                by.at, told.seen.at
            ),
            fence,
        );
    }
    (
        BugKind::MissingFence,
        format!(
            "the reader {outcome}: the {} at {}, seen at {}, may overtake the {name}",
            by.what.name(),
            by.at,
            told.seen.at
        ),
        match by.what {
            What::SignalSet => format!("use put_signal instead of {name} and signal_op, or {fence}"),
            What::SignalAdd => format!("use put_signal instead of {name} and the counter's add, or {fence}"),
            _ => fence,
        },
    )
}

/// A thread has told of what another of its PE wrote, without having met it.
fn beside(write: &Access, told: &Told<'_>, outcome: &str) -> (BugKind, String, String) {
    let (name, by) = (write.what.name(), told.by);
    let blocks = by.lane.block != write.lane.block;
    let what = format!(
        "the reader {outcome}: the {} at {}, seen at {}, is of another {}, which had not met that of the {name}",
        by.what.name(),
        by.at,
        told.seen.at,
        if blocks { "block" } else { "thread" },
    );
    if blocks {
        return (
            BugKind::MissingSync,
            what,
            format!(
                "let the blocks meet before {}, or let all of them call it: all.barrier(all.grid(), ..), fence(all.grid())",
                by.at
            ),
        );
    }
    match write.channel {
        Some(_) => (
            BugKind::MissingFence,
            what,
            format!(
                "let the whole tile call fence, as fence(Block), between {} and {}: one thread's covers only what it knows of",
                write.at, by.at
            ),
        ),
        None => (
            BugKind::MissingSync,
            what,
            format!("call the tile's sync() between {} and {}", write.at, by.at),
        ),
    }
}

fn relaxed_signal(told: &Told<'_>, outcome: &str) -> (BugKind, String, String) {
    let (what, at) = (told.by.what, told.by.at);
    (
        BugKind::RelaxedSignal,
        format!("the reader {outcome}: the {} at {at} released nothing", what.name()),
        match what {
            What::SignalSet | What::SignalAdd => format!("use signal_op instead of relaxed::signal_op at {at}"),
            What::Atomic => format!("use the form of it that releases (_release, _acqrel) at {at}"),
            What::StrongStore => {
                format!("use a store that releases, as ptr.word().store_release(..), or signal_op, at {at}")
            }
            _ => format!("call fence(Thread) between the store and {at}"),
        },
    )
}

/// The reader has come for what was there before.
fn overtaken(inner: &Inner, write: &Access, read: &Access) -> (BugKind, String, String) {
    let (name, to) = (write.what.name(), pe(inner, read));
    (
        BugKind::BufferReused,
        format!("the {name} overwrites what PE {to} has not read yet: it came one step too early"),
        format!(
            "let the reader tell that it is done (a signal back, or a barrier) and wait for that before {}; if it is the new              data that it wants, let it wait for that before {}",
            write.at, read.at
        ),
    )
}

fn relaxed_wait(told: &Told<'_>, outcome: &str) -> (BugKind, String, String) {
    let at = told.seen.at;
    (
        BugKind::RelaxedWait,
        format!(
            "the reader {outcome}: it saw the {} of {} at {at} without acquiring",
            told.by.what.name(),
            told.by.at,
        ),
        if told.seen.atomic {
            format!("use the form of the atomic that acquires (_acqrel, _acquire) at {at}")
        } else {
            format!("use wait_until (or test), which acquire, at {at}")
        },
    )
}

fn missing_quiet(inner: &Inner, write: &Access, read: &Access, outcome: &str) -> (BugKind, String, String) {
    let fix = if same_block(write, read) {
        format!("call quiet(tile) between {} and {}", write.at, read.at)
    } else {
        format!(
            "call quiet(tile) after {} and before the sync, or use barrier instead of sync",
            write.at
        )
    };
    (
        BugKind::MissingQuiet,
        format!(
            "the reader {outcome}: the {} of PE {} need not have arrived when its issuer goes on",
            write.what.name(),
            pe(inner, write)
        ),
        fix,
    )
}

fn unordered(inner: &Inner, write: &Access, read: &Access, outcome: &str) -> (BugKind, String, String) {
    let (from, to) = (pe(inner, write), pe(inner, read));
    if from == to && write.channel.is_none() {
        return (
            BugKind::Unordered,
            format!("the reader {outcome}: nothing orders these two blocks of one PE"),
            "let the blocks meet (Grid, or a Word with release and acquire) between the two".to_owned(),
        );
    }
    if write.what.is_strong() && read.what == What::Load {
        return (
            BugKind::Unordered,
            format!("the reader {outcome}: an ordinary load is not for a word that PE {from} may be writing"),
            format!("look at it with wait_until, test or fetch at {}", read.at),
        );
    }
    if let Some((lane, at)) = inner.blocks[read.lane.block as usize].looked
        && lane != read.lane
        && write.channel.is_some()
    {
        return (
            BugKind::MissingSync,
            format!(
                "the reader {outcome}: thread {} of its block waits for PE {from} at {at}, and this thread does not wait for it",
                lane.thread
            ),
            format!("let the whole tile wait at {at}, or call its sync() after the wait"),
        );
    }
    (
        BugKind::Unordered,
        format!("the reader {outcome}: PE {to} does nothing to learn that the data of PE {from} has arrived"),
        "send it with put_signal and wait for the signal with wait_until, or let all PEs meet in a barrier".to_owned(),
    )
}

/// A write to bytes that somebody may still be reading.
fn overwritten(inner: &Inner, read: &Access, write: &Access) -> (BugKind, String, String) {
    if read.what == What::Source {
        return source_reused(read, write);
    }
    if same_block(read, write) && write.channel.is_none() {
        return (
            BugKind::MissingSync,
            "a thread overwrites what another thread of its block may still read".to_owned(),
            "call the tile's sync() between the read and the store".to_owned(),
        );
    }
    (
        BugKind::BufferReused,
        format!(
            "the {} overwrites what PE {} may still read: it came one step too early",
            write.what.name(),
            pe(inner, read)
        ),
        format!(
            "let the reader tell that it is done (a signal back, or a barrier) and wait for that before {}",
            write.at
        ),
    )
}

fn source_reused(put: &Access, write: &Access) -> (BugKind, String, String) {
    (
        BugKind::SourceReused,
        "the source of an nbi put changes while the put may still read it".to_owned(),
        format!("call flush or quiet of its context between {} and {}", put.at, write.at),
    )
}

/// Two writes of the same bytes.
fn writes(inner: &Inner, old: &Access, made: &Access) -> (BugKind, String, String) {
    use What::{Atomic, Fetched, SignalAdd, SignalSet, StrongStore};
    let signal = |what| matches!(what, SignalSet | SignalAdd);
    match (old.what, made.what) {
        (SignalSet, SignalSet) if old.lane != made.lane => (
            BugKind::SignalWriters,
            "two writers set one signal, in no order: one of the values may be lost".to_owned(),
            "use a Counter, which anyone may add to, or one signal per writer".to_owned(),
        ),
        (SignalSet, SignalSet) => (
            BugKind::SignalWriters,
            "a signal is set again before its last value is known to have arrived: the older may arrive last"
                .to_owned(),
            format!("call fence between {} and {}, or wait for an answer", old.at, made.at),
        ),
        (SignalSet | SignalAdd, StrongStore) | (StrongStore, SignalSet | SignalAdd) => (
            BugKind::ResetRace,
            "a signal is reset while its sender may set it: the new value may be lost".to_owned(),
            "count up (an epoch as value, waits with ge) instead of resetting, or let the sender wait for an answer"
                .to_owned(),
        ),
        (Atomic, Atomic) => (
            BugKind::MixedDomains,
            "an atomic of a GPU and one that a NIC does are not atomic with each other: an update may be lost".to_owned(),
            "use a Counter, which has a word for each, or let every PE reach the word by one way".to_owned(),
        ),
        (Fetched, _) => read_too_soon_of_fetch(),
        (What::Packet, What::Packet) => (
            BugKind::BufferReused,
            "a packet is sent to a slot whose last one may not have arrived: one of them is lost, or the wait for it never ends"
                .to_owned(),
            "send into the two halves of a buffer by turns (packet::half), and only after a packet of the epoch before has \
             come back from that PE"
                .to_owned(),
        ),
        (a, b) if (a == Atomic || signal(a)) != (b == Atomic || signal(b)) => (
            BugKind::MixedAccess,
            "a word of atomics is also written as plain memory, in no order".to_owned(),
            "use atomics (set, swap) for every write of the word, or a barrier between the two uses".to_owned(),
        ),
        _ if same_block(old, made) && old.channel.is_none() && made.channel.is_none() => (
            BugKind::MissingSync,
            "two threads of a block write the same bytes, in no order".to_owned(),
            "let one of them write, or call the tile's sync() between".to_owned(),
        ),
        _ if old.lane == made.lane && old.channel.is_some() => (
            BugKind::WriteConflict,
            "two operations of one thread write the same bytes, and either may come last".to_owned(),
            format!("call fence between {} and {}", old.at, made.at),
        ),
        (What::P, What::P) if old.lane != made.lane => (
            BugKind::WriteConflict,
            format!(
                "PE {} and PE {} write the same word with p, in no order: one of the values is lost",
                pe(inner, old),
                pe(inner, made)
            ),
            "use an atomic where the new value follows from the old (fetch_add, compare_swap), or give each its own word"
                .to_owned(),
        ),
        _ => (
            BugKind::WriteConflict,
            format!(
                "PE {} and PE {} write the same bytes, in no order",
                pe(inner, old),
                pe(inner, made)
            ),
            "order them by a signal and a wait, or give each its own place".to_owned(),
        ),
    }
}

fn read_too_soon_of_fetch() -> (BugKind, String, String) {
    (
        BugKind::GetNotComplete,
        "memory changes into which a get_nbi may still write".to_owned(),
        "call quiet between get_nbi and the first use of its destination".to_owned(),
    )
}
