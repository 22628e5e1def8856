//! Packets of every form: exchanged for many epochs without a barrier, by lanes, as runs, from registers. That a packet is never
//! torn is what the values show: every word of one follows from the others.
use shmem::packet::{self, Packet, Payload};
use shmem::prelude::*;

/// A payload made of one number, and the number where all its words fit together.
pub trait Word: Payload + PartialEq {
    fn new(x: u32) -> Self;
}

macro_rules! words { ($($t:ty: |$x:ident| $value:expr;)*) => { $(
    impl Word for $t {
        #[inline(always)]
        fn new($x: u32) -> Self { $value }
    }
)* } }
words! {
    u32: |x| x;
    u64: |x| u64::from(x) | u64::from(!x) << 32;
    [u32; 3]: |x| [x, !x, x.rotate_left(7)];
    [u16; 2]: |x| [x as u16, !x as u16];
    // Finite: what is no number is not equal to itself.
    [bf16; 6]: |x| [x, 1, 2, x, 3, 4].map(|x| bf16::from_bits(x as u16 & 0xbfff));
}

/// Every PE sends to every other in each epoch: a slot for each thread. Then the same as a run, and from registers.
#[kernel(collective, max_block = 256, for<u32>, for<u64>, for<[u32; 3]>, for<[u16; 2]>, for<[bf16; 6]>)]
pub fn exchange<T: Word>(
    all: Collective,
    slots: SymSlice<Packet<T>>,
    data: SymSlice<T>,
    first: u32,
    epochs: u32,
    wrong: Global<u32>,
) {
    let (me, n, t, size) = (shmem::my_pe(), shmem::n_pes(), thread::index(), Block.size());
    let value = |epoch: u32, pe: u32, i: u32| T::new(epoch.wrapping_mul(0x9e37_79b9) ^ (pe << 16) ^ i);
    let run = 2 * size;
    for epoch in first..first + epochs {
        let half = packet::half(slots, epoch);
        let of = |pe: u32| half.chunk(pe, run);
        let (mine, theirs) = (data.chunk(0, run), data.chunk(1, run));
        match epoch % 3 {
            0 => {
                for k in 1..n {
                    let to = (me + k) % n;
                    packet::send(of(me).at(t), value(epoch, me, t), epoch, to);
                    packet::send(of(me).at(t + size), value(epoch, me, t + size), epoch, to);
                }
                for pe in (0..n).filter(|pe| *pe != me) {
                    // Another thread's packet.
                    let i = run - 1 - t;
                    if packet::receive(of(pe).at(i), epoch) != value(epoch, pe, i)
                        || packet::receive(of(pe).at(i - size), epoch) != value(epoch, pe, i - size)
                    {
                        wrong.store(0, epoch);
                    }
                }
            }
            1 => {
                // What another thread sends.
                for i in Block.strided(run) {
                    store(mine, run - 1 - i, value(epoch, me, run - 1 - i));
                }
                Block.sync();
                for k in 1..n {
                    packet::send_run(Block, of(me), mine, epoch, (me + k) % n);
                }
                for pe in (0..n).filter(|pe| *pe != me) {
                    packet::receive_run(Block, theirs, of(pe), epoch);
                    Block.sync();
                    for i in Block.strided(run) {
                        // What another thread has received.
                        if load(theirs, run - 1 - i) != value(epoch, pe, run - 1 - i) {
                            wrong.store(0, epoch);
                        }
                    }
                    Block.sync();
                }
            }
            _ => {
                for k in 1..n {
                    let values = [value(epoch, me, t), value(epoch, me, t + size)];
                    packet::send_each(Block, of(me), values, epoch, (me + k) % n);
                }
                for pe in (0..n).filter(|pe| *pe != me) {
                    let got: [T; 2] = packet::receive_each(Block, of(pe), epoch);
                    if got[0] != value(epoch, pe, t) || got[1] != value(epoch, pe, t + size) {
                        wrong.store(0, epoch);
                    }
                }
            }
        }
        Block.sync();
    }
    // The slots are freed.
    all.barrier(Block, shmem::world());
}

/// Payloads of 12 bytes are no elements of one access: by their parts of 2 bytes.
#[inline(always)]
fn store<T: Word>(x: SymSlice<T>, i: u32, value: T) {
    let (n, value) = (size_of::<T>() as u32 / 2, [value]);
    let parts: &[u16] = shmem::bytemuck::cast_slice(&value);
    let x = x.cast::<u16>();
    for k in 0..n {
        x.store(i * n + k, parts[k as usize]);
    }
}

#[inline(always)]
fn load<T: Word>(x: SymSlice<T>, i: u32) -> T {
    let (n, mut parts) = (size_of::<T>() as u32 / 2, [0u16; 6]);
    let x = x.cast::<u16>();
    for k in 0..n {
        parts[k as usize] = x.load(i * n + k);
    }
    shmem::bytemuck::pod_read_unaligned(&shmem::bytemuck::bytes_of(&parts)[..size_of::<T>()])
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::suite::{Case, full_or_little};
    use anyhow::ensure;
    use shmem::Kernel;
    use shmem_host::{LaunchConfig, Pe};

    pub const CASES: &[Case] = &[
        Case {
            name: "packets of 4 bytes",
            run: |pe| {
                exchanged::<u32>(pe)?;
                exchanged::<[u16; 2]>(pe)
            },
        },
        Case {
            name: "packets of 8 bytes",
            run: exchanged::<u64>,
        },
        Case {
            name: "packets of 12 bytes",
            run: |pe| {
                exchanged::<[u32; 3]>(pe)?;
                exchanged::<[bf16; 6]>(pe)
            },
        },
    ];

    /// Two launches, the second of which counts on.
    fn exchanged<T: Word>(pe: &Pe) -> anyhow::Result<()>
    where
        exchange<T>: Kernel<Args = (SymSlice<Packet<T>>, SymSlice<T>, u32, u32, Global<u32>)>,
    {
        let gpu = pe.device_name() != "the simulator";
        let (epochs, block) = if gpu {
            (full_or_little(20_000, 1000), 256)
        } else {
            full_or_little((30, 48), (3, 32))
        };
        let count = 2 * pe.n() as usize * 2 * block as usize;
        let slots = pe.alloc::<Packet<T>>(count)?;
        let (data, wrong) = (pe.alloc::<T>(4 * block as usize)?, pe.buffer::<u32>(1)?);
        wrong.write(&[0])?;
        pe.barrier_all()?;
        for launch in 0..2 {
            pe.launch(
                LaunchConfig::new(1, block).collective(),
                exchange::<T>(&slots, &data, 1 + launch * epochs, epochs, &wrong),
            )?;
        }
        ensure!(wrong.read(0)? == 0, "epoch {}", wrong.read(0)?);
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::CASES;
