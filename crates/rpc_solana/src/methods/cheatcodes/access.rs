//! surfnet_enableCheatcode and surfnet_disableCheatcode.

use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{Api, Execution, MethodOutput, MethodResult, MethodSpec};
use ledger::Commitment;
use serde::Deserialize;

use crate::cheatcodes::is_cheatcode;
use crate::commitment::context;
use crate::solana_api::SolanaApi;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] = &[
    gated!("surfnet_enableCheatcode", Execution::Light, enable),
    gated!("surfnet_disableCheatcode", Execution::Light, disable),
];

/// Names of cheat codes, or the text `all`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Selection {
    All(String),
    Names(Vec<String>),
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Lock {
    lockout: Option<bool>,
}

fn cheatcodes() -> Vec<&'static str> {
    SolanaApi::method_names().into_iter().filter(|name| is_cheatcode(name)).collect()
}

/// Resolves the selected names to the node's own, `None` for all of them.
fn resolve_selection(selection: &Selection) -> Result<Option<Vec<&'static str>>, RpcError> {
    let known = cheatcodes();
    match selection {
        Selection::All(all) if all == "all" => Ok(None),
        Selection::All(text) => Err(RpcError::invalid_params(format!(
            "{text:?}: expected \"all\" or a list of cheat codes"
        ))),
        Selection::Names(names) => {
            let find = |name: &String| {
                let found = known.iter().find(|known| *known == name).copied();
                found.ok_or_else(|| {
                    RpcError::invalid_params(format!("{name:?} is no cheat code of this node"))
                })
            };
            names.iter().map(find).collect::<Result<_, _>>().map(Some)
        }
    }
}

fn enable(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (selection,): (Selection,) = params.parse(1)?;
    let gate = &api.cheatcodes.gate;
    let names =
        resolve_selection(&selection)?.unwrap_or_else(|| gate.select_unlocked(cheatcodes()));
    gate.enable(&names)?;
    null_result(api)
}

fn disable(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (selection, lock): (Selection, Option<Lock>) = params.parse(1)?;
    let locks = lock.unwrap_or_default().lockout.unwrap_or_default();
    if locks && !params.client().is_on_this_machine() {
        return Err(RpcError::invalid_params(
            "a lockout is final, so only a client on the machine of the node may request it (--no-cheatcodes has the \
             same effect from the start)",
        ));
    }
    let gate = &api.cheatcodes.gate;
    let names =
        resolve_selection(&selection)?.unwrap_or_else(|| gate.select_all(cheatcodes(), locks));
    gate.disable(&names, locks)?;
    null_result(api)
}

fn null_result(api: &SolanaApi) -> MethodResult {
    MethodOutput::json_in(context(&api.reader.view(Commitment::Processed)), &())
}
