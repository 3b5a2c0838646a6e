//! The last measurements, as ratios to the constant response. A ratio is comparable between machines.
//!
//! A ratio is the instructions of a constant response over those of this one, each from the rounds with the least
//! disturbance ([`lower_quartile`]), such as a timer or a new block. A recording replaces the one before and takes
//! over nothing from it, so that recording again never allows more. A ratio is slower beyond noise if it is below the
//! recorded one by more than [`BUILD_TOLERANCE`] and the recorded spread together, or by [`TOLERANCE_MAX`] for any
//! spread.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

/// The tolerance besides noise, as a share of the recorded value: other versions of the C library and of the compiler
/// produce other instructions for the same code.
const BUILD_TOLERANCE: f64 = 0.1;

/// The largest tolerance, as a share of the recorded value.
const TOLERANCE_MAX: f64 = 0.3;

/// One kind of requests, and its constant response.
pub(crate) struct Ratio {
    pub(crate) name: String,
    /// Instructions of the server for each response, round by round.
    pub(crate) own: Vec<f64>,
    /// Instructions of the server for each constant response, in the same rounds.
    pub(crate) constant: Vec<f64>,
}

/// The last recording of one kind of requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedRatio {
    ratio: f64,
    /// Half the interquartile range of the rounds, as a share of their median.
    spread: f64,
}

impl Ratio {
    fn ratio(&self) -> f64 {
        lower_quartile(&self.constant) / lower_quartile(&self.own)
    }

    fn recorded(&self) -> RecordedRatio {
        let rounds = self.constant.iter().zip(&self.own).map(|(constant, own)| constant / own);
        let rounds = sorted(rounds.collect());
        let last = rounds.len().saturating_sub(1);
        let at = |index: usize| rounds.get(index).copied().unwrap_or(f64::NAN);
        let spread = (at(last - last / 4) - at(last / 4)) / 2.0 / at(last / 2);
        RecordedRatio { ratio: rounded(self.ratio()), spread: rounded(spread) }
    }
}

