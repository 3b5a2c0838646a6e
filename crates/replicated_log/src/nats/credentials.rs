//! User and password, or token, in the URLs of NATS servers.
//!
//! Why here: `async_nats` parses these parts of a URL and does not send them.
//! Invariant: no error repeats them.

use async_nats::{ConnectOptions, ServerAddr};
use percent_encoding::percent_decode_str;

use crate::error::LogError;

/// The credentials of a connection.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Credentials {
    None,
    Token(String),
    Password { user: String, password: String },
}

impl Credentials {
    /// Returns the credentials of the servers. The client sends the same to each of them, so servers with different ones
    /// are an error; those of one URL count for URLs without any.
    pub(super) fn from_servers(servers: &[ServerAddr]) -> Result<Self, LogError> {
        let mut found = Self::None;
        for server in servers {
            let of_server = Self::from_server(server)?;
            if of_server == Self::None || of_server == found {
                continue;
            }
            if found != Self::None {
                let reason = "they have different users, passwords or tokens";
                return Err(LogError::with_reason("NATS", "use the URLs of the servers", reason));
            }
            found = of_server;
        }
        Ok(found)
    }

    fn from_server(server: &ServerAddr) -> Result<Self, LogError> {
        let decode = |part: &str| {
            let decoded = percent_decode_str(part).decode_utf8();
            decoded.map(|text| text.into_owned()).map_err(|_| {
                let reason = "user or password is not UTF-8";
                LogError::with_reason("NATS", "parse the URLs of the servers", reason)
            })
        };
        Ok(match (server.username(), server.password()) {
            (None, None) => Self::None,
            (Some(token), None) => Self::Token(decode(token)?),
            (user, Some(password)) => {
                let user = decode(user.unwrap_or_default())?;
                Self::Password { user, password: decode(password)? }
            }
        })
    }

    /// Adds the credentials to the options of a connection.
    pub(super) fn apply(self, options: ConnectOptions) -> ConnectOptions {
        match self {
            Self::None => options,
            Self::Token(token) => options.token(token),
            Self::Password { user, password } => options.user_and_password(user, password),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(urls: &[&str]) -> Result<Credentials, LogError> {
        let servers = urls.iter().map(|url| url.parse::<ServerAddr>().expect("a URL"));
        Credentials::from_servers(&servers.collect::<Vec<_>>())
    }

    #[test]
    fn user_password_and_token_are_decoded() {
        let password = |user: &str, password: &str| Credentials::Password {
            user: user.to_owned(),
            password: password.to_owned(),
        };
        let same = ["nats://hydrant:a%40b@n1:4222", "nats://n2:4222", "nats://hydrant:a%40b@n3"];
        assert!(read(&same).expect("credentials") == password("hydrant", "a@b"));
        assert!(
            read(&["tls://t%2Fo@n1"]).expect("a token") == Credentials::Token("t/o".to_owned())
        );
        assert!(read(&["nats://n1", "nats://n2"]).expect("nothing") == Credentials::None);
    }

    #[test]
    fn different_credentials_are_refused_and_not_repeated() {
        let err = read(&["nats://a:secret@n1", "nats://a:other@n2"]).err().expect("an error");
        let text = err.to_string();
        assert!(text.contains("different") && !text.contains("secret"), "{text}");
    }
}
