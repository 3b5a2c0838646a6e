//! A ledger with every kind of data, and requests for every form in which it is returned.

use std::sync::Arc;

use ::ledger::{Address, Change};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chain_solana::{ExecutedTransaction, Simulation};
use query::{Ledger, LedgerConfig};
use serde_json::{Value, json};
use solana::Account;
use solana_account::{AccountSharedData, WritableAccount};
use solana_hash::Hash;
use solana_keypair::Keypair;
use solana_message::compiled_instruction::CompiledInstruction;
use solana_message::v0::{self, LoadedAddresses, MessageAddressTableLookup};
use solana_message::v1::{self, TransactionConfig};
use solana_message::{Message, MessageHeader, VersionedMessage};
use solana_program_pack::Pack;
use solana_pubkey::Pubkey;
use solana_sdk_ids::{bpf_loader_upgradeable, stake, system_program, sysvar};
use solana_signer::Signer;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_context::transaction::TransactionReturnData;
use solana_transaction_status::{
    InnerInstruction, InnerInstructions, Reward, TransactionStatusMeta, TransactionTokenBalance,
};
use spl_token_interface::state::{Account as Token, AccountState, Multisig};

use super::CheckedClient;
use crate::Node;
use crate::history::{completed_block, confirm_block, signature, transaction_with_balances};
use testkit::sample_ledger::{
    CONFIRMED, DELEGATE, FINALIZED, MINT, NOW, OTHER_WALLET, PROGRAM, TOKEN, WALLET, bank, block,
    mint, token, with_data,
};

const NATIVE: Pubkey = Pubkey::new_from_array([60; 32]);
const MULTISIG: Pubkey = Pubkey::new_from_array([61; 32]);
const STAKE: Pubkey = Pubkey::new_from_array([62; 32]);
const EXTENDED: Pubkey = Pubkey::new_from_array([63; 32]);
const NEW_MINT: Pubkey = Pubkey::new_from_array([64; 32]);
const PROGRAM_DATA: Pubkey = Pubkey::new_from_array([65; 32]);
const BYTES: Pubkey = Pubkey::new_from_array([66; 32]);
const MISSING_ACCOUNT: Pubkey = Pubkey::new_from_array([200; 32]);
const ACCOUNTS: [Pubkey; 10] = [
    WALLET,
    TOKEN,
    MINT,
    NATIVE,
    MULTISIG,
    STAKE,
    EXTENDED,
    PROGRAM_DATA,
    BYTES,
    sysvar::clock::ID,
];

fn accounts() -> Vec<(Pubkey, AccountSharedData)> {
    let old = spl_token_interface::id();
    let new = spl_token_2022_interface::id();
    let native = Token {
        mint: spl_token_interface::native_mint::id(),
        owner: WALLET,
        amount: 5,
        state: AccountState::Frozen,
        is_native: Some(7).into(),
        close_authority: Some(OTHER_WALLET).into(),
        ..Token::default()
    };
    let multisig = Multisig { m: 1, n: 2, is_initialized: true, signers: [WALLET; 11] };
    let mut stake_data = vec![0; 200];
    stake_data[0] = 1;
    stake_data[76..84].copy_from_slice(&(NOW + 1_000).to_le_bytes());
    let mut extended = token(NEW_MINT, WALLET, 5, None);
    // An account with a fixed owner.
    extended.extend([2, 7, 0, 0, 0]);
    let mut program_data = vec![0; 100];
    program_data[0] = 3;
    let mut wallet = with_data(system_program::ID, &[]);
    wallet.set_lamports(5);
    vec![
        (WALLET, wallet),
        (TOKEN, with_data(old, &token(MINT, WALLET, 700, Some(DELEGATE)))),
        (MINT, with_data(old, &mint(2, 1_000))),
        (NEW_MINT, with_data(new, &mint(0, 5))),
        (NATIVE, with_data(old, &packed(native))),
        (MULTISIG, with_data(old, &packed(multisig))),
        (STAKE, with_data(stake::ID, &stake_data)),
        (EXTENDED, with_data(new, &extended)),
        (PROGRAM_DATA, with_data(bpf_loader_upgradeable::ID, &program_data)),
        (BYTES, with_data(PROGRAM, &[1, 2, 3])),
        (sysvar::clock::ID, with_data(sysvar::ID, &[0; 40])),
    ]
}

