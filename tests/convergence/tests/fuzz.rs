//! Random kernels keep each of their convergent calls in one place.
//!
//! `SHMEM_FUZZ_KERNELS=1500 SHMEM_FUZZ_SEED=7` for a longer run (5 minutes). Two things are failures at once: a call whose
//! copies are alternatives (arms of a branch, loops for different states), and one that moved into an arm. A call whose
//! first round was peeled off its loop is printed and let pass: all lanes come to the first copy together. What tells the
//! two apart is not a proof (two nested loops made of one would pass), so it may be one call in a thousand at most: 10 of
//! 44,902 when kernels accessed memory through plain pointers, none of 45,358 with the checked accesses of today.

mod common;

use shmem_build::{Arch, CudaBuilder, Error};
use shmem_convergence::flow::Copies;
use shmem_convergence::fuzz::{Duplicate, Form, Kernel, kernels, outcome};
use shmem_convergence::ptx;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::{env, fs};

/// How many are compiled together: LLVM takes 3.4 GB for 1500.
const BATCH: usize = 100;
/// Kernels with `asm!` in place of the intrinsics, to see that the fuzzer finds what it looks for.
const BARE: usize = 12;

#[test]
fn convergent_calls_of_random_kernels_stay_in_one_place() {
    let first = setting("SHMEM_FUZZ_SEED", 1);
    let mut left = setting("SHMEM_FUZZ_KERNELS", 60) as usize;
    let (mut sites, mut peeled) = (0, 0);
    for seed in first.. {
        let n = left.min(BATCH);
        let kernels = kernels(seed, n, "k", Form::Shmem);
        let Some(ptx) = compile("k", &kernels) else { return };
        let tally = Tally::of(&kernels, &ptx);
        println!("seed {seed}, {n} kernels: {}", tally.summary);
        let again = format!("PTX in target/tmp/fuzz/k.ptx; again: SHMEM_FUZZ_SEED={seed} SHMEM_FUZZ_KERNELS={n}");
        assert!(tally.harmful.is_empty(), "{again}\n{}", tally.harmful.join("\n"));
        sites += tally.sites;
        peeled += tally.peeled;
        left -= n;
        if left == 0 {
            break;
        }
    }
    assert!(
        peeled <= 1 + sites / 1000,
        "{peeled} of {sites} calls with a peeled round are too many"
    );
}

/// Otherwise the test above could not fail.
#[test]
fn asm_in_random_kernels_is_duplicated() {
    let kernels = kernels(1, BARE, "bare", Form::Bare);
    let Some(ptx) = compile("bare", &kernels) else { return };
    let tally = Tally::of(&kernels, &ptx);
    println!("{BARE} kernels with asm!: {}", tally.summary);
    assert!(
        !tally.harmful.is_empty(),
        "the fuzzer finds nothing any more: {}",
        tally.summary
    );
}

/// What became of many kernels.
#[derive(Default)]
struct Tally {
    sites: usize,
    peeled: usize,
    summary: String,
    /// One message for each call, with its kernel.
    harmful: Vec<String>,
}

impl Tally {
    fn of(kernels: &[Kernel], ptx: &str) -> Self {
        let (mut tally, mut gone) = (Self::default(), 0);
        for kernel in kernels {
            let Kernel { name, source, sites } = kernel;
            let body = ptx::body(ptx, &format!("shmem_fuzz${name}$")).unwrap_or_else(|| panic!("no entry {name}"));
            let outcome = outcome(kernel, body);
            tally.sites += sites.len();
            gone += outcome.gone;
            for Duplicate { call, times, copies } in outcome.duplicates {
                if copies == Copies::Sequence {
                    tally.peeled += 1;
                    println!("{name}: {call} stands {times} times, one after the other");
                } else {
                    tally.harmful.push(format!(
                        "{name}: {call} stands {times} times, in alternatives\n{source}"
                    ));
                }
            }
            tally.harmful.extend(
                outcome
                    .sunk
                    .iter()
                    .map(|call| format!("{name}: {call} moved into an arm\n{source}")),
            );
        }
        let Self {
            sites, peeled, harmful, ..
        } = &tally;
        let harmful = harmful.len();
        tally.summary = format!(
            "{sites} calls, {harmful} in alternatives or moved, {peeled} with a peeled round, {gone} gone or merged"
        );
        tally
    }
}

/// The PTX of these kernels, as a package of their own; `None` where there is no compiler for it. `<name>.ptx` beside the
/// package stays for whoever looks into a failure.
fn compile(name: &str, kernels: &[Kernel]) -> Option<String> {
    // The tests of this file run side by side.
    static FOLDER: Mutex<()> = Mutex::new(());
    let _held = FOLDER.lock().unwrap_or_else(PoisonError::into_inner);
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the package lies in tests/");
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz");
    let write = |path: &str, text: &str| fs::write(dir.join(path), text).expect("the test's folder can be written");
    fs::create_dir_all(dir.join("src")).expect("the test's folder can be made");
    let shmem = workspace.join("shmem-intrinsics").display().to_string();
    write(
        "Cargo.toml",
        &include_str!("fuzz/Cargo.toml.in").replace("SHMEM_INTRINSICS", &shmem),
    );
    let source: String = kernels.iter().map(|kernel| kernel.source.as_str()).collect();
    write("src/lib.rs", &format!("{}\n{source}", include_str!("fuzz/lib.rs.in")));
    lock(workspace, &dir);
    match CudaBuilder::new(&dir)
        .arch(Arch::Sm90)
        .copy_to(dir.join(format!("{name}.ptx")))
        .build()
    {
        Ok(path) => Some(fs::read_to_string(path).expect("the builder wrote it")),
        Err(error @ (Error::Off | Error::NoToolchain { .. })) => {
            common::skip(error);
            None
        }
        Err(error) => panic!("{}: {error}", dir.display()),
    }
}

/// Gives the package the dependencies that the workspace has locked: they are on this machine, whatever the network does.
fn lock(workspace: &Path, dir: &Path) {
    drop(fs::copy(workspace.join("Cargo.lock"), dir.join("Cargo.lock")));
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["update", "--workspace", "--offline"])
        .current_dir(dir)
        .output();
    let output = output.expect("cargo runs");
    assert!(
        output.status.success(),
        "cargo update: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn setting(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| {
        text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number"))
    })
}
