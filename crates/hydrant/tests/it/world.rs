//! The accounts of a test's ledger, and helpers that send their transactions with Agave's client.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use solana_commitment_config::CommitmentConfig;
use solana_hash::Hash;
use solana_instruction::Instruction;
use solana_keypair::Keypair;
use solana_message::{AddressLookupTableAccount, VersionedMessage, v0};
use solana_pubkey::Pubkey;
use solana_rpc_client::rpc_client::RpcClient;
use solana_rpc_client_api::config::{RpcSendTransactionConfig, RpcTransactionConfig};
use solana_signature::Signature;
use solana_signer::Signer;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_error::TransactionResult;
use solana_transaction_status_client_types::{
    EncodedConfirmedTransactionWithStatusMeta as Landed, UiTransactionEncoding,
};
use testkit::node::Node;

pub(crate) const LAMPORTS_PER_SOL: u64 = 1_000_000_000;
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_secs(30);
pub(crate) const CONFIRMED: CommitmentConfig = CommitmentConfig::confirmed();

/// A client at `confirmed`, and three funded people.
pub(crate) struct World {
    pub(crate) rpc: RpcClient,
    pub(crate) payer: Keypair,
    pub(crate) alice: Keypair,
    pub(crate) bob: Keypair,
}

impl World {
    /// A new world, in which no account has lamports yet.
    pub(crate) fn new(node: &Node) -> Self {
        let rpc = RpcClient::new_with_commitment(node.rpc_url(), CONFIRMED);
        Self { rpc, payer: Keypair::new(), alice: Keypair::new(), bob: Keypair::new() }
    }

    /// Airdrops `sol` to `to`, and returns when it is confirmed.
    pub(crate) fn airdrop(&self, to: &Pubkey, sol: u64) -> Result<Signature> {
        let signature = self.rpc.request_airdrop(to, sol * LAMPORTS_PER_SOL)?;
        self.landed_well(&signature)?;
        Ok(signature)
    }

    /// A version 0 transaction on `blockhash`, paid for by the payer.
    pub(crate) fn sign(
        &self,
        instructions: &[Instruction],
        signers: &[&Keypair],
        tables: &[AddressLookupTableAccount],
        blockhash: Hash,
    ) -> Result<VersionedTransaction> {
        let message =
            v0::Message::try_compile(&self.payer.pubkey(), instructions, tables, blockhash)?;
        let mut everybody = vec![&self.payer];
        everybody.extend_from_slice(signers);
        Ok(VersionedTransaction::try_new(VersionedMessage::V0(message), &everybody)?)
    }

    /// The signature, once the transaction is confirmed and has not failed.
    pub(crate) fn send(
        &self,
        instructions: &[Instruction],
        signers: &[&Keypair],
    ) -> Result<Signature> {
        self.send_with(instructions, signers, &[])
    }

    /// Like `send`, with accounts from lookup tables.
    pub(crate) fn send_with(
        &self,
        instructions: &[Instruction],
        signers: &[&Keypair],
        tables: &[AddressLookupTableAccount],
    ) -> Result<Signature> {
        let transaction =
            self.sign(instructions, signers, tables, self.rpc.get_latest_blockhash()?)?;
        let signature = self.rpc.send_transaction(&transaction)?;
        self.landed_well(&signature)?;
        Ok(signature)
    }

    /// Sends without preflight; the signature and how the transaction landed.
    pub(crate) fn send_unchecked(
        &self,
        transaction: &VersionedTransaction,
    ) -> Result<(Signature, TransactionResult<()>)> {
        let config = RpcSendTransactionConfig {
            skip_preflight: true,
            ..RpcSendTransactionConfig::default()
        };
        let signature = self.rpc.send_transaction_with_config(transaction, config)?;
        Ok((signature, self.wait_until_confirmed(&signature)?))
    }

    /// Waits until a transaction is confirmed, and returns its result.
    pub(crate) fn wait_until_confirmed(
        &self,
        signature: &Signature,
    ) -> Result<TransactionResult<()>> {
        wait_until("a confirmed signature", WAIT_TIMEOUT, || {
            Ok(self.rpc.get_signature_status_with_commitment(signature, CONFIRMED)?)
        })
    }

    fn landed_well(&self, signature: &Signature) -> Result<()> {
        self.wait_until_confirmed(signature)?.with_context(|| format!("{signature} failed"))
    }

    /// The confirmed transaction, in `encoding`.
    pub(crate) fn transaction(
        &self,
        signature: &Signature,
        encoding: UiTransactionEncoding,
    ) -> Result<Landed> {
        let config = RpcTransactionConfig {
            encoding: Some(encoding),
            commitment: Some(CONFIRMED),
            max_supported_transaction_version: Some(0),
        };
        Ok(self.rpc.get_transaction_with_config(signature, config)?)
    }

    /// Returns when a slot after `slot` is confirmed.
    pub(crate) fn slot_after(&self, slot: u64) -> Result<()> {
        wait_until("a later confirmed slot", WAIT_TIMEOUT, || {
            Ok((self.rpc.get_slot()? > slot).then_some(()))
        })
    }

    pub(crate) fn rent(&self, size: usize) -> Result<u64> {
        Ok(self.rpc.get_minimum_balance_for_rent_exemption(size)?)
    }
}

/// Calls `probe` until it returns a value. Its error ends the wait.
#[expect(
    clippy::disallowed_methods,
    reason = "another process can report that it is ready only by its state"
)]
pub(crate) fn wait_until<T>(
    what: &str,
    wait: Duration,
    mut probe: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let end = Instant::now() + wait;
    loop {
        if let Some(value) = probe().with_context(|| format!("while waiting for {what}"))? {
            return Ok(value);
        }
        if Instant::now() > end {
            bail!("waited {wait:?} for {what}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
