//! Any text is a line of a log, in any envelope: it has a date or none, and is an event, nothing, or unread.
#![no_main]

use std::sync::LazyLock;

use event::Time;
use jiff::tz::TimeZone;
use libfuzzer_sys::fuzz_target;
use logs::date::DateContext;
use logs::date_detector::{DateDetector, LastDate};
use logs::log_reader::LogPatterns;
use logs::log_record::{LogFieldMap, LogLineFormat};
use logs::log_stream::{LogEnvelope, LogSettings};
use logs::{envelope, logfmt};

static DATES: LazyLock<DateDetector> = LazyLock::new(|| DateDetector::new(&[]).unwrap());

fuzz_target!(|raw: &[u8]| {
    let text = String::from_utf8_lossy(raw);
    let context = DateContext { now: Time::from_seconds(1_700_000_000), zone: TimeZone::UTC };
    let mut last = LastDate::default();
    for line in text.lines() {
        if let Some(found) = DATES.find(line, &context, &mut last) {
            assert!(
                found.start <= found.taken.0 && found.taken.0 <= found.taken.1 && found.taken.1 <= line.len()
            );
            assert!(line.get(found.taken.0..found.taken.1).is_some());
        }
        let _ = envelope::syslog(line, &DATES, &context, &mut last);
        assert!(logfmt::pairs(line).len() <= logfmt::PAIRS_MAX);
    }
    let all =
        LogEnvelope::NAMES.into_iter().flat_map(|name| LogLineFormat::NAMES.map(|format| (name, format)));
    for (name, format) in all {
        let patterns =
            ["^(?P<mlfid>\\S+) (?:from <HOST>|user <F-USER>.*</F-USER>$)", "(?<!not )denied <F-ID/>"];
        let settings = LogSettings {
            patterns: LogPatterns {
                patterns: patterns.map(str::to_owned).into(),
                grok: vec!["%{IP:ip}.*%{WORD:service}$".to_owned()],
                lines: raw.len() % 4,
                ..LogPatterns::default()
            },
            envelope: LogEnvelope::named(name).unwrap(),
            format: LogLineFormat::named(format).unwrap(),
            map: LogFieldMap::new([("ip", "a.b"), ("user", "u"), ("text", "m")]),
            fields: vec!["c".to_owned(), "service".to_owned()],
            ..LogSettings::default()
        };
        let mut stream = settings.open(TimeZone::UTC).unwrap();
        for line in raw.split(|byte| *byte == b'\n') {
            stream.read(line, context.now);
        }
    }
});
