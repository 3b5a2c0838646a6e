//! The chain of records: each one has the next number, names the digest of the one before it, and is of the same writer
//! unless it begins a higher term.
//!
//! Not here: whether a block's parent is known (`known_blocks`), damage within a record (`chain_solana::wire`).

use chain_solana::wire::{RecordDigest, RecordLink, WriterId};

use crate::fault::Fault;

/// The last good record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordChain {
    pub(crate) number: u64,
    pub(crate) digest: RecordDigest,
    /// The writer; `None` after a snapshot, which does not name it.
    pub(crate) writer: Option<WriterId>,
}

impl RecordChain {
    /// The chain after the block of a snapshot.
    pub(crate) fn new(number: u64, digest: RecordDigest) -> Self {
        Self { number, digest, writer: None }
    }

    /// Returns the term of the last record; 0 after a snapshot.
    pub(crate) fn term(&self) -> u64 {
        self.writer.map_or(0, |writer| writer.term)
    }

    /// Checks the next record, whose digest is `digest`, and moves to it. `is_term` is whether it begins a term.
    pub(crate) fn advance(
        &mut self,
        link: RecordLink,
        writer: WriterId,
        is_term: bool,
        digest: RecordDigest,
    ) -> Result<(), Fault> {
        let number = link.number;
        if number != self.number.saturating_add(1) {
            return Err(Fault::Number { last: self.number, found: number });
        }
        if link.previous != self.digest {
            return Err(Fault::Chain { number, named: link.previous, known: self.digest });
        }
        let is_allowed = match self.writer {
            None => true,
            Some(known) if is_term => writer.term > known.term,
            Some(known) => writer == known,
        };
        if !is_allowed {
            return Err(Fault::Term { number, found: writer.term, known: self.term() });
        }
        *self = Self { number, digest, writer: Some(writer) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(n: u8) -> RecordDigest {
        RecordDigest([n; 32])
    }

    fn writer(term: u64, ingester: u8) -> WriterId {
        WriterId { term, ingester: [ingester; 16] }
    }

    #[test]
    fn a_wrong_number_or_digest_is_named_and_changes_nothing() -> Result<(), Fault> {
        let mut chain = RecordChain::new(7, digest(7));
        let link = RecordLink { number: 8, previous: digest(7) };
        chain.advance(link, writer(3, 1), false, digest(8))?;
        let before = chain;
        for (number, previous, name) in [(8, 7, "number"), (10, 8, "number"), (9, 7, "chain")] {
            let link = RecordLink { number, previous: digest(previous) };
            let fault = chain.advance(link, writer(3, 1), false, digest(9)).expect_err("a fault");
            assert_eq!(fault.name(), name);
            assert_eq!(chain, before);
        }
        let link = RecordLink { number: 9, previous: digest(8) };
        chain.advance(link, writer(3, 1), false, digest(9))
    }

    #[test]
    fn only_a_term_record_changes_the_writer() -> Result<(), Fault> {
        let mut chain = RecordChain::new(7, digest(7));
        let link = RecordLink { number: 8, previous: digest(7) };
        chain.advance(link, writer(3, 1), false, digest(8))?;
        let before = chain;
        let link = RecordLink { number: 9, previous: digest(8) };
        for (writer, is_term) in [
            (writer(2, 1), false),
            (writer(2, 1), true),
            (writer(3, 1), true),
            (writer(3, 2), false),
            (writer(4, 1), false),
            (writer(4, 2), false),
        ] {
            let refused = chain.advance(link, writer, is_term, digest(9));
            assert_eq!(refused.expect_err("a fault").name(), "term", "{writer:?}, {is_term}");
            assert_eq!(chain, before);
        }
        chain.advance(link, writer(4, 2), true, digest(9))?;
        assert_eq!(chain.term(), 4);
        Ok(())
    }
}
