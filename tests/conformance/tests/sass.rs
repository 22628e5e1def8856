//! What the assembler makes of the kernels: the machine instructions that the lowering promises, and no others.

use shmem::Kernel;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// The machine code of one kernel for sm_90, a line per instruction, or nothing where the tools are missing.
struct Sass {
    instructions: Vec<String>,
}

impl Sass {
    fn of<K: Kernel>() -> Option<Self> {
        let required = std::env::var("SHMEM_PTX").as_deref() == Ok("require");
        let (ptxas, cuobjdump) = (shmem_build::tools::find("ptxas"), shmem_build::tools::find("cuobjdump"));
        let image = K::images().list.iter().rfind(|i| i.arch <= 90);
        let (Some(ptxas), Some(cuobjdump), Some(image)) = (ptxas, cuobjdump, image) else {
            assert!(
                !required,
                "SHMEM_PTX=require: no PTX, or no ptxas and cuobjdump (cargo xtask setup)"
            );
            println!("skipped: no PTX, or no ptxas and cuobjdump");
            return None;
        };
        let cubin = assembled(&ptxas, K::images().id, image.ptx);
        let text = output(Command::new(cuobjdump).args(["-sass", "-fun", K::SYMBOL]).arg(&cubin));
        let instructions: Vec<String> = text
            .lines()
            .filter_map(|l| l.trim().strip_prefix("/*")?.split_once("*/"))
            .map(|(_, code)| code.split("/*").next().unwrap_or("").trim().to_owned())
            .filter(|code| code.ends_with(';'))
            .collect();
        assert!(instructions.len() > 10, "no code for {}: {text}", K::SYMBOL);
        Some(Self { instructions })
    }

    /// Read-modify-writes of device memory whose text has all parts.
    fn atomics(&self, parts: &[&str]) -> usize {
        let atomic = |i: &&String| i.contains("ATOMG.") || i.contains("RED.") || i.contains("REDG.");
        let all = self.instructions.iter().filter(atomic);
        all.filter(|i| parts.iter().all(|p| i.contains(p))).count()
    }

    fn count(&self, parts: &[&str]) -> usize {
        self.instructions
            .iter()
            .filter(|i| parts.iter().all(|p| i.contains(p)))
            .count()
    }
}

/// The package's machine code. It holds many kernels, so that it is made once for all tests.
fn assembled(ptxas: &Path, id: u64, text: &str) -> PathBuf {
    static MADE: Mutex<()> = Mutex::new(());
    let _one_at_a_time = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    // `cargo xtask test` does not assemble again what it finds under such a name.
    let cubin = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{id:x}.sm_90.cubin"));
    if !cubin.exists() {
        let (ptx, part) = (cubin.with_extension("ptx"), cubin.with_extension("part"));
        std::fs::write(&ptx, text).unwrap();
        output(Command::new(ptxas).args(["-arch=sm_90", "-o"]).arg(&part).arg(&ptx));
        std::fs::rename(part, &cubin).unwrap();
    }
    cubin
}

