//! A source that lies about the transactions of a bank whose accounts and hash are right, in each mode: the bank is
//! refused with the name of the check, or the lie cannot be proven at that level.

use follow::VerifyMode;
use solana::HashReporter;
use solana_hash::Hash;
use solana_keypair::Keypair;
use solana_message::compiled_instruction::CompiledInstruction;
use solana_message::{Message, MessageHeader, VersionedMessage};
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_error::TransactionError;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{
    SlotStatus, SubscribeUpdate, SubscribeUpdateBlockMeta, SubscribeUpdateTransactionInfo,
};
use yellowstone_grpc_proto::solana::storage::confirmed_block as proto;

use crate::mode_rig::ModeRig;
use crate::proven::Proven;
use crate::script::{account, new_update, status, transaction};
use crate::votes;

const FEE: u64 = 5_000;
const PAYER_BALANCE: u64 = 1_000_000;
const DEST: [u8; 32] = [8; 32];
const DEST_BALANCE: u64 = 10_000;
const DATA: [u8; 32] = [6; 32];
const DATA_BALANCE: u64 = 7;
const PAID: u64 = 100;
/// A program that the bank's transactions call, besides the system program.
const PROGRAM: [u8; 32] = [5; 32];
const SYSTEM_PROGRAM: [u8; 32] = [0; 32];
/// The indices of the transactions in the bank: a failed transfer, a transfer, a change of data, a failed call of a
/// program, and one whose balances the source does not send.
const FAILED: u64 = 0;
const TRANSFER: u64 = 1;
const DATA_CHANGE: u64 = 2;
const FAILED_CALL: u64 = 3;
const OTHER: u64 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    Nothing,
    InventedSignature,
    Reordered,
    Replaced,
    /// One transaction is left out, and another client's has its index.
    LeftOut,
    /// A failed transfer succeeds.
    ErrRemoved,
    /// A failed call of a program succeeds.
    ErrOfCallRemoved,
    ErrSet,
    /// The balances are those of a failed transfer, too.
    ErrAndBalancesSet,
    /// A failed transaction changed the data of an account.
    ErrOfDataChangeSet,
    ForgedBalance,
    ForgedFee,
    /// Rewards make up for balances that a program did not move.
    ForgedRewards,
    LostBalances,
    ForgedLogs,
    ForgedInnerInstructions,
    ForgedTokenBalances,
    ForgedReturnData,
    ForgedComputeUnits,
    /// A reward of an epoch that was not paid.
    ForgedInflationReward,
    ForgedBlockTime,
    ForgedBlockHeight,
    ForgedEntries,
    LostEntries,
}

use Lie::*;

pub(crate) const LIES: [Lie; 24] = [
    Nothing,
    InventedSignature,
    Reordered,
    Replaced,
    LeftOut,
    ErrRemoved,
    ErrOfCallRemoved,
    ErrSet,
    ErrAndBalancesSet,
    ErrOfDataChangeSet,
    ForgedBalance,
    ForgedFee,
    ForgedRewards,
    LostBalances,
    ForgedLogs,
    ForgedInnerInstructions,
    ForgedTokenBalances,
    ForgedReturnData,
    ForgedComputeUnits,
    ForgedInflationReward,
    ForgedBlockTime,
    ForgedBlockHeight,
    ForgedEntries,
    LostEntries,
];

