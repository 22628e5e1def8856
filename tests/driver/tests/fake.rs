//! The host's work with a driver: what it refuses, what it gives back.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder with the fake as `libcuda.so.1`.
fn library() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libcuda");
    let made = Path::new(env!("CARGO_BIN_EXE_driver-work")).with_file_name("examples/libfake_cuda.so");
    assert!(made.exists(), "{} is not built", made.display());
    fs::create_dir_all(&folder).unwrap();
    for name in ["libcuda.so", "libcuda.so.1"] {
        let link = folder.join(name);
        // Other tests may be as far.
        let _ = std::os::unix::fs::symlink(&made, &link);
        assert!(link.exists());
    }
    folder
}

struct Run {
    output: Output,
    /// What each process left, and how often it called.
    reports: Vec<(u64, Vec<String>)>,
}

impl Run {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned() + &String::from_utf8_lossy(&self.output.stderr)
    }

    #[track_caller]
    fn left_nothing(&self) {
        for (_, left) in &self.reports {
            assert!(left.is_empty(), "{left:?} is left\n{}", self.text());
        }
    }
}

/// Runs the program on the fake, in so many processes.
fn run(processes: u32, variables: &[(&str, &str)], arguments: &[&str]) -> Run {
    run_on(1, processes, variables, arguments)
}

/// The same on so many machines, which are one that the processes give several names.
fn run_on(machines: u32, processes: u32, variables: &[(&str, &str)], arguments: &[&str]) -> Run {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let number = RUNS.fetch_add(1, Ordering::Relaxed);
    let report = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("report-{}-{number}", std::process::id()));
    let root = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let start = |rank: u32| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_driver-work"));
        command
            .args(arguments)
            .env("LD_LIBRARY_PATH", library())
            .env("SHMEM_BACKEND", "cuda")
            .env("SHMEM_TIMEOUT", "5")
            .env("FAKE_CUDA_REPORT", &report)
            .env("RUST_BACKTRACE", "0")
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        if processes > 1 {
            command
                .env("SHMEM_RANK", rank.to_string())
                .env("SHMEM_SIZE", processes.to_string())
                .env("SHMEM_ROOT", root.to_string())
                .env("SHMEM_HOST_ID", format!("machine {}", rank % machines))
                .env("SHMEM_SECRET", "a secret of this test only");
        }
        command.envs(variables.iter().copied()).spawn().unwrap()
    };
    let children: Vec<_> = (0..processes).map(start).collect();
    let outputs: Vec<_> = children
        .into_iter()
        .map(|child| child.wait_with_output().unwrap())
        .collect();
    let text = fs::read_to_string(&report).unwrap_or_default();
    let _ = fs::remove_file(&report);
    let mut reports = vec![];
    for line in text.lines() {
        match (line.strip_prefix("calls "), reports.last_mut()) {
            (Some(calls), _) => reports.push((calls.parse().unwrap(), vec![])),
            (None, Some((_, left))) => Vec::push(left, line.to_owned()),
            (None, None) => panic!("{text}"),
        }
    }
    assert_eq!(
        reports.len(),
        processes as usize,
        "a process ended without a report: {outputs:?}"
    );
    // The one with something to say.
    let worst = outputs.iter().position(|output| !output.status.success()).unwrap_or(0);
    Run {
        output: outputs[worst].clone(),
        reports,
    }
}

#[test]
fn everything_is_given_back() {
    for processes in [1, 2] {
        let run = run(processes, &[], &[]);
        assert!(run.output.status.success(), "{}", run.text());
        run.left_nothing();
    }
}

/// Whatever call a driver refuses, the program ends with an error that says which, and gives back what it has.
#[test]
fn every_refusal_is_an_error_and_leaves_nothing() {
    let calls = run(1, &[], &[]).reports[0].0;
    assert!(calls > 100, "{calls}");
    // Each while the World is made, and a part of the rest, which repeats itself.
    for refused in (1..=150).chain((151..=calls).step_by(7)) {
        let run = run(1, &[("FAKE_CUDA_REFUSE", &refused.to_string())], &[]);
        let text = run.text();
        match run.output.status.code() {
            // What is only given back may be refused, and a cubin.
            Some(0) => {}
            Some(1) => assert!(
                text.contains("CUDA_ERROR_OF_THE_FAKE") || text.contains("memory"),
                "call {refused}: {text}"
            ),
            other => panic!("call {refused} refused: {other:?}\n{text}"),
        }
        run.left_nothing();
    }
}

#[test]
fn a_refusal_in_one_process_ends_the_others() {
    let calls = run(2, &[], &[]).reports.iter().map(|report| report.0).min().unwrap();
    for refused in (1..calls).step_by(9) {
        let run = run(2, &[("FAKE_CUDA_REFUSE", &refused.to_string())], &[]);
        assert!(
            matches!(run.output.status.code(), Some(0 | 1)),
            "call {refused}: {}",
            run.text()
        );
        run.left_nothing();
    }
}

