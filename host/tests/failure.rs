//! One PE fails, in every way and while the others wait everywhere: all end, each with the right error.

mod common;

use common::{promptly, run, sim};
use shmem::fault::FaultKind;
use shmem::prelude::*;
use shmem_host::{CollectiveError, Error, Pe, collective_launch, launch};
use std::hint::black_box;
use std::time::Duration;

#[kernel]
fn store_at(data: SymSlice<u32>, i: u32) {
    data.store(i, 1);
}

#[kernel]
fn panics(data: SymSlice<u32>) {
    assert!(data.is_empty(), "the kernel's own words");
}

/// Puts at each level of its stack, which has an end.
#[kernel]
fn goes_deeper(dst: SymSlice<u32>, src: SymSlice<u32>, larger: u32) {
    #[inline(never)]
    fn deeper<const N: usize>(dst: SymSlice<u32>, src: SymSlice<u32>, n: u32, larger: u32) -> u32 {
        let here = black_box([n; N]);
        shmem::put(Thread, dst, src, (shmem::my_pe() + 1) % shmem::n_pes());
        shmem::fence(Thread);
        let below = match larger {
            0 if n == u32::MAX => n,
            0 => deeper::<256>(dst, src, n + 1, 0),
            _ => deeper::<260>(dst, src, n + 1, larger - 1),
        };
        below + here[1]
    }
    black_box(deeper::<256>(dst, src, 0, larger));
}

#[kernel]
fn wait_for_nobody(word: SymSlice<SignalWord>) {
    shmem::wait_until(Thread, word.at(0), eq(1));
}

#[test]
fn a_fault_comes_back_with_place_and_values() {
    let result = run(2, |pe| {
        let data = pe.alloc::<u32>(8)?;
        if pe.id() == 1 {
            launch!(pe, store_at<<<2, 3>>>(&data, 8))?;
            let Err(Error::Device(fault)) = pe.stream().synchronize() else {
                panic!()
            };
            assert_eq!((fault.pe, fault.kind, fault.a, fault.b), (1, FaultKind::Index, 8, 8));
        }
        pe.barrier_all()
    });
    let Err(Error::Device(fault)) = result else {
        panic!("{result:?}")
    };
    assert_eq!((fault.pe, fault.kind, fault.a, fault.b), (1, FaultKind::Index, 8, 8));
    assert!(fault.file.ends_with("tests/failure.rs") && fault.line > 0 && fault.column > 0);
    assert!(fault.block[0] < 2 && fault.thread[0] < 3);
    let text = fault.to_string();
    assert!(
        text.contains("index 8 is outside an object of 8 elements") && text.contains("store_at"),
        "{text}"
    );
}

#[test]
fn a_kernels_panic_brings_its_text() {
    let result = run(1, |pe| {
        launch!(pe, panics<<<1, 1>>>(&pe.alloc::<u32>(1)?))?;
        pe.stream().synchronize()
    });
    let Err(Error::Device(fault)) = result else {
        panic!("{result:?}")
    };
    assert_eq!(fault.kind, FaultKind::Panic);
    assert!(fault.to_string().contains("the kernel's own words"), "{fault}");
}

#[test]
fn a_stack_that_overflows_brings_the_line_of_the_call() {
    for larger in 0..80 {
        let result = promptly(|| {
            run(4, |pe| {
                let (dst, src) = (pe.alloc(512)?, pe.alloc(512)?);
                launch!(pe, goes_deeper<<<1, 1>>>(&dst, &src, larger))?;
                pe.barrier_all()
            })
        });
        let Err(Error::Device(fault)) = result else {
            panic!("{result:?}")
        };
        let text = fault.to_string();
        assert!(text.contains("the lane's stack overflowed"), "{text}");
        assert!(fault.file.ends_with("tests/failure.rs"), "{text}");
    }
}

/// PE 0 goes wrong by `fails` while the others are inside `wait`; they are told, and PE 0's error is returned.
fn while_others_wait(
    fails: fn(&Pe) -> Result<(), Error>,
    wait: fn(&Pe) -> Result<(), Error>,
    is_cause: fn(&Error) -> bool,
) {
    let result = promptly(|| {
        run(3, |pe| {
            let shared = pe.signals(1)?;
            if pe.id() == 0 {
                std::thread::sleep(Duration::from_millis(20));
                return fails(&pe);
            }
            let told = wait(&pe);
            assert!(
                matches!(told, Err(Error::PeerFailed { pe: 0, .. })),
                "PE {} got {told:?}",
                pe.id()
            );
            drop(shared);
            told
        })
    });
    assert!(result.as_ref().is_err_and(is_cause), "{result:?}");
}

fn a_refused_launch(pe: &Pe) -> Result<(), Error> {
    launch!(pe, store_at<<<0, 1>>>(SymSlice::__new(0, 0), 0))
}

fn a_fault(pe: &Pe) -> Result<(), Error> {
    launch!(pe, store_at<<<1, 1>>>(SymSlice::__new(0, 0), 5))?;
    pe.stream().synchronize()
}

fn a_fault_that_nobody_asks_for(pe: &Pe) -> Result<(), Error> {
    launch!(pe, store_at<<<1, 1>>>(SymSlice::__new(0, 0), 5))
}

