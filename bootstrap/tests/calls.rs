//! The calls, with threads for processes: what each error says, and when.

mod common;

use common::LIMIT;
use shmem_bootstrap::{Bootstrap, BootstrapError, Call, PeerFailure, RootAddress, Settings, Source};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_millis(300);

/// Each rank's settings.
fn job(size: u32) -> Vec<Settings> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!(
        "bootstrap-calls-{}-{}",
        std::process::id(),
        NUMBER.fetch_add(1, Ordering::Relaxed)
    );
    let root = RootAddress::Unix(name);
    (0..size)
        .map(|rank| Settings::new(rank, size, root.clone()).limit(LIMIT))
        .collect()
}

/// Runs `rank` on a thread each, once all have joined; their results by rank.
fn run<T: Send>(settings: Vec<Settings>, rank: impl Fn(Bootstrap) -> T + Sync) -> Vec<T> {
    let rank = &rank;
    std::thread::scope(|s| {
        let ranks: Vec<_> = settings
            .into_iter()
            .map(|own| s.spawn(move || rank(Bootstrap::join(&own).unwrap())))
            .collect();
        ranks.into_iter().map(|r| r.join().unwrap()).collect()
    })
}

#[test]
fn ranks_know_their_nodes() {
    let settings = job(5)
        .into_iter()
        .enumerate()
        .map(|(rank, s)| s.node(["a", "b"][rank % 2]))
        .collect();
    let places = run(settings, |job| {
        assert_eq!(
            (job.nodes(), job.source()),
            ([0, 1, 0, 1, 0].as_slice(), Source::Program)
        );
        assert_eq!((job.node_name(1), job.node_name(2)), (Some("b"), None));
        let place = (job.local_rank(), job.local_size());
        job.finish(LIMIT).unwrap();
        place
    });
    assert_eq!(places, [(0, 3), (0, 2), (1, 3), (1, 2), (2, 3)]);
}

#[test]
fn a_job_of_one_is_alone() {
    run(job(1), |job| {
        job.barrier(LIMIT).unwrap();
        assert_eq!(job.allgather(b"me", LIMIT).unwrap(), [b"me"]);
        assert_eq!(job.broadcast(0, b"you", LIMIT).unwrap(), b"you");
        job.finish(LIMIT).unwrap();
    });
}

#[test]
fn the_largest_parts_go_through_and_larger_ones_are_refused() {
    run(job(3), |job| {
        let most = job.max_bytes();
        let too_large = job.allgather(&vec![0; most + 1], LIMIT).unwrap_err();
        let call = Call::AllGather;
        assert_eq!(
            too_large,
            BootstrapError::TooLarge {
                call,
                bytes: most + 1,
                limit: most,
                size: 3
            }
        );
        let nobody = job.broadcast(3, b"", LIMIT).unwrap_err();
        assert_eq!(
            nobody,
            BootstrapError::NoSuchRank {
                call: Call::Broadcast { from: 3 },
                rank: 3,
                size: 3
            }
        );
        // Still in step.
        let all = job.allgather(&vec![job.rank() as u8; most], LIMIT).unwrap();
        assert!(all.iter().enumerate().all(|(r, bytes)| *bytes == vec![r as u8; most]));
        job.finish(LIMIT).unwrap();
    });
}

