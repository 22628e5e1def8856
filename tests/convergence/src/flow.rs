//! Why does an instruction of the source stand twice in the PTX? The control flow tells the harmless reason from the harmful one.
//!
//! | | what happened | lanes |
//! |---|---|---|
//! | [`Copies::Sequence`] | a loop's first iteration was peeled off, or both stand in one block | all come to the first copy, then all to the second |
//! | [`Copies::Alternatives`] | the instruction went into arms, or into loops for different states | some wait at one copy, some at the other |

use crate::ptx::{Item, family, items};
use std::collections::HashMap;

/// How two copies of one instruction lie to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// One after the other: whoever executes the second has executed the first before, in the same round of every loop
    /// that holds the first.
    Sequence,
    /// Anything else.
    Alternatives,
}

/// The control flow of one kernel.
#[derive(Debug)]
pub struct Flow<'a> {
    blocks: Vec<Block<'a>>,
}

#[derive(Debug, Default)]
struct Block<'a> {
    ops: Vec<&'a str>,
    next: Vec<usize>,
}

impl<'a> Flow<'a> {
    /// Reads the body of a kernel, which has no comments any more.
    #[must_use]
    pub fn new(code: &'a str) -> Self {
        Self { blocks: blocks(code) }
    }

    /// The blocks that hold an instruction for which `is` holds, one entry for each such instruction.
    pub fn find(&self, is: impl Fn(&str) -> bool) -> Vec<usize> {
        let numbered = self.blocks.iter().enumerate();
        numbered
            .flat_map(|(i, block)| block.ops.iter().filter(|op| is(op)).map(move |_| i))
            .collect()
    }

    /// Whether every way from the entry to a return leads through one of these blocks. Ways that end in a fault don't count.
    #[must_use]
    pub fn always(&self, places: &[usize]) -> bool {
        let mut around = vec![true; self.blocks.len()];
        for &place in places {
            around[place] = false;
        }
        let reached = reach(&self.blocks, 0, &around);
        !self
            .find(|op| family(op) == "ret")
            .into_iter()
            .any(|block| reached[block])
    }

    /// How the copies in these blocks lie to each other: `Sequence` if all pairs do.
    #[must_use]
    pub fn copies(&self, places: &[usize]) -> Copies {
        let loops = Loops::new(&self.blocks);
        let sequence = |a, b| a == b || loops.precedes(a, b) || loops.precedes(b, a);
        let pairs = places
            .iter()
            .enumerate()
            .all(|(i, &a)| places[i + 1..].iter().all(|&b| sequence(a, b)));
        if pairs { Copies::Sequence } else { Copies::Alternatives }
    }
}

/// Which blocks lie in which loops.
struct Loops<'a> {
    blocks: &'a [Block<'a>],
    /// `dominates[a][b]`: every way from the entry to b leads through a.
    dominates: Vec<Vec<bool>>,
}

impl<'a> Loops<'a> {
    fn new(blocks: &'a [Block<'a>]) -> Self {
        let mut allowed = vec![true; blocks.len()];
        let reached = reach(blocks, 0, &allowed);
        let mut dominates = vec![];
        for a in 0..blocks.len() {
            allowed[a] = false;
            let around = reach(blocks, 0, &allowed);
            allowed[a] = true;
            dominates.push((0..blocks.len()).map(|b| reached[b] && !around[b]).collect());
        }
        Self { blocks, dominates }
    }

    /// Whether `a` is what was peeled off a loop that holds `b`: every way to b leads through a, no loop holds a alone
    /// (lanes that leave it at different times would wait at both), and some loop holds b alone (in one loop, a and b
    /// could be two states of it).
    fn precedes(&self, a: usize, b: usize) -> bool {
        let headers = 0..self.blocks.len();
        self.dominates[a][b]
            && headers.clone().all(|h| !self.holds(h, a) || self.holds(h, b))
            && headers.clone().any(|h| !self.holds(h, a) && self.holds(h, b))
    }

    /// Whether the loop that begins at `header` holds `block`: it leads back there without leaving what the header
    /// dominates.
    fn holds(&self, header: usize, block: usize) -> bool {
        let inside = &self.dominates[header];
        inside[block]
            && self.blocks[block]
                .next
                .iter()
                .any(|&n| inside[n] && reach(self.blocks, n, inside)[header])
    }
}

