//! Chosen features: which are active, what they permit to programs and transactions, and that they stay.

use ledger::{Address, Commitment};
use localnet::{
    Config, FeatureBase, FeatureChoice, FeatureError, GenesisAccount, GenesisError, GenesisLoader,
    GenesisProgram, LocalnetError,
};
use solana_account::{AccountSharedData, ReadableAccount};
use solana_feature_set as features;
use solana_instruction::error::InstructionError;
use solana_instruction::{AccountMeta, Instruction};
use solana_keypair::Keypair;
use solana_loader_v3_interface::instruction::deploy_with_max_program_len;
use solana_loader_v3_interface::state::UpgradeableLoaderState;
use solana_program_runtime::solana_sbpf::ebpf::{self, Insn};
use solana_pubkey::Pubkey;
use solana_sdk_ids::bpf_loader_upgradeable;
use solana_signer::Signer;
use solana_system_interface::instruction::transfer;
use solana_transaction_error::TransactionError;

use crate::elf::{exit, file, heap_into, insn, syscall};
use crate::fixture::{Node, on_demand, signed};

const SOL: u64 = 1_000_000_000;
/// Features that Agave 4.2.2 knows.
const KNOWN: usize = 285;
/// Features of mainnet.
const MAINNET: usize = 242;

fn with(base: FeatureBase) -> Config {
    let features = FeatureChoice { base: Some(base), deactivated: Vec::new() };
    Config { features, ..on_demand() }
}

fn feature_accounts(node: &Node) -> usize {
    let view = node.reader.view(Commitment::Confirmed);
    let owner = solana_sdk_ids::feature::ID;
    view.all().filter(|(_, account)| *account.0.owner() == owner).count()
}

#[test]
fn a_new_ledger_has_every_feature_but_alpenglow_with_their_accounts() {
    let node = Node::start(&on_demand());
    assert_eq!(feature_accounts(&node), KNOWN - 1);
    assert_eq!(node.cluster_info.features.active().len(), KNOWN - 1);
    assert!(node.account(&features::alpenglow::ID).is_none());
    let account = node.account(&features::enable_sha512_syscall::ID).expect("a feature's account");
    assert_eq!(account.0.data(), [1, 0, 0, 0, 0, 0, 0, 0, 0]);
    // The same for every ledger of the release.
    assert_eq!(node.cluster_info.feature_set, 565_236_538);
    node.stop();

    let node = Node::start(&with(FeatureBase::Mainnet));
    assert_eq!(feature_accounts(&node), MAINNET);
    assert!(node.account(&features::enable_sha512_syscall::ID).is_none());
    assert_eq!(node.cluster_info.feature_set, 565_236_538);
    node.stop();
}

#[test]
fn a_deactivated_feature_is_inactive_and_has_no_account() {
    let without = features::enable_sha512_syscall::ID;
    let unknown = Pubkey::new_from_array([3; 32]);
    let choice = FeatureChoice { base: None, deactivated: vec![without, unknown] };
    let node = Node::start(&Config { features: choice, ..on_demand() });
    assert_eq!(feature_accounts(&node), KNOWN - 2);
    assert!(node.account(&without).is_none());
    assert!(!node.cluster_info.features.is_active(&without));
    node.stop();
}

#[test]
fn a_ledger_has_the_features_with_which_it_was_created() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let in_directory =
        |features| Config { dir: Some(dir.path().join("ledger")), features, ..on_demand() };
    let mainnet = FeatureChoice { base: Some(FeatureBase::Mainnet), deactivated: Vec::new() };
    Node::start(&in_directory(mainnet.clone())).stop();

    // Without a choice, or with the same choice, it opens.
    for choice in [FeatureChoice::default(), mainnet] {
        let node = Node::start(&in_directory(choice));
        assert_eq!(feature_accounts(&node), MAINNET);
        assert_eq!(node.cluster_info.features.active().len(), MAINNET);
        node.stop();
    }
    let refusal = |choice| match localnet::open(&in_directory(choice)) {
        Err(LocalnetError::Features(err)) => err,
        Err(err) => panic!("another error: {err}"),
        Ok(_) => panic!("the ledger was opened"),
    };
    let all = FeatureChoice { base: Some(FeatureBase::All), deactivated: Vec::new() };
    let err = refusal(all);
    assert!(matches!(err, FeatureError::Inactive(_)), "{err}");
    assert!(err.to_string().contains("--reset"), "{err}");
    let active = features::enable_sbpf_v3_deployment_and_execution::ID;
    let without = FeatureChoice { base: None, deactivated: vec![active] };
    assert_eq!(refusal(without), FeatureError::Active(active));
    // A feature that it does not have may be left out.
    let absent = FeatureChoice { base: None, deactivated: vec![features::enable_tx_v1::ID] };
    Node::start(&in_directory(absent)).stop();
}

