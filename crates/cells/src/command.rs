//! The commands: what each does with the keys that the server lends it.
//!
//! | command | keys | answer |
//! |---|---|---|
//! | `VERSION` | none | the oldest and the newest version of requests |
//! | `READ` | the node's number, the last writer, sketches, tables | number, writer, cells, places |
//! | `CELLS` | tables | cells |
//! | `WRITE` | the node's number, the last writer, tables | as the script that makes batches |
//! | `CLAIM` | tables | 1 for each mark that is the claim's own |
//! | `TAKE` | the round, tables | as the script that takes |
//! | `SWEEP` | a table | looked at, removed, whether the end was reached |
//! | `SCAN` | a table | where the next begins, and names |
//! | `REMOVE` | the last writer, tables | removed |
//! | `LOAD` | a table | records now there |
//!
//! A request is read as a whole, and all of its keys are looked at, before anything is changed. The work of each is bounded by
//! [`request::PLACES_MAX`], or of a batch by [`request::CHANGES_MAX`], and by the length of a request.

use std::fmt::Write as _;
use std::sync::Arc;

use event::{Shingle, Span, Time};
use stats::bytes::{ByteReader, push_varint};
use stats::limit::GcraOperation;
use stats::{Addition, CellPlan, Measure, ObservationContext, Origin};

use crate::form::{FormRegistry, TableForm};
use crate::leaf::{TableKey, push_words};
use crate::request::{self, BareName, CellPlace, RequestReader, VERSION};
use crate::snapshot::{SnapshotReader, TOKEN_WORDS, TOKENS_MAX};
use crate::table::{CellTable, TableScratch};

/// The time by which cells outlive their end: nodes' clocks differ.
const MARGIN: Span = Span::minutes(1);
/// Records that a batch looks at for what has expired, beside one for each of its changes.
const SWEEP_MORE: usize = 4;
/// Most names of one answer, and most records that one sweep looks at.
const NAMES_MAX: u64 = 4096;
const STEPS_MAX: u64 = 16_384;
/// The longest time for which a number is remembered, in milliseconds.
const TTL_MAX: i64 = 100 * 366 * 86_400_000;
/// The bytes of a line of a sketch.
const LINE_BYTES: usize = 64;

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableCommand {
    /// Tells the versions of requests that are taken.
    Version,
    /// Reads cells.
    Read,
    /// Reads cells alone, of tables that may lie apart from the rest of their partition.
    Cells,
    /// Makes a batch of changes.
    Write,
    /// Leaves marks.
    Claim,
    /// Makes a round of takes.
    Take,
    /// Removes what has expired.
    Sweep,
    /// Names cells.
    Scan,
    /// Removes cells.
    Remove,
    /// Puts a part of a snapshot into a table.
    Load,
}

impl TableCommand {
    /// All of them.
    pub const ALL: [TableCommand; 10] = [
        TableCommand::Version,
        TableCommand::Read,
        TableCommand::Cells,
        TableCommand::Write,
        TableCommand::Claim,
        TableCommand::Take,
        TableCommand::Sweep,
        TableCommand::Scan,
        TableCommand::Remove,
        TableCommand::Load,
    ];

    /// The name under which the server knows it.
    pub fn name(self) -> &'static str {
        match self {
            TableCommand::Version => "tollhouse.version",
            TableCommand::Read => "tollhouse.read",
            TableCommand::Cells => "tollhouse.cells",
            TableCommand::Write => "tollhouse.write",
            TableCommand::Claim => "tollhouse.claim",
            TableCommand::Take => "tollhouse.take",
            TableCommand::Sweep => "tollhouse.sweep",
            TableCommand::Scan => "tollhouse.scan",
            TableCommand::Remove => "tollhouse.remove",
            TableCommand::Load => "tollhouse.load",
        }
    }

    /// Returns true if it changes keys.
    pub fn writes(self) -> bool {
        !matches!(self, TableCommand::Version | TableCommand::Read | TableCommand::Cells | TableCommand::Scan)
    }

    /// Returns true if it may need memory, so that a server without any refuses it.
    pub fn grows(self) -> bool {
        matches!(self, TableCommand::Write | TableCommand::Claim | TableCommand::Take | TableCommand::Load)
    }

    /// The fewest keys that it is given.
    pub fn keys_min(self) -> usize {
        match self {
            TableCommand::Version => 0,
            TableCommand::Read | TableCommand::Write => 2,
            _ => 1,
        }
    }
}

