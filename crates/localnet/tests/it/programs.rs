//! The programs of genesis, and calls that do not reach a program. The transactions in base64 are those of the review
//! that found the differences from Agave, byte for byte. The payer's key is 32 bytes of 1.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use chain_solana::{Simulation, SimulationRequest};
use ledger::Commitment;
use localnet::{Config, GenesisAccount, GenesisLoader, GenesisProgram};
use solana_account::{AccountSharedData, ReadableAccount};
use solana_instruction::error::InstructionError;
use solana_instruction::{AccountMeta, Instruction};
use solana_keypair::Keypair;
use solana_loader_v3_interface::get_program_data_address;
use solana_pubkey::Pubkey;
use solana_sdk_ids::{
    bpf_loader, bpf_loader_upgradeable, compute_budget, loader_v4, native_loader,
};
use solana_signer::Signer;
use solana_system_interface::instruction::transfer;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_error::TransactionError;
use spl_generic_token::{associated_token_account, token};

use crate::fixture::{Node, on_demand, signed};

const SOL: u64 = 1_000_000_000;

/// One call of a program that does not exist.
const CALL_OF_NOTHING: &str = "AXZYa0Perq30xOLkow/y8NaosnAlgCZWkOWBXHxU/jjYoA9hkBCsY6JbPehmeLjENyM2n6bAKaxKzn23GiTt7QoBAAECiojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1wHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAQEAAQE=";
/// A limit of 1,000 bytes, and one call of the token program.
const CALL_PAST_ITS_LIMIT: &str = "AbQI6mqAOtkr2dIv39X797RvhA02SvI6iHhIZIDomSTtS+47cvnIxmg7j3T6DYBvd3h0WiP5DVEzyUrlDkZ71gIBAAMEiojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1wDBkZv5SEXMv/srbpyw5vnvIzlu8X3EmssQ5s6QAAAAAabiFf+q4GE+2h/Y0YYwDXaxDncGus7VZig8AAAAAABBt324ddloZPZy+FGzut5rBy0he1fWzeROoz1hX7/AKkAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAIBAAUE6AMAAAMBAgEV";
/// A call of the token program whose payer does not exist.
const CALL_WITHOUT_PAYER: &str = "AYtKhWa84SBPOwC1VWEwmiczQRvGk8nbyQwursEA7hlifp00a20C0BDLGUxJE5DMWUYm6Tk7tryPzlk1mDeNhwoBAAIDp/bfr484uJuozmSbWU+R5NAf3Ff5yUk99DteUKmYc2cGm4hX/quBhPtof2NGGMA12sQ53BrrO1WYoPAAAAAAAQbd9uHXZaGT2cvhRs7reawctIXtX1s3kTqM9YV+/wCpAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABAgEBARU=";
/// The memo "test".
const MEMO: &str = "AZnjgk46hxj7GEyVmRDaMlEsE+l4vLCzzRSWs92uloIKbgNyDwYB4IsF7U6lG9grJZNqmaAZ1R/iX3RM1HZdWgkBAAECiojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1wFSlNamSkhBk0k6HFg2jh8fDW13bySu4HkH6hAQQVEjQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAQEABHRlc3Q=";

fn payer() -> Keypair {
    Keypair::new_from_array([1; 32])
}

fn from_text(text: &str) -> VersionedTransaction {
    let bytes = BASE64.decode(text).expect("base64");
    wincode::deserialize(&bytes).expect("a transaction")
}

/// A node whose payer has 1 SOL, as in the review.
fn node() -> Node {
    let node = Node::start(&on_demand());
    node.airdrop(&payer().pubkey(), SOL);
    node
}

fn simulate(node: &Node, transaction: VersionedTransaction) -> Simulation {
    let view = node.reader.view(Commitment::Confirmed);
    let request =
        SimulationRequest { transaction, replace_recent_blockhash: true, inner_instructions: true };
    node.simulator.simulate(&view, request).expect("a simulation")
}

/// Signs the same message on the newest blockhash.
fn sent(
    node: &Node,
    mut transaction: VersionedTransaction,
) -> std::sync::Arc<chain_solana::ExecutedTransaction> {
    transaction.message.set_recent_blockhash(node.blockhash());
    let signed = VersionedTransaction::try_new(transaction.message, &[&payer()]);
    node.send(signed.expect("signers fit"))
}

fn call(program_id: Pubkey) -> Instruction {
    Instruction { program_id, accounts: Vec::new(), data: vec![1] }
}

fn budget(data: Vec<u8>) -> Instruction {
    Instruction { program_id: compute_budget::ID, accounts: Vec::new(), data }
}

fn limit(bytes: u32) -> Instruction {
    budget([&[4][..], &bytes.to_le_bytes()].concat())
}

