//! The codec of `Subscribe`: requests are decoded, updates are bytes already.

use bytes::{BufMut, Bytes};
use prost::Message;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use yellowstone_grpc_proto::geyser::SubscribeRequest;

/// The codec.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SubscribeCodec;

impl Codec for SubscribeCodec {
    type Encode = Bytes;
    type Decode = SubscribeRequest;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for SubscribeCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(message);
        Ok(())
    }
}

impl Decoder for SubscribeCodec {
    type Item = SubscribeRequest;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<SubscribeRequest>, Status> {
        SubscribeRequest::decode(from)
            .map(Some)
            .map_err(|err| Status::invalid_argument(format!("the request is invalid: {err}")))
    }
}
