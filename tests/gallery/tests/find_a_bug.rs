//! The kernel of the book's page `find-a-bug.md`, and that the page shows what the simulator says of it.

use shmem::prelude::*;
use shmem_sim::{Failure, Sim, explore, signals, symmetric};

/// Every PE sends a row to its right neighbour.
fn shift() {
    let (inbox, outbox) = (symmetric::<u32>(64), symmetric::<u32>(64));
    let ready = signals(1).at(0);
    let right = (shmem::my_pe() + 1) % shmem::n_pes();
    outbox.store(thread::index(), shmem::my_pe());
    Block.sync();
    shmem::put(Block, inbox, outbox, right);
    if Block.leader() {
        shmem::signal_op(ready.set(1), right);
    }
    shmem::wait_until(Block, ready, eq(1));
    inbox.load(63 - thread::index());
}

/// As it should be.
fn fixed() {
    let (inbox, outbox) = (symmetric::<u32>(64), symmetric::<u32>(64));
    let ready = signals(1).at(0);
    let right = (shmem::my_pe() + 1) % shmem::n_pes();
    outbox.store(thread::index(), shmem::my_pe());
    Block.sync();
    shmem::put_signal(Block, inbox, outbox, ready.set(1), right);
    shmem::wait_until(Block, ready, eq(1));
    inbox.load(63 - thread::index());
}

/// A line without what a change of the schedule changes: which PE and thread it was, and where in the heap.
fn plain(line: &str) -> String {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    for i in 1..words.len() {
        if matches!(words[i - 1], "PE" | "thread" | "offset") {
            words[i] = "n";
        }
    }
    words.join(" ")
}

/// Every line of a text is in the page.
#[track_caller]
fn assert_shown(text: &str) {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/find-a-bug.md");
    let page: Vec<String> = std::fs::read_to_string(page).unwrap().lines().map(plain).collect();
    for line in text
        .replace("tests/gallery/tests/find_a_bug.rs", "tests/shift.rs")
        .lines()
    {
        assert!(
            page.contains(&plain(line)),
            "docs/src/find-a-bug.md lacks the line\n{line}\nof\n{text}"
        );
    }
}

#[test]
fn the_page_shows_what_is_found() {
    let failure = Sim::new(4).block(64).seed(0).run(shift).unwrap_err();
    assert!(matches!(failure, Failure::Bug(_)));
    assert_shown(&failure.to_string());
    let found = explore(&Sim::new(4).block(64), 0..200, shift).unwrap_err();
    assert_shown(&found.to_string());
    explore(&Sim::new(4).block(64), 0..200, fixed).unwrap();
}
