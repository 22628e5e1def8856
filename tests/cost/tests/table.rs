//! Each call's registers and instructions against the table in `docs/src/costs.md`: nothing grows unseen.

mod measure;

use measure::{Cost, Measured};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::sync::OnceLock;

/// What the table stands between.
const MARKS: [&str; 2] = [
    "<!-- The table is made: SHMEM_BLESS=1 cargo test -p cost -->\n",
    "<!-- End of the table. -->\n",
];

/// What the assembler makes of all kernels, once for all tests; nothing where the tools are missing.
fn measured() -> Option<&'static Measured> {
    static MEASURED: OnceLock<Option<Measured>> = OnceLock::new();
    let found = MEASURED.get_or_init(measure::all).as_ref();
    if found.is_none() {
        let skipped = "no PTX, or no ptxas and nvdisasm (cargo xtask setup)";
        assert!(!required(), "SHMEM_PTX=require: {skipped}");
        say(&format!("skipped: {skipped}"));
    }
    found
}

fn required() -> bool {
    std::env::var("SHMEM_PTX").as_deref() == Ok("require")
}

/// Past the test harness, which keeps to itself what a passing test prints.
fn say(text: &str) {
    std::io::stderr().write_all(format!("{text}\n").as_bytes()).unwrap();
}

#[test]
fn no_call_costs_more_than_the_table_says() {
    let Some(Measured { tools, costs }) = measured() else {
        return;
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/costs.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let parts = page
        .split_once(MARKS[0])
        .and_then(|(head, rest)| Some((head, rest.split_once(MARKS[1])?)));
    let (head, (table, tail)) = parts.unwrap_or_else(|| panic!("{}: no marks of the table", path.display()));
    if std::env::var_os("SHMEM_BLESS").is_some() {
        let text = [head, MARKS[0], &written(tools, costs), MARKS[1], tail].concat();
        std::fs::write(&path, text).unwrap();
        return;
    }
    if !table.starts_with(tools.as_str()) {
        let other = format!("the table is of other tools than these:\n{tools}{ADVICE}");
        assert!(!required(), "SHMEM_PTX=require: {other}");
        say(&format!("skipped: {other}"));
        return;
    }
    let (mut worse, mut better) = (String::new(), String::new());
    for (call, cost) in costs {
        match row(table, call) {
            None => writeln!(worse, "{call}: not in the table"),
            Some(old) if cost.exceeds(old) => writeln!(worse, "{call}: {old} became {cost}"),
            Some(old) if *cost != old => writeln!(better, "{call}: {old} became {cost}"),
            Some(_) => Ok(()),
        }
        .unwrap();
    }
    let rows = table.lines().filter(|l| l.starts_with("| `")).count();
    if rows > costs.len() {
        writeln!(worse, "{rows} rows for {} calls", costs.len()).unwrap();
    }
    assert!(worse.is_empty(), "{worse}{ADVICE}");
    if !better.is_empty() {
        say(&format!("within the table, but not the same:\n{better}{ADVICE}"));
    }
}

const ADVICE: &str = "`SHMEM_BLESS=1 cargo test -p cost` makes the table again.";

fn written(tools: &str, costs: &[(String, Cost)]) -> String {
    let mut text = format!("{tools}\n| call | registers | instructions |\n|---|---|---|\n");
    for (call, cost) in costs {
        writeln!(text, "{}{} | {} |", start(call), cost.registers, cost.instructions).unwrap();
    }
    text
}

fn row(table: &str, call: &str) -> Option<Cost> {
    let start = start(call);
    let rest = table.lines().find_map(|line| line.strip_prefix(&start))?;
    let mut numbers = rest.split('|').map(|n| n.trim().parse());
    Some(Cost {
        registers: numbers.next()?.ok()?,
        instructions: numbers.next()?.ok()?,
        local_bytes: 0,
    })
}

/// A row as far as its call. A bar ends a cell even in code.
fn start(call: &str) -> String {
    format!("| `{}` | ", call.replace('|', "\\|"))
}

#[test]
fn no_call_uses_local_memory() {
    let Some(Measured { costs, .. }) = measured() else {
        return;
    };
    let local: Vec<_> = costs.iter().filter(|(_, cost)| cost.local_bytes != 0).collect();
    assert!(local.is_empty(), "{local:?}");
}

#[test]
fn a_kernel_that_only_uses_p_needs_32_registers() {
    let Some(Measured { costs, .. }) = measured() else {
        return;
    };
    let (_, cost) = costs.iter().find(|(call, _)| call == "p(dst.at(i), v, pe)").unwrap();
    assert!(cost.registers <= 32, "{cost:?}");
}