impl Lie {
    /// The check that refuses it; `None` if it cannot be proven.
    pub(crate) fn refused_by(self, has_entries: bool) -> Option<&'static str> {
        match self {
            InventedSignature => Some("signature"),
            ErrSet | ErrAndBalancesSet | ForgedBalance | ForgedFee | ForgedRewards => {
                Some("balance")
            }
            ErrOfDataChangeSet => Some("failed_write"),
            ErrRemoved => Some("transfer"),
            Reordered | Replaced | LeftOut | ForgedEntries => has_entries.then_some("entries"),
            LostEntries => has_entries.then_some("missing_entries"),
            Nothing
            | ErrOfCallRemoved
            | LostBalances
            | ForgedLogs
            | ForgedInnerInstructions
            | ForgedTokenBalances
            | ForgedReturnData
            | ForgedComputeUnits
            | ForgedInflationReward
            | ForgedBlockTime
            | ForgedBlockHeight => None,
        }
    }

    fn apply(self, bank: &mut Vec<SubscribeUpdate>) {
        let err = || {
            let err = TransactionError::AccountInUse;
            let err = bincode::serialize(&err).expect("an error");
            Some(proto::TransactionError { err })
        };
        match self {
            Nothing => {}
            InventedSignature => {
                let info = info_mut(bank, OTHER);
                info.signature = vec![7; 64];
                info.transaction.as_mut().expect("its content").signatures = vec![vec![7; 64]];
            }
            Reordered => {
                info_mut(bank, OTHER).index = 100;
                info_mut(bank, FAILED_CALL).index = OTHER;
                info_mut(bank, 100).index = FAILED_CALL;
            }
            Replaced => replace(bank, transaction(102, 1_000)),
            LeftOut => {
                let content = sign(&Keypair::new_from_array([44; 32]), [DEST, PROGRAM], &[], 9);
                replace(bank, new_update(&content, (102, OTHER)));
            }
            ErrRemoved => meta_mut(bank, FAILED).err = None,
            ErrOfCallRemoved => meta_mut(bank, FAILED_CALL).err = None,
            ErrSet => meta_mut(bank, TRANSFER).err = err(),
            ErrAndBalancesSet => {
                let meta = meta_mut(bank, TRANSFER);
                meta.err = err();
                meta.post_balances = meta.pre_balances.clone();
                meta.post_balances[0] -= FEE;
                for next in [DATA_CHANGE, FAILED_CALL] {
                    let next = meta_mut(bank, next);
                    next.pre_balances[0] += PAID;
                    next.post_balances[0] += PAID;
                }
            }
            ErrOfDataChangeSet => meta_mut(bank, DATA_CHANGE).err = err(),
            ForgedBalance => {
                let meta = meta_mut(bank, DATA_CHANGE);
                meta.pre_balances[1] -= 5;
                meta.pre_balances[0] += 5;
            }
            ForgedFee => meta_mut(bank, TRANSFER).fee += 1,
            ForgedRewards => {
                let moved = 50;
                let meta = meta_mut(bank, DATA_CHANGE);
                meta.post_balances[0] -= moved;
                meta.post_balances[1] += moved;
                let next = meta_mut(bank, FAILED_CALL);
                for balances in [&mut next.pre_balances, &mut next.post_balances] {
                    balances[0] -= moved;
                    balances[1] += moved;
                }
                let payer = Keypair::new_from_array([43; 32]).pubkey();
                for (key, lamports) in [(payer, 50), (Pubkey::from(DATA), -50)] {
                    add_reward(bank, key, lamports, proto::RewardType::Fee);
                }
            }
            LostBalances => {
                let meta = meta_mut(bank, TRANSFER);
                meta.pre_balances.clear();
                meta.post_balances.clear();
            }
            ForgedLogs => meta_mut(bank, TRANSFER).log_messages = vec!["paid all".to_owned()],
            ForgedInnerInstructions => {
                let instruction = proto::InnerInstruction {
                    program_id_index: 2,
                    accounts: vec![1, 0],
                    data: transfer(1_000_000),
                    stack_height: Some(2),
                };
                let all = proto::InnerInstructions { index: 0, instructions: vec![instruction] };
                meta_mut(bank, DATA_CHANGE).inner_instructions.push(all);
            }
            ForgedTokenBalances => {
                let amount = proto::UiTokenAmount {
                    ui_amount: 1_000_000.0,
                    decimals: 0,
                    amount: "1000000".to_owned(),
                    ui_amount_string: "1000000".to_owned(),
                };
                let address = Pubkey::from(PROGRAM).to_string();
                meta_mut(bank, DATA_CHANGE).post_token_balances.push(proto::TokenBalance {
                    account_index: 1,
                    mint: address.clone(),
                    ui_token_amount: Some(amount),
                    owner: address.clone(),
                    program_id: address,
                });
            }
            ForgedReturnData => {
                let data = vec![1; 8];
                let returned = proto::ReturnData { program_id: PROGRAM.to_vec(), data };
                meta_mut(bank, DATA_CHANGE).return_data = Some(returned);
            }
            ForgedComputeUnits => {
                meta_mut(bank, DATA_CHANGE).compute_units_consumed = Some(1_399_999);
            }
            ForgedInflationReward => {
                let rewarded = Pubkey::from(DATA);
                add_reward(bank, rewarded, 1_000_000, proto::RewardType::Staking);
            }
            ForgedBlockTime => {
                let time = proto::UnixTimestamp { timestamp: 1_900_000_000 };
                block_meta_mut(bank).block_time = Some(time);
            }
            ForgedBlockHeight => {
                let height = proto::BlockHeight { block_height: 1 };
                block_meta_mut(bank).block_height = Some(height);
            }
            ForgedEntries => {
                for update in bank {
                    if let Some(UpdateOneof::Entry(entry)) = &mut update.update_oneof {
                        entry.num_hashes += 1;
                    }
                }
            }
            LostEntries => {
                bank.retain(|it| !matches!(it.update_oneof, Some(UpdateOneof::Entry(_))));
                block_meta_mut(bank).entries_count = 0;
            }
        }
    }
}

