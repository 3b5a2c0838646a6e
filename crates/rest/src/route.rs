//! What a route is: a verb, a path, parameters, and which method answers it.
//!
//! The same table is matched against requests, checked against their parameters, and told as OpenAPI.

use serde_json::Value;

use crate::error::Problem;
use crate::input::Args;

/// How a route is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// HEAD, too.
    Get,
    Post,
}

/// One route.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) verb: Verb,
    /// Variables stand in braces, each a whole segment.
    pub(crate) path: &'static str,
    /// Names the operation for those who generate clients.
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) params: &'static [Param],
    pub(crate) body: Body,
    /// Name of the answer's schema: `schema`.
    pub(crate) schema: &'static str,
    pub(crate) answer: Answer,
    /// What is to be called.
    pub(crate) plan: fn(&Args) -> Result<Plan, Problem>,
}

/// Routes of one subject.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) name: &'static str,
    /// First segments of their paths, behind `/v1/`.
    pub(crate) segments: &'static [&'static str],
}

impl Group {
    pub(crate) fn has(&self, route: &Route) -> bool {
        self.segments.contains(&route.path.split('/').nth(2).unwrap_or_default())
    }
}

/// What is called for a request.
#[derive(Debug)]
pub(crate) enum Plan {
    /// A method and its parameters.
    Call(&'static str, Value),
    /// Cheap methods, each under its name in the answer.
    Several(Vec<(&'static str, &'static str, Value)>),
}

/// How what a method answers becomes the answer of a route.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// What stands beside the context.
    State,
    /// The same; its bytes as they are, if asked for.
    Account,
    /// A transaction, or 404. Its bytes as they are, if asked for.
    Transaction,
    /// The block of a slot.
    Block,
    /// A list of signatures becomes a page.
    Signatures,
    /// A signature becomes an object.
    Sent,
    /// Answers of several methods.
    Several,
    /// A transaction's status, waited for.
    Status,
}

impl Answer {
    /// Whether `Accept: application/octet-stream` is understood.
    pub(crate) fn has_raw(&self) -> bool {
        matches!(self, Self::Account | Self::Transaction)
    }
}

/// What a POST brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    None,
    /// An object of the parameters whose place is the body.
    Json,
    /// The same, or a transaction's bytes as they are.
    JsonOrTransaction,
}

/// A parameter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Param {
    pub(crate) name: &'static str,
    pub(crate) place: Place,
    pub(crate) kind: Kind,
    pub(crate) is_required: bool,
    pub(crate) doc: &'static str,
}

/// Where a parameter stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Path,
    Query,
    Body,
}

/// What a parameter can be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// 32 bytes in base58.
    Address,
    /// Addresses: between commas in a query, a list in a body.
    Addresses(Most),
    /// 64 bytes in base58.
    Signature,
    /// A whole number, both ends included.
    Number(u64, u64),
    Bool,
    OneOf(&'static [&'static str]),
    /// What an answer gave; 1 to that many characters of base58.
    Base58(usize),
    /// A transaction.
    Base64,
    /// A list of filters as getProgramAccounts has them.
    Filters,
}

/// How many addresses a list may have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Most {
    /// As the node is configured for lists of accounts.
    Accounts,
    /// That many, whatever the node.
    Fixed(usize),
}

impl Route {
    /// The variables of a path that is this route's.
    pub(crate) fn matches<'p>(&self, path: &'p str) -> Option<Vec<(&'static str, &'p str)>> {
        let (mut given, mut wanted) = (path.split('/'), self.path.split('/'));
        let mut variables = Vec::new();
        loop {
            match (given.next(), wanted.next()) {
                (None, None) => return Some(variables),
                (Some(given), Some(wanted)) => match variable(wanted) {
                    Some(name) => variables.push((name, given)),
                    None if given == wanted => {}
                    None => return None,
                },
                _ => return None,
            }
        }
    }
}

fn variable(segment: &str) -> Option<&str> {
    segment.strip_prefix('{')?.strip_suffix('}')
}
