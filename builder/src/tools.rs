//! CUDA's assembler and disassemblers, for whoever wants to look at what the PTX becomes, and for [`Kernels::assemble`](crate::Kernels::assemble). Building
//! needs none of them.

use std::env;
use std::path::PathBuf;

/// The toolkit that they are of: the one of the drivers that this project is measured with. What ptxas 13.5 makes of a put of 64 KiB by
/// 32 blocks goes at 230 GB/s, what driver 580, which is of CUDA 13.0, makes of it at 340.
pub const TOOLKIT: &str = "13.0";

/// The folder that `cargo xtask setup` fills; nothing where [`crate::sysroot::cache`] has no folder.
pub fn folder() -> Option<PathBuf> {
    Some(
        crate::sysroot::cache()
            .ok()?
            .join(format!("cuda-{TOOLKIT}"))
            .join("bin"),
    )
}

/// Where `ptxas`, `cuobjdump` or `nvdisasm` is: in `SHMEM_CUDA_BIN`, in [`folder`], or on the PATH.
///
/// ```
/// match shmem_build::tools::find("ptxas") {
///     Some(ptxas) => println!("{}", ptxas.display()),
///     None => println!("no ptxas: PTX stays unchecked until a GPU's driver loads it"),
/// }
/// ```
pub fn find(name: &str) -> Option<PathBuf> {
    let given = env::var_os(crate::settings::CUDA_BIN).map(PathBuf::from);
    let path = env::var_os("PATH").unwrap_or_default();
    given
        .into_iter()
        .chain(folder())
        .chain(env::split_paths(&path))
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}
