//! Refuses convergent instructions in `asm!`: the compiler would be free to copy them into the arms of a branch.
//!
//! Allowed are instructions that have no convergent intrinsic, right after a call of `activemask` in the same function:
//! that intrinsic is convergent and keeps the `asm!` behind it in its place.
//!
//! The source is read as tokens, so comments and plain strings may say what they like. A macro that passes its arguments on
//! to `asm!` counts as `asm!` where it is called.

mod guard;
mod mnemonic;
mod tokens;

use mnemonic::Mnemonic;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};
use tokens::{Kind, Source, Token};

/// A comment with this text right above an `asm!` lets it pass, in this package only: it has to show what goes wrong.
const MARKER: &str = "convergence-lint: counter-example";
const MARKED: &str = "tests/convergence";

/// A Rust file.
#[derive(Clone, Debug)]
pub struct File {
    /// Relative to the workspace.
    pub path: PathBuf,
    /// What it holds.
    pub text: String,
}

/// A convergent instruction where it may be duplicated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file, relative to the workspace.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: usize,
    mnemonic: Mnemonic,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            line,
            mnemonic: Mnemonic { text, instead },
        } = self;
        write!(
            f,
            "{}:{line}: `{text}` in asm!: the compiler may copy it into both arms of a branch, and lanes then wait at \
             different copies. Instead, {instead}",
            path.display()
        )
    }
}

/// All Rust files below `root`, without build folders and hidden ones.
///
/// # Errors
/// A folder or file that can't be read.
pub fn files(root: &Path) -> io::Result<Vec<File>> {
    let (mut files, mut open) = (vec![], vec![PathBuf::new()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let (name, path) = (entry.file_name(), folder.join(entry.file_name()));
            let skipped = name == "target" || name.as_encoded_bytes().starts_with(b".");
            if entry.file_type()?.is_dir() && !skipped {
                open.push(path);
            } else if path.extension() == Some(OsStr::new("rs")) {
                files.push(File {
                    text: fs::read_to_string(root.join(&path))?,
                    path,
                });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// What is wrong in these files, in their order.
#[must_use]
pub fn lint(files: &[File]) -> Vec<Finding> {
    let sources: Vec<_> = files.iter().map(|file| Source::read(&file.text)).collect();
    let wrappers: HashSet<_> = sources.iter().flat_map(|source| wrappers(&source.tokens)).collect();
    let mut findings = vec![];
    for (File { path, .. }, Source { tokens, markers }) in files.iter().zip(&sources) {
        let is_asm = |name: &str| is_asm(name) || wrappers.contains(name);
        for call in calls(tokens, is_asm) {
            let line = tokens[call.name].line;
            let marked = path.starts_with(MARKED) && markers.iter().any(|&at| at == line || at + 1 == line);
            if marked || guard::stands_before(tokens, call.name) {
                continue;
            }
            let found = texts(&tokens[call.name..call.end])
                .into_iter()
                .find_map(|(line, text)| {
                    let mnemonic = mnemonic::convergent(&text)?;
                    Some(Finding {
                        path: path.clone(),
                        line,
                        mnemonic,
                    })
                });
            findings.extend(found);
        }
    }
    findings
}

fn is_asm(name: &str) -> bool {
    matches!(name, "asm" | "global_asm" | "naked_asm")
}

/// `name!( .. )`: where the name stands, and what follows the end.
struct Call {
    name: usize,
    end: usize,
}

fn calls(tokens: &[Token], is: impl Fn(&str) -> bool) -> Vec<Call> {
    let begins = |i: &usize| {
        let open = tokens
            .get(i + 2)
            .is_some_and(|t| matches!(t.kind, Kind::Mark('(' | '[' | '{')));
        tokens[*i].word().is_some_and(&is) && tokens.get(i + 1).is_some_and(|t| t.is('!')) && open
    };
    (0..tokens.len())
        .filter(begins)
        .map(|name| Call {
            name,
            end: end(tokens, name + 2),
        })
        .collect()
}

/// What follows the group that opens at `open`.
fn end(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate().skip(open) {
        match token.kind {
            Kind::Mark('(' | '[' | '{') => depth += 1,
            Kind::Mark(')' | ']' | '}') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i + 1;
        }
    }
    tokens.len()
}

/// Macros that pass an argument on to an `asm!` without a guard.
fn wrappers(tokens: &[Token]) -> Vec<String> {
    let definition = |i: &usize| tokens[*i].word() == Some("macro_rules") && tokens.len() > i + 3;
    let mut names = vec![];
    for i in (0..tokens.len()).filter(definition) {
        // macro_rules ! name { .. }
        let Some(name) = tokens[i + 2].word() else { continue };
        let body = &tokens[i + 3..end(tokens, i + 3)];
        let passes = |call: &Call| body[call.name..call.end].iter().any(|t| t.is('$'));
        if calls(body, is_asm)
            .iter()
            .any(|call| passes(call) && !guard::stands_before(body, call.name))
        {
            names.push(name.to_owned());
        }
    }
    names
}

/// The strings of a call, with their lines; those of one `concat!` as one.
fn texts(tokens: &[Token]) -> Vec<(usize, String)> {
    let mut texts = vec![];
    let mut i = 0;
    while i < tokens.len() {
        if let Kind::Text(text) = &tokens[i].kind {
            texts.push((tokens[i].line, text.clone()));
        } else if tokens[i].word() == Some("concat") && tokens.get(i + 1).is_some_and(|t| t.is('!')) {
            let end = end(tokens, i + 2);
            let pieces = tokens[i + 2..end].iter().filter_map(|token| match &token.kind {
                Kind::Text(text) => Some(text.as_str()),
                _ => None,
            });
            texts.push((tokens[i].line, pieces.collect()));
            i = end;
            continue;
        }
        i += 1;
    }
    texts
}

#[cfg(test)]
mod tests;
