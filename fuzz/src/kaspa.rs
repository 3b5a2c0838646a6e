//! Bytes of Kaspa's peers and snapshot files: a chunk of a UTXO set, and a header.

use follow_kaspa::fuzzing;

/// Checks a chunk of UTXOs that a peer sends.
pub fn utxo_chunk(bytes: &[u8]) {
    let _ = fuzzing::decode_chunk(bytes);
}

/// Checks the header of a snapshot file.
pub fn snapshot_header(bytes: &[u8]) {
    let _ = fuzzing::read_header(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads each seed, in the order of their names. `None` for a seed that is refused.
    fn read_seeds(target: &str, read: fn(&[u8]) -> Option<usize>) -> Vec<Option<usize>> {
        crate::seeds(target).iter().map(|seed| read(seed)).collect()
    }

    #[test]
    fn the_seeds_of_chunks_are_accepted_or_refused() {
        // above_pruning_point, covenant, cut, empty, five, one, repeated, unknown_field.
        let expected = [None, Some(1), None, Some(0), Some(5), Some(1), None, Some(1)];
        assert_eq!(read_seeds("utxo_chunk", fuzzing::decode_chunk), expected);
    }

    #[test]
    fn the_seeds_of_headers_are_accepted_or_refused() {
        // bytes_after, cut, equal_levels, levels, no_parents, one_parent.
        let expected = [Some(228), None, None, Some(334), Some(191), Some(228)];
        assert_eq!(read_seeds("snapshot_header", fuzzing::read_header), expected);
    }

    #[test]
    fn seeds_of_chunks_and_inputs_made_from_them_pass() {
        crate::for_each_input("utxo_chunk", utxo_chunk);
    }

    #[test]
    fn seeds_of_headers_and_inputs_made_from_them_pass() {
        crate::for_each_input("snapshot_header", snapshot_header);
    }
}