fn by_payer(instructions: &[Instruction]) -> VersionedTransaction {
    signed(instructions, &[&payer()], &solana_hash::Hash::default())
}

#[test]
fn a_call_of_an_absent_program_fails_with_that_error_and_pays() {
    let node = node();
    let result = simulate(&node, from_text(CALL_OF_NOTHING));
    assert_eq!(result.err, Some(TransactionError::ProgramAccountNotFound));
    assert_eq!((result.fee, result.units_consumed), (5_000, 0));
    // Only the payer was loaded, and nothing ran.
    assert_eq!(result.loaded_accounts_data_size, 64);
    assert!(result.logs.is_empty() && result.inner_instructions.is_none());

    let executed = sent(&node, from_text(CALL_OF_NOTHING));
    assert_eq!(executed.meta.status, Err(TransactionError::ProgramAccountNotFound));
    assert_eq!(node.lamports(&payer().pubkey()), SOL - 5_000);

    // The address of the loader of builtin programs has no account.
    let result = simulate(&node, by_payer(&[call(native_loader::ID)]));
    assert_eq!(result.err, Some(TransactionError::ProgramAccountNotFound));
    // A call of an account that no loader owns is another error.
    let result = simulate(&node, by_payer(&[call(node.faucet_pubkey)]));
    assert_eq!(result.err, Some(TransactionError::InvalidProgramForExecution));
    node.stop();
}

#[test]
fn a_call_of_code_that_is_not_deployed_starts_and_fails_in_instruction_order() {
    let owned_by = |owner: Pubkey, n: u8| {
        let account = AccountSharedData::new(SOL, 100, &owner);
        GenesisAccount { address: Pubkey::new_from_array([n; 32]), account }
    };
    let accounts = vec![
        owned_by(bpf_loader_upgradeable::ID, 11),
        owned_by(bpf_loader::ID, 12),
        owned_by(loader_v4::ID, 13),
    ];
    let mut undeployed: Vec<Pubkey> = accounts.iter().map(|account| account.address).collect();
    undeployed.push(get_program_data_address(&token::ID));
    let node = Node::start(&Config { accounts, ..on_demand() });
    node.airdrop(&payer().pubkey(), SOL);

    let unsupported = InstructionError::UnsupportedProgramId;
    let unsupported = TransactionError::InstructionError(1, unsupported);
    let pay = || transfer(&payer().pubkey(), &payer().pubkey(), 1);
    for key in undeployed {
        let before = node.account(&key).expect("the account");
        let result = simulate(&node, by_payer(&[pay(), call(key)]));
        assert_eq!(result.err, Some(unsupported.clone()), "{key}");
        let logs = [
            "Program 11111111111111111111111111111111 invoke [1]".to_owned(),
            "Program 11111111111111111111111111111111 success".to_owned(),
            format!("Program {key} invoke [1]"),
            "Program is not deployed".to_owned(),
            format!("Program {key} failed: Unsupported program id"),
        ];
        assert_eq!(result.logs, logs, "{key}");
        let executed = sent(&node, by_payer(&[pay(), call(key)]));
        assert_eq!(executed.meta.status, Err(unsupported.clone()), "{key}");
        assert_eq!(executed.meta.log_messages.as_deref(), Some(&logs[..]), "{key}");
        // The called account is unchanged, in the state and in the result.
        assert_eq!(node.account(&key).map(|after| after.0.clone()), Some(before.0.clone()));
        let result = simulate(&node, by_payer(&[pay(), call(key)]));
        let seen = result.post_accounts.iter().find(|(seen, _)| *seen == key);
        assert!(seen.is_some_and(|(_, account)| !account.executable()));
    }
    // The program of that code account still runs.
    let result = simulate(&node, by_payer(&[call(token::ID)]));
    assert!(result.logs.iter().any(|line| line.contains("consumed")), "{:?}", result.logs);
    node.stop();
}

