//! Requests of gRPC's `Subscribe`: bytes to filters, and filters against a block's updates.

use std::sync::{Arc, LazyLock};

use chain_solana::{AccountUpdate, BankHashComponents, Block, ExecutedTransaction};
use grpc::fuzzing::{self, Updates};
use ledger::BlockId;
use solana::{Account, Entry};
use solana_account::AccountSharedData;
use solana_account_decoder_client_types::token::UiTokenAmount;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_error::TransactionError;
use solana_transaction_status::{TransactionStatusMeta, TransactionTokenBalance};

use crate::node::{spl_token, token_account};

/// One update of each kind and more. The seeds name their addresses, which are numbers repeated.
static UPDATES: LazyLock<Updates> = LazyLock::new(|| {
    let transactions: Vec<_> = transactions().into_iter().map(Arc::new).collect();
    let block = Block {
        id: BlockId { slot: 101, version: 1 },
        parent: BlockId { slot: 100, version: 1 },
        block_height: 101,
        blockhash: Hash::default(),
        previous_blockhash: Hash::default(),
        bank_hash: Hash::default(),
        hash_components: BankHashComponents::default(),
        block_time: 1_700_000_000,
        transaction_count: 3,
        transactions: transactions.clone(),
        rewards: Vec::new(),
        reward_partitions: None,
        entries: vec![Entry {
            num_hashes: 1,
            hash: Hash::default(),
            transaction_count: 3,
            starting_transaction_index: 0,
        }],
        writes: Vec::new(),
    };
    Updates::new(&Arc::new(block), &accounts(), &transactions)
});

/// Checks one request.
pub fn subscribe(bytes: &[u8]) {
    messages(bytes);
}

/// The number of messages; `None` if the request is refused.
fn messages(bytes: &[u8]) -> Option<usize> {
    fuzzing::subscribe_request(bytes, &UPDATES)
}

fn key(n: u8) -> Pubkey {
    Pubkey::new_from_array([n; 32])
}

fn accounts() -> Vec<AccountUpdate> {
    let accounts = [
        (1, key(9), b"abcd".to_vec(), Some(1)),
        (2, key(9), Vec::new(), None),
        (4, spl_token(), token_account(), Some(2)),
    ];
    let update = |(n, owner, data, by): (u8, Pubkey, Vec<u8>, Option<u8>)| {
        let mut account = AccountSharedData::new(u64::from(n) * 100, 0, &owner);
        account.set_data_from_slice(&data);
        AccountUpdate {
            pubkey: key(n),
            account: Arc::new(Account(account)),
            write_version: u64::from(n),
            signature: by.map(|n| Signature::from([n; 64])),
            executed: None,
        }
    };
    accounts.into_iter().map(update).collect()
}

/// One that succeeds, one that fails and changes a token balance of owner 5 and none of owner 6, and a vote.
fn transactions() -> [ExecutedTransaction; 3] {
    let transaction = |index: u8, keys: &[u8]| ExecutedTransaction {
        slot: 101,
        index: index.into(),
        block_time: 1_700_000_000,
        transaction: VersionedTransaction {
            signatures: vec![Signature::from([index + 1; 64])],
            ..VersionedTransaction::default()
        },
        meta: TransactionStatusMeta::default(),
        account_keys: keys.iter().map(|n| key(*n)).collect(),
        is_vote: false,
        visibility: Default::default(),
    };
    let balance = |account_index: u8, owner: u8, amount: &str| TransactionTokenBalance {
        account_index,
        mint: key(7).to_string(),
        ui_token_amount: UiTokenAmount {
            ui_amount: None,
            decimals: 0,
            amount: amount.to_owned(),
            ui_amount_string: amount.to_owned(),
        },
        owner: key(owner).to_string(),
        program_id: spl_token().to_string(),
    };
    let mut failed = transaction(1, &[3, 9]);
    failed.meta.status = Err(TransactionError::AccountInUse);
    failed.meta.pre_token_balances = Some(vec![balance(0, 5, "10"), balance(1, 6, "20")]);
    failed.meta.post_token_balances = Some(vec![balance(0, 5, "11"), balance(1, 6, "20")]);
    let vote = ExecutedTransaction { is_vote: true, ..transaction(2, &[8]) };
    [transaction(0, &[1, 2]), failed, vote]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_is_accepted_and_matches() {
        for (number, seed) in crate::seeds("subscribe").iter().enumerate() {
            let count = messages(seed);
            assert!(count.is_some_and(|count| count > 0), "seed {number}: {count:?}");
        }
    }

    #[test]
    fn seeds_and_what_is_made_from_them_pass() {
        crate::for_each_input("subscribe", subscribe);
    }
}
