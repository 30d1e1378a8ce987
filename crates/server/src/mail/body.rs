//! A message as it comes in, within the memory that the node has for bodies.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The bytes of a message, of which so many are kept as its listener wants and the node has room for.
#[derive(Debug)]
pub(crate) struct Body {
    bytes: Vec<u8>,
    max: usize,
    cut: bool,
    /// Memory for bodies, shared by all that is at work.
    bodies: Arc<Semaphore>,
    room: Option<OwnedSemaphorePermit>,
    /// There was no room, and nothing is kept.
    crowded: bool,
}

impl Body {
    pub(super) fn new(bodies: Arc<Semaphore>, max: usize) -> Body {
        Body { bytes: Vec::new(), max, cut: false, bodies, room: None, crowded: false }
    }

    /// Adds what came. What is too much is not kept.
    pub(crate) fn push(&mut self, more: &[u8]) {
        let kept = more.len().min(self.max - self.bytes.len());
        self.cut |= kept < more.len();
        if self.crowded || kept == 0 {
            return;
        }
        let permits = u32::try_from(kept).unwrap_or(u32::MAX);
        match Arc::clone(&self.bodies).try_acquire_many_owned(permits) {
            Ok(more) => match &mut self.room {
                Some(room) => room.merge(more),
                None => self.room = Some(more),
            },
            Err(_) => {
                self.crowded = true;
                self.bytes = Vec::new();
                self.room = None;
                return;
            }
        }
        self.bytes.extend_from_slice(&more[..kept]);
    }

    /// Whether some of it was not kept because it is too long.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut
    }

    /// Whether all that came is kept.
    pub(crate) fn is_whole(&self) -> bool {
        !self.cut && !self.crowded
    }

    /// A message of its own that is a part of this one; no more whole than this is.
    pub(crate) fn part(&self, bytes: &[u8]) -> Body {
        let mut part = Body::new(Arc::clone(&self.bodies), self.max);
        part.push(bytes);
        part.cut |= self.cut;
        part.crowded |= self.crowded;
        part
    }

    /// What is kept. Empty where there was no room.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What was kept, and its room; `None` where there was none.
    pub(super) fn finish(self) -> Option<(Vec<u8>, Option<OwnedSemaphorePermit>)> {
        (!self.crowded).then_some((self.bytes, self.room))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut() {
        let bodies = Arc::new(Semaphore::new(100));
        let mut body = Body::new(Arc::clone(&bodies), 10);
        body.push(b"123456");
        assert!(!body.is_cut());
        body.push(b"7890ab");
        body.push(b"cd");
        assert!(body.is_cut());
        assert_eq!((body.bytes(), bodies.available_permits()), (&b"1234567890"[..], 90));
        let (bytes, room) = body.finish().unwrap();
        assert_eq!(bytes, b"1234567890");
        drop(room);
        assert_eq!(bodies.available_permits(), 100);
    }

    #[test]
    fn without_room_nothing_is_kept() {
        let bodies = Arc::new(Semaphore::new(8));
        let mut first = Body::new(Arc::clone(&bodies), 100);
        first.push(b"12345");
        let mut second = Body::new(Arc::clone(&bodies), 100);
        second.push(b"123");
        second.push(b"4");
        assert_eq!((second.bytes(), bodies.available_permits()), (&b""[..], 3), "its room is free again");
        second.push(b"1");
        assert!(second.finish().is_none());
        assert!(first.finish().is_some());
    }
}
