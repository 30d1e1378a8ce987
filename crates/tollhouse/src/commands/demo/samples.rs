//! The bundled samples, as if they had come in the last days.
//!
//! They are from three decades. A source is a run of samples without a pause of an hour: the mail of one mailing, a minute of
//! a server's log. Each source is moved by one shift, so that what lies between its samples stays as it was, and sources
//! follow one another in their order, the last of them until now.

use event::{Span, Time};
use jiff::Timestamp;

use crate::corpora;
use crate::input::messages::{InputMessage, InputMessageIter};
use crate::message_reader::timed;

/// A sample.
pub(super) enum Sample {
    Mail(Box<InputMessage>),
    Web(Vec<u8>),
}

/// The pause after which another source begins.
const PAUSE: Span = Span::hours(1);
/// The pause between two sources, once they are moved.
const BETWEEN: Span = Span::minutes(30);

/// All samples in the order of their times, the last of which is `now`.
pub(super) fn samples(now: Time) -> Vec<(Time, Sample)> {
    let mail = timed(InputMessageIter::of_mbox("mail.mbox", corpora::MAIL), true).flatten();
    let mail = mail.filter_map(|(message, time)| Some((time?, message)));
    let mail = moved(mail.collect(), now, |mut message, shift| {
        redate(&mut message.stored.bytes, shift);
        Sample::Mail(Box::new(message))
    });
    let web = corpora::WEB.split_inclusive(|byte| *byte == b'\n');
    let web = web.filter_map(|line| Some((content::web::access_log::event(line).ok()?.time?, line)));
    let web = moved(web.collect(), now, |line, shift| Sample::Web(restamped(line, shift)));
    let mut samples: Vec<(Time, Sample)> = mail.into_iter().chain(web).collect();
    samples.sort_by_key(|(time, _)| *time);
    samples
}

/// Moves each source as a whole.
fn moved<T>(
    mut samples: Vec<(Time, T)>,
    now: Time,
    sample: impl Fn(T, Span) -> Sample,
) -> Vec<(Time, Sample)> {
    samples.sort_by_key(|(time, _)| *time);
    let times: Vec<Time> = samples.iter().map(|(time, _)| *time).collect();
    // Access logs have whole seconds.
    let mut end = Time(now.0 - now.0.rem_euclid(Span::seconds(1).0));
    let mut shifts = Vec::with_capacity(times.len());
    let sources: Vec<&[Time]> = times.chunk_by(|before, after| *after - *before < PAUSE).collect();
    for source in sources.into_iter().rev() {
        let (Some(first), Some(last)) = (source.first(), source.last()) else { continue };
        let shift = end - *last;
        end = *first + shift - BETWEEN;
        shifts.extend(source.iter().map(|_| shift));
    }
    let shifted = samples.into_iter().zip(shifts.into_iter().rev());
    shifted.map(|((time, it), shift)| (time + shift, sample(it, shift))).collect()
}

/// Moves the date that a message names, so that it is as old when it comes as it was. One that cannot be read stays.
fn redate(message: &mut Vec<u8>, shift: Span) {
    const NAME: &[u8] = b"date:";
    let mut start = 0;
    for line in message.split_inclusive(|byte| *byte == b'\n') {
        let text = line.trim_ascii_end();
        if text.is_empty() {
            return;
        }
        if text.get(..NAME.len()).is_some_and(|name| name.eq_ignore_ascii_case(NAME)) {
            let place = start + NAME.len()..start + text.len();
            let date = content::mail::message::time(&[text, b"\n\n"].concat());
            if let Some(date) = date.and_then(|date| written(date + shift, RFC_5322)) {
                message.splice(place, format!(" {date}").into_bytes());
            }
            return;
        }
        start += line.len();
    }
}

