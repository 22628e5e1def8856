//! The program itself, on the simulator: every benchmark runs with right data, and what it prints can be matched with the
//! peer's rows.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn perf(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shmem-perf"));
    command.args(arguments);
    for name in ["SHMEM_BACKEND", "SHMEM_NPES", "SHMEM_SIM_SEED", "SHMEM_SIM_PATH"] {
        command.env_remove(name);
    }
    command
}

fn output(command: &mut Command) -> Output {
    command.output().expect("the program starts")
}

/// What it printed; it must end well.
fn stdout(arguments: &[&str]) -> String {
    let out = output(&mut perf(arguments));
    let (text, errors) = (
        String::from_utf8(out.stdout),
        String::from_utf8_lossy(&out.stderr).into_owned(),
    );
    assert!(out.status.success(), "{arguments:?}: {errors}");
    text.expect("text")
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder for files");
    folder
}

/// Lines of CSV without comments and header.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.starts_with("bench,"));
    lines.map(|line| line.split(',').collect()).collect()
}

fn names() -> Vec<String> {
    let list = stdout(&["list"]);
    list.lines()
        .filter_map(|line| Some(line.split_whitespace().next()?.to_owned()))
        .collect()
}

#[test]
fn every_benchmark_has_rows_with_right_data() {
    let names = names();
    assert!(names.len() > 25, "{names:?}");
    for pes in ["2", "3"] {
        for name in &names {
            let text = stdout(&["--backend", "sim", "--pes", pes, name, "--quick"]);
            assert!(text.starts_with("# simulator: "), "{text}");
            let rows = rows(&text);
            assert!(!rows.is_empty(), "{name} among {pes} PEs has no rows");
            for row in rows {
                assert_eq!(row[3..], ["", "simulated"], "{name}: the simulator has no figures");
            }
        }
    }
}

/// Rows of `shared/peer/nvshmem_bench.cu`, and those that rows of torch_baseline.py stand beside (`_graph`). Shapes and numbers of blocks are left out, those of the simulator are smaller.
const PEER: [(&str, &str); 15] = [
    (
        "init",
        "init_attr_to_barrier malloc_first malloc_again free_first free_again",
    ),
    (
        "put_bw",
        "block_gN_tN nbi_block_gN_tN bidi_block_gN_tN bidi_nbi_block_gN_tN",
    ),
    (
        "get_bw",
        "block_gN_tN nbi_block_gN_tN bidi_block_gN_tN bidi_nbi_block_gN_tN",
    ),
    ("p_pingpong", "thread"),
    ("signal_pingpong", "thread"),
    ("put_signal_pingpong", "thread warp block"),
    (
        "put_latency",
        "putmem_quiet_thread putmem_quiet_warp putmem_quiet_block",
    ),
    ("get_latency", "g_thread getmem_thread getmem_warp getmem_block"),
    (
        "amo",
        "fetch_add_latency add_rate_warp_same add_rate_warp_spread add_rate_Nblocks_same add_rate_Nblocks_spread",
    ),
    ("fence_quiet", "p_alone p_then_fence p_then_quiet"),
    (
        "barrier",
        "barrier_all_thread barrier_all_warp barrier_all_block sync_all_thread sync_all_warp sync_all_block",
    ),
    (
        "coll_device",
        "alltoall_int32_block fcollect_int32_block broadcast_int32_block sum_reduce_float_block",
    ),
    (
        "coll_stream",
        "barrier_all sync_all sum_reduce_float fcollect_int32 alltoall_int32 sum_reduce_float_graph sum_reduce_bf16_graph",
    ),
    (
        "launch",
        "chevron chevron_enqueue cudaLaunchCooperativeKernel cudaLaunchCooperativeKernel_enqueue nvshmemx_collective_launch \
         nvshmemx_collective_launch_enqueue",
    ),
    // cudaMemcpyPeerAsync needs a device.
    ("copy_engine", "nvshmemx_putmem_on_stream"),
];

/// `block_g8_t64` as `block_gN_tN`.
fn without_numbers(variant: &str) -> String {
    let plain = |word: &str| match word.split_at(1) {
        ("g" | "t", number) if !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit()) => {
            format!("{}N", &word[..1])
        }
        _ if word.ends_with("blocks") => "Nblocks".to_owned(),
        _ => word.to_owned(),
    };
    variant.split('_').map(plain).collect::<Vec<_>>().join("_")
}

