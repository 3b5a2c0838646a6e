//! Lists of an address's transactions: a method finds the positions of a page, and another one writes the transactions at
//! them, in parts. Both read the same version of the history.

use http_server::ResponseBody;
use hyper::Response;
use hyper::header::{HeaderMap, HeaderValue};
use jsonrpc::error::RpcError;
use rest::{ApiError, MethodCall, Params, RequestContext, respond_value};
use rpc_kaspa::KaspaApi;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::calls::{method, transaction_options};
use crate::position_headers::{
    NEXT_PAGE, NEXT_PAGE_AFTER, NEXT_PAGE_BEFORE, PAGE_COUNT, StatePosition,
};
use crate::values::HISTORY_VALUE;

/// The result of the method that finds a page. The members that are missing depend on the method.
#[derive(Deserialize)]
struct FoundPage {
    positions: Vec<Value>,
    next: Option<String>,
    times: Option<PageTimes>,
}

/// The times of a page by time.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageTimes {
    is_full: bool,
    newest: Option<u64>,
    oldest: Option<u64>,
}

/// Responds with the transactions at the positions that a call finds. The state of `context` is pinned.
pub(crate) async fn respond(
    context: &RequestContext<'_, KaspaApi>,
    params: &Params,
    call: &MethodCall,
) -> Result<Response<ResponseBody>, ApiError> {
    let position = StatePosition::for_history(context.server.api.chain());
    let found = context.call_short(call).await?;
    let page: FoundPage = serde_json::from_slice(&found.json).map_err(|_| RpcError::internal())?;
    let FoundPage { positions, next, times } = page;
    let count = positions.len();
    let call = json!([positions, transaction_options(params)]);
    let call = MethodCall::Single(method::GET_TRANSACTIONS, call);
    let mut response = respond_value(context, &HISTORY_VALUE, params, call).await?;
    let headers = response.headers_mut();
    position.write(headers);
    let next = next.and_then(|next| HeaderValue::try_from(next).ok());
    headers.extend(next.map(|next| (NEXT_PAGE, next)));
    if let Some(times) = times {
        headers.insert(PAGE_COUNT, count.into());
        times.write(headers);
    }
    Ok(response)
}

impl PageTimes {
    fn write(&self, headers: &mut HeaderMap) {
        if !self.is_full {
            return;
        }
        if let Some(newest) = self.newest {
            headers.insert(NEXT_PAGE_AFTER, newest.into());
        }
        if let Some(oldest) = self.oldest {
            headers.insert(NEXT_PAGE_BEFORE, oldest.into());
        }
    }
}
