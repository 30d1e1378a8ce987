//! Requests of nodes: the payload of each command, made and read.
//!
//! ```text
//! payload   version (1 byte) ...   numbers are varints, signed ones zigzag; shingles have 8 bytes
//! forms     count, then a field each (a length and its bytes, see `TableForm::field_of`)
//! place     2 * form + (1 for the mark of a pair), number of the table's key among the command's keys, shingle
//! ```
//!
//! A request is read as a whole before anything is done, so what is torn changes nothing.

use event::{Shingle, Span, Time};
use stats::bytes::{ByteReader, push_varint, push_zigzag};
use stats::limit::{GcraOperation, WindowTake};
use stats::{Addition, CounterAmounts, SketchPlace};

use crate::leaf::{TableKey, content_bytes, push_content};

/// The version of requests that is made and read.
pub const VERSION: u8 = 1;
/// Most cells and places that one request may name: a longer one is cut by who asks.
pub const PLACES_MAX: usize = 1 << 14;
/// Most changes of one batch, which is made as a whole: nodes send what they have for a partition in several before that.
pub const CHANGES_MAX: usize = 1 << 22;
/// Most forms of a request.
pub const FORMS_MAX: usize = 1 << 12;
/// Longest request, in bytes.
pub const BYTES_MAX: usize = 128 << 20;
/// The latest time that is taken, and the earliest is as long before 1970: in the year 2255.
const TIME_MAX: i64 = (1 << 53) - 1;

type Read<T> = Result<T, &'static str>;

const SHORT: &str = "a request is torn";

/// The place of a cell: in which table, and there under which key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellPlace {
    /// The number of the form among those of the request.
    pub form: u16,
    /// True for the mark of a pair of an exact distinct count.
    pub is_pair: bool,
    /// The number of the table's key among the keys of the command.
    pub table: u16,
    /// The shingle.
    pub shingle: Shingle,
}

/// A request that is being written: its places and forms are counted.
#[derive(Debug)]
pub struct RequestWriter {
    head: Vec<u8>,
    forms: Vec<u8>,
    forms_count: u64,
    body: Vec<u8>,
    places: u64,
}

impl Default for RequestWriter {
    fn default() -> RequestWriter {
        RequestWriter { head: vec![VERSION], forms: Vec::new(), forms_count: 0, body: Vec::new(), places: 0 }
    }
}

impl RequestWriter {
    /// Begins a batch of changes: its number, the one before it, its node, the horizon, and for how many milliseconds the
    /// number is remembered.
    pub fn write((number, previous): (u64, u64), node: &[u8; 16], horizon: Time, ttl: u64) -> RequestWriter {
        let mut writer = RequestWriter::default();
        push_varint(&mut writer.head, number);
        push_varint(&mut writer.head, previous);
        writer.head.extend_from_slice(node);
        push_zigzag(&mut writer.head, horizon.0);
        push_varint(&mut writer.head, ttl);
        writer
    }

    /// Begins a round of takes: its number, the horizon, and for how many milliseconds its answer is remembered.
    pub fn take(number: u64, horizon: Time, ttl: u64) -> RequestWriter {
        let mut writer = RequestWriter::default();
        push_varint(&mut writer.head, number);
        push_zigzag(&mut writer.head, horizon.0);
        push_varint(&mut writer.head, ttl);
        writer
    }

    /// Adds a form; forms are numbered from nought.
    pub fn form(&mut self, field: &[u8]) {
        push_varint(&mut self.forms, field.len() as u64);
        self.forms.extend_from_slice(field);
        self.forms_count += 1;
    }

    fn place(&mut self, place: CellPlace) {
        push_varint(&mut self.body, u64::from(place.form) << 1 | u64::from(place.is_pair));
        push_varint(&mut self.body, u64::from(place.table));
        self.body.extend_from_slice(&place.shingle.0.to_le_bytes());
        self.places += 1;
    }

    /// Asks for a cell.
    pub fn cell(&mut self, place: CellPlace) {
        self.place(place);
    }

    /// Adds a change: the cell has seen what these words have.
    pub fn merge(&mut self, place: CellPlace, words: &[u64]) {
        self.place(place);
        self.body.push(0);
        push_varint(&mut self.body, content_bytes(words) as u64);
        push_content(words, &mut self.body);
    }

