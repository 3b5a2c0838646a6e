//! Values of the types of Agave's crates, each with all members and with as few as possible. All members are
//! written out, so that a new member must be added here, and then to the schema.

use serde::Serialize;
use serde_json::{Value, json};
use solana_account_decoder_client_types::token::{
    TokenAccountType, UiAccountState, UiExtension, UiMemoTransfer, UiMint, UiMultisig,
    UiTokenAccount, UiTokenAmount,
};
use solana_account_decoder_client_types::{
    ParsedAccount as ParsedData, UiAccount, UiAccountData, UiAccountEncoding,
};
use solana_epoch_schedule::EpochSchedule;
use solana_message::MessageHeader;
use solana_rpc_client_types::response::{
    ParsedInstruction, RewardType, RpcBlockhash, RpcConfirmedTransactionStatusWithSignature,
    RpcContactInfo, RpcKeyedAccount, RpcSimulateTransactionResult, RpcSupply,
};
use solana_transaction::versioned::TransactionVersion;
use solana_transaction_error::TransactionError;
use solana_transaction_status::option_serializer::OptionSerializer;
use solana_transaction_status::parse_accounts::{ParsedAccount, ParsedAccountSource};
use solana_transaction_status::{
    EncodedConfirmedTransactionWithStatusMeta, EncodedTransaction,
    EncodedTransactionWithStatusMeta, Reward, TransactionBinaryEncoding,
    TransactionConfirmationStatus, TransactionStatus, UiAccountsList, UiAddressTableLookup,
    UiCompiledInstruction, UiConfirmedBlock, UiInnerInstructions, UiInstruction, UiLoadedAddresses,
    UiMessage, UiParsedInstruction, UiParsedMessage, UiPartiallyDecodedInstruction, UiRawMessage,
    UiReturnDataEncoding, UiTransaction, UiTransactionReturnData, UiTransactionStatusMeta,
    UiTransactionTokenBalance,
};
use solana_transaction_status_client_types::{UiTransactionConfig, UiTransactionError};

use super::schema_checker::SchemaChecker;
use crate::history;
use testkit::sample_ledger::{MINT, PROGRAM, WALLET};

/// Checks every type against its schema.
pub(super) fn check(judge: &mut SchemaChecker) {
    accounts(judge);
    transactions(judge);
    errors(judge);
    node(judge);
    verification(judge);
    filters(judge);
}

/// Filters of requests.
fn filters(judge: &mut SchemaChecker) {
    let memcmp = json!({ "offset": 0, "bytes": "3", "encoding": "base58" });
    for filter in
        [json!({ "dataSize": 165 }), json!({ "memcmp": memcmp }), json!("tokenAccountState")]
    {
        judge.check("AccountFilter", &filter);
    }
}

