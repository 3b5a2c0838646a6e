//! `compare`: a real `solana-test-validator` and `hydrant test-validator`, side by side.
//!
//! Input: options (`options`). Output: a table of the calls of each method: equal, different by nature, different as
//! the documents say, wrong. All differences are in a file of the run's directory.
//! Shape: both nodes start with the same genesis (`genesis`), get the same transactions (`transactions`), and receive
//! the same calls (`calls`) and subscriptions (`subscriptions`). A node's own values, such as slots, hashes and times,
//! are made equal first (`alignment`). The other differences are looked up in `compare/differences.toml` (`known`).
//! Bounds: some minutes; both nodes end with the run.
//! Not here: CI, which has no validator; a followed chain (`rig`).

mod alignment;
mod calls;
pub(crate) mod genesis;
pub(crate) mod keys;
mod known;
mod nodes;
mod options;
mod outcomes;
mod subscriptions;
pub(crate) mod transactions;
mod websocket;

use anyhow::{Result, ensure};

use crate::compare::calls::Question;
use crate::compare::genesis::Genesis;
use crate::compare::known::KnownDifferences;
use crate::compare::nodes::ComparedNodes;
use crate::compare::options::Options;
pub(crate) use crate::compare::options::USAGE;
use crate::compare::outcomes::Outcomes;

/// Starts both nodes, and compares.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let options = Options::parse(args)?;
    let known = KnownDifferences::read()?;
    let genesis = Genesis::write(&options.dir)?;
    let mut nodes = ComparedNodes::start(&options, &genesis)?;
    let mut outcomes = Outcomes::new(known);
    subscriptions::compare(&nodes, &mut outcomes)?;
    let sent = transactions::send(&mut nodes, &mut outcomes)?;
    println!("{sent} transactions were sent to both nodes; waiting until they are final");
    nodes.wait_until_final()?;
    let questions = calls::questions(&nodes);
    println!("{} calls are made of both nodes", questions.len());
    for question in questions.iter().take(options.calls_max) {
        nodes.check()?;
        let Question { name, body } = question;
        let (theirs, ours) = nodes.ask_both(body)?;
        outcomes.add(name, body, theirs, ours);
    }
    let file = options.dir.join("differences.json");
    std::fs::write(&file, outcomes.to_json())?;
    println!("{}", outcomes.table());
    println!("what differs: {}", file.display());
    let wrong = outcomes.wrong();
    ensure!(wrong == 0, "{wrong} responses are wrong: neither by nature nor documented");
    Ok(())
}
