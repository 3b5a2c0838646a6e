//! A chain follows a model of a node step by step, with messages that come late, in another order, twice, or not at all.
//!
//! `HYDRANT_MODEL_STEPS=1000000` makes that many steps. `cargo xtask bench kaspa --only model` does the same in release.
//! Not here: the model and the comparisons (`testkit::kaspa_chain`).

use testkit::kaspa_chain::{Link, run_model};

const STEPS_DEFAULT: u64 = 3_000;

/// Runs a third of the steps with one kind of link.
fn run(seed: u64, link: Link) {
    let steps = std::env::var("HYDRANT_MODEL_STEPS").ok().and_then(|text| text.parse().ok());
    let report = run_model(seed, link, steps.unwrap_or(STEPS_DEFAULT) / 3);
    assert!(report.counters.reorganizations > 10);
    assert_eq!(report.counters.refused, 0);
    let found_losses = report.losses;
    assert_eq!(found_losses > 0, link == Link::Loses, "{found_losses} losses");
}

#[test]
fn a_model_with_a_good_link_is_equal_at_each_step() {
    run(1, Link::Good);
}

#[test]
fn a_model_that_swaps_messages_is_equal_at_each_step() {
    run(2, Link::Swaps);
}

#[test]
fn a_model_that_loses_messages_is_equal_at_each_step() {
    run(3, Link::Loses);
}
