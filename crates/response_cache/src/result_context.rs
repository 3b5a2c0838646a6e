//! The text around a value that says at which slot it is true, for results that have one.
//!
//! Shape: two words, and `Copy`. Its text is the same for all results of an API, apart from the slot.
//! Not here: the envelope of JSON-RPC around both (the server).

use ledger::Slot;

/// The text of a context: `{`, its members and `"value":`. The value and `}` follow.
#[derive(Debug)]
pub struct ContextFrame {
    before_slot: Vec<u8>,
    after_slot: Vec<u8>,
}

impl ContextFrame {
    /// Creates a frame from the text before the slot, and the text between the slot and the value.
    pub fn new(before_slot: impl Into<Vec<u8>>, after_slot: impl Into<Vec<u8>>) -> Self {
        Self { before_slot: before_slot.into(), after_slot: after_slot.into() }
    }

    /// Returns the context of a value that is true at `slot`.
    pub fn at(&'static self, slot: Slot) -> ResultContext {
        ResultContext { slot, frame: self }
    }
}

/// The context of the value of one result.
#[derive(Clone, Copy, Debug)]
pub struct ResultContext {
    slot: Slot,
    frame: &'static ContextFrame,
}

impl ResultContext {
    /// Returns the slot at which the value is true.
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// Returns this context at another slot.
    pub fn at(self, slot: Slot) -> Self {
        Self { slot, ..self }
    }

    /// Passes the text before the value to `read`, in parts.
    pub fn with_parts_before<T>(&self, read: impl FnOnce([&[u8]; 3]) -> T) -> T {
        let mut slot = itoa::Buffer::new();
        let slot = slot.format(self.slot).as_bytes();
        read([&self.frame.before_slot, slot, &self.frame.after_slot])
    }

    /// Appends the text before the value.
    pub fn write_before(&self, out: &mut Vec<u8>) {
        self.with_parts_before(|parts| parts.iter().for_each(|part| out.extend_from_slice(part)));
    }

    /// Appends the text after the value.
    pub fn write_after(&self, out: &mut Vec<u8>) {
        out.push(b'}');
    }
}