fn block_meta_mut(bank: &mut [SubscribeUpdate]) -> &mut SubscribeUpdateBlockMeta {
    let mut metas = bank.iter_mut().filter_map(|update| match &mut update.update_oneof {
        Some(UpdateOneof::BlockMeta(meta)) => Some(meta),
        _ => None,
    });
    metas.next().expect("the meta is there")
}

fn add_reward(
    bank: &mut [SubscribeUpdate],
    pubkey: Pubkey,
    lamports: i64,
    kind: proto::RewardType,
) {
    block_meta_mut(bank).rewards.get_or_insert_default().rewards.push(proto::Reward {
        pubkey: pubkey.to_string(),
        lamports,
        reward_type: kind.into(),
        ..proto::Reward::default()
    });
}

fn transaction_mut(update: &mut SubscribeUpdate) -> Option<&mut SubscribeUpdateTransactionInfo> {
    match &mut update.update_oneof {
        Some(UpdateOneof::Transaction(update)) => update.transaction.as_mut(),
        _ => None,
    }
}

fn info_mut(bank: &mut [SubscribeUpdate], index: u64) -> &mut SubscribeUpdateTransactionInfo {
    let mut all = bank.iter_mut().filter_map(transaction_mut);
    all.find(|info| info.index == index).expect("the transaction is there")
}

fn meta_mut(bank: &mut [SubscribeUpdate], index: u64) -> &mut proto::TransactionStatusMeta {
    info_mut(bank, index).meta.as_mut().expect("results")
}

/// Replaces the last transaction.
fn replace(bank: &mut [SubscribeUpdate], other: SubscribeUpdate) {
    let Some(UpdateOneof::Transaction(other)) = other.update_oneof else { return };
    let info = other.transaction.expect("a transaction");
    *info_mut(bank, OTHER) = SubscribeUpdateTransactionInfo { index: OTHER, ..info };
}

/// A transaction with an account that it may write, and the program that it calls.
fn sign(
    payer: &Keypair,
    [writable, program]: [[u8; 32]; 2],
    data: &[u8],
    unique: u8,
) -> VersionedTransaction {
    let keys = [writable, program].map(Pubkey::from);
    let header = MessageHeader {
        num_required_signatures: 1,
        num_readonly_signed_accounts: 0,
        num_readonly_unsigned_accounts: 1,
    };
    let instruction =
        CompiledInstruction { program_id_index: 2, accounts: vec![0, 1], data: data.to_vec() };
    let message = Message {
        header,
        account_keys: std::iter::once(payer.pubkey()).chain(keys).collect(),
        recent_blockhash: Hash::new_from_array([unique; 32]),
        instructions: vec![instruction],
    };
    VersionedTransaction::try_new(VersionedMessage::Legacy(message), &[payer]).expect("it signs")
}

/// The data of a transfer by the system program.
fn transfer(lamports: u64) -> Vec<u8> {
    let mut data = vec![2, 0, 0, 0];
    data.extend(lamports.to_le_bytes());
    data
}

