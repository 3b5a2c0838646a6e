//! The supply that `getSupply` reports instead of the ledger's own.

use solana_pubkey::Pubkey;
use solana_rpc_client_types::response::RpcSupply;

/// Values that replace those of the ledger. An absent value replaces nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct SupplyOverride {
    pub(crate) total: Option<u64>,
    pub(crate) circulating: Option<u64>,
    pub(crate) non_circulating: Option<u64>,
    pub(crate) non_circulating_accounts: Option<Vec<Pubkey>>,
}

impl SupplyOverride {
    /// Replaces the values that a later override has.
    pub(crate) fn update(&mut self, later: Self) {
        self.total = later.total.or(self.total);
        self.circulating = later.circulating.or(self.circulating);
        self.non_circulating = later.non_circulating.or(self.non_circulating);
        if let Some(accounts) = later.non_circulating_accounts {
            self.non_circulating_accounts = Some(accounts);
        }
    }

    /// Replaces the values of a supply, and its list of accounts only if `lists`.
    pub(crate) fn apply(&self, supply: &mut RpcSupply, lists: bool) {
        supply.total = self.total.unwrap_or(supply.total);
        supply.circulating = self.circulating.unwrap_or(supply.circulating);
        supply.non_circulating = self.non_circulating.unwrap_or(supply.non_circulating);
        if let Some(accounts) = self.non_circulating_accounts.as_ref().filter(|_| lists) {
            supply.non_circulating_accounts = accounts.iter().map(Pubkey::to_string).collect();
        }
    }
}
