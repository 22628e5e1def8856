//! Reads what has to be known of a kernel's PTX.

/// A label, or an instruction with its predicate and operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// The name before a colon.
    Label(&'a str),
    /// Without the semicolon. Directives are among them.
    Op(&'a str),
}

/// How many convergent instructions a kernel has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// `barrier.sync`, `bar.sync`
    pub barriers: usize,
    /// `shfl.sync`
    pub shuffles: usize,
    /// `vote.sync`
    pub votes: usize,
    /// `mma.sync`
    pub products: usize,
    /// `ldmatrix.sync`
    pub matrices: usize,
}

impl Counts {
    /// Counts the instructions of a body without comments.
    #[must_use]
    pub fn of(code: &str) -> Self {
        let mut counts = Self::default();
        for item in items(code) {
            let Item::Op(op) = item else { continue };
            match family(op) {
                "bar" | "barrier" => counts.barriers += 1,
                "shfl" => counts.shuffles += 1,
                "vote" => counts.votes += 1,
                "mma" => counts.products += 1,
                "ldmatrix" => counts.matrices += 1,
                _ => {}
            }
        }
        counts
    }
}

/// Whether the instruction is one of those that are counted.
#[must_use]
pub fn is_counted(op: &str) -> bool {
    Counts::of(op) != Counts::default()
}

/// What stands in the braces of the entry whose name begins with `symbol`.
#[must_use]
pub fn body<'a>(ptx: &'a str, symbol: &str) -> Option<&'a str> {
    let (_, rest) = ptx.split_once(&format!(".entry {symbol}"))?;
    let (_, rest) = rest.split_once("\n{")?;
    Some(rest.split_once("\n}").map_or(rest, |(body, _)| body))
}

/// The text with `//` comments, where the compiler names registers and inline assembly, taken out.
#[must_use]
pub fn without_comments(body: &str) -> String {
    let code = |line: &str| line.split("//").next().unwrap_or_default().to_owned();
    body.lines().map(code).collect::<Vec<_>>().join("\n")
}

/// Labels and instructions in order. An instruction may go over several lines, and several may share one.
pub fn items(code: &str) -> impl Iterator<Item = Item<'_>> {
    code.split(';').flat_map(|statement| {
        let mut items = vec![];
        let mut rest = statement;
        loop {
            // Braces at the start open and close scopes; those of operands come later.
            rest = rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '{' | '}'));
            match rest.split_once(':') {
                Some((label, after)) if label.chars().all(is_identifier) => {
                    items.push(Item::Label(label));
                    rest = after;
                }
                _ => break,
            }
        }
        let op = rest.trim_end();
        items.extend((!op.is_empty()).then_some(Item::Op(op)));
        items
    })
}

/// The instruction's name, modifiers included, predicate not.
#[must_use]
pub fn opcode(op: &str) -> &str {
    let mut words = op.split_whitespace();
    let first = words.next().unwrap_or_default();
    if first.starts_with('@') {
        words.next().unwrap_or_default()
    } else {
        first
    }
}

/// The instruction's name up to the first dot.
pub(crate) fn family(op: &str) -> &str {
    opcode(op).split('.').next().unwrap_or_default()
}

pub(crate) const fn is_identifier(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%')
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = "\
.visible .entry k$two(
)
{
	ret;
}
.visible .entry k$one(
	.param .u32 p
)
{
	.reg .pred 	%p<3>;
$L1: $L2:
	@%p1 barrier.sync 	0; // barrier.sync 1;
	{ // callseq 4, 0
	call.uni f, (p);
	} // callseq 4
	// begin inline asm
	{ .reg .pred q; @!q bar.sync 3; } mma.sync.aligned.m16n8k16
	{%r1, %r2}, {%r3};
	// end inline asm
	shfl.sync.idx.b32 	%r12, %r9, 3, 31, -1;
	vote.sync.ballot.b32 	%r1, %p1, -1;
	ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r2];
	ret;

}
";

    #[test]
    fn counts_of_one_entry() {
        let one = without_comments(body(PTX, "k$one").unwrap());
        let counts = Counts {
            barriers: 2,
            shuffles: 1,
            votes: 1,
            products: 1,
            matrices: 1,
        };
        assert_eq!(Counts::of(&one), counts);
        assert_eq!(Counts::of(body(PTX, "k$two").unwrap()), Counts::default());
        assert_eq!(body(PTX, "k$three"), None);
    }

    #[test]
    fn labels_and_operands() {
        let code = without_comments(body(PTX, "k$one").unwrap());
        let items: Vec<_> = items(&code).collect();
        assert_eq!(
            items[1..4],
            [
                Item::Label("$L1"),
                Item::Label("$L2"),
                Item::Op("@%p1 barrier.sync \t0")
            ]
        );
        assert!(items.contains(&Item::Op("mma.sync.aligned.m16n8k16\n\t{%r1, %r2}, {%r3}")));
        assert_eq!(opcode("@!%p1 bra.uni \t$L"), "bra.uni");
    }
}