#[test]
fn the_limit_of_loaded_bytes_includes_a_programs_code() {
    let node = node();
    let result = simulate(&node, from_text(CALL_PAST_ITS_LIMIT));
    assert_eq!(result.err, Some(TransactionError::MaxLoadedAccountsDataSizeExceeded));
    // The size is at most the limit.
    assert_eq!((result.loaded_accounts_data_size, result.fee), (1_000, 5_000));
    assert!(result.logs.is_empty() && result.inner_instructions.is_none());
    let executed = sent(&node, from_text(CALL_PAST_ITS_LIMIT));
    let exceeded = Err(TransactionError::MaxLoadedAccountsDataSizeExceeded);
    assert_eq!(executed.meta.status, exceeded);
    assert_eq!(node.lamports(&payer().pubkey()), SOL - 5_000);

    // The size under a high limit is the lowest limit that suffices, to the byte.
    for program in [token::ID, associated_token_account::ID] {
        let within = |bytes| simulate(&node, by_payer(&[limit(bytes), call(program)]));
        let size = within(1 << 20).loaded_accounts_data_size;
        let code = node.account(&get_program_data_address(&program));
        let code = code.map_or(0, |code| 64 + code.0.data().len());
        let named = [payer().pubkey(), compute_budget::ID, program];
        let named = named.iter().map(|key| 64 + node.account(key).map_or(0, |a| a.0.data().len()));
        assert_eq!(size as usize, named.sum::<usize>() + code);
        let loads = |bytes| {
            !matches!(within(bytes).err, Some(TransactionError::MaxLoadedAccountsDataSizeExceeded))
        };
        assert!(loads(size) && !loads(size - 1));
    }
    node.stop();
}

#[test]
fn code_counts_once_however_often_it_is_named() {
    let node = node();
    let code = get_program_data_address(&token::ID);
    let size = |accounts: Vec<AccountMeta>| {
        let result = simulate(&node, by_payer(&[Instruction { accounts, ..call(token::ID) }]));
        result.loaded_accounts_data_size
    };
    let once = size(Vec::new());
    let readonly = |key| AccountMeta::new_readonly(key, false);
    assert_eq!(size(vec![readonly(code)]), once);
    assert_eq!(size(vec![readonly(code), readonly(token::ID)]), once);
    node.stop();
}

#[test]
fn a_transaction_that_is_never_loaded_has_no_size_and_no_fee() {
    let node = node();
    let result = simulate(&node, from_text(CALL_WITHOUT_PAYER));
    assert_eq!(result.err, Some(TransactionError::AccountNotFound));
    assert_eq!((result.loaded_accounts_data_size, result.fee), (0, 0));

    let none = |node: &Node, transaction, err: TransactionError| {
        let result = simulate(node, transaction);
        assert_eq!(result.err, Some(err.clone()));
        assert_eq!((result.loaded_accounts_data_size, result.fee), (0, 0), "{err:?}");
    };
    let signed_by = |key: &Keypair, instructions: &[Instruction]| {
        signed(instructions, &[key], &solana_hash::Hash::default())
    };
    let poor = Keypair::new();
    node.airdrop(&poor.pubkey(), 890_880);
    let rent = TransactionError::InsufficientFundsForRent { account_index: 0 };
    none(&node, signed_by(&poor, &[call(token::ID)]), rent);
    let dear = [budget([&[3][..], &(1u64 << 60).to_le_bytes()].concat()), call(token::ID)];
    none(&node, signed_by(&poor, &dear), TransactionError::InsufficientFundsForFee);
    // The same if the program does not exist: the payer is checked first.
    let nothing = Pubkey::new_from_array([7; 32]);
    none(
        &node,
        signed_by(&poor, &[call(nothing)]),
        TransactionError::InsufficientFundsForRent { account_index: 0 },
    );
    none(&node, signed_by(&Keypair::new(), &[call(nothing)]), TransactionError::AccountNotFound);

    let bad =
        |index| TransactionError::InstructionError(index, InstructionError::InvalidInstructionData);
    none(&node, by_payer(&[budget(vec![1, 1, 0, 0, 0]), call(token::ID)]), bad(0));
    none(
        &node,
        by_payer(&[limit(0), call(token::ID)]),
        TransactionError::InvalidLoadedAccountsDataSizeLimit,
    );
    let many = (0..128).map(|_| AccountMeta::new_readonly(Pubkey::new_unique(), false)).collect();
    for program_id in [token::ID, nothing] {
        let call = Instruction { accounts: Vec::clone(&many), ..call(program_id) };
        none(&node, by_payer(&[call]), TransactionError::TooManyAccountLocks);
    }
    // The wallet of another program cannot pay at all.
    let owned = Keypair::new();
    let account = AccountSharedData::new(SOL, 0, &token::ID);
    let accounts = vec![GenesisAccount { address: owned.pubkey(), account }];
    node.stop();
    let node = Node::start(&Config { accounts, ..on_demand() });
    none(&node, signed_by(&owned, &[call(token::ID)]), TransactionError::InvalidAccountForFee);
    node.stop();
}

#[test]
fn the_memo_program_is_that_of_its_address() {
    let node = node();
    let result = simulate(&node, from_text(MEMO));
    let memo = "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr";
    let logs = [
        format!("Program {memo} invoke [1]"),
        "Program log: Memo (len 4): \"test\"".to_owned(),
        format!("Program {memo} consumed 2862 of 200000 compute units"),
        format!("Program {memo} success"),
    ];
    assert_eq!((result.err, result.units_consumed), (None, 2_862));
    assert_eq!(result.logs, logs);
    node.stop();
}