#[test]
fn memory_that_a_device_does_not_have_is_refused_everywhere() {
    for processes in [1, 2] {
        let run = run(
            processes,
            &[("SHMEM_HEAP", "1G"), ("FAKE_CUDA_MEMORY", "209715200")],
            &["large"],
        );
        assert!(run.output.status.success(), "{}", run.text());
        run.left_nothing();
    }
}

#[test]
fn memory_of_the_program_becomes_a_symmetric_object() {
    for processes in [1, 2] {
        let run = run(processes, &[], &["register"]);
        assert!(run.output.status.success(), "{}", run.text());
        run.left_nothing();
    }
}

#[test]
fn large_transfers_on_streams_are_copies() {
    for processes in [1, 2] {
        let run = run(processes, &[], &["copies"]);
        assert!(run.output.status.success(), "{}", run.text());
        run.left_nothing();
    }
    let three = [("FAKE_CUDA_ONE", "1"), ("SHMEM_NPES", "3")];
    let run = run(1, &three, &["copies"]);
    assert!(run.output.status.success(), "PEs of one device: {}", run.text());
}

/// The barriers and the small sums, and the sum of 64 blocks not.
#[test]
fn small_collectives_are_placed_ahead() {
    let run = run(2, &[("FAKE_CUDA_COUNT", "1")], &["launches"]);
    assert!(run.output.status.success(), "{}", run.text());
    for (_, left) in &run.reports {
        assert_eq!(*left, ["programmatic launches 4"]);
    }
}

#[test]
fn transfers_through_adapters_and_in_timelines_are_kernels() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("timeline.json");
    let timeline = run(1, &[("SHMEM_TIMELINE", file.to_str().unwrap())], &["kernels"]);
    assert!(timeline.output.status.success(), "{}", timeline.text());
    for path in ["ibgda", "mixed"] {
        // Nodes of two.
        let variables = [("SHMEM_PATH", path), ("SHMEM_HEAP", "100M"), ("SHMEM_NPES", "4")];
        let run = run(1, &[&EMULATED[..], &variables].concat(), &["kernels"]);
        worked_or_has_no_images(&run);
    }
}

#[test]
fn devices_that_do_not_reach_each_other_need_a_transport() {
    for processes in [1, 2] {
        let run = run(processes, &[("FAKE_CUDA_APART", "1")], &[]);
        let text = run.text();
        assert!(
            text.contains("PEs 0 and 1 do not reach each other's memory") || text.contains("PEs 1 and 0 do not"),
            "{text}"
        );
        run.left_nothing();
    }
}

#[test]
fn one_device_is_not_for_two_processes() {
    let text = run(2, &[("FAKE_CUDA_ONE", "1")], &[]).text();
    assert!(text.contains("processes 0 and 1 both use GPU-01010101-0101-"), "{text}");
    let run = run(1, &[("FAKE_CUDA_ONE", "1"), ("SHMEM_NPES", "3")], &[]);
    assert!(run.output.status.success(), "{}", run.text());
}

#[test]
fn a_kernel_that_never_ends_is_a_time_limit() {
    let run = run(1, &[("FAKE_CUDA_BUSY", "1"), ("SHMEM_TIMEOUT", "0.2")], &[]);
    assert!(run.text().contains("stream"), "{}", run.text());
    assert_eq!(run.output.status.code(), Some(1));
}

/// Every PE on an emulated adapter.
const EMULATED: [(&str, &str); 3] = [
    ("SHMEM_PATH", "ibgda"),
    ("SHMEM_HCA", "emulated"),
    ("SHMEM_HEAP", "24M"),
];

/// Whether the library's kernels were built for network paths too.
fn has_network_images() -> bool {
    let images = <shmem_device::order::quiet as shmem::Kernel>::images();
    images.list.iter().any(|image| image.network)
}

/// Kernels for network paths are built on demand (`SHMEM_NETWORK=1`): without them, the World ends before its work.
#[track_caller]
fn worked_or_has_no_images(run: &Run) {
    let text = run.text();
    if has_network_images() {
        assert!(run.output.status.success(), "{text}");
    } else {
        let says = text.contains("of package shmem_device") && text.contains("SHMEM_NETWORK=1");
        assert!(says && run.output.status.code() == Some(1), "{text}");
    }
}

#[test]
fn emulated_adapters_and_their_memory_are_given_back() {
    for path in ["ibgda", "mixed"] {
        for pes in ["1", "2", "5"] {
            let variables = [("SHMEM_PATH", path), ("SHMEM_HEAP", "100M"), ("SHMEM_NPES", pes)];
            let run = run(1, &[&EMULATED[..], &variables].concat(), &[]);
            worked_or_has_no_images(&run);
            run.left_nothing();
        }
    }
}

#[test]
fn every_refusal_while_adapters_are_set_up_is_an_error_and_leaves_nothing() {
    let calls = run(1, &EMULATED, &["barrier"]).reports[0].0;
    assert!(calls > 60, "{calls}");
    for refused in 1..=calls.min(200) {
        let number = refused.to_string();
        let variables = [&EMULATED[..], &[("FAKE_CUDA_REFUSE", &number)]].concat();
        let run = run(1, &variables, &["barrier"]);
        let text = run.text();
        let known = ["CUDA_ERROR_OF_THE_FAKE", "memory", "SHMEM_NETWORK=1"];
        match run.output.status.code() {
            Some(0) => {}
            Some(1) => assert!(known.iter().any(|part| text.contains(part)), "call {refused}: {text}"),
            other => panic!("call {refused} refused: {other:?}\n{text}"),
        }
        run.left_nothing();
    }
}

