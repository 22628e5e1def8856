//! Bad input to the host side: refused with a typed error that names the values, and the world goes on.
use shmem::prelude::*;

#[kernel(max_block = 1024)]
pub fn touch(x: SymSlice<u32>) {
    if Block.id() == 0 && Block.leader() {
        x.store(0, 1);
    }
}

#[kernel]
pub fn touch_one(x: Sym<u32>) {
    if Block.leader() {
        x.store(1);
    }
}

#[kernel]
pub fn touch_both(x: [SymSlice<u32>; 2]) {
    if Block.leader() {
        x[0].store(0, 1);
        x[1].store(0, 1);
    }
}

#[kernel]
pub fn touch_own(x: Global<u32>) {
    if Block.leader() {
        x.store(0, 1);
    }
}

#[kernel(collective, block = 64)]
pub fn exactly_64(all: Collective) {
    all.barrier(Block, shmem::world());
}

#[kernel]
pub fn by_warps(x: SymSlice<u32>) {
    if Warp.leader() {
        x.store(Warp.id(), 1);
    }
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;
    use crate::suite::{Case, full_or_little};
    use anyhow::{bail, ensure};
    use shmem::state::{LAYOUT, MAX_PES};
    use shmem_host::{Backend, ConfigError, Error, HeapError, ImageError, LaunchError, Pe, World};
    use shmem_host::{collective_launch, launch};

    pub const CASES: &[Case] = &[
        Case {
            name: "refused: shapes of a launch",
            run: shapes,
        },
        Case {
            name: "refused: handles of freed buffers",
            run: freed,
        },
        Case {
            name: "refused: handles whose place a newer buffer has",
            run: reused,
        },
        Case {
            name: "refused: allocations larger than memory",
            run: too_large,
        },
        Case {
            name: "refused: PTX that does not fit",
            run: ptx,
        },
    ];

    /// That `result` is an error which matches, and says these words.
    macro_rules! refused {
        ($result:expr, $pattern:pat, $($word:expr),*) => {
            match $result {
                Err(error @ $pattern) => {
                    let text = error.to_string();
                    $(ensure!(text.contains($word), "`{}` is not in: {text}", $word);)*
                }
                Err(error) => bail!("another error: {error}"),
                Ok(_) => bail!("not refused: {}", stringify!($result)),
            }
        };
    }

    fn shapes(pe: &Pe) -> anyhow::Result<()> {
        let x = pe.alloc::<u32>(64)?;
        refused!(
            collective_launch!(pe, touch<<<1, 0>>>(&x)),
            Error::Launch(LaunchError::Block { .. }),
            "touch",
            "1024"
        );
        refused!(
            collective_launch!(pe, touch<<<1, 1025>>>(&x)),
            Error::Launch(LaunchError::Block { .. }),
            "1025",
            "1024"
        );
        refused!(
            collective_launch!(pe, touch<<<1, (32, 33)>>>(&x)),
            Error::Launch(LaunchError::Block { .. }),
            "1024"
        );
        refused!(
            collective_launch!(pe, touch<<<0, 32>>>(&x)),
            Error::Launch(LaunchError::Grid { .. }),
            "touch"
        );
        let most = pe.max_collective_grid::<touch>(1024, 0)?;
        ensure!(most > 0, "not even one block fits");
        refused!(
            collective_launch!(pe, touch<<<most + 1, 1024>>>(&x)),
            Error::Launch(LaunchError::GridTooLarge { .. }),
            &(most + 1).to_string(),
            &most.to_string()
        );
        refused!(
            collective_launch!(pe, exactly_64<<<1, 32>>>()),
            Error::Launch(LaunchError::BlockBounds { .. }),
            "64",
            "32"
        );
        refused!(
            launch!(pe, exactly_64<<<1, 64>>>()),
            Error::Launch(LaunchError::NeedsCollectiveLaunch { .. }),
            "exactly_64"
        );
        refused!(
            collective_launch!(pe, touch<<<1, 32, 1 << 24>>>(&x)),
            Error::Launch(LaunchError::SharedMemory { .. }),
            "16777216"
        );
        if pe.device_name() != "the simulator" {
            refused!(
                collective_launch!(pe, by_warps<<<1, 48>>>(&x)),
                Error::Launch(LaunchError::Tile { .. }),
                "48",
                "32"
            );
        }
        // The largest grid that fits does run.
        if full_or_little(true, false) {
            collective_launch!(pe, touch<<<most, 1024>>>(&x))?;
            ensure!(x.read(0)? == 1);
        }
        Ok(())
    }

    fn freed(pe: &Pe) -> anyhow::Result<()> {
        let x = pe.alloc::<u32>(64)?;
        let stale = x.handle();
        drop(x);
        refused!(
            collective_launch!(pe, touch<<<1, 32>>>(stale)),
            Error::Launch(LaunchError::StaleHandle { .. }),
            "touch"
        );
        refused!(
            collective_launch!(pe, touch<<<1, 32>>>(SymSlice::__new(1 << 40, 4))),
            Error::Launch(LaunchError::StaleHandle { .. }),
            "touch"
        );
        Ok(())
    }

    /// A freed place is given out again, and an old handle of it, or of a part of it, must not reach the newer buffer.
    fn reused(pe: &Pe) -> anyhow::Result<()> {
        let old = pe.alloc::<u32>(64)?;
        let (whole, part, element) = (old.handle(), old.handle().chunk(1, 16), old.handle().at(3));
        drop(old);
        pe.barrier_all()?;
        let new = pe.alloc::<u64>(16)?;
        let place = |region: &str| region.split(',').next().map(str::to_owned);
        ensure!(
            place(&format!("{whole:?}")) == place(&format!("{:?}", new.handle())),
            "the place was not given out again: {whole:?}, {:?}",
            new.handle()
        );
        let newer = "a newer one, 128 bytes at offset";
        refused!(
            collective_launch!(pe, touch<<<1, 32>>>(part)),
            Error::Launch(LaunchError::StaleHandle { .. }),
            "names 64 bytes",
            newer
        );
        refused!(
            collective_launch!(pe, touch<<<1, 32>>>(whole)),
            Error::Launch(LaunchError::StaleHandle { .. }),
            "touch: an argument names 256 bytes at offset",
            newer
        );
        refused!(
            collective_launch!(pe, touch_one<<<1, 32>>>(element)),
            Error::Launch(LaunchError::StaleHandle { .. }),
            "names 4 bytes",
            newer
        );
        refused!(
            collective_launch!(pe, touch_both<<<1, 32>>>([new.handle().cast(), part])),
            Error::Launch(LaunchError::StaleHandle { .. }),
            newer
        );
        // Handles made from the newer one's are its own.
        collective_launch!(pe, touch<<<1, 32>>>(new.handle().slice(4..8).cast::<u32>()))?;
        collective_launch!(pe, touch_one<<<1, 32>>>(new.handle().cast::<u32>().at(31)))?;
        let parts = [new.handle().chunk(0, 2).cast(), new.handle().chunk(1, 2).cast()];
        collective_launch!(pe, touch_both<<<1, 32>>>(parts))?;
        let mut expected = [0; 16];
        (expected[0], expected[2], expected[4], expected[15]) = (1, 1, 1, 1 << 32);
        ensure!(new.to_vec()? == expected, "{:?}", new.to_vec()?);

        // The same of memory that a PE has for itself.
        let old = pe.buffer::<u32>(64)?;
        let stale = old.handle();
        drop(old);
        let again = pe.buffer::<u32>(64)?;
        refused!(
            collective_launch!(pe, touch_own<<<1, 32>>>(stale)),
            Error::Launch(LaunchError::StaleHandle { .. }),
            "touch_own"
        );
        collective_launch!(pe, touch_own<<<1, 32>>>(&again))?;
        ensure!(again.read(0)? == 1);
        Ok(())
    }

    fn too_large(pe: &Pe) -> anyhow::Result<()> {
        refused!(
            pe.alloc::<u64>(usize::MAX / 4),
            Error::Heap(HeapError::TooLarge { .. } | HeapError::Limit { .. }),
            ""
        );
        refused!(
            pe.alloc::<u8>(1 << 50),
            Error::Heap(HeapError::Limit { .. } | HeapError::OutOfMemory { .. }),
            "1125899906842624"
        );
        refused!(
            pe.buffer::<u8>(1 << 50),
            Error::Heap(HeapError::OutOfMemory { .. }),
            "1125899906842624"
        );
        // The world goes on.
        let x = pe.alloc::<u32>(4)?;
        collective_launch!(pe, touch<<<1, 32>>>(&x))?;
        ensure!(x.read(0)? == 1);
        Ok(())
    }

    fn ptx(pe: &Pe) -> anyhow::Result<()> {
        let text = |arch: u32, layout: u64| {
            format!(
                ".version 7.0\n.target sm_{arch}\n.address_size 64\n.visible .const .align 8 .b8 SHMEM_STATE[8248];\n\
                 .visible .global .align 8 .u64 SHMEM_LAYOUT = {layout};\n.visible .global .align 4 .u32 SHMEM_NETWORK = 1;\n\
                 .visible .entry nothing()\n{{\n\tret;\n}}\n"
            )
        };
        if pe.device_name() == "the simulator" {
            refused!(
                pe.load_ptx(&text(80, LAYOUT)),
                Error::Image(ImageError::NotOnThisBackend { .. }),
                "sim"
            );
            return Ok(());
        }
        refused!(
            pe.load_ptx(&text(150, LAYOUT)),
            Error::Image(ImageError::Architecture { .. }),
            "sm_150"
        );
        refused!(
            pe.load_ptx(&text(80, 12345)),
            Error::Image(ImageError::Stale { .. }),
            "0x0000000000003039"
        );
        refused!(
            pe.load_ptx("no PTX at all"),
            Error::Image(ImageError::Damaged { .. }),
            ".target"
        );
        if pe.network_counters().is_some() {
            let plain = text(80, LAYOUT).replace("SHMEM_NETWORK", "OTHER");
            refused!(
                pe.load_ptx(&plain),
                Error::Image(ImageError::NoNetwork { .. }),
                "SHMEM_NETWORK=1"
            );
        }
        let broken = text(80, LAYOUT).replace("ret;", "this is no instruction;");
        refused!(pe.load_ptx(&broken), Error::Image(ImageError::Compile { .. }), "PE");
        Ok(())
    }

    /// Worlds that can't be made.
    pub fn worlds(backend: Backend) -> anyhow::Result<()> {
        let with = |pes| World::builder().backend(backend).pes(pes).build();
        refused!(with(0), Error::Config(ConfigError::NoPes), "0 PEs");
        refused!(
            with(MAX_PES as u32 + 1),
            Error::Config(ConfigError::TooManyPes { .. }),
            "1025"
        );
        if backend == Backend::Cuda {
            refused!(
                with(MAX_PES as u32),
                Error::Config(ConfigError::TooManyForDevices { .. }),
                "1024 PEs"
            );
        }
        Ok(())
    }
}
#[cfg(not(target_arch = "nvptx64"))]
pub use host::{CASES, worlds};
