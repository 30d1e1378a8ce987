//! Rounds as arguments of their script, and what the script answers.

use std::collections::BTreeMap;

use event::Time;
use stats::Addition;
use stats::limit::WindowTake;

use super::batch::{ScriptArguments, ScriptForms, ScriptKeys, WriteTarget, flow_of};
use super::form::MergeForm;
use super::message_pack::MessagePackWriter;
use super::name::NameCodec;
use crate::remote::{ExactLimitBatch, ExactLimitRequest, PriorReading, TIME_MAX};

/// The time for which a partition remembers the last round of a node that asks no more, in milliseconds. Nothing is sent
/// again after as long as a call may take.
pub(super) const BATCH_TTL: i64 = 10 * 60_000;
/// From here on scripts cannot count.
const COUNT_MAX: u64 = 1 << 53;

/// The call of a round; an error names the request that cannot be made.
pub(super) fn batch(names: &NameCodec, round: &ExactLimitBatch) -> Result<ScriptArguments, &'static str> {
    let (mut forms, mut keys) = (ScriptForms::default(), ScriptKeys::default());
    keys.place(names.exact_batch(round.partition, &round.owner));
    let mut places = Vec::with_capacity(round.asks.len());
    for ExactLimitRequest { cell, .. } in round.asks.iter() {
        let key = keys.place(names.cell(round.partition, cell));
        places.push(WriteTarget { form: forms.place(&cell.form, true), key });
    }
    let mut pack = MessagePackWriter::default();
    pack.array(5);
    pack.count(round.number);
    pack.time(round.horizon);
    pack.integer(BATCH_TTL);
    forms.pack(&mut pack);
    pack.array(round.asks.len());
    for (ask, at) in round.asks.iter().zip(places) {
        match MergeForm::of(&ask.cell.form.definition.measure) {
            MergeForm::Moment => of_bucket(&mut pack, at, ask)?,
            MergeForm::Ring(_) => of_windows(&mut pack, at, ask)?,
            _ => return Err("only limits are asked"),
        }
    }
    Ok(ScriptArguments { keys: keys.list, argument: pack.into_bytes() })
}

fn of_bucket(
    pack: &mut MessagePackWriter,
    at: WriteTarget,
    ask: &ExactLimitRequest,
) -> Result<(), &'static str> {
    match &ask.add {
        Addition::Nothing => {
            at.begin(pack, 1);
            pack.integer(0);
        }
        Addition::Flow(flow) => flow_of(pack, at, ask.time, *flow),
        _ => return Err("a bucket only flows"),
    }
    Ok(())
}

fn of_windows(
    pack: &mut MessagePackWriter,
    at: WriteTarget,
    ask: &ExactLimitRequest,
) -> Result<(), &'static str> {
    let [Some(window), newer] = ask.windows else { return Err("a limit has a window") };
    let mut begin = |what, values| {
        at.begin(pack, 4 + values);
        pack.integer(what);
        pack.time(ask.time);
        pack.integer(window.0.min(TIME_MAX.0));
        match newer {
            Some(newer) => pack.integer(newer.0.min(TIME_MAX.0)),
            None => pack.none(),
        }
    };
    match &ask.add {
        Addition::Nothing => begin(0, 0),
        Addition::Take(WindowTake { cost, limit, counts_all, interpolated }) => {
            begin(1, 4);
            pack.count(*cost);
            pack.count((*limit).min(COUNT_MAX - 1));
            pack.yes_or_no(*counts_all);
            pack.yes_or_no(*interpolated && newer.is_some());
        }
        Addition::GiveBack { amount, taken } => {
            begin(2, 2);
            pack.count(*amount);
            match taken {
                Some(taken) => pack.time(*taken),
                None => pack.none(),
            }
        }
        Addition::Counters(amounts) => {
            // The script is told each counter once.
            let mut sums = BTreeMap::<u8, u64>::new();
            for (counter, amount) in amounts.iter() {
                let sum = sums.entry(counter).or_default();
                *sum = sum.saturating_add(amount);
            }
            begin(3, 2 * sums.len());
            for (counter, amount) in sums {
                pack.integer(i64::from(counter));
                pack.count(amount);
            }
        }
        _ => return Err("a limit takes another kind of addition"),
    }
    Ok(())
}

/// Returns what the script says of a round of this number and so many asks. Takes anything.
///
/// # Errors
/// Says what is no answer.
pub fn decode(answer: &[u8], number: u64, asks: usize) -> Result<Vec<PriorReading>, &'static str> {
    let text = std::str::from_utf8(answer).map_err(|_| "an answer is no text")?;
    let mut parts = text.split(',');
    let latest = parts.next().and_then(|latest| latest.parse::<u64>().ok());
    match latest {
        Some(latest) if latest == number => {}
        Some(latest) if latest > number => return Err("a later one was made"),
        _ => return Err("it answered another one"),
    }
    // No longer than the text.
    let befores = parts.map(before).collect::<Option<Vec<_>>>().ok_or("what a cell had is no reading")?;
    if befores.len() == asks { Ok(befores) } else { Err("it answered not as much as was asked") }
}

fn before(text: &str) -> Option<PriorReading> {
    match text {
        "-" => return Some(PriorReading::Nothing),
        "!" => return Some(PriorReading::Damaged),
        _ => {}
    }
    let mut numbers = text.split(' ');
    let mut next = || numbers.next().map(|number| number.parse::<i64>().ok());
    let first = next()??;
    let Some(last) = next() else {
        let time = Time(first.div_euclid(1000) + i64::from(first.rem_euclid(1000) > 0));
        return Some(PriorReading::Held { first: time, last: time, values: [first.cast_unsigned(), 0] });
    };
    let [whole, newer] = [next()??, next()??].map(|count| u64::try_from(count).ok());
    let times = [Time(first), Time(last?)];
    let fits =
        numbers.next().is_none() && times.iter().all(|time| time.0.abs_diff(0) <= TIME_MAX.0.abs_diff(0));
    let [first, last] = times;
    let held = PriorReading::Held { first, last, values: [whole?, newer?] };
    (fits && first <= last).then_some(held)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn answers_are_read() {
        let held = |first, last, values| PriorReading::Held { first: Time(first), last: Time(last), values };
        let answer = decode(b"7,-,1 5 9 3,-5 -5 0 0,!,1999,-1001", 7, 6).unwrap();
        let moments = [held(2, 2, [1999, 0]), held(-1, -1, [(-1001i64).cast_unsigned(), 0])];
        let expected =
            [PriorReading::Nothing, held(1, 5, [9, 3]), held(-5, -5, [0, 0]), PriorReading::Damaged];
        assert_eq!(answer, [&expected[..], &moments[..]].concat());
        assert_eq!(decode(b"7", 7, 0), Ok(Vec::new()));
        for wrong in [
            "",
            "8,-",
            "6,-",
            "x,-",
            "7",
            "7,-,-",
            "7,1 2",
            "7,1 2 3",
            "7,5 1 0 0",
            "7,1 2 3 -4",
            "7,1 2 3 4 5",
        ] {
            assert!(decode(wrong.as_bytes(), 7, 1).is_err(), "{wrong}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_answer_makes_it_panic(text in "[0-9 ,!x-]{0,60}", bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            for bytes in [text.as_bytes(), &bytes] {
                if let Ok(befores) = decode(bytes, 1, 2) {
                    prop_assert_eq!(befores.len(), 2);
                }
            }
        }
    }
}
