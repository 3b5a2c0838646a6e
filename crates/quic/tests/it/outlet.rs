//! An outlet that keeps what it gets.

use std::sync::Mutex;
use std::time::Duration;

use quic::{Outlet, Received};

use crate::sockets::now;

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

    /// Waits for so many: a stream is acknowledged a moment before it is handed on.
    pub(crate) fn wait_for(&self, len: usize) {
        let end = now() + Duration::from_secs(20);
        while self.len() < len {
            assert!(now() < end, "{} of {len} in time", self.len());
            std::thread::yield_now();
        }
    }

    pub(crate) fn take(&self) -> Vec<Received> {
        std::mem::take(&mut *self.0.lock().expect("not poisoned"))
    }
}
