//! The chain of records: each one has the next number, names the digest of the one before it, and has no lower term.
//!
//! Not here: whether a block's parent is known (`known_blocks`), damage within a record (`chain_solana::wire`).

use chain_solana::wire::{RecordDigest, RecordLink};

use crate::fault::Fault;

/// The last good record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordChain {
    pub(crate) number: u64,
    pub(crate) digest: RecordDigest,
    /// The highest term so far; 0 after a snapshot, which has none.
    pub(crate) term: u64,
}

impl RecordChain {
    /// The chain after the block of a snapshot.
    pub(crate) fn new(number: u64, digest: RecordDigest) -> Self {
        Self { number, digest, term: 0 }
    }

    /// Checks the next record, whose digest is `digest`, and moves to it.
    pub(crate) fn advance(
        &mut self,
        link: RecordLink,
        term: u64,
        digest: RecordDigest,
    ) -> Result<(), Fault> {
        let number = link.number;
        if number != self.number.saturating_add(1) {
            return Err(Fault::Number { last: self.number, found: number });
        }
        if link.previous != self.digest {
            return Err(Fault::Chain { number, named: link.previous, known: self.digest });
        }
        if term < self.term {
            return Err(Fault::Term { number, found: term, known: self.term });
        }
        *self = Self { number, digest, term };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(n: u8) -> RecordDigest {
        RecordDigest([n; 32])
    }

    #[test]
    fn a_wrong_number_digest_or_term_is_named_and_changes_nothing() -> Result<(), Fault> {
        let mut chain = RecordChain::new(7, digest(7));
        let link = RecordLink { number: 8, previous: digest(7) };
        chain.advance(link, 3, digest(8))?;
        let before = chain;
        for (number, previous, term, name) in
            [(8, 7, 3, "number"), (10, 8, 3, "number"), (9, 7, 3, "chain"), (9, 8, 2, "term")]
        {
            let link = RecordLink { number, previous: digest(previous) };
            let fault = chain.advance(link, term, digest(9)).expect_err("a fault");
            assert_eq!(fault.name(), name);
            assert_eq!(chain, before);
        }
        chain.advance(RecordLink { number: 9, previous: digest(8) }, 3, digest(9))
    }
}
