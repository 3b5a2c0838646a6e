//! The methods that are answered at once, where the socket is polled.
//!
//! Cost: some lookups each.

use chain_kaspa::script_totals;
use kaspa::{
    CoinSupply, MAX_SOMPI, Method, ServerError, encode_borsh_balance, encode_borsh_pong,
    encode_borsh_sink, encode_borsh_sink_blue_score, encode_json_balance, encode_json_pong,
    encode_json_sink, encode_json_sink_blue_score, encode_protobuf_balance, encode_protobuf_pong,
    encode_protobuf_sink, encode_protobuf_sink_blue_score,
};

use crate::kaspa_rpc::KaspaRpc;
use crate::message_format::MessageFormat;
use crate::request::Request;

/// Runs a request with this id. `None` if its method is not answered at once. An error means that the parameters have
/// another shape.
pub(crate) fn run_inline(
    rpc: &KaspaRpc,
    id: u64,
    method: Method,
    request: &Request,
) -> Option<Result<Vec<u8>, ServerError>> {
    let format: MessageFormat = request.reply.into();
    let no_params = || request.check_no_params();
    Some(match method {
        Method::Ping => no_params().map(|()| match format {
            MessageFormat::Borsh => encode_borsh_pong(id),
            MessageFormat::Json => encode_json_pong(id),
            MessageFormat::Protobuf => encode_protobuf_pong(id),
        }),
        Method::GetBalanceByAddress => request.address().map(|address| {
            let script = address.payload.ledger_address();
            let balance = script_totals(&rpc.virtual_view(), &script).amount;
            match format {
                MessageFormat::Borsh => encode_borsh_balance(id, balance),
                MessageFormat::Json => encode_json_balance(id, balance),
                MessageFormat::Protobuf => encode_protobuf_balance(id, balance),
            }
        }),
        Method::GetCoinSupply => no_params().map(|()| {
            let circulating_sompi = rpc.virtual_view().meta().supply.sompi;
            let supply = CoinSupply { max_sompi: MAX_SOMPI, circulating_sompi };
            match format {
                MessageFormat::Borsh => supply.encode_borsh(id),
                MessageFormat::Json => supply.encode_json(id),
                MessageFormat::Protobuf => supply.encode_protobuf(id),
            }
        }),
        Method::GetSink => no_params().map(|()| {
            let sink = rpc.chain.status().sink.hash;
            match format {
                MessageFormat::Borsh => encode_borsh_sink(id, &sink),
                MessageFormat::Json => encode_json_sink(id, &sink),
                MessageFormat::Protobuf => encode_protobuf_sink(id, &sink),
            }
        }),
        Method::GetSinkBlueScore => no_params().map(|()| {
            let blue_score = rpc.chain.status().sink.blue_score;
            match format {
                MessageFormat::Borsh => encode_borsh_sink_blue_score(id, blue_score),
                MessageFormat::Json => encode_json_sink_blue_score(id, blue_score),
                MessageFormat::Protobuf => encode_protobuf_sink_blue_score(id, blue_score),
            }
        }),
        _ => return None,
    })
}