#[test]
fn a_timed_out_call_names_who_has_not_come() {
    let errors = run(job(4), |job| {
        if job.rank() % 2 == 1 {
            // Until the others have given up and say so.
            while job.failure().is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
            return job.barrier(LIMIT).unwrap_err();
        }
        let begun = Instant::now();
        let error = job.barrier(SHORT).unwrap_err();
        assert!(begun.elapsed() < SHORT + Duration::from_millis(600));
        if let BootstrapError::TimedOut { missing, .. } = &error {
            assert_eq!(missing, &[1, 3]);
            // Out of step: the same again, at once; or what the other one, whose time was over as well, has said by now.
            match job.barrier(LIMIT).unwrap_err() {
                BootstrapError::PeerFailed(other) => {
                    assert_eq!(other.rank, 2 - job.rank());
                    assert!(other.cause.starts_with("barrier timed out"), "{}", other.cause);
                }
                again => assert_eq!(again, error),
            }
        }
        error
    });
    let timed_out = errors
        .iter()
        .filter(|e| {
            matches!(
                e,
                BootstrapError::TimedOut {
                    call: Call::Barrier,
                    ..
                }
            )
        })
        .count();
    assert!(timed_out >= 1, "{errors:?}");
    for odd in [&errors[1], &errors[3]] {
        let text = odd.to_string();
        assert!(
            text.contains("failed: barrier timed out") && text.contains("ranks 1, 3 have not come"),
            "{text}"
        );
    }
}

