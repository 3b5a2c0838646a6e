//! Signatures that the ledger checks itself: valid ones, wrong ones, and after a restart.

use chain_solana::SimulationRequest;
use ledger::Commitment;
use localnet::Config;
use solana_account::ReadableAccount;
use solana_instruction::Instruction;
use solana_instruction::error::InstructionError;
use solana_keypair::Keypair;
use solana_sdk_ids::{ed25519_program, native_loader, secp256k1_program, secp256r1_program};
use solana_signer::Signer;
use solana_system_interface::instruction::{advance_nonce_account, create_nonce_account};
use solana_transaction_error::TransactionError;

use crate::fixture::{Node, on_demand, signed};

const SOL: u64 = 1_000_000_000;
pub(crate) const MESSAGE: &[u8] = b"what was signed";

/// One signature of [`MESSAGE`], its key and `message`, all in the instruction itself.
pub(crate) fn ed25519(message: &[u8]) -> Instruction {
    let signer = Keypair::new();
    let own = u16::MAX;
    let offsets = [16, own, 80, own, 112, message.len() as u16, own];
    let mut data = vec![1, 0];
    data.extend(offsets.iter().flat_map(|field| field.to_le_bytes()));
    data.extend_from_slice(signer.sign_message(MESSAGE).as_ref());
    data.extend_from_slice(signer.pubkey().as_ref());
    data.extend_from_slice(message);
    Instruction { program_id: ed25519_program::ID, accounts: Vec::new(), data }
}

/// The error of a wrong signature in the instruction at `index`.
fn invalid_signature(index: u8) -> TransactionError {
    TransactionError::InstructionError(index, InstructionError::Custom(2))
}

#[test]
fn a_checked_signature_lands_before_and_after_a_restart() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let config = Config { dir: Some(dir.path().join("ledger")), ..on_demand() };
    let alice = Keypair::new();
    let node = Node::start(&config);
    node.airdrop(&alice.pubkey(), SOL);
    node.stop();

    for config in [&config, &config] {
        let node = Node::start(config);
        for id in [ed25519_program::ID, secp256k1_program::ID, secp256r1_program::ID] {
            let account = node.account(&id).expect("genesis has it");
            assert!(account.0.executable());
            assert_eq!((account.0.lamports(), account.0.data().len()), (1, 0));
            assert_eq!(account.0.owner(), &native_loader::ID);
        }
        let sent = signed(&[ed25519(MESSAGE)], &[&alice], &node.blockhash());
        let view = node.reader.view(Commitment::Confirmed);
        let request = SimulationRequest {
            transaction: sent.clone(),
            replace_recent_blockhash: false,
            inner_instructions: false,
        };
        let simulated = node.simulator.simulate(&view, request).expect("a simulation");
        assert_eq!((simulated.err, simulated.fee), (None, 10_000));
        let executed = node.send(sent);
        assert_eq!(executed.meta.status, Ok(()));
        assert_eq!(executed.meta.fee, 10_000);
        node.stop();
    }
}

#[test]
fn a_wrong_signature_pays_and_its_nonce_advances() {
    let node = Node::start(&on_demand());
    let alice = Keypair::new();
    let nonce = Keypair::new();
    node.airdrop(&alice.pubkey(), 10 * SOL);
    let create = create_nonce_account(&alice.pubkey(), &nonce.pubkey(), &alice.pubkey(), SOL);
    let created = node.send(signed(&create, &[&alice, &nonce], &node.blockhash()));
    assert_eq!(created.meta.status, Ok(()));
    let stored = || {
        let account = node.account(&nonce.pubkey()).expect("the nonce account");
        let bytes = account.0.data()[40..72].try_into().expect("32 bytes of nonce");
        solana_hash::Hash::new_from_array(bytes)
    };
    node.airdrop(&alice.pubkey(), SOL);
    let before = stored();
    let lamports = node.lamports(&alice.pubkey());

    let advance = advance_nonce_account(&nonce.pubkey(), &alice.pubkey());
    let forged = signed(&[advance, ed25519(b"what was never signed")], &[&alice], &before);
    let executed = node.send(forged);
    assert_eq!(executed.meta.status, Err(invalid_signature(1)));
    assert_eq!(node.lamports(&alice.pubkey()), lamports - 10_000);
    assert_ne!(stored(), before);

    let view = node.reader.view(Commitment::Confirmed);
    let request = SimulationRequest {
        transaction: signed(&[ed25519(b"nor was this")], &[&alice], &node.blockhash()),
        replace_recent_blockhash: false,
        inner_instructions: false,
    };
    let simulated = node.simulator.simulate(&view, request).expect("a simulation");
    assert_eq!(simulated.err, Some(invalid_signature(0)));
    node.stop();
}
