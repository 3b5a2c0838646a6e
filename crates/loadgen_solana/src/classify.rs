//! Classification of the responses of Solana's JSON-RPC.

use loadgen::{JsonRpcError, Verdict, json_rpc_with};

/// As [`loadgen::json_rpc`], except that -32005 is an error if it says how far the node is behind: that node is not
/// overloaded.
pub fn json_rpc(status: u16, body: &[u8]) -> Verdict {
    json_rpc_with(status, body, is_rejection)
}

fn is_rejection(error: &JsonRpcError<'_>) -> bool {
    let is_behind = error.code == Some(-32005) && !error.data["numSlotsBehind"].is_null();
    error.is_rejection() && !is_behind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_behind_is_an_error_and_a_full_one_rejects() {
        for (error, verdict) in [
            (r#"{"code":-32005,"message":"full"}"#, Verdict::Rejected),
            (r#"{"code":-32005,"data":{"numSlotsBehind":null}}"#, Verdict::Rejected),
            (r#"{"code":-32005,"data":{"numSlotsBehind":9}}"#, Verdict::Error),
            (r#"{"code":-32429}"#, Verdict::Rejected),
            (r#"{"code":-32602,"message":""}"#, Verdict::Error),
        ] {
            let one = format!(r#"{{"jsonrpc":"2.0","error":{error},"id":1}}"#);
            assert_eq!(json_rpc(200, one.as_bytes()), verdict, "{one}");
            let batch = format!(r#"[{{"jsonrpc":"2.0","result":1,"id":1}},{one}]"#);
            assert_eq!(json_rpc(200, batch.as_bytes()), verdict, "{batch}");
        }
        assert_eq!(json_rpc(200, br#"{"jsonrpc":"2.0","result":7,"id":1}"#), Verdict::Ok);
    }
}
