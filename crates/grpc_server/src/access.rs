//! The credentials that a client must send, and the client of a call.

use std::net::IpAddr;
use std::sync::Arc;

use api_keys::{AuthError, LimitReached, Permit};
use authentication::Authenticator;
use clients::ClientId;
use hyper::body::Incoming;
use tonic::Status;
use tonic::codegen::http;

use crate::counters::Event;
use crate::refusal::Refusal;
use crate::server_state::ServerState;
use crate::token::Token;

/// The header with the client's token.
const TOKEN_HEADER: &str = "x-token";

/// The credentials that a client must send.
pub(crate) struct Access {
    /// The `x-token` that all clients share.
    pub(crate) token: Option<Arc<Token>>,
    pub(crate) authenticator: Option<Authenticator>,
}

impl Access {
    /// Returns whether a client needs credentials.
    pub(crate) fn needs_token(&self) -> bool {
        self.token.is_some() || self.authenticator.is_some()
    }

    fn has_token(&self, headers: &http::HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        headers.get(TOKEN_HEADER).is_some_and(|given| token.matches(given.as_bytes()))
    }

    /// Returns the client of a call: its API key if clients have some, or its address.
    ///
    /// Errors: the refusal of a call without valid credentials.
    pub(crate) fn identify(
        &self,
        state: &ServerState,
        request: &http::Request<Incoming>,
        peer: IpAddr,
    ) -> Result<ClientId, Refusal> {
        if !self.has_token(request.headers()) {
            state.counters.record(Event::Unauthenticated);
            return Err(Status::unauthenticated("x-token is missing or wrong").into());
        }
        let address = ClientId::from_ip(peer);
        let Some(authenticator) = &self.authenticator else { return Ok(address) };
        let mut uri = request.uri().clone();
        let found = authenticator.authenticate(&mut uri, request.headers(), Some(peer), address);
        found.map_err(|err| {
            state.counters.record(Event::Unauthenticated);
            let status = match err {
                AuthError::Origin | AuthError::Address => {
                    Status::permission_denied(err.to_string())
                }
                AuthError::Throttled { .. } => Status::resource_exhausted(err.to_string()),
                AuthError::Missing | AuthError::Unknown | AuthError::TooLong => {
                    Status::unauthenticated(err.to_string())
                }
            };
            Refusal { status, delay: authenticator.delay_failure(address) }
        })
    }

    /// Charges a call to the API key of its client, if it has one. Returns the permit of the key for a stream.
    ///
    /// Errors: the refusal of a call that the key may not make, or not now.
    pub(crate) fn admit(
        &self,
        client: ClientId,
        method: &str,
        is_stream: bool,
    ) -> Result<Option<Permit>, Refusal> {
        let Some(authenticator) = &self.authenticator else { return Ok(None) };
        let exhausted = |reached: LimitReached| Refusal {
            status: Status::resource_exhausted(reached.to_string()),
            delay: authenticator.delay_refusal(client),
        };
        if authenticator.denies(client, method) {
            let message = format!("{method} is not available to this client (tiers.deny)");
            return Err(Status::permission_denied(message).into());
        }
        authenticator.admit_call(client, method).map_err(exhausted)?;
        let permit = is_stream.then(|| authenticator.open_stream(client)).transpose();
        permit.map_err(exhausted)
    }
}
