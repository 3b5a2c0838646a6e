//! What was measured last, as ratios to the constant answer: they say much the same on machines that do not.
//!
//! A ratio is of answers for a second of the server's CPU time ([`super::rounds`]). A recording is the median
//! of several rounds and their spread. It takes the place of the one before and takes nothing over from it,
//! so that recording again never allows more. A ratio is slower beyond noise if the median of its rounds is
//! below the recorded median by more than [`OTHER_MACHINES`] and the recorded spread together, and by
//! [`ALLOWED_MOST`] whatever its spread was. What noise there is, is for more rounds to take away, not for a
//! wider allowance; but for [`NOISY`], each with its reason. So whoever finds one slower measures as often again
//! ([`is_slower`], [`add_rounds`]) before he says so ([`compare`]): what ran beside it may be over by then.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::median;

/// What is allowed beside noise, as a share of the recorded median: caches and system calls cost other shares
/// on other machines, and beside other work, than where it was recorded.
const OTHER_MACHINES: f64 = 0.2;

/// More is allowed to none, as a share of the recorded median.
const ALLOWED_MOST: f64 = 0.3;

/// Those that need more, how much, and why.
const NOISY: [(&str, f64, &str); 0] = [];

/// Of one kind of requests.
pub(crate) struct Ratio {
    pub(crate) name: String,
    /// To the constant answer of the same round.
    pub(crate) rounds: Vec<f64>,
}

/// Of one kind of requests, in the last recording.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Recorded {
    median: f64,
    /// Half of what the middle half of the rounds reaches over, as a share of the median.
    spread: f64,
}

impl Ratio {
    fn median(&self) -> f64 {
        median(self.rounds.clone())
    }

    fn recorded(&self) -> Recorded {
        let mut rounds = self.rounds.clone();
        rounds.sort_by(f64::total_cmp);
        let last = rounds.len().saturating_sub(1);
        let at = |index: usize| rounds.get(index).copied().unwrap_or(f64::NAN);
        let spread = (at(last - last / 4) - at(last / 4)) / 2.0 / self.median();
        Recorded { median: rounded(self.median()), spread: rounded(spread) }
    }
}

impl Recorded {
    /// The least that is not slower.
    fn least(self, name: &str) -> f64 {
        let noisy = NOISY.iter().find(|(noisy, ..)| *noisy == name);
        let usual = (OTHER_MACHINES + self.spread).min(ALLOWED_MOST);
        self.median * (1.0 - noisy.map_or(usual, |(_, allowed, _)| *allowed))
    }
}

/// Records them, instead of what was recorded before.
pub(crate) fn write(ratios: &[Ratio]) -> Result<()> {
    write_to(&path(), ratios)?;
    println!("recorded {} ratios in {}", ratios.len(), path().display());
    Ok(())
}

fn write_to(path: &Path, ratios: &[Ratio]) -> Result<()> {
    let all: BTreeMap<&str, Recorded> =
        ratios.iter().map(|ratio| (ratio.name.as_str(), ratio.recorded())).collect();
    let text = serde_json::to_string_pretty(&all)? + "\n";
    std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

/// Whether one is slower beyond noise, as far as was measured.
pub(crate) fn is_slower(ratios: &[Ratio]) -> Result<bool> {
    Ok(!slower(ratios, &read(&path())?).is_empty())
}

/// Adds the rounds of another run, kind by kind.
pub(crate) fn add_rounds(ratios: &mut [Ratio], more: Vec<Ratio>) {
    for Ratio { name, rounds } in more {
        if let Some(ratio) = ratios.iter_mut().find(|ratio| ratio.name == name) {
            ratio.rounds.extend(rounds);
        }
    }
}

/// Prints them beside what was recorded; fails if one is slower beyond noise, or is not there any more.
pub(crate) fn compare(ratios: &[Ratio]) -> Result<()> {
    let recorded = read(&path())?;
    println!(
        "\nanswers for the CPU time of a constant one: now, its spread, recorded, least allowed"
    );
    for ratio in ratios {
        let (name, Recorded { median, spread }) = (&ratio.name, ratio.recorded());
        print!("{name:36} {median:>8.4} {:>6.1}%", spread * 100.0);
        match recorded.get(name) {
            Some(before) => println!(" {:>8.4} {:>8.4}", before.median, before.least(name)),
            None => println!(" not recorded"),
        }
    }
    let slower = slower(ratios, &recorded);
    ensure!(slower.is_empty(), "slower than recorded beyond noise: {}", slower.join("; "));
    println!("{} ratios, none slower than recorded beyond noise", ratios.len());
    Ok(())
}

fn read(path: &Path) -> Result<BTreeMap<String, Recorded>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_str(&text)
        .with_context(|| format!("{}: record it again with --quick --record", path.display()))
}

