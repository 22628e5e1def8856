//! Takes the compiler's errors out of what a nested cargo printed.

/// So many errors are shown; after the first few, the rest are seldom news.
const MOST: usize = 20;

/// Lines that help elsewhere and mislead here: std can't be had for a GPU.
const MISLEADING: [&str; 4] = [
    "For more information about this error",
    "Some errors have detailed explanations",
    "= help: consider building the standard library from source",
    "= help: if you wanted to use a crate named `std`",
];

/// The errors in `stderr` in rustc's full form, each once, without warnings and without what cargo adds, and at the
/// end what to do where std is missing.
///
/// Where rustc was not reached (a bad manifest, no network), or where it crashed, that is all that cargo said.
pub(crate) fn errors(stderr: &str) -> String {
    let mut errors: Vec<String> = Vec::new();
    for block in blocks(stderr) {
        let from_cargo = block.starts_with("error: could not compile");
        let warning = block.starts_with("warning");
        if !warning && !from_cargo && !errors.contains(&block) {
            errors.push(block);
        }
    }
    if errors.is_empty() {
        return stderr.trim().to_owned();
    }
    let more = errors.len().saturating_sub(MOST);
    errors.truncate(MOST);
    if more > 0 {
        errors.push(format!("({more} more errors)"));
    }
    errors.extend(without_std(stderr));
    errors.join("\n\n")
}

/// What to do about the most common mistake, in a dependency or in the package itself.
fn without_std(stderr: &str) -> Option<String> {
    if ["std", "alloc"]
        .iter()
        .any(|krate| stderr.contains(&format!("can't find crate for `{krate}`")))
    {
        let from_cargo = stderr
            .lines()
            .find_map(|line| line.strip_prefix("error: could not compile `"));
        let krate = from_cargo
            .and_then(|rest| rest.split('`').next())
            .unwrap_or("a dependency");
        return Some(format!(
            "help: `{krate}` needs std, and GPUs have only core. Switch its `std` feature off, or list what only the \
             host needs under [target.'cfg(not(target_arch = \"nvptx64\"))'.dependencies]"
        ));
    }
    let missing = [
        "crate `std`",
        "macro `println`",
        "macro `vec`",
        "macro `format`",
        "type `Vec`",
        "type `String`",
    ];
    missing.iter().any(|what| stderr.contains(what)).then(|| {
        "help: GPUs have no std, only core: put code for the host under #[cfg(not(target_arch = \"nvptx64\"))]".into()
    })
}

/// Each error or warning with all lines that belong to it; anything before the first of them is a block as well.
fn blocks(stderr: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    for line in stderr.lines() {
        let starts = ["error:", "error[", "warning:", "warning["]
            .iter()
            .any(|head| line.starts_with(head));
        let misleading = MISLEADING.iter().any(|start| line.trim_start().starts_with(start));
        if starts {
            blocks.push(String::new());
        }
        if let Some(block) = blocks.last_mut().filter(|_| !misleading) {
            block.push_str(line);
            block.push('\n');
        }
    }
    let trimmed = blocks.iter().map(|block| block.trim_end().to_owned());
    trimmed.filter(|block| !block.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MISMATCH: &str = "error[E0308]: mismatched types\n  --> k1/src/lib.rs:12:9\n   |\n12 |     let x: u32 = 1.0;";

    #[test]
    fn errors_stay_and_the_rest_goes() {
        let stderr = format!(
            "warning: unused\n --> k1/src/lib.rs:1:1\n\n{MISMATCH}\n\nFor more information about this error, try \
             `rustc --explain E0308`.\n{MISMATCH}\n\nerror: no rules\n --> k1/src/lib.rs:3:1\n\nwarning: `k1` (lib) \
             generated 1 warning\nerror: could not compile `k1` (lib) due to 2 previous errors; 1 warning emitted\n"
        );
        assert_eq!(
            errors(&stderr),
            format!("{MISMATCH}\n\nerror: no rules\n --> k1/src/lib.rs:3:1")
        );
    }

    #[test]
    fn what_cargo_says_alone_stays_whole() {
        let stderr = "error: failed to parse lock file at: /w/Cargo.lock\n\nCaused by:\n  package is in there twice\n";
        assert_eq!(errors(stderr), stderr.trim());
        let crash = "error: could not compile `k1` (lib)\n\nCaused by:\n  process didn't exit successfully: `rustc`\n";
        assert_eq!(errors(crash), crash.trim());
    }

    #[test]
    fn a_crash_of_the_code_generator_is_an_error() {
        let stderr = "rustc-LLVM ERROR: Cannot select: t1\nIn function: k\nerror: could not compile `k1` (lib)\n";
        assert_eq!(errors(stderr), "rustc-LLVM ERROR: Cannot select: t1\nIn function: k");
    }

    #[test]
    fn missing_std_is_explained() {
        let stderr = "error[E0463]: can't find crate for `std`\n --> a.rs:1:1\n  |\n  = help: consider building the \
                      standard library from source with `cargo build -Zbuild-std`\n\n\
                      error: could not compile `anyhow` (lib) due to 1 previous error\n";
        let text = errors(stderr);
        assert!(
            text.starts_with(
                "error[E0463]: can't find crate for `std`\n --> a.rs:1:1\n  |\n\nhelp: `anyhow` needs std"
            )
        );
        assert!(
            text.contains("cfg(not(target_arch = \"nvptx64\"))'.dependencies]"),
            "{text}"
        );

        let text = errors("error: cannot find macro `println` in this scope\n --> a.rs:1:1\n");
        assert!(text.ends_with("under #[cfg(not(target_arch = \"nvptx64\"))]"), "{text}");
    }

    #[test]
    fn the_list_ends() {
        let stderr: Vec<_> = (0..25).map(|i| format!("error: number {i}\n\n")).collect();
        let stderr = stderr.concat();
        assert!(errors(&stderr).ends_with("error: number 19\n\n(5 more errors)"));
    }
}
