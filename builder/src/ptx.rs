//! The last step: the compiler's PTX becomes PTX that a driver loads.

use crate::{before_90, error::Error, limits, ptx_version};

/// Starts a comment that a kernel leaves by `global_asm!` to get its launch bounds, which rustc has no attribute for:
/// `// shmem-entry <symbol> reqntid 512,1,1`.
const COMMENT: &str = "// shmem-entry ";

/// What such a comment may ask for, besides numbers: PTX ISA, "performance-tuning directives" and "cluster dimension
/// directives".
const DIRECTIVES: [&str; 7] = [
    "maxnreg",
    "maxntid",
    "reqntid",
    "minnctapersm",
    "reqnctapercluster",
    "maxclusterrank",
    "explicitcluster",
];

/// The functions that every CUDA driver defines for a kernel: "PTX Writer's Guide to Interoperability", system calls.
const SYSTEM_CALLS: [&str; 4] = ["vprintf", "malloc", "free", "__assertfail"];

/// What is wrong with some PTX.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    Unresolved(Vec<String>),
    BadComment(String),
    Limits(Vec<String>),
}

impl Fault {
    pub(crate) fn in_package(self, package: &str) -> Error {
        let package = package.to_owned();
        match self {
            Self::Unresolved(functions) => Error::Unresolved { package, functions },
            Self::BadComment(line) => {
                let known = DIRECTIVES.join(", ");
                let problem = format!(
                    "`{line}` is no launch bound: expected `{COMMENT}<symbol> <directive> <n>,..` with one of {known}"
                );
                Error::Ptx { package, problem }
            }
            Self::Limits(problems) => Error::Ptx {
                package,
                problem: problems.join("; "),
            },
        }
    }
}

/// Moves launch bounds from comments to their entries, refuses functions that nothing defines and declarations that
/// no driver takes, gives older architectures their instructions, and raises `.version` to what the instructions need.
pub(crate) fn finish(ptx: &str) -> Result<String, Fault> {
    let undefined = undefined_functions(ptx);
    if !undefined.is_empty() {
        return Err(Fault::Unresolved(undefined));
    }
    let broken = limits::check(ptx);
    if !broken.is_empty() {
        return Err(Fault::Limits(broken));
    }
    let bounded = apply_bounds(ptx, &bounds(ptx)?);
    Ok(ptx_version::raise(&before_90::replace(bounded)))
}

/// A directive for one entry, ready to be printed.
#[derive(PartialEq, Eq, Debug)]
struct Bound<'a> {
    entry: &'a str,
    name: &'a str,
    values: String,
}

fn bounds(ptx: &str) -> Result<Vec<Bound<'_>>, Fault> {
    let mut bounds = Vec::new();
    for line in ptx.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix(COMMENT) {
            let bound = bound(comment).ok_or_else(|| Fault::BadComment(line.into()))?;
            if !bounds.contains(&bound) {
                bounds.push(bound);
            }
        }
    }
    Ok(bounds)
}

/// `<symbol> reqntid 512,1,1`
fn bound(comment: &str) -> Option<Bound<'_>> {
    let mut words = comment.splitn(3, ' ');
    let (entry, name, values) = (words.next()?, words.next()?, words.next().unwrap_or_default());
    let numbers: Vec<&str> = values.split(',').map(str::trim).collect();
    let all_numbers = numbers.iter().all(|number| number.parse::<u32>().is_ok());
    let complete = if name == "explicitcluster" {
        values.is_empty()
    } else {
        all_numbers
    };
    let known = DIRECTIVES.contains(&name) && complete;
    known.then(|| Bound {
        entry,
        name,
        values: numbers.join(", "),
    })
}