fn a_panic(_: &Pe) -> Result<(), Error> {
    panic!("on purpose")
}

fn in_alloc(pe: &Pe) -> Result<(), Error> {
    pe.alloc::<u64>(1).map(drop)
}

fn in_barrier(pe: &Pe) -> Result<(), Error> {
    pe.barrier_all()
}

fn in_a_stream_barrier(pe: &Pe) -> Result<(), Error> {
    pe.stream().barrier_all()?;
    pe.stream().synchronize()
}

#[test]
fn a_failure_reaches_pes_that_wait_in_a_host_call() {
    for wait in [in_alloc, in_barrier, in_a_stream_barrier] {
        while_others_wait(a_refused_launch, wait, |e| matches!(e, Error::Launch(_)));
        while_others_wait(a_fault, wait, |e| matches!(e, Error::Device(f) if f.pe == 0));
        while_others_wait(
            a_fault_that_nobody_asks_for,
            wait,
            |e| matches!(e, Error::Device(f) if f.pe == 0),
        );
        while_others_wait(a_panic, wait, |e| matches!(e, Error::PePanicked { pe: 0, .. }));
    }
}

#[test]
fn a_failure_reaches_kernels_that_wait() {
    let result = promptly(|| {
        run(3, |pe| {
            let word = pe.signals(1)?;
            if pe.id() == 2 {
                return pe.load_ptx("").map(drop);
            }
            collective_launch_of_two(&pe, &word)?;
            let told = pe.stream().synchronize();
            assert!(matches!(told, Err(Error::PeerFailed { pe: 2, .. })), "{told:?}");
            told
        })
    });
    assert!(matches!(result, Err(Error::Image(_))), "{result:?}");
}

fn collective_launch_of_two(pe: &Pe, word: &shmem_host::SymBuf<SignalWord>) -> Result<(), Error> {
    launch!(pe, wait_for_nobody<<<1, 1>>>(word))
}

#[kernel(for<u32>, for<f32>)]
fn put_down<T: Pod>(data: SymSlice<u32>, value: T) {
    let _ = value;
    data.store(0, size_of::<T>() as u32);
}

#[test]
fn pes_that_launch_together_what_differs_are_told_how() {
    let report = |launches: fn(&Pe, &shmem_host::SymBuf<u32>) -> Result<(), Error>| {
        let result = promptly(|| {
            run(2, |pe| {
                let data = pe.alloc::<u32>(8)?;
                launches(&pe, &data)?;
                pe.stream().synchronize()
            })
        });
        match result {
            Err(Error::Collective(CollectiveError::Launch { report })) => report,
            other => panic!("{other:?}"),
        }
    };
    let memory = report(|pe, data| collective_launch!(pe, store_at<<<1, 1, 1024 * pe.id()>>>(data, 0)));
    for part in ["with 0 bytes of dynamic", "with 1024 bytes of dynamic"] {
        assert!(memory.contains(part), "{memory}");
    }
    let instances = report(|pe, data| match pe.id() {
        0 => collective_launch!(pe, put_down<<<1, 1>>>(data, 1u32)),
        _ => collective_launch!(pe, put_down<<<1, 1>>>(data, 1f32)),
    });
    for part in ["$0", "$1"] {
        assert!(instances.contains(part), "{instances}");
    }
}

#[test]
fn a_wait_that_nobody_answers_is_reported() {
    let result = promptly(|| {
        sim(2).time_limit(Some(Duration::from_secs(2))).build()?.run(|pe| {
            let word = pe.signals(1)?;
            collective_launch!(pe, wait_for_nobody<<<1, 1>>>(&word))?;
            pe.stream().synchronize()
        })
    });
    let Err(error @ (Error::Deadlock { .. } | Error::TimeLimit { .. })) = result else {
        panic!("{result:?}")
    };
    assert!(error.to_string().contains("failure.rs"), "{error}");
}

#[test]
fn a_pe_that_ends_early_is_named_by_those_who_wait_for_it() {
    for wait in [in_alloc, in_barrier] {
        let result = promptly(|| run(3, |pe| if pe.id() == 1 { Ok(()) } else { wait(&pe) }));
        let Err(Error::Collective(CollectiveError::PeerEnded { ended: 1, call, .. })) = result else {
            panic!("{result:?}")
        };
        assert!(call.contains("failure.rs"), "{call}");
    }
}

#[test]
fn a_pe_that_does_not_come_in_time_is_named() {
    let limit = Duration::from_millis(200);
    let result = sim(2).time_limit(Some(limit)).build().unwrap().run(|pe| {
        if pe.id() == 1 {
            std::thread::sleep(limit * 3);
        }
        in_barrier(&pe)
    });
    let Err(Error::Collective(CollectiveError::TimeLimit { absent, pe: 0, .. })) = result else {
        panic!("{result:?}")
    };
    assert_eq!(absent, [1]);
}

#[test]
fn kernels_still_running_at_the_end_are_waited_for() {
    let result = run(2, |pe| {
        let data = pe.alloc::<u32>(4)?;
        launch!(pe, store_at<<<1, 1>>>(&data, 3))?;
        // Dropped, and the closure ends, before anybody has waited.
        Ok::<(), Error>(())
    });
    result.unwrap();
}
