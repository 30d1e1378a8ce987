//! Any bytes are a stream of syslog, a heading with lines of the extended log format, or comma-separated values: what is read
//! of them is bounded, whole, and points into them.
#![no_main]

use content::web::w3c_log;
use libfuzzer_sys::fuzz_target;
use logs::csv::CsvColumns;
use sources::LINE_BYTES_MAX;
use sources::path_pattern::PathPattern;
use sources::syslog_frame::SyslogFrames;

/// The messages of a stream that comes in pieces of this size.
fn messages(stream: &[u8], piece: usize) -> Vec<Vec<u8>> {
    let (mut frames, mut found) = (SyslogFrames::default(), Vec::new());
    for bytes in stream.chunks(piece) {
        frames.push(bytes);
        while let Some(message) = frames.next_message() {
            assert!(!message.is_empty() && message.len() <= LINE_BYTES_MAX);
            found.push(message);
        }
    }
    found.extend(frames.last_message());
    found
}

fuzz_target!(|raw: &[u8]| {
    let Some((&first, rest)) = raw.split_first() else { return };
    let text = String::from_utf8_lossy(rest);
    match first % 4 {
        0 => assert_eq!(messages(rest, 1 + usize::from(first) / 4), messages(rest, rest.len().max(1))),
        1 => {
            let (heading, line) = text.split_once('\n').unwrap_or((&text, ""));
            match w3c_log::event(heading, line.as_bytes()) {
                Ok(event) => assert!(event.time.is_some() && event.get("client.ip").is_some()),
                Err(error) => assert!(error.at <= line.len()),
            }
        }
        2 => {
            let (heading, line) = text.split_once('\n').unwrap_or((&text, ""));
            let columns = CsvColumns { names: Vec::new(), separator: b',' };
            let mut bytes = 0;
            let _ = columns.read(heading, line, |_, value| bytes += value.len());
            assert!(bytes <= line.len());
        }
        _ => {
            let _ = PathPattern::new(&text).map(|pattern| pattern.is_glob());
        }
    }
});
