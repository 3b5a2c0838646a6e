//! Random blocks, for tests of all that stores or sends blocks. Feature `testing`.
//!
//! Every field of every record gets every possible form. The same seed gives the same blocks.

use std::collections::BTreeMap;
use std::sync::Arc;

use ledger::{AddressId, BlockId, Slot};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use solana::Account;
use solana_account::AccountSharedData;
use solana_account_decoder_client_types::token::UiTokenAmount;
use solana_hash::Hash;
use solana_message::compiled_instruction::CompiledInstruction;
use solana_message::v0::{self, LoadedAddresses, MessageAddressTableLookup};
use solana_message::v1::{self, TransactionConfig};
use solana_message::{Message, MessageHeader, VersionedMessage};
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_context::transaction::TransactionReturnData;
use solana_transaction_error::TransactionError;
use solana_transaction_status::{
    InnerInstruction, InnerInstructions, Reward, RewardType, TransactionStatusMeta,
    TransactionTokenBalance,
};

use crate::{AccountWrite, BankHashComponents, Block, ExecutedTransaction};

/// Few enough that accounts are often rewritten, closed and created again.
const ACCOUNTS: u64 = 40;

/// A ledger that grows by random blocks.
pub struct RandomLedger {
    random: StdRng,
    slot: Slot,
    version: u64,
    blockhash: Hash,
    transactions_max: usize,
}

