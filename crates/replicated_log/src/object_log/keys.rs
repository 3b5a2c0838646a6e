//! Names of the objects of a log.
//!
//! ```text
//! hydrant-<cluster>/generations/<generation>                 marker of a generation: the id of its instance
//! hydrant-<cluster>-<generation>/<instance>/<first>     a batch, named by the sequence of its first message
//! ```
//! Generations and sequences have 20 digits, so the order of names is the order of numbers. The instance is random: a
//! generation that is created again after its deletion shares no object with the one before.

/// Returns the directory of the markers of a cluster's generations.
pub(super) fn format_marker_dir(cluster: &str) -> String {
    format!("hydrant-{cluster}/generations")
}

/// Returns the key of a generation's marker.
pub(super) fn format_marker_key(cluster: &str, generation: u64) -> String {
    format!("{}/{generation:020}", format_marker_dir(cluster))
}

/// Returns the directory of the batches of all instances of a generation.
pub(super) fn format_generation_dir(cluster: &str, generation: u64) -> String {
    format!("hydrant-{cluster}-{generation}")
}

/// Returns the directory of the batches of one instance of a generation.
pub(super) fn format_batch_dir(cluster: &str, generation: u64, instance: [u8; 16]) -> String {
    format!("{}/{:032x}", format_generation_dir(cluster, generation), u128::from_be_bytes(instance))
}

/// Returns the key of the batch that starts at the sequence `first`.
pub(super) fn format_batch_key(batch_dir: &str, first: u64) -> String {
    format!("{batch_dir}/{first:020}")
}

/// Returns the number at the end of a key, or `None` for a key of another form.
pub(super) fn parse_number(key: &str) -> Option<u64> {
    let name = key.rsplit('/').next()?;
    let is_number = name.len() == 20 && name.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| name.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_as_their_numbers() {
        let numbers = [0, 9, 10, 99_999, u64::MAX];
        let keys = numbers.map(|number| format_batch_key("d", number));
        assert!(keys.is_sorted());
        assert_eq!(keys.each_ref().map(|key| parse_number(key)), numbers.map(Some));
    }

    #[test]
    fn a_foreign_name_has_no_number() {
        for key in ["", "d/1", "d/000000000000000000x1", "d/99999999999999999999"] {
            assert_eq!(parse_number(key), None, "{key}");
        }
    }
}
