//! Copies between host and device on streams.

use shmem::prelude::*;
use shmem_host::{Backend, Error, LaunchError, StreamError, World, launch};

/// Doubles each word.
#[kernel]
pub fn double(x: Global<u64>) {
    let i = thread::index();
    x.store(i, 2 * x.load(i));
}

fn world(run: impl Fn(shmem_host::Pe) -> Result<(), Error> + Sync) {
    World::builder()
        .pes(2)
        .backend(Backend::Sim)
        .build()
        .unwrap()
        .run(run)
        .unwrap();
}

#[test]
fn copies_come_in_the_streams_order() {
    world(|pe| {
        let (data, side) = (pe.buffer::<u64>(64)?, pe.new_stream()?);
        let mut host = pe.pinned::<u64>(64)?;
        assert_eq!(*host, [0; 64]);
        host.iter_mut().zip(1..).for_each(|(word, i)| *word = i);
        let there = side.copy_from_host(&data, host)?;
        launch!(pe, double<<<1, 64, 0, &side>>>(&data))?;
        let back = side.copy_to_host(pe.pinned(64)?, &data)?;
        let back = back.wait()?;
        assert!(there.is_done());
        assert!(back.iter().zip(1..).all(|(word, i)| *word == 2 * i));
        assert_eq!(there.wait()?[3], 4, "what was copied from stays");
        Ok(())
    });
}

#[test]
fn parts_empty_copies_and_copies_nobody_waits_for() {
    world(|pe| {
        let data = pe.alloc::<u32>(10)?;
        let mut host = pe.pinned::<u32>(3)?;
        host.copy_from_slice(&[7, 8, 9]);
        drop(pe.stream().copy_from_host(data.part(2..5)?, host)?);
        pe.stream().synchronize()?;
        assert_eq!(data.to_vec()?, [0, 0, 7, 8, 9, 0, 0, 0, 0, 0]);
        let none = pe.stream().copy_to_host(pe.pinned(0)?, data.part(4..4)?)?.wait()?;
        assert!(none.is_empty());
        Ok(())
    });
}

#[test]
fn lengths_and_handles_are_checked() {
    world(|pe| {
        let data = pe.buffer::<u32>(10)?;
        let refused = pe.stream().copy_to_host(pe.pinned(9)?, &data).map(drop);
        assert!(
            matches!(refused, Err(Error::Stream(StreamError::Length { dst: 9, src: 10, .. }))),
            "{refused:?}"
        );
        let stale = data.handle();
        drop(data);
        let refused = pe.stream().copy_from_host(stale, pe.pinned(10)?).map(drop);
        assert!(
            matches!(refused, Err(Error::Launch(LaunchError::StaleHandle { .. }))),
            "{refused:?}"
        );
        let capture = pe
            .stream()
            .capture(|| pe.stream().copy_from_host(stale, pe.pinned(10)?).map(drop));
        assert!(matches!(capture, Err(Error::Graph(_))), "{capture:?}");
        Ok(())
    });
}
