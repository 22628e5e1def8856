//! Every bug is named and every twin clean, with as many seeds as a test has time for.

use gallery::{Outcome, all, details};

const SEEDS: u64 = 200;

#[test]
fn every_bug_is_named_and_every_twin_is_clean() {
    let outcomes: Vec<Outcome> = all().map(|case| Outcome::of(case, SEEDS, SEEDS)).collect();
    let wrong: Vec<Outcome> = outcomes
        .into_iter()
        .filter(|outcome| !outcome.is_named() || !outcome.is_clean())
        .collect();
    assert!(wrong.is_empty(), "{}", details(&wrong));
}
