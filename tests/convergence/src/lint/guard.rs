//! Whether a call of `activemask` stands right before an `asm!`.

use super::tokens::{Kind, Token};

/// Whether the token at `place`, the name of an `asm!`, comes right after a call whose name contains `activemask`.
///
/// Between them there may be `unsafe` blocks that begin or end, paths, and declarations: nothing that branches, and no
/// other call. The arms of a branch are what the guard is to keep out.
pub(super) fn stands_before(tokens: &[Token], place: usize) -> bool {
    // Blocks that end between the call and the `asm!`: the call is inside them.
    let mut inside = 0;
    let mut found = false;
    for i in (0..place).rev() {
        if found && inside == 0 {
            break;
        }
        match &tokens[i].kind {
            Kind::Mark('}') => inside += 1,
            Kind::Mark('{') if opens_plain_block(tokens, i) => inside = usize::saturating_sub(inside, 1),
            Kind::Word(word) if !found && is_call(tokens, i) => {
                if !word.contains("activemask") {
                    return false;
                }
                found = true;
            }
            Kind::Word(word) if branches(word) => return false,
            Kind::Mark('{' | '!' | '?' | '&' | '|') => return false,
            _ => {}
        }
    }
    found && inside == 0
}

/// `unsafe {`, or a block that stands as a statement or value of its own.
fn opens_plain_block(tokens: &[Token], open: usize) -> bool {
    let before = open.checked_sub(1).map(|i| &tokens[i]);
    before.is_some_and(|t| t.word() == Some("unsafe") || t.is(';') || t.is('{') || t.is('}') || t.is('='))
}

fn is_call(tokens: &[Token], i: usize) -> bool {
    tokens[i].word() != Some("let") && tokens.get(i + 1).is_some_and(|t| t.is('('))
}

fn branches(word: &str) -> bool {
    matches!(
        word,
        "if" | "else" | "match" | "for" | "while" | "loop" | "fn" | "return" | "break" | "continue" | "move"
    )
}
