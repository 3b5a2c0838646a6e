//! Messages in several buffers, so that joining long lists moves few messages.
//!
//! In: buffers, at either end. Out: their messages, those of the first buffer first.
//! Bounds: those of the queue. Two buffers with up to [`COPIED_MAX`] messages together become one, so that there are
//! few.
//! Invariant: no buffer is empty.

use std::collections::VecDeque;

use crate::delivery::Delivery;

/// Messages of two buffers that are copied into one. A larger value takes longer while the queue is locked; a smaller
/// one lets more buffers be allocated.
const COPIED_MAX: usize = 64;

pub(super) struct MessageBuffers<M> {
    buffers: VecDeque<VecDeque<Delivery<M>>>,
    /// Number of messages.
    len: usize,
}

impl<M> MessageBuffers<M> {
    pub(super) fn new() -> Self {
        Self { buffers: VecDeque::new(), len: 0 }
    }

    /// Number of messages.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds the messages of a buffer before the others. Cost: O(1).
    pub(super) fn prepend(&mut self, mut buffer: VecDeque<Delivery<M>>) {
        if buffer.is_empty() {
            return;
        }
        self.len += buffer.len();
        match self.buffers.front_mut() {
            Some(first) if first.len() + buffer.len() <= COPIED_MAX => {
                buffer.append(first);
                *first = buffer;
            }
            _ => self.buffers.push_front(buffer),
        }
    }

    /// Adds the messages of a buffer after the others. Cost: O(1).
    pub(super) fn append(&mut self, mut buffer: VecDeque<Delivery<M>>) {
        if buffer.is_empty() {
            return;
        }
        self.len += buffer.len();
        match self.buffers.back_mut() {
            Some(last) if last.len() + buffer.len() <= COPIED_MAX => last.append(&mut buffer),
            _ => self.buffers.push_back(buffer),
        }
    }

    /// Removes the first message.
    pub(super) fn pop_front(&mut self) -> Option<Delivery<M>> {
        let first = self.buffers.front_mut()?;
        let delivery = first.pop_front();
        if first.is_empty() {
            self.buffers.pop_front();
        }
        self.len -= usize::from(delivery.is_some());
        delivery
    }

    /// Removes the first message that matches. Cost: O(messages).
    pub(super) fn remove_first(
        &mut self,
        is_next: impl Fn(&Delivery<M>) -> bool,
    ) -> Option<Delivery<M>> {
        let position = |buffer: &VecDeque<Delivery<M>>| buffer.iter().position(&is_next);
        let mut buffers = self.buffers.iter().enumerate();
        let (number, index) =
            buffers.find_map(|(number, buffer)| Some((number, position(buffer)?)))?;
        let buffer = &mut self.buffers[number];
        let delivery = buffer.remove(index);
        if buffer.is_empty() {
            self.buffers.remove(number);
        }
        self.len -= usize::from(delivery.is_some());
        delivery
    }

    /// Moves the messages that match to the end of another buffer, in order. Cost: O(messages).
    pub(super) fn extract(
        &mut self,
        to: &mut VecDeque<Delivery<M>>,
        is_extracted: impl Fn(&Delivery<M>) -> bool,
    ) {
        for buffer in &mut self.buffers {
            let before = buffer.len();
            extract(buffer, to, &is_extracted);
            self.len -= before - buffer.len();
        }
        self.buffers.retain(|buffer| !buffer.is_empty());
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Delivery<M>> {
        self.buffers.iter().flatten()
    }
}

/// Moves the messages of a buffer that match to the end of another one, in order. Cost: O(messages).
pub(super) fn extract<M>(
    from: &mut VecDeque<Delivery<M>>,
    to: &mut VecDeque<Delivery<M>>,
    is_extracted: impl Fn(&Delivery<M>) -> bool,
) {
    if !from.iter().any(&is_extracted) {
        return;
    }
    let (mut extracted, others): (VecDeque<_>, VecDeque<_>) =
        std::mem::take(from).into_iter().partition(&is_extracted);
    *from = others;
    to.append(&mut extracted);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Position;
    use crate::ids::SubscriptionId;

    fn messages(numbers: std::ops::Range<u64>) -> VecDeque<Delivery<()>> {
        let delivery = |sequence| Delivery {
            sequence,
            subscription: SubscriptionId(sequence % 2),
            body: (),
            bytes: 1,
            at: Position(sequence),
            conflates: false,
        };
        numbers.map(delivery).collect()
    }

    fn sequences(buffers: &MessageBuffers<()>) -> Vec<u64> {
        buffers.iter().map(|delivery| delivery.sequence).collect()
    }

    #[test]
    fn short_buffers_are_joined_and_long_ones_are_not_moved() {
        let mut buffers = MessageBuffers::new();
        buffers.append(messages(10..20));
        buffers.append(VecDeque::new());
        buffers.append(messages(20..64));
        buffers.prepend(messages(0..10));
        assert_eq!((buffers.buffers.len(), buffers.len()), (1, COPIED_MAX));
        buffers.append(messages(64..1_000));
        buffers.append(messages(1_000..1_001));
        assert_eq!(buffers.buffers.len(), 3);
        assert_eq!(sequences(&buffers), (0..1_001).collect::<Vec<u64>>());
        for number in 0..1_001 {
            let first = buffers.pop_front().expect("it has one");
            assert_eq!((first.sequence, buffers.len()), (number, 1_000 - number as usize));
        }
        assert!(buffers.pop_front().is_none() && buffers.buffers.is_empty());
    }

    #[test]
    fn messages_are_removed_from_any_buffer() {
        let mut buffers = MessageBuffers::new();
        buffers.append(messages(0..COPIED_MAX as u64));
        buffers.append(messages(100..101));
        let removed = buffers.remove_first(|delivery| delivery.sequence >= 100);
        assert_eq!(removed.map(|delivery| delivery.sequence), Some(100));
        assert_eq!((buffers.buffers.len(), buffers.len()), (1, COPIED_MAX));
        let mut odd = VecDeque::new();
        buffers.extract(&mut odd, |delivery| delivery.subscription == SubscriptionId(1));
        assert_eq!((odd.len(), buffers.len()), (COPIED_MAX / 2, COPIED_MAX / 2));
        assert!(sequences(&buffers).iter().all(|sequence| sequence % 2 == 0));
        buffers.extract(&mut odd, |_| true);
        assert!(buffers.is_empty() && buffers.buffers.is_empty());
        assert!(buffers.remove_first(|_| true).is_none());
    }
}