fn packed<T: Pack>(it: T) -> Vec<u8> {
    let mut data = vec![0; T::LEN];
    T::pack(it, &mut data).expect("it fits");
    data
}

/// A node of that ledger: slot 100 is finalized, 101 confirmed.
pub(super) fn node() -> Node {
    let (mut ledger, reader) = Ledger::new(LedgerConfig::new(1_000), block(100), bank(100));
    let change = |(pubkey, account): (Pubkey, AccountSharedData)| Change {
        address: Address::from(pubkey.to_bytes()),
        record: Account(account).into_record(),
    };
    let all = accounts().into_iter().map(change).collect();
    ledger.apply(block(100), all, bank(100)).expect("the root accepts accounts");
    ledger.open(block(101), block(100), bank(101)).expect("open");
    ledger.complete(block(101), bank(101)).expect("complete");
    ledger.confirm(block(101)).expect("it is complete");
    ledger.publish();
    let node = Node::with_config(reader, rpc_solana::Config::default());
    let history = &node.world.server.api.history;
    let older = vec![
        v0_transaction(FINALIZED, 0),
        v1_transaction(FINALIZED, 1),
        legacy_transaction(FINALIZED, 2),
    ];
    for (slot, all) in
        [(FINALIZED, older), (CONFIRMED, vec![transaction_with_balances(CONFIRMED, 0, 2)])]
    {
        let confirmed = completed_block(slot, all);
        confirmed.show_statuses();
        confirm_block(history, confirmed);
    }
    history.publish();
    node
}

fn header(readonly: u8) -> MessageHeader {
    MessageHeader {
        num_required_signatures: 1,
        num_readonly_signed_accounts: 0,
        num_readonly_unsigned_accounts: readonly,
    }
}

fn instruction(program_id_index: u8, accounts: &[u8], data: &[u8]) -> CompiledInstruction {
    CompiledInstruction { program_id_index, accounts: accounts.to_vec(), data: data.to_vec() }
}

/// A transfer of the system program.
fn transfer(program_id_index: u8, to: u8) -> CompiledInstruction {
    instruction(program_id_index, &[0, to], &[2, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0])
}

fn executed_transaction(
    slot: u64,
    index: u32,
    message: VersionedMessage,
    meta: TransactionStatusMeta,
) -> Arc<ExecutedTransaction> {
    let mut keys = message.static_account_keys().to_vec();
    keys.extend(meta.loaded_addresses.writable.iter().chain(&meta.loaded_addresses.readonly));
    let transaction = VersionedTransaction { signatures: vec![signature(slot, index)], message };
    Arc::new(ExecutedTransaction {
        slot,
        index,
        block_time: NOW,
        transaction,
        meta,
        account_keys: keys,
        is_vote: false,
        visibility: Default::default(),
    })
}

/// A transaction with only the required metadata.
fn legacy_transaction(slot: u64, index: u32) -> Arc<ExecutedTransaction> {
    let message = Message {
        header: header(1),
        account_keys: vec![WALLET, spl_memo_interface::v4::id()],
        recent_blockhash: Hash::new_from_array([6; 32]),
        instructions: vec![instruction(1, &[], b"words")],
    };
    executed_transaction(
        slot,
        index,
        VersionedMessage::Legacy(message),
        TransactionStatusMeta::default(),
    )
}

fn v1_transaction(slot: u64, index: u32) -> Arc<ExecutedTransaction> {
    let config = TransactionConfig { priority_fee: Some(5), ..TransactionConfig::empty() };
    let keys = vec![WALLET, OTHER_WALLET, system_program::ID];
    let blockhash = Hash::new_from_array([6; 32]);
    let message = v1::Message::new(header(1), config, blockhash, keys, vec![transfer(2, 1)]);
    executed_transaction(
        slot,
        index,
        VersionedMessage::V1(message),
        TransactionStatusMeta::default(),
    )
}

/// A transaction with all metadata: keys from a lookup table, calls, logs, return data, and an error.
fn v0_transaction(slot: u64, index: u32) -> Arc<ExecutedTransaction> {
    let message = v0::Message {
        header: header(2),
        account_keys: vec![WALLET, PROGRAM, system_program::ID],
        recent_blockhash: Hash::new_from_array([6; 32]),
        instructions: vec![transfer(2, 3), instruction(1, &[3, 4], &[7; 9])],
        address_table_lookups: vec![MessageAddressTableLookup {
            account_key: BYTES,
            writable_indexes: vec![1],
            readonly_indexes: vec![2],
        }],
    };
    executed_transaction(slot, index, VersionedMessage::V0(message), meta())
}

