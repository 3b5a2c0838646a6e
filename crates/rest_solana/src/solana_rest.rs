//! Solana's API over REST: its table, limits and examples, and the clients that wait for a transaction.

use std::io;
use std::sync::Arc;

use chain_solana::History;
use http_server::ResponseBody;
use hyper::Response;
use rest::{
    ApiError, ApiPaths, ErrorCode, ErrorFormat, ErrorStyle, Examples, Limits, MethodCall, Params,
    RequestContext, RestApi, RouteTable, VerifiedSlot,
};
use rpc_solana::{SolanaApi, SolanaServer};

use crate::status_waiters::{StatusWaiters, WAITER_BYTES, WaiterEvents};
use crate::{examples, routes, schema, transaction_status};

/// Solana's API over REST. Clients that wait for a transaction are woken by the events of [`Self::start_waker`].
#[derive(Default)]
pub struct SolanaRest {
    waiters: StatusWaiters,
}

impl SolanaRest {
    /// The sink for the events of the ledger with this history, which wake the clients that wait for a transaction.
    /// Starts a thread, which ends when the sink is dropped.
    ///
    /// Errors: the thread could not be started.
    pub fn start_waker(&self, history: Arc<History>) -> io::Result<WaiterEvents> {
        self.waiters.start(history)
    }

    /// The number of clients that wait for a transaction.
    pub fn waiters_len(&self) -> usize {
        self.waiters.len()
    }
}

impl RestApi for SolanaRest {
    type Api = SolanaApi;

    const TABLE: &'static RouteTable = &RouteTable {
        summary: "State and history of a Solana ledger over REST.",
        etag_doc: "Accounts, lists in the response cache and finalized blocks always have one.",
        pages_doc: "Lists come in pages: to get the next page, send the <code>paginationKey</code> as \
                    <code>cursor</code>.",
        routes: routes::ROUTES,
        tags: routes::TAGS,
        paths: ApiPaths::V1,
        errors: ErrorStyle { codes: ERROR_CODES, format: ErrorFormat::Coded },
        headers: &[],
        schemas: schema::all,
    };

    fn limits(&self, server: &SolanaServer) -> Limits {
        let items_max = server.api.config.multiple_accounts_max;
        Limits { items_max, setting: "rpc.multiple_accounts_max" }
    }

    fn examples(&self, server: &SolanaServer) -> Examples {
        examples::collect_examples(server)
    }

    fn are_available(&self, server: &SolanaServer, examples: &Examples) -> bool {
        examples::are_available(server, examples)
    }

    async fn respond(
        &self,
        context: &RequestContext<'_, SolanaApi>,
        params: &Params,
        call: MethodCall,
    ) -> Result<Response<ResponseBody>, ApiError> {
        transaction_status::respond(context, &self.waiters, params, call).await
    }

    fn verified_slot(&self, server: &SolanaServer) -> Option<VerifiedSlot> {
        let verification = &server.api.verification;
        let level = verification.required_level()?.name();
        verification.verified_slot().map(|slot| VerifiedSlot { slot, level })
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        vec![("status_waiters", self.waiters.len() as u64 * WAITER_BYTES)]
    }
}

/// The codes of Agave's errors, apart from -32016, which every API has.
const ERROR_CODES: &[ErrorCode] = &[
    ErrorCode::new(-32001, 404, "block_cleaned_up"),
    ErrorCode::new(-32002, 422, "preflight_failed"),
    ErrorCode::new(-32003, 422, "signature_verification_failed"),
    ErrorCode::new(-32004, 404, "block_not_available"),
    ErrorCode::new(-32005, 503, "node_unhealthy"),
    ErrorCode::new(-32006, 422, "precompile_verification_failed"),
    ErrorCode::new(-32007, 404, "slot_skipped"),
    ErrorCode::new(-32009, 404, "slot_skipped"),
    ErrorCode::new(-32010, 422, "key_excluded_from_index"),
    ErrorCode::new(-32011, 503, "history_not_available"),
    ErrorCode::new(-32013, 422, "signature_length_mismatch"),
    ErrorCode::new(-32014, 404, "block_not_available"),
    ErrorCode::new(-32015, 422, "unsupported_transaction_version"),
    ErrorCode::new(-32020, 404, "cursor_not_found"),
];
