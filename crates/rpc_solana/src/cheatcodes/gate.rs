//! The cheat codes that may be called: none of a followed chain, none with `--no-cheatcodes`, and otherwise those that
//! no client has disabled.
//!
//! Bounds: names of methods only, each once.
//! Invariant: a method that was disabled with `lockout` is never enabled again while the process runs.
//! Not here: origins of web pages (`http_server`).

use std::collections::BTreeSet;

use jsonrpc::error::RpcError;
use parking_lot::RwLock;

/// The methods that disable and enable the others.
const CONTROLS: [&str; 2] = ["surfnet_disableCheatcode", "surfnet_enableCheatcode"];

/// Whether a method is a cheat code. Methods of the ledger's API have no underscore in their names.
pub fn is_cheatcode(method: &str) -> bool {
    method.starts_with("surfnet_") || method.starts_with("hydrant_")
}

/// Whether a ledger has cheat codes at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Access {
    /// The ledger is not a local one.
    #[default]
    NoLocalLedger,
    Off,
    On,
}

#[derive(Default)]
pub(crate) struct Gate {
    access: Access,
    disabled: RwLock<Disabled>,
}

#[derive(Default)]
struct Disabled {
    names: BTreeSet<&'static str>,
    /// The methods that cannot be enabled again.
    locked: BTreeSet<&'static str>,
}

impl Gate {
    pub(crate) fn new(access: Access) -> Self {
        Self { access, disabled: RwLock::default() }
    }

    /// Returns -32601 with the reason if a method may not be called.
    pub(crate) fn check(&self, method: &str) -> Result<(), RpcError> {
        let refuse = |why: &str| Err(RpcError::new(-32601, format!("{method} {why}")));
        match self.access {
            Access::NoLocalLedger => refuse("is for a local ledger (hydrant dev)"),
            Access::Off => refuse("is switched off (--no-cheatcodes)"),
            Access::On => {
                let disabled = self.disabled.read();
                if disabled.locked.contains(method) {
                    return refuse("is disabled until the node restarts (lockout)");
                }
                if disabled.names.contains(method) {
                    return refuse("is disabled (surfnet_enableCheatcode)");
                }
                Ok(())
            }
        }
    }

    /// Disables cheat codes, permanently if `locks`. Without it, the methods that enable and disable remain.
    pub(crate) fn disable(&self, names: &[&'static str], locks: bool) -> Result<(), RpcError> {
        if !locks && let Some(name) = names.iter().find(|name| CONTROLS.contains(name)) {
            let message = format!("{name} is disabled only with {{\"lockout\": true}}");
            return Err(RpcError::invalid_params(message));
        }
        let mut disabled = self.disabled.write();
        disabled.names.extend(names);
        if locks {
            disabled.locked.extend(names);
        }
        Ok(())
    }

    /// Enables cheat codes. Nothing is enabled if one of them is locked.
    pub(crate) fn enable(&self, names: &[&'static str]) -> Result<(), RpcError> {
        let mut disabled = self.disabled.write();
        if let Some(name) = names.iter().find(|name| disabled.locked.contains(*name)) {
            let message = format!("{name} is disabled until the node restarts (lockout)");
            return Err(RpcError::invalid_params(message));
        }
        disabled.names.retain(|name| !names.contains(name));
        Ok(())
    }

    /// Selects the `names` that a request for all of them includes: without a lock, not the methods that enable and
    /// disable.
    pub(crate) fn select_all(&self, names: Vec<&'static str>, locks: bool) -> Vec<&'static str> {
        names.into_iter().filter(|name| locks || !CONTROLS.contains(name)).collect()
    }

    /// Removes the locked methods from `names`.
    pub(crate) fn select_unlocked(&self, names: Vec<&'static str>) -> Vec<&'static str> {
        let disabled = self.disabled.read();
        names.into_iter().filter(|name| !disabled.locked.contains(name)).collect()
    }

    pub(crate) fn disabled_len(&self) -> usize {
        self.disabled.read().names.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: &str = "surfnet_setAccount";
    const TRAVEL: &str = "surfnet_timeTravel";
    const ENABLE: &str = "surfnet_enableCheatcode";

    fn message(result: Result<(), RpcError>) -> String {
        result.err().map(|err| err.message).unwrap_or_default()
    }

    #[test]
    fn a_ledger_without_cheat_codes_says_why() {
        let message = |access| message(Gate::new(access).check(SET));
        assert_eq!(
            message(Access::NoLocalLedger),
            format!("{SET} is for a local ledger (hydrant dev)")
        );
        assert_eq!(message(Access::Off), format!("{SET} is switched off (--no-cheatcodes)"));
        assert_eq!(message(Access::On), "");
    }

    #[test]
    fn a_disabled_method_can_be_enabled_unless_it_is_locked() {
        let gate = Gate::new(Access::On);
        assert!(gate.disable(&[SET], false).is_ok());
        assert!(message(gate.check(SET)).contains("surfnet_enableCheatcode"));
        assert!(gate.check(TRAVEL).is_ok());
        assert!(gate.enable(&[SET]).is_ok() && gate.check(SET).is_ok());

        assert!(message(gate.disable(&[TRAVEL, ENABLE], false)).contains("lockout"));
        assert!(gate.check(TRAVEL).is_ok(), "all or nothing");
        assert!(gate.disable(&[TRAVEL], true).is_ok());
        assert!(message(gate.enable(&[SET, TRAVEL])).contains("until the node restarts"));
        assert!(message(gate.check(TRAVEL)).contains("until the node restarts"));
        assert_eq!(gate.select_unlocked(vec![SET, TRAVEL]), [SET]);

        let all = gate.select_all(vec![SET, TRAVEL, ENABLE], true);
        assert!(gate.disable(&all, true).is_ok());
        assert!(gate.check(ENABLE).is_err() && gate.check(SET).is_err());
        assert_eq!(gate.disabled_len(), 3);
        assert_eq!(gate.select_all(vec![SET, ENABLE], false), [SET]);
    }
}