#[test]
fn each_row_of_the_peer_has_one_of_ours() {
    let text = stdout(&["--backend", "sim", "--pes", "2", "all"]);
    let ours: BTreeSet<_> = rows(&text)
        .into_iter()
        .map(|row| (row[0].to_owned(), without_numbers(row[1])))
        .collect();
    for (bench, variants) in PEER {
        for variant in variants.split_whitespace() {
            let row = (bench.to_owned(), variant.to_owned());
            assert!(ours.contains(&row), "no row {row:?} in {ours:#?}");
        }
    }
}

#[test]
fn formats_agree_and_say_that_they_are_simulated() {
    let folder = folder("formats");
    let (csv, json) = (folder.join("rows.csv"), folder.join("rows.json"));
    let arguments = ["--backend", "sim", "--pes", "2", "packet_pingpong", "--format", "table"];
    let out = output(perf(&arguments).arg("--csv").arg(&csv).arg("--json").arg(&json));
    assert!(out.status.success());
    let table = String::from_utf8_lossy(&out.stdout);
    assert!(table.starts_with("simulator: "), "{table}");
    let csv = std::fs::read_to_string(csv).expect("CSV");
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(json).expect("JSON")).expect("JSON that parses");
    assert!(
        json["simulated"] == true && json["note"].is_string() && json["pes"] == 2,
        "{json}"
    );
    let (from_csv, from_json) = (rows(&csv), json["rows"].as_array().expect("rows"));
    assert_eq!((from_csv.len(), from_json.len()), (3, 3));
    for (csv, json) in from_csv.iter().zip(from_json) {
        assert!(json["variant"] == csv[1] && json["bytes"].as_u64() == csv[2].parse().ok() && json["value"].is_null());
        assert!(table.contains(csv[1]), "{table}");
    }
}

#[test]
fn a_kernel_without_its_fence_is_seen() {
    let source = include_str!("../src/kernels/pingpongs.rs");
    let fence = source
        .lines()
        .position(|line| line.contains("shmem::fence(tile)"))
        .expect("a fence")
        + 1;
    let place = format!("perf/src/kernels/pingpongs.rs:{fence}:9");
    let seen = (0..36).any(|seed: u32| {
        let mut command = perf(&["--backend", "sim", "--pes", "2", "put_pingpong"]);
        command
            .env("SHMEM_SIM_SKIP", &place)
            .env("SHMEM_SIM_SEED", seed.to_string());
        let out = output(&mut command);
        !out.status.success() && String::from_utf8_lossy(&out.stderr).contains("call fence")
    });
    assert!(seen, "no seed reports {place}");
}

#[test]
fn one_pe_is_not_enough() {
    let out = output(perf(&["--backend", "sim", "barrier"]).env("SHMEM_NPES", "1"));
    assert!(String::from_utf8_lossy(&out.stderr).contains("say --pes 2"), "{out:?}");
}