/// The line of an access log with its time moved.
fn restamped(line: &[u8], shift: Span) -> Vec<u8> {
    let mut line = line.trim_ascii_end().to_vec();
    let place = line.iter().position(|byte| *byte == b'[').zip(line.iter().position(|byte| *byte == b']'));
    let time = content::web::access_log::event(&line).ok().and_then(|event| event.time);
    let time = time.and_then(|time| written(time + shift, COMMON_LOG));
    if let (Some((start, end)), Some(time)) = (place, time) {
        line.splice(start + 1..end, time.into_bytes());
    }
    line
}

const RFC_5322: &str = "%a, %d %b %Y %H:%M:%S +0000";
const COMMON_LOG: &str = "%d/%b/%Y:%H:%M:%S +0000";

fn written(time: Time, format: &str) -> Option<String> {
    Some(Timestamp::from_microsecond(time.0).ok()?.strftime(format).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_seconds(1_800_000_000);

    #[test]
    fn samples_are_of_the_last_days_and_say_so_themselves() {
        let samples = samples(NOW);
        assert_eq!(samples.len(), 254 + 584);
        assert!(samples.is_sorted_by_key(|(time, _)| *time));
        assert!(samples[0].0 > NOW - Span::days(3) && samples.last().unwrap().0 == NOW);
        // How long before it came a message was dated, of those that say it: most of them hours, one of them years.
        let age = |message: &[u8], came: Time| {
            let line = |line: &&[u8]| line.get(..5).is_some_and(|name| name.eq_ignore_ascii_case(b"date:"));
            let mut header =
                message.split(|byte| *byte == b'\n').take_while(|line| !line.trim_ascii_end().is_empty());
            let date = header.find(line)?;
            Some(came - content::mail::message::time(&[date, b"\n\n"].concat())?)
        };
        let bundled = timed(InputMessageIter::of_mbox("mail.mbox", corpora::MAIL), true).flatten();
        let mut ages: Vec<Option<Span>> =
            bundled.filter_map(|(message, time)| Some(age(message.stored.message(), time?))).collect();
        let mut moved = Vec::new();
        for (time, sample) in &samples {
            match sample {
                Sample::Web(line) => {
                    assert_eq!(content::web::access_log::event(line).unwrap().time, Some(*time))
                }
                Sample::Mail(message) => {
                    moved.push(age(message.stored.message(), *time));
                }
            }
        }
        ages.sort_unstable();
        moved.sort_unstable();
        assert_eq!(moved, ages);
    }

    #[test]
    fn what_lies_within_a_source_stays() {
        let at = |seconds: i64| Time::from_seconds(seconds);
        let times = [0, 60, 3_659, 1_000_000, 1_000_001];
        let shifts = parking_lot::Mutex::new(Vec::new());
        let all = moved(times.map(|second| (at(second), ())).to_vec(), NOW, |(), shift| {
            shifts.lock().push(shift);
            Sample::Web(Vec::new())
        });
        let apart: Vec<i64> = all.iter().map(|(time, _)| (*time - NOW).0 / 1_000_000).collect();
        assert_eq!(apart, [-1801 - 3659, -1801 - 3599, -1801, -1, 0]);
        let shifts = shifts.into_inner();
        assert!(shifts[0] == shifts[2] && shifts[3] == shifts[4]);
    }

    #[test]
    fn a_message_is_as_old_as_it_was() {
        let check = |message: &str, expected: &str| {
            let mut bytes = message.as_bytes().to_vec();
            redate(&mut bytes, Span::days(1));
            assert_eq!(String::from_utf8(bytes).unwrap(), expected);
        };
        check(
            "From: a\r\nDATE: Mon, 9 Feb 2004 12:00:00 +0200\r\nX: 1\r\n\r\nDate: x\r\n",
            "From: a\r\nDATE: Tue, 10 Feb 2004 10:00:00 +0000\r\nX: 1\r\n\r\nDate: x\r\n",
        );
        check("Date: yesterday\n\nb", "Date: yesterday\n\nb");
        check(
            "A: b\n\nDate: Mon, 9 Feb 2004 12:00:00 +0200\n",
            "A: b\n\nDate: Mon, 9 Feb 2004 12:00:00 +0200\n",
        );
    }
}