/// The value of `hydrantGetVerification`. A test of `rpc_solana` has its shape, too.
fn verification(judge: &mut SchemaChecker) {
    let hash = MINT.to_string();
    let bank = |known: Value, votes: Value, level: Value| {
        let count = if known.is_null() { Value::Null } else { json!(3) };
        let components = json!({
            "accounts": "voted", "transactions": "counted", "signatures": "proven",
            "status": "compared", "balances": "compared", "logs": "source", "rewards": "source",
        });
        json!({
            "slot": 5, "parentSlot": 4, "bankHash": known, "parentBankHash": known,
            "signatureCount": count, "blockhash": hash, "ltHashChecksum": known, "level": level,
            "votes": votes, "components": components,
        })
    };
    let votes = json!({ "slot": 6, "votedStake": 67, "totalStake": 100 });
    let source = |newest: Value, disagreement: Value| {
        json!({
            "url": "http://source", "isConnected": true, "newestSlot": newest,
            "disagreements": 1, "firstDisagreement": disagreement,
        })
    };
    let disagreement = json!({ "slot": 7, "reportedHash": hash });
    let fault = json!({ "check": "balance", "index": 1, "account": WALLET.to_string() });
    let execution = |limit: Value, difference: Value, skip: Value| {
        json!({
            "transactionsPerSecond": limit, "equalBanks": 1, "differingBanks": 2,
            "partialBanks": 3, "skippedBanks": 4, "executedTransactions": 5,
            "skippedTransactions": 6, "firstDifference": difference, "lastSkip": skip,
        })
    };
    let difference = |index: Value, signature: Value, account: Value| {
        json!({
            "slot": 5, "field": "inner_instructions", "index": index, "signature": signature,
            "account": account,
        })
    };
    let signature = json!("1".repeat(64));
    let of_transaction = difference(json!(1), signature, Value::Null);
    let of_bank = difference(Value::Null, Value::Null, json!(WALLET.to_string()));
    for execution in [
        execution(json!(500), of_transaction, json!("text")),
        execution(Value::Null, of_bank, Value::Null),
        execution(Value::Null, Value::Null, Value::Null),
    ] {
        let executed = json!({
            "requiredLevel": null, "verifiedSlot": null, "mismatchedBanks": 0, "repairs": 0,
            "firstMismatch": null, "sources": [], "limitation": null, "trustRoot": null,
            "execution": execution, "bank": null,
        });
        judge.check("Verification", &executed);
    }
    for (reporter, fault) in [
        ("child", Value::Null),
        ("sources", Value::Null),
        ("votes", Value::Null),
        ("transactions", fault),
        ("transactions", json!({ "check": "missing_entries", "index": null, "account": null })),
    ] {
        let all = json!({
            "requiredLevel": "voted", "verifiedSlot": 5, "mismatchedBanks": 1, "repairs": 1,
            "firstMismatch": {
                "slot": 5, "computedHash": hash, "reportedHash": hash, "reporter": reporter,
                "accountsWritten": [WALLET.to_string()], "accountsWrittenCount": 1,
                "fault": fault,
            },
            "sources": [source(json!(5), disagreement.clone()), source(json!(null), json!(null))],
            "limitation": "text",
            "trustRoot": "text",
            "execution": null,
            "bank": bank(json!(hash), votes.clone(), json!("voted")),
        });
        judge.check("Verification", &all);
    }
    for (required, bank) in
        [(json!(null), bank(json!(null), json!(null), json!(null))), (json!("agreed"), json!(null))]
    {
        let few = json!({
            "requiredLevel": required, "verifiedSlot": null, "mismatchedBanks": 0, "repairs": 0,
            "firstMismatch": null, "sources": [], "limitation": null, "trustRoot": null,
            "execution": null, "bank": bank,
        });
        judge.check("Verification", &few);
    }
}

/// Every error of a transaction, those that are strings included.
fn errors(judge: &mut SchemaChecker) {
    let of_instruction = |err: Value| json!({ "InstructionError": [255, err] });
    let mut all = vec![
        of_instruction(json!({ "Custom": u32::MAX })),
        json!({ "DuplicateInstruction": 1 }),
        json!({ "InsufficientFundsForRent": { "account_index": 2 } }),
        json!({ "ProgramExecutionTemporarilyRestricted": { "account_index": 3 } }),
    ];
    let words = |name: &str| judge.words(&format!("{name}/oneOf/0")).into_iter().map(Value::from);
    all.extend(words("TransactionError"));
    all.extend(words("InstructionError").map(of_instruction));
    for value in all {
        let err: TransactionError = serde_json::from_value(value.clone()).expect("an error");
        assert_eq!(json(UiTransactionError::from(err.clone())), value);
        check_value(judge, "TransactionError", err);
    }
}

fn check_value(judge: &mut SchemaChecker, name: &str, value: impl Serialize) {
    judge.check(name, &json(value));
}

fn json(value: impl Serialize) -> Value {
    serde_json::to_value(value).expect("JSON")
}

fn address() -> String {
    WALLET.to_string()
}

