//! The messages of wRPC as in kaspad 2.1.0: values, frames and requests, in Borsh and in JSON.

mod borsh_request;
mod frame;
mod json_request;
mod request;
mod shapes;
#[cfg(test)]
mod tests;
mod value;

pub use self::frame::Encoding;
pub(crate) use self::frame::Frame;
pub(crate) use self::request::{Call, Request};
pub(crate) use self::shapes::{
    AcceptedShape, BlockShape, DIFFICULTY, PlacedTransaction, TransactionBlock, address_utxo,
    optional_header, plain_transaction, raw_block,
};
pub(crate) use self::value::{Structure, Value};
