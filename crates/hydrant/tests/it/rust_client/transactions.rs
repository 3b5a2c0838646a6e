//! Transactions that are not plain: failing ones, through a lookup table, simulated, with a nonce.

use anyhow::{Context, Result};
use solana_account_decoder_client_types::UiAccountEncoding;
use solana_address_lookup_table_interface::instruction::{
    create_lookup_table, extend_lookup_table,
};
use solana_address_lookup_table_interface::state::AddressLookupTable;
use solana_commitment_config::CommitmentConfig;
use solana_hash::Hash;
use solana_instruction::error::InstructionError;
use solana_keypair::Keypair;
use solana_message::AddressLookupTableAccount;
use solana_pubkey::Pubkey;
use solana_rpc_client_api::client_error::ErrorKind;
use solana_rpc_client_api::config::{
    RpcSimulateTransactionAccountsConfig, RpcSimulateTransactionConfig, RpcTransactionConfig,
};
use solana_rpc_client_api::request::{RpcError, RpcResponseErrorData};
use solana_signer::Signer;
use solana_system_interface::instruction::{advance_nonce_account, create_nonce_account, transfer};
use solana_transaction_error::{TransactionError, TransactionResult};
use solana_transaction_status_client_types::{UiLoadedAddresses, UiTransactionEncoding};
use spl_token_2022_interface::instruction::transfer_checked;

use super::step;
use super::tokens::Token;
use crate::world::{WAIT_TIMEOUT, World, wait_until};

const NONCE_SIZE: usize = 80;
/// Offset of the nonce in a nonce account, after version, state and authority.
const NONCE_OFFSET: usize = 40;

pub(super) fn failing(world: &World, token: &Token) -> Result<()> {
    let payer = world.payer.pubkey();
    let bob = world.bob.pubkey();
    let decoded = TransactionError::InstructionError(0, InstructionError::Custom(1));
    // Bob has 350. A transfer to itself of more than that fails.
    let too_much =
        transfer_checked(&token.program, &token.bob, &token.mint, &token.bob, &bob, &[], 351, 2)?;
    let sign = || {
        world.sign(
            std::slice::from_ref(&too_much),
            &[&world.bob],
            &[],
            world.rpc.get_latest_blockhash()?,
        )
    };

    step("failing: preflight refuses with the decoded error and the logs", || {
        let refused = world.rpc.send_transaction(&sign()?).expect_err("preflight must refuse");
        assert_eq!(refused.get_transaction_error().as_ref(), Some(&decoded));
        let ErrorKind::RpcError(RpcError::RpcResponseError { code, message, data }) =
            refused.kind()
        else {
            anyhow::bail!("not an RPC error: {refused:?}");
        };
        assert_eq!(*code, -32002);
        assert!(message.ends_with("custom program error: 0x1"), "{message}");
        let RpcResponseErrorData::SendTransactionPreflightFailure(simulated) = data else {
            anyhow::bail!("no simulation in {data}");
        };
        let logs = simulated.logs.as_ref().context("no logs")?;
        assert!(logs.iter().any(|line| line.contains("insufficient funds")), "{logs:?}");
        Ok(())
    })?;
    step("failing: without preflight it lands with its error, and the fee is paid", || {
        let before = world.rpc.get_balance(&payer)?;
        let (signature, result) = world.send_unchecked(&sign()?)?;
        assert_eq!(result, Err(decoded.clone()));
        let meta = world
            .transaction(&signature, UiTransactionEncoding::Base64)?
            .transaction
            .meta
            .context("no meta")?;
        assert_eq!(
            (meta.err.map(TransactionError::from), meta.fee),
            (Some(decoded.clone()), 10_000)
        );
        assert_eq!(world.rpc.get_balance(&payer)?, before - 10_000);
        Ok(())
    })?;
    step("failing: a stale blockhash and a wrong signature are refused", || {
        let stale = world.sign(&[transfer(&payer, &bob, 1)], &[], &[], Hash::new_unique())?;
        let refused = world.rpc.send_transaction(&stale).expect_err("stale");
        assert_eq!(refused.get_transaction_error(), Some(TransactionError::BlockhashNotFound));
        let mut forged = sign()?;
        forged.signatures[0] = stale.signatures[0];
        let refused = world.rpc.send_transaction(&forged).expect_err("forged");
        assert_eq!(refused.get_transaction_error(), Some(TransactionError::SignatureFailure));
        Ok(())
    })
}

