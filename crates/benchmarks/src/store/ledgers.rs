//! Blocks as a local ledger makes them, without running any: the sysvars that every block rewrites, and
//! transactions that write three accounts each.

use std::sync::Arc;

use chain_solana::{AccountWrite, BankHashComponents, Block, ExecutedTransaction};
use ledger::{AddressId, BlockId, Slot};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use solana::Account;
use solana_account::AccountSharedData;
use solana_hash::Hash;
use solana_message::compiled_instruction::CompiledInstruction;
use solana_message::{Message, MessageHeader, VersionedMessage};
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_status::TransactionStatusMeta;

/// Number of different accounts.
const ACCOUNTS: u64 = 100_000;
/// Accounts that a transaction writes.
const WRITES: usize = 3;
/// Sysvars of every block, by size: SlotHistory (almost nothing in it), SlotHashes and
/// RecentBlockhashes (hashes), Clock.
const SYSVARS: [Sysvar; 4] = [
    Sysvar { name: 1, bytes: 131_097, is_filled: false },
    Sysvar { name: 2, bytes: 20_488, is_filled: true },
    Sysvar { name: 3, bytes: 6_008, is_filled: true },
    Sysvar { name: 4, bytes: 40, is_filled: true },
];

/// A sysvar that every block writes.
struct Sysvar {
    /// Each byte of its address.
    name: u8,
    bytes: usize,
    /// Whether its data are random. Otherwise they are the slot and zeros.
    is_filled: bool,
}

pub(super) struct Ledger {
    random: StdRng,
    slot: Slot,
    blockhash: Hash,
    transactions: u64,
}

impl Ledger {
    /// The ledger of a seed, before its first block.
    pub(super) fn new(seed: u64) -> Self {
        let random = StdRng::seed_from_u64(seed);
        Self { random, slot: 0, blockhash: Hash::default(), transactions: 0 }
    }

    /// The ledger whose newest block is `last`.
    pub(super) fn from_last_block(last: &Block) -> Self {
        let slot = last.id.slot;
        Self {
            slot,
            blockhash: last.blockhash,
            transactions: last.transaction_count,
            ..Self::new(slot)
        }
    }

    pub(super) fn block(&mut self, transactions: usize) -> Block {
        let parent_slot = self.slot;
        self.slot += 1;
        let mut writes: Vec<AccountWrite> =
            SYSVARS.into_iter().map(|sysvar| self.sysvar(sysvar)).collect();
        let executed =
            (0..transactions).map(|index| Arc::new(self.executed(index, &mut writes))).collect();
        writes.sort_by_key(|write| write.pubkey);
        writes.dedup_by_key(|write| write.pubkey);
        self.transactions += transactions as u64;
        let previous_blockhash = self.blockhash;
        self.blockhash = Hash::new_from_array(self.random.random());
        Block {
            id: BlockId { slot: self.slot, version: self.slot },
            parent: BlockId { slot: parent_slot, version: parent_slot },
            block_height: parent_slot,
            blockhash: self.blockhash,
            previous_blockhash,
            bank_hash: Hash::new_from_array(self.random.random()),
            hash_components: BankHashComponents::default(),
            block_time: 1_700_000_000 + self.slot as i64,
            transaction_count: self.transactions,
            transactions: executed,
            rewards: Vec::new(),
            reward_partitions: None,
            entries: Vec::new(),
            writes,
        }
    }

    fn sysvar(&mut self, sysvar: Sysvar) -> AccountWrite {
        let Sysvar { name, bytes, is_filled } = sysvar;
        let mut data = vec![0; bytes];
        if is_filled {
            self.random.fill(data.as_mut_slice());
        } else {
            data[..8].copy_from_slice(&self.slot.to_le_bytes());
        }
        write(Pubkey::new_from_array([name; 32]), data, Pubkey::default())
    }

    /// A transaction like a token transfer, and the accounts that it wrote.
    fn executed(&mut self, index: usize, writes: &mut Vec<AccountWrite>) -> ExecutedTransaction {
        let accounts: [u64; WRITES] =
            std::array::from_fn(|_| self.random.random_range(0..ACCOUNTS));
        let program = Pubkey::new_from_array([9; 32]);
        let keys: Vec<Pubkey> =
            accounts.iter().map(|account| pubkey(*account)).chain([program]).collect();
        for account in accounts {
            let mut data = vec![0; bytes(account)];
            // Keys and amounts do not compress, the rest of an account mostly does.
            let filled = data.len().min(160);
            self.random.fill(&mut data[..filled]);
            writes.push(write(pubkey(account), data, program));
        }
        let mut data = [0; 12];
        self.random.fill(&mut data);
        let message = VersionedMessage::Legacy(Message {
            header: MessageHeader {
                num_required_signatures: 1,
                num_readonly_signed_accounts: 0,
                num_readonly_unsigned_accounts: 1,
            },
            account_keys: keys.clone(),
            recent_blockhash: self.blockhash,
            instructions: vec![CompiledInstruction {
                program_id_index: 3,
                accounts: vec![1, 2, 0],
                data: data.to_vec(),
            }],
        });
        let mut signature = [0; 64];
        self.random.fill(signature.as_mut_slice());
        let balances: Vec<u64> =
            keys.iter().map(|_| self.random.random_range(1..1 << 40)).collect();
        let meta = TransactionStatusMeta {
            fee: 5000,
            pre_balances: balances.clone(),
            post_balances: balances,
            inner_instructions: Some(Vec::new()),
            log_messages: Some(vec![
                format!("Program {program} invoke [1]"),
                "Program log: Instruction: Transfer".to_owned(),
                format!("Program {program} consumed 4645 of 200000 compute units"),
                format!("Program {program} success"),
            ]),
            compute_units_consumed: Some(4645),
            ..TransactionStatusMeta::default()
        };
        ExecutedTransaction {
            slot: self.slot,
            index: index as u32,
            block_time: 1_700_000_000 + self.slot as i64,
            transaction: VersionedTransaction {
                signatures: vec![Signature::from(signature)],
                message,
            },
            meta,
            account_keys: keys,
            is_vote: false,
            visibility: Default::default(),
        }
    }
}

/// Most accounts are token accounts, some are 1 KiB, a few are 10 KiB.
fn bytes(account: u64) -> usize {
    match account % 20 {
        0 => 10_240,
        1..=3 => 1_024,
        _ => 165,
    }
}

fn pubkey(account: u64) -> Pubkey {
    let mut random = StdRng::seed_from_u64(account);
    Pubkey::new_from_array(random.random())
}

fn write(pubkey: Pubkey, data: Vec<u8>, owner: Pubkey) -> AccountWrite {
    let account =
        solana_account::Account { lamports: 1, data, owner, executable: false, rent_epoch: 0 };
    let account = Account(AccountSharedData::from(account));
    AccountWrite {
        pubkey,
        id: AddressId(0),
        account: Some(Arc::new(account).into()),
        removed_keys: Vec::new(),
    }
}