fn signature() -> String {
    history::signature(5, 7).to_string()
}

fn failed_error() -> TransactionError {
    let err = json!({ "InstructionError": [3, { "Custom": 6_000 }] });
    serde_json::from_value(err).expect("an error")
}

fn amount() -> UiTokenAmount {
    UiTokenAmount {
        ui_amount: Some(1.5),
        decimals: 1,
        amount: "15".to_owned(),
        ui_amount_string: "1.5".to_owned(),
    }
}

fn account(data: UiAccountData) -> UiAccount {
    UiAccount {
        lamports: u64::MAX,
        data,
        owner: PROGRAM.to_string(),
        executable: true,
        rent_epoch: u64::MAX,
        space: Some(4),
    }
}

fn binary() -> UiAccount {
    account(UiAccountData::Binary("AAAA".to_owned(), UiAccountEncoding::Base64))
}

fn parsed_account(program: &str, parsed: Value) -> UiAccount {
    account(UiAccountData::Json(ParsedData { program: program.to_owned(), parsed, space: 4 }))
}

fn accounts(judge: &mut SchemaChecker) {
    check_value(judge, "Amount", amount());
    check_value(judge, "Amount", UiTokenAmount { ui_amount: None, ..amount() });
    let encodings =
        [UiAccountEncoding::Base58, UiAccountEncoding::Base64, UiAccountEncoding::Base64Zstd];
    for encoding in encodings {
        check_value(judge, "Account", account(UiAccountData::Binary("AAAA".to_owned(), encoding)));
    }
    check_value(judge, "Account", parsed_account("nonce", json!({ "type": "uninitialized" })));
    check_value(
        judge,
        "Account",
        parsed_account("sysvar", json!({ "type": "clock", "info": { "slot": 5 } })),
    );
    let extensions = || {
        let state = UiMemoTransfer { require_incoming_transfer_memos: true };
        vec![UiExtension::ImmutableOwner, UiExtension::MemoTransfer(state)]
    };
    let token = || UiTokenAccount {
        mint: address(),
        owner: address(),
        token_amount: amount(),
        delegate: None,
        state: UiAccountState::Frozen,
        is_native: false,
        rent_exempt_reserve: None,
        delegated_amount: None,
        close_authority: None,
        extensions: Vec::new(),
    };
    let mint = || UiMint {
        mint_authority: None,
        supply: "5".to_owned(),
        decimals: 9,
        is_initialized: true,
        freeze_authority: None,
        extensions: Vec::new(),
    };
    let multisig = UiMultisig {
        num_required_signers: 1,
        num_valid_signers: 2,
        is_initialized: true,
        signers: vec![address(), address()],
    };
    for kind in [
        TokenAccountType::Account(token()),
        TokenAccountType::Account(UiTokenAccount {
            delegate: Some(address()),
            rent_exempt_reserve: Some(amount()),
            delegated_amount: Some(amount()),
            close_authority: Some(address()),
            extensions: extensions(),
            ..token()
        }),
        TokenAccountType::Mint(mint()),
        TokenAccountType::Mint(UiMint {
            mint_authority: Some(address()),
            freeze_authority: Some(address()),
            extensions: extensions(),
            ..mint()
        }),
        TokenAccountType::Multisig(multisig),
    ] {
        check_value(judge, "Account", parsed_account("spl-token-2022", json(kind)));
    }
    check_value(judge, "Accounts", [Some(binary()), None]);
    let keyed = RpcKeyedAccount { pubkey: address(), account: binary() };
    for key in [None, Some("3")] {
        check_value(
            judge,
            "AccountsPage",
            json!({ "accounts": [json(&keyed)], "paginationKey": key }),
        );
    }
}

fn compiled_instruction() -> UiInstruction {
    UiInstruction::Compiled(UiCompiledInstruction {
        program_id_index: 255,
        accounts: vec![0, 255],
        data: "3Bxs".to_owned(),
        stack_height: None,
    })
}

