//! Accounts and programs that are loaded, evicted, reverted and loaded again.

use solana_account::WritableAccount;
use solana_clock::Clock;
use solana_hash::Hash;
use solana_instruction::error::InstructionError;
use solana_instruction::{AccountMeta, Instruction};
use solana_keypair::Keypair;
use solana_message::Message;
use solana_signer::Signer;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_error::TransactionError;
use spl_generic_token::{token, token_2022};

use super::eviction::{ELF_BYTES_MAX, ENTRIES_MAX};
use super::*;
use crate::signature_fee::LAMPORTS_PER_SIGNATURE;

type Map = HashMap<Pubkey, AccountSharedData>;

/// Returns the accounts of a new ledger, with the SPL programs. They were deployed one slot earlier.
fn genesis() -> Map {
    let mut vm = Vm::new(FeatureSet::all_enabled());
    let mut clock: Clock = vm.svm().get_sysvar();
    clock.slot += 1;
    vm.svm_mut().set_sysvar(&clock);
    for (key, account) in solana_program_binaries::spl_programs(&vm.svm().get_sysvar()) {
        vm.put_as_data(key, &account);
    }
    vm.accounts().map(|(key, account)| (*key, account.clone())).collect()
}

fn working_set(map: &Map) -> WorkingSet {
    WorkingSet::new(map, FeatureSet::all_enabled())
}

fn wallet(map: &mut Map) -> Keypair {
    let keypair = Keypair::new();
    let account = AccountSharedData::new(1 << 40, 0, &solana_sdk_ids::system_program::ID);
    map.insert(keypair.pubkey(), account);
    keypair
}

fn transfer(from: &Keypair, to: &Pubkey, lamports: u64) -> VersionedTransaction {
    let transfer = solana_system_interface::instruction::transfer(&from.pubkey(), to, lamports);
    sign(transfer, from)
}

fn sign(instruction: Instruction, payer: &Keypair) -> VersionedTransaction {
    let message = Message::new(&[instruction], Some(&payer.pubkey()));
    VersionedTransaction::try_new(VersionedMessage::Legacy(message), &[payer]).expect("signers fit")
}

/// Runs a transaction, and writes its changes to `set` and `map`.
fn execute(set: &mut WorkingSet, map: &mut Map, transaction: &VersionedTransaction) {
    set.load(map, &transaction.message);
    let outcome = set.run(transaction, None, &Hash::default());
    assert_eq!(outcome.result, Ok(()));
    set.commit(outcome.writes());
    for (key, account) in outcome.writes() {
        match account.lamports() {
            0 => map.remove(&key),
            _ => map.insert(key, account.clone()),
        };
    }
}

/// Returns an `InitializeMint2` without a freeze authority. Adds the mint's account to `map`.
fn make_mint(map: &mut Map, program: Pubkey, payer: &Keypair) -> VersionedTransaction {
    let mint = Pubkey::new_unique();
    map.insert(mint, AccountSharedData::new(1 << 30, 82, &program));
    let mut data = vec![20, 6];
    data.extend([7; 32]);
    data.push(0);
    let accounts = vec![AccountMeta::new(mint, false)];
    sign(Instruction { program_id: program, accounts, data }, payer)
}

#[test]
fn accounts_are_loaded_when_named_and_evicted_past_the_bound() {
    let mut map = genesis();
    let payers: Vec<Keypair> = (0..40).map(|_| wallet(&mut map)).collect();
    let mut set = working_set(&map);
    let pinned = set.vm().accounts().count();
    set.plain = ClockCache::new(4_000);
    for round in 0..3 {
        for payer in &payers {
            let to = payers[round].pubkey();
            let lamports = if payer.pubkey() == to { 0 } else { 1_000 };
            execute(&mut set, &mut map, &transfer(payer, &to, lamports));
            let cached = set.vm().accounts().count() - pinned;
            assert!(cached < 20, "{cached} accounts are cached");
        }
    }
    for payer in &payers {
        let account = set.account(&map, &payer.pubkey()).cloned();
        assert_eq!(account.as_ref(), map.get(&payer.pubkey()));
    }
}

