//! What the tests run on the fake driver: a bit of everything that a host does, with checks of what does not need a kernel.

use anyhow::{Result, ensure};
use shmem_host::{Error, HeapError, Pe, World};

fn main() -> Result<()> {
    let large = std::env::args().any(|argument| argument == "large");
    let world = World::from_env()?;
    ensure!(world.backend_name() == "cuda", "this runs on {}", world.backend_name());
    world.run(|pe| if large { too_large(&pe) } else { work(&pe) })?;
    println!("done");
    Ok(())
}

fn work(pe: &Pe) -> Result<()> {
    let words = pe.alloc::<u64>(1000)?;
    words.write(&[u64::from(pe.id()); 1000])?;
    let ready = pe.signals(4)?;
    // More than the heap has at first.
    let more = pe.alloc::<u8>(40 << 20)?;
    ensure!(more.read((40 << 20) - 1)? == 0, "memory of the heap is not zero");
    let own = pe.buffer::<f32>(100)?;
    own.write(&[1.5; 100])?;
    ensure!(own.to_vec()? == [1.5; 100], "a buffer lost what was written");
    pe.barrier_all()?;
    ensure!(words.read(999)? == u64::from(pe.id()), "the heap lost what was written");
    let side = pe.new_stream()?;
    side.barrier_all()?;
    side.synchronize()?;
    let graph = side.capture(|| side.barrier_all())?;
    graph.launch(&side)?;
    side.synchronize()?;
    side.timed(|| side.barrier_all())?;
    drop((more, graph, ready));
    pe.alloc::<u32>(1)?.write(&[7])?;
    pe.barrier_all()?;
    Ok(())
}

/// More than a device has: refused on every PE, and nothing else is.
fn too_large(pe: &Pe) -> Result<()> {
    let refused = pe.alloc::<u8>(800 << 20);
    ensure!(
        matches!(
            &refused,
            Err(Error::Heap(HeapError::OutOfMemory { .. } | HeapError::Refused { .. }))
        ),
        "PE {}: {refused:?}",
        pe.id()
    );
    let fits = pe.alloc::<u8>(34 << 20)?;
    fits.write(&vec![3; 34 << 20])?;
    ensure!(fits.read((34 << 20) - 1)? == 3, "memory was lost");
    Ok(())
}