pub(super) fn send_versioned(world: &World) -> Result<()> {
    let payer = world.payer.pubkey();
    let targets: Vec<Pubkey> = (0..4).map(|_| Keypair::new().pubkey()).collect();
    let table = step("lookup table: create and extend", || {
        let recent = world.rpc.get_slot_with_commitment(CommitmentConfig::finalized())?;
        let (create, table) = create_lookup_table(payer, payer, recent);
        let extend = extend_lookup_table(table, payer, Some(payer), targets.clone());
        let signature = world.send(&[create, extend], &[])?;
        let data = world.rpc.get_account_data(&table)?;
        assert_eq!(AddressLookupTable::deserialize(&data)?.addresses, targets);
        // Addresses can be used from the slot after the one that added them.
        world.slot_after(world.transaction(&signature, UiTransactionEncoding::Base64)?.slot)?;
        Ok(AddressLookupTableAccount { key: table, addresses: targets.clone() })
    })?;
    let signature =
        step("lookup table: a version 0 transaction takes its accounts from it", || {
            let transfers: Vec<_> =
                targets.iter().map(|target| transfer(&payer, target, 1_000_000)).collect();
            let signature = world.send_with(&transfers, &[], &[table])?;
            for target in &targets {
                assert_eq!(world.rpc.get_balance(target)?, 1_000_000);
            }
            Ok(signature)
        })?;
    step("lookup table: history names the loaded addresses, and wants the version allowed", || {
        let landed = world.transaction(&signature, UiTransactionEncoding::Base64)?.transaction;
        let sent = landed.transaction.decode().context("a transaction")?;
        assert_eq!(
            sent.message.address_table_lookups().context("no lookups")?[0].writable_indexes.len(),
            4
        );
        let loaded = landed.meta.context("no meta")?.loaded_addresses;
        let loaded = Option::<UiLoadedAddresses>::from(loaded).context("no loaded addresses")?;
        let UiLoadedAddresses { mut writable, readonly } = loaded;
        let mut named: Vec<_> = targets.iter().map(Pubkey::to_string).collect();
        // The message's compiler puts the indexes into an order of its own.
        writable.sort_unstable();
        named.sort_unstable();
        assert_eq!((writable, readonly), (named, vec![]));
        let config = RpcTransactionConfig {
            commitment: Some(crate::world::CONFIRMED),
            ..RpcTransactionConfig::default()
        };
        let refused = world
            .rpc
            .get_transaction_with_config(&signature, config)
            .expect_err("no version allowed");
        assert!(
            refused.to_string().contains("Transaction version (0) is not supported"),
            "{refused}"
        );
        Ok(())
    })
}

pub(super) fn simulate(world: &World) -> Result<()> {
    let payer = world.payer.pubkey();
    let bob = world.bob.pubkey();
    step("simulate: accounts after, another blockhash, nothing written", || {
        let before = world.rpc.get_balance(&bob)?;
        let transaction =
            world.sign(&[transfer(&payer, &bob, 123)], &[], &[], Hash::new_unique())?;
        let config = RpcSimulateTransactionConfig {
            replace_recent_blockhash: true,
            inner_instructions: true,
            accounts: Some(RpcSimulateTransactionAccountsConfig {
                encoding: Some(UiAccountEncoding::Base64),
                addresses: vec![bob.to_string()],
            }),
            ..RpcSimulateTransactionConfig::default()
        };
        let result = world.rpc.simulate_transaction_with_config(&transaction, config)?.value;
        assert_eq!((result.err, result.units_consumed), (None, Some(150)));
        let accounts = result.accounts.context("no accounts")?;
        assert_eq!(accounts[0].as_ref().map(|account| account.lamports), Some(before + 123));
        assert!(result.replacement_blockhash.is_some() && result.inner_instructions.is_some());
        assert_eq!(world.rpc.get_balance(&bob)?, before);
        let unknown = world.rpc.simulate_transaction(&transaction)?.value;
        assert_eq!(
            unknown.err.map(TransactionError::from),
            Some(TransactionError::BlockhashNotFound)
        );
        Ok(())
    })
}

pub(super) fn on_a_nonce(world: &World) -> Result<()> {
    let payer = world.payer.pubkey();
    let account = Keypair::new();
    let nonce = || -> Result<Hash> {
        let data = world.rpc.get_account_data(&account.pubkey())?;
        let bytes =
            data.get(NONCE_OFFSET..NONCE_OFFSET + 32).context("short of a nonce account")?;
        Ok(Hash::new_from_array(bytes.try_into()?))
    };
    let send = |lamports| -> Result<TransactionResult<()>> {
        let used = nonce()?;
        let advance = advance_nonce_account(&account.pubkey(), &payer);
        let move_some = transfer(&world.alice.pubkey(), &world.bob.pubkey(), lamports);
        let transaction = world.sign(&[advance, move_some], &[&world.alice], &[], used)?;
        let (_, result) = world.send_unchecked(&transaction)?;
        wait_until("the nonce to advance", WAIT_TIMEOUT, || Ok((nonce()? != used).then_some(())))?;
        Ok(result)
    };
    step("nonce: create the account", || {
        let create =
            create_nonce_account(&payer, &account.pubkey(), &payer, world.rent(NONCE_SIZE)?);
        let signature = world.send(&create, &[&account])?;
        // A nonce advances to another value only in a later block than the one that set it.
        world.slot_after(world.transaction(&signature, UiTransactionEncoding::Base64)?.slot)
    })?;
    step("nonce: a transaction on it lands and advances it", || {
        assert_eq!(send(1_000)?, Ok(()));
        world.slot_after(world.rpc.get_slot()?)
    })?;
    step("nonce: a failing transaction on it advances it too", || {
        let failed = TransactionError::InstructionError(1, InstructionError::Custom(1));
        assert_eq!(send(1_000_000_000_000_000)?, Err(failed));
        Ok(())
    })
}
