//! Symmetric and local memory: allocation together, refusals, reuse, host access.

mod common;

use common::{promptly, run, sim};
use shmem::prelude::*;
use shmem_host::{Backend, CollectiveError, Error, HeapError, Pe, World, collective_launch, launch};

#[kernel]
fn add_one(data: SymSlice<u32>) {
    let i = thread::index();
    data.store(i, data.load(i) + 1);
}

#[kernel]
fn shift(from: SymSlice<u32>, to: SymSlice<u32>) {
    let peer = (shmem::my_pe() + 1) % shmem::n_pes();
    shmem::put(Block, to, from, peer);
}

#[test]
fn memory_is_zero_readable_and_writable_on_every_pe() {
    for pes in [1, 2, 3, 8] {
        run(pes, |pe| {
            let data = pe.alloc::<u32>(100)?;
            assert_eq!(data.to_vec()?, [0; 100]);
            data.write_at(10, &[pe.id() + 1; 5])?;
            let mut some = [9; 3];
            data.read_into(13, &mut some)?;
            assert_eq!(some, [pe.id() + 1, pe.id() + 1, 0]);
            assert_eq!((data.len(), data.is_empty(), data.handle().len()), (100, false, 100));
            assert!(pe.alloc::<u64>(0)?.is_empty());
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn host_access_comes_after_the_kernels_on_the_stream() {
    run(2, |pe| {
        let (a, b) = (pe.alloc::<u32>(64)?, pe.alloc::<u32>(64)?);
        for round in 1..=10 {
            a.write(&[round * 100; 64])?;
            launch!(pe, add_one<<<1, 64>>>(&a))?;
            collective_launch!(pe, shift<<<1, 64>>>(&a, &b))?;
            pe.stream().barrier_all()?;
            assert_eq!(b.to_vec()?, [round * 100 + 1; 64]);
            pe.barrier_all()?;
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn ranges_outside_a_buffer_are_refused() {
    run(1, |pe| {
        let data = pe.alloc::<u32>(8)?;
        let local = pe.buffer::<u8>(8)?;
        for (refused, range) in [
            (data.read(8).map(drop), (8, 9)),
            (data.write(&[0; 9]), (0, 9)),
            (data.write_at(7, &[0; 2]), (7, 9)),
            (local.read_into(usize::MAX, &mut [0; 2]), (u64::MAX, u64::MAX)),
        ] {
            let Err(Error::Range(error)) = refused else {
                panic!("{refused:?}")
            };
            assert_eq!((error.start, error.end, error.len), (range.0, range.1, 8));
        }
        data.write_at(8, &[])
    })
    .unwrap();
}

/// Has PE 1 call `odd` where the others call `even`: every PE gets a mismatch, and the World goes on.
fn mismatch(
    even: impl Fn(&Pe) -> Result<(), Error> + Sync,
    odd: impl Fn(&Pe) -> Result<(), Error> + Sync,
    expected: [&str; 2],
) {
    promptly(|| {
        run(3, |pe| {
            let refused = if pe.id() == 1 { odd(&pe) } else { even(&pe) };
            let Err(Error::Heap(HeapError::AllocMismatch { first, second })) = &refused else {
                panic!("{refused:?}")
            };
            assert_eq!((first.0, second.0), (0, 1));
            let text = refused.unwrap_err().to_string();
            assert!(expected.iter().all(|part| text.contains(part)), "{text}");
            let data = pe.alloc::<u8>(5)?;
            assert_eq!(data.to_vec()?, [0; 5]);
            Ok(())
        })
        .unwrap();
    });
}

#[test]
fn mismatches_of_every_kind_are_an_error_on_every_pe() {
    fn alloc<T: Pod>(pe: &Pe, len: usize) -> Result<(), Error> {
        pe.alloc::<T>(len).map(drop)
    }
    mismatch(
        |pe| alloc::<u32>(pe, 8),
        |pe| alloc::<u32>(pe, 9),
        ["PE 0 asked for 8 x u32", "PE 1 for 9 x u32"],
    );
    mismatch(
        |pe| alloc::<u32>(pe, 8),
        |pe| alloc::<f32>(pe, 8),
        ["8 x u32", "8 x f32"],
    );
    mismatch(
        |pe| alloc::<u64>(pe, 4),
        |pe| alloc::<u32>(pe, 8),
        ["alignment 8", "alignment 4"],
    );
    mismatch(
        |pe| pe.signals(2).map(drop),
        |pe| pe.counters(1).map(drop),
        ["SignalWord", "CounterWord"],
    );
    mismatch(
        |pe| pe.alloc::<u8>(1).map(drop),
        |pe| {
            let here = pe.alloc::<u8>(1);
            here.map(drop)
        },
        ["tests/memory.rs:", "every PE makes the same calls in the same order"],
    );
    mismatch(
        |pe| alloc::<u8>(pe, 8),
        |pe| alloc::<u8>(pe, usize::MAX),
        ["8 x u8", "18446744073709551615 x u8"],
    );
}

#[test]
fn mismatches_of_how_memory_is_to_be_are_an_error_on_every_pe() {
    mismatch(
        |pe| pe.alloc_aligned::<u8>(8, 1024).map(drop),
        |pe| pe.alloc_aligned::<u8>(8, 512).map(drop),
        ["alignment 1024", "alignment 512"],
    );
    mismatch(
        |pe| pe.alloc::<u8>(8).map(drop),
        |pe| pe.alloc_uninit::<u8>(8).map(drop),
        ["alignment 1)", "alignment 1, uninitialised)"],
    );
}

#[test]
fn aligned_memory_is_aligned_and_other_alignments_are_refused() {
    run(2, |pe| {
        let odd = pe.alloc::<u8>(1)?;
        for align in [1, 2, 512, 1024, 4096] {
            let data = pe.alloc_aligned::<u32>(10, align)?;
            assert_eq!((data.address() % align as u64, data.to_vec()?), (0, vec![0; 10]));
        }
        for align in [0, 3, 48, 8192, usize::MAX] {
            let refused = pe.alloc_aligned::<u64>(1, align).map(drop);
            assert!(
                matches!(refused, Err(Error::Heap(HeapError::Alignment { align: told })) if told == align as u64),
                "{refused:?}"
            );
        }
        drop(odd);
        Ok(())
    })
    .unwrap();
}

#[test]
fn uninitialised_memory_is_conspicuous_and_alloc_zeroes_it_again() {
    run(2, |pe| {
        for _ in 0..3 {
            let fresh = pe.alloc_uninit::<u64>(100)?;
            assert_eq!(fresh.to_vec()?, [u64::MAX; 100]);
            fresh.write(&[7; 50])?;
            let place = fresh.address();
            drop(fresh);
            pe.barrier_all()?;
            let zero = pe.alloc::<u64>(100)?;
            assert_eq!((zero.address(), zero.to_vec()?), (place, vec![0; 100]));
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn statistics_are_alike_on_every_pe() {
    run(3, |pe| {
        let all = pe.alloc::<u64>(3 * 8)?;
        let (a, b) = (pe.alloc::<u8>(100_000)?, pe.alloc::<u8>(1)?);
        drop(a);
        pe.barrier_all()?;
        let stats = pe.heap_stats();
        assert_eq!((stats.limit, stats.objects, stats.used), (48 << 20, 2, 1024));
        assert_eq!(stats.system + stats.used + stats.free, stats.limit);
        assert_eq!(stats.peak, 1024 + 100_352);
        assert!(stats.largest_free < stats.free, "a hole lies below");
        // What it says is free can be had, and no more.
        let most = pe.alloc_uninit::<u8>(stats.largest_free as usize)?;
        drop(most);
        let refused = pe.alloc::<u8>(stats.largest_free as usize + 1).map(drop);
        let Err(Error::Heap(HeapError::Limit {
            free, largest, limit, ..
        })) = refused
        else {
            panic!("{refused:?}")
        };
        assert_eq!((free, largest, limit), (stats.free, stats.largest_free, stats.limit));
        drop((all, b));
        Ok(())
    })
    .unwrap();
}

#[test]
fn different_calls_are_an_error_on_every_pe() {
    promptly(|| {
        run(2, |pe| {
            let refused = if pe.id() == 0 {
                pe.alloc::<u8>(1).map(drop)
            } else {
                pe.barrier_all()
            };
            let Err(Error::Collective(CollectiveError::Mismatch { first, second })) = refused else {
                panic!("{refused:?}")
            };
            assert!(
                first.0 == 0 && first.1.starts_with("alloc at ") && first.1.contains("memory.rs"),
                "{first:?}"
            );
            assert!(second.0 == 1 && second.1.starts_with("barrier_all at "), "{second:?}");
            pe.barrier_all()
        })
        .unwrap();
    });
}

#[test]
fn what_the_heap_cannot_hold_is_refused_on_every_pe_and_the_world_goes_on() {
    run(2, |pe| {
        let refused = pe.alloc::<u32>(100 << 20).map(drop);
        let Err(Error::Heap(HeapError::Limit {
            asked,
            free,
            largest,
            limit,
        })) = refused
        else {
            panic!("{refused:?}")
        };
        assert_eq!((asked, limit), (400 << 20, 48 << 20));
        assert!(free == largest && free < limit);
        let refused = pe.alloc::<u64>(usize::MAX).map(drop);
        assert!(matches!(refused, Err(Error::Heap(HeapError::TooLarge { len, size: 8 })) if len == u64::MAX));
        let refused = pe.buffer::<u64>(usize::MAX).map(drop);
        assert!(matches!(refused, Err(Error::Heap(HeapError::TooLarge { .. }))));
        let refused = pe.buffer::<u8>(1 << 60).map(drop);
        assert!(
            matches!(&refused, Err(Error::Heap(HeapError::OutOfMemory { asked, .. })) if *asked == 1 << 60),
            "{refused:?}"
        );
        let text = refused.unwrap_err().to_string();
        assert!(text.ends_with("the system refused them: ask for less"), "{text}");
        pe.alloc::<u32>(1 << 20).map(drop)
    })
    .unwrap();
}

#[test]
fn dropped_memory_is_used_again_and_zero() {
    run(3, |pe| {
        let keep = pe.alloc::<u8>(1000)?;
        let first = pe.alloc::<u32>(256)?;
        let place = format!("{:?}", first.handle());
        launch!(pe, add_one<<<1, 256>>>(&first))?;
        drop(first);
        pe.barrier_all()?;
        let second = pe.alloc::<u32>(256)?;
        assert_eq!(format!("{:?}", second.handle()), place);
        assert_eq!(second.to_vec()?, [0; 256]);
        drop(keep);
        Ok(())
    })
    .unwrap();
}

#[test]
fn memory_lives_until_the_last_pe_has_dropped_it() {
    run(2, |pe| {
        let data = pe.alloc::<u32>(64)?;
        let place = format!("{:?}", data.handle());
        let held = (pe.id() == 1).then_some(data);
        let other = pe.alloc::<u32>(64)?;
        assert_ne!(format!("{:?}", other.handle()), place);
        drop(held);
        pe.barrier_all()?;
        let again = pe.alloc::<u32>(64)?;
        assert_eq!(format!("{:?}", again.handle()), place);
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_full_heap_is_drained_before_it_is_refused() {
    // Each block is half of the heap, and dropped while a kernel may still use it.
    run(2, |pe| {
        for _ in 0..20 {
            let data = pe.alloc::<u32>(2 << 20)?;
            launch!(pe, add_one<<<1, 32>>>(&data))?;
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_thousand_objects_of_random_sizes() {
    run(4, |pe| {
        let mut live = vec![];
        let mut x = 12345u32;
        for _ in 0..1000 {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if x.is_multiple_of(3) && !live.is_empty() {
                live.swap_remove(x as usize / 7 % live.len());
            } else if live.len() < 40 {
                let data = pe.alloc::<u8>((x >> 8) as usize % 50_000)?;
                assert!(data.to_vec()?.iter().all(|byte| *byte == 0));
                data.write(&vec![0xff; data.len()])?;
                live.push(data);
            }
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_world_of_many_pes_allocates() {
    sim(64)
        .heap(32 << 20)
        .build()
        .unwrap()
        .run(|pe| pe.alloc::<u64>(pe.n() as usize).map(drop))
        .unwrap();
}

#[test]
fn a_buffer_that_outlives_its_world_is_told_with_its_place() {
    let ran = World::builder()
        .pes(2)
        .backend(Backend::Sim)
        .build()
        .unwrap()
        .run(|pe| {
            let kept = pe.alloc::<u32>(10)?;
            if pe.id() == 1 {
                std::mem::forget(kept);
            }
            pe.barrier_all()
        });
    let Err(Error::Leaked { pe: 1, left }) = &ran else {
        panic!("{ran:?}")
    };
    assert_eq!(left[0].1, 40);
    assert!(left[0].0.file().ends_with("memory.rs"), "{left:?}");
}