#[test]
fn an_account_that_is_closed_and_created_again_is_up_to_date() {
    let mut map = genesis();
    let payer = wallet(&mut map);
    let brief = Keypair::new();
    let mut set = working_set(&map);
    let fee = LAMPORTS_PER_SIGNATURE;
    for _ in 0..3 {
        assert_eq!(set.account(&map, &brief.pubkey()), None);
        execute(&mut set, &mut map, &transfer(&payer, &brief.pubkey(), 1 << 30));
        let back = transfer(&brief, &payer.pubkey(), (1 << 30) - fee);
        execute(&mut set, &mut map, &back);
        assert!(!map.contains_key(&brief.pubkey()));
    }
}

#[test]
fn programs_are_compiled_when_named_and_evicted_past_a_bound() {
    let mut map = genesis();
    let payer = wallet(&mut map);
    let mut set = working_set(&map);
    assert!(set.programs.is_empty());
    for program in [token::id(), token_2022::id()] {
        let transaction = make_mint(&mut map, program, &payer);
        execute(&mut set, &mut map, &transaction);
        assert!(set.programs.contains_key(&program));
    }
    set.elf_bytes += ELF_BYTES_MAX;
    let transaction = make_mint(&mut map, token::id(), &payer);
    execute(&mut set, &mut map, &transaction);
    assert_eq!(set.programs.keys().collect::<Vec<_>>(), [&token::id()]);
}

#[test]
fn a_simulation_sees_programs_as_its_view_has_them() {
    let mut map = genesis();
    let payer = wallet(&mut map);
    let mut set = working_set(&map);
    let transaction = make_mint(&mut map, token_2022::id(), &payer);
    execute(&mut set, &mut map, &transaction);
    let mut simulation = set.clone_programs();
    let run = |simulation: &mut WorkingSet, map: &Map, transaction: &VersionedTransaction| {
        simulation.clear();
        simulation.load(map, &transaction.message);
        simulation.run(transaction, None, &Hash::default()).result
    };
    let transaction = make_mint(&mut map, token_2022::id(), &payer);
    assert_eq!(run(&mut simulation, &map, &transaction), Ok(()));

    // In one view the code is invalid, and in another the program does not exist.
    let mut broken = map.clone();
    let code = program_data_key(&map[&token_2022::id()]).expect("it is upgradeable");
    broken.get_mut(&code).expect("it has code").data_as_mut_slice()[45..].fill(1);
    assert!(run(&mut simulation, &broken, &transaction).is_err());
    let mut without = map.clone();
    without.remove(&token_2022::id());
    assert!(run(&mut simulation, &without, &transaction).is_err());
    assert_eq!(run(&mut simulation, &map, &transaction), Ok(()));

    // Run again after all programs were evicted.
    simulation.elf_bytes += ELF_BYTES_MAX;
    assert_eq!(run(&mut simulation, &map, &transaction), Ok(()));
    assert!(run(&mut simulation, &broken, &transaction).is_err());
}

#[test]
fn reloaded_accounts_equal_the_source() {
    let mut map = genesis();
    let payer = wallet(&mut map);
    let other = wallet(&mut map).pubkey();
    let mut set = working_set(&map);
    let transaction = make_mint(&mut map, token::id(), &payer);
    execute(&mut set, &mut map, &transaction);
    let before = map.clone();
    let new = Keypair::new().pubkey();
    execute(&mut set, &mut map, &transfer(&payer, &new, 1 << 30));
    let mut clock: Clock = set.vm().svm().get_sysvar();
    clock.slot += 5;
    set.vm_mut().svm_mut().set_sysvar(&clock);
    let clock_key = solana_sdk_ids::sysvar::clock::ID;

    let mut source = before.clone();
    set.reload(&source, [payer.pubkey(), new, other, clock_key].iter());
    for key in [payer.pubkey(), new, other] {
        assert_eq!(set.account(&source, &key), before.get(&key));
    }
    assert_eq!(set.vm().slot(), clock.slot - 5);
    assert!(set.programs.contains_key(&token::id()), "no program was written");
    execute(&mut set, &mut source, &transfer(&payer, &new, 1 << 30));

    // The program was not deployed in the state to which the source reverts.
    let code = program_data_key(&before[&token::id()]).expect("it is upgradeable");
    source.remove(&token::id());
    set.reload(&source, [token::id(), code].iter());
    assert!(set.programs.is_empty());
    let transaction = make_mint(&mut source, token::id(), &payer);
    set.load(&source, &transaction.message);
    assert!(set.run(&transaction, None, &Hash::default()).result.is_err());
    // And deployed again.
    source.insert(token::id(), before[&token::id()].clone());
    set.reload(&source, [token::id()].iter());
    execute(&mut set, &mut source, &transaction);
}

