//! The headers of HTTP with the slot of a response's state, and with the slot that a request requires.
//!
//! A client that sends the highest `hydrant-slot` of a commitment as `hydrant-min-slot` never reads an older state,
//! whichever replica of the node its requests reach.
//! Not here: the wait for a slot ([`crate::SlotWaits`]).

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use ledger::{Commitment, Slot};

/// The slot at which a response is true.
pub const SLOT: HeaderName = HeaderName::from_static("hydrant-slot");
/// The commitment of that slot.
pub const COMMITMENT: HeaderName = HeaderName::from_static("hydrant-commitment");
/// The slot that the state of a request must have reached.
pub const MIN_SLOT: HeaderName = HeaderName::from_static("hydrant-min-slot");

/// Bytes of an invalid value that its error repeats.
const ERROR_VALUE_BYTES_MAX: usize = 40;

/// The value of [`MIN_SLOT`] is not one slot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("hydrant-min-slot is {0:?}: it must be one slot, a number from 0 to {max}", max = Slot::MAX)]
pub struct InvalidMinSlot(String);

/// The slot of a state, and its commitment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateSlot {
    pub(crate) slot: Slot,
    pub(crate) commitment: Commitment,
}

impl StateSlot {
    pub(crate) fn write(self, headers: &mut HeaderMap) {
        headers.insert(SLOT, slot_value(self.slot));
        headers.insert(COMMITMENT, HeaderValue::from_static(commitment_name(self.commitment)));
    }
}

/// Returns the slot that a request requires, if it names one.
pub(crate) fn read_min_slot(headers: &HeaderMap) -> Result<Option<Slot>, InvalidMinSlot> {
    let mut values = headers.get_all(MIN_SLOT).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().unwrap_or_default();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let slot = text.parse().ok().filter(|_| is_number && values.next().is_none());
    slot.map(Some).ok_or_else(|| {
        let all = headers.get_all(MIN_SLOT).iter().map(HeaderValue::as_bytes);
        let all = all.collect::<Vec<_>>().join(&b", "[..]);
        let shown = &all[..all.len().min(ERROR_VALUE_BYTES_MAX)];
        InvalidMinSlot(String::from_utf8_lossy(shown).into_owned())
    })
}

/// The value of a header with a slot. `HeaderValue::from` allocates twice, this once.
pub fn slot_value(slot: Slot) -> HeaderValue {
    HeaderValue::from_str(itoa::Buffer::new().format(slot))
        .unwrap_or_else(|_| unreachable!("decimal digits"))
}

/// The name of a commitment in the API.
pub fn commitment_name(commitment: Commitment) -> &'static str {
    match commitment {
        Commitment::Processed => "processed",
        Commitment::Confirmed => "confirmed",
        Commitment::Finalized => "finalized",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[&str]) -> Result<Option<Slot>, String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(MIN_SLOT, HeaderValue::from_str(value).expect("a value"));
        }
        read_min_slot(&headers).map_err(|err| err.to_string())
    }

    #[test]
    fn a_minimum_slot_is_one_number() {
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&["0"]), Ok(Some(0)));
        assert_eq!(read(&["18446744073709551615"]), Ok(Some(Slot::MAX)));
        for value in ["-1", "", "+1", "1.0", "0x1", "18446744073709551616"] {
            let err = read(&[value]).expect_err("it is not a slot");
            assert!(err.contains(value) && err.contains("hydrant-min-slot"), "{err}");
        }
        let err = read(&["5", "6"]).expect_err("two slots");
        assert_eq!(
            err,
            "hydrant-min-slot is \"5, 6\": it must be one slot, a number from 0 to 18446744073709551615"
        );
        let long = "9".repeat(1_000);
        assert!(read(&[&long]).expect_err("too large").len() < 200);
    }
}
