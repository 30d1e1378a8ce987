//! Doubling the input never more than doubles the cost, over every reader: searched for among inputs that repeat units.
//!
//! Work is counted, not timed: the steps that a budget was charged, and the bytes and calls of the allocator. What
//! neither sees is caught by processor time, with slack that no noise uses up: eight times the input may take thirty-two
//! times as long, where a reader that looks at everything again for each byte takes sixty-four.
//!
//! `TOLLHOUSE_SEARCH_MINUTES=60 cargo test --release -p tollhouse-content --test it cost` searches for an hour.

use std::time::{Duration, Instant};

use content::budget::{Budget, Cancellation};
use content::json;
use content::mail::authentication;
use content::mail::message::{Envelope, features};
use content::mail::{arf, message, spamassassin};
use content::piece::{Normalisation, pieces};
use content::text::phrase::{PhraseEntry, PhraseSet};
use content::text::tokenizer::{Tokenization, tokens};
use content::web::{access_log, link};
use content::worst_case::FAMILIES;
use event::{Time, Value};

use crate::story::Mail;

/// Makes an input of about so many bytes that repeats a unit.
type Make = Box<dyn Fn(&[u8], usize) -> Vec<u8>>;
type Read = Box<dyn Fn(&[u8], &Budget)>;

/// A reader of strangers' bytes.
struct Reader {
    name: &'static str,
    units: &'static [&'static [u8]],
    input: Make,
    read: Read,
}

/// The cost of reading.
#[derive(Clone, Copy, Debug)]
struct Cost {
    steps: u64,
    allocated: u64,
    calls: u64,
}

impl Reader {
    fn cost(&self, input: &[u8]) -> Cost {
        let budget = Budget::of_steps(u64::MAX / 2, &Cancellation::default());
        let allocated = allocation_counter::measure(|| (self.read)(input, &budget));
        Cost { steps: budget.spent(), allocated: allocated.bytes_total, calls: allocated.count_total }
    }

    /// Processor time of the least of some readings.
    fn time(&self, input: &[u8]) -> Duration {
        let once = || {
            let budget = Budget::of_steps(u64::MAX / 2, &Cancellation::default());
            let start = processor_time();
            (self.read)(input, &budget);
            processor_time().saturating_sub(start)
        };
        (0..3).map(|_| once()).min().unwrap_or_default()
    }

    /// Fails if eight times the input cost more than eight times as much, at each of these lengths: a reader that begins to
    /// look only at what is long enough costs more at once, but not for ever.
    fn check(&self, unit: &[u8]) {
        const BYTES: [usize; 3] = [4 << 10, 32 << 10, 256 << 10];
        const TIMES: usize = 8;
        let mut grown = Vec::new();
        for bytes in BYTES {
            let Some(growth) = self.growth(unit, bytes, TIMES) else { return };
            grown.push(growth);
        }
        panic!("{}: {:?}: {}", self.name, String::from_utf8_lossy(unit), grown.join("; "));
    }

    /// The costs of an input and of one that is longer, if it costs more than its length is worth.
    fn growth(&self, unit: &[u8], bytes: usize, times: usize) -> Option<String> {
        let [small, large] = [bytes, times * bytes].map(|bytes| (self.input)(unit, bytes));
        let [less, more] = [&small, &large].map(|input| self.cost(input));
        let costs = format!("{less:?} for {} bytes, then {more:?} for {}", small.len(), large.len());
        // Tables that double cost more at once.
        let is_linear = |less: u64, more: u64, once: u64| more <= 2 * times as u64 * less + once;
        let is_counted_linear = is_linear(less.steps, more.steps, 500_000)
            && is_linear(less.allocated, more.allocated, 1 << 20)
            && is_linear(less.calls, more.calls, 2_000);
        if !is_counted_linear {
            return Some(costs);
        }
        // Four times what it may be, and at least a millisecond: three times in a row.
        let is_slow = || self.time(&large) > 4 * times as u32 * self.time(&small) + Duration::from_millis(1);
        (0..3).all(|_| is_slow()).then(|| format!("{costs}, and takes more and more time"))
    }
}