fn output(command: &mut Command) -> String {
    let out = command.output().unwrap();
    assert!(
        out.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn put_moves_16_bytes_at_a_time_with_eight_in_flight_and_no_local_memory() {
    let Some(sass) = Sass::of::<shmem_perf::bandwidth<0>>() else {
        return;
    };
    assert!(sass.count(&["LDG.E.128"]) >= 8, "{:#?}", sass.instructions);
    assert!(sass.count(&["STG.E.128.STRONG.SYS"]) >= 8);
    let longest = longest_run(&sass.instructions, "LDG.E.128", &["STG", "LDG.E.64", "BRA"]);
    assert!(longest >= 8, "{longest} loads before the first store");
    assert_eq!(sass.count(&["LDL"]) + sass.count(&["STL"]), 0, "local memory");
    // Every store of a put is strong; what is left of weak ones writes the fault record.
    assert_eq!(sass.count(&["STG.E.128"]), sass.count(&["STG.E.128.STRONG.SYS"]));
}

/// The most `wanted` in a row, other instructions than `breaks` between them allowed.
fn longest_run(instructions: &[String], wanted: &str, breaks: &[&str]) -> usize {
    let (mut longest, mut run) = (0, 0);
    for i in instructions {
        if i.contains(wanted) {
            run += 1;
            longest = longest.max(run);
        } else if breaks.iter().any(|b| i.contains(b)) {
            run = 0;
        }
    }
    longest
}

#[test]
fn signals_and_waits_are_at_system_scope() {
    let Some(sass) = Sass::of::<conformance::signal::count>() else {
        return;
    };
    // red.release.sys: a fence, then the reduction.
    assert!(
        sass.count(&["RED", ".SYS"]) + sass.count(&["ATOM", ".SYS"]) >= 1,
        "{:#?}",
        sass.instructions
    );
    assert_eq!(sass.count(&["RED", ".GPU"]) + sass.count(&["ATOMG", ".GPU"]), 0);
    assert!(sass.count(&["MEMBAR", ".SYS"]) >= 1);
    // ld.acquire.sys, and the abort word by ld.relaxed.sys.
    assert!(sass.count(&["LDG", "STRONG.SYS"]) >= 2);
}

#[test]
fn atomics_at_a_pe_are_at_system_scope() {
    use conformance::atomic::{add_up, every_operation, lock};
    for (name, sass, least) in [
        ("u64", Sass::of::<every_operation<u64>>(), 14),
        ("i32", Sass::of::<every_operation<i32>>(), 14),
        ("f64", Sass::of::<add_up<f64>>(), 4),
        ("F16x2", Sass::of::<add_up<shmem::F16x2>>(), 4),
        ("Bf16x2", Sass::of::<add_up<shmem::Bf16x2>>(), 4),
        ("lock", Sass::of::<lock>(), 2),
    ] {
        let Some(sass) = sass else { return };
        let (all, system) = (sass.atomics(&[]), sass.atomics(&[".STRONG.SYS"]));
        assert!(
            all == system && all >= least,
            "{name}: {system} of {all} {:#?}",
            sass.instructions
        );
        assert_eq!(sass.count(&["LDL"]) + sass.count(&["STL"]), 0, "{name}: local memory");
    }
    // Pairs of f16 have an instruction; those of bf16 have one from sm_90 on only.
    let (Some(pairs), Some(looped)) = (Sass::of::<add_up<shmem::F16x2>>(), Sass::of::<add_up<shmem::Bf16x2>>()) else {
        return;
    };
    assert_eq!(pairs.atomics(&["ADD.F16x2"]), 4);
    assert!(looped.atomics(&["CAS"]) >= 4);
}

#[test]
fn atomics_of_a_word_are_at_its_scope() {
    let Some(sass) = Sass::of::<conformance::word::add_up<i32>>() else {
        return;
    };
    for scope in [".SM", ".GPU", ".SYS"] {
        // Two without a result, four with one.
        assert_eq!(
            sass.atomics(&["ADD.STRONG", scope]),
            6,
            "{scope}: {:#?}",
            sass.instructions
        );
    }
    assert!(sass.count(&["ATOMS."]) >= 6, "shared memory");
}

#[test]
fn a_grid_meets_by_a_release_and_an_acquire_of_the_gpu() {
    let Some(sass) = Sass::of::<conformance::grid::grid_rounds>() else {
        return;
    };
    assert!(
        sass.count(&["ATOMG", "ADD", "STRONG.GPU"]) >= 1,
        "{:#?}",
        sass.instructions
    );
    // The release and the acquire: a fence ahead of the atomic, and stale lines dropped behind the load.
    assert!(sass.count(&["MEMBAR", ".GPU"]) >= 1);
    assert!(sass.count(&["LDG", "STRONG.GPU"]) >= 1 && sass.count(&["CCTL.IVALL"]) >= 1);
    assert_eq!(sass.count(&["LDL"]) + sass.count(&["STL"]), 0, "local memory");
}

#[test]
fn a_warp_group_meets_in_shared_memory() {
    let Some(sass) = Sass::of::<conformance::warp_group::group_put>() else {
        return;
    };
    assert!(sass.count(&["ATOMS", "ADD"]) >= 1, "{:#?}", sass.instructions);
    assert!(sass.count(&["MEMBAR", ".CTA"]) >= 1);
    assert_eq!(
        sass.count(&["ATOMG"]) - sass.count(&["ATOMG", "CAS"]),
        0,
        "no atomics but the fault's claim"
    );
    assert_eq!(sass.count(&["LDL"]) + sass.count(&["STL"]), 0, "local memory");
}

#[test]
fn register_tiles_load_all_at_once_and_stay_in_registers() {
    let Some(sass) = Sass::of::<conformance::registers::tiles>() else {
        return;
    };
    assert_eq!(sass.count(&["LDL"]) + sass.count(&["STL"]), 0, "local memory");
    // Eight vectors for each member.
    assert_eq!(sass.count(&["LDG.E.128"]), 8, "{:#?}", sass.instructions);
    assert!(longest_run(&sass.instructions, "LDG.E ", &["STS", "STG", "BAR"]) >= 4);
}

#[test]
fn computed_elements_go_straight_to_the_peer() {
    let Some(sass) = Sass::of::<conformance::registers::forward<shmem::vector::F32x4>>() else {
        return;
    };
    assert_eq!(sass.count(&["LDL"]) + sass.count(&["STL"]), 0, "local memory");
    // Both operands of four elements are on their way before the first sum is stored.
    assert!(longest_run(&sass.instructions, "LDG.E.128", &["STG", "BAR"]) >= 8);
    assert_eq!(sass.count(&["STG.E.128"]), sass.count(&["STG.E.128.STRONG.SYS"]));
}

#[test]
fn a_sum_on_a_stream_has_the_loads_of_two_members_under_way() {
    use shmem_device::collective::reduces;
    for (name, sass) in [
        ("f32", Sass::of::<reduces<f32>>()),
        ("u64", Sass::of::<reduces<u64>>()),
        ("u8", Sass::of::<reduces<u8>>()),
    ] {
        let Some(sass) = sass else { return };
        // Four lines of each; what is combined and stored comes behind them. No flight lies in local memory.
        let breaks = ["STG", "FADD", "BSSY", "BAR", "LDL", "STL"];
        let longest = longest_run(&sass.instructions, "LDG.E.128.STRONG.SYS", &breaks);
        assert!(longest >= 8, "{name}: {longest} loads before the first sum");
        assert_eq!(
            sass.count(&["LDL.128"]) + sass.count(&["STL.128"]),
            0,
            "{name}: local memory"
        );
    }
}

#[test]
fn one_instruction_where_there_is_one() {
    let Some(sass) = Sass::of::<conformance::reduce::of_warp>() else {
        return;
    };
    assert!(sass.count(&["REDUX"]) >= 8 && sass.count(&["MATCH.ANY"]) >= 2);
    let Some(sass) = Sass::of::<conformance::async_copy::pipeline<u32>>() else {
        return;
    };
    assert!(sass.count(&["LDGSTS"]) >= 2 && sass.count(&["LDGDEPBAR"]) >= 1);
    let Some(sass) = Sass::of::<conformance::vector::round>() else {
        return;
    };
    assert!(
        sass.count(&["F2FP.BF16"]) >= 5 && sass.count(&["F2FP.F16"]) >= 5,
        "{:#?}",
        sass.instructions
    );
}

#[test]
fn no_load_goes_through_the_read_only_cache() {
    for sass in [
        Sass::of::<conformance::put::put_by<u32>>(),
        Sass::of::<conformance::signal::rounds>(),
    ] {
        let Some(sass) = sass else { return };
        assert_eq!(sass.count(&["LDG", ".CONSTANT"]), 0);
    }
}

#[test]
fn a_kernel_of_one_p_keeps_to_32_registers() {
    let Some(ptxas) = shmem_build::tools::find("ptxas") else {
        return;
    };
    let Some(image) = simple_shift::simple_shift::images().list.first() else {
        return;
    };
    let ptx = Path::new(env!("CARGO_TARGET_TMPDIR")).join("registers.ptx");
    std::fs::write(&ptx, image.ptx).unwrap();
    let out = Command::new(ptxas)
        .args(["-v", "-arch=sm_90", "-o", "/dev/null"])
        .arg(&ptx)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    let used = text
        .split("Used ")
        .nth(1)
        .and_then(|t| t.split(' ').next())
        .and_then(|n| n.parse::<u32>().ok());
    assert!(used.is_some_and(|n| n <= 32), "{text}");
}