fn parsed_instructions() -> Vec<UiInstruction> {
    let words = |program: &str, parsed, stack_height| {
        let instruction = ParsedInstruction {
            program: program.to_owned(),
            program_id: address(),
            parsed,
            stack_height,
        };
        UiInstruction::Parsed(UiParsedInstruction::Parsed(instruction))
    };
    let unknown = |stack_height| {
        UiInstruction::Parsed(UiParsedInstruction::PartiallyDecoded(
            UiPartiallyDecodedInstruction {
                program_id: address(),
                accounts: vec![address()],
                data: String::new(),
                stack_height,
            },
        ))
    };
    vec![
        words("spl-memo", json!("words"), Some(1)),
        words("system", json!({ "type": "transfer", "info": { "lamports": 5 } }), Some(2)),
        words("stake", json!({ "type": "deactivate" }), None),
        unknown(Some(2)),
        unknown(None),
    ]
}

fn inner() -> Vec<UiInnerInstructions> {
    let of = |index, instructions| UiInnerInstructions { index, instructions };
    vec![of(0, vec![compiled_instruction()]), of(1, parsed_instructions())]
}

fn balances() -> Vec<UiTransactionTokenBalance> {
    let of = |owner, program_id| UiTransactionTokenBalance {
        account_index: 3,
        mint: MINT.to_string(),
        ui_token_amount: amount(),
        owner,
        program_id,
    };
    vec![
        of(OptionSerializer::Some(address()), OptionSerializer::Some(address())),
        of(OptionSerializer::Skip, OptionSerializer::Skip),
    ]
}

fn rewards() -> Vec<Reward> {
    let all = Reward {
        pubkey: address(),
        lamports: -5,
        post_balance: 5,
        reward_type: Some(RewardType::DeactivatedStake),
        commission: Some(100),
        commission_bps: Some(10_000),
    };
    let none = Reward { reward_type: None, commission: None, commission_bps: None, ..all.clone() };
    vec![all, none]
}

fn loaded_addresses() -> UiLoadedAddresses {
    UiLoadedAddresses { writable: vec![address()], readonly: vec![address()] }
}

fn return_data() -> UiTransactionReturnData {
    UiTransactionReturnData {
        program_id: address(),
        data: ("AAAA".to_owned(), UiReturnDataEncoding::Base64),
    }
}

/// Metadata with all members, with null for unknown values, and without optional members.
fn metas() -> [UiTransactionStatusMeta; 3] {
    use OptionSerializer::{None as Null, Skip, Some as Is};
    let whole = UiTransactionStatusMeta {
        err: Some(failed_error().into()),
        status: Err(failed_error().into()),
        fee: 5_000,
        pre_balances: vec![u64::MAX],
        post_balances: vec![0],
        inner_instructions: Is(inner()),
        log_messages: Is(vec!["Program log".to_owned()]),
        pre_token_balances: Is(balances()),
        post_token_balances: Is(balances()),
        rewards: Is(rewards()),
        loaded_addresses: Is(loaded_addresses()),
        return_data: Is(return_data()),
        compute_units_consumed: Is(5),
        cost_units: Is(6),
    };
    let unknown = UiTransactionStatusMeta {
        err: None,
        status: Ok(()),
        inner_instructions: Null,
        log_messages: Null,
        pre_token_balances: Null,
        post_token_balances: Null,
        rewards: Null,
        ..whole.clone()
    };
    let least = UiTransactionStatusMeta {
        inner_instructions: Skip,
        log_messages: Skip,
        rewards: Skip,
        loaded_addresses: Skip,
        return_data: Skip,
        compute_units_consumed: Skip,
        cost_units: Skip,
        ..unknown.clone()
    };
    [whole, unknown, least]
}

