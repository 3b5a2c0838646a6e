//! The bar of a 304: at most half the instructions of the 200 of its route, for every route.
//!
//! Not here: the measurement (`instructions`).

use anyhow::{Result, ensure};

use super::baseline::{Ratio, lower_quartile};
use super::suites::NOT_MODIFIED;

/// The largest share of a 200 that a 304 may cost.
const SHARE_MAX: f64 = 0.5;

/// Prints what each 304 costs, and which cost more than [`SHARE_MAX`]: responses of some hundred bytes do, because HTTP
/// itself is more than half of their 200. Returns the names of these.
///
/// Errors: no 304 was measured.
pub(super) fn report(ratios: &[Ratio]) -> Result<Vec<&str>> {
    println!("\ninstructions of a 304, of the 200, and the share; at most {SHARE_MAX}");
    let mut missed = Vec::new();
    let mut count = 0;
    for not_modified in ratios {
        let Some(name) = not_modified.name.strip_suffix(NOT_MODIFIED) else { continue };
        let Some(whole) = ratios.iter().find(|ratio| ratio.name == name) else { continue };
        let own = lower_quartile(&not_modified.own);
        let whole = lower_quartile(&whole.own);
        let share = own / whole;
        let verdict = if share > SHARE_MAX { "  missed" } else { "" };
        println!("{name:36} {own:>12.0} {whole:>12.0} {share:>6.3}{verdict}");
        count += 1;
        if share > SHARE_MAX {
            missed.push(name);
        }
    }
    ensure!(count > 0, "no 304 was measured");
    Ok(missed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(name: &str, own: f64) -> Ratio {
        Ratio { name: name.to_owned(), own: vec![own; 3], constant: vec![1.0; 3] }
    }

    #[test]
    fn a_304_above_half_of_its_200_is_named() {
        let cheap = || vec![ratio("a", 100.0), ratio("a-304", 50.0), ratio("constant", 1.0)];
        assert!(report(&cheap()).expect("one 304").is_empty());
        let mut ratios = cheap();
        ratios.extend([ratio("b", 100.0), ratio("b-304", 51.0)]);
        assert_eq!(report(&ratios).expect("two of them"), ["b"]);
        assert!(report(&ratios[..1]).is_err(), "nothing was measured");
    }
}