/// A row of the table in docs/programs.md.
struct Row {
    address: Pubkey,
    loader: Pubkey,
    bytes: usize,
    sha256: String,
}

fn documented() -> Vec<Row> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/programs.md");
    let text = std::fs::read_to_string(path).expect("docs/programs.md");
    let (programs, _) = text.split_once("## Features").expect("a chapter of features");
    let rows = programs.lines().filter(|line| line.starts_with("| `"));
    rows.map(|line| {
        let cells: Vec<&str> = line.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        let [_, address, _, _, loader, bytes, sha256, _] = cells[..] else {
            panic!("not a row of programs: {line}");
        };
        Row {
            address: address.parse().expect("an address"),
            loader: match loader {
                "v2" => bpf_loader::ID,
                "v3" => bpf_loader_upgradeable::ID,
                other => panic!("no loader {other}"),
            },
            bytes: bytes.replace(',', "").parse().expect("a size"),
            sha256: sha256.to_owned(),
        }
    })
    .collect()
}

#[test]
fn genesis_has_exactly_the_programs_of_the_docs_byte_for_byte() {
    let node = Node::start(&on_demand());
    let documented = documented();
    for Row { address, loader, bytes, sha256 } in &documented {
        let program = node.account(address).unwrap_or_else(|| panic!("{address} does not exist"));
        assert_eq!((program.0.owner(), program.0.executable()), (loader, true), "{address}");
        assert_eq!(program.0.rent_epoch(), u64::MAX, "{address}");
        let elf = if *loader == bpf_loader_upgradeable::ID {
            let code = get_program_data_address(address);
            let code = node.account(&code).unwrap_or_else(|| panic!("{address} has no code"));
            assert_eq!((code.0.owner(), code.0.rent_epoch()), (loader, u64::MAX), "{address}");
            // Program data of slot 0, with the authority of 32 zeroes.
            let mut head = [0; 45];
            (head[0], head[12]) = (3, 1);
            assert_eq!(code.0.data()[..45], head, "{address}");
            code.0.data()[45..].to_vec()
        } else {
            program.0.data().to_vec()
        };
        assert_eq!(elf.len(), *bytes, "{address}");
        assert_eq!(hex(solana_sha256_hasher::hash(&elf).as_ref()), *sha256, "{address}");
    }
    let view = node.reader.view(Commitment::Confirmed);
    let is_program =
        |account: &AccountSharedData| account.executable() && account.owner() != &native_loader::ID;
    let there = view.all().filter(|(_, account)| is_program(&account.0)).count();
    assert_eq!((there, documented.len()), (10, 10));
    node.stop();
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn every_program_of_genesis_can_be_called() {
    let node = node();
    for Row { address, .. } in documented() {
        let result = simulate(&node, by_payer(&[call(address)]));
        let ran =
            result.logs.iter().any(|line| line.starts_with(&format!("Program {address} consumed")));
        assert!(ran, "{address}: {:?} {:?}", result.err, result.logs);
    }
    node.stop();
}

#[test]
fn a_program_of_the_configuration_is_stored_as_by_test_validator() {
    let memo = documented()[4].address;
    let memo = solana_program_binaries::by_id(&memo, &Default::default()).expect("a program");
    let elf = memo[1].1.data()[45..].to_vec();
    let authority = Pubkey::new_from_array([5; 32]);
    let loaders = [GenesisLoader::Final, GenesisLoader::Upgradeable(authority)];
    let programs: Vec<_> = loaders
        .iter()
        .zip([21u8, 22])
        .map(|(loader, n)| GenesisProgram {
            program_id: Pubkey::new_from_array([n; 32]),
            elf: elf.clone(),
            loader: *loader,
        })
        .collect();
    let node = Node::start(&Config { programs: programs.clone(), ..on_demand() });
    node.airdrop(&payer().pubkey(), SOL);
    for (program, authority) in programs.iter().zip([Pubkey::default(), authority]) {
        let account = node.account(&program.program_id).expect("the program");
        assert_eq!((account.0.executable(), account.0.data().len()), (true, 36));
        let code = node.account(&get_program_data_address(&program.program_id)).expect("its code");
        assert_eq!(code.0.data()[..13], [3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(code.0.data()[13..45], authority.to_bytes());
        assert_eq!(code.0.data()[45..], elf);
        let result = simulate(&node, by_payer(&[call(program.program_id)]));
        assert!(result.logs.iter().any(|line| line.contains("invoke [1]")), "{:?}", result.logs);
        assert!(result.units_consumed > 0);
    }
    node.stop();
}