#[test]
fn undeployed_addresses_are_evicted_past_the_program_bound() {
    let mut map = genesis();
    let payer = wallet(&mut map);
    let mut set = working_set(&map);
    let owner = solana_sdk_ids::bpf_loader_upgradeable::ID;
    let unsupported = InstructionError::UnsupportedProgramId;
    let unsupported = Err(TransactionError::InstructionError(0, unsupported));
    for _ in 0..ENTRIES_MAX + 10 {
        let program_id = Pubkey::new_unique();
        map.insert(program_id, AccountSharedData::new(1, 0, &owner));
        let call = Instruction { program_id, accounts: Vec::new(), data: Vec::new() };
        let transaction = sign(call, &payer);
        set.load(&map, &transaction.message);
        assert_eq!(set.run(&transaction, None, &Hash::default()).result, unsupported);
        assert_eq!(set.account(&map, &program_id), map.get(&program_id));
    }
    assert!(set.closed.len() <= ENTRIES_MAX, "{}", set.closed.len());
}

/// Adds programs with 9 MiB of invalid code each, which takes no time to compile.
fn add_large_programs(map: &mut Map, count: usize) -> Vec<Pubkey> {
    let loader = solana_sdk_ids::bpf_loader::ID;
    let mut program = AccountSharedData::new(1, 9 << 20, &loader);
    program.set_executable(true);
    let programs = (0..count).map(|_| Pubkey::new_unique());
    programs.inspect(|key| drop(map.insert(*key, program.clone()))).collect()
}

#[test]
fn a_program_in_use_outlives_a_flood_of_large_ones() {
    let mut map = genesis();
    let payer = wallet(&mut map);
    let mut set = working_set(&map);
    let in_use = make_mint(&mut map, token::id(), &payer);
    (0..20).for_each(|_| set.load(&map, &in_use.message));
    let large: Vec<VersionedTransaction> = add_large_programs(&mut map, 12)
        .into_iter()
        .map(|program_id| Instruction { program_id, accounts: Vec::new(), data: Vec::new() })
        .map(|call| sign(call, &payer))
        .collect();
    let flood = |set: &mut WorkingSet, rounds: usize| {
        for call in large.iter().cycle().take(rounds * large.len()) {
            set.load(&map, &call.message);
            assert!(set.code_usage().bytes <= ELF_BYTES_MAX + (9 << 20));
        }
    };
    flood(&mut set, 5);
    assert!(set.programs.contains_key(&token::id()));
    // It is no longer in use.
    flood(&mut set, 20);
    assert!(!set.programs.contains_key(&token::id()));
    set.load(&map, &in_use.message);
    assert_eq!(set.run(&in_use, None, &Hash::default()).result, Ok(()));
}

#[test]
fn a_deployment_compiles_its_buffer_and_a_write_to_it_does_not() {
    let mut map = genesis();
    let payer = wallet(&mut map);
    let mut set = working_set(&map);
    let loader = bpf_loader_upgradeable::ID;
    let buffer = Pubkey::new_unique();
    map.insert(buffer, AccountSharedData::new(1, 5_000, &loader));
    let mut code_bytes = |program_id, tag: u32, accounts: &[Pubkey]| {
        let accounts = accounts.iter().map(|key| AccountMeta::new(*key, false)).collect();
        let data = tag.to_le_bytes().to_vec();
        let message = sign(Instruction { program_id, accounts, data }, &payer).message;
        set.load_without_code(&map, std::iter::once(&message));
        set.deployed_code_bytes(&message)
    };
    let [write, deploy, upgrade] = [1, 2, 3];
    assert_eq!(code_bytes(loader, write, &[buffer]), 0);
    assert_eq!(code_bytes(loader, deploy, &[buffer]), 5_000);
    assert_eq!(code_bytes(loader, upgrade, &[buffer]), 5_000);
    // Another program may call the loader if the transaction names it.
    assert_eq!(code_bytes(token::id(), write, &[buffer, loader]), 5_000);
    assert_eq!(code_bytes(token::id(), write, &[buffer]), 0);
}

