//! Token balances of a transaction: only if it names a token program, as in Agave.

use chain_solana::SimulationRequest;
use solana_account::AccountSharedData;
use solana_instruction::{AccountMeta, Instruction};
use solana_keypair::Keypair;
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use solana_system_interface::instruction::transfer;

use crate::control;
use crate::fixture::{Node, on_demand, signed};

const SOL: u64 = 1_000_000_000;

/// Initialized accounts of a mint without decimals, and of a holder of it.
fn token_accounts(mint: Pubkey, owner: Pubkey, program: Pubkey) -> [AccountSharedData; 2] {
    let mut mint_data = vec![0; 82];
    mint_data[45] = 1;
    let mut holder_data = vec![0; 165];
    holder_data[..32].copy_from_slice(mint.as_array());
    holder_data[32..64].copy_from_slice(owner.as_array());
    holder_data[64] = 7;
    holder_data[108] = 1;
    [mint_data, holder_data].map(|data| {
        let mut account = AccountSharedData::new(SOL, 0, &program);
        account.set_data_from_slice(&data);
        account
    })
}

/// The balances before and after, of the execution and of a simulation.
fn balances(node: &Node, payer: &Keypair, instruction: Instruction) -> [usize; 4] {
    let transaction = signed(&[instruction], &[payer], &node.blockhash());
    let request = SimulationRequest {
        transaction: transaction.clone(),
        replace_recent_blockhash: false,
        inner_instructions: false,
    };
    let view = node.reader.view(ledger::Commitment::Confirmed);
    let simulation = node.simulator.simulate(&view, request).expect("it runs");
    let meta = &node.send(transaction).meta;
    let len = |balances: &Option<Vec<_>>| balances.as_ref().map_or(0, Vec::len);
    [
        len(&meta.pre_token_balances),
        len(&meta.post_token_balances),
        simulation.pre_token_balances.len(),
        simulation.post_token_balances.len(),
    ]
}

#[test]
fn a_transaction_without_a_token_program_has_no_token_balances() {
    let node = Node::start(&on_demand());
    let payer = Keypair::new();
    node.airdrop(&payer.pubkey(), 10 * SOL);
    for program in spl_generic_token::spl_token_ids() {
        let mint = Pubkey::new_unique();
        let holder = Pubkey::new_unique();
        let [mint_account, holder_account] = token_accounts(mint, payer.pubkey(), program);
        let accounts = vec![(mint, mint_account), (holder, holder_account)];
        control::set(&node, accounts).expect("they are written");
        let mut pay = transfer(&payer.pubkey(), &holder, 1);
        assert_eq!(balances(&node, &payer, pay.clone()), [0; 4]);
        // The program needs not be called.
        pay.accounts.push(AccountMeta::new_readonly(program, false));
        assert_eq!(balances(&node, &payer, pay), [1; 4]);
    }
    node.stop();
}
