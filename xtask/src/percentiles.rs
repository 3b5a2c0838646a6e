//! Percentiles of measured values: each is one of the values.
//!
//! Not here: the measurements, and their tables (`kaspa_rig::statistics`, `cluster::reads`, `rivals::table`).

/// Returns the values, the smallest first.
pub(crate) fn sort_values(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Returns the smallest of the sorted values that at least `percent` percent of them do not exceed. `None` without
/// values.
pub(crate) fn find_percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let find = |values: &[f64], percent| {
            find_percentile(&sort_values(values.iter().copied()), percent)
        };
        assert_eq!(find(&[3.0, 1.0, 2.0], 50), Some(2.0));
        assert_eq!(find(&[4.0, 1.0, 3.0, 2.0], 50), Some(2.0), "the lower one in the middle");
        assert_eq!(find(&[4.0, 1.0, 3.0, 2.0], 25), Some(1.0));
        assert_eq!(find(&[4.0, 1.0, 3.0, 2.0], 75), Some(3.0));
        assert_eq!(find(&[7.0], 99), Some(7.0));
        assert_eq!(find(&[], 50), None);
    }
}