/// An answer to a command.
#[derive(Clone, Debug, PartialEq)]
pub enum CommandReply {
    /// A whole number.
    Integer(i64),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Several.
    List(Vec<CommandReply>),
}

/// Reasons for a command that is refused. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedCommand {
    /// The request cannot be.
    Request(&'static str),
    /// A key holds something else.
    WrongType,
}

impl From<&'static str> for RefusedCommand {
    fn from(why: &'static str) -> RefusedCommand {
        RefusedCommand::Request(why)
    }
}

/// The keys of a command, which differ from one another. A key holds a table, a text, or nothing.
pub trait CommandKeys {
    /// The number of keys.
    fn count(&self) -> usize;

    /// The table of a key; `None` if nothing is there.
    ///
    /// # Errors
    /// If something else is there.
    fn table(&mut self, key: usize) -> Result<Option<&mut CellTable>, RefusedCommand>;

    /// The table of a key, made if nothing is there. To be asked after [`CommandKeys::table`] had no error.
    fn make_table(&mut self, key: usize) -> &mut CellTable;

    /// The text of a key; `None` if nothing is there.
    ///
    /// # Errors
    /// If something else is there.
    fn text(&mut self, key: usize) -> Result<Option<&[u8]>, RefusedCommand>;

    /// Sets the text of a key, until a moment in milliseconds since 1970, or for ever.
    fn set_text(&mut self, key: usize, text: &[u8], until: Option<i64>);

    /// Prolongs the life of a key to a moment in milliseconds since 1970.
    fn keep(&mut self, key: usize, until: i64);

    /// Removes a key.
    fn remove(&mut self, key: usize);
}

/// Does a command at a moment of the server's clock, in milliseconds since 1970. Tables without cells may be left behind.
///
/// # Errors
/// Says why it is refused.
pub fn execute(
    command: TableCommand,
    keys: &mut dyn CommandKeys,
    request: &[u8],
    clock: i64,
    registry: &mut FormRegistry,
) -> Result<CommandReply, RefusedCommand> {
    if keys.count() < command.keys_min() || keys.count() > usize::from(u16::MAX) {
        return Err("a command has too few or too many keys".into());
    }
    match command {
        TableCommand::Version => Ok(CommandReply::List(vec![
            CommandReply::Integer(VERSION.into()),
            CommandReply::Integer(VERSION.into()),
        ])),
        TableCommand::Read => read(keys, request, registry),
        TableCommand::Cells => cells(keys, request, registry),
        TableCommand::Write => write(keys, request, clock, registry),
        TableCommand::Claim => claim(keys, request, registry),
        TableCommand::Take => take(keys, request, clock, registry),
        TableCommand::Sweep => sweep(keys, request, clock),
        TableCommand::Scan => scan(keys, request),
        TableCommand::Remove => remove(keys, request),
        TableCommand::Load => load(keys, request, registry),
    }
}

/// The request of [`TableCommand::Load`]: the head of a snapshot and one of its pieces.
pub fn load_request(head: &[u8], piece: &[u8]) -> Vec<u8> {
    let mut request = vec![VERSION];
    push_varint(&mut request, head.len() as u64);
    request.extend_from_slice(head);
    request.extend_from_slice(piece);
    request
}

fn forms_of(
    reader: &mut RequestReader<'_>,
    registry: &mut FormRegistry,
) -> Result<Vec<Arc<TableForm>>, RefusedCommand> {
    let fields = reader.forms()?;
    Ok(fields.into_iter().map(|field| registry.find(field)).collect::<Result<_, _>>()?)
}