/// Runs a program of genesis without input, and returns its result.
fn call(config: &Config, code: &[Insn]) -> Result<(), TransactionError> {
    let program_id = Pubkey::new_from_array([9; 32]);
    let program = GenesisProgram { program_id, elf: file(code), loader: GenesisLoader::Final };
    let node = Node::start(&Config { programs: vec![program], ..config.clone() });
    let payer = Keypair::new();
    node.airdrop(&payer.pubkey(), SOL);
    let call = Instruction { program_id, accounts: Vec::new(), data: Vec::new() };
    let executed = node.send(signed(&[call], &[&payer], &node.blockhash()));
    node.stop();
    executed.meta.status.clone()
}

fn custom(code: u32) -> Result<(), TransactionError> {
    Err(TransactionError::InstructionError(0, InstructionError::Custom(code)))
}

/// A program whose result is the first four bytes of the hash of empty input.
fn hash_of_nothing(name: &str) -> Vec<Insn> {
    let mut code = heap_into(6).to_vec();
    code.extend([
        insn(ebpf::MOV64_REG, 1, 6, 0, 0),
        insn(ebpf::MOV64_IMM, 2, 0, 0, 0),
        insn(ebpf::MOV64_REG, 3, 6, 0, 0),
        syscall(name),
        insn(ebpf::LD_W_REG, 0, 6, 0, 0),
        exit(),
    ]);
    code
}

#[test]
fn syscalls_of_features_run_where_the_features_are_active() {
    let mainnet = |code: &[Insn]| call(&with(FeatureBase::Mainnet), code);
    let all = |code: &[Insn]| call(&on_demand(), code);
    let unknown =
        Err(TransactionError::InstructionError(0, InstructionError::ProgramFailedToComplete));
    for (code, result) in [
        (hash_of_nothing("sol_blake3"), custom(0xb949_13af)),
        (hash_of_nothing("sol_sha512"), custom(0x35e1_83cf)),
        // Agave 4.2.2 itself only returns an error: SIMD-0529 is not implemented.
        (vec![syscall("sol_big_mod_exp"), exit()], custom(1)),
    ] {
        assert_eq!(all(&code), result);
        assert_eq!(mainnet(&code), unknown);
    }
    let remaining = [syscall("sol_remaining_compute_units"), exit()];
    let left = all(&remaining);
    let Err(TransactionError::InstructionError(0, InstructionError::Custom(left))) = left else {
        panic!("no units are left: {left:?}");
    };
    assert!((199_000..200_000).contains(&left), "{left}");
    assert_eq!(mainnet(&remaining), unknown);
    // Both have this syscall, which shows that the feature decides.
    assert_eq!(mainnet(&hash_of_nothing("sol_sha256")), custom(0x42c4_b0e3));
}

/// Simulates a transfer that names `count` accounts: payer, receiver, the system program, and accounts that do not
/// exist.
fn names_accounts(
    count: usize,
    payer: &Keypair,
    to: &Pubkey,
    node: &Node,
) -> Option<TransactionError> {
    let mut pay = transfer(&payer.pubkey(), to, 1_000_000);
    let others = (0..count - 3).map(|_| AccountMeta::new_readonly(Pubkey::new_unique(), false));
    pay.accounts.extend(others);
    let view = node.reader.view(Commitment::Confirmed);
    let request = chain_solana::SimulationRequest {
        transaction: signed(&[pay], &[payer], &node.blockhash()),
        replace_recent_blockhash: false,
        inner_instructions: false,
    };
    node.simulator.simulate(&view, request).expect("a simulation").err
}

#[test]
fn a_transaction_may_name_as_many_accounts_as_the_features_allow() {
    let too_many = Some(TransactionError::TooManyAccountLocks);
    for (base, most) in [(FeatureBase::All, 128), (FeatureBase::Mainnet, 64)] {
        let node = Node::start(&with(base));
        let payer = Keypair::new();
        let to = Keypair::new().pubkey();
        node.airdrop(&payer.pubkey(), SOL);
        assert_eq!(names_accounts(most, &payer, &to, &node), None);
        assert_eq!(names_accounts(most + 1, &payer, &to, &node), too_many);
        node.stop();
    }
}

