//! A message as it comes in, within the memory that the node has for bodies.

use std::sync::Arc;

use crate::core::pace::PaceMeter;
use crate::core::shares::{Caller, Share, Shares};

/// The bytes of a message, of which so many are kept as its listener wants and the node has room for.
#[derive(Debug)]
pub(crate) struct MessageBody {
    bytes: Vec<u8>,
    max: usize,
    cut: bool,
    /// Memory for bodies, shared by all that is at work.
    bodies: Arc<Shares>,
    /// The caller that sends it.
    caller: Caller,
    /// The meter of how fast it comes.
    pub(crate) paced: PaceMeter,
    room: Option<Share>,
    /// True if the body found no room, and nothing is kept.
    crowded: bool,
}

impl MessageBody {
    pub(crate) fn new(bodies: Arc<Shares>, caller: Caller, paced: PaceMeter, max: usize) -> MessageBody {
        MessageBody { bytes: Vec::new(), max, cut: false, bodies, caller, paced, room: None, crowded: false }
    }

    /// Adds what came. What is too much is not kept.
    pub(crate) fn push(&mut self, more: &[u8]) {
        let kept = more.len().min(self.max - self.bytes.len());
        self.cut |= kept < more.len();
        if self.crowded || kept == 0 {
            return;
        }
        let length = self.bytes.len() + kept;
        if length > self.bytes.capacity() && !self.grow(length) {
            self.crowded = true;
            self.bytes = Vec::new();
            self.room = None;
            return;
        }
        self.bytes.extend_from_slice(&more[..kept]);
    }

    /// Makes room for so many bytes, and some that may follow. While what is there moves to a larger place, both places are
    /// accounted.
    fn grow(&mut self, length: usize) -> bool {
        let doubled = self.bytes.capacity().saturating_mul(2).min(self.max).max(length);
        let take = |bytes: usize| self.bodies.take(self.caller, bytes).map(|room| (bytes, room));
        let Some((capacity, room)) = take(doubled).or_else(|| take(length)) else { return false };
        let mut larger = Vec::with_capacity(capacity);
        larger.extend_from_slice(&self.bytes);
        (self.bytes, self.room) = (larger, Some(room));
        true
    }

    /// Returns whether some of it was not kept because it is too long.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut
    }

    /// Returns whether all that came is kept.
    pub(crate) fn is_whole(&self) -> bool {
        !self.cut && !self.crowded
    }

    /// A message of its own that is a part of this one; no more whole than this is.
    pub(crate) fn part(&self, bytes: &[u8]) -> MessageBody {
        let mut part = MessageBody::new(Arc::clone(&self.bodies), self.caller, self.paced, self.max);
        part.push(bytes);
        part.cut |= self.cut;
        part.crowded |= self.crowded;
        part
    }

    /// Returns the message without what stands before this place.
    pub(crate) fn after(mut self, start: usize) -> MessageBody {
        self.bytes.drain(..start.min(self.bytes.len()));
        self
    }

    /// Returns who has sent it.
    pub(crate) fn caller(&self) -> Caller {
        self.caller
    }

    /// Returns what is kept. Empty where there was no room.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns what was kept, and its room; `None` where there was none.
    pub(crate) fn finish(self) -> Option<(Vec<u8>, Option<Share>)> {
        (!self.crowded).then_some((self.bytes, self.room))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::pace::Pace;

    fn body(bodies: &Arc<Shares>, max: usize) -> MessageBody {
        MessageBody::new(Arc::clone(bodies), Caller::Local, Pace::UNBOUNDED.body(), max)
    }

    #[test]
    fn a_long_message_is_cut() {
        let bodies = Arc::new(Shares::for_anybody(100));
        let mut body = body(&bodies, 10);
        body.push(b"123456");
        assert!(!body.is_cut());
        body.push(b"7890ab");
        body.push(b"cd");
        assert!(body.is_cut());
        assert_eq!((body.bytes(), bodies.free()), (&b"1234567890"[..], 90));
        let (bytes, room) = body.finish().unwrap();
        assert_eq!(bytes, b"1234567890");
        drop(room);
        assert_eq!(bodies.free(), 100);
    }

    /// All memory is accounted that a message takes, also what stands ready for more of it.
    #[test]
    fn what_is_allocated_is_accounted() {
        let bodies = Arc::new(Shares::for_anybody(1 << 20));
        let mut body = body(&bodies, 1 << 18);
        for _ in 0..300 {
            body.push(&[b'a'; 1000]);
            assert_eq!(body.bytes.capacity(), (1 << 20) - bodies.free());
        }
        let body = body.after((1 << 18) - 3);
        assert_eq!((body.bytes(), body.is_cut()), (&b"aaa"[..], true));
        drop(body);
        assert_eq!(bodies.free(), 1 << 20);
    }

    #[test]
    fn without_room_nothing_is_kept() {
        let bodies = Arc::new(Shares::for_anybody(8));
        let mut first = body(&bodies, 100);
        first.push(b"12345");
        let mut second = body(&bodies, 100);
        second.push(b"123");
        second.push(b"4");
        assert_eq!((second.bytes(), bodies.free()), (&b""[..], 3), "its room is free again");
        second.push(b"1");
        assert!(second.finish().is_none());
        assert!(first.finish().is_some());
    }
}