fn meta() -> TransactionStatusMeta {
    let err = json!({ "InstructionError": [1, { "Custom": 6_000 }] });
    TransactionStatusMeta {
        status: Err(serde_json::from_value(err).expect("an error")),
        fee: 5_000,
        pre_balances: vec![9; 5],
        post_balances: vec![8; 5],
        inner_instructions: Some(inner()),
        log_messages: Some(vec!["Program log: words".to_owned()]),
        pre_token_balances: Some(token_balances()),
        post_token_balances: Some(token_balances()),
        rewards: Some(vec![Reward {
            pubkey: WALLET.to_string(),
            lamports: -5,
            post_balance: 6,
            reward_type: None,
            commission: None,
            commission_bps: None,
        }]),
        loaded_addresses: LoadedAddresses { writable: vec![OTHER_WALLET], readonly: vec![MINT] },
        return_data: Some(TransactionReturnData { program_id: PROGRAM, data: vec![1, 2] }),
        compute_units_consumed: Some(150),
        cost_units: Some(1_500),
    }
}

fn inner() -> Vec<InnerInstructions> {
    let of = |instruction| InnerInstruction { instruction, stack_height: Some(2) };
    let instructions = vec![of(transfer(2, 0)), of(instruction(1, &[0], &[1]))];
    vec![InnerInstructions { index: 1, instructions }]
}

fn token_balances() -> Vec<TransactionTokenBalance> {
    let amount = json!({ "uiAmount": 7.0, "decimals": 2, "amount": "700", "uiAmountString": "7" });
    vec![TransactionTokenBalance {
        account_index: 3,
        mint: MINT.to_string(),
        ui_token_amount: serde_json::from_value(amount).expect("an amount"),
        owner: WALLET.to_string(),
        program_id: spl_token_interface::id().to_string(),
    }]
}

/// Requests everything, in every form.
pub(super) fn request_all(asking: &mut CheckedClient) {
    asking.get("getNode", "/v1/node");
    for commitment in ["processed", "confirmed", "finalized"] {
        asking.get("getLedger", &format!("/v1/ledger?commitment={commitment}"));
    }
    let supply = asking.get("getSupply", "/v1/supply");
    let non_circulating = supply["nonCirculatingAccounts"].as_array().expect("a list");
    assert!(non_circulating.contains(&json!(STAKE.to_string())), "{non_circulating:?}");
    request_accounts(asking);
    request_history(asking);
}

fn request_accounts(asking: &mut CheckedClient) {
    let mut parsed = 0;
    for encoding in ["base58", "base64", "base64+zstd", "jsonParsed"] {
        let encoding = encoding.replace('+', "%2B");
        for address in ACCOUNTS.iter().filter(|it| encoding != "base58" || **it == BYTES) {
            let path = format!("/v1/accounts/{address}?encoding={encoding}");
            parsed += usize::from(asking.get("getAccount", &path)["data"].is_object());
        }
        let listed = format!("addresses={MISSING_ACCOUNT},{BYTES}");
        asking.get("getAccounts", &format!("/v1/accounts?{listed}&encoding={encoding}"));
    }
    assert_eq!(parsed, ACCOUNTS.len() - 2, "all but a wallet and an account of an unknown program");
    let several = json!({ "addresses": [MISSING_ACCOUNT.to_string(), TOKEN.to_string()] });
    asking.post("postAccounts", "/v1/accounts?encoding=jsonParsed", &several);
    for query in ["", "?limit=1", "?encoding=jsonParsed"] {
        let owner = format!("/v1/owners/{WALLET}/tokens{query}");
        let page = asking.get("getOwnerTokens", &owner);
        assert_eq!(page["paginationKey"].is_string(), query == "?limit=1", "{page}");
        asking.get("getMintHolders", &format!("/v1/mints/{MINT}/holders{query}"));
        asking.get("getProgramAccounts", &format!("/v1/programs/{PROGRAM}/accounts{query}"));
    }
    let filters = json!({ "filters": [{ "dataSize": 3 }] });
    asking.post("postProgramAccounts", &format!("/v1/programs/{PROGRAM}/accounts"), &filters);
    asking.get("getMintSupply", &format!("/v1/mints/{MINT}/supply"));
}

