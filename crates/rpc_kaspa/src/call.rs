//! A call that is a task: what its steps need to reply.

use std::sync::Arc;

use kaspa::ServerError;
use websocket::SessionOutput;

use crate::kaspa_rpc::{KaspaServer, KaspaSession, NoItems};
use crate::message_format::MessageFormat;
use crate::messages::{encode_failure, encode_rejection, to_message};
use crate::request::Request;

/// The output of a step, and the rest of its task.
pub(crate) type StepOutput<T> = (Vec<SessionOutput<NoItems>>, Option<Box<T>>);

/// A request with an id that is handled on the pool.
pub(crate) struct Call {
    pub(crate) server: Arc<KaspaServer>,
    pub(crate) session: Arc<KaspaSession>,
    pub(crate) id: u64,
    pub(crate) request: Request,
}

impl Call {
    pub(crate) fn format(&self) -> MessageFormat {
        self.request.reply.into()
    }

    /// The last step of the task: a reply.
    pub(crate) fn reply<T>(&self, reply: Vec<u8>) -> StepOutput<T> {
        (vec![SessionOutput::Message(to_message(self.format(), reply))], None)
    }

    /// The last step of the task: its parameters have another shape.
    pub(crate) fn reject<T>(&self, error: &ServerError) -> StepOutput<T> {
        self.reply(encode_rejection(self.request.reply, self.id, self.request.operation, error))
    }

    /// The last step of the task: it failed.
    pub(crate) fn fail<T>(&self, text: String) -> StepOutput<T> {
        let error = ServerError::Text(text);
        self.reply(encode_failure(self.request.reply, self.id, self.request.operation, &error))
    }
}