#[test]
fn devices_that_do_not_reach_each_other_talk_through_adapters() {
    let variables = [&EMULATED[..], &[("FAKE_CUDA_APART", "1")]].concat();
    let run = run(1, &variables, &["barrier"]);
    worked_or_has_no_images(&run);
    run.left_nothing();
}

/// Where rdma-core's libraries are looked for: folders with ones that have no adapter, and with the fake driver. None where
/// package shmem-ibgda's were not built.
fn verbs() -> Option<String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libibverbs");
    let made = Path::new(env!("CARGO_BIN_EXE_driver-work")).with_file_name("examples/libfake_verbs.so");
    if !made.exists() {
        println!("skipped: {} is not built (cargo test -p shmem-ibgda)", made.display());
        return None;
    }
    fs::create_dir_all(&folder).unwrap();
    for name in ["libibverbs.so.1", "libmlx5.so.1"] {
        let _ = std::os::unix::fs::symlink(&made, folder.join(name));
    }
    Some(format!("{}:{}", library().display(), folder.display()))
}

/// Over rdma-core's libraries without an adapter: the whole set-up, except that no kernel runs.
#[test]
fn real_adapters_are_set_up_through_rdma_core_and_given_back() {
    let Some(folders) = verbs() else { return };
    let base = [("LD_LIBRARY_PATH", &*folders), ("SHMEM_HEAP", "100M")];
    for path in ["ibgda", "mixed"] {
        for hca in ["", "mlx5_1"] {
            let variables = [&base[..], &[("SHMEM_PATH", path), ("SHMEM_HCA", hca)]].concat();
            let run = run(1, &variables, &[]);
            worked_or_has_no_images(&run);
            run.left_nothing();
        }
    }
    let wrong = [&base[..], &[("SHMEM_PATH", "ibgda"), ("SHMEM_HCA", "mlx5_7")]].concat();
    let run = run(1, &wrong, &["barrier"]);
    assert!(run.text().contains("mlx5_7"), "{}", run.text());
    run.left_nothing();
}

#[test]
fn between_machines_go_real_adapters() {
    let none = run_on(2, 2, &[("SHMEM_HEAP", "100M")], &["barrier"]);
    let text = none.text();
    assert!(
        text.contains("no mlx5 adapter") || text.contains("install rdma-core"),
        "{text}"
    );
    none.left_nothing();
    let stores = run_on(2, 2, &[("SHMEM_PATH", "load-store")], &["barrier"]);
    assert!(stores.text().contains("run on different machines"), "{}", stores.text());
    stores.left_nothing();
    let Some(folders) = verbs() else { return };
    let far = ("FAKE_VERBS_FAR", "1");
    let base = [("LD_LIBRARY_PATH", &*folders), ("SHMEM_HEAP", "100M"), far];
    for pes in ["1", "3"] {
        let run = run_on(2, 2, &[&base[..], &[("SHMEM_NPES", pes)]].concat(), &[]);
        worked_or_has_no_images(&run);
        run.left_nothing();
    }
}

#[test]
fn every_refusal_while_real_adapters_are_set_up_is_an_error_and_leaves_nothing() {
    let Some(folders) = verbs() else { return };
    let base = [
        ("LD_LIBRARY_PATH", &*folders),
        ("SHMEM_HEAP", "24M"),
        ("SHMEM_PATH", "ibgda"),
    ];
    let calls = run(1, &base, &["barrier"]).reports[0].0;
    for refused in (1..=calls.min(200)).step_by(2) {
        let number = refused.to_string();
        let run = run(1, &[&base[..], &[("FAKE_CUDA_REFUSE", &number)]].concat(), &["barrier"]);
        assert!(
            matches!(run.output.status.code(), Some(0 | 1)),
            "call {refused}: {}",
            run.text()
        );
        run.left_nothing();
    }
}

#[test]
fn adapters_that_are_not_there_and_several_processes_are_refused() {
    let real = run(1, &[("SHMEM_PATH", "ibgda"), ("SHMEM_HEAP", "24M")], &["barrier"]);
    let text = real.text();
    let (none, missing) = (text.contains("no mlx5 adapter"), text.contains("install rdma-core"));
    assert!(
        text.contains("the network adapter can't be set up") && (none || missing),
        "{text}"
    );
    real.left_nothing();
    let two = run(2, &EMULATED, &["barrier"]);
    assert!(two.text().contains("serve the PEs of one process"), "{}", two.text());
    two.left_nothing();
}

#[test]
fn heaps_that_are_too_large_to_be_pinned_are_refused() {
    let variables = [&EMULATED[..], &[("SHMEM_HEAP", "60T")]].concat();
    let run = run(1, &variables, &["barrier"]);
    let text = run.text();
    assert!(text.contains("no pinned host memory for heaps of 2 PEs"), "{text}");
    run.left_nothing();
}
