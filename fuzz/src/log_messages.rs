//! Messages of a replicated log: heads and bodies of records.

use chain_solana::wire::fuzzing;

/// Checks a file of messages.
pub fn log_messages(bytes: &[u8]) {
    let _ = fuzzing::check_messages(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_of_messages_are_accepted() {
        // block, jump, marks, snapshot, term.
        let seeds = crate::seeds("log_messages");
        let records: Vec<usize> = seeds.iter().map(|seed| fuzzing::check_messages(seed)).collect();
        assert_eq!(records, [1; 5]);
    }

    #[test]
    fn seeds_of_messages_and_inputs_made_from_them_pass() {
        crate::for_each_input("log_messages", log_messages);
    }
}
