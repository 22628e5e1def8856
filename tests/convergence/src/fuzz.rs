//! Random kernels, and what became of each convergent call in them.
//!
//! Each call can be told apart in the PTX: a barrier has its own number, a shuffle its own source lane.

mod generate;
mod random;

use crate::flow::{Copies, Flow};
use crate::ptx;
pub use generate::{Form, kernels};
use std::fmt;

/// A generated kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The function's name.
    pub name: String,
    /// The function, `#[kernel]` included.
    pub source: String,
    /// Its convergent calls.
    pub sites: Vec<Site>,
}

/// One convergent call of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// What tells it apart.
    pub call: Call,
    /// Whether every thread that returns has been there.
    pub always: bool,
}

/// The kind of a convergent call, and its number in its kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// The barrier with this number.
    Barrier(u32),
    /// The shuffle from this lane.
    Shuffle(u32),
}

impl Call {
    /// Whether `op` is this call's instruction.
    fn is(self, op: &str) -> bool {
        // Most instructions end here.
        let Some(operands) = op.strip_prefix(self.opcode()) else {
            return false;
        };
        let operands: Vec<_> = operands.split(',').map(str::trim).collect();
        match self {
            Self::Barrier(n) => matches!(operands[..], [number] if number == n.to_string()),
            Self::Shuffle(n) => matches!(operands[..], [_, _, lane, "31", "-1"] if lane == n.to_string()),
        }
    }

    const fn opcode(self) -> &'static str {
        match self {
            Self::Barrier(_) => "barrier.sync",
            Self::Shuffle(_) => "shfl.sync.idx.b32",
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Barrier(n) => write!(f, "barrier {n}"),
            Self::Shuffle(n) => write!(f, "the shuffle from lane {n}"),
        }
    }
}

/// A call that stands more than once in the PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// The call.
    pub call: Call,
    /// How often.
    pub times: usize,
    /// How the copies lie to each other.
    pub copies: Copies,
}

/// What became of a kernel's calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Those with more than one copy.
    pub duplicates: Vec<Duplicate>,
    /// Those that sank into an arm: threads return without having been there.
    pub sunk: Vec<Call>,
    /// How many have none: dead code, or two arms merged into one instruction that takes its number from a register.
    pub gone: usize,
}

/// Looks for the calls of `kernel` in `body`, as [`ptx::body`] returns it.
#[must_use]
pub fn outcome(kernel: &Kernel, body: &str) -> Outcome {
    let code = ptx::without_comments(body);
    let flow = Flow::new(&code);
    let mut outcome = Outcome::default();
    for &Site { call, always } in &kernel.sites {
        let places = flow.find(|op| call.is(op));
        if places.is_empty() {
            outcome.gone += 1;
            continue;
        }
        if places.len() > 1 {
            outcome.duplicates.push(Duplicate {
                call,
                times: places.len(),
                copies: flow.copies(&places),
            });
        }
        if always && !flow.always(&places) {
            outcome.sunk.push(call);
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(sites: &[(Call, bool)]) -> Kernel {
        let sites = sites.iter().map(|&(call, always)| Site { call, always }).collect();
        Kernel {
            name: "k".into(),
            source: String::new(),
            sites,
        }
    }

    /// What the fuzzer exists for: it must see this.
    #[test]
    fn a_barrier_in_both_arms_is_found() {
        let body = "\
	@%p1 bra 	$L__BB0_2;
	barrier.sync 	3; // barrier.sync 4;
	shfl.sync.idx.b32 	%r2, %r1, 6, 31, -1;
	bra.uni 	$L__BB0_3;
$L__BB0_2:
	// begin inline asm
	barrier.sync 3;
	// end inline asm
$L__BB0_3:
	barrier.sync 	4;
	shfl.sync.idx.b32 	%r2, %r1, 4, 31, -1;
	ret;";
        let arm = (Call::Shuffle(6), false);
        let sites = [
            (Call::Barrier(3), true),
            (Call::Barrier(4), true),
            (Call::Shuffle(4), true),
            (Call::Shuffle(5), true),
            arm,
        ];
        let found = Duplicate {
            call: Call::Barrier(3),
            times: 2,
            copies: Copies::Alternatives,
        };
        let expected = Outcome {
            duplicates: vec![found],
            sunk: vec![],
            gone: 1,
        };
        assert_eq!(outcome(&kernel(&sites), body), expected);
        let sunk = [(Call::Shuffle(6), true)];
        assert_eq!(outcome(&kernel(&sunk), body).sunk, [Call::Shuffle(6)]);
    }

    #[test]
    fn the_same_seed_gives_the_same_kernels() {
        let source = |seed| {
            kernels(seed, 3, "k", Form::Shmem)
                .into_iter()
                .map(|k| k.source)
                .collect::<String>()
        };
        assert_eq!(source(5), source(5));
        assert_ne!(source(5), source(6));
    }

    #[test]
    fn the_listed_sites_are_those_of_the_source() {
        for kernel in kernels(1, 20, "k", Form::Shmem) {
            let barriers = kernel
                .sites
                .iter()
                .filter(|site| matches!(site.call, Call::Barrier(_)))
                .count();
            assert_eq!(kernel.source.matches("sync_id::<").count(), barriers);
            assert_eq!(
                kernel.source.matches("warp::shuffle(").count(),
                kernel.sites.len() - barriers
            );
        }
    }
}
