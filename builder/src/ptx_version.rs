//! `.version`: as low as the instructions allow.
//!
//! A driver refuses PTX that is newer than itself, so LLVM writes the lowest version that has the architecture. It
//! does not look into `asm!`, though, where most of the newer instructions stand; ptxas and the driver do.

/// Instructions that need more than their architecture: how the opcode starts, what it contains, and the version from
/// which ptxas takes it. Measured with ptxas 13 on the first architecture that has the instruction.
const NEEDS: [(&str, &str, Version); 34] = [
    ("", "L1::", (7, 4)),
    ("", "L2::", (7, 4)),
    ("", "::cta", (7, 8)),
    ("", ".mmio", (8, 2)),
    ("", ".b128", (8, 4)),
    ("", "e4m3", (8, 1)),
    ("", "e5m2", (8, 1)),
    ("applypriority.", "", (7, 4)),
    ("atom.", ".v2.", (8, 1)),
    ("atom.", ".v4.", (8, 1)),
    ("atom.", ".v8.", (8, 1)),
    ("bmsk.", "", (7, 6)),
    ("cp.async.bulk", "", (8, 0)),
    ("cp.reduce.async.bulk", "", (8, 0)),
    ("createpolicy.", "", (7, 4)),
    ("discard.", "", (7, 4)),
    ("elect.sync", "", (8, 0)),
    ("fence.acquire", "", (8, 6)),
    ("fence.mbarrier_init", "", (8, 0)),
    ("fence.proxy.alias", "", (7, 5)),
    ("fence.proxy.async", "", (8, 0)),
    ("fence.proxy.tensormap", "", (8, 3)),
    ("fence.release", "", (8, 6)),
    ("ld.", ".v8.", (8, 8)),
    ("mbarrier.", ".cluster", (8, 0)),
    ("mbarrier.", "expect_tx", (8, 0)),
    ("mbarrier.test_wait.parity", "", (7, 1)),
    ("movmatrix.", "", (7, 8)),
    ("multimem.", "", (8, 1)),
    ("red.", ".v2.", (8, 1)),
    ("red.", ".v4.", (8, 1)),
    ("red.", ".v8.", (8, 1)),
    ("red.async", "", (8, 1)),
    ("st.async", "", (8, 1)),
];

type Version = (u32, u32);

/// Raises `.version` where an instruction needs it.
pub(crate) fn raise(ptx: &str) -> String {
    let needed = ptx.lines().flat_map(opcodes).filter_map(need).max();
    let stated = ptx.lines().find_map(|line| line.strip_prefix(".version "));
    match (needed, stated) {
        (Some((major, minor)), Some(stated)) if parse(stated) < Some((major, minor)) => {
            ptx.replacen(&format!(".version {stated}"), &format!(".version {major}.{minor}"), 1)
        }
        _ => ptx.to_owned(),
    }
}

fn parse(version: &str) -> Option<Version> {
    let (major, minor) = version.trim_end().split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The first word of each statement, past a label and a predicate; a comment has none.
fn opcodes(line: &str) -> impl Iterator<Item = &str> {
    let code = line.split("//").next().unwrap_or_default();
    code.split([';', '{', '}']).filter_map(|statement| {
        let mut words = statement.split_whitespace();
        words.find(|word| !word.starts_with('@') && !word.ends_with(':'))
    })
}

fn need(opcode: &str) -> Option<Version> {
    // Labels, registers and directives never need anything; most opcodes are done here.
    if !opcode.starts_with(|c: char| c.is_ascii_lowercase()) {
        return None;
    }
    let matches = |(start, part, _): &&(&str, &str, Version)| opcode.starts_with(start) && opcode.contains(part);
    NEEDS.iter().filter(matches).map(|&(_, _, version)| version).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version_of(stated: &str, instruction: &str) -> String {
        let text = raise(&format!(".version {stated}\n.target sm_90\n{{\n\t{instruction}\n}}\n"));
        assert!(text.contains(instruction));
        text.lines().next().unwrap().to_owned()
    }

    #[test]
    fn ordinary_code_keeps_the_lowest_version() {
        for instruction in [
            "ld.relaxed.sys.global.u64 %rd1, [%rd2];",
            "st.relaxed.sys.global.v4.u32 [%rd1], {%r1,%r2,%r3,%r4};",
            "cp.async.cg.shared.global [%r1], [%rd1], 16;",
            "mbarrier.init.shared.b64 [%r1], 1;",
            "red.relaxed.sys.global.add.u64 [%rd1], 1;",
            "barrier.cluster.arrive;",
            "// multimem.red is not used here",
            ".reg .b128 %q<3>;",
        ] {
            assert_eq!(version_of("7.0", instruction), ".version 7.0", "{instruction}");
        }
    }

    #[test]
    fn newer_instructions_raise_it() {
        for (instruction, version) in [
            ("multimem.red.relaxed.sys.global.add.u32 [%rd1], %r1;", "8.1"),
            ("@%p1 multimem.st.relaxed.sys.global.u32 [%rd1], %r1;", "8.1"),
            ("again: @!%p1 elect.sync %r1|%p1, 0xffffffff;", "8.0"),
            ("{ .reg .pred p; fence.proxy.async; }", "8.0"),
            ("mov.u32 %r1, 1; fence.acquire.sys;", "8.6"),
            ("ld.global.nc.L1::no_allocate.v4.u32 {%r1,%r2,%r3,%r4}, [%rd1];", "7.8"),
            (
                "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r1], %r2;",
                "8.0",
            ),
            ("red.relaxed.sys.global.add.v4.f32 [%rd1], {%f1,%f2,%f3,%f4};", "8.1"),
            ("atom.relaxed.sys.global.exch.b128 %q1, [%rd1], %q1;", "8.4"),
        ] {
            assert_eq!(
                version_of("7.8", instruction),
                format!(".version {version}"),
                "{instruction}"
            );
        }
        assert_eq!(version_of("8.8", "elect.sync %r1|%p1, -1;"), ".version 8.8");
    }
}
