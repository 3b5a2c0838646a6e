//! Faults of a model node on request: lies, and notifications that are lost, doubled or late.

use std::collections::VecDeque;

use kaspa::{Event, Hash, Header, Outpoint};

use super::notices::Notice;

/// One flipped bit in the node's reports. The node's own state stays correct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// A bit of a header's nonce.
    Header {
        /// The block.
        block: Hash,
        /// The number of the bit.
        bit: u32,
    },
    /// A bit of a header's commitment. The header no longer matches the block's hash; for a false commitment with a
    /// correct hash see `KaspaNode::mine_with_false_commitment`.
    Commitment {
        /// The block.
        block: Hash,
        /// The number of the bit.
        bit: usize,
    },
    /// A bit of an amount, in every report of the output.
    Amount {
        /// The output.
        outpoint: Outpoint,
        /// The number of the bit.
        bit: u32,
    },
}

/// A disturbance of the next notification of an event, for all clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// The notification is not sent.
    Lost,
    /// The notification is sent twice.
    Doubled,
    /// The notification is sent after the next one of the same event.
    Late,
}

/// The faults of a node.
#[derive(Default)]
pub(crate) struct Faults {
    lies: Vec<Lie>,
    disturbances: Vec<(Event, Disturbance)>,
    late: Vec<Notice>,
}

impl Faults {
    pub(crate) fn add_lie(&mut self, lie: Lie) {
        self.lies.push(lie);
    }

    pub(crate) fn clear_lies(&mut self) {
        self.lies.clear();
    }

    /// Drops the late notifications that have not been sent.
    pub(crate) fn clear_late(&mut self) {
        self.late.clear();
    }

    pub(crate) fn add_disturbance(&mut self, event: Event, disturbance: Disturbance) {
        self.disturbances.push((event, disturbance));
    }

    /// Applies the lies about a header.
    pub(crate) fn report_header(&self, block: &Hash, header: &Header) -> Header {
        let mut header = header.clone();
        for lie in &self.lies {
            match lie {
                Lie::Header { block: of, bit } if of == block => header.nonce ^= 1 << (bit % 64),
                Lie::Commitment { block: of, bit } if of == block => {
                    flip_bit(&mut header.utxo_commitment, *bit);
                }
                _ => {}
            }
        }
        header
    }

    /// Applies the lies about an amount.
    pub(crate) fn report_amount(&self, outpoint: &Outpoint, amount: u64) -> u64 {
        self.lies.iter().fold(amount, |amount, lie| match lie {
            Lie::Amount { outpoint: of, bit } if of == outpoint => amount ^ 1 << (bit % 64),
            _ => amount,
        })
    }

    /// Returns the notifications to send now in place of one.
    pub(crate) fn disturb(&mut self, notice: Notice) -> VecDeque<Notice> {
        let event = notice.event();
        let at = self.disturbances.iter().position(|(of, _)| *of == event);
        let disturbance = at.map(|at| self.disturbances.remove(at).1);
        let mut sent = VecDeque::new();
        match disturbance {
            Some(Disturbance::Lost) => return sent,
            Some(Disturbance::Late) => {
                self.late.push(notice);
                return sent;
            }
            Some(Disturbance::Doubled) => sent.extend([notice.clone(), notice]),
            None => sent.push_back(notice),
        }
        while let Some(at) = self.late.iter().position(|late| late.event() == event) {
            sent.push_back(self.late.remove(at));
        }
        sent
    }
}

/// Flips a bit of a hash.
pub(crate) fn flip_bit(hash: &mut Hash, bit: usize) {
    hash.0[bit / 8 % 32] ^= 1 << (bit % 8);
}
