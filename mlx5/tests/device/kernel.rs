//! What a kernel does with this crate: builds an entry, stores it, makes the doorbell's words. See `../device.rs`.
#![no_std]
#![feature(abi_ptx)]

use shmem_mlx5::completion::Tail;
use shmem_mlx5::entry::{self, Masked};
use shmem_mlx5::{Index, Length, Local, LocalKey, Post, QueuePair, Remote, RemoteKey, Unit, doorbell};

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// # Safety
/// `queue` has room for 12 units.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn post(
    queue: *mut Unit,
    out: *mut u64,
    index: u16,
    number: u32,
    to: u64,
    from: u64,
    bytes: u32,
    polled: u32,
) {
    let (Some(qp), Some(length)) = (QueuePair::new(number), Length::new(bytes)) else {
        return;
    };
    let (to, from) = (
        Remote {
            address: to,
            key: RemoteKey(7),
        },
        Local {
            address: from,
            key: LocalKey(9),
        },
    );
    let mut at = 0;
    let mut store = |unit: Unit| {
        // SAFETY: there is room, says the caller.
        unsafe { queue.add(at).write(unit) };
        at += 1;
    };
    let _ = entry::write(Post::new(Index::new(index), qp).signalled(), to, from, length).map(&mut store);
    let what = Masked {
        swap: to.address,
        compare: 1,
        swap_mask: 2,
        compare_mask: 3,
    };
    let next = Index::new(index).after(3);
    let units = entry::masked_compare_swap64(Post::new(next, qp).fenced(), to, what, from);
    let _ = units.map(&mut store);
    let done = Tail::from_raw(polled);
    // SAFETY: there is room, says the caller.
    unsafe {
        out.write(doorbell::register(units[0]).raw());
        out.add(1).write(doorbell::record(next.after(5)).raw() as u64);
        out.add(2)
            .write(u64::from(done.index().has_reached(next)) | u64::from(done.is_error()) << 1);
    }
}
