//! The requests of a subscription: from the bytes of its body to messages.
//!
//! Bounds: `Config::request_bytes_max` for a message, before and after it is decompressed. The buffer of a
//! message is freed with it. (tonic's decoder has buffers for each stream that stay as large as the largest message.)
//! Not here: the bound for all incomplete messages together (`request_body`).

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::body::Body;
use prost::Message;
use tonic::Status;
use yellowstone_grpc_proto::geyser::SubscribeRequest;

use crate::compression::{Compression, HEAD_BYTES};
use crate::request_body::RequestBody;

pub(crate) struct Requests {
    body: RequestBody,
    compression: Option<Compression>,
    bytes_max: usize,
    /// The incomplete message, head included.
    buffer: Vec<u8>,
}

impl Requests {
    pub(crate) fn new(
        body: RequestBody,
        compression: Option<Compression>,
        bytes_max: usize,
    ) -> Self {
        Self { body, compression, bytes_max, buffer: Vec::new() }
    }

    /// The next request; `None` after the last.
    pub(crate) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<SubscribeRequest, Status>>> {
        loop {
            if let Some((is_compressed, message)) = self.take_message()? {
                return Poll::Ready(Some(self.decode(is_compressed, message)));
            }
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(frame) => {
                    if let Ok(data) = frame?.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                None if self.buffer.is_empty() => return Poll::Ready(None),
                None => {
                    let status = Status::internal("the requests end within a message");
                    return Poll::Ready(Some(Err(status)));
                }
            }
        }
    }

    /// A message that is complete, and whether it is compressed.
    fn take_message(&mut self) -> Result<Option<(bool, Vec<u8>)>, Status> {
        let Some((head, rest)) = self.buffer.split_first_chunk::<HEAD_BYTES>() else {
            return Ok(None);
        };
        let [flag, length @ ..] = *head;
        let length = u32::from_be_bytes(length) as usize;
        if flag > 1 {
            return Err(Status::internal(format!("a request has the flag {flag}, not 0 or 1")));
        }
        if length > self.bytes_max {
            return Err(Status::out_of_range(format!(
                "a request has {length} bytes, at most {} are allowed (grpc.request_bytes_max)",
                self.bytes_max
            )));
        }
        if rest.len() < length {
            return Ok(None);
        }
        let next = self.buffer.split_off(HEAD_BYTES + length);
        let mut message = std::mem::replace(&mut self.buffer, next);
        message.drain(..HEAD_BYTES);
        Ok(Some((flag == 1, message)))
    }

    fn decode(&self, is_compressed: bool, message: Vec<u8>) -> Result<SubscribeRequest, Status> {
        let content = match self.compression {
            _ if !is_compressed => message,
            Some(compression) => compression.decompress(&message, self.bytes_max)?,
            None => return Err(Status::internal("a compressed request without grpc-encoding")),
        };
        SubscribeRequest::decode(&content[..])
            .map_err(|err| Status::invalid_argument(format!("the request is invalid: {err}")))
    }
}