#[test]
fn bad_arguments_say_what_to_do() {
    for (arguments, advice) in [
        (
            "put_bw -s block",
            "put_bw has no use for -s: it takes -b -e -f -n -w -r -c -t --bidir",
        ),
        ("put_bw -d float", "put_bw has no use for -d"),
        ("all -c 4", "all has no use for -c: it takes -b -e -f -n -w -r"),
        ("init -b 8", "init has no use for -b: it takes none of these options"),
        ("put_bw -b 1M -e 1K", "-b 1048576 is more than -e 1024"),
        ("put_bw -b 2M", "-b 2097152 is more than -e 1024"),
        (
            "put_bw -b 6",
            "-b 6: put_bw moves elements of 4 bytes, so give a multiple of 4, not 0",
        ),
        ("put_bw -e 0", "-e 0: put_bw moves elements of 4 bytes"),
        (
            "reduction -d double -b 12",
            "-b 12: reduction moves elements of 8 bytes",
        ),
        ("put_bw -b 3X", "a size is a number of bytes, with K, M or G after it"),
        ("put_bw -b 99999999999G", "a size is a number of bytes"),
        ("put_bw -f 1", "invalid value '1' for '--step"),
        ("put_bw -n 0", "invalid value '0' for '--iters"),
        ("put_bw -t 2000", "-t 2000: put_bw takes 1 to 1024 threads per block"),
        ("put_bw -t 0", "-t 0: put_bw takes 1 to 1024 threads per block"),
        (
            "put_latency -s warp -t 64",
            "-t 64: a warp takes 1 to 32 threads per block",
        ),
        ("barrier -s grid", "-s grid: barrier takes thread, warp, block"),
        (
            "reduction -d bf16 -o max",
            "-d bf16 -o max -s any: reduction has no kernel for it; there are float sum thread",
        ),
        ("reduction -d float -o xor", "has no kernel for it"),
        (
            "reduction_on_stream -d fp16 -o and",
            "-d fp16 -o and: reduction_on_stream takes and, or, xor of int32 and int64 alone",
        ),
        ("p_bw -d bf16", "-d bf16: p_bw moves words of 4 or 8 bytes"),
        ("atomic_pingpong -a or", "-a or: its values do not rise"),
        ("put_bw --plot x", "it has no figures to draw"),
        ("put_bw --peer /none", "could not read /none"),
        ("nonsense", "unrecognized subcommand 'nonsense'"),
        ("compare /none /none", "could not read /none"),
    ] {
        let mut words = vec!["--backend", "sim", "--pes", "2"];
        words.extend(arguments.split(' '));
        let out = output(&mut perf(&words));
        let text = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success() && text.contains(advice), "{arguments}: {text}");
    }
}

#[test]
fn options_of_perftests_choose_what_is_measured() {
    for (arguments, expected) in [
        (
            "shmem_put_bw -b 4K -e 16K -f 4 -n 3 -w 1 -r 2 -c 3 -t 96 --bidir",
            "put_bw,bidi_block_g3_t96,4096 put_bw,bidi_nbi_block_g3_t96,4096 put_bw,bidi_block_g3_t96,16384 \
             put_bw,bidi_nbi_block_g3_t96,16384 put_bw,bidi_bulk_block_g3_t96,4096 put_bw,bidi_bulk_nbi_block_g3_t96,4096 \
             put_bw,bidi_bulk_block_g3_t96,16384 put_bw,bidi_bulk_nbi_block_g3_t96,16384",
        ),
        (
            "shmem_p_bw -d float -e 36 -b 12 -f 3 -c 1 -t 32",
            "p_bw,32_g1_t32,12 p_bw,32_g1_t32,36",
        ),
        ("sync_latency -s warp", "barrier,sync_all_warp,0"),
        ("put_pingpong -s thread -e 100 -b 100", "put_pingpong,thread,100"),
        ("atomic_latency -a fetch_xor", "amo,fetch_xor_latency,8"),
        (
            "atomic_bw -a and -c 2 -t 33",
            "amo,and_rate_g2_t33_same,8 amo,and_rate_g2_t33_spread,8",
        ),
        (
            "reduction_latency -d int32 -o xor -b 64 -e 64 -t 32",
            "coll_device,xor_reduce_int32_block,64",
        ),
        (
            "bcast -s block -b 64 -e 64",
            "coll_device,broadcast_int32_block,64 coll_device,broadcast_int32_block_packets,64 \
             coll_device,broadcast_int32_block_one_shot,64 coll_device,broadcast_int32_block_two_shot,64",
        ),
        (
            "reducescatter -s grid -c 3 -b 64 -e 64",
            "coll_device,sum_reducescatter_float_grid_g3_t64,64",
        ),
    ] {
        let mut words = vec!["--backend", "sim", "--pes", "3", "--format", "csv"];
        words.extend(arguments.split(' '));
        let text = stdout(&words);
        let found: Vec<_> = rows(&text).into_iter().map(|row| row[..3].join(",")).collect();
        assert_eq!(found.join(" "), expected, "{arguments}");
    }
}

