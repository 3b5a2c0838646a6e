//! An outlet that keeps what it gets.

use std::sync::Mutex;

use quic::{Outlet, Received};

/// Keeps every transaction.
#[derive(Default)]
pub(crate) struct Kept(Mutex<Vec<Received>>);

impl Outlet for Kept {
    fn take(&self, batch: &mut Vec<Received>) {
        self.0.lock().expect("not poisoned").append(batch);
    }
}

impl Kept {
    pub(crate) fn all(&self) -> Vec<Vec<u8>> {
        let kept = self.0.lock().expect("not poisoned");
        kept.iter().map(|received| received.bytes.to_vec()).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().expect("not poisoned").len()
    }

    pub(crate) fn take(&self) -> Vec<Received> {
        std::mem::take(&mut *self.0.lock().expect("not poisoned"))
    }
}
