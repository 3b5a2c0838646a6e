//! What was measured before, as ratios to the constant answer: they say much the same on machines that do not.
//!
//! A ratio is of answers for a second of the server's CPU time ([`super::rounds`]). Recorded are the median of
//! its rounds in the last recording, and the least round of all recordings, so that record by record, on a
//! busy machine and on a quiet one, its noise is known. It is slower beyond noise if the median of its rounds
//! is below that least round, and by more than [`OTHER_MACHINES`] of it. To forget, delete the file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::median;

/// What is allowed beside noise, as caches and system calls cost other shares on other machines than the one
/// that recorded.
const OTHER_MACHINES: f64 = 0.4;

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
    let before = match std::fs::read_to_string(path()) {
        Ok(text) => serde_json::from_str(&text)?,
        Err(_) => BTreeMap::new(),
    };
    let map = recorded(ratios, &before);
    let path = path();
    std::fs::write(&path, serde_json::to_string_pretty(&map)? + "\n")
        .with_context(|| format!("write {}", path.display()))?;
    println!("recorded {} ratios in {}", map.len(), path.display());
    Ok(())
}

fn recorded(ratios: &[Ratio], before: &BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    let figures = ratios.iter().map(|ratio| {
        let least = before.get(&ratio.name).and_then(|before| before["least"].as_f64());
        let least = rounded(ratio.least().min(least.unwrap_or(f64::INFINITY)));
        (ratio.name.clone(), json!({ "median": rounded(ratio.median()), "least": least }))
    });
    figures.collect()
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
    Ok(least * (1.0 - OTHER_MACHINES))
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
    fn only_what_is_well_below_the_least_recorded_round_is_slower() {
        let before = |median, least| json!({ "median": median, "least": least });
        let recorded_before = BTreeMap::from([
            ("a".to_owned(), before(0.5, 0.45)),
            ("b".to_owned(), before(0.01, 0.002)),
            ("gone".to_owned(), before(1.0, 1.0)),
        ]);
        let ratio =
            |name: &str, rounds: &[f64]| Ratio { name: name.to_owned(), rounds: rounds.to_vec() };
        let now = [ratio("a", &[0.1, 0.22, 0.9]), ratio("b", &[0.0017]), ratio("new", &[1e-4])];
        let slower_ones = slower(&now, &recorded_before).expect("it was recorded so");
        assert_eq!(slower_ones, ["a 0.2200, was 0.5", "gone was not measured"]);
        let now = [ratio("a", &[0.1, 0.28, 0.9]), ratio("b", &[0.0017]), ratio("gone", &[0.61])];
        assert!(slower(&now, &recorded_before).expect("it was recorded so").is_empty());
        let again = recorded(&[ratio("a", &[0.6, 0.7]), ratio("b", &[0.001])], &recorded_before);
        assert_eq!(again["a"], before(0.6, 0.45));
        assert_eq!((&again["b"], again.len()), (&before(0.001, 0.001), 2));
        assert_eq!(rounded(0.123_456), 0.1235);
    }
}