fn request_history(asking: &mut CheckedClient) {
    for query in ["", "?limit=1"] {
        let path = format!("/v1/accounts/{WALLET}/transactions{query}");
        let page = asking.get("getAccountTransactions", &path);
        assert_eq!(page["paginationKey"].is_string(), query == "?limit=1", "{page}");
    }
    for (slot, index) in [(FINALIZED, 0), (FINALIZED, 1), (FINALIZED, 2), (CONFIRMED, 0)] {
        let path = format!("/v1/transactions/{}", signature(slot, index));
        asking.get("getTransactionStatus", &format!("{path}/status"));
        for encoding in ["json", "jsonParsed", "base64", "base58"] {
            let query = format!("encoding={encoding}&commitment=confirmed");
            asking.get("getTransaction", &format!("{path}?{query}"));
        }
    }
    for details in ["full", "accounts", "signatures", "none"] {
        for encoding in ["json", "jsonParsed", "base64"] {
            for rewards in [true, false] {
                let query =
                    format!("transactionDetails={details}&encoding={encoding}&rewards={rewards}");
                asking.get("getBlock", &format!("/v1/blocks/{FINALIZED}?{query}"));
            }
        }
    }
}

/// A transaction that its payer has signed, in base64.
fn signed_transaction() -> String {
    let payer = Keypair::new_from_array([5; 32]);
    let message = Message {
        header: header(1),
        account_keys: vec![payer.pubkey(), OTHER_WALLET, system_program::ID],
        recent_blockhash: Hash::new_from_array([6; 32]),
        instructions: vec![transfer(2, 1)],
    };
    let transaction = VersionedTransaction::try_new(VersionedMessage::Legacy(message), &[&payer]);
    let bytes = wincode::serialize(&transaction.expect("it can sign")).expect("it has bytes");
    BASE64_STANDARD.encode(bytes)
}

/// The body of a request that submits it.
pub(super) fn signed_body() -> Value {
    json!({ "transaction": signed_transaction() })
}

/// Submits a transaction, and simulates one that fails and one that succeeds.
pub(super) fn submit(asking: &mut CheckedClient, node: &Node) {
    let transaction = signed_transaction();
    let body = signed_body();
    asking.post("postTransaction", "/v1/transactions?skipPreflight=true", &body);
    let meta = meta();
    let whole = Simulation {
        slot: CONFIRMED,
        err: None,
        logs: vec!["Program log: words".to_owned()],
        units_consumed: 150,
        return_data: meta.return_data,
        inner_instructions: meta.inner_instructions,
        post_accounts: vec![(OTHER_WALLET, with_data(PROGRAM, &[1, 2]))],
        fee: 5_000,
        pre_balances: meta.pre_balances,
        post_balances: meta.post_balances,
        pre_token_balances: token_balances(),
        post_token_balances: token_balances(),
        loaded_addresses: meta.loaded_addresses,
        loaded_accounts_data_size: 500,
        replacement_blockhash: Some((Hash::new_from_array([7; 32]), 151)),
    };
    let failed = Simulation {
        err: meta.status.err(),
        return_data: None,
        inner_instructions: None,
        replacement_blockhash: None,
        fee: 0,
        ..whole.clone()
    };
    let addresses = json!([OTHER_WALLET.to_string(), MISSING_ACCOUNT.to_string()]);
    for (done, body) in [
        (whole, json!({ "transaction": transaction, "accounts": addresses })),
        (failed.clone(), json!({ "transaction": transaction, "accounts": addresses })),
        (failed, body),
    ] {
        *node.world.transaction_service.simulation.lock() = Ok(done);
        asking.post("simulateTransaction", "/v1/transactions/simulate?commitment=processed", &body);
    }
    // A transaction with an invalid signature is not executed.
    let mut wrong = BASE64_STANDARD.decode(&transaction).expect("base64");
    wrong[1] ^= 1;
    let body = json!({ "transaction": BASE64_STANDARD.encode(wrong) });
    asking.post("simulateTransaction", "/v1/transactions/simulate?sigVerify=true", &body);
}