/// The numbers that forms of a request have in the tables that it names.
struct FormNumbers {
    forms: usize,
    numbers: Vec<Option<u16>>,
}

impl FormNumbers {
    /// Finds those of cells that are there.
    fn find(
        keys: &mut dyn CommandKeys,
        forms: &[Arc<TableForm>],
        used: impl Iterator<Item = (u16, u16)>,
    ) -> Result<FormNumbers, RefusedCommand> {
        let mut found = FormNumbers { forms: forms.len(), numbers: vec![None; keys.count() * forms.len()] };
        // So many were looked for already.
        let mut seen = vec![false; found.numbers.len()];
        for (table, form) in used {
            let at = found.at(table, form);
            let Some(is_seen) = seen.get_mut(at).filter(|is_seen| !**is_seen) else { continue };
            *is_seen = true;
            if let Some(table) = keys.table(usize::from(table))? {
                found.numbers[at] = forms.get(usize::from(form)).and_then(|form| table.number_of(form));
            }
        }
        Ok(found)
    }

    /// Gives numbers to those that have none. Tables are made.
    fn give(
        keys: &mut dyn CommandKeys,
        forms: &[Arc<TableForm>],
        used: impl Iterator<Item = (u16, u16)>,
    ) -> Result<FormNumbers, RefusedCommand> {
        let mut given = FormNumbers { forms: forms.len(), numbers: vec![None; keys.count() * forms.len()] };
        let mut wanted = vec![Vec::new(); keys.count()];
        let mut seen = vec![false; given.numbers.len()];
        for (table, form) in used {
            let at = given.at(table, form);
            if let Some(is_seen) = seen.get_mut(at).filter(|is_seen| !**is_seen) {
                *is_seen = true;
                wanted[usize::from(table)].push(form);
            }
        }
        // All are of the right type before one is made.
        for key in (0..wanted.len()).filter(|key| !wanted[*key].is_empty()) {
            keys.table(key)?;
        }
        for (key, wanted) in wanted.iter().enumerate().filter(|(_, wanted)| !wanted.is_empty()) {
            let named = wanted.iter().filter_map(|form| forms.get(usize::from(*form)));
            let numbers = keys.make_table(key).give_numbers(named)?;
            for (form, number) in wanted.iter().zip(numbers) {
                let at = given.at(key as u16, *form);
                given.numbers[at] = Some(number);
            }
        }
        Ok(given)
    }

    fn at(&self, table: u16, form: u16) -> usize {
        usize::from(table) * self.forms + usize::from(form)
    }

    fn key(&self, place: &CellPlace) -> Option<TableKey> {
        let number = self.numbers.get(self.at(place.table, place.form)).copied().flatten()?;
        Some(TableKey::of(place.shingle.0, number, place.is_pair))
    }
}