/// The ELF file of a program of version 0.
fn memo() -> Vec<u8> {
    let memo = "Memo4c2pN8afCj432Lb7RMVKi9PbQnnW7ewFFaV3oAH".parse().expect("a pubkey");
    let accounts = solana_program_binaries::by_id(&memo, &Default::default());
    let accounts = accounts.expect("the program exists");
    accounts[1].1.data()[45..].to_vec()
}

/// Returns the file with one symbol renamed.
fn with_symbol(from: &str, to: &str) -> Vec<u8> {
    let mut elf = memo();
    let name = format!("{from}\0");
    let at = elf.windows(name.len()).position(|window| window == name.as_bytes());
    let at = at.expect("the symbol exists");
    elf[at..at + from.len()].fill(0);
    elf[at..at + to.len()].copy_from_slice(to.as_bytes());
    elf
}

/// A ledger with a program of this file.
fn with_program(config: &Config, elf: &[u8]) -> Config {
    let program_id = Pubkey::new_from_array([9; 32]);
    let loader = GenesisLoader::Final;
    let programs = vec![GenesisProgram { program_id, elf: elf.to_vec(), loader }];
    Config { programs, ..config.clone() }
}

#[test]
fn a_program_that_only_a_deployment_refuses_is_in_a_new_ledger() {
    let check = |config: &Config, elf: &[u8]| {
        let config = with_program(config, elf);
        localnet::check(&config, &mut std::iter::empty()).expect("calls can be executed");
        let faults = localnet::program_faults(&config);
        assert!(faults.iter().all(|fault| fault.is_loadable), "{faults:?}");
        faults.into_iter().map(|fault| fault.reason).collect::<Vec<_>>()
    };
    assert_eq!(check(&on_demand(), &memo()), Vec::<String>::new());
    let bogus = check(&on_demand(), &with_symbol("sol_log_pubkey", "sol_bogus"));
    let [reason] = bogus.as_slice() else { panic!("{bogus:?}") };
    assert!(reason.contains("Unresolved symbol (sol_bogus)"), "{reason}");
    // A feature's symbol is known where the feature is active.
    let blake3 = with_symbol("sol_log_pubkey", "sol_blake3");
    assert!(check(&on_demand(), &blake3).is_empty());
    let reasons = check(&with(FeatureBase::Mainnet), &blake3);
    assert!(reasons[0].contains("sol_blake3"), "{reasons:?}");
}

#[test]
fn a_program_that_no_call_could_execute_is_refused_unless_it_is_not_verified() {
    let config = with_program(&on_demand(), b"no ELF file");
    let faults = localnet::program_faults(&config);
    assert!(faults.len() == 1 && !faults[0].is_loadable, "{faults:?}");
    let err = localnet::open(&config).err().expect("it is refused");
    assert!(matches!(err, LocalnetError::Genesis(GenesisError::Program { .. })), "{err}");

    let node = Node::start(&Config { verifies_programs: false, ..config });
    let payer = Keypair::new();
    node.airdrop(&payer.pubkey(), SOL);
    let program_id = faults[0].program_id;
    let call = Instruction { program_id, accounts: Vec::new(), data: Vec::new() };
    let executed = node.send(signed(&[call], &[&payer], &node.blockhash()));
    let err = TransactionError::InstructionError(0, InstructionError::UnsupportedProgramId);
    assert_eq!(executed.meta.status, Err(err));
    node.stop();
}

/// Deploys a program from a buffer of genesis, and calls it in the next slot if that succeeded.
fn deploy(
    features: FeatureChoice,
    elf: &[u8],
) -> std::sync::Arc<chain_solana::ExecutedTransaction> {
    let payer = Keypair::new();
    let program = Keypair::new();
    let buffer = Pubkey::new_from_array([4; 32]);
    let state = UpgradeableLoaderState::Buffer { authority_address: Some(payer.pubkey()) };
    let mut data = bincode::serialize(&state).expect("a buffer");
    data.extend_from_slice(elf);
    let mut account = AccountSharedData::new(SOL, data.len(), &bpf_loader_upgradeable::ID);
    account.set_data_from_slice(&data);
    let accounts = vec![GenesisAccount { address: buffer, account }];
    let node = Node::start(&Config { features, accounts, ..on_demand() });
    node.airdrop(&payer.pubkey(), 10 * SOL);
    let instructions = deploy_with_max_program_len(
        &payer.pubkey(),
        &program.pubkey(),
        &buffer,
        &payer.pubkey(),
        SOL,
        elf.len(),
        true,
    );
    let instructions = instructions.expect("instructions");
    let executed = node.send(signed(&instructions, &[&payer, &program], &node.blockhash()));
    if executed.meta.status.is_ok() {
        let call = Instruction { program_id: program.pubkey(), accounts: vec![], data: vec![] };
        let called = node.send(signed(&[call], &[&payer], &node.blockhash()));
        assert_eq!(called.meta.status, Ok(()));
    }
    node.stop();
    executed
}

