//! Reads the transactions of the earlier steps: by signature, by address, by block, parsed and not.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use solana_commitment_config::CommitmentConfig;
use solana_rpc_client::rpc_client::GetConfirmedSignaturesForAddress2Config as Page;
use solana_rpc_client_api::config::RpcBlockConfig;
use solana_signature::Signature;
use solana_signer::Signer;
use solana_transaction_status_client_types::{TransactionDetails, UiTransactionEncoding};

use super::step;
use super::tokens::Token;
use crate::world::{CONFIRMED, WAIT_TIMEOUT, World, wait_until};

pub(super) fn steps(world: &World, token: &Token) -> Result<()> {
    let program = token.program;
    step(&format!("history: transactions of {program}, parsed"), || {
        let landed = serde_json::to_value(
            world.transaction(&token.transferred, UiTransactionEncoding::JsonParsed)?,
        )?;
        let instruction = &landed["transaction"]["message"]["instructions"][0];
        assert_eq!(instruction["programId"], program.to_string());
        assert_eq!(instruction["parsed"]["type"], "transferChecked");
        assert_eq!(
            instruction["parsed"]["info"]["tokenAmount"],
            json!({"amount": "300", "decimals": 2, "uiAmount": 3.0, "uiAmountString": "3"})
        );
        let bobs = token_balance(&landed, token)?;
        assert_eq!(bobs["uiTokenAmount"]["amount"], "300");
        assert_eq!(bobs["owner"], world.bob.pubkey().to_string());
        for (signature, kind) in [
            (&token.minted, "mintToChecked"),
            (&token.approved, "approveChecked"),
            (&token.burnt, "burnChecked"),
            (&token.closed, "closeAccount"),
        ] {
            let each = serde_json::to_value(
                world.transaction(signature, UiTransactionEncoding::JsonParsed)?,
            )?;
            assert_eq!(each["transaction"]["message"]["instructions"][0]["parsed"]["type"], kind);
        }
        Ok(())
    })?;
    step(
        &format!("history: signatures of an account of {program}, newest first, in pages"),
        || {
            let page = |before, until, limit| {
                let page = Page { before, until, limit, commitment: Some(CONFIRMED) };
                let listed =
                    world.rpc.get_signatures_for_address_with_config(&token.alice, page)?;
                listed
                    .iter()
                    .map(|entry| Ok(entry.signature.parse()?))
                    .collect::<Result<Vec<Signature>>>()
            };
            let all = page(None, None, None)?;
            let known =
                [token.closed, token.burnt, token.approved, token.transferred, token.minted];
            let mine: Vec<_> = all.iter().copied().filter(|each| known.contains(each)).collect();
            assert_eq!(mine, known);
            assert_eq!(page(Some(all[0]), Some(all[3]), Some(10))?, all[1..3]);
            Ok(())
        },
    )?;
    step(&format!("history: the block of a transaction of {program}"), || {
        check_block(world, &token.minted)
    })
}

fn token_balance<'a>(landed: &'a Value, token: &Token) -> Result<&'a Value> {
    let keys = landed["transaction"]["message"]["accountKeys"].as_array().context("no keys")?;
    let at = keys
        .iter()
        .position(|key| key["pubkey"] == token.bob.to_string())
        .context("Bob is not in it")?;
    let balances = landed["meta"]["postTokenBalances"].as_array().context("no balances")?;
    balances.iter().find(|entry| entry["accountIndex"] == at).context("no balance of Bob")
}

fn check_block(world: &World, signature: &Signature) -> Result<()> {
    let slot = world.transaction(signature, UiTransactionEncoding::Base64)?.slot;
    let config = |details| RpcBlockConfig {
        encoding: Some(UiTransactionEncoding::Base64),
        transaction_details: Some(details),
        rewards: Some(false),
        commitment: Some(CONFIRMED),
        max_supported_transaction_version: Some(0),
    };
    let full = world.rpc.get_block_with_config(slot, config(TransactionDetails::Full))?;
    let transactions = full.transactions.context("no transactions")?;
    let mine = transactions.iter().filter_map(|each| each.transaction.decode());
    assert!(mine.into_iter().any(|each| each.signatures[0] == *signature));
    let listed = world.rpc.get_block_with_config(slot, config(TransactionDetails::Signatures))?;
    assert!(listed.signatures.context("no signatures")?.contains(&signature.to_string()));
    assert_eq!(listed.blockhash, full.blockhash);
    assert_eq!(listed.parent_slot, slot - 1);
    assert_eq!(Some(world.rpc.get_block_time(slot)?), full.block_time);
    assert!(world.rpc.get_blocks_with_commitment(slot, Some(slot + 5), CONFIRMED)?.contains(&slot));
    assert_eq!(world.rpc.get_blocks_with_limit_and_commitment(slot, 1, CONFIRMED)?, [slot]);
    Ok(())
}

pub(super) fn wait_until_final(world: &World, token: &Token) -> Result<()> {
    step("history: what was confirmed becomes final", || {
        let slot = world.transaction(&token.closed, UiTransactionEncoding::Base64)?.slot;
        wait_until("the slot to be finalized", WAIT_TIMEOUT, || {
            let finalized = world.rpc.get_slot_with_commitment(CommitmentConfig::finalized())?;
            Ok((finalized >= slot).then_some(()))
        })?;
        assert!(world.rpc.get_blocks(slot, Some(slot))?.contains(&slot));
        let config = RpcBlockConfig {
            max_supported_transaction_version: Some(0),
            ..RpcBlockConfig::default()
        };
        assert_eq!(world.rpc.get_block_with_config(slot, config)?.parent_slot, slot - 1);
        Ok(())
    })
}