#[test]
fn an_evicted_program_that_was_absent_before_is_loaded_again() {
    let mut map = genesis();
    let payer = wallet(&mut map);
    let program = token::id();
    let deployed = map.remove(&program).expect("a program");
    let mut set = working_set(&map);
    assert_eq!(set.account(&map, &program), None);
    set.commit([(program, &deployed)].into_iter());
    map.insert(program, deployed);
    let large = add_large_programs(&mut map, 8);
    for program_id in large.into_iter().cycle().take(80) {
        let call = Instruction { program_id, accounts: Vec::new(), data: Vec::new() };
        set.load(&map, &sign(call, &payer).message);
    }
    assert!(!set.programs.contains_key(&program));
    let transaction = make_mint(&mut map, program, &payer);
    execute(&mut set, &mut map, &transaction);
}

#[test]
fn a_transaction_with_too_much_code_has_none_of_it_compiled() {
    let mut map = genesis();
    let payer = wallet(&mut map);
    let mut set = working_set(&map);
    let programs = add_large_programs(&mut map, 8);
    let accounts = programs.iter().map(|key| AccountMeta::new_readonly(*key, false)).collect();
    let call = sign(Instruction { program_id: programs[0], accounts, data: Vec::new() }, &payer);
    let before = set.code_usage().compiled_bytes;
    let code_bytes = set.load_without_code(&map, std::iter::once(&call.message));
    assert_eq!(code_bytes, 8 * (9 << 20));
    set.load(&map, &call.message);
    let exceeded = Err(TransactionError::MaxLoadedAccountsDataSizeExceeded);
    assert_eq!(set.run(&call, None, &Hash::default()).result, exceeded);
    assert_eq!(set.code_usage().compiled_bytes, before);
    // One of them alone is compiled when it is called.
    let program_id = programs[3];
    let call = Instruction { program_id, accounts: Vec::new(), data: Vec::new() };
    set.load(&map, &sign(call, &payer).message);
    assert_eq!(set.code_usage().compiled_bytes, before + (9 << 20));
}

#[test]
fn a_program_is_not_called_in_the_slot_in_which_it_was_deployed() {
    let mut map = genesis();
    let payer = wallet(&mut map);
    let program = token_2022::id();
    let deployed = map.remove(&program).expect("a program");
    let code = program_data_key(&deployed).expect("it is upgradeable");
    let mut program_data = map.remove(&code).expect("it has code");
    let mut set = working_set(&map);
    let slot = set.vm().slot();
    program_data.data_as_mut_slice()[4..12].copy_from_slice(&slot.to_le_bytes());

    // It was looked up before it existed.
    assert_eq!(set.account(&map, &program), None);
    set.commit([(program, &deployed), (code, &program_data)].into_iter());
    map.extend([(program, deployed), (code, program_data)]);

    let transaction = make_mint(&mut map, program, &payer);
    let run = |set: &mut WorkingSet, map: &Map| {
        set.load(map, &transaction.message);
        set.run(&transaction, None, &Hash::default()).result
    };
    let unsupported = InstructionError::UnsupportedProgramId;
    let not_yet = Err(TransactionError::InstructionError(0, unsupported));
    let mut simulation = set.clone_programs();
    assert_eq!(run(&mut set, &map), not_yet);
    assert_eq!(run(&mut simulation, &map), not_yet);

    let mut clock: Clock = set.vm().svm().get_sysvar();
    clock.slot += 1;
    simulation.clear();
    for set in [&mut set, &mut simulation] {
        set.vm_mut().svm_mut().set_sysvar(&clock);
        assert_eq!(run(set, &map), Ok(()));
    }
}