/// A transaction in the form of each encoding.
fn bodies() -> Vec<EncodedTransaction> {
    let lookups = || {
        vec![UiAddressTableLookup {
            account_key: address(),
            writable_indexes: vec![0],
            readonly_indexes: vec![255],
        }]
    };
    let config = |is_set: bool| UiTransactionConfig {
        priority_fee: is_set.then_some(5),
        compute_unit_limit: is_set.then_some(6),
        loaded_accounts_data_size_limit: is_set.then_some(7),
        heap_size: is_set.then_some(8),
    };
    let raw = UiRawMessage {
        header: MessageHeader {
            num_required_signatures: 1,
            num_readonly_signed_accounts: 0,
            num_readonly_unsigned_accounts: 255,
        },
        account_keys: vec![address()],
        recent_blockhash: address(),
        instructions: match compiled_instruction() {
            UiInstruction::Compiled(one) => {
                vec![UiCompiledInstruction { stack_height: Some(1), ..one.clone() }, one]
            }
            UiInstruction::Parsed(_) => Vec::new(),
        },
        address_table_lookups: None,
        transaction_config: None,
    };
    let parsed = UiParsedMessage {
        account_keys: keys(),
        recent_blockhash: address(),
        instructions: parsed_instructions(),
        address_table_lookups: None,
        transaction_config: None,
    };
    let messages = vec![
        UiMessage::Raw(raw.clone()),
        UiMessage::Raw(UiRawMessage { address_table_lookups: Some(lookups()), ..raw.clone() }),
        UiMessage::Raw(UiRawMessage { transaction_config: Some(config(false)), ..raw }),
        UiMessage::Parsed(parsed.clone()),
        UiMessage::Parsed(UiParsedMessage {
            address_table_lookups: Some(lookups()),
            transaction_config: Some(config(true)),
            ..parsed
        }),
    ];
    let json = |message| {
        EncodedTransaction::Json(UiTransaction { signatures: vec![signature()], message })
    };
    let mut all: Vec<_> = messages.into_iter().map(json).collect();
    for encoding in [TransactionBinaryEncoding::Base58, TransactionBinaryEncoding::Base64] {
        all.push(EncodedTransaction::Binary("AAAA".to_owned(), encoding));
    }
    all
}

fn keys() -> Vec<ParsedAccount> {
    let of = |source| ParsedAccount {
        pubkey: address(),
        writable: true,
        signer: false,
        source: Some(source),
    };
    vec![of(ParsedAccountSource::Transaction), of(ParsedAccountSource::LookupTable)]
}

fn transactions(judge: &mut SchemaChecker) {
    let versions = [TransactionVersion::LEGACY, TransactionVersion::Number(0)];
    let mut all = Vec::new();
    for version in versions {
        for meta in metas() {
            for transaction in bodies() {
                all.push(EncodedTransactionWithStatusMeta {
                    transaction,
                    meta: Some(meta.clone()),
                    version: Some(version.clone()),
                });
            }
        }
    }
    for transaction in all.clone() {
        let whole = EncodedConfirmedTransactionWithStatusMeta {
            slot: u64::MAX,
            transaction,
            block_time: Some(-1),
            transaction_index: Some(u32::MAX),
        };
        check_value(judge, "Transaction", whole);
    }
    let [.., least] = metas();
    all.push(EncodedTransactionWithStatusMeta {
        transaction: EncodedTransaction::Accounts(UiAccountsList {
            signatures: vec![signature()],
            account_keys: keys(),
        }),
        meta: Some(least),
        version: Some(TransactionVersion::LEGACY),
    });
    let block = UiConfirmedBlock {
        previous_blockhash: address(),
        blockhash: address(),
        parent_slot: 5,
        transactions: Some(all),
        signatures: Some(vec![signature()]),
        rewards: Some(rewards()),
        num_reward_partitions: Some(3),
        block_time: Some(-1),
        block_height: Some(7),
    };
    check_value(judge, "Block", &block);
    let least = UiConfirmedBlock {
        transactions: None,
        signatures: None,
        rewards: None,
        num_reward_partitions: None,
        ..block
    };
    check_value(judge, "Block", least);
    let status = TransactionStatus {
        slot: 5,
        confirmations: Some(0),
        status: Err(failed_error()),
        err: Some(failed_error()),
        confirmation_status: Some(TransactionConfirmationStatus::Processed),
    };
    check_value(judge, "Status", &status);
    check_value(
        judge,
        "Status",
        TransactionStatus { confirmations: None, status: Ok(()), err: None, ..status },
    );
    let listed = RpcConfirmedTransactionStatusWithSignature {
        signature: signature(),
        slot: 5,
        err: Some(failed_error().into()),
        memo: Some("[5] words".to_owned()),
        block_time: Some(-1),
        confirmation_status: Some(TransactionConfirmationStatus::Confirmed),
        transaction_index: Some(7),
    };
    let least =
        RpcConfirmedTransactionStatusWithSignature { err: None, memo: None, ..listed.clone() };
    let page = json!({ "transactions": [json(listed), json(least)], "paginationKey": signature() });
    check_value(judge, "SignaturesPage", page);
    check_value(judge, "Sent", json!({ "signature": signature() }));
    simulations(judge);
}