    /// Adds a change: the owner of an exact distinct count has seen a value, whose mark lies in a table of its own.
    pub fn unique(&mut self, place: CellPlace, (pair, table): (Shingle, u16), time: Time) {
        self.place(place);
        self.body.push(1);
        self.body.extend_from_slice(&pair.0.to_le_bytes());
        push_varint(&mut self.body, u64::from(table));
        push_zigzag(&mut self.body, time.0);
    }

    /// Adds a change of a bucket.
    pub fn flow(&mut self, place: CellPlace, now: Time, flow: GcraOperation) {
        self.place(place);
        self.body.push(2);
        push_zigzag(&mut self.body, now.0);
        push_flow(&mut self.body, flow);
    }

    /// Adds a claim of a mark.
    pub fn claim(&mut self, place: CellPlace, time: Time, token: &[u8; 16]) {
        self.place(place);
        push_zigzag(&mut self.body, time.0);
        self.body.extend_from_slice(token);
    }

    /// Adds a request to a limit; true if it can be one.
    pub fn ask(&mut self, place: CellPlace, time: Time, windows: [Option<Span>; 2], add: &Addition) -> bool {
        self.place(place);
        let body = &mut self.body;
        push_zigzag(body, time.0);
        let windows = windows.iter().flatten();
        body.push(windows.clone().count() as u8);
        windows.for_each(|window| push_zigzag(body, window.0));
        match add {
            Addition::Nothing => body.push(0),
            Addition::Take(WindowTake { cost, limit, counts_all, interpolated }) => {
                body.push(1);
                push_varint(body, *cost);
                push_varint(body, *limit);
                body.push(u8::from(*counts_all) | u8::from(*interpolated) << 1);
            }
            Addition::GiveBack { amount, taken } => {
                body.push(2);
                push_varint(body, *amount);
                body.push(u8::from(taken.is_some()));
                taken.iter().for_each(|taken| push_zigzag(body, taken.0));
            }
            Addition::Counters(amounts) => {
                body.push(3);
                push_varint(body, amounts.iter().count() as u64);
                for (counter, amount) in amounts.iter() {
                    body.push(counter);
                    push_varint(body, amount);
                }
            }
            Addition::Flow(flow) => {
                body.push(4);
                push_flow(body, *flow);
            }
            _ => return false,
        }
        true
    }

    /// The request.
    pub fn finish(self) -> Vec<u8> {
        let mut all = self.head;
        all.reserve_exact(self.forms.len() + self.body.len() + 16);
        push_varint(&mut all, self.forms_count);
        all.extend_from_slice(&self.forms);
        push_varint(&mut all, self.places);
        all.extend_from_slice(&self.body);
        all
    }

    /// The request, with places of sketches behind its cells: each has the numbers of two keys, of the half and of the one
    /// before.
    pub fn finish_with(self, places: &[(u16, u16, SketchPlace)]) -> Vec<u8> {
        let mut all = self.finish();
        push_varint(&mut all, places.len() as u64);
        for (now, before, place) in places {
            push_varint(&mut all, u64::from(*now));
            push_varint(&mut all, u64::from(*before));
            push_varint(&mut all, u64::from(place.line));
            push_varint(&mut all, u64::from(place.counters));
        }
        all
    }
}

/// The request for so many names of a table's cells, from the place on that the last answer has named; empty at first.
pub fn scan(from: &[u8], count: u64) -> Vec<u8> {
    let mut request = vec![VERSION];
    push_varint(&mut request, count);
    request.extend_from_slice(from);
    request
}

/// The request for a look for what has expired at the horizon, at so many cells at most.
pub fn sweep(horizon: Time, steps: u64) -> Vec<u8> {
    let mut request = vec![VERSION];
    push_zigzag(&mut request, horizon.0);
    push_varint(&mut request, steps);
    request
}

/// A name of a cell without its definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BareName {
    /// The number of the table's key among those of the command.
    pub table: u16,
    /// The space of the key.
    pub space: u16,
    /// The kind, without the flag of pairs.
    pub kind: u16,
    /// True for the mark of a pair.
    pub is_pair: bool,
    /// The number of the form.
    pub form: u32,
    /// The shingle.
    pub shingle: u64,
}