/// The cost that a quarter of the rounds did not exceed. It is the largest of these, so no single round sets it.
pub(super) fn lower_quartile(rounds: &[f64]) -> f64 {
    let rounds = sorted(rounds.to_vec());
    rounds.get(rounds.len().saturating_sub(1) / 4).copied().unwrap_or(f64::NAN)
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

impl RecordedRatio {
    /// The smallest ratio that does not count as slower.
    fn min(self) -> f64 {
        self.ratio * (1.0 - (BUILD_TOLERANCE + self.spread).min(TOLERANCE_MAX))
    }
}

/// Records the ratios. They replace the last recording.
pub(crate) fn write(ratios: &[Ratio]) -> Result<()> {
    write_to(&path(), ratios)?;
    println!("recorded {} ratios in {}", ratios.len(), path().display());
    Ok(())
}

fn write_to(path: &Path, ratios: &[Ratio]) -> Result<()> {
    let all: BTreeMap<&str, RecordedRatio> =
        ratios.iter().map(|ratio| (ratio.name.as_str(), ratio.recorded())).collect();
    let text = serde_json::to_string_pretty(&all)? + "\n";
    std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

/// Prints the ratios with the recorded ones. Errors: one is slower beyond noise, or is missing.
pub(crate) fn compare(ratios: &[Ratio]) -> Result<()> {
    let recorded = read(&path())?;
    println!(
        "\ninstructions a response; ratio to a constant response: now, its spread, recorded, least allowed"
    );
    for ratio in ratios {
        let name = &ratio.name;
        let now = ratio.recorded();
        let instructions = lower_quartile(&ratio.own);
        print!("{name:36} {instructions:>12.0} {:>8.4} {:>6.1}%", now.ratio, now.spread * 100.0);
        match recorded.get(name) {
            Some(before) => println!(" {:>8.4} {:>8.4}", before.ratio, before.min()),
            None => println!(" not recorded"),
        }
    }
    let slower = slower(ratios, &recorded);
    ensure!(slower.is_empty(), "slower than recorded beyond noise: {}", slower.join("; "));
    println!("{} ratios, none slower than recorded beyond noise", ratios.len());
    Ok(())
}

fn read(path: &Path) -> Result<BTreeMap<String, RecordedRatio>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_str(&text)
        .with_context(|| format!("{}: record it again with --quick --record", path.display()))
}

fn slower(ratios: &[Ratio], recorded: &BTreeMap<String, RecordedRatio>) -> Vec<String> {
    let mut slower = Vec::new();
    for (name, before) in recorded {
        let least = before.min();
        match ratios.iter().find(|ratio| ratio.name == *name) {
            Some(ratio) if ratio.ratio() >= least => {}
            Some(ratio) => slower.push(format!(
                "{name} {:.4}, was {}, at least {least:.4}",
                ratio.ratio(),
                before.ratio
            )),
            None => slower.push(format!("{name} was not measured")),
        }
    }
    slower
}

fn rounded(ratio: f64) -> f64 {
    let digits = 10f64.powf(3.0 - ratio.abs().max(1e-9).log10().floor());
    (ratio * digits).round() / digits
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/serving/recorded.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of rounds in which the constant response cost 1 and this one `costs`.
    fn costs(name: &str, own: &[f64]) -> Ratio {
        Ratio { name: name.to_owned(), own: own.to_vec(), constant: vec![1.0; own.len()] }
    }

    fn recorded_before() -> BTreeMap<String, RecordedRatio> {
        BTreeMap::from([
            // One with a small spread, one with a large spread, and one that is missing.
            ("getAccountInfo".to_owned(), RecordedRatio { ratio: 0.8, spread: 0.02 }),
            ("owner".to_owned(), RecordedRatio { ratio: 0.1, spread: 0.9 }),
            ("gone".to_owned(), RecordedRatio { ratio: 1.0, spread: 0.0 }),
        ])
    }

    #[test]
    fn what_is_a_third_below_what_was_recorded_is_slower_however_noisy_it_was() {
        let now = [
            // One lucky round of five does not make it fast.
            costs("getAccountInfo", &[1.0, 1.7, 1.7, 1.7, 1.7]),
            costs("owner", &[14.5; 3]),
            costs("new", &[1e4]),
        ];
        let slower = slower(&now, &recorded_before());
        assert_eq!(
            slower,
            [
                "getAccountInfo 0.5882, was 0.8, at least 0.7040",
                "gone was not measured",
                "owner 0.0690, was 0.1, at least 0.0700",
            ]
        );
    }

    #[test]
    fn what_disturbed_three_quarters_of_the_rounds_is_not_slower() {
        let now = [
            costs("getAccountInfo", &[1.6, 9.0, 1.3, 1.4, 2.5, 3.0, 1.7, 7.0]),
            costs("owner", &[11.0, 100.0, 20.0, 14.0]),
            costs("gone", &[1.1]),
        ];
        let slower = slower(&now, &recorded_before());
        assert!(slower.is_empty(), "{slower:?}");
    }

    #[test]
    fn a_constant_that_was_disturbed_hides_nothing() {
        let mut slow = costs("getAccountInfo", &[1.7; 8]);
        slow.constant = vec![3.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0];
        assert!(slower(&[slow], &recorded_before())[0].starts_with("getAccountInfo 0.5882"));
    }

    #[test]
    fn every_recorded_ratio_is_a_number() {
        for recorded in read(&path()).expect("it is recorded").values() {
            assert!(recorded.ratio > 0.0 && recorded.spread >= 0.0, "{recorded:?}");
        }
    }

    #[test]
    fn a_recording_takes_the_place_of_the_one_before() {
        let file = std::env::temp_dir().join(format!("hydrant-ratios-{}", std::process::id()));
        let slow = costs("a", &[10.0, 5.0, 4.0]);
        let fast = costs("a", &[1.0, 2.0, 1.25, 4.0, 5.0]);
        for ratios in [[slow, costs("gone", &[1.0])].as_slice(), &[fast]] {
            write_to(&file, ratios).expect("it is written");
        }
        let read = read(&file).expect("it was written");
        std::fs::remove_file(&file).expect("it was written");
        // The middle half of 1, 0.8, 0.5, 0.25 and 0.2 is from 0.25 to 0.8.
        let last = RecordedRatio { ratio: 0.8, spread: 0.55 };
        assert_eq!(read, BTreeMap::from([("a".to_owned(), last)]));
        assert_eq!(rounded(0.123_456), 0.1235);
    }
}