fn number_of(text: Option<&[u8]>) -> u64 {
    text.and_then(|text| std::str::from_utf8(text).ok()).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn until(clock: i64, ttl: u64) -> i64 {
    clock.saturating_add(i64::try_from(ttl).unwrap_or(TTL_MAX).clamp(1, TTL_MAX))
}

fn expire(words: &mut Vec<u64>, plan: &CellPlan, horizon: Time) {
    if plan.expires(words) <= horizon {
        words.clear();
    }
}

/// The horizon at which tables are swept by who writes: behind that of the batch and the server's clock.
fn swept_at(horizon: Time, clock: i64) -> Option<Time> {
    // At the end of time cells begin anew, and none has expired.
    (horizon < Time(i64::MAX))
        .then(|| Time(horizon.0.min(clock.saturating_mul(1000)).saturating_sub(MARGIN.0)))
}

fn read(
    keys: &mut dyn CommandKeys,
    request: &[u8],
    registry: &mut FormRegistry,
) -> Result<CommandReply, RefusedCommand> {
    let mut reader = RequestReader::new(request)?;
    let (forms, places) = places_of(&mut reader, registry, keys.count())?;
    let mut sketched = Vec::new();
    if !reader.0.0.is_empty() {
        for _ in 0..reader.count(request::PLACES_MAX, 4)? {
            let (now, before) = (reader.below(keys.count())?, reader.below(keys.count())?);
            sketched.push((now, before, reader.varint()?, reader.varint()?));
        }
    }
    reader.end()?;
    let cells = contents(keys, &forms, &places)?;
    let number = keys.text(0)?.unwrap_or(b"0").to_vec();
    let writer = keys.text(1)?.unwrap_or_default().to_vec();
    let mut answers =
        vec![CommandReply::Bytes(number), CommandReply::Bytes(writer), CommandReply::Bytes(cells)];
    if !sketched.is_empty() {
        let mut counts = Vec::with_capacity(sketched.len());
        for (now, before, line, counters) in sketched {
            let mut count = |key: u16| -> Result<u8, RefusedCommand> {
                Ok(keys.text(usize::from(key))?.map_or(0, |text| sightings(text, line, counters)))
            };
            counts.push(count(now)? | count(before)? << 4);
        }
        answers.push(CommandReply::Bytes(counts));
    }
    Ok(CommandReply::List(answers))
}

fn cells(
    keys: &mut dyn CommandKeys,
    request: &[u8],
    registry: &mut FormRegistry,
) -> Result<CommandReply, RefusedCommand> {
    let mut reader = RequestReader::new(request)?;
    let (forms, places) = places_of(&mut reader, registry, keys.count())?;
    reader.end()?;
    contents(keys, &forms, &places).map(CommandReply::Bytes)
}

/// The cells that a request asks for, and their forms.
fn places_of(
    reader: &mut RequestReader<'_>,
    registry: &mut FormRegistry,
    keys: usize,
) -> Result<(Vec<Arc<TableForm>>, Vec<CellPlace>), RefusedCommand> {
    let forms = forms_of(reader, registry)?;
    let count = reader.count(request::PLACES_MAX, 10)?;
    let places = (0..count).map(|_| reader.place(forms.len(), keys)).collect::<Result<_, _>>()?;
    Ok((forms, places))
}

/// The contents of cells: of each its length and its bytes.
fn contents(
    keys: &mut dyn CommandKeys,
    forms: &[Arc<TableForm>],
    places: &[CellPlace],
) -> Result<Vec<u8>, RefusedCommand> {
    let numbers = FormNumbers::find(keys, forms, places.iter().map(|place| (place.table, place.form)))?;
    let mut cells = Vec::with_capacity(places.len() * 12);
    for place in places {
        let table = keys.table(usize::from(place.table))?;
        match numbers.key(place).and_then(|key| table?.content(key)) {
            Some(content) => {
                push_varint(&mut cells, content.len() as u64);
                cells.extend_from_slice(content);
            }
            None => cells.push(0),
        }
    }
    Ok(cells)
}

/// The number of sightings of a place: the least of its four counters, which have four bits each.
fn sightings(text: &[u8], line: u64, counters: u64) -> u8 {
    let start = usize::try_from(line).ok().and_then(|line| line.checked_mul(LINE_BYTES));
    let count = |part: u64| {
        let place = 32 * part + (counters >> (5 * part) & 31);
        let at = start?.checked_add((place / 2) as usize)?;
        let octet = text.get(at)?;
        Some(if place.is_multiple_of(2) { octet >> 4 } else { octet & 15 })
    };
    (0..4).map(|part| count(part).unwrap_or(0)).min().unwrap_or(0)
}

enum TableChange<'a> {
    Merge(&'a [u8]),
    Unique(Shingle, u16, Time),
    Flow(Time, GcraOperation),
}

fn write(
    keys: &mut dyn CommandKeys,
    request: &[u8],
    clock: i64,
    registry: &mut FormRegistry,
) -> Result<CommandReply, RefusedCommand> {
    let mut reader = RequestReader::new(request)?;
    let (number, previous) = (reader.varint()?, reader.varint()?);
    let node: [u8; 16] = reader.array()?;
    let (horizon, ttl) = (Time(reader.zigzag()?), reader.varint()?);
    let answer = |what: i64, number: u64, broken: i64, before: &[u8]| {
        let number = CommandReply::Integer(i64::try_from(number).unwrap_or(i64::MAX));
        let (what, broken) = (CommandReply::Integer(what), CommandReply::Integer(broken));
        CommandReply::List(vec![what, number, broken, CommandReply::Bytes(before.to_vec())])
    };
    keys.text(1)?;
    let has = number_of(keys.text(0)?);
    if has >= number {
        // A write, so that who waits for replicas waits for what was made before, too.
        keys.keep(0, until(clock, ttl));
        return Ok(answer(1, has, 0, &[]));
    }
    // Neither before nor after it: what an ended process of the node sent may have arrived meanwhile.
    if has != previous {
        return Ok(answer(2, has, 0, &[]));
    }
    let forms = forms_of(&mut reader, registry)?;
    let count = reader.count(request::CHANGES_MAX, 11)?;
    let mut changes = Vec::with_capacity(count);
    let mut words = Vec::new();
    for _ in 0..count {
        let place = reader.place(forms.len(), keys.count())?;
        let form = forms.get(usize::from(place.form)).ok_or("a request names what is not there")?;
        let change = match reader.array()? {
            [0u8] => {
                let content = reader.bytes()?;
                words.clear();
                push_words(content, &mut words);
                if !form.plan.check(&words) {
                    return Err("a cell is none of its definition".into());
                }
                TableChange::Merge(content)
            }
            [1] => {
                let (pair, table) =
                    (Shingle(u64::from_le_bytes(reader.array()?)), reader.below(keys.count())?);
                if !form.definition.measure.has_pairs() || place.is_pair {
                    return Err("only an exact distinct count has pairs".into());
                }
                TableChange::Unique(pair, table, reader.time()?)
            }
            [2] => {
                let (now, flow) = (reader.time()?, reader.flow()?);
                if !matches!(form.definition.measure, Measure::Gcra(_)) {
                    return Err("only a bucket flows".into());
                }
                TableChange::Flow(now, flow)
            }
            _ => return Err("a cell does not change so".into()),
        };
        changes.push((place, change));
    }
    reader.end()?;
    let used = changes.iter().flat_map(|(place, change)| {
        let pair = match change {
            TableChange::Unique(_, table, _) => Some((*table, place.form)),
            _ => None,
        };
        [(place.table, place.form)].into_iter().chain(pair)
    });
    let numbers = FormNumbers::give(keys, &forms, used)?;
    let before = keys.text(1)?.unwrap_or_default().to_vec();
    let said = number.to_string();
    keys.set_text(0, said.as_bytes(), Some(until(clock, ttl)));
    keys.set_text(1, &[&node[..], said.as_bytes()].concat(), None);
    let mut scratch = TableScratch::default();
    let mut touched = vec![0usize; keys.count()];
    for (place, change) in &changes {
        let (Some(form), Some(key)) = (forms.get(usize::from(place.form)), numbers.key(place)) else {
            continue;
        };
        let plan = &form.plan;
        let mut amount = 1;
        if let TableChange::Unique(pair, table, time) = change {
            let pair = CellPlace { shingle: *pair, table: *table, is_pair: true, ..*place };
            let Some(key) = numbers.key(&pair) else { continue };
            touched[usize::from(*table)] += 1;
            let is_fresh = keys.make_table(usize::from(*table)).update(key, &mut scratch, |marks| {
                expire(marks, plan, horizon);
                let (is_held, is_kept) = plan.fine(marks, plan.bucket(*time));
                let is_fresh = !is_held && is_kept;
                if is_fresh {
                    plan.add(marks, *time, [(0, 1)]);
                }
                is_fresh
            });
            amount = u64::from(is_fresh);
        }
        touched[usize::from(place.table)] += 1;
        keys.make_table(usize::from(place.table)).update(key, &mut scratch, |cell| {
            expire(cell, plan, horizon);
            match change {
                TableChange::Merge(content) if cell.is_empty() => push_words(content, cell),
                TableChange::Merge(content) => {
                    words.clear();
                    push_words(content, &mut words);
                    plan.merge(cell, &words);
                }
                TableChange::Unique(_, _, time) => plan.add(cell, *time, [(0, amount)]),
                TableChange::Flow(now, flow) => plan.flow(cell, *now, flow),
            }
        });
    }
    if let Some(horizon) = swept_at(horizon, clock) {
        for (key, changes) in touched.into_iter().enumerate().filter(|(_, changes)| *changes > 0) {
            if let Some(table) = keys.table(key)? {
                table.sweep(horizon, changes + SWEEP_MORE, &mut scratch);
            }
        }
    }
    Ok(answer(0, number, 0, &before))
}

fn claim(
    keys: &mut dyn CommandKeys,
    request: &[u8],
    registry: &mut FormRegistry,
) -> Result<CommandReply, RefusedCommand> {
    let mut reader = RequestReader::new(request)?;
    let forms = forms_of(&mut reader, registry)?;
    let count = reader.count(request::PLACES_MAX, 27)?;
    let mut claims = Vec::with_capacity(count);
    for _ in 0..count {
        let place = reader.place(forms.len(), keys.count())?;
        claims.push((place, reader.time()?, reader.array::<16>()?));
    }
    reader.end()?;
    if !forms.iter().all(|form| matches!(form.definition.measure, Measure::Once(_))) {
        return Err("only marks of requests are claimed".into());
    }
    let numbers =
        FormNumbers::give(keys, &forms, claims.iter().map(|(place, ..)| (place.table, place.form)))?;
    let mut scratch = TableScratch::default();
    let mut answers = Vec::with_capacity(count);
    for (place, time, token) in claims {
        let (Some(form), Some(key)) = (forms.get(usize::from(place.form)), numbers.key(&place)) else {
            continue;
        };
        let plan = &form.plan;
        let middle = plan.bucket(time);
        let [first, second] =
            [0, 8].map(|at| u64::from_le_bytes(std::array::from_fn(|byte| token[at + byte])));
        let table = keys.make_table(usize::from(place.table));
        let mut tokens = Vec::new();
        table.read(key.tokens(), &mut tokens);
        // Zeros at the end of the last one are not kept.
        tokens.resize(tokens.len().next_multiple_of(TOKEN_WORDS), 0);
        let mut kept = Vec::new();
        let mut is_own = None;
        table.update(key, &mut scratch, |cell| {
            let near = [middle.saturating_sub(1), middle, middle.saturating_add(1)];
            if let Some(mark) = near.into_iter().find(|bucket| plan.fine(cell, *bucket).0) {
                let (marks, _) = tokens.as_chunks::<TOKEN_WORDS>();
                let own = marks.iter().any(|[bucket, one, other]| {
                    bucket.cast_signed() == mark && (*one, *other) == (first, second)
                });
                is_own = Some(own);
                return;
            }
            plan.add(cell, time, [(0, 1)]);
            tokens.extend_from_slice(&[middle.cast_unsigned(), first, second]);
            let (marks, _) = tokens.as_chunks::<TOKEN_WORDS>();
            let held = marks.iter().filter(|[bucket, ..]| plan.fine(cell, bucket.cast_signed()).0);
            kept.extend(held.take(TOKENS_MAX).flatten());
        });
        if is_own.is_none() {
            table.update(key.tokens(), &mut scratch, |cell| *cell = kept);
        }
        answers.push(CommandReply::Integer(i64::from(is_own.unwrap_or(true))));
    }
    Ok(CommandReply::List(answers))
}

fn take(
    keys: &mut dyn CommandKeys,
    request: &[u8],
    clock: i64,
    registry: &mut FormRegistry,
) -> Result<CommandReply, RefusedCommand> {
    let mut reader = RequestReader::new(request)?;
    let number = reader.varint()?;
    let (horizon, ttl) = (Time(reader.zigzag()?), reader.varint()?);
    let remembered = keys.text(0)?.unwrap_or_default();
    let latest = remembered.split(|byte| *byte == b',').next();
    if number_of(latest) >= number {
        let remembered = remembered.to_vec();
        // A write, so that who waits for replicas waits for what was made before, too.
        keys.keep(0, until(clock, ttl));
        return Ok(CommandReply::Bytes(remembered));
    }
    let forms = forms_of(&mut reader, registry)?;
    let count = reader.count(request::PLACES_MAX, 13)?;
    let mut plans: Vec<((u16, Vec<Span>), CellPlan)> = Vec::new();
    let mut asks = Vec::with_capacity(count);
    for _ in 0..count {
        let place = reader.place(forms.len(), keys.count())?;
        let (time, windows, add) = (reader.time()?, reader.windows()?, reader.addition()?);
        let form = forms.get(usize::from(place.form)).ok_or("a request names what is not there")?;
        let measure = &form.definition.measure;
        let is_taken = match add {
            Addition::Nothing => true,
            Addition::Flow(_) => matches!(measure, Measure::Gcra(_)),
            _ => matches!(measure, Measure::Windows(_)),
        };
        if !is_taken || place.is_pair {
            return Err("only limits are asked".into());
        }
        let of = (place.form, windows);
        let plan = match plans.iter().position(|(known, _)| *known == of) {
            Some(at) => at,
            None => {
                let plan = CellPlan::over(measure, &of.1).map_err(|_| "a limit has no such windows")?;
                plans.push((of, plan));
                plans.len() - 1
            }
        };
        asks.push((place, time, plan, add));
    }
    reader.end()?;
    let numbers = FormNumbers::give(keys, &forms, asks.iter().map(|(place, ..)| (place.table, place.form)))?;
    let mut scratch = TableScratch::default();
    let mut answer = number.to_string();
    let mut values = Vec::new();
    for (place, time, plan, add) in &asks {
        let (Some((_, plan)), Some(key)) = (plans.get(*plan), numbers.key(place)) else { continue };
        keys.make_table(usize::from(place.table)).update(key, &mut scratch, |cell| {
            expire(cell, plan, horizon);
            let times = plan.times(cell);
            let last = times.map(|(_, last)| last);
            values.clear();
            values.resize(plan.reading(), 0);
            plan.read(cell, add.as_of(*time, last), &mut values);
            if add.adds() {
                let (origin, sightings) = (Origin::Event, 0);
                let context = ObservationContext { time: *time, last, values: &values, origin, sightings };
                plan.apply(cell, &plan.change(add, &context));
            }
            let value = |at: usize| values.get(at).copied().unwrap_or(0);
            let count = |at: usize| value(at).min(i64::MAX.cast_unsigned());
            // A text takes whatever is written to it.
            let _ = match (
                times,
                matches!(forms[usize::from(place.form)].definition.measure, Measure::Gcra(_)),
            ) {
                (None, _) => write!(answer, ",-"),
                (Some(_), true) => write!(answer, ",{}", value(0).cast_signed()),
                (Some((first, last)), false) => {
                    write!(answer, ",{} {} {} {}", first.0, last.0, count(0), count(1))
                }
            };
        });
    }
    keys.set_text(0, answer.as_bytes(), Some(until(clock, ttl)));
    Ok(CommandReply::Bytes(answer.into_bytes()))
}

fn sweep(keys: &mut dyn CommandKeys, request: &[u8], clock: i64) -> Result<CommandReply, RefusedCommand> {
    let mut reader = RequestReader::new(request)?;
    let (horizon, steps) = (Time(reader.zigzag()?), reader.varint()?.min(STEPS_MAX));
    reader.end()?;
    let (Some(table), Some(horizon)) = (keys.table(0)?, swept_at(horizon, clock)) else {
        return Ok(CommandReply::List([0, 0, 1].map(CommandReply::Integer).to_vec()));
    };
    let swept = table.sweep(horizon, steps as usize, &mut TableScratch::default());
    let numbers = [swept.looked as i64, swept.removed as i64, i64::from(swept.is_over)];
    Ok(CommandReply::List(numbers.map(CommandReply::Integer).to_vec()))
}

fn scan(keys: &mut dyn CommandKeys, request: &[u8]) -> Result<CommandReply, RefusedCommand> {
    let mut reader = RequestReader::new(request)?;
    let count = reader.varint()?.clamp(1, NAMES_MAX) as usize;
    let from = match reader.0.0 {
        [] => TableKey::default(),
        bytes => request::cursor(bytes).ok_or("a scan goes on from nowhere")?,
    };
    let (mut next, mut names) = (Vec::new(), Vec::new());
    if let Some(table) = keys.table(0)? {
        let mut last = None;
        for (counted, (key, _)) in table.records_from(from).enumerate() {
            if counted == count {
                // Whatever comes next begins after the last that was named.
                last.and_then(TableKey::next).iter().for_each(|next_key| next_key.push(&mut next));
                break;
            }
            last = Some(key);
            let Some(form) = table.form(key.form()).filter(|_| !key.is_tokens()) else { continue };
            let definition = &form.definition;
            let name = BareName {
                table: 0,
                space: definition.space.0,
                kind: definition.kind.0,
                is_pair: key.is_pair(),
                form: form.id,
                shingle: key.shingle,
            };
            request::push_name(&mut names, &name);
        }
    }
    let mut answer = Vec::with_capacity(names.len() + 16);
    push_varint(&mut answer, next.len() as u64);
    answer.extend_from_slice(&next);
    answer.extend_from_slice(&names);
    Ok(CommandReply::Bytes(answer))
}

fn remove(keys: &mut dyn CommandKeys, request: &[u8]) -> Result<CommandReply, RefusedCommand> {
    let mut reader = RequestReader::new(request)?;
    let count = reader.count(request::PLACES_MAX, 18)?;
    let mut names = Vec::with_capacity(count);
    for _ in 0..count {
        let table = reader.below(keys.count())?;
        names.push(request::read_name(&mut reader.0, table).ok_or("a request is torn")?);
    }
    reader.end()?;
    for key in 1..keys.count() {
        keys.table(key)?;
    }
    keys.text(0)?;
    let mut scratch = TableScratch::default();
    let mut removed = 0;
    for name in names {
        let Some(table) = keys.table(usize::from(name.table))? else { continue };
        let is_it = |form: &TableForm| {
            let definition = &form.definition;
            (form.id, definition.space.0, definition.kind.0) == (name.form, name.space, name.kind)
        };
        let numbers: Vec<u16> =
            table.forms().filter(|(_, form)| is_it(form)).map(|(number, _)| number).collect();
        for number in numbers {
            let key = TableKey::of(name.shingle, number, name.is_pair);
            removed += i64::from(table.remove(key, &mut scratch));
        }
    }
    keys.remove(0);
    Ok(CommandReply::Integer(removed))
}

fn load(
    keys: &mut dyn CommandKeys,
    request: &[u8],
    registry: &mut FormRegistry,
) -> Result<CommandReply, RefusedCommand> {
    let mut reader = RequestReader::new(request)?;
    let head = reader.bytes()?;
    let ByteReader(piece) = reader.0;
    // What is torn must change nothing.
    let mut trial = CellTable::default();
    SnapshotReader::begin(head, &mut trial, registry)?.piece(piece, &mut trial)?;
    keys.table(0)?;
    let table = keys.make_table(0);
    SnapshotReader::begin(head, table, registry)?.piece(piece, table)?;
    Ok(CommandReply::Integer(i64::try_from(table.len()).unwrap_or(i64::MAX)))
}