/// Which blocks can be reached from `start`, through `allowed` ones only.
fn reach(blocks: &[Block<'_>], start: usize, allowed: &[bool]) -> Vec<bool> {
    let mut reached = vec![false; blocks.len()];
    let mut open = vec![start];
    while let Some(i) = open.pop() {
        if allowed[i] && !reached[i] {
            reached[i] = true;
            open.extend(&blocks[i].next);
        }
    }
    reached
}

/// A block begins at a label and after a jump.
fn blocks(code: &str) -> Vec<Block<'_>> {
    let mut blocks = vec![Block::default()];
    let mut labels = HashMap::new();
    let mut tables = HashMap::new();
    let mut label = "";
    for item in items(code) {
        match item {
            Item::Label(name) => {
                blocks.push(Block::default());
                label = name;
                labels.insert(label, blocks.len() - 1);
            }
            Item::Op(op) => {
                if let Some(targets) = op.strip_prefix(".branchtargets") {
                    tables.insert(label, targets);
                    continue;
                }
                let last = blocks.len() - 1;
                blocks[last].ops.push(op);
                if targets(op).is_some() {
                    blocks.push(Block::default());
                }
            }
        }
    }
    for i in 0..blocks.len() {
        let last = blocks[i].ops.last().copied().unwrap_or_default();
        let jump = targets(last);
        let falls_through = jump.is_none() || last.starts_with('@');
        let names = jump.map_or(vec![], |to| {
            tables.get(to).unwrap_or(&to).split(',').map(str::trim).collect()
        });
        let mut next: Vec<usize> = names.iter().filter_map(|name| labels.get(name).copied()).collect();
        next.extend((falls_through && i + 1 < blocks.len()).then_some(i + 1));
        blocks[i].next = next;
    }
    blocks
}

/// Where a jump leads: a label, that of a table of labels, or nothing. `None` for all other instructions.
fn targets(op: &str) -> Option<&str> {
    match family(op) {
        "bra" | "brx" => op.split_whitespace().last(),
        "ret" | "exit" | "trap" => Some(""),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies(code: &str) -> Copies {
        let flow = Flow::new(code);
        let places = flow.find(|op| op == "bar.sync 7");
        assert!(places.len() > 1);
        flow.copies(&places)
    }

    #[test]
    fn arms_are_alternatives() {
        let code = "@%p bra $A; bar.sync 7; bra.uni $E; $A: bar.sync 7; $E: ret;";
        assert_eq!(copies(code), Copies::Alternatives);
        let table = "$T: .branchtargets $A, $B; brx.idx %r, $T; $A: bar.sync 7; ret; $B: bar.sync 7; ret;";
        assert_eq!(copies(table), Copies::Alternatives);
    }

    #[test]
    fn arms_in_a_loop_are_alternatives() {
        let code = "$H: @%p bra $A; bar.sync 7; bra.uni $E; $A: bar.sync 7; $E: @%q bra $H; ret;";
        assert_eq!(copies(code), Copies::Alternatives);
    }

    #[test]
    fn a_loop_for_each_state_is_alternatives() {
        let code = "$H: bar.sync 7; @%p bra $H; $I: bar.sync 7; @%q bra $I; ret;";
        assert_eq!(copies(code), Copies::Alternatives);
        // Lanes in state q wait at the second copy while the others wait at the first.
        let states = "$H: bar.sync 7; @%q bra $I; bra.uni $E; $I: bar.sync 7; $E: @%p bra $H; ret;";
        assert_eq!(copies(states), Copies::Alternatives);
    }

    #[test]
    fn a_copy_that_lanes_can_pass_by_is_an_alternative() {
        let code = "@%p bra $H; bar.sync 7; $H: bar.sync 7; @%q bra $H; ret;";
        assert_eq!(copies(code), Copies::Alternatives);
    }

    #[test]
    fn a_call_that_sank_into_an_arm_is_not_on_every_way() {
        let always = |code| {
            let flow = Flow::new(code);
            flow.always(&flow.find(|op| op == "vote"))
        };
        assert!(always("@%f bra $F; vote; @%p bra $E; st; $E: ret; $F: exit;"));
        assert!(!always("@%p bra $E; vote; st; $E: ret;"));
        assert!(always("@%p bra $A; vote; bra $E; $A: vote; $E: ret;"));
    }

    #[test]
    fn a_peeled_iteration_is_a_sequence() {
        let peeled = "bar.sync 7; @%p bra $E; $H: bar.sync 7; @%q bra $H; $E: ret;";
        assert_eq!(copies(peeled), Copies::Sequence);
        let within = format!(
            "$O: @%x bra $N; {} $N: @%y bra $O; ret;",
            peeled.trim_end_matches("$E: ret;").replace("$E", "$N")
        );
        assert_eq!(copies(&within), Copies::Sequence);
        assert_eq!(copies("bar.sync 7; add %r; bar.sync 7; ret;"), Copies::Sequence);
    }
}
