//! Memory of the program's own as symmetric objects, on the simulator: in one process and in several.

mod common;

use common::{run, sim};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use shmem::prelude::*;
use shmem_host::{CollectiveError, Error, HeapError, Pe, RegisterError, UserMemory, collective_launch};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

fn file(bytes: u64, seals: SealFlags) -> OwnedFd {
    let file = memfd_create("user's", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&file, bytes).unwrap();
    fcntl_add_seals(&file, seals).unwrap();
    file
}

fn sealed(bytes: u64) -> OwnedFd {
    file(bytes, SealFlags::SHRINK | SealFlags::GROW)
}

#[kernel]
fn shift(from: SymSlice<u32>, to: SymSlice<u32>) {
    shmem::put(Block, to, from, (shmem::my_pe() + 1) % shmem::n_pes());
}

/// The program's file is the object, to kernels of all PEs and to itself.
fn works(pe: &Pe) -> Result<(), Error> {
    let (mine, theirs) = (sealed(8192), File::from(sealed(8192)));
    for i in 0..1500u32 {
        theirs
            .write_all_at(&(pe.id() * 10_000 + i).to_ne_bytes(), 4 * u64::from(i))
            .unwrap();
    }
    let from = pe.register::<u32>(UserMemory::File(theirs.as_fd()), 1500)?;
    let to = pe.register::<u32>(UserMemory::File(mine.as_fd()), 1500)?;
    assert_eq!(
        (from.len(), from.read(7)?),
        (1500, pe.id() * 10_000 + 7),
        "its contents stay"
    );
    collective_launch!(pe, shift<<<1, 64>>>(&from, &to))?;
    pe.barrier_all()?;
    let before = (pe.id() + pe.n() - 1) % pe.n();
    assert_eq!(to.read(1499)?, before * 10_000 + 1499);
    let mut word = [0; 4];
    File::from(mine).read_exact_at(&mut word, 4 * 1499).unwrap();
    assert_eq!(u32::from_ne_bytes(word), before * 10_000 + 1499);
    // The object keeps what the program has closed.
    drop(theirs);
    assert_eq!(from.read(0)?, pe.id() * 10_000);
    pe.barrier_all()
}

#[test]
fn registered_memory_is_a_symmetric_object() {
    for pes in [1, 2, 3, 8] {
        run(pes, |pe| works(&pe)).unwrap();
    }
}

/// The places of objects that all have dropped are the heap's again, zero, whoever takes them.
#[test]
fn a_dropped_object_gives_its_place_back() {
    sim(3)
        .heap(21 << 20)
        .build()
        .unwrap()
        .run(|pe| {
            let before = pe.heap_stats();
            for round in 0..50 {
                let memory = File::from(sealed(256 << 10));
                memory.write_all_at(&[round + 1; 4096], 0).unwrap();
                let object = pe.register::<u8>(UserMemory::File(memory.as_fd()), 256 << 10)?;
                assert_eq!((object.read(0)?, pe.heap_stats().used), (round + 1, 256 << 10));
                let place = object.address();
                drop(object);
                if round % 2 == 0 {
                    continue;
                }
                // As much as there is: it lies in the place of the object.
                pe.barrier_all()?;
                let all = pe.alloc::<u8>(pe.heap_stats().largest_free as usize)?;
                assert!((all.address()..all.address() + all.len() as u64).contains(&place));
                assert!(all.to_vec()?.iter().all(|byte| *byte == 0), "round {round}");
                all.write(&vec![0xee; all.len()])?;
                pe.barrier_all()?;
                let mut first = [0];
                memory.read_exact_at(&mut first, 0).unwrap();
                assert_eq!(first[0], round + 1, "the program's memory is its own again");
            }
            pe.barrier_all()?;
            assert_eq!((pe.heap_stats().used, pe.heap_stats().free), (0, before.free));
            Ok::<(), Error>(())
        })
        .unwrap();
}

#[test]
fn what_cannot_be_registered_is_refused_on_every_pe_and_the_world_goes_on() {
    run(3, |pe| {
        let good = sealed(4096);
        // PE 1 gives something else than the others.
        let refused = |memory: UserMemory<'_>, len: usize| {
            let mine = if pe.id() == 1 {
                memory
            } else {
                UserMemory::File(good.as_fd())
            };
            match pe.register::<u8>(mine, len).map(drop) {
                Err(Error::Register(error)) => error,
                other => panic!("{other:?}"),
            }
        };
        let kind = refused(UserMemory::Device { address: 1 << 21 }, 10);
        assert!(
            matches!(
                kind,
                RegisterError::OtherKind {
                    pe: 1,
                    backend: "sim",
                    ..
                }
            ),
            "{kind}"
        );
        let short = refused(UserMemory::File(sealed(4095).as_fd()), 10);
        let (asked, there, page) = (4096, 4095, 4096);
        assert_eq!(
            short,
            RegisterError::TooShort {
                pe: 1,
                asked,
                there,
                page
            }
        );
        let unsealed = refused(UserMemory::File(file(4096, SealFlags::GROW).as_fd()), 10);
        assert_eq!(unsealed, RegisterError::MayShrink { pe: 1 });
        let mut ordinary = File::create(std::env::temp_dir().join(format!("register-{}", std::process::id())))
            .map_err(|error| panic!("{error}"))
            .unwrap();
        ordinary.write_all(&[0; 4096]).unwrap();
        let ordinary = refused(UserMemory::File(ordinary.as_fd()), 10);
        assert_eq!(ordinary, RegisterError::MayShrink { pe: 1 });
        let read_only = refused(
            UserMemory::File(file(4096, SealFlags::SHRINK | SealFlags::WRITE).as_fd()),
            10,
        );
        assert!(matches!(read_only, RegisterError::Map { owner: 1, .. }), "{read_only}");

        let different = pe
            .register::<u8>(UserMemory::File(good.as_fd()), 10 + pe.id() as usize)
            .map(drop);
        assert!(
            matches!(different, Err(Error::Heap(HeapError::AllocMismatch { .. }))),
            "{different:?}"
        );
        let too_large = pe.register::<u64>(UserMemory::File(good.as_fd()), usize::MAX).map(drop);
        assert!(
            matches!(too_large, Err(Error::Heap(HeapError::TooLarge { .. }))),
            "{too_large:?}"
        );
        let beyond = sealed(64 << 20);
        let beyond = pe.register::<u8>(UserMemory::File(beyond.as_fd()), 64 << 20).map(drop);
        let Err(Error::Heap(HeapError::Limit { asked, limit, .. })) = beyond else {
            panic!("{beyond:?}")
        };
        assert_eq!((asked, limit), (64 << 20, 48 << 20));
        let other = match pe.id() {
            0 => pe.register::<u8>(UserMemory::File(good.as_fd()), 1).map(drop),
            _ => pe.alloc::<u8>(1).map(drop),
        };
        assert!(
            matches!(other, Err(Error::Collective(CollectiveError::Mismatch { .. }))),
            "{other:?}"
        );
        assert_eq!(pe.heap_stats().used, 0);
        works(&pe)
    })
    .unwrap();
    let _ = std::fs::remove_file(std::env::temp_dir().join(format!("register-{}", std::process::id())));
}