impl RandomLedger {
    /// Creates the ledger of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let version = random.random::<u64>() / 2;
        Self { random, slot: 0, version, blockhash: Hash::default(), transactions_max: 6 }
    }

    /// Returns accounts that the ledger may start with.
    pub fn genesis_accounts(&mut self) -> BTreeMap<Pubkey, Arc<Account>> {
        (0..ACCOUNTS / 2).map(|account| (pubkey(account), self.account())).collect()
    }

    /// Returns the next block. The parent slot of the first one is 0.
    pub fn block(&mut self) -> Block {
        let parent = BlockId { slot: self.slot, version: self.version };
        self.version += 1;
        // Some slots are skipped.
        self.slot += self.random.random_range(1..4);
        let previous_blockhash = self.blockhash;
        self.blockhash = self.hash();
        let transactions = self.random.random_range(0..=self.transactions_max);
        Block {
            id: BlockId { slot: self.slot, version: self.version },
            parent,
            block_height: self.random.random(),
            blockhash: self.blockhash,
            previous_blockhash,
            bank_hash: self.hash(),
            hash_components: BankHashComponents {
                parent_hash: self.hash(),
                signature_count: self.random.random(),
                last_blockhash: self.blockhash,
                lt_checksum: self.hash(),
            },
            block_time: self.random.random(),
            transaction_count: self.random.random(),
            transactions: (0..transactions).map(|_| Arc::new(self.random_transaction())).collect(),
            rewards: self.list(0..3, Self::reward),
            reward_partitions: self.option(|random| random.random.random()),
            entries: Vec::new(),
            writes: self.writes(),
        }
    }

    /// Makes the next block a child of `block`, an earlier one.
    pub fn go_back(&mut self, block: &Block) {
        (self.slot, self.version) = (block.id.slot, block.id.version);
        self.blockhash = block.blockhash;
    }

    fn writes(&mut self) -> Vec<AccountWrite> {
        let written = self.random.random_range(0..10);
        let mut accounts: Vec<u64> =
            (0..written).map(|_| self.random.random_range(0..ACCOUNTS)).collect();
        accounts.sort_unstable();
        accounts.dedup();
        let write = |n| {
            let closed = self.random.random_ratio(1, 4);
            let account = (!closed).then(|| self.account().into());
            AccountWrite { pubkey: pubkey(n), id: AddressId(0), account, removed_keys: Vec::new() }
        };
        accounts.into_iter().map(write).collect()
    }

    /// Sizes below and above the compression limit; compressible and incompressible data.
    fn account(&mut self) -> Arc<Account> {
        let bytes = [0, 1, 82, 165, 4_000, 4_200, 20_488, 131_097][self.random.random_range(0..8)];
        let mut data = vec![0; bytes];
        if self.random.random() {
            self.random.fill(data.as_mut_slice());
        }
        Arc::new(Account(AccountSharedData::from(solana_account::Account {
            lamports: self.random.random(),
            data,
            owner: self.pubkey(),
            executable: self.random.random(),
            rent_epoch: self.random.random(),
        })))
    }

    fn random_transaction(&mut self) -> ExecutedTransaction {
        let transaction = self.transaction();
        let meta = self.meta();
        let own = transaction.message.static_account_keys();
        let loaded = &meta.loaded_addresses;
        let account_keys = [own, &loaded.writable, &loaded.readonly].concat();
        ExecutedTransaction {
            slot: self.slot,
            index: self.random.random(),
            block_time: self.random.random(),
            transaction,
            meta,
            account_keys,
            is_vote: self.random.random(),
            visibility: Default::default(),
        }
    }

    fn transaction(&mut self) -> VersionedTransaction {
        let signatures = self.random.random_range(1..4_u8);
        let header = MessageHeader {
            num_required_signatures: signatures,
            num_readonly_signed_accounts: 0,
            num_readonly_unsigned_accounts: 1,
        };
        let account_keys = self.list(4..8, Self::pubkey);
        let recent_blockhash = self.hash();
        let instructions = self.list(1..4, Self::instruction);
        let message = match self.random.random_range(0..3) {
            0 => VersionedMessage::Legacy(Message {
                header,
                account_keys,
                recent_blockhash,
                instructions,
            }),
            1 => VersionedMessage::V0(v0::Message {
                header,
                account_keys,
                recent_blockhash,
                instructions,
                address_table_lookups: self.list(0..3, |random| MessageAddressTableLookup {
                    account_key: random.pubkey(),
                    writable_indexes: random.bytes(),
                    readonly_indexes: random.bytes(),
                }),
            }),
            _ => VersionedMessage::V1(v1::Message {
                header,
                config: TransactionConfig {
                    priority_fee: self.option(Self::number),
                    compute_unit_limit: self.option(Self::number),
                    loaded_accounts_data_size_limit: self.option(Self::number),
                    heap_size: self.option(Self::number),
                },
                lifetime_specifier: recent_blockhash,
                account_keys,
                instructions,
            }),
        };
        let signatures = usize::from(signatures);
        let signatures = self.list(signatures..signatures + 1, |random| {
            let mut signature = [0; 64];
            random.random.fill(signature.as_mut_slice());
            Signature::from(signature)
        });
        VersionedTransaction { signatures, message }
    }

    fn instruction(&mut self) -> CompiledInstruction {
        CompiledInstruction {
            program_id_index: self.random.random(),
            accounts: self.bytes(),
            data: self.bytes(),
        }
    }

    fn meta(&mut self) -> TransactionStatusMeta {
        TransactionStatusMeta {
            status: if self.random.random() { Ok(()) } else { Err(self.error()) },
            fee: self.random.random(),
            pre_balances: self.list(0..9, Self::number),
            post_balances: self.list(0..9, Self::number),
            inner_instructions: self.option(|random| random.list(0..3, Self::inner)),
            log_messages: self.option(|random| random.list(0..9, Self::text)),
            pre_token_balances: self.option(|random| random.list(0..3, Self::token_balance)),
            post_token_balances: self.option(|random| random.list(0..3, Self::token_balance)),
            rewards: self.option(|random| random.list(0..3, Self::reward)),
            loaded_addresses: LoadedAddresses {
                writable: self.list(0..3, Self::pubkey),
                readonly: self.list(0..3, Self::pubkey),
            },
            return_data: self.option(|random| TransactionReturnData {
                program_id: random.pubkey(),
                data: random.bytes(),
            }),
            compute_units_consumed: self.option(Self::number),
            cost_units: self.option(Self::number),
        }
    }

    /// Returns any error: bincode's number of a variant, then random contents.
    fn error(&mut self) -> TransactionError {
        loop {
            let mut bytes = [0; 16];
            self.random.fill(bytes.as_mut_slice());
            bytes[..4].copy_from_slice(&self.random.random_range(0..40_u32).to_le_bytes());
            // The variant of an instruction's error, after the index of the instruction.
            bytes[5..9].copy_from_slice(&self.random.random_range(0..60_u32).to_le_bytes());
            if let Ok(err) = bincode::deserialize(&bytes) {
                return err;
            }
        }
    }

    fn inner(&mut self) -> InnerInstructions {
        InnerInstructions {
            index: self.random.random(),
            instructions: self.list(0..4, |random| InnerInstruction {
                instruction: random.instruction(),
                stack_height: random.option(Self::number),
            }),
        }
    }

    fn token_balance(&mut self) -> TransactionTokenBalance {
        TransactionTokenBalance {
            account_index: self.random.random(),
            mint: self.text(),
            ui_token_amount: UiTokenAmount {
                ui_amount: self.option(|random| random.random.random_range(-1e20..1e20)),
                decimals: self.random.random(),
                amount: self.text(),
                ui_amount_string: self.text(),
            },
            owner: self.text(),
            program_id: self.text(),
        }
    }

    fn reward(&mut self) -> Reward {
        let kinds = [
            RewardType::Fee,
            RewardType::Rent,
            RewardType::Staking,
            RewardType::Voting,
            RewardType::DeactivatedStake,
        ];
        Reward {
            pubkey: self.text(),
            lamports: self.random.random(),
            post_balance: self.random.random(),
            reward_type: self.option(|random| kinds[random.random.random_range(0..5)]),
            commission: self.option(Self::number),
            commission_bps: self.option(Self::number),
        }
    }

    fn text(&mut self) -> String {
        let letters = ['P', 'r', 'ö', '1', ' ', '\n', '😀'];
        self.list(0..60, |random| letters[random.random.random_range(0..letters.len())])
            .into_iter()
            .collect()
    }

    fn bytes(&mut self) -> Vec<u8> {
        self.list(0..20, Self::number)
    }

    fn hash(&mut self) -> Hash {
        Hash::new_from_array(self.random.random())
    }

    fn pubkey(&mut self) -> Pubkey {
        Pubkey::new_from_array(self.random.random())
    }

    fn number<T>(&mut self) -> T
    where
        rand::distr::StandardUniform: rand::distr::Distribution<T>,
    {
        self.random.random()
    }

    fn option<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.random.random() { Some(value(self)) } else { None }
    }

    fn list<T>(
        &mut self,
        len: std::ops::Range<usize>,
        mut item: impl FnMut(&mut Self) -> T,
    ) -> Vec<T> {
        let len = self.random.random_range(len);
        (0..len).map(|_| item(self)).collect()
    }
}

fn pubkey(n: u64) -> Pubkey {
    let mut bytes = [7; 32];
    bytes[..8].copy_from_slice(&n.to_be_bytes());
    Pubkey::new_from_array(bytes)
}
