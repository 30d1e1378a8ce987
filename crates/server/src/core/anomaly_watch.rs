//! Anomalies of all pipelines, looked for at most once a minute: hot keys cost a look at every key in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::Anomaly;
use event::{Span, Time};
use parking_lot::Mutex;

/// The time for which what was found is answered.
const KEPT: Span = Span::minutes(1);

/// The anomalies of a time.
#[derive(Debug)]
pub(crate) struct AnomalyReport {
    pub(crate) at: Time,
    pub(crate) found: Vec<Anomaly>,
}

/// The latest anomalies.
#[derive(Debug, Default)]
pub(crate) struct AnomalyWatch {
    latest: Mutex<Option<Arc<AnomalyReport>>>,
    is_looking: AtomicBool,
}

/// The right to look for anomalies, which others wait for or do without.
#[derive(Debug)]
pub(crate) struct AnomalyLook<'w>(&'w AnomalyWatch);

impl Drop for AnomalyLook<'_> {
    fn drop(&mut self) {
        self.0.is_looking.store(false, Ordering::Release);
    }
}

impl AnomalyWatch {
    /// Returns what was found last, if it is young enough, or if somebody looks already.
    pub(crate) fn known(&self, now: Time) -> Result<Arc<AnomalyReport>, Option<AnomalyLook<'_>>> {
        let latest = self.latest.lock().clone();
        let is_young = |report: &AnomalyReport| report.at <= now && now - report.at < KEPT;
        if let Some(report) = latest.as_ref().filter(|report| is_young(report)) {
            return Ok(Arc::clone(report));
        }
        match (self.is_looking.swap(true, Ordering::Acquire), latest) {
            (false, _) => Err(Some(AnomalyLook(self))),
            (true, Some(report)) => Ok(report),
            (true, None) => Err(None),
        }
    }

    /// Returns what was found last, however old it is.
    pub(crate) fn latest(&self) -> Option<Arc<AnomalyReport>> {
        self.latest.lock().clone()
    }

    /// Keeps what was found.
    pub(crate) fn keep(&self, at: Time, found: Vec<Anomaly>) -> Arc<AnomalyReport> {
        let report = Arc::new(AnomalyReport { at, found });
        *self.latest.lock() = Some(Arc::clone(&report));
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_looks_and_others_get_what_there_is() {
        let watch = AnomalyWatch::default();
        let minute = |minutes: i64| Time::from_seconds(1_000_000 + 60 * minutes);
        let look = watch.known(minute(0)).unwrap_err().expect("nobody looks yet");
        assert!(watch.known(minute(0)).unwrap_err().is_none(), "somebody looks, and nothing is known yet");
        watch.keep(minute(0), Vec::new());
        drop(look);
        assert_eq!(watch.known(minute(0)).unwrap().at, minute(0));
        let look = watch.known(minute(1)).unwrap_err().expect("it is too old");
        assert_eq!(watch.known(minute(1)).unwrap().at, minute(0), "another looks");
        drop(look);
        assert!(watch.known(minute(-1)).is_err(), "the clock was set back");
    }
}
