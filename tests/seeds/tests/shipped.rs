//! Every kernel that is shipped is clean over as many seeds as `SHMEM_SIM_SEEDS` says; else over 200, or 8 where the kernels
//! are not optimised.
use seeds::{programs, sweep};

#[test]
fn shipped_kernels_are_clean() {
    let default = if cfg!(debug_assertions) { 8 } else { 200 };
    let seeds = std::env::var("SHMEM_SIM_SEEDS").map_or(default, |n| n.parse().expect("SHMEM_SIM_SEEDS is a number"));
    let failed: Vec<String> = programs()
        .iter()
        .filter_map(|program| Some(format!("{}: {}", program.name, sweep(program, 0..seeds, None).err()?)))
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
