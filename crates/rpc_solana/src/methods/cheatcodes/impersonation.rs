//! hydrant_impersonateAccount and hydrant_stopImpersonatingAccount: addresses whose signatures are not checked; and
//! transactions whose signatures are not checked at all (`skipSigVerify` of sendTransaction).

use chain_solana::{VerifiedTransaction, VerifyError};
use http_server::PageAccess;
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{Execution, MethodOutput, MethodResult, MethodSpec};
use ledger::Commitment;
use serde::Deserialize;
use serde::de::IgnoredAny;
use solana_pubkey::Pubkey;
use solana_transaction::versioned::VersionedTransaction;

use super::super::parse_key;
use crate::solana_api::SolanaApi;

/// The method whose gate controls all unchecked signatures.
const IMPERSONATE: &str = "hydrant_impersonateAccount";

pub(super) const METHODS: &[MethodSpec<SolanaApi>] = &[
    gated!("hydrant_impersonateAccount", Execution::Inline, impersonate),
    gated!("hydrant_stopImpersonatingAccount", Execution::Inline, stop_impersonating),
    gated!("hydrant_getImpersonatedAccounts", Execution::Light, list_impersonated),
];

fn impersonate(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (pubkey,): (String,) = params.parse(1)?;
    api.cheatcodes.impersonated.insert(parse_key::pubkey(&pubkey)?)?;
    MethodOutput::json(&true)
}

fn stop_impersonating(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (pubkey,): (String,) = params.parse(1)?;
    MethodOutput::json(&api.cheatcodes.impersonated.remove(&parse_key::pubkey(&pubkey)?))
}

fn list_impersonated(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    params.none()?;
    let all = api.cheatcodes.impersonated.all();
    MethodOutput::json(&all.iter().map(Pubkey::to_string).collect::<Vec<_>>())
}

/// Verifies the signatures of a transaction, except those that a cheat code exempts. The parameters are those of
/// sendTransaction. The outer error is a cheat code's. A web page of another site has no exemption.
pub(in super::super) fn verify(
    api: &SolanaApi,
    params: Params<'_>,
    transaction: VersionedTransaction,
) -> Result<Result<VerifiedTransaction, VerifyError>, RpcError> {
    let skips = skips_verification(params);
    let gate = api.cheatcodes.gate.check(IMPERSONATE);
    let access = params.page_access();
    let is_foreign = access != PageAccess::Full;
    if skips {
        gate?;
        if is_foreign {
            return Err(RpcError::foreign_page("sendTransaction with skipSigVerify", access));
        }
    } else if gate.is_err() || is_foreign || api.cheatcodes.impersonated.len() == 0 {
        return Ok(VerifiedTransaction::verify(transaction));
    }
    let is_exempt = |signer: &Pubkey| skips || api.cheatcodes.impersonated.contains(signer);
    let verified = VerifiedTransaction::verify_except(transaction, is_exempt);
    // Two messages may have the same signature if it is not checked.
    if let Ok(verified) = &verified
        && let Some(known) =
            api.history.snapshot().transaction(&verified.signature(), Commitment::Processed)
        && known.transaction.message != verified.transaction().message
    {
        let message = format!("another transaction has the signature {}", known.signature());
        return Err(RpcError::invalid_params(message));
    }
    Ok(verified)
}

/// Whether a request has `skipSigVerify`, a field that Agave's own type does not have.
fn skips_verification(params: Params<'_>) -> bool {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Skip {
        skip_sig_verify: bool,
    }
    let has_name = params.text().is_some_and(|text| text.contains("skipSigVerify"));
    let parsed = has_name.then(|| params.parse_fast::<(IgnoredAny, Option<Skip>)>(1)).flatten();
    parsed.and_then(|(_, skip)| skip).is_some_and(|skip| skip.skip_sig_verify)
}
