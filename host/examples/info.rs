//! Prints settings, devices and versions: what `cargo xtask info` runs.

fn main() -> Result<(), shmem_host::Error> {
    print!("{}", shmem_host::info()?);
    Ok(())
}
