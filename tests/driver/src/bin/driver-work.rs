//! What the tests run on the fake driver: a bit of everything that a host does, with checks of what does not need a kernel.

use anyhow::{Result, ensure};
use cudarc::driver::sys;
use shmem::collective::Sum;
use shmem_host::{Buf, Error, HeapError, LaunchError, Pe, Pinned, RegisterError, UserMemory, World};
use std::mem::MaybeUninit;

fn main() -> Result<()> {
    let work: fn(&Pe) -> Result<()> = match std::env::args().nth(1).as_deref() {
        Some("large") => too_large,
        Some("register") => register,
        Some("copies") => |pe| transfers(pe, true),
        Some("kernels") => |pe| transfers(pe, false),
        Some("launches") => launches,
        Some("barrier") => |pe| Ok(pe.barrier_all()?),
        _ => work,
    };
    let world = World::from_env()?;
    ensure!(world.backend_name() == "cuda", "this runs on {}", world.backend_name());
    world.run(|pe| work(&pe))?;
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
    let mut host = pe.pinned::<f32>(100)?;
    host.fill(2.5);
    let host = side_copy(pe, host, &own)?;
    ensure!(
        *host == [2.5; 100] && own.to_vec()? == [2.5; 100],
        "a stream's copy lost something"
    );
    drop(pe.stream().copy_to_host(host, &own)?);
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

/// A barrier, a sum by one block and one by many; the former two again in a graph.
fn launches(pe: &Pe) -> Result<()> {
    let (dst, src, stream) = (pe.alloc::<f32>(4 << 20)?, pe.alloc::<f32>(4 << 20)?, pe.stream());
    let world = pe.world();
    stream.reduce(&world, Sum, &dst, &src)?;
    let few = || -> Result<()> {
        stream.barrier_all()?;
        Ok(stream.reduce(&world, Sum, dst.part(..4)?, src.part(..4)?)?)
    };
    few()?;
    stream.capture(few)?.launch(stream)?;
    Ok(stream.synchronize()?)
}

/// To the device and back, on a stream of its own.
fn side_copy(pe: &Pe, host: Pinned<f32>, device: &Buf<f32>) -> Result<Pinned<f32>> {
    let side = pe.new_stream()?;
    let mut host = side.copy_from_host(device, host)?.wait()?;
    host.fill(0.0);
    Ok(side.copy_to_host(host, device)?.wait()?)
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

/// The fewest bytes of a transfer that the copy engine makes.
const LARGE: usize = 16 << 20;

fn is_all(found: &[u8], byte: u8) -> bool {
    found.iter().all(|found| *found == byte)
}

/// Transfers on streams. Copies are made here, and kernels don't run: whether there is an engine shows in what arrives.
fn transfers(pe: &Pe, engine: bool) -> Result<()> {
    let (inbox, mine, own) = (pe.alloc::<u8>(LARGE)?, pe.alloc::<u8>(LARGE)?, pe.buffer::<u8>(LARGE)?);
    let (me, n, stream) = (pe.id() as u8 + 1, pe.n(), pe.stream());
    let (next, before) = ((pe.id() + 1) % n, ((pe.id() + n - 1) % n) as u8 + 1);
    // All of it once everybody has put, and nobody puts again before all have looked.
    let arrived = |expected: u8, what: &str| -> Result<()> {
        pe.barrier_all()?;
        let found = inbox.to_vec()?;
        let expected = if engine { expected } else { 0 };
        ensure!(
            is_all(&found, expected),
            "PE {me}: {what} of {expected}: {} .. {}",
            found[0],
            found[LARGE - 1]
        );
        inbox.write(&vec![0; LARGE])?;
        Ok(pe.barrier_all()?)
    };
    mine.write(&vec![me; LARGE])?;
    own.write(&vec![10 * me; LARGE])?;

    stream.put(inbox.part(..LARGE - 1)?, mine.part(1..)?, next)?;
    stream.synchronize()?;
    pe.barrier_all()?;
    ensure!(is_all(&inbox.to_vec()?, 0), "a small put was no kernel");
    pe.barrier_all()?;
    stream.put(&inbox, &mine, next)?;
    stream.synchronize()?;
    arrived(before, "a put of symmetric memory")?;
    stream.put(&inbox, &own, next)?;
    stream.synchronize()?;
    arrived(10 * before, "a put of other memory")?;
    stream.get(&inbox, &mine, next)?;
    stream.synchronize()?;
    arrived(next as u8 + 1, "a get to symmetric memory")?;
    stream.get(&own, &mine, next)?;
    stream.synchronize()?;
    let expected = if engine { next as u8 + 1 } else { 10 * me };
    ensure!(is_all(&own.to_vec()?, expected), "a get to other memory");
    pe.barrier_all()?;

    let graph = stream.capture(|| stream.put(&inbox, &mine, next))?;
    ensure!(graph.launches() == 1, "a graph of {} launches", graph.launches());
    pe.barrier_all()?;
    ensure!(is_all(&inbox.to_vec()?, 0), "what was recorded ran");
    pe.barrier_all()?;
    let side = pe.new_stream()?;
    // SAFETY: the stream is dropped after it.
    let adopted = unsafe { pe.stream_from_raw(side.as_raw()) }?;
    graph.launch(&adopted)?;
    adopted.synchronize()?;
    arrived(before, "a put of a graph")?;
    adopted.put(&inbox, &own, next)?;
    adopted.synchronize()?;
    arrived(me, "a put, on a stream from elsewhere, of what was got from here")?;

    let stale = mine.handle();
    drop(mine);
    for refused in [
        stream.put(&inbox, stale, next),
        stream.get(&own, stale, next),
        stream.put_signal(&inbox, stale, pe.signals(1)?.at(0)?.set(1), next),
        graph.launch(stream),
    ] {
        ensure!(
            matches!(refused, Err(Error::Launch(LaunchError::StaleHandle { .. }))),
            "of memory that was dropped: {refused:?}"
        );
    }
    arrived(0, "what was refused")
}

/// Bytes that a program has by the driver's own calls.
const OWN: usize = 4 << 20;

/// Memory that can be exported, on this PE's device; it stays mapped.
fn own_memory(pe: &Pe, handle_types: sys::CUmemAllocationHandleType) -> Result<u64> {
    let (mut address, mut handle) = (0, 0);
    // SAFETY: zeros are a prop.
    let mut prop: sys::CUmemAllocationProp = unsafe { MaybeUninit::zeroed().assume_init() };
    prop.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.requestedHandleTypes = handle_types;
    prop.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = pe.device_index().unwrap_or(0) as i32;
    let access = sys::CUmemAccessDesc {
        location: prop.location,
        flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    // SAFETY: as the manual has it: a range is reserved, filled with new memory as a whole, and opened.
    unsafe {
        sys::cuMemAddressReserve(&raw mut address, OWN, 0, 0, 0).result()?;
        sys::cuMemCreate(&raw mut handle, OWN, &raw const prop, 0).result()?;
        sys::cuMemMap(address, OWN, 0, handle, 0).result()?;
        sys::cuMemRelease(handle).result()?;
        sys::cuMemSetAccess(address, OWN, &raw const access, 1).result()?;
    }
    Ok(address)
}

fn free(address: u64) -> Result<()> {
    // SAFETY: from `own_memory`, and nothing uses it.
    unsafe {
        sys::cuMemUnmap(address, OWN).result()?;
        sys::cuMemAddressFree(address, OWN).result()?;
    }
    Ok(())
}

fn register(pe: &Pe) -> Result<()> {
    let descriptor = sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    let address = own_memory(pe, descriptor)?;
    for round in 0..3 {
        let data = pe.register::<u64>(UserMemory::Device { address }, OWN / 8)?;
        data.write(&vec![u64::from(pe.id()) + round; OWN / 8])?;
        // The heap grows below it.
        let heap = pe.alloc::<u8>((40 << 20) * (round as usize + 1))?;
        heap.write(&[1; 64])?;
        ensure!(
            data.read(OWN / 8 - 1)? == u64::from(pe.id()) + round,
            "what was written is not there"
        );
        drop((data, heap));
        pe.barrier_all()?;
    }
    // It stays when the program lets go of it.
    let data = pe.register::<u64>(UserMemory::Device { address }, OWN / 8)?;
    free(address)?;
    ensure!(data.read(0)? == u64::from(pe.id()) + 2, "the memory is gone");

    let refused = |memory: u64, len: usize| pe.register::<u8>(UserMemory::Device { address: memory }, len);
    let buffer = pe.buffer::<u8>(4 << 20)?;
    let plain = refused(buffer.address(), 100).map(drop);
    ensure!(
        matches!(plain, Err(Error::Register(RegisterError::NoHandle { .. }))),
        "{plain:?}"
    );
    let mute = own_memory(pe, sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE)?;
    let without = refused(mute, 100).map(drop);
    ensure!(
        matches!(without, Err(Error::Register(RegisterError::NoHandle { .. }))),
        "{without:?}"
    );
    free(mute)?;
    let small = own_memory(pe, descriptor)?;
    let short = refused(small, OWN + 1).map(drop);
    ensure!(
        matches!(short, Err(Error::Register(RegisterError::TooShort { .. }))),
        "{short:?}"
    );
    let inside = refused(small + (2 << 20), 100).map(drop);
    ensure!(
        matches!(inside, Err(Error::Register(RegisterError::NoHandle { .. }))),
        "{inside:?}"
    );
    free(small)?;
    pe.barrier_all()?;
    Ok(())
}
