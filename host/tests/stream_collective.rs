//! Collectives on a stream that are refused, those with nothing to do, and members that make different calls.

mod common;

use common::{run, sim};
use shmem::collective::{Max, Part, Sum};
use shmem::fault::FaultKind;
use shmem_host::{Error, LaunchError, Stale, StreamError};

/// The typed error, or what came instead.
#[track_caller]
fn stream_error(result: Result<(), Error>) -> StreamError {
    match result {
        Err(Error::Stream(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn lengths_are_checked_on_the_host() -> Result<(), Error> {
    run(3, |pe| {
        let (stream, world, me) = (pe.stream(), pe.world(), pe.id());
        let (x, y) = (pe.alloc::<u16>(9)?, pe.alloc::<u16>(9)?);
        let length = |result, name| {
            let (pe, call, dst, src) = (me, name, 9, 8);
            assert_eq!(stream_error(result), StreamError::Length { pe, call, dst, src });
        };
        let short = y.part(..8)?;
        length(stream.broadcast(&world, &x, short, 0), "broadcast");
        length(stream.alltoall(&world, &x, short), "alltoall");
        length(stream.reduce(&world, Sum, &x, short), "reduce");
        length(stream.reduce_to(&world, Sum, &x, short, 0), "reduce_to");
        let whole = |result, name, part| {
            let (pe, call, whole, n) = (me, name, 9, 3);
            let expected = StreamError::Whole {
                pe,
                call,
                whole,
                part,
                n,
            };
            assert_eq!(stream_error(result), expected);
        };
        whole(stream.fcollect(&world, &x, y.part(..2)?), "fcollect", 2);
        whole(
            stream.reduce_scatter(&world, Max, y.part(..4)?, &x),
            "reduce_scatter",
            4,
        );
        let error = stream_error(stream.alltoall(&world, x.part(..8)?, short));
        let (call, len, n) = ("alltoall", 8, 3);
        assert_eq!(error, StreamError::Parts { pe: me, call, len, n });
        assert!(error.to_string().contains("a multiple of 3"), "{error}");
        let (lists, call) = (pe.alloc::<Part>(3)?, "alltoallv");
        let error = stream_error(stream.alltoallv(&world, &x, &y, &lists, lists.part(1..)?));
        let (sends, receives) = (3, 2);
        let expected = StreamError::Lists {
            pe: me,
            call,
            sends,
            receives,
            n,
        };
        assert_eq!(error, expected);
        // Nothing was enqueued: nobody waits for the others.
        stream.synchronize()
    })
}

#[test]
fn roots_slots_and_overlaps_are_checked_on_the_host() -> Result<(), Error> {
    run(2, |pe| {
        let (stream, world, me) = (pe.stream(), pe.world(), pe.id());
        let x = pe.alloc::<u32>(12)?;
        let (left, right) = (x.part(..6)?, x.part(6..)?);
        for error in [
            stream_error(stream.broadcast(&world, left, right, 2)),
            stream_error(stream.reduce_to(&world, Sum, left, right, 2)),
        ] {
            assert!(
                matches!(error, StreamError::Root { pe, root: 2, n: 2, .. } if pe == me),
                "{error}"
            );
        }
        let error = stream_error(stream.reduce(world.handle().slot(8), Sum, left, right));
        let expected = StreamError::Slot {
            pe: me,
            call: "reduce",
            slot: 8,
            slots: 8,
        };
        assert_eq!(error, expected);
        let beside = x.part(1..7)?;
        let overlaps = [
            stream.broadcast(&world, beside, left, 0),
            stream.reduce(&world, Sum, beside, left),
            stream.reduce_to(&world, Sum, left, beside, 0),
            stream.alltoall(&world, left, left),
            // The other's part, and neither's.
            stream.fcollect(&world, left, x.part(if me == 0 { 3..6 } else { 0..3 })?),
            stream.reduce_scatter(&world, Sum, x.part(1..4)?, left),
        ];
        for result in overlaps {
            let error = stream_error(result);
            assert!(matches!(error, StreamError::Overlap { pe, .. } if pe == me), "{error}");
        }
        stream.synchronize()
    })
}

#[test]
fn handles_that_were_dropped_are_refused() -> Result<(), Error> {
    run(1, |pe| {
        let (old, live) = (pe.alloc::<f64>(4)?.handle(), pe.alloc::<f64>(4)?);
        let team = pe.team(&[0])?.expect("PE 0 is in it").handle();
        let (stream, world) = (pe.stream(), pe.world().handle());
        let stale = [
            stream.reduce(&pe.world(), Sum, old, &live),
            stream.broadcast(&pe.world(), &live, old, 0),
            stream.reduce(team, Sum, &live, &live),
            stream.fcollect(world, &live, &live),
        ];
        for result in stale {
            let Err(Error::Launch(LaunchError::StaleHandle { why, .. })) = result else {
                panic!("{result:?}")
            };
            assert_eq!(why, Stale::Dropped);
        }
        Ok(())
    })
}

#[test]
fn calls_with_no_elements_wait_for_nobody() -> Result<(), Error> {
    run(2, |pe| {
        let (stream, world, x) = (pe.stream(), pe.world(), pe.alloc::<u8>(4)?);
        if pe.id() == 0 {
            let (empty, none) = (x.part(..0)?, x.part(4..)?);
            stream.broadcast(&world, empty, none, 0)?;
            stream.fcollect(&world, empty, none)?;
            stream.alltoall(&world, empty, none)?;
            stream.reduce(&world, Sum, empty, none)?;
            stream.reduce_scatter(&world, Sum, empty, none)?;
            stream.reduce_to(&world, Sum, empty, none, 1)?;
        }
        stream.synchronize()
    })
}

#[test]
fn different_calls_of_members_are_told_apart() -> Result<(), Error> {
    for many in [1, 3000] {
        let ran = sim(2).build()?.run(|pe| {
            let (stream, world) = (pe.stream(), pe.world());
            let (x, y) = (pe.alloc::<u64>(2 * many)?, pe.alloc::<u64>(many)?);
            if pe.id() == 0 {
                stream.fcollect(&world, &x, &y)?;
            } else {
                stream.reduce_scatter(&world, Sum, &y, &x)?;
            }
            stream.synchronize()
        });
        let error = ran.unwrap_err().to_string();
        assert!(error.contains("make different calls"), "{error}");
        assert!(
            error.contains("fcollect") && error.contains("reduce_scatter"),
            "{error}"
        );
    }
    Ok(())
}

#[test]
fn a_member_that_does_not_come_is_named() -> Result<(), Error> {
    let ran = sim(3).build()?.run(|pe| {
        let (stream, x) = (pe.stream(), pe.alloc::<u32>(9000)?);
        let team = pe.team(&[2, 0])?;
        if pe.id() == 2 {
            let team = team.as_ref().expect("it is in it");
            stream.reduce(team, Sum, &x, &x)?;
        }
        stream.synchronize()
    });
    let error = ran.unwrap_err().to_string();
    let says = "a collective of a team of 2 PEs on a stream (slot 0, block 0): PE 0, its index 1, has not come";
    assert!(error.contains(says), "{error}");
    Ok(())
}

#[test]
fn lists_that_do_not_fit_are_faults_of_the_kernel() -> Result<(), Error> {
    for (len, start, kind) in [
        (2, 0, FaultKind::Length),
        (3, 6, FaultKind::Range),
        (3, u64::MAX, FaultKind::Range),
    ] {
        let ran = sim(2).build()?.run(|pe| {
            let (x, y) = (pe.alloc::<u32>(8)?, pe.alloc::<u32>(8)?);
            let (sends, receives) = (pe.alloc::<Part>(2)?, pe.alloc::<Part>(2)?);
            if pe.id() == 0 {
                sends.write(&[Part::default(), Part { start, len }])?;
            } else {
                receives.write(&[Part { start: 0, len: 3 }, Part::default()])?;
            }
            pe.stream().alltoallv(&pe.world(), &x, &y, &sends, &receives)?;
            pe.stream().synchronize()
        });
        match ran {
            Err(Error::Device(fault)) => assert_eq!((fault.pe, fault.kind), (1, kind)),
            other => panic!("{other:?}"),
        }
    }
    Ok(())
}
