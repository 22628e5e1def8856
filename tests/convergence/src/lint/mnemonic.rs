//! Which instructions lanes execute together, and what to write in place of `asm!`.

/// A convergent instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mnemonic {
    pub(super) text: String,
    /// Continues "Instead, ".
    pub(super) instead: &'static str,
}

const INTRINSIC: &str =
    "declare LLVM's intrinsic for it (`llvm.nvvm...`, as in shmem-intrinsics/src/arch/ptx/converge.rs)";
const GUARD: &str = "where LLVM has no convergent intrinsic for it, call the intrinsic `activemask` (llvm.nvvm.activemask) \
                     right before the asm!, in the same function";

/// By the part of the name before the first dot.
///
/// | family | convergent | not |
/// |---|---|---|
/// | all | every form | `mbarrier`: one thread's own, as PTX has it, although LLVM marks some of its intrinsics |
const FAMILIES: [(&str, &str); 14] = [
    ("bar", "call `Block.sync()` or `warp::sync(mask)`"),
    (
        "barrier",
        "call `Block.sync()`, or declare LLVM's intrinsic (`llvm.nvvm.barrier...`)",
    ),
    ("shfl", "call `warp::shuffle` or `SubWarp::shuffle`"),
    ("vote", "call `warp::ballot`, `any` or `all`"),
    ("match", INTRINSIC),
    ("activemask", INTRINSIC),
    ("elect", INTRINSIC),
    ("redux", INTRINSIC),
    ("ldmatrix", INTRINSIC),
    ("stmatrix", INTRINSIC),
    ("movmatrix", GUARD),
    ("mma", GUARD),
    ("wmma", GUARD),
    ("wgmma", GUARD),
];

/// The first convergent instruction in the text of an `asm!`.
pub(super) fn convergent(text: &str) -> Option<Mnemonic> {
    let code = without_comments(text);
    let words = code.split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '.' | '$' | '%'));
    words.into_iter().find_map(|word| {
        instead(word).map(|instead| Mnemonic {
            text: word.into(),
            instead,
        })
    })
}

fn instead(word: &str) -> Option<&'static str> {
    let (family, _) = word.split_once('.')?;
    let has = |name| word.split('.').any(|part| part == name);
    let known = FAMILIES
        .iter()
        .find(|(name, _)| *name == family)
        .map(|(_, instead)| *instead);
    // What is newer than this list, or pieced together by a macro, still says that lanes wait for each other.
    known.or_else(|| (has("sync") || has("aligned")).then_some(GUARD))
}

fn without_comments(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("//").into_iter().chain(rest.find("/*")).min() {
        code.push_str(&rest[..start]);
        let end = if rest[start..].starts_with("//") { "\n" } else { "*/" };
        rest = rest[start + 2..].split_once(end).map_or("", |(_, after)| after);
        code.push('\n');
    }
    code + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn convergent_instructions() {
        for text in [
            "bar.sync 0;",
            "@%p bar.warp.sync {mask};",
            "{{.reg .pred p; setp.ne.u32 p, {v}, 0; vote.sync.ballot.b32 {r}, p, -1;}}",
            "barrier.cluster.arrive.aligned;",
            "bar.arrive 1, 64;",
            "L1:shfl.sync.idx.b32 {r}, {v}, 0, 31, -1;",
            "match.any.sync.b32 {r}, {v}, -1;",
            "activemask.b32 {r};",
            "elect.sync _|p, -1;",
            "redux.sync.add.s32 {r}, {v}, -1;",
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{a}}}, [{p}];",
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
            "wgmma.fence.sync.aligned;",
            "setmaxnreg.inc.sync.aligned.u32 240;",
            "tcgen05.alloc.cta_group::1.sync.aligned.b32 [{a}], 32;",
            ".sync 0;",
            "mov.u32 {a}, {b}; // x\n bar.sync 0;",
            "/* x */ bar.{kind} 0;",
        ] {
            assert!(convergent(text).is_some(), "{text}");
        }
        assert_eq!(convergent("mov.b32 a, b; bar.sync 0;").unwrap().text, "bar.sync");
    }

    #[test]
    fn others() {
        for text in [
            "ld.acquire.sys.global.u32 {r}, [{a}];",
            "fence.acq_rel.sys;",
            "membar.gl;",
            "mov.u32 {lane}, %laneid; // shmem-tile, as bar.sync",
            "mov.u32 {lane}, %laneid; /* bar.sync */ add.u32 a, b, c;",
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{d}], [{s}], {n}, [{b}];",
            "mbarrier.try_wait.parity.shared::cta.b64 p, [{a}], {s};",
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [{a}], {n};",
            "mbarrier.init.shared.b64 [{a}], 1;",
            "mbarrier.arrive.shared::cta.b64 _, [{a}];",
            "mbarrier.test_wait.shared.b64 p, [{a}], {s};",
            ".shared .align 16 .b8 barrier[16];",
            "vote",
            "nanosleep.u32 100;",
        ] {
            assert_eq!(convergent(text), None, "{text}");
        }
    }
}
