//! The first visit: a link, shown at a start at which nobody could log in, by which the first administrator is made.

use event::{Span, Time};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::core::viewer::secret;

/// The time for which the link opens something.
const LASTS: Span = Span::hours(1);

/// The link's key, as its hash, and the time at which it ends.
struct FirstVisitKey {
    digest: [u8; 32],
    ends: Time,
}

/// The link for the first visit, while there is one.
#[derive(Default)]
pub(crate) struct FirstVisit(Mutex<Option<FirstVisitKey>>);

impl FirstVisit {
    /// Makes the link's key, in place of one from before; `None` without random numbers.
    pub(crate) fn offer(&self, now: Time) -> Option<String> {
        let key = secret()?;
        *self.0.lock() = Some(FirstVisitKey { digest: digest(&key), ends: now + LASTS });
        Some(key)
    }

    /// Returns true if this is the key, and not too old.
    pub(crate) fn opens(&self, key: &str, now: Time) -> bool {
        self.0.lock().as_ref().is_some_and(|known| known.is(key, now))
    }

    /// Takes the key, so that it opens nothing any more; returns false if it is another one, or too old.
    pub(crate) fn take(&self, key: &str, now: Time) -> bool {
        self.0.lock().take_if(|known| known.is(key, now)).is_some()
    }
}

impl FirstVisitKey {
    fn is(&self, key: &str, now: Time) -> bool {
        now < self.ends && bool::from(self.digest.ct_eq(&digest(key)))
    }
}

fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_opens_once_for_an_hour() {
        let (visit, now) = (FirstVisit::default(), Time::from_seconds(1_000_000));
        assert!(!visit.opens("", now) && !visit.take("", now));
        let key = visit.offer(now).unwrap();
        for (other, time) in [("", now), (&key[1..], now), (&*key, now + LASTS)] {
            assert!(!visit.opens(other, time) && !visit.take(other, time), "{other}");
        }
        let late = now + LASTS - Span::seconds(1);
        assert!(visit.opens(&key, late) && visit.take(&key, late));
        assert!(!visit.opens(&key, late) && !visit.take(&key, late));
        let newer = visit.offer(now).unwrap();
        assert!(newer != key && !visit.opens(&key, now) && visit.opens(&newer, now));
    }
}
