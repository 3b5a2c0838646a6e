//! The labels of a call: its method, where it was executed, and how it ended.

use cpu_pool::Class;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MethodLabel(pub(super) u16);

/// The place where a call was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExecutionPath {
    /// On the thread that polls the socket.
    Inline,
    /// From the response cache, or with the result of another request that was being computed.
    Cached,
    /// On the CPU pool, by its class.
    Pool(Class),
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With a result.
    Succeeded,
    /// With an error of this code.
    Refused(i64),
    /// With an incomplete response: the client disconnected, or the deadline passed after the first byte was sent.
    Truncated,
}

pub(super) const EXECUTION_PATHS: usize = 5;

/// Number of labels that are not a method's: [`MethodLabel::other`] and [`MethodLabel::none`].
pub(super) const NOT_METHODS: u16 = 2;

/// Number of error codes with their own counter: those of JSON-RPC, then Agave's from -32001 down, then all others,
/// then truncated responses.
pub(super) const CODES: usize = 5 + AGAVE_CODES + 2;
const AGAVE_CODES: usize = 21;
const STANDARD_CODES: [i64; 5] = [-32700, -32600, -32601, -32602, -32603];

impl MethodLabel {
    /// The method with this index in the names that [`Metrics::new`] got.
    pub(crate) fn for_method(number: u16) -> Self {
        Self(NOT_METHODS + number)
    }

    /// A method that does not exist.
    pub(crate) fn other() -> Self {
        Self(0)
    }

    /// A body that is not a call, or a batch as a whole.
    pub(crate) fn none() -> Self {
        Self(1)
    }

    pub(super) fn number(self) -> usize {
        usize::from(self.0)
    }
}

impl ExecutionPath {
    pub(super) const ALL: [Self; EXECUTION_PATHS] = [
        Self::Inline,
        Self::Cached,
        Self::Pool(Class::Light),
        Self::Pool(Class::Medium),
        Self::Pool(Class::Heavy),
    ];

    pub(super) fn number(self) -> usize {
        match self {
            Self::Inline => 0,
            Self::Cached => 1,
            Self::Pool(class) => 2 + class.index(),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Cached => "cached",
            Self::Pool(class) => class.name(),
        }
    }
}

impl Outcome {
    pub(super) fn number(self) -> usize {
        let Self::Refused(code) = self else { return CODES - 1 };
        if let Some(at) = STANDARD_CODES.iter().position(|standard| *standard == code) {
            return at;
        }
        match usize::try_from((-32001_i64).saturating_sub(code)) {
            Ok(at) if at < AGAVE_CODES => STANDARD_CODES.len() + at,
            _ => CODES - 2,
        }
    }
}

pub(super) fn code_name(number: usize) -> String {
    match STANDARD_CODES.get(number) {
        Some(code) => code.to_string(),
        None if number == CODES - 1 => "cut".to_owned(),
        None if number == CODES - 2 => "other".to_owned(),
        None => (-32001 - (number - STANDARD_CODES.len()) as i64).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_counted_under_its_own_name() {
        let codes = (-32021..=-32001).chain(STANDARD_CODES);
        for code in codes {
            assert_eq!(code_name(Outcome::Refused(code).number()), code.to_string());
        }
        for code in [0, 1, -32000, -32022, i64::MAX] {
            assert_eq!(code_name(Outcome::Refused(code).number()), "other");
        }
        assert_eq!(code_name(Outcome::Truncated.number()), "cut");
    }
}
