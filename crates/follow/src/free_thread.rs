//! Frees large values on a thread of its own, so that the writer is soon back at its queue.
//!
//! Input: values that are no longer needed. Output: none.
//! Bounds: [`WAITING_MAX`] values wait. Beyond that the caller frees its own, so memory cannot grow.

use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};

/// Maximum number of queued values: the leftovers of a bank and of the roots that come with it, and those of the next
/// bank.
const WAITING_MAX: usize = 4;

/// The handle of the thread, which ends after the handle is dropped and the queued values are freed.
pub struct FreeThread {
    values: SyncSender<Box<dyn Send>>,
}

impl FreeThread {
    /// Starts the thread.
    pub fn start() -> io::Result<Self> {
        let (values, received) = sync_channel::<Box<dyn Send>>(WAITING_MAX);
        let free = move || received.iter().for_each(drop);
        std::thread::Builder::new().name("follow-free".into()).spawn(free)?;
        Ok(Self { values })
    }

    /// Queues a value for the thread.
    pub fn free(&self, value: impl Send + 'static) {
        // A value that does not fit into the channel is freed here.
        drop(self.values.try_send(Box::new(value)));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Receiver;

    use super::*;

    /// Says on which thread it was freed.
    struct Freed(SyncSender<Option<String>>);

    impl Drop for Freed {
        fn drop(&mut self) {
            let name = std::thread::current().name().map(str::to_owned);
            // The test may have ended.
            let _ = self.0.send(name);
        }
    }

    /// Keeps the thread until the gate is dropped.
    struct Waits {
        entered: SyncSender<()>,
        gate: Receiver<()>,
    }

    impl Drop for Waits {
        fn drop(&mut self) {
            let _ = self.entered.send(());
            let _ = self.gate.recv();
        }
    }

    #[test]
    fn a_value_is_freed_by_the_thread_and_by_the_caller_once_too_many_wait() -> io::Result<()> {
        let (sender, freed) = sync_channel(2 * WAITING_MAX);
        let thread = FreeThread::start()?;
        thread.free(Freed(sender.clone()));
        assert_eq!(freed.recv().ok().flatten().as_deref(), Some("follow-free"));
        let (open, gate) = sync_channel(1);
        let (entered, is_inside) = sync_channel(1);
        thread.free(Waits { entered, gate });
        assert!(is_inside.recv().is_ok());
        for _ in 0..=WAITING_MAX {
            thread.free(Freed(sender.clone()));
        }
        let own = std::thread::current().name().map(str::to_owned);
        assert_eq!(freed.try_recv().ok(), Some(own), "the last one");
        assert!(freed.try_recv().is_err(), "the others wait");
        drop(open);
        for _ in 0..WAITING_MAX {
            assert_eq!(freed.recv().ok().flatten().as_deref(), Some("follow-free"));
        }
        Ok(())
    }
}
