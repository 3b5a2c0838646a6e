//! The chain of records: each one has the next number, names the digest of the one before it, and is of the same writer
//! unless it begins a higher term.
//!
//! Not here: whether a block's parent is known (`replica`), damage within a record (`reader`).

use super::record::{RecordDigest, RecordLink, WriterId};

/// Why a record does not continue the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainFault {
    /// The record has another number than the next one.
    #[error("record {found} follows record {last}")]
    Number {
        /// Number of the last record.
        last: u64,
        /// Number of the record.
        found: u64,
    },
    /// The record names another predecessor.
    #[error(
        "record {number} follows a record with the digest {named:?}, and the last one has {known:?}"
    )]
    Previous {
        /// Number of the record.
        number: u64,
        /// The digest that it names.
        named: RecordDigest,
        /// Digest of the last record.
        known: RecordDigest,
    },
    /// The record is of another writer than the one before it, and does not begin a higher term.
    #[error(
        "record {number} of term {found} is not of the writer of term {known}, and begins no higher term"
    )]
    Term {
        /// Number of the record.
        number: u64,
        /// Term of the record.
        found: u64,
        /// Term of the record before it.
        known: u64,
    },
}

impl ChainFault {
    /// Returns the name of the fault, as in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Number { .. } => "number",
            Self::Previous { .. } => "chain",
            Self::Term { .. } => "term",
        }
    }
}

/// The last record of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordChain {
    /// The number of the record.
    pub number: u64,
    /// The digest of the record.
    pub digest: RecordDigest,
    /// The writer; `None` after a snapshot, which does not name it.
    pub writer: Option<WriterId>,
}

impl RecordChain {
    /// Returns the chain after the block of a snapshot.
    pub fn new(number: u64, digest: RecordDigest) -> Self {
        Self { number, digest, writer: None }
    }

    /// Returns the term of the last record; 0 after a snapshot.
    pub fn term(&self) -> u64 {
        self.writer.map_or(0, |writer| writer.term)
    }

    /// Checks the link and the writer of the next record. `begins_term` is whether it is the record of a term.
    ///
    /// # Errors
    ///
    /// The record does not continue the chain.
    pub fn check(
        &self,
        link: RecordLink,
        writer: WriterId,
        begins_term: bool,
    ) -> Result<(), ChainFault> {
        let number = link.number;
        if self.number.checked_add(1) != Some(number) {
            return Err(ChainFault::Number { last: self.number, found: number });
        }
        if link.previous != self.digest {
            let named = link.previous;
            return Err(ChainFault::Previous { number, named, known: self.digest });
        }
        let is_allowed = match self.writer {
            None => true,
            Some(known) if begins_term => writer.term > known.term,
            Some(known) => writer == known,
        };
        match is_allowed {
            true => Ok(()),
            false => Err(ChainFault::Term { number, found: writer.term, known: self.term() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use solana::VerificationLevel;

    use super::*;

    fn digest(n: u8) -> RecordDigest {
        RecordDigest([n; 32])
    }

    fn writer(term: u64, ingester: u8) -> WriterId {
        let level = Some(VerificationLevel::Sequence);
        WriterId { term, ingester: [ingester; 16], level }
    }

    /// A chain whose last record is number 8 of term 3.
    fn chain() -> RecordChain {
        RecordChain { number: 8, digest: digest(8), writer: Some(writer(3, 1)) }
    }

    #[test]
    fn a_wrong_number_or_digest_is_named() {
        for (number, previous, expected) in
            [(8, 7, Err("number")), (10, 8, Err("number")), (9, 7, Err("chain")), (9, 8, Ok(()))]
        {
            let link = RecordLink { number, previous: digest(previous) };
            let checked = chain().check(link, writer(3, 1), false);
            assert_eq!(checked.map_err(ChainFault::name), expected, "{number}");
        }
        let last = RecordChain::new(u64::MAX, digest(8));
        let link = RecordLink { number: 0, previous: digest(8) };
        assert!(last.check(link, writer(3, 1), false).is_err());
    }

    #[test]
    fn only_a_term_record_changes_the_writer() {
        let link = RecordLink { number: 9, previous: digest(8) };
        let check = |writer, begins_term| {
            chain().check(link, writer, begins_term).map_err(ChainFault::name)
        };
        for (writer, begins_term) in [
            (writer(2, 1), false),
            (writer(2, 1), true),
            (writer(3, 1), true),
            (writer(3, 2), false),
            (writer(4, 1), false),
            (writer(4, 2), false),
            (WriterId { level: None, ..writer(3, 1) }, false),
        ] {
            assert_eq!(check(writer, begins_term), Err("term"), "{writer:?}, {begins_term}");
        }
        assert_eq!(check(writer(4, 2), true), Ok(()));
        let snapshot = RecordChain::new(8, digest(8));
        assert_eq!(snapshot.check(link, writer(7, 7), false), Ok(()));
    }
}
