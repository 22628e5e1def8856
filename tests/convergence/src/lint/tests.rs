//! Snippets that pass, and snippets that don't.

use super::*;

fn findings_in(path: &str, text: &str) -> Vec<Finding> {
    lint(&[File {
        path: path.into(),
        text: text.into(),
    }])
}

/// The lines with findings.
fn lines(text: &str) -> Vec<usize> {
    findings_in("a/src/lib.rs", text)
        .into_iter()
        .map(|finding| finding.line)
        .collect()
}

#[test]
fn a_message_says_where_what_and_what_instead() {
    let message = findings_in("a/src/lib.rs", "fn f() {\n unsafe { asm!(\"bar.sync 0;\") }\n}")[0].to_string();
    assert!(message.starts_with("a/src/lib.rs:2: `bar.sync` in asm!"), "{message}");
    assert!(
        message.ends_with("Instead, call `Block.sync()` or `warp::sync(mask)`"),
        "{message}"
    );
}

#[test]
fn several_lines_and_concat() {
    assert_eq!(
        lines("asm!(\n  \"mov.u32 {a}, 1;\",\n  \"bar.sync 0;\",\n  a = out(reg32) a,\n);"),
        [3]
    );
    assert_eq!(
        lines("core::arch::asm! {\n concat!(\"bar\", \".sync\", \" 0;\") }"),
        [2]
    );
    assert_eq!(lines("asm!(concat!(\"bar.\", $kind, \" 0;\"))"), [1]);
    assert_eq!(
        lines("asm!(r#\"\n  shfl.sync.idx.b32 a, b, 0, 31, -1;\"#);\nglobal_asm!(\"bar.sync 0;\");"),
        [1, 3]
    );
    assert_eq!(
        lines("asm!(\"mov.u32 a, b;\");\nasm!(\"vote.sync.any.pred p, q, -1;\");"),
        [2]
    );
}

#[test]
fn text_that_is_no_asm_passes() {
    assert_eq!(lines("/// `asm!(\"bar.sync 0;\")` would be duplicated.\nfn f() {}"), []);
    assert_eq!(
        lines("//! never asm!(\"bar.sync 0;\")\n/* asm!(\"bar.sync 0;\") */"),
        []
    );
    assert_eq!(
        lines("const PTX: &str = \"bar.sync 0;\"; let s = \"asm!(\\\"bar.sync 0;\\\")\";"),
        []
    );
    assert_eq!(
        lines("asm!(\n  // not bar.sync\n  \"mov.u32 {l}, %laneid; // beside bar.sync\",\n  l = out(reg32) l)"),
        []
    );
    assert_eq!(
        lines("fn f() { asm!(\"mov.u32 a, b;\"); format!(\"bar.sync 0;\"); }"),
        []
    );
}

#[test]
fn a_guard_right_before_lets_it_pass() {
    let mma = "asm!(\"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 ..\")";
    for guarded in [
        format!("fn f() {{ unsafe {{ activemask(); {mma} }} }}"),
        format!("fn f() {{ activemask(); unsafe {{ {mma} }} }}"),
        format!("fn f() {{ unsafe {{ activemask(); }} let d; // SAFETY: registers\n unsafe {{ core::arch::{mma} }} }}"),
        format!("fn f() {{ let _ = arch::nvvm_activemask(); let (r0, r1): (u32, u32); let d = unsafe {{ {mma} }}; }}"),
    ] {
        assert_eq!(lines(&guarded), [], "{guarded}");
    }
}

#[test]
fn a_guard_elsewhere_does_not() {
    let mma = "asm!(\"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 ..\")";
    for bare in [
        format!("fn f() {{ unsafe {{ {mma} }} }}"),
        format!("fn f() {{ activemask(); }} fn g() {{ {mma} }}"),
        format!("fn f() {{ activemask(); if x {{ {mma} }} }}"),
        format!("fn f() {{ if x {{ activemask(); }} {mma} }}"),
        format!("fn f() {{ activemask(); for i in 0..4 {{ {mma} }} }}"),
        format!("fn f() {{ activemask(); g(); {mma} }}"),
        format!("fn f() {{ activemask(); asm!(\"mov.u32 a, b;\"); {mma} }}"),
        format!("fn f() {{ activemask(); let g = || unsafe {{ {mma} }}; }}"),
        format!("fn f() {{ {mma}; activemask(); }}"),
        format!("fn f() {{ let activemask = 1; {mma} }}"),
    ] {
        assert_eq!(lines(&bare), [1], "{bare}");
    }
}

#[test]
fn a_macro_that_passes_text_on_is_like_asm() {
    let wrapper = "macro_rules! op { ($text:literal) => { asm!($text, options(nostack)) } }\n";
    assert_eq!(lines(&format!("{wrapper}fn f() {{ op!(\"bar.sync 0;\") }}")), [2]);
    assert_eq!(
        lines(&format!("{wrapper}fn f() {{ op!(\"ld.global.u32 a, [b];\") }}")),
        []
    );
    let guarded = wrapper
        .replace("asm!", "{ activemask(); asm!")
        .replace(") } }", ") } } }");
    assert_eq!(
        lines(&format!("{guarded}fn f() {{ op!(\"wgmma.fence.sync.aligned;\") }}")),
        []
    );
}

#[test]
fn counter_examples_are_let_pass_in_this_package_only() {
    let text =
        "unsafe {\n  // convergence-lint: counter-example\n  asm!(\"bar.sync 0;\");\n  asm!(\"bar.sync 0;\");\n}";
    assert_eq!(lines(text), [3, 4]);
    let here = findings_in("tests/convergence/src/bare.rs", text);
    assert_eq!(here.iter().map(|finding| finding.line).collect::<Vec<_>>(), [4]);
}
