//! Launches: both forms, every check, streams.

mod common;

use common::{promptly, run};
use shmem::prelude::*;
use shmem::{BlockBounds, Region};
use shmem_host::{Dim3, Error, LaunchError, Stale, collective_launch, launch};
use std::sync::Mutex;

#[kernel]
fn count(data: SymSlice<u32>) {
    let rank = thread::block_index() * thread::block_dim_x() + thread::index();
    data.store(rank, data.load(rank) + 1);
}

#[kernel(collective)]
fn together(all: Collective, data: SymSlice<u32>) {
    let me = shmem::my_pe();
    if thread::index() == 0 {
        shmem::p(data.at(0), me, (me + 1) % shmem::n_pes());
    }
    all.barrier(Block, shmem::world());
}

#[kernel(block = 64)]
fn just_64(data: SymSlice<u32>) {
    data.store(thread::index(), 1);
}

#[kernel(max_block = 128)]
fn at_most_128(data: SymSlice<u32>) {
    data.store(thread::index(), 1);
}

#[kernel]
fn local(data: Global<u32>) {
    data.store(thread::index(), 7);
}

#[kernel(for<u32>, for<f32>)]
fn fill<T: Pod>(data: SymSlice<T>, value: T) {
    data.store(thread::index(), value);
}

fn refusal(result: Result<(), Error>) -> LaunchError {
    match result {
        Err(Error::Launch(error)) => error,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn both_forms_with_two_to_four_parts() {
    run(2, |pe| {
        let data = pe.alloc::<u32>(256)?;
        let side = pe.new_stream()?;
        let grid = (2, 2);
        launch!(pe, count<<<4, 64>>>(&data))?;
        launch!(pe, count<<<grid.0 * grid.1, Dim3::new(64, 1, 1), 128,>>>(data.handle()))?;
        collective_launch!(pe, count<<<4, 64, 0>>>(&data,))?;
        pe.stream().synchronize()?;
        collective_launch!(pe, self::count<<<4, [64, 1, 1], 1 << 10, &side>>>(&data))?;
        side.synchronize()?;
        launch!(&pe, count<<<4, 64, 0, pe.stream()>>>(&data))?;
        assert_eq!(data.to_vec()?, [5; 256]);
        Ok(())
    })
    .unwrap();
}

#[test]
fn generic_kernels_launch_by_their_argument() {
    run(1, |pe| {
        let (ints, floats) = (pe.alloc::<u32>(32)?, pe.alloc::<f32>(32)?);
        launch!(pe, fill<<<1, 32>>>(&ints, 3))?;
        launch!(pe, fill<<<1, 32>>>(&floats, 0.5))?;
        assert_eq!((ints.to_vec()?, floats.to_vec()?), (vec![3; 32], vec![0.5; 32]));
        Ok(())
    })
    .unwrap();
}

#[test]
fn collective_kernels_run_on_one_to_eight_pes() {
    for pes in 1..=8 {
        run(pes, |pe| {
            let data = pe.alloc::<u32>(1)?;
            collective_launch!(pe, together<<<1, 96>>>(&data))?;
            assert_eq!(data.read(0)?, (pe.id() + pes - 1) % pes);
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn blocks_that_no_device_takes_are_refused() {
    run(1, |pe| {
        let data = pe.alloc::<u32>(1)?;
        for block in [
            (0, 1, 1),
            (1025, 1, 1),
            (32, 33, 1),
            (1, 1, 65),
            (u32::MAX, u32::MAX, u32::MAX),
        ] {
            for result in [
                launch!(pe, count<<<1, block>>>(&data)),
                collective_launch!(pe, count<<<1, block>>>(&data)),
                pe.max_collective_grid::<count>(block, 0).map(drop),
            ] {
                let LaunchError::Block {
                    block: named,
                    threads: 1024,
                    ..
                } = refusal(result)
                else {
                    panic!()
                };
                assert_eq!(named, block.into());
            }
        }
        for grid in [(0, 1, 1), (1, 70_000, 1), (u32::MAX, 1, 1)] {
            let LaunchError::Grid { grid: named, .. } = refusal(launch!(pe, count<<<grid, 1>>>(&data))) else {
                panic!()
            };
            assert_eq!(named, grid.into());
        }
        let refused = refusal(launch!(pe, count<<<(100_000, 65535), 1>>>(&data)));
        assert!(
            matches!(
                refused,
                LaunchError::Blocks {
                    asked: 6_553_500_000,
                    most: 0xffff_ffff,
                    ..
                }
            ),
            "{refused}"
        );
        launch!(pe, count<<<1, 1>>>(&data))?;
        pe.barrier_all()
    })
    .unwrap();
}

#[test]
fn blocks_that_the_kernel_was_not_compiled_for_are_refused() {
    run(1, |pe| {
        let data = pe.alloc::<u32>(128)?;
        let refused = refusal(launch!(pe, just_64<<<1, 32>>>(&data)));
        assert!(matches!(
            refused,
            LaunchError::BlockBounds {
                bounds: BlockBounds::Exactly([64, 1, 1]),
                ..
            }
        ));
        assert!(refused.to_string().contains("32 x 1 x 1") && refused.to_string().contains("64 x 1 x 1"));
        refusal(launch!(pe, just_64<<<1, (32, 2)>>>(&data)));
        let refused = refusal(launch!(pe, at_most_128<<<1, 129>>>(&data)));
        assert!(matches!(
            refused,
            LaunchError::BlockBounds {
                bounds: BlockBounds::AtMost(128),
                ..
            }
        ));
        launch!(pe, just_64<<<1, 64>>>(&data))?;
        launch!(pe, at_most_128<<<1, 128>>>(&data))
    })
    .unwrap();
}

#[test]
fn a_collective_grid_that_is_not_resident_is_refused_with_the_largest_that_is() {
    run(2, |pe| {
        let most = pe.max_collective_grid::<together>(1024, 0)?;
        let data = pe.alloc::<u32>(1)?;
        let refused = refusal(collective_launch!(pe, together<<<most + 1, 1024>>>(&data)));
        let LaunchError::GridTooLarge {
            asked,
            most: named,
            threads: 1024,
            ..
        } = &refused
        else {
            panic!("{refused}")
        };
        assert_eq!((*asked, *named), (u64::from(most) + 1, most));
        assert!(refused.to_string().contains(&format!("launch {most}")));
        let refused = refusal(collective_launch!(pe, count<<<(i32::MAX as u32, 65535, 65535), 1>>>(&data)));
        assert!(matches!(refused, LaunchError::GridTooLarge { .. }));
        Ok(())
    })
    .unwrap();
}

#[test]
fn shared_memory_beyond_a_block_is_refused() {
    run(1, |pe| {
        let data = pe.alloc::<u32>(1)?;
        let refused = refusal(launch!(pe, count<<<1, 1, u32::MAX>>>(&data)));
        assert!(
            matches!(
                refused,
                LaunchError::SharedMemory {
                    asked: u32::MAX,
                    most: 0x38c00,
                    ..
                }
            ),
            "{refused}"
        );
        launch!(pe, count<<<1, 1, 100 << 10>>>(&data))
    })
    .unwrap();
}

#[test]
fn a_plain_launch_of_a_collective_kernel_is_refused() {
    run(1, |pe| {
        let data = pe.alloc::<u32>(1)?;
        let refused = refusal(launch!(pe, together<<<1, 1>>>(&data)));
        assert_eq!(
            refused,
            LaunchError::NeedsCollectiveLaunch {
                kernel: "together".into()
            }
        );
        Ok(())
    })
    .unwrap();
}

#[test]
fn stale_handles_are_refused() {
    run(1, |pe| {
        let data = pe.alloc::<u32>(64)?;
        let handle = data.handle();
        launch!(pe, count<<<1, 64>>>(handle))?;
        launch!(pe, count<<<1, 16>>>(SymSlice::__new(u64::MAX, 0)))?;
        pe.stream().synchronize().unwrap_err();
        Ok(())
    })
    .unwrap_err();
    run(1, |pe| {
        let data = pe.alloc::<u32>(64)?;
        let beyond = SymSlice::<u32>::__new(1 << 40, 1);
        drop(pe.alloc::<u32>(64)?);
        let handle = data.handle();
        drop(data);
        for stale in [handle, beyond] {
            let refused = refusal(launch!(pe, count<<<1, 64>>>(stale)));
            assert!(
                matches!(
                    refused,
                    LaunchError::StaleHandle {
                        region: Region::Symmetric { .. },
                        pe: 0,
                        ..
                    }
                ),
                "{refused}"
            );
        }
        let buffer = pe.buffer::<u32>(32)?;
        let handle = buffer.handle();
        launch!(pe, local<<<1, 32>>>(handle))?;
        assert_eq!(buffer.to_vec()?, [7; 32]);
        drop(buffer);
        let refused = refusal(launch!(pe, local<<<1, 32>>>(handle)));
        assert!(matches!(
            refused,
            LaunchError::StaleHandle {
                region: Region::Global { bytes: 128, .. },
                ..
            }
        ));
        // A refusal leaves the World as it was.
        pe.barrier_all()
    })
    .unwrap();
}

#[test]
fn handles_of_other_pes_and_worlds_are_named() {
    let (local, symmetric) = (Mutex::new(None), Mutex::new(None));
    run(2, |pe| {
        let (buffer, data) = (pe.buffer::<u32>(32)?, pe.alloc::<u32>(64)?);
        if pe.id() == 0 {
            *local.lock().unwrap() = Some(buffer.handle());
            *symmetric.lock().unwrap() = Some(data.handle());
        }
        pe.barrier_all()?;
        let of_0 = local.lock().unwrap().unwrap();
        if pe.id() == 1 {
            let refused = refusal(launch!(pe, self::local<<<1, 32>>>(of_0)));
            assert!(
                matches!(
                    refused,
                    LaunchError::StaleHandle {
                        why: Stale::OtherPe { pe: 0 },
                        pe: 1,
                        ..
                    }
                ),
                "{refused}"
            );
        }
        // A symmetric object has one handle on all PEs.
        let of_0 = symmetric.lock().unwrap().unwrap();
        launch!(pe, count<<<1, 64>>>(of_0))?;
        pe.barrier_all()
    })
    .unwrap();
    run(2, |pe| {
        let data = pe.alloc::<u32>(64)?;
        let other = symmetric.lock().unwrap().unwrap();
        assert_eq!(format!("{other:?}"), format!("{:?}", data.handle()), "the same place");
        let refused = refusal(launch!(pe, count<<<1, 64>>>(other)));
        assert!(
            matches!(
                refused,
                LaunchError::StaleHandle {
                    why: Stale::Foreign,
                    ..
                }
            ),
            "{refused}"
        );
        pe.barrier_all()
    })
    .unwrap();
}

#[test]
fn streams_come_and_go_while_their_work_runs() {
    promptly(|| {
        run(2, |pe| {
            let data = pe.alloc::<u32>(32)?;
            for round in 1..=50 {
                let stream = pe.new_stream()?;
                launch!(pe, count<<<1, 32, 0, &stream>>>(&data))?;
                if round % 2 == 0 {
                    stream.synchronize()?;
                }
                drop(stream);
                pe.barrier_all()?;
            }
            assert_eq!(data.to_vec()?, [50; 32]);
            Ok(())
        })
        .unwrap();
    });
}

#[test]
fn stream_barriers_order_kernels_of_all_pes() {
    run(4, |pe| {
        let data = pe.alloc::<u32>(1)?;
        for _ in 0..10 {
            collective_launch!(pe, together<<<1, 32>>>(&data))?;
            pe.stream().barrier_all()?;
        }
        pe.stream().synchronize()?;
        assert_eq!(data.read(0)?, (pe.id() + 3) % 4);
        Ok(())
    })
    .unwrap();
}

#[kernel(collective)]
fn grid_slot(all: Collective, slots: Global<u64>, i: u32) {
    // Whoever shared a barrier with another stream's grid would not come out of it in step.
    let grid = all.grid();
    for round in 1..=10 {
        assert_eq!(grid.broadcast(u64::from(round * 100 + i)), u64::from(round * 100 + i));
    }
    slots.store(i, 1);
}

#[test]
fn each_stream_has_a_grid_barrier_of_its_own_as_far_as_they_go() {
    run(2, |pe| {
        let slots = pe.buffer::<u64>(64)?;
        let streams = (0..64).map(|_| pe.new_stream()).collect::<Result<Vec<_>, _>>()?;
        let (last, streams) = streams.split_last().unwrap();
        for (i, stream) in (0..).zip(streams) {
            collective_launch!(pe, grid_slot<<<2, 8, 0, stream>>>(&slots, i))?;
        }
        let refused = collective_launch!(pe, grid_slot<<<2, 8, 0, last>>>(&slots, 63));
        let Err(Error::Launch(
            error @ LaunchError::TooManyStreams {
                stream: 64, most: 64, ..
            },
        )) = refused
        else {
            panic!("{refused:?}")
        };
        assert!(
            error
                .to_string()
                .starts_with("grid_slot: a collective launch on stream 64 of a PE")
        );
        // A plain launch needs no barrier of its own.
        launch!(pe, local<<<1, 1, 0, last>>>(&pe.buffer::<u32>(1)?))?;
        pe.barrier_all()?;
        assert_eq!(slots.to_vec()?.iter().sum::<u64>(), 63);
        Ok(())
    })
    .unwrap();
}