/// All types and operations that there are kernels of.
#[test]
fn reductions_of_each_type_are_right() {
    for options in [
        "-o prod",
        "-o min",
        "-o max",
        "-d int32",
        "-d int32 -o and",
        "-o or",
        "-o xor",
        "-d int64",
        "-d double",
        "-d fp16",
        "-d bf16",
    ] {
        for bench in [
            "reduction",
            "reducescatter",
            "reduction_on_stream",
            "reducescatter_on_stream",
        ] {
            let mut words = vec!["--backend", "sim", "--pes", "3", bench, "-e", "64"];
            words.extend(options.split(' '));
            assert!(!rows(&stdout(&words)).is_empty());
        }
    }
}

const OURS: &str = "\
# a comment
bench,variant,bytes,value,unit
put_bw,block_g8_t1024,4096,20,GB/s
put_bw,block_g8_t1024,16384,80,GB/s
coll_stream,sum_reduce_float_graph,4096,4.5,us
bench,variant,bytes,value,unit
coll_stream,alltoall_int32_graph,16384,5,us
signal_pingpong,thread,8,nan,us
";
const NVSHMEM: &str = "\
bench,variant,bytes,value,unit
put_bw,block_g8_t1024,4096,10,GB/s
put_bw,block_g8_t1024,16384,160,GB/s
signal_pingpong,thread,8,0.65,us
copy_engine,cudaMemcpyPeerAsync,268435456,392,GB/s
";
const TORCH: &str = "\
W1130 a line of torch's own, with a comma
nccl_allreduce_f32,4096,9.00
nccl_alltoall,32768,10.00
symm_two_shot_allreduce_bf16,4096,failed RuntimeError: a, b
add+rmsnorm_alone_1x8192,16384,3.40
";
const TABLE: &str = "\
bench,variant,bytes,ours,peer,peer_name,unit,date
put_bw,block_g8_t1024,4096,20,10,nvshmem,GB/s,2026-11-30
put_bw,block_g8_t1024,16384,80,160,nvshmem,GB/s,2026-11-30
signal_pingpong,thread,8,nan,0.65,nvshmem,us,2026-11-30
copy_engine,cudaMemcpyPeerAsync,268435456,,392,nvshmem,GB/s,2026-11-30
coll_stream,sum_reduce_float_graph,4096,4.5,9,nccl,us,2026-11-30
coll_stream,alltoall_int32_graph,16384,5,10,nccl,us,2026-11-30
coll_stream,sum_reduce_bf16_graph,4096,,nan,torch-symm-two-shot,us,2026-11-30
torch,add+rmsnorm_alone_1x8192,16384,,3.4,torch,us,2026-11-30
";

#[test]
fn compare_leaves_out_no_row_of_a_peer() {
    let folder = folder("compare");
    for (name, text) in [("ours.csv", OURS), ("nvshmem.csv", NVSHMEM), ("torch.txt", TORCH)] {
        std::fs::write(folder.join(name), text).expect("a file");
    }
    let mut command = perf(&["compare", "ours.csv", "nvshmem.csv", "torch.txt", "-o", "table.csv"]);
    command
        .args(["--date", "2026-11-30", "--plot", "plots"])
        .current_dir(&folder);
    let out = output(&mut command);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let table = std::fs::read_to_string(folder.join("table.csv")).expect("a table");
    assert_eq!(table, TABLE);
    let summary = String::from_utf8_lossy(&out.stdout);
    assert!(
        summary.contains(" 0.500 nvshmem") && summary.contains("5 rows, ours is behind in 2 (*)"),
        "{summary}"
    );
    assert!(
        String::from_utf8_lossy(&out.stderr).contains("no row of ours for copy_engine,cudaMemcpyPeerAsync,268435456")
    );
    let plot = std::fs::read_to_string(folder.join("plots/put_bw_block.svg")).expect("a plot");
    assert!(
        plot.contains("block_g8_t1024, nvshmem") && plot.contains("GB/s") && plot.contains("16K"),
        "{plot}"
    );
    // Rows of the simulator compare with nothing.
    let simulated = stdout(&["--backend", "sim", "--pes", "2", "barrier"]);
    std::fs::write(folder.join("simulated.csv"), simulated).expect("a file");
    let out = output(perf(&["compare", "simulated.csv", "nvshmem.csv"]).current_dir(&folder));
    assert!(
        String::from_utf8_lossy(&out.stderr).contains("the simulator's rows have none"),
        "{out:?}"
    );
}
