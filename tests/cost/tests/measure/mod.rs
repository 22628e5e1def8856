//! What ptxas makes of the kernels for sm_90.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::process::Command;

/// All rows of the table.
pub(crate) struct Measured {
    /// A line that names the compiler and the assembler: others make other code.
    pub(crate) tools: String,
    /// Each call, in the order of the table.
    pub(crate) costs: Vec<(String, Cost)>,
}

/// A kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) registers: u32,
    /// Without those that record a fault, which all kernels have alike.
    pub(crate) instructions: u32,
    /// Stack and spilled registers.
    pub(crate) local_bytes: u32,
}

impl Cost {
    /// More registers, or more than 2 percent more instructions: the scheduler places a few by chance.
    pub(crate) fn exceeds(self, old: Self) -> bool {
        self.registers > old.registers || self.instructions * 100 > old.instructions * 102
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} registers and {} instructions", self.registers, self.instructions)
    }
}

/// Nothing where there is no PTX, or a tool is missing.
pub(crate) fn all() -> Option<Measured> {
    let (ptxas, nvdisasm) = (
        shmem_build::tools::find("ptxas")?,
        shmem_build::tools::find("nvdisasm")?,
    );
    let image = cost::images().list.iter().rfind(|i| i.arch <= 90)?;
    let rustc = shmem_build::toolchain::find().ok()?;

    // `cargo xtask test` does not assemble again what it finds under such a name.
    let cubin = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cost.sm_90.cubin");
    let ptx = cubin.with_extension("ptx");
    std::fs::write(&ptx, image.ptx).unwrap();
    let mut costs = HashMap::new();
    let (_, report) = output(
        Command::new(&ptxas)
            .args(["-v", "-arch=sm_90", "-o"])
            .arg(&cubin)
            .arg(ptx),
    );
    read_report(&report, &mut costs);
    let (code, _) = output(Command::new(nvdisasm).args(["-c", "-ndf"]).arg(cubin));
    count_instructions(&code, &mut costs);

    let (version, _) = output(Command::new(ptxas).arg("--version"));
    let ptxas = version.split_whitespace().find(|w| w.starts_with('V')).unwrap_or("?");
    let llvm = rustc
        .verbose_version
        .lines()
        .find_map(|l| l.strip_prefix("LLVM version: "));
    Some(Measured {
        tools: format!(
            "rustc {}, LLVM {}, ptxas {ptxas}, sm_90:\n",
            rustc.version,
            llvm.unwrap_or("?")
        ),
        costs: cost::ROWS
            .iter()
            .map(|row| (in_one_line(row.call), costs[row.symbol]))
            .collect(),
    })
}

/// The compiler breaks a block that it makes a string of.
fn in_one_line(call: &str) -> String {
    let words: Vec<_> = call.split_whitespace().collect();
    let line = words.join(" ");
    line.trim_start_matches("{ ").trim_end_matches(" }").to_owned()
}

/// What `ptxas -v` says of each entry, and then of the functions that it calls.
fn read_report<'a>(report: &'a str, costs: &mut HashMap<&'a str, Cost>) {
    let (mut entry, mut of) = ("", "");
    for line in report.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            entry = rest.split('\'').next().unwrap_or_default();
        } else if let Some((_, name)) = line.split_once("Function properties for ") {
            of = name;
        } else if line.contains("bytes stack frame") && of == entry {
            let bytes = line.split_whitespace().filter_map(|w| w.parse::<u32>().ok());
            costs.entry(entry).or_default().local_bytes = bytes.sum();
        } else if let Some((_, rest)) = line.split_once("Used ") {
            let registers = rest.split(' ').next().and_then(|n| n.parse().ok());
            costs.entry(entry).or_default().registers = registers.expect(line);
        }
    }
}

/// The code of an entry is one section: its own instructions, then a label and the instructions of each function that
/// it calls.
fn count_instructions(code: &str, costs: &mut HashMap<&str, Cost>) {
    let (mut entry, mut faults) = ("", false);
    for line in code.lines() {
        if let Some((_, rest)) = line.split_once(".section\t.text.") {
            entry = rest.split(',').next().unwrap_or_default();
            faults = false;
        } else if line.starts_with('$') {
            // `shmem::fault::fault` and `shmem::arch::ptx::fault::fault`.
            faults = line.contains("5fault5fault");
        } else if line.trim_start().starts_with("/*") && !line.contains(" NOP") && !faults {
            costs.get_mut(entry).expect(line).instructions += 1;
        }
    }
}

fn output(command: &mut Command) -> (String, String) {
    let out = command.output().unwrap();
    let [stdout, stderr] = [out.stdout, out.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(out.status.success(), "{command:?}: {stderr}");
    (stdout, stderr)
}
