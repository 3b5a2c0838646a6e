//! What was measured before, as ratios to the constant answer: they say much the same on machines that do not.
//!
//! A ratio is of answers for a second of the server's CPU time ([`super::rounds`]). Recorded are the median of
//! its rounds and the least of them; how far these are apart is its own noise on the machine that recorded.
//! It is slower beyond noise if the median of the rounds is below the least that was recorded, and by more
//! than [`MACHINES_SHARE`] of it: what machines differ by.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::median;

/// Caches and system calls cost other shares on other machines. A fifth is what two machines at hand differed
/// by at most.
const MACHINES_SHARE: f64 = 0.2;

/// Of one kind of requests.
pub(crate) struct Ratio {
    pub(crate) name: String,
    /// To the constant answer of the same round.
    pub(crate) rounds: Vec<f64>,
}

impl Ratio {
    fn median(&self) -> f64 {
        median(self.rounds.clone())
    }

    fn least(&self) -> f64 {
        self.rounds.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

/// Records them.
pub(crate) fn write(ratios: &[Ratio]) -> Result<()> {
    let figures = |ratio: &Ratio| json!({ "median": rounded(ratio.median()), "least": rounded(ratio.least()) });
    let map: BTreeMap<&str, Value> =
        ratios.iter().map(|ratio| (ratio.name.as_str(), figures(ratio))).collect();
    let path = path();
    std::fs::write(&path, serde_json::to_string_pretty(&map)? + "\n")
        .with_context(|| format!("write {}", path.display()))?;
    println!("recorded {} ratios in {}", map.len(), path.display());
    Ok(())
}

/// Prints them beside what was recorded; fails if one is slower beyond noise, or is not there any more.
pub(crate) fn compare(ratios: &[Ratio]) -> Result<()> {
    let path = path();
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let recorded: BTreeMap<String, Value> = serde_json::from_str(&text)?;
    println!("\nanswers for the CPU time of a constant one: now, recorded, least allowed");
    for ratio in ratios {
        let name = &ratio.name;
        match recorded.get(name) {
            Some(before) => println!(
                "{name:36} {:>8.4} {:>8} {:>8.4}",
                ratio.median(),
                before["median"],
                allowed(before)?
            ),
            None => println!("{name:36} {:>8.4} not recorded", ratio.median()),
        }
    }
    let slower = slower(ratios, &recorded)?;
    ensure!(slower.is_empty(), "slower than recorded beyond noise: {}", slower.join("; "));
    println!("{} ratios, none slower than recorded beyond noise", ratios.len());
    Ok(())
}

fn slower(ratios: &[Ratio], recorded: &BTreeMap<String, Value>) -> Result<Vec<String>> {
    let mut slower = Vec::new();
    for (name, before) in recorded {
        let least = allowed(before)?;
        match ratios.iter().find(|ratio| ratio.name == *name) {
            Some(ratio) if ratio.median() >= least => {}
            Some(ratio) => {
                slower.push(format!("{name} {:.4}, was {}", ratio.median(), before["median"]));
            }
            None => slower.push(format!("{name} was not measured")),
        }
    }
    Ok(slower)
}

fn allowed(before: &Value) -> Result<f64> {
    let least = before["least"].as_f64().context("recorded ratios have a least")?;
    Ok(least * (1.0 - MACHINES_SHARE))
}

fn rounded(ratio: f64) -> f64 {
    let digits = 10f64.powf(3.0 - ratio.abs().max(1e-9).log10().floor());
    (ratio * digits).round() / digits
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/load/recorded.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_below_the_least_round_by_more_than_machines_differ_is_slower() {
        let before = |median, least| json!({ "median": median, "least": least });
        let recorded = BTreeMap::from([
            ("a".to_owned(), before(0.5, 0.45)),
            ("b".to_owned(), before(0.01, 0.002)),
            ("gone".to_owned(), before(1.0, 1.0)),
        ]);
        let ratio =
            |name: &str, rounds: &[f64]| Ratio { name: name.to_owned(), rounds: rounds.to_vec() };
        let now = [ratio("a", &[0.1, 0.35, 0.9]), ratio("b", &[0.0017]), ratio("new", &[1e-4])];
        let slower_ones = slower(&now, &recorded).expect("it was recorded so");
        assert_eq!(slower_ones, ["a 0.3500, was 0.5", "gone was not measured"]);
        let now = [ratio("a", &[0.1, 0.37, 0.9]), ratio("b", &[0.0017]), ratio("gone", &[0.81])];
        assert!(slower(&now, &recorded).expect("it was recorded so").is_empty());
        assert_eq!(rounded(0.123_456), 0.1235);
    }
}