/// The request that removes cells.
pub fn remove(names: &[BareName]) -> Vec<u8> {
    let mut request = vec![VERSION];
    push_varint(&mut request, names.len() as u64);
    for name in names {
        push_varint(&mut request, u64::from(name.table));
        push_name(&mut request, name);
    }
    request
}

/// Appends a name, but for its table.
pub(crate) fn push_name(bytes: &mut Vec<u8>, name: &BareName) {
    bytes.extend_from_slice(&name.space.to_le_bytes());
    bytes.extend_from_slice(&name.kind.to_le_bytes());
    bytes.push(u8::from(name.is_pair));
    bytes.extend_from_slice(&name.form.to_le_bytes());
    bytes.extend_from_slice(&name.shingle.to_le_bytes());
}

pub(crate) fn read_name(reader: &mut ByteReader<'_>, table: u16) -> Option<BareName> {
    Some(BareName {
        table,
        space: u16::from_le_bytes(reader.array()?),
        kind: u16::from_le_bytes(reader.array()?),
        is_pair: reader.array::<1>()? == [1],
        form: u32::from_le_bytes(reader.array()?),
        shingle: u64::from_le_bytes(reader.array()?),
    })
}

/// Reads the names that a scan answered, and where the next one begins; empty for nowhere. Takes anything.
///
/// # Errors
/// Says what is no answer.
pub fn read_names(answer: &[u8]) -> Read<(Vec<u8>, Vec<BareName>)> {
    let mut reader = ByteReader(answer);
    let torn = "an answer is torn";
    let length = reader.varint().and_then(|length| usize::try_from(length).ok()).ok_or(torn)?;
    let next = reader.take(length).ok_or(torn)?.to_vec();
    let mut names = Vec::new();
    while !reader.0.is_empty() {
        names.push(read_name(&mut reader, 0).ok_or(torn)?);
    }
    Ok((next, names))
}

/// Reads the cells that were answered: of each its words, in order; none where it is not there. Takes anything.
///
/// # Errors
/// Says what is no answer of so many cells.
pub fn read_cells(answer: &[u8], count: usize, mut each: impl FnMut(usize, Option<&[u64]>)) -> Read<()> {
    let mut reader = ByteReader(answer);
    let mut words = Vec::new();
    for at in 0..count {
        let length = reader.varint().and_then(|length| usize::try_from(length).ok());
        let content = reader.take(length.ok_or("an answer is torn")?).ok_or("an answer is torn")?;
        words.clear();
        crate::leaf::push_words(content, &mut words);
        each(at, (!content.is_empty()).then_some(&words));
    }
    if reader.0.is_empty() { Ok(()) } else { Err("it answered not as many cells as were asked for") }
}

fn push_flow(bytes: &mut Vec<u8>, flow: GcraOperation) {
    let (what, one, other) = match flow {
        GcraOperation::Take { cost, burst, counts_all: false } => (0, cost, burst),
        GcraOperation::Take { cost, burst, counts_all: true } => (1, cost, burst),
        GcraOperation::Back { cost } => (2, cost, 0),
        GcraOperation::Set { ahead } => (3, ahead, 0),
        GcraOperation::Add { cost } => (4, cost, 0),
    };
    bytes.push(what);
    push_zigzag(bytes, one);
    push_zigzag(bytes, other);
}

/// Takes values from the front of a request.
pub(crate) struct RequestReader<'a>(pub(crate) ByteReader<'a>);