/// The text with each bound before the `{` of its entry and without the comments. A bound whose entry does not exist
/// (a generic kernel nobody asked for, another crate's) goes unused.
fn apply_bounds(ptx: &str, bounds: &[Bound<'_>]) -> String {
    let mut result = String::with_capacity(ptx.len() + 64 * bounds.len());
    // The header of an entry whose body has not begun.
    let mut header: Option<String> = None;
    for line in ptx.split_inclusive('\n') {
        let code = line.trim_start();
        if code.starts_with(COMMENT) {
            continue;
        }
        if header.is_none() && !code.starts_with("//") && code.contains(".entry ") {
            header = Some(String::new());
        }
        let Some(text) = &mut header else {
            result.push_str(line);
            continue;
        };
        text.push_str(line);
        if let Some(body) = text.find('{') {
            let entry = entry_name(text);
            let (head, body) = text.split_at(body);
            result.push_str(head);
            for bound in bounds.iter().filter(|bound| Some(bound.entry) == entry) {
                // A later rustc may write bounds of its own; twice is an error.
                if !head.contains(&format!(".{} ", bound.name)) {
                    result.push_str(format!(".{} {}", bound.name, bound.values).trim_end());
                    result.push('\n');
                }
            }
            result.push_str(body);
            header = None;
        }
    }
    result.push_str(&header.unwrap_or_default());
    result
}

/// `k` of `.visible .entry k(`
fn entry_name(header: &str) -> Option<&str> {
    let (_, rest) = header.split_once(".entry ")?;
    rest.trim_start().split(|c: char| !is_identifier(c)).next()
}

/// The functions that are declared as defined elsewhere, without those that the driver defines.
fn undefined_functions(ptx: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (at, found) in ptx.match_indices(".extern .func") {
        let line_start = ptx[..at].rfind('\n').map_or(0, |newline| newline + 1);
        if ptx[line_start..at].contains("//") {
            continue;
        }
        // `.extern .func (.param .b32 func_retval0) name (..)`: a result stands before the name.
        let mut rest = ptx[at + found.len()..].trim_start();
        if let Some(result) = rest.strip_prefix('(') {
            rest = result.split_once(')').map_or("", |(_, after)| after).trim_start();
        }
        let name = rest.split(|c: char| !is_identifier(c)).next().unwrap_or_default();
        if !SYSTEM_CALLS.contains(&name) && !names.iter().any(|known| known == name) {
            names.push(name.into());
        }
    }
    names
}

const fn is_identifier(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As LLVM 22 prints it.
    const PTX: &str = "\
//
// Generated by LLVM NVPTX Back-End
//

.version 7.8
.target sm_90
.address_size 64

// shmem-entry scale$0a reqntid 512,1,1
// shmem-entry nop maxntid 1024
	// shmem-entry nop minnctapersm 2
// shmem-entry gone maxntid 64
// shmem-entry nop maxntid 1024
.extern .func  (.param .b32 func_retval0) vprintf
(
	.param .b64 vprintf_param_0
)
;
	// .globl	scale$0a                 // -- Begin function scale$0a
.visible .entry scale$0a(
	.param .u64 .ptr .align 1 scale$0a_param_0,
	.param .align 8 .b8 scale$0a_param_1[16]
)
{
	.reg .b64 	%rd<3>;
	{ // callseq 0, 0
	ret;
}
.visible .entry nop()
{
	ret;
}
.visible .entry scale$0()
{
	ret;
}
";

    #[test]
    fn bounds_move_to_their_entries() {
        let text = finish(PTX).unwrap();
        assert!(
            text.contains("scale$0a_param_1[16]\n)\n.reqntid 512, 1, 1\n{\n\t.reg"),
            "{text}"
        );
        assert!(
            text.contains(".entry nop()\n.maxntid 1024\n.minnctapersm 2\n{"),
            "{text}"
        );
        assert!(text.contains(".entry scale$0()\n{"), "{text}");
        assert!(!text.contains("shmem-entry") && !text.contains("gone"), "{text}");
        let rest: Vec<_> = text
            .lines()
            .filter(|line| !line.starts_with(".m") && !line.starts_with(".r"))
            .collect();
        let before: Vec<_> = PTX.lines().filter(|line| !line.contains("shmem-entry")).collect();
        assert_eq!(rest, before);
    }

    #[test]
    fn a_bound_that_is_there_already_is_not_doubled() {
        let ptx = "// shmem-entry k maxntid 64\n.entry k()\n.maxntid 128, 1, 1 \n{\n}\n";
        assert_eq!(finish(ptx).unwrap(), ".entry k()\n.maxntid 128, 1, 1 \n{\n}\n");
        assert_eq!(
            finish("// shmem-entry k maxntid 64\n.entry k() {}").unwrap(),
            ".entry k() .maxntid 64\n{}"
        );
        assert_eq!(
            finish("// shmem-entry k explicitcluster\n.entry k()\n{}").unwrap(),
            ".entry k()\n.explicitcluster\n{}"
        );
    }

    #[test]
    fn comments_that_say_nothing_valid_are_refused() {
        for comment in [
            "k",
            "k reqntid",
            "k reqntid x",
            "k speed 3",
            "k reqntid 1,,2",
            "k explicitcluster 1",
        ] {
            let line = format!("// shmem-entry {comment}");
            assert_eq!(finish(&line), Err(Fault::BadComment(line.clone())));
        }
        let message = Fault::BadComment("// shmem-entry k speed 3".into())
            .in_package("k1")
            .to_string();
        assert!(
            message.contains("`k1`") && message.contains("reqntid, minnctapersm"),
            "{message}"
        );
    }

    #[test]
    fn functions_that_nothing_defines_are_named() {
        assert_eq!(undefined_functions(PTX), [] as [&str; 0]);
        let ptx = ".extern .func  (.param .b32 func_retval0) memcmp\n(\n\t.param .b64 a\n)\n;\n.extern .func abort()\n;\n\
                   // .extern .func comment\n.extern .func (.param .b32 r) memcmp();\n.func mine() {}\n";
        assert_eq!(undefined_functions(ptx), ["memcmp", "abort"]);
        let message = finish(ptx).unwrap_err().in_package("k1").to_string();
        assert!(message.contains("`k1` calls `memcmp`, `abort`"), "{message}");
    }

    #[test]
    fn declarations_that_no_driver_takes_are_refused() {
        let ptx = format!("{PTX}.shared .align 16 .b8 k1$shared$0a[0];\n.shared .b8 big[50000];\n");
        let message = finish(&ptx).unwrap_err().in_package("k1").to_string();
        for part in [
            "the PTX of `k1` can't be used",
            "`k1$shared$0a` has 0 bytes",
            "`big` has 50000 bytes",
        ] {
            assert!(message.contains(part), "no `{part}` in: {message}");
        }
    }
}