#[test]
fn the_features_decide_which_programs_may_be_deployed() {
    let choice = |base, deactivated| FeatureChoice { base: Some(base), deactivated };
    let all = || choice(FeatureBase::All, Vec::new());
    let mainnet = || choice(FeatureBase::Mainnet, Vec::new());
    let older_too = choice(FeatureBase::All, vec![features::disable_sbpf_v0_v1_v2_deployment::ID]);
    let returns_zero = file(&[insn(ebpf::MOV64_IMM, 0, 0, 0, 0), exit()]);
    for (features, elf) in [
        (all(), &returns_zero),
        (mainnet(), &returns_zero),
        (mainnet(), &memo()),
        (older_too.clone(), &memo()),
        (older_too, &with_symbol("sol_log_pubkey", "sol_blake3")),
    ] {
        assert_eq!(deploy(features, elf).meta.status, Ok(()));
    }
    for (features, elf, line) in [
        (all(), memo(), "Detected sbpf_version required by the executable which are not enabled"),
        (mainnet(), with_symbol("sol_log_pubkey", "sol_blake3"), "Unresolved symbol (sol_blake3)"),
    ] {
        let refused = deploy(features, &elf);
        let err = TransactionError::InstructionError(1, InstructionError::InvalidAccountData);
        assert_eq!(refused.meta.status, Err(err));
        let logs = refused.meta.log_messages.clone().unwrap_or_default();
        assert!(logs.iter().any(|logged| logged.contains(line)), "{logs:?}");
    }
}

#[test]
fn a_version_1_message_is_refused_where_its_feature_is_not_active() {
    for (base, is_accepted) in [(FeatureBase::All, true), (FeatureBase::Mainnet, false)] {
        let node = Node::start(&with(base));
        let payer = Keypair::new();
        node.airdrop(&payer.pubkey(), SOL);
        let message = solana_message::v1::Message::try_compile_with_config(
            &payer.pubkey(),
            &[transfer(&payer.pubkey(), &payer.pubkey(), 1)],
            node.blockhash(),
            solana_message::v1::TransactionConfig {
                compute_unit_limit: Some(10_000),
                loaded_accounts_data_size_limit: Some(10_000),
                ..Default::default()
            },
        );
        let message = solana_message::VersionedMessage::V1(message.expect("a message"));
        let transaction =
            solana_transaction::versioned::VersionedTransaction::try_new(message, &[&payer]);
        let request = chain_solana::SimulationRequest {
            transaction: transaction.expect("signers fit"),
            replace_recent_blockhash: false,
            inner_instructions: false,
        };
        let view = node.reader.view(Commitment::Confirmed);
        let result = node.simulator.simulate(&view, request).expect("a simulation");
        let refused = (!is_accepted).then_some(TransactionError::UnsupportedVersion);
        assert_eq!(result.err, refused);
        assert_eq!(result.fee, if is_accepted { 5_000 } else { 0 });
        node.stop();
    }
}

#[test]
fn a_snapshots_features_are_those_of_its_accounts() {
    let sample = crate::from_snapshot::sample();
    let view = sample.into_view().expect("the ledger has space");
    let is_feature = |key: &Pubkey| view.record(&Address::from(key.to_bytes())).is_some();
    let present: Vec<Pubkey> = features::FEATURE_NAMES.keys().copied().filter(is_feature).collect();
    assert!(!present.is_empty());
    let config = on_demand();
    let localnet = localnet::open_snapshot(&config, crate::from_snapshot::sample());
    let active = localnet.expect("the ledger is made").cluster_info().features.clone();
    assert!(present.iter().all(|key| active.is_active(key)));
    // A feature that is active in the snapshot cannot be left out.
    let features = FeatureChoice { base: None, deactivated: vec![present[0]] };
    let refused =
        localnet::open_snapshot(&Config { features, ..config }, crate::from_snapshot::sample());
    assert!(matches!(refused.err(), Some(LocalnetError::Features(FeatureError::Active(_)))));
}
