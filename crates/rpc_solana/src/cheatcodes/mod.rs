//! The state of the cheat codes of a local ledger: the methods that may be called, and the changes outside of the
//! ledger.
//!
//! Bounds: each part has its own; `/metrics` reports all of them.
//! Not here: the methods (`methods::cheatcodes`), the ledger's part ([`chain_solana::LedgerControl`]).

mod gate;
mod impersonation;
mod profiles;
mod supply_override;

use std::sync::Arc;

use chain_solana::{ControlCall, ControlCommand, ControlError, LedgerControl};
use clients::ClientId;
use jsonrpc::error::RpcError;
use metrics::{Collector, Exposition, MetricKind};
use parking_lot::RwLock;

pub use gate::is_cheatcode;
pub(crate) use gate::{Access, Gate};
pub(crate) use impersonation::Impersonated;
pub(crate) use profiles::{AccountChange, Profile, ProfilePart, ProfiledAccount, Profiles};
pub(crate) use supply_override::SupplyOverride;

/// The cheat codes of a node. The default has none.
#[derive(Default)]
pub struct Cheatcodes {
    control: Option<Arc<dyn LedgerControl>>,
    pub(crate) gate: Gate,
    pub(crate) impersonated: Impersonated,
    pub(crate) profiles: Profiles,
    pub(crate) supply: RwLock<Option<SupplyOverride>>,
}

impl Cheatcodes {
    /// Creates the cheat codes of a local ledger, enabled or switched off.
    pub fn new(control: Arc<dyn LedgerControl>, is_on: bool) -> Self {
        let access = if is_on { Access::On } else { Access::Off };
        Self { control: Some(control), gate: Gate::new(access), ..Self::default() }
    }

    /// Queues a command for the ledger.
    pub(crate) fn control(
        &self,
        client: ClientId,
        command: ControlCommand,
    ) -> Result<ControlCall, RpcError> {
        let closed = Err(ControlError::Closed);
        let call = self.control.as_ref().map_or(closed, |control| control.control(client, command));
        call.map_err(rpc_error)
    }
}

/// Converts the error of a command to JSON-RPC.
pub(crate) fn rpc_error(err: ControlError) -> RpcError {
    let message = err.to_string();
    match err {
        ControlError::QueueFull { limit } => {
            let data = serde_json::json!({ "limit": limit });
            RpcError::new(jsonrpc::error::OVERLOADED, message).with_data(data)
        }
        ControlError::Panicked | ControlError::Closed => RpcError::internal_with(message),
        ControlError::LedgerFull
        | ControlError::AccountBytesFull { .. }
        | ControlError::NoBaseline { .. } => RpcError::invalid_request(message),
        ControlError::Invalid(_)
        | ControlError::Protected { .. }
        | ControlError::TooLarge { .. }
        | ControlError::TooManyLamports { .. }
        | ControlError::TooManyAccounts { .. } => RpcError::invalid_params(message),
    }
}

impl Collector for Cheatcodes {
    fn write(&self, to: &mut Exposition) {
        if self.control.is_none() {
            return;
        }
        let help = "Cheat codes that are disabled.";
        let disabled = self.gate.disabled_len() as u64;
        to.single("hydrant_cheatcodes_disabled", MetricKind::Gauge, help, disabled);
        let help = "Addresses whose signatures are not checked.";
        let impersonated = self.impersonated.len() as u64;
        to.single("hydrant_impersonated_accounts", MetricKind::Gauge, help, impersonated);
        let help = "Profiles of transactions that are retained.";
        let (profiles, _) = self.profiles.usage();
        to.single("hydrant_profiles", MetricKind::Gauge, help, profiles as u64);
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        let Some(control) = &self.control else { return Vec::new() };
        let (_, profiles) = self.profiles.usage();
        vec![("reset_baseline", control.stats().baseline_bytes), ("profiles", profiles)]
    }
}