#[test]
fn finishing_alone_times_out_with_names() {
    let (done, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    run(job(2), |job| {
        if job.rank() == 0 {
            let error = job.finish(SHORT).unwrap_err();
            assert!(
                matches!(&error, BootstrapError::TimedOut { call: Call::Finish, missing, .. } if missing == &[1]),
                "{error}"
            );
            done.send(()).unwrap();
        } else {
            wait.lock().unwrap().recv().unwrap();
            let error = job.finish(LIMIT).unwrap_err();
            assert!(
                matches!(error, BootstrapError::PeerFailed(PeerFailure { rank: 0, .. })),
                "{error}"
            );
        }
    });
}

#[test]
fn calls_that_do_not_fit_name_both_ranks() {
    let errors = run(job(3), |job| match job.rank() {
        1 => {
            std::thread::sleep(SHORT);
            job.allgather(b"", LIMIT).unwrap_err()
        }
        _ => job.broadcast(2, b"", LIMIT).unwrap_err(),
    });
    let named = |e: &&BootstrapError| {
        let second_call = Call::AllGather;
        matches!(e, BootstrapError::Mismatch { first_call: Call::Broadcast { from: 2 }, second: 1, second_call: c, .. } if *c == second_call)
    };
    // Who is slow may hear first that another has given up because of it.
    let told = |e: &&BootstrapError| matches!(e, BootstrapError::PeerFailed(f) if f.cause.contains("called allgather"));
    assert!(errors.iter().any(|e| named(&e)), "{errors:?}");
    assert!(errors.iter().all(|e| named(&e) || told(&e)), "{errors:?}");
}

#[test]
fn a_failure_reaches_blocked_and_busy_ranks_within_a_second() {
    let failed = PeerFailure {
        rank: 2,
        cause: "GPU 2 fell off the bus".into(),
    };
    let (told, wait) = mpsc::channel();
    let begun = Instant::now();
    run(job(4), |job| {
        let told = told.clone();
        job.on_failure(move |failure| told.send(failure.clone()).unwrap());
        match job.rank() {
            2 => job.fail(&failed.cause),
            3 => {
                while job.failure().is_none() {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            _ => assert_eq!(
                job.barrier(LIMIT).unwrap_err(),
                BootstrapError::PeerFailed(failed.clone())
            ),
        }
        assert_eq!(job.failure(), Some(failed.clone()));
        // The first one stays.
        job.fail("and I too");
        let (late, heard) = mpsc::channel();
        job.on_failure(move |failure| late.send(failure.clone()).unwrap());
        assert_eq!(heard.try_recv().unwrap(), failed);
        assert_eq!(
            job.finish(LIMIT).unwrap_err(),
            BootstrapError::PeerFailed(failed.clone())
        );
    });
    assert!(begun.elapsed() < Duration::from_secs(2));
    drop(told);
    assert_eq!(wait.iter().collect::<Vec<_>>(), vec![failed; 4]);
}

#[test]
fn a_panic_is_told_as_one() {
    let errors = run(job(2), |job| {
        if job.rank() == 1 {
            let job = std::panic::AssertUnwindSafe(job);
            let panic = std::panic::catch_unwind(move || {
                let _job = job;
                panic!("in a test");
            });
            assert!(panic.is_err());
            return None;
        }
        Some(job.barrier(LIMIT).unwrap_err().to_string())
    });
    assert_eq!(errors[0].as_deref(), Some("process 1 failed: a thread of it panicked"));
}

#[test]
fn nobody_at_the_address_is_said_in_time() {
    let begun = Instant::now();
    let own = job(2).remove(1).limit(SHORT);
    let error = Bootstrap::join(&own).unwrap_err();
    assert!(matches!(error, BootstrapError::Unreachable { rank: 1, .. }), "{error}");
    assert!(begun.elapsed() < SHORT * 3);
    let no_secret = Settings::new(0, 1, RootAddress::parse("127.0.0.1:1").unwrap());
    assert!(matches!(
        Bootstrap::join(&no_secret),
        Err(BootstrapError::NoSecret { .. })
    ));
}

#[test]
fn two_at_one_address_are_refused() {
    let settings = job(2);
    std::thread::scope(|s| {
        let first = s.spawn(|| Bootstrap::join(&settings[0].clone().limit(SHORT * 2)).unwrap_err());
        std::thread::sleep(SHORT);
        let second = Bootstrap::join(&settings[0]).unwrap_err();
        assert!(matches!(second, BootstrapError::Listen { .. }), "{second}");
        let first = first.join().unwrap();
        assert!(
            matches!(&first, BootstrapError::TimedOut { call: Call::Join, missing, .. } if missing == &[1]),
            "{first}"
        );
    });
}

#[test]
fn a_hundred_jobs_one_after_the_other() {
    let settings = job(3);
    for _ in 0..100 {
        run(settings.clone(), |job| {
            job.barrier(LIMIT).unwrap();
            job.finish(LIMIT).unwrap();
        });
    }
}

#[test]
fn letters_come_in_order_and_beside_collective_calls() {
    run(job(3), |job| {
        let (me, size) = (job.rank(), job.size());
        for number in 0..50u8 {
            for to in 0..size {
                job.send(to, &vec![number; usize::from(number) * 100], LIMIT).unwrap();
            }
            if number == 20 {
                job.barrier(LIMIT).unwrap();
            }
        }
        let mut next = [0u8; 3];
        for _ in 0..150 {
            let (from, letter) = job.receive(LIMIT).unwrap().unwrap();
            let number = &mut next[from as usize];
            assert_eq!(letter, vec![*number; usize::from(*number) * 100], "from {from} to {me}");
            *number += 1;
        }
        assert_eq!(job.receive(Duration::ZERO).unwrap(), None);
        job.finish(LIMIT).unwrap();
    });
}

#[test]
fn letters_that_cannot_be_are_refused_and_a_failure_ends_waits() {
    run(job(2), |job| {
        let call = Call::Send { to: 2 };
        let nobody = job.send(2, b"", LIMIT).unwrap_err();
        assert_eq!(nobody, BootstrapError::NoSuchRank { call, rank: 2, size: 2 });
        let long = job.send(1, &vec![0; job.max_bytes() + 1], LIMIT).unwrap_err();
        assert!(
            matches!(
                long,
                BootstrapError::TooLarge {
                    call: Call::Send { to: 1 },
                    ..
                }
            ),
            "{long}"
        );
        if job.rank() == 0 {
            job.send(1, b"last words", LIMIT).unwrap();
            job.fail("tired");
        } else {
            assert_eq!(job.receive(LIMIT).unwrap(), Some((0, b"last words".to_vec())));
            let failed = job.receive(LIMIT).unwrap_err();
            assert!(
                matches!(failed, BootstrapError::PeerFailed(PeerFailure { rank: 0, .. })),
                "{failed}"
            );
        }
    });
}