/// Processor time of this thread.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// A reader of what is not charged to a budget: lines, fields, events.
fn reader(name: &'static str, units: &'static [&'static [u8]], read: impl Fn(&[u8]) + 'static) -> Reader {
    let input = |unit: &[u8], bytes: usize| unit.repeat((bytes / unit.len()).max(1));
    Reader { name, units, input: Box::new(input), read: Box::new(move |bytes, _| read(bytes)) }
}

/// A reader of text.
fn of_text(name: &'static str, units: &'static [&'static [u8]], read: impl Fn(&str) + 'static) -> Reader {
    reader(name, units, move |bytes| read(&String::from_utf8_lossy(bytes)))
}

fn readers() -> Vec<Reader> {
    let messages = FAMILIES.iter().map(|family| {
        let mail = Mail::new();
        Reader {
            name: family.name,
            units: family.units,
            input: Box::new(|unit, bytes| family.message(unit, bytes)),
            read: Box::new(move |raw, budget| {
                features(raw, budget, &mail.envelope, &mail.columns, &mut mail.schema.empty_row());
            }),
        }
    });
    let schema = Mail::new().schema;
    let entry = |phrase: &str| PhraseEntry { class: 0, weight: 1.0, phrase: phrase.into(), expires: None };
    let phrases = ["a", "a a", "aa", "viagra"].map(entry).to_vec();
    let phrases = PhraseSet::new(phrases, 1, true).unwrap();
    const TEXT: &[&[u8]] =
        &[b"a ", b"a", b"a.", b"@", b"a@b.", b"v1agra ", "\u{430}b".as_bytes(), "\u{fdfa}".as_bytes()];
    const FIELDS: &[&[u8]] = &[
        b"Received: from a by b; Thu, 1 Jan 2026 00:00:00 +0000\n",
        b"To: a@b.example\n",
        b"Delivered-To: a\n",
        b"a:\n ",
        b"From \n",
    ];
    let others = [
        reader(
            "log lines",
            &[b"[", b"\"", b"\\", b"[17/May/2015:10:05:03 +0000] ", b"192.0.2.1 ", b"\\x41", b"GET "],
            |line| {
                for line in [
                    line,
                    &[
                        b"192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET /".as_slice(),
                        line,
                        b" HTTP/1.1\" 200 1",
                    ]
                    .concat(),
                ] {
                    let _ = access_log::event(line);
                }
            },
        ),
        reader("JSON logs", &[b"{\"request\":\"", b"\\u0041", b"\"a\":1,", b"[", b"{"], |line| {
            let _ =
                access_log::event(&[b"{\"remote_addr\":\"192.0.2.1\",\"x\":\"".as_slice(), line].concat());
        }),
        reader(
            "JSON events",
            &[b"[", b"{\"a\":", b"\"mail.from\":\"a\",", b"\\u0041", b"1", b" ", b"\"a\":[],"],
            move |bytes| {
                let _ = json::event(bytes, &schema);
                let _ = json::event(&[b"{".as_slice(), bytes].concat(), &schema);
            },
        ),
        reader("envelopes of stored mail", FIELDS, |raw| _ = Envelope::from_headers(raw)),
        reader("times of stored mail", FIELDS, |raw| _ = message::time(raw)),
        reader(
            "reports",
            &[b"--b\n", b"\n--b\nContent-Type: message/rfc822\n\n", b"a=\"b\";", b"\\", b"\n"],
            |raw| {
                let head = b"Content-Type: multipart/report; report-type=feedback-report; boundary=b\n\n";
                let _ = arf::read(&[head.as_slice(), raw].concat());
                let _ = arf::attached(&[head.as_slice(), raw].concat());
                let _ = arf::read(&[b"Content-Type: ".as_slice(), raw].concat());
            },
        ),
        reader("identifiers of reported mail", &[b"Message-ID: <a@b>\n", b"<", b">", b"<a> "], |raw| {
            _ = spamassassin::message_ids(raw)
        }),
        of_text(
            "results of authentication",
            &[b"; spf=pass", b"(", b"; a=b c.d=e", b"\"", b" ", b";", b"="],
            |text| {
                let _ = authentication::parse(&format!("mx.example; {text}"));
                let _ = authentication::parse_arc(&format!("i=1; mx.example; {text}"));
            },
        ),
        of_text("pieces", TEXT, |text| {
            for how in Normalisation::ALL {
                pieces(&Value::from(text), how, &mut |_| {});
                pieces(&Value::List(text.split(' ').map(Into::into).collect()), how, &mut |_| {});
            }
        }),
        of_text("tokens", TEXT, |text| {
            for value in [Value::from(text), Value::List(text.split(' ').map(Into::into).collect())] {
                tokens("a", Some(&value), Tokenization::Text, &mut |_, _| {});
            }
        }),
        of_text("phrases", TEXT, move |text| _ = phrases.search([text], Time::EPOCH)),
        of_text("hosts", &[b"a.", b"[", b"@", b"://", b"\xc3\xa4.", b"xn--"], |text| _ = link::host(text)),
    ];
    messages.chain(others).collect()
}

/// Numbers that look random, from a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % most as u64) as usize
    }

    /// A unit out of those of a reader, and sometimes of another's: some after each other, each some times, with a byte changed.
    fn unit(&mut self, readers: &[Reader], of: usize) -> Vec<u8> {
        let mut unit = Vec::new();
        for _ in 0..=self.below(4) {
            let of = if self.below(8) == 0 { self.below(readers.len()) } else { of };
            let units = readers[of].units;
            let times = 1 + if self.below(3) == 0 { self.below(40) } else { 0 };
            unit.extend(units[self.below(units.len())].repeat(times));
        }
        if self.below(2) == 0 {
            let at = self.below(unit.len());
            const SIGNS: &[u8] = b" \n<>.:@/\\\"';(){}=&-_a0\0\xff";
            unit[at] = SIGNS[self.below(SIGNS.len())];
        }
        unit.truncate(2_048);
        unit
    }
}

#[test]
fn doubling_the_input_never_more_than_doubles_the_cost() {
    let readers = readers();
    let minutes =
        std::env::var("TOLLHOUSE_SEARCH_MINUTES").ok().and_then(|minutes| minutes.parse::<f64>().ok());
    let until = minutes.map(|minutes| Instant::now() + Duration::from_secs_f64(60.0 * minutes));
    for reader in &readers {
        reader.units.iter().for_each(|unit| reader.check(unit));
    }
    // Each search goes on where the seed says, so that one that finds something can be repeated.
    let seed = std::env::var("TOLLHOUSE_SEARCH_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut random = Random(seed);
    let mut searched = 0;
    while until.map_or(searched < readers.len(), |until| Instant::now() < until) {
        let of = searched % readers.len();
        let unit = random.unit(&readers, of);
        readers[of].check(&unit);
        searched += 1;
    }
    println!("searched {searched} units beyond those that are known");
}
