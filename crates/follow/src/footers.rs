//! The block footers of one stream, until the metadata of their banks comes.
//!
//! In: footers as a source sends them, of the slot and the bank that they name. Out: the footer of a bank.
//! Bounds: [`FOOTERS_MAX`] footers and [`FOOTERS_BYTES_MAX`]. Beyond them the lowest slots are left out: a bank is
//! whole without its footer.
//! Not here: verification. The content of a footer is passed on as it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use chain_solana::BlockFooter;
use ledger::Slot;
use prost::Message;
use yellowstone_grpc_proto::geyser::SubscribeUpdateBlockFooter;

/// Footers that wait. They come shortly before the metadata.
const FOOTERS_MAX: usize = 64;
/// Bytes of them. A footer has some kilobytes: up to five signatures, and a bit for each of 2,000 validators with each.
const FOOTERS_BYTES_MAX: usize = 1 << 20;

#[derive(Default)]
pub(crate) struct Footers {
    by_bank: BTreeMap<(Slot, u64), Arc<BlockFooter>>,
    bytes: usize,
}

impl Footers {
    /// Adds a footer. One of the same bank replaces it.
    pub(crate) fn insert(&mut self, update: SubscribeUpdateBlockFooter) {
        let SubscribeUpdateBlockFooter {
            slot,
            bank_id,
            bank_hash,
            block_producer_time_nanos: producer_time_nanos,
            block_user_agent: user_agent,
            block_final_cert,
            skip_reward_cert,
            notar_reward_cert,
        } = update;
        let certificates = SubscribeUpdateBlockFooter {
            block_final_cert,
            skip_reward_cert,
            notar_reward_cert,
            ..SubscribeUpdateBlockFooter::default()
        };
        let certificates = certificates.encode_to_vec();
        let footer = BlockFooter { bank_hash, producer_time_nanos, user_agent, certificates };
        self.bytes += footer.bytes();
        let replaced = self.by_bank.insert((slot, bank_id), Arc::new(footer));
        self.bytes -= replaced.map_or(0, |footer| footer.bytes());
        while self.by_bank.len() > FOOTERS_MAX || self.bytes > FOOTERS_BYTES_MAX {
            let Some((_, footer)) = self.by_bank.pop_first() else { return };
            self.bytes -= footer.bytes();
        }
    }

    /// Removes and returns the footer of a bank.
    pub(crate) fn take_footer(
        &mut self,
        slot: Slot,
        bank_id: Option<u64>,
    ) -> Option<Arc<BlockFooter>> {
        let footer = self.by_bank.remove(&(slot, bank_id.unwrap_or_default()))?;
        self.bytes -= footer.bytes();
        Some(footer)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn footer(slot: Slot, bytes: usize) -> SubscribeUpdateBlockFooter {
        SubscribeUpdateBlockFooter {
            slot,
            bank_id: slot + 1,
            block_user_agent: vec![7; bytes],
            ..SubscribeUpdateBlockFooter::default()
        }
    }

    #[test]
    fn the_lowest_slots_are_left_out_at_a_bound() {
        let mut footers = Footers::default();
        let slots = 1..=FOOTERS_MAX as u64 + 1;
        slots.clone().for_each(|slot| footers.insert(footer(slot, 10)));
        assert!(footers.take_footer(1, Some(2)).is_none());
        assert!(footers.take_footer(2, None).is_none(), "it is of another bank");
        assert_eq!(footers.take_footer(2, Some(3)).map(|it| it.user_agent.len()), Some(10));
        // A large one replaces a small one, and leaves no space for itself.
        footers.insert(footer(9, FOOTERS_BYTES_MAX - 300));
        assert!(
            footers.take_footer(9, Some(10)).is_none()
                && footers.take_footer(10, Some(11)).is_some()
        );
        footers.insert(footer(70, FOOTERS_BYTES_MAX));
        assert_eq!((footers.by_bank.len(), footers.bytes()), (0, 0));
        for slot in slots {
            footers.insert(footer(slot, 10));
            assert!(footers.take_footer(slot, Some(slot + 1)).is_some());
        }
        assert_eq!(footers.bytes(), 0);
    }
}