/// A bank with five transactions, four of one payer, and the bank before it.
fn banks(chain: &mut Proven) -> [Vec<SubscribeUpdate>; 2] {
    let payer = Keypair::new_from_array([43; 32]);
    let key = payer.pubkey().to_bytes();
    let data = |slot: u64, content: u8| {
        let mut update = account(slot, DATA, DATA_BALANCE, vec![content]);
        if let Some(UpdateOneof::Account(update)) = &mut update.update_oneof {
            update.account.as_mut().expect("an account").owner = vec![5; 32];
        }
        update
    };
    let plain = |slot: u64, key, lamports| account(slot, key, lamports, Vec::new());
    let first = vec![plain(101, key, PAYER_BALANCE), plain(101, DEST, DEST_BALANCE), data(101, 1)];
    let left = PAYER_BALANCE - 4 * FEE - PAID;
    let second = vec![plain(102, key, left), plain(102, DEST, DEST_BALANCE + PAID), data(102, 2)];
    let mut bank = Vec::new();
    let mut balance = PAYER_BALANCE;
    let contents = [
        (FAILED, [DEST, SYSTEM_PROGRAM], transfer(PAYER_BALANCE)),
        (TRANSFER, [DEST, SYSTEM_PROGRAM], transfer(PAID)),
        (DATA_CHANGE, [DATA, PROGRAM], vec![1]),
        (FAILED_CALL, [DATA, PROGRAM], vec![2]),
    ];
    for (index, keys, data) in contents {
        let content = sign(&payer, keys, &data, index as u8);
        bank.push(new_update(&content, (102, index)));
        let before = if keys[0] == DATA { DATA_BALANCE } else { DEST_BALANCE };
        let paid = if index == TRANSFER { PAID } else { 0 };
        let meta = meta_mut(&mut bank, index);
        meta.pre_balances = vec![balance, before, 1];
        balance -= FEE + paid;
        meta.post_balances = vec![balance, before + paid, 1];
        if [FAILED, FAILED_CALL].contains(&index) {
            let err = bincode::serialize(&TransactionError::AccountInUse).expect("an error");
            meta.err = Some(proto::TransactionError { err });
        }
    }
    let confirmed = |slot: u64, mut bank: Vec<SubscribeUpdate>| {
        let statuses = [SlotStatus::SlotProcessed, SlotStatus::SlotConfirmed];
        bank.extend(statuses.map(|it| status(slot, it)));
        bank
    };
    let first = confirmed(101, chain.bank_with(101, first, Vec::new()));
    let second = confirmed(102, chain.bank_with(102, second, bank));
    [first, second]
}

/// Sends a lie. Returns the name of the check that refused the bank, or `None` if it was confirmed.
pub(crate) async fn find_refusal(
    mode: VerifyMode,
    has_entries: bool,
    lie: Lie,
) -> Option<&'static str> {
    let ModeRig { source, independent, validators, rig, mut chain } =
        ModeRig::start(mode, has_entries).await;
    let [first, mut second] = banks(&mut chain);
    let voted = (102, chain.hash);
    lie.apply(&mut second);
    source.send(first);
    source.send(second);
    independent.send([chain.child_slot_hashes()]);
    source.send(votes::bank(&mut chain, 103, validators.votes(103, voted)));
    let text = format!("{mode:?}, entries: {has_entries}, {lie:?}");
    rig.wait(&text, |rig| rig.slots()[1] >= 102 || rig.status.mismatch().is_some()).await;
    let summary = chain_solana::Verification::summary(&**rig.status.proof());
    let fault = summary.first_mismatch.map(|mismatch| {
        assert_eq!((mismatch.slot, mismatch.reporter), (102, HashReporter::Transactions), "{text}");
        // It was requested again once, and never shown.
        assert_eq!((summary.repairs, rig.slots()[1] <= 101), (1, true), "{text}");
        mismatch.fault.expect("a contradiction").check.name()
    });
    rig.stop().await;
    fault
}

async fn check_all(mode: VerifyMode) {
    for has_entries in [false, true] {
        for lie in LIES {
            let refused_by = find_refusal(mode, has_entries, lie).await;
            let expected = lie.refused_by(has_entries);
            assert_eq!(refused_by, expected, "{mode:?}, entries: {has_entries}, {lie:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lies_about_transactions_are_refused_if_the_chain_lists_the_hash() {
    check_all(VerifyMode::Sequence).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lies_about_transactions_are_refused_if_sources_agree_on_the_hash() {
    check_all(VerifyMode::Agree).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lies_about_transactions_are_refused_if_validators_voted_for_the_hash() {
    check_all(VerifyMode::Votes).await;
}
