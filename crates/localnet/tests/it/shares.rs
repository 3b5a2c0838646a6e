//! A hostile client alongside an honest one: floods of cheat codes, and calls of programs that are not compiled.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chain_solana::{
    ControlCommand, ForkControl, LedgerControl, MINE_MAX, ResetScope, TimeTarget,
    VerifiedTransaction,
};
use clients::ClientId;
use localnet::{Config, GenesisAccount, GenesisLoader, GenesisProgram};
use solana_account::AccountSharedData;
use solana_instruction::Instruction;
use solana_keypair::Keypair;
use solana_program_runtime::solana_sbpf::ebpf;
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use solana_system_interface::instruction::transfer;

use crate::elf;
use crate::fixture::{CLIENT, Node, on_demand, signed};

const HOSTILE: ClientId = ClientId(2);
const SOL: u64 = 1_000_000_000;
/// Calls of the hostile client that wait all the time.
const FLOOD_CALLS: usize = 24;

/// Returns a wallet that a reset leaves as it was, and its account.
fn funded_wallet() -> (Keypair, GenesisAccount) {
    let wallet = Keypair::new();
    let account = AccountSharedData::new(100 * SOL, 0, &solana_sdk_ids::system_program::ID);
    let address = wallet.pubkey();
    (wallet, GenesisAccount { address, account })
}

/// Runs an honest client that sends transfers, while a hostile one always has calls in the queue.
fn send_transfers_alongside(
    flood: impl Fn(&dyn LedgerControl, &dyn ForkControl, u64) -> Box<dyn FnOnce()> + Send + 'static,
) {
    let (wallet, account) = funded_wallet();
    let node = Node::start(&Config { accounts: vec![account], ..Config::default() });
    let has_ended = Arc::new(AtomicBool::new(false));
    let hostile = std::thread::spawn({
        let has_ended = Arc::clone(&has_ended);
        let control = Arc::clone(&node.control);
        let forks = Arc::clone(&node.forks);
        move || {
            let mut waiting = VecDeque::new();
            for round in 1.. {
                waiting.push_back(flood(&*control, &*forks, round));
                if waiting.len() >= FLOOD_CALLS
                    && let Some(wait) = waiting.pop_front()
                {
                    wait();
                }
                if has_ended.load(Ordering::Relaxed) {
                    break;
                }
            }
            waiting.into_iter().for_each(|wait| wait());
        }
    });
    while node.queue.stats().calls.waiting.iter().sum::<usize>() < FLOOD_CALLS / 2 {
        std::thread::yield_now();
    }
    for lamports in 1..=3 {
        let pay = [transfer(&wallet.pubkey(), &wallet.pubkey(), lamports)];
        let transaction = signed(&pay, &[&wallet], &node.blockhash());
        let verified = VerifiedTransaction::verify(transaction).expect("a good transaction");
        let signature = verified.signature();
        node.transaction_sender.send(CLIENT.into(), verified).expect("the queue has space");
        node.executed(&signature);
    }
    has_ended.store(true, Ordering::Relaxed);
    hostile.join().expect("the flood ends");
    node.stop();
}

#[test]
fn a_flood_of_mined_blocks_does_not_stop_transfers() {
    send_transfers_alongside(|_, forks, _| {
        let call = forks.mine(HOSTILE, MINE_MAX);
        Box::new(move || drop(call.wait()))
    });
}

#[test]
fn a_flood_of_time_travel_does_not_stop_transfers() {
    send_transfers_alongside(|control, _, round| {
        let target = TimeTarget::Slot(10_000 + 100 * round);
        let call = control.control(HOSTILE, ControlCommand::Travel(target));
        Box::new(move || drop(call.map(|call| call.wait())))
    });
}

#[test]
fn a_flood_of_resets_does_not_stop_transfers() {
    send_transfers_alongside(|control, _, _| {
        let call = control.control(HOSTILE, ControlCommand::Reset(ResetScope::All));
        Box::new(move || drop(call.map(|call| call.wait())))
    });
}

#[test]
fn a_call_pays_for_compiling_its_program_once() {
    let (wallet, account) = funded_wallet();
    let program_id = Pubkey::new_from_array([21; 32]);
    let mut code = vec![elf::insn(ebpf::MOV64_IMM, 0, 0, 0, 0)];
    code.resize(10_000, code[0].clone());
    code.push(elf::exit());
    let file = elf::file(&code);
    let file_bytes = file.len() as u64;
    let program = GenesisProgram { program_id, elf: file, loader: GenesisLoader::Final };
    let config = Config { accounts: vec![account], programs: vec![program], ..on_demand() };
    let node = Node::start(&config);
    let call = |data: u8| {
        let call = Instruction { program_id, accounts: Vec::new(), data: vec![data] };
        let executed = node.send(signed(&[call], &[&wallet], &node.blockhash()));
        assert_eq!(executed.meta.status, Ok(()));
    };
    call(1);
    let units = node.queue.stats().code_surcharge_units;
    assert!((5 * file_bytes..6 * file_bytes).contains(&units), "{units} for {file_bytes} bytes");
    call(2);
    assert_eq!(node.queue.stats().code_surcharge_units, units);
    node.stop();
}

#[test]
fn calls_that_compile_delay_another_client_by_few_of_them() {
    const PROGRAMS: u8 = 16;
    const CALLS_BEFORE_MAX: usize = 4;
    let (hostile, hostile_account) = funded_wallet();
    let (wallet, account) = funded_wallet();
    // It returns at once, and compiling the rest takes some milliseconds.
    let unused = elf::insn(ebpf::MOV64_IMM, 0, 0, 0, 0);
    let mut code = vec![unused.clone(), elf::exit()];
    code.resize(250_000, unused);
    code.push(elf::exit());
    let file = elf::file(&code);
    let ids: Vec<Pubkey> = (0..PROGRAMS).map(|n| Pubkey::new_from_array([100 + n; 32])).collect();
    let program = |program_id: &Pubkey| GenesisProgram {
        program_id: *program_id,
        elf: file.clone(),
        loader: GenesisLoader::Final,
    };
    let config = Config {
        accounts: vec![hostile_account, account],
        programs: ids.iter().map(program).collect(),
        ..on_demand()
    };
    let node = Node::start(&config);
    let blockhash = node.blockhash();
    let sign = |instruction: Instruction, payer: &Keypair| {
        let transaction = signed(&[instruction], &[payer], &blockhash);
        VerifiedTransaction::verify(transaction).expect("a good transaction")
    };
    let call = |program_id: &Pubkey| {
        let call = Instruction { program_id: *program_id, accounts: Vec::new(), data: Vec::new() };
        sign(call, &hostile)
    };
    let calls: Vec<VerifiedTransaction> = ids.iter().map(call).collect();
    let payment = sign(transfer(&wallet.pubkey(), &wallet.pubkey(), 1), &wallet);
    let signature = payment.signature();
    for call in calls {
        node.transaction_sender.send(HOSTILE.into(), call).expect("the queue has space");
    }
    node.drop_events();
    node.transaction_sender.send(CLIENT.into(), payment).expect("the queue has space");
    let calls_before = node.count_executed_before(&signature);
    assert!(calls_before <= CALLS_BEFORE_MAX, "{calls_before} of {PROGRAMS}");
    assert!(node.queue.stats().code_surcharge_units > 0);
    node.stop();
}