impl<'a> RequestReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Read<RequestReader<'a>> {
        if bytes.len() > BYTES_MAX {
            return Err("a request is too long");
        }
        match bytes.split_first() {
            Some((&VERSION, rest)) => Ok(RequestReader(ByteReader(rest))),
            Some(_) => Err("a request is of another version than this module's"),
            None => Err(SHORT),
        }
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        self.0.array().ok_or(SHORT)
    }

    pub(crate) fn varint(&mut self) -> Read<u64> {
        self.0.varint().ok_or(SHORT)
    }

    pub(crate) fn zigzag(&mut self) -> Read<i64> {
        self.0.zigzag().ok_or(SHORT)
    }

    /// A number of things, each of which takes at least so many bytes.
    pub(crate) fn count(&mut self, most: usize, bytes: usize) -> Read<usize> {
        let count = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
        if count > most {
            return Err("a request asks for too much at once");
        }
        if count * bytes > self.0.0.len() { Err(SHORT) } else { Ok(count) }
    }

    /// A number of something of which there are so many.
    pub(crate) fn below(&mut self, bound: usize) -> Read<u16> {
        let number = usize::try_from(self.varint()?).ok().filter(|number| *number < bound);
        number.and_then(|number| u16::try_from(number).ok()).ok_or("a request names what is not there")
    }

    pub(crate) fn time(&mut self) -> Read<Time> {
        let time = self.zigzag()?;
        if (-TIME_MAX..=TIME_MAX).contains(&time) { Ok(Time(time)) } else { Err("a time is out of range") }
    }

    pub(crate) fn bytes(&mut self) -> Read<&'a [u8]> {
        let length = usize::try_from(self.varint()?).map_err(|_| SHORT)?;
        self.0.take(length).ok_or(SHORT)
    }

    /// The fields of forms.
    pub(crate) fn forms(&mut self) -> Read<Vec<&'a [u8]>> {
        (0..self.count(FORMS_MAX, 1)?).map(|_| self.bytes()).collect()
    }

    pub(crate) fn place(&mut self, forms: usize, keys: usize) -> Read<CellPlace> {
        let form = self.varint()?;
        let number = usize::try_from(form >> 1).ok().filter(|number| *number < forms);
        let number = number.ok_or("a request names what is not there")?;
        Ok(CellPlace {
            form: number as u16,
            is_pair: form & 1 == 1,
            table: self.below(keys)?,
            shingle: Shingle(u64::from_le_bytes(self.array()?)),
        })
    }

    pub(crate) fn flow(&mut self) -> Read<GcraOperation> {
        let [what] = self.array()?;
        let (one, other) = (self.zigzag()?, self.zigzag()?);
        Ok(match what {
            0 | 1 => GcraOperation::Take { cost: one, burst: other, counts_all: what == 1 },
            2 => GcraOperation::Back { cost: one },
            3 => GcraOperation::Set { ahead: one },
            4 => GcraOperation::Add { cost: one },
            _ => return Err("a bucket does not do that"),
        })
    }

    pub(crate) fn windows(&mut self) -> Read<Vec<Span>> {
        let [count] = self.array()?;
        if count > 2 {
            return Err("a limit has at most two windows");
        }
        (0..count).map(|_| self.zigzag().map(Span)).collect()
    }

    pub(crate) fn addition(&mut self) -> Read<Addition> {
        let [what] = self.array()?;
        Ok(match what {
            0 => Addition::Nothing,
            1 => {
                let (cost, limit, [flags]) = (self.varint()?, self.varint()?, self.array()?);
                let (counts_all, interpolated) = (flags & 1 != 0, flags & 2 != 0);
                Addition::Take(WindowTake { cost, limit, counts_all, interpolated })
            }
            2 => {
                let (amount, [is_stated]) = (self.varint()?, self.array()?);
                let taken = if is_stated == 1 { Some(self.time()?) } else { None };
                Addition::GiveBack { amount, taken }
            }
            3 => {
                let amount = |reader: &mut Self| -> Read<(u8, u64)> {
                    let [counter] = reader.array()?;
                    Ok((counter, reader.varint()?))
                };
                let count = self.count(256, 2)?;
                let amounts: Read<Vec<(u8, u64)>> = (0..count).map(|_| amount(self)).collect();
                Addition::Counters(amounts?.into_iter().collect::<CounterAmounts>())
            }
            4 => Addition::Flow(self.flow()?),
            _ => return Err("a limit takes another kind of addition"),
        })
    }

    pub(crate) fn end(&self) -> Read<()> {
        if self.0.0.is_empty() { Ok(()) } else { Err("a request is longer than it says") }
    }
}

/// The key from which a scan goes on.
pub(crate) fn cursor(bytes: &[u8]) -> Option<TableKey> {
    let mut reader = ByteReader(bytes);
    TableKey::read(&mut reader).filter(|_| reader.0.is_empty())
}