fn simulations(judge: &mut SchemaChecker) {
    let whole = RpcSimulateTransactionResult {
        err: Some(failed_error().into()),
        logs: Some(vec!["Program log".to_owned()]),
        accounts: Some(vec![Some(binary()), None]),
        units_consumed: Some(5),
        loaded_accounts_data_size: Some(6),
        return_data: Some(return_data()),
        inner_instructions: Some(inner()),
        replacement_blockhash: Some(RpcBlockhash {
            blockhash: address(),
            last_valid_block_height: 7,
        }),
        fee: Some(8),
        pre_balances: Some(vec![1]),
        post_balances: Some(vec![2]),
        pre_token_balances: Some(balances()),
        post_token_balances: Some(balances()),
        loaded_addresses: Some(loaded_addresses()),
    };
    check_value(judge, "Simulation", &whole);
    let least = RpcSimulateTransactionResult {
        err: None,
        accounts: None,
        return_data: None,
        inner_instructions: None,
        replacement_blockhash: None,
        fee: None,
        pre_balances: None,
        post_balances: None,
        pre_token_balances: None,
        post_token_balances: None,
        ..whole
    };
    check_value(judge, "Simulation", least);
}

fn node(judge: &mut SchemaChecker) {
    let at = || Some("127.0.0.1:8899".parse().expect("an address"));
    let whole = RpcContactInfo {
        pubkey: address(),
        gossip: at(),
        tvu: at(),
        tpu: at(),
        tpu_quic: at(),
        tpu_forwards: at(),
        tpu_forwards_quic: at(),
        tpu_vote: at(),
        serve_repair: at(),
        rpc: at(),
        pubsub: at(),
        version: Some("4.2.2".to_owned()),
        client_id: Some("Hydrant".to_owned()),
        feature_set: Some(u32::MAX),
        shred_version: Some(u16::MAX),
    };
    check_value(judge, "ClusterNode", &whole);
    let least = RpcContactInfo {
        gossip: None,
        tvu: None,
        tpu: None,
        tpu_quic: None,
        tpu_forwards: None,
        tpu_forwards_quic: None,
        tpu_vote: None,
        serve_repair: None,
        rpc: None,
        pubsub: None,
        version: None,
        client_id: None,
        feature_set: None,
        shred_version: None,
        ..whole
    };
    check_value(judge, "ClusterNode", least);
    check_value(judge, "EpochSchedule", EpochSchedule::default());
    check_value(
        judge,
        "Blockhash",
        RpcBlockhash { blockhash: address(), last_valid_block_height: 7 },
    );
    let supply = RpcSupply {
        total: u64::MAX,
        circulating: 5,
        non_circulating: 6,
        non_circulating_accounts: vec![address()],
    };
    check_value(judge, "Supply", supply);
}
