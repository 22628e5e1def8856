//! As much of Rust's lexis as the lint needs: words, strings, single characters; comments are gone.

use super::MARKER;

/// A word, string or character, and its line from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) line: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name, keyword or number.
    Word(String),
    /// What a string literal says.
    Text(String),
    /// Anything else.
    Mark(char),
}

impl Token {
    pub(super) fn word(&self) -> Option<&str> {
        match &self.kind {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }

    pub(super) fn is(&self, mark: char) -> bool {
        self.kind == Kind::Mark(mark)
    }
}

pub(super) struct Source {
    pub(super) tokens: Vec<Token>,
    /// Lines with a comment that holds the marker.
    pub(super) markers: Vec<usize>,
}

impl Source {
    pub(super) fn read(text: &str) -> Self {
        let mut source = Self {
            tokens: vec![],
            markers: vec![],
        };
        let (mut rest, mut line) = (text, 1);
        while let Some(c) = rest.chars().next() {
            let (length, kind) = next(rest, c);
            let (taken, after) = rest.split_at(length);
            if taken.starts_with("//") && taken.contains(MARKER) {
                source.markers.push(line);
            }
            source.tokens.extend(kind.map(|kind| Token { kind, line }));
            line += taken.matches('\n').count();
            rest = after;
        }
        source
    }
}

/// How many bytes the first token of `rest` takes, and what it is; `None` for what is skipped.
fn next(rest: &str, c: char) -> (usize, Option<Kind>) {
    if rest.starts_with("//") {
        return (rest.find('\n').unwrap_or(rest.len()), None);
    }
    if rest.starts_with("/*") {
        return (block_comment(rest), None);
    }
    if let Some((length, text)) = string(rest) {
        return (length, Some(Kind::Text(text)));
    }
    if c == '\'' {
        return (quote(rest), None);
    }
    if is_word(c) {
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        return (length, Some(Kind::Word(rest[..length].into())));
    }
    (c.len_utf8(), (!c.is_whitespace()).then_some(Kind::Mark(c)))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// They nest.
fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match &rest.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// `"x"`, `r"x"`, `r#"x"#`, and those with a `b` or `c` before them.
fn string(rest: &str) -> Option<(usize, String)> {
    let prefixed = rest.trim_start_matches(['b', 'c']);
    let prefix = rest.len() - prefixed.len();
    let raw = prefixed.strip_prefix('r');
    let hashes = raw.map_or(0, |raw| raw.len() - raw.trim_start_matches('#').len());
    let start = prefix + usize::from(raw.is_some()) + hashes + 1;
    if prefix > 1 || rest.as_bytes().get(start - 1) != Some(&b'"') {
        return None;
    }
    let inner = &rest[start..];
    if raw.is_some() {
        let close = format!("\"{}", "#".repeat(hashes));
        let length = inner.find(&close)?;
        return Some((start + length + close.len(), inner[..length].into()));
    }
    let (mut text, mut chars) = (String::new(), inner.char_indices());
    while let Some((i, c)) = chars.next() {
        match c {
            '"' => return Some((start + i + 1, text)),
            // What is escaped is white space or nothing that an instruction has in it.
            '\\' => {
                text.push(' ');
                chars.next();
            }
            c => text.push(c),
        }
    }
    None
}

/// A character, or the quote of a lifetime.
fn quote(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        // The escaped character itself may be a quote.
        (Some((_, '\\')), Some((i, c))) => {
            let after = i + c.len_utf8();
            after + rest[after..].find('\'').map_or(0, |end| end + 1)
        }
        (Some(_), Some((end, '\''))) => end + 1,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind> {
        Source::read(text).tokens.into_iter().map(|token| token.kind).collect()
    }

    #[test]
    fn strings() {
        let text = |text: &str| vec![Kind::Text(text.into())];
        assert_eq!(kinds(r#""a \" b""#), text("a   b"));
        assert_eq!(kinds("r\"a \\\" // x"), [text("a \\")].concat());
        assert_eq!(kinds("br##\"a\"# b\"##/* \" */"), text("a\"# b"));
        assert_eq!(kinds("\"bar\\\n  .sync\""), text("bar   .sync"));
    }

    #[test]
    fn comments_characters_and_lifetimes() {
        let words = |words: &[&str]| words.iter().map(|&w| Kind::Word(w.into())).collect::<Vec<_>>();
        assert_eq!(kinds("a // \"\n/* /* \" */ ' */ b"), words(&["a", "b"]));
        assert_eq!(kinds(r"a '\'' '\u{22}' '\\' b '/' c"), words(&["a", "b", "c"]));
        assert_eq!(
            kinds("'\"' 'é' 'a r#type bc"),
            [words(&["a", "r"]), vec![Kind::Mark('#')], words(&["type", "bc"])].concat()
        );
    }

    #[test]
    fn lines() {
        let source = Source::read(&format!("a\n\"x\n\" b\n/*\n*/ c // {MARKER}\n"));
        let lines: Vec<_> = source.tokens.iter().map(|token| token.line).collect();
        assert_eq!((lines, source.markers), (vec![1, 2, 3, 5], vec![5]));
    }
}
