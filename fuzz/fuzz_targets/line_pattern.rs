//! Any text is a pattern of Python's that is written over, or none: what is written over compiles or is refused, its
//! necessary form matches wherever it does, and a search ends. The same text is a pattern of dates.
#![no_main]

use event::Time;
use jiff::tz::TimeZone;
use libfuzzer_sys::fuzz_target;
use logs::date::DateContext;
use logs::date_detector::{DateDetector, LastDate};
use logs::line_pattern::LinePattern;
use logs::pattern_set::PatternSet;
use logs::python_regex::LineAnchors;

fuzz_target!(|raw: &[u8]| {
    let text = String::from_utf8_lossy(raw);
    let (pattern, line) = text.split_once('\n').unwrap_or((&text, ""));
    if pattern.len() > 300 {
        return;
    }
    for anchors in [LineAnchors::Text, LineAnchors::Lines] {
        let Ok(compiled) = LinePattern::new(pattern, anchors) else { continue };
        let Ok(found) = compiled.search(line) else { continue };
        let set = PatternSet::new(vec![compiled]);
        // What a set leaves out cannot match.
        assert!(found.is_none() || !set.candidates(line).is_empty());
    }
    if let Ok(dates) = DateDetector::new(&[pattern]) {
        let context = DateContext { now: Time::from_seconds(1_700_000_000), zone: TimeZone::UTC };
        if let Some(found) = dates.find(line, &context, &mut LastDate::default()) {
            assert!(found.taken.1 <= line.len());
        }
    }
});
