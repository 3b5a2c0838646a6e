//! One call of a request, and its id.

use std::borrow::Cow;

use crate::error::RpcError;
use crate::params::Params;

/// One call, or why it is not valid.
#[derive(Debug)]
pub enum Call<'a> {
    /// A call that gets a response.
    Method {
        /// Id of the response.
        id: Id,
        /// The name as the client wrote it.
        method: Cow<'a, str>,
        /// Not parsed yet.
        params: Params<'a>,
    },
    /// A call that gets no response.
    Notification,
    /// A call that gets an error.
    Invalid {
        /// Id of the response; null if the object had none.
        id: Id,
        /// Whether the response has `"jsonrpc":"2.0"`.
        versioned: bool,
        /// Why.
        err: RpcError,
    },
}

impl Call<'_> {
    /// Id of the response, if there is one.
    pub fn id(&self) -> Option<&Id> {
        match self {
            Self::Method { id, .. } | Self::Invalid { id, .. } => Some(id),
            Self::Notification => None,
        }
    }
}

/// Id of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Id {
    /// `null`.
    Null,
    /// A whole number from 0.
    Number(u64),
    /// A string.
    Text(String),
}

impl Id {
    /// Appends the id as JSON.
    pub fn write(&self, to: &mut Vec<u8>) {
        match self {
            Self::Null => to.extend_from_slice(b"null"),
            Self::Number(number) => {
                to.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes());
            }
            Self::Text(text) => {
                // A string is always JSON, and a Vec always takes it.
                let _ = serde_json::to_writer(to, text);
            }
        }
    }
}
