//! The kernels of `shapes` and `mma` have as many convergent instructions as their source, on the same ways; the
//! counter-examples don't.

mod common;

use shmem::Kernel;
use shmem::vector::{Bf16x2, F16x2};
use shmem_convergence::flow::Flow;
use shmem_convergence::ptx::{self, Counts};
use shmem_convergence::{bare, mma, shapes};

/// What is expected of a kernel.
struct Expected {
    symbol: &'static str,
    /// What stands in the source; for a counter-example, in the PTX.
    source: Counts,
    /// Whether every thread that returns has come to one of them.
    always: bool,
}

fn always<K: Kernel>(source: Counts) -> Expected {
    Expected {
        symbol: K::SYMBOL,
        source,
        always: true,
    }
}

fn sometimes<K: Kernel>(source: Counts) -> Expected {
    Expected {
        symbol: K::SYMBOL,
        source,
        always: false,
    }
}

fn barriers(barriers: usize) -> Counts {
    Counts {
        barriers,
        ..Counts::default()
    }
}

fn shuffles(shuffles: usize) -> Counts {
    Counts {
        shuffles,
        ..Counts::default()
    }
}

fn votes(votes: usize) -> Counts {
    Counts {
        votes,
        ..Counts::default()
    }
}

fn products(products: usize) -> Counts {
    Counts {
        products,
        ..Counts::default()
    }
}

/// Products, each of matrices that are loaded together.
fn loaded(products: usize) -> Counts {
    Counts {
        products,
        matrices: products,
        ..Counts::default()
    }
}

#[test]
fn the_ptx_has_what_the_source_has() {
    let all = [
        always::<shapes::after_if>(barriers(1)),
        always::<shapes::two_ifs>(barriers(1)),
        always::<shapes::option>(barriers(1)),
        always::<shapes::state>(barriers(1)),
        sometimes::<shapes::loop_shuffle>(shuffles(1)),
        always::<shapes::condition_shuffle>(shuffles(1)),
        sometimes::<shapes::unswitch>(barriers(1)),
        sometimes::<shapes::early_return>(barriers(1)),
        always::<shapes::match_arms>(barriers(3)),
        always::<shapes::closure>(barriers(1)),
        always::<shapes::result>(barriers(1)),
        sometimes::<shapes::loop_flag>(barriers(1)),
        always::<shapes::ballot_sink>(votes(1)),
        always::<shapes::shuffle_sink>(shuffles(1)),
        always::<shapes::both_arms>(shuffles(2)),
        sometimes::<shapes::iterator>(shuffles(1)),
        always::<shapes::break_after>(barriers(1)),
        always::<shapes::chain>(barriers(2)),
        always::<mma::sink>(products(1)),
        always::<mma::sink_asm>(products(1)),
        always::<mma::option>(products(1)),
        always::<mma::option_asm>(products(1)),
        always::<mma::two_ifs>(products(1)),
        always::<mma::two_ifs_asm>(products(1)),
        always::<mma::library<Bf16x2>>(loaded(1)),
        always::<mma::library<F16x2>>(loaded(1)),
        always::<mma::library_option<Bf16x2>>(products(1)),
        always::<mma::library_option<F16x2>>(products(1)),
    ];
    for (found, expected) in found(&all) {
        let Found { arch, counts, always } = found;
        let symbol = expected.symbol;
        assert_eq!(
            counts, expected.source,
            "{symbol} for sm_{arch}: the PTX (left) against the source (right)"
        );
        assert!(
            always >= expected.always,
            "{symbol} for sm_{arch}: its call sank into an arm"
        );
    }
}

/// The hazards are real: otherwise the test above could not fail.
#[test]
fn the_counter_examples_are_duplicated_or_moved() {
    let all = [
        always::<bare::two_ifs>(barriers(2)),
        always::<bare::chain>(barriers(4)),
        always::<bare::option>(shuffles(2)),
        sometimes::<bare::product>(products(1)),
    ];
    for (Found { arch, counts, always }, expected) in found(&all) {
        let symbol = expected.symbol;
        let as_seen = counts == expected.source && always == expected.always;
        assert!(
            as_seen,
            "{symbol} for sm_{arch} is no counter-example any more: {counts:?}, on every way: {always}"
        );
    }
}

/// What the PTX for one architecture has.
struct Found {
    arch: u32,
    counts: Counts,
    always: bool,
}

/// Each kernel's PTX for each architecture. Nothing where this package was built without PTX, and that was allowed.
fn found(all: &[Expected]) -> Vec<(Found, &Expected)> {
    let images = shapes::two_ifs::images();
    if images.list.is_empty() {
        common::skip(images.absent);
    }
    let mut found = vec![];
    for image in images.list {
        for expected in all {
            let (arch, symbol) = (image.arch, expected.symbol);
            let body = ptx::body(image.ptx, symbol).unwrap_or_else(|| panic!("no entry {symbol} for sm_{arch}"));
            let code = ptx::without_comments(body);
            let flow = Flow::new(&code);
            let always = flow.always(&flow.find(ptx::is_counted));
            found.push((
                Found {
                    arch,
                    counts: Counts::of(&code),
                    always,
                },
                expected,
            ));
        }
    }
    found
}