fn slower(ratios: &[Ratio], recorded: &BTreeMap<String, Recorded>) -> Vec<String> {
    let mut slower = Vec::new();
    for (name, before) in recorded {
        let least = before.least(name);
        match ratios.iter().find(|ratio| ratio.name == *name) {
            Some(ratio) if ratio.median() >= least => {}
            Some(ratio) => slower.push(format!(
                "{name} {:.4}, was {}, at least {least:.4}",
                ratio.median(),
                before.median
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
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/load/recorded.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(name: &str, rounds: &[f64]) -> Ratio {
        Ratio { name: name.to_owned(), rounds: rounds.to_vec() }
    }

    fn recorded_before() -> BTreeMap<String, Recorded> {
        BTreeMap::from([
            // A quiet one, one whose rounds were far apart, and one that is gone.
            ("getAccountInfo".to_owned(), Recorded { median: 0.779, spread: 0.02 }),
            ("owner".to_owned(), Recorded { median: 0.108, spread: 0.9 }),
            ("gone".to_owned(), Recorded { median: 1.0, spread: 0.0 }),
        ])
    }

    #[test]
    fn what_is_a_third_below_the_recorded_median_is_slower_however_noisy_it_was() {
        let now = [
            // Its best round is none of the median's business, nor its worst.
            ratio("getAccountInfo", &[0.1, 0.6, 0.9]),
            ratio("owner", &[0.075]),
            ratio("new", &[1e-4]),
        ];
        let slower = slower(&now, &recorded_before());
        assert_eq!(
            slower,
            [
                "getAccountInfo 0.6000, was 0.779, at least 0.6076",
                "gone was not measured",
                "owner 0.0750, was 0.108, at least 0.0756",
            ]
        );
    }

    #[test]
    fn noise_of_single_rounds_is_not_slower() {
        let now = [
            ratio("getAccountInfo", &[0.1, 0.61, 0.62, 0.2, 0.9]),
            ratio("owner", &[0.076, 0.001, 0.2]),
            ratio("gone", &[0.81]),
        ];
        let slower = slower(&now, &recorded_before());
        assert!(slower.is_empty(), "{slower:?}");
    }

    #[test]
    fn what_was_slow_for_a_while_is_judged_by_all_rounds() {
        let mut now = [ratio("getAccountInfo", &[0.5; 3]), ratio("owner", &[0.05; 3])];
        add_rounds(&mut now, vec![ratio("owner", &[0.05; 4]), ratio("getAccountInfo", &[0.8; 4])]);
        let slower = slower(&now, &recorded_before());
        let owner = "owner 0.0500, was 0.108, at least 0.0756";
        assert_eq!(slower, ["gone was not measured", owner]);
    }

    #[test]
    fn nothing_is_allowed_half_of_itself() {
        for (name, allowed, reason) in NOISY {
            assert!((ALLOWED_MOST..0.5).contains(&allowed) && !reason.is_empty(), "{name}");
        }
        for recorded in read(&path()).expect("it is recorded").values() {
            assert!(recorded.median > 0.0 && recorded.spread >= 0.0, "{recorded:?}");
        }
    }

    #[test]
    fn a_recording_takes_the_place_of_the_one_before() {
        let file = std::env::temp_dir().join(format!("hydrant-ratios-{}", std::process::id()));
        let slow = ratio("a", &[0.1, 0.2, 0.3]);
        let fast = ratio("a", &[0.9, 0.5, 0.7, 0.6, 0.8]);
        for ratios in [[slow, ratio("gone", &[1.0])].as_slice(), &[fast]] {
            write_to(&file, ratios).expect("it is written");
        }
        let read = read(&file).expect("it was written");
        std::fs::remove_file(&file).expect("it was written");
        let last = Recorded { median: 0.7, spread: 0.1429 };
        assert_eq!(read, BTreeMap::from([("a".to_owned(), last)]));
        assert_eq!(rounded(0.123_456), 0.1235);
    }
}
