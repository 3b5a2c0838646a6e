//! What was measured before, as ratios to the constant answer, which are the same on machines that are not.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

/// Of the ratio that was recorded, a later one may lose so much to noise: the spread of several runs on a
/// busy machine.
const KEPT_MIN: f64 = 0.6;

/// A rate over that of the constant answer in the same run.
pub(crate) struct Ratio {
    pub(crate) name: String,
    pub(crate) ratio: f64,
}

/// Records them.
pub(crate) fn write(ratios: &[Ratio]) -> Result<()> {
    let map: BTreeMap<&str, f64> =
        ratios.iter().map(|ratio| (ratio.name.as_str(), rounded(ratio.ratio))).collect();
    let path = path();
    std::fs::write(&path, serde_json::to_string_pretty(&map)? + "\n")
        .with_context(|| format!("write {}", path.display()))?;
    println!("recorded {} ratios in {}", map.len(), path.display());
    Ok(())
}

/// Fails if one is below what was recorded, beyond noise.
pub(crate) fn compare(ratios: &[Ratio]) -> Result<()> {
    let path = path();
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let recorded: BTreeMap<String, f64> = serde_json::from_str(&text)?;
    let slower = slower(ratios, &recorded);
    println!("\nbeside what was recorded: {} ratios, {} slower", ratios.len(), slower.len());
    ensure!(slower.is_empty(), "slower than recorded beyond noise: {}", slower.join("; "));
    Ok(())
}

fn slower(ratios: &[Ratio], recorded: &BTreeMap<String, f64>) -> Vec<String> {
    let is_slower = |ratio: &&Ratio| {
        recorded.get(&ratio.name).is_some_and(|before| ratio.ratio < before * KEPT_MIN)
    };
    let slower = ratios.iter().filter(is_slower);
    slower
        .map(|ratio| format!("{} {:.4}, was {:.4}", ratio.name, ratio.ratio, recorded[&ratio.name]))
        .collect()
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
    fn only_what_lost_more_than_noise_is_slower() {
        let recorded = BTreeMap::from([("a".to_owned(), 0.5), ("b".to_owned(), 0.01)]);
        let ratio = |name: &str, ratio| Ratio { name: name.to_owned(), ratio };
        let now = [ratio("a", 0.29), ratio("b", 0.007), ratio("new", 0.0001)];
        assert_eq!(slower(&now, &recorded), ["a 0.2900, was 0.5000"]);
        assert_eq!(rounded(0.123_456), 0.1235);
    }
}
