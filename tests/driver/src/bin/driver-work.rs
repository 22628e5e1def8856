//! What the tests run on the fake driver: a bit of everything that a host does, with checks of what does not need a kernel.

use anyhow::{Result, ensure};
use cudarc::driver::sys;
use shmem_host::{Buf, Error, HeapError, Pe, Pinned, RegisterError, UserMemory, World};
use std::mem::MaybeUninit;

fn main() -> Result<()> {
    let work: fn(&Pe) -> Result<()> = match std::env::args().nth(1).as_deref() {
        Some("large") => too_large,
        Some("register") => register,
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
