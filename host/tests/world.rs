//! Worlds of all sizes, and what `run` returns.

mod common;

use common::{promptly, run, sim};
use shmem_host::{Backend, ConfigError, CudaError, Error, World};
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

#[test]
fn every_pe_runs_once_with_its_number() {
    for pes in 1..=8 {
        let seen = AtomicU32::new(0);
        let world = sim(pes).build().unwrap();
        assert_eq!((world.n(), world.backend_name()), (pes, "sim"));
        world
            .run(|pe| {
                assert_eq!(pe.n(), pes);
                seen.fetch_add(1 << pe.id(), Ordering::Relaxed);
                pe.barrier_all()
            })
            .unwrap();
        assert_eq!(seen.into_inner(), (1 << pes) - 1);
    }
}

#[test]
fn the_simulator_has_four_pes_by_default() {
    assert_eq!(World::builder().backend(Backend::Sim).build().unwrap().n(), 4);
}

#[test]
fn no_pes_and_too_many_are_refused() {
    assert!(matches!(sim(0).build(), Err(Error::Config(ConfigError::NoPes))));
    assert!(matches!(
        sim(1025).build(),
        Err(Error::Config(ConfigError::TooManyPes { asked: 1025 }))
    ));
}

#[test]
fn a_heap_without_room_for_the_library_is_refused() {
    let built = sim(4).heap(100).build();
    assert!(
        matches!(
            built,
            Err(Error::Config(ConfigError::HeapTooSmall {
                asked: 100,
                least: 512..
            }))
        ),
        "{built:?}"
    );
    for large in [u64::MAX, 100 << 40] {
        let built = sim(4).heap(large).build();
        assert!(
            matches!(built, Err(Error::Config(ConfigError::HeapTooLarge { asked, pes: 4, .. })) if asked == large),
            "{built:?}"
        );
    }
}

#[test]
fn without_a_driver_cuda_is_an_error_and_auto_is_the_simulator() {
    match World::builder().backend(Backend::Cuda).build() {
        Err(Error::Cuda(CudaError::NoDriver { looked_for })) => assert!(looked_for.contains("libcuda.so")),
        Err(Error::Cuda(other)) => assert!(!other.to_string().is_empty()),
        Err(other) => panic!("{other}"),
        Ok(world) => return assert_eq!(world.backend_name(), "cuda"),
    }
    assert_eq!(World::builder().build().unwrap().backend_name(), "sim");
}

#[test]
fn worlds_can_be_made_again_and_side_by_side() {
    for _ in 0..20 {
        run(3, |pe| pe.barrier_all()).unwrap();
    }
    let worlds = [sim(2).build().unwrap(), sim(3).build().unwrap()];
    std::thread::scope(|s| {
        for world in worlds {
            s.spawn(move || world.run(|pe| pe.barrier_all()).unwrap());
        }
    });
    drop(sim(2).build());
}

#[derive(Debug, PartialEq)]
enum Own {
    Library(String),
    Bad(u32),
}

impl From<Error> for Own {
    fn from(error: Error) -> Self {
        Self::Library(error.to_string())
    }
}

impl fmt::Display for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

#[test]
fn the_first_failure_is_returned_and_the_others_hear_of_it() {
    for culprit in 0..4 {
        let heard = AtomicU32::new(0);
        let result = promptly(|| {
            sim(4).build().unwrap().run(|pe| {
                if pe.id() == culprit {
                    return Err(Own::Bad(culprit));
                }
                let waited = pe.barrier_all();
                let Err(Error::PeerFailed { pe: who, cause }) = &waited else {
                    panic!("{waited:?}")
                };
                assert_eq!((*who, cause.as_str()), (culprit, format!("Bad({culprit})").as_str()));
                heard.fetch_add(1, Ordering::Relaxed);
                Ok(waited?)
            })
        });
        assert_eq!(result, Err(Own::Bad(culprit)));
        assert_eq!(heard.into_inner(), 3);
    }
}

#[test]
fn a_panic_is_an_error_of_its_pe() {
    let result = promptly(|| {
        run(3, |pe| {
            assert_ne!(pe.id(), 1, "one is out of luck");
            pe.barrier_all()
        })
    });
    let Err(Error::PePanicked { pe: 1, message }) = result else {
        panic!("{result:?}")
    };
    assert!(message.contains("one is out of luck"));
}

#[test]
fn a_failed_world_says_so_at_once_ever_after() {
    promptly(|| {
        let result = run(2, |pe| {
            assert_ne!(pe.id(), 0, "gone");
            let first = pe.barrier_all().unwrap_err().to_string();
            let later = [
                pe.alloc::<u8>(1).map(drop),
                pe.buffer::<u8>(1).map(drop),
                pe.stream().synchronize(),
                pe.stream().barrier_all(),
                pe.new_stream().map(drop),
            ];
            for error in later {
                assert_eq!(error.unwrap_err().to_string(), first);
            }
            Ok(())
        });
        assert!(matches!(result, Err(Error::PePanicked { pe: 0, .. })), "{result:?}");
    });
}

/// An error type, and a panic's payload, that go wrong where they can.
#[derive(Debug)]
enum Wild {
    From,
    Display,
}

impl From<Error> for Wild {
    fn from(error: Error) -> Self {
        assert!(!matches!(error, Error::PePanicked { .. }), "no such error");
        Self::From
    }
}

impl fmt::Display for Wild {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::From => Ok(()),
            Self::Display => panic!("can't be shown"),
        }
    }
}

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[test]
fn what_panics_around_a_closure_does_not_keep_the_others() {
    let others = |pe: &shmem_host::Pe| {
        let told = pe.barrier_all();
        assert!(matches!(told, Err(Error::PeerFailed { pe: 1, .. })), "{told:?}");
        told
    };
    let thrown = promptly(|| {
        run(3, |pe| {
            if pe.id() == 1 {
                std::panic::panic_any(Bomb);
            }
            others(&pe)
        })
    });
    assert!(matches!(thrown, Err(Error::PePanicked { pe: 1, .. })), "{thrown:?}");
    let shown = promptly(|| {
        sim(3).build().unwrap().run(|pe| {
            if pe.id() == 1 {
                return Err(Wild::Display);
            }
            Ok(others(&pe)?)
        })
    });
    assert!(matches!(shown, Err(Wild::Display)), "{shown:?}");
    let converted = promptly(|| {
        std::panic::catch_unwind(|| {
            sim(3).build().unwrap().run(|pe| {
                assert_ne!(pe.id(), 1, "out of luck");
                Ok::<(), Wild>(others(&pe)?)
            })
        })
    });
    assert!(converted.is_err(), "nothing could be returned: {converted:?}");
}
