//! Operations on a stream that are refused, and what they leave as it was.

mod common;

use common::run;
use shmem::prelude::*;
use shmem_host::{Error, LaunchError, Pe, Stale, StreamError};

#[test]
fn lengths_and_pes_are_checked_on_the_host() -> Result<(), Error> {
    run(2, |pe| {
        let (data, mine, ready) = (pe.alloc::<u16>(9)?, pe.buffer::<u16>(9)?, pe.signals(1)?);
        let (stream, me) = (pe.stream(), pe.id());
        let length = |result, name| {
            let Err(Error::Stream(StreamError::Length { pe, call, dst, src })) = result else {
                panic!("{result:?}")
            };
            assert_eq!((pe, call, dst, src), (me, name, 9, 8));
        };
        length(stream.put(&data, mine.part(..8)?, 0), "put");
        length(stream.get(&mine, data.part(1..)?, 0), "get");
        let set = ready.at(0)?.set(1);
        length(stream.put_signal(&data, data.part(..=7)?, set, 0), "put_signal");
        let no_pe = |result, name| {
            let Err(Error::Stream(StreamError::Pe { pe, call, to, pes })) = result else {
                panic!("{result:?}")
            };
            assert_eq!((pe, call, to, pes), (me, name, 2, 2));
        };
        no_pe(stream.put(&data, &mine, 2), "put");
        no_pe(stream.get(&data, &data, 2), "get");
        no_pe(stream.put_signal(&data, &mine, set, 2), "put_signal");
        no_pe(stream.signal_op(set, 2), "signal_op");
        assert!(matches!(ready.at(1), Err(Error::Range(e)) if (e.start, e.end, e.len) == (1, 2, 1)));
        for (start, end) in [(3, 10), (10, 10), (5, 4), (0, usize::MAX)] {
            assert!(matches!(data.part(start..end), Err(Error::Range(_))), "{start}..{end}");
            assert!(matches!(mine.part(start..end), Err(Error::Range(_))), "{start}..{end}");
        }
        assert!(matches!(data.part(..=usize::MAX), Err(Error::Range(_))));
        // Nothing was enqueued.
        pe.barrier_all()?;
        assert_eq!((ready.read(0)?.value(), data.to_vec()?), (0, vec![0; 9]));
        Ok(())
    })
}

fn is_stale(result: &Result<(), Error>, kernel: &str) {
    let Err(Error::Launch(LaunchError::StaleHandle { kernel: name, why, .. })) = result else {
        panic!("{result:?}")
    };
    assert_eq!((name.as_str(), *why), (kernel, Stale::Dropped));
}

#[test]
fn handles_of_dropped_buffers_are_refused() -> Result<(), Error> {
    run(1, |pe: Pe| {
        let (old, own, signal, counter) = (
            pe.alloc::<u32>(4)?.handle(),
            pe.buffer::<u32>(4)?.handle(),
            pe.signals(1)?.at(0)?,
            pe.counters(1)?.at(0)?,
        );
        let live = pe.buffer::<u32>(4)?;
        let stream = pe.stream();
        is_stale(&stream.put(old, &live, 0), "put_local");
        is_stale(&stream.put(old, old, 0), "put");
        is_stale(&stream.get(own, old, 0), "get_local");
        is_stale(&stream.signal_op(signal.set(1), 0), "signal_op");
        is_stale(&stream.signal_op(counter.add(1), 0), "signal_op");
        is_stale(&stream.signal_wait(signal, eq(1)), "signal_wait");
        is_stale(&stream.signal_wait(counter, ge(1)), "counter_wait");
        Ok(())
    })
}

#[test]
fn an_empty_transfer_does_nothing() -> Result<(), Error> {
    run(1, |pe| {
        let (data, ready) = (pe.alloc::<u64>(3)?, pe.signals(1)?);
        pe.stream().put(data.part(3..)?, data.part(..0)?, 0)?;
        pe.stream()
            .put_signal(data.part(3..)?, data.part(..0)?, ready.at(0)?.set(5), 0)?;
        assert_eq!(ready.read(0)?.value(), 5);
        Ok(())
    })
}

#[test]
fn the_simulator_has_no_streams_of_callers() -> Result<(), Error> {
    run(1, |pe| {
        // SAFETY: null is a stream to the driver.
        let refused = unsafe { pe.stream_from_raw(std::ptr::null_mut()) };
        assert!(
            matches!(
                refused,
                Err(Error::Stream(StreamError::NotOnThisBackend { backend: "sim", .. }))
            ),
            "{refused:?}"
        );
        Ok(())
    })
}

#[test]
fn memory_from_elsewhere_is_an_argument_until_it_is_dropped() -> Result<(), Error> {
    run(1, |pe| {
        let (mut theirs, data) = (vec![7u64; 20], pe.alloc::<u64>(20)?);
        // SAFETY: `theirs` lives, and nobody else uses it.
        let ours = unsafe { pe.buffer_from_raw::<u64>(theirs.as_mut_ptr() as u64, 20) }?;
        pe.stream().put(&data, &ours, 0)?;
        assert_eq!(data.to_vec()?, [7; 20]);
        let old = ours.handle();
        drop(ours);
        is_stale(&pe.stream().put(&data, old, 0), "put_local");
        pe.barrier_all()?;
        theirs[0] = 1;
        Ok(())
    })
}
