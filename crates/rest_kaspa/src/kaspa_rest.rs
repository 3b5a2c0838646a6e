//! Kaspa's API over REST: its table, and the responses with their headers.

use http_server::ResponseBody;
use hyper::Response;
use hyper::header::{HeaderMap, HeaderValue};
use jsonrpc::Server;
use jsonrpc::error::RpcError;
use kaspa::{AddressPayload, KaspaAddress};
use ledger::Commitment;
use rest::{
    ApiError, ApiPaths, ErrorCode, ErrorFormat, ErrorStyle, Examples, MethodCall, Params,
    RequestContext, ResponseContext, RestApi, RouteTable, ValueResponse, respond_value,
    short_response,
};
use rpc_kaspa::{KaspaApi, write_proof_headers};

use crate::calls::method;
use crate::position_headers::{OWN_HEADERS, StatePosition};
use crate::values::{HISTORY_VALUE, SINK_VALUE, UTXO_PAGE_VALUE, VIRTUAL_VALUE};
use crate::{health, routes, schema, transaction_lists};

/// Kaspa's API over REST, in the shape of api.kaspa.org: [`rest::Rest`] serves it on the port of JSON-RPC.
#[derive(Clone, Copy, Debug, Default)]
pub struct KaspaRest;

/// kaspa-rest-server responds with 422 to parameters that are not valid.
const ERROR_CODES: &[ErrorCode] =
    &[ErrorCode::new(-32602, 422, "invalid_params"), ErrorCode::new(-32005, 503, "node_unhealthy")];

const PLAIN_TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

impl KaspaRest {
    /// Creates Kaspa's API over REST.
    pub fn new() -> Self {
        Self
    }
}

impl RestApi for KaspaRest {
    type Api = KaspaApi;

    const TABLE: &'static RouteTable = &RouteTable {
        summary: "UTXOs, balances and recent transactions of Kaspa, in the shape of api.kaspa.org.",
        etag_doc: "",
        pages_doc: "Lists of UTXOs and of transactions come in pages: to get the next page, send \
                    <code>Hydrant-Next-Page</code> as <code>page</code>.",
        routes: routes::ROUTES,
        tags: routes::TAGS,
        paths: ApiPaths {
            roots: &["/addresses", "/transactions", "/info", "/docs", "/openapi.json"],
            explorer: "/docs",
            openapi: "/openapi.json",
        },
        errors: ErrorStyle { codes: ERROR_CODES, format: ErrorFormat::Detail },
        headers: OWN_HEADERS,
        schemas: schema::all,
    };

    fn examples(&self, server: &Server<KaspaApi>) -> Examples {
        let payload = AddressPayload::PublicKey([0; 32]);
        let address = KaspaAddress { prefix: server.api.network().prefix(), payload };
        [("kaspaAddress", address.to_string().into())].into_iter().collect()
    }

    async fn respond(
        &self,
        context: &RequestContext<'_, KaspaApi>,
        params: &Params,
        call: MethodCall,
    ) -> Result<Response<ResponseBody>, ApiError> {
        // The position and the value are then of one version.
        let pinned = context.pinned_server();
        let context = &context.with_server(&pinned);
        let name = match &call {
            MethodCall::Single(name, _) => *name,
            MethodCall::Composite(_) => return Err(RpcError::internal().into()),
        };
        match name {
            method::FIND_TRANSACTIONS | method::FIND_TRANSACTIONS_BY_TIME => {
                transaction_lists::respond(context, params, &call).await
            }
            method::GET_TRANSACTION => respond_transaction(context, params, call).await,
            method::GET_CIRCULATING_COINS => respond_text(context, &call).await,
            method::GET_HEALTH => {
                let position = StatePosition::for_status(&context.server.api.chain().status());
                let mut response = health::respond(context, &call).await?;
                position.write(response.headers_mut());
                Ok(response)
            }
            method::GET_BLUE_SCORE => {
                let position = find_position(context, Commitment::Confirmed);
                respond_at(context, params, call, &SINK_VALUE, position).await
            }
            method::GET_UTXO_PAGE => {
                let position = find_position(context, Commitment::Processed);
                respond_at(context, params, call, &UTXO_PAGE_VALUE, position).await
            }
            _ => {
                let position = find_position(context, Commitment::Processed);
                respond_at(context, params, call, &VIRTUAL_VALUE, position).await
            }
        }
    }

    fn write_headers(&self, server: &Server<KaspaApi>, headers: &mut HeaderMap) {
        write_proof_headers(&server.api.chain().status(), headers);
    }
}

/// The position of the UTXO set that a request reads at a commitment.
fn find_position(context: &RequestContext<'_, KaspaApi>, commitment: Commitment) -> StatePosition {
    StatePosition::for_utxos(context.server.api.chain(), commitment)
}

/// Responds with the value of a call, read at a position.
async fn respond_at(
    context: &RequestContext<'_, KaspaApi>,
    params: &Params,
    call: MethodCall,
    value: &ValueResponse,
    position: StatePosition,
) -> Result<Response<ResponseBody>, ApiError> {
    let mut response = respond_value(context, value, params, call).await?;
    position.write(response.headers_mut());
    Ok(response)
}

/// Responds with a transaction of the history. A 404 says from which block on the history has transactions.
async fn respond_transaction(
    context: &RequestContext<'_, KaspaApi>,
    params: &Params,
    call: MethodCall,
) -> Result<Response<ResponseBody>, ApiError> {
    let position = StatePosition::for_history(context.server.api.chain());
    let result = respond_at(context, params, call, &HISTORY_VALUE, position).await;
    result.map_err(|error| {
        if !error.is_not_found() {
            return error;
        }
        let id = params.text("transactionId").unwrap_or_default();
        position.add_to(error.with_message(format!(
            "Transaction {id} is not in the history of this node, which starts at DAA score {}. \
             An older transaction may exist.",
            position.history_from()
        )))
    })
}

/// Responds with the string of a call as plain text. It reads the virtual block.
async fn respond_text(
    context: &RequestContext<'_, KaspaApi>,
    call: &MethodCall,
) -> Result<Response<ResponseBody>, ApiError> {
    let position = find_position(context, Commitment::Processed);
    let result = context.call_short(call).await?;
    let text: String = serde_json::from_slice(&result.json).map_err(|_| RpcError::internal())?;
    let slot = context.server.api.chain().utxos.view(Commitment::Processed).block().slot;
    let commitment = Commitment::Processed;
    let response_context = ResponseContext { slot, commitment, is_immutable: false };
    let mut response = short_response(context, text.into_bytes(), PLAIN_TEXT, response_context);
    position.write(response.headers_mut());
    Ok(response)
}
