//! Requests to servers with the module `tollhouse`, which keeps the cells of a partition in a few tables: what is asked of
//! them, and what they answer. See `crates/cells` for the payloads.

use std::collections::HashMap;
use std::sync::Arc;

use cells::TableForm;
use cells::command::TableCommand;
use cells::request::{self, BareName, CellPlace, PLACES_MAX, RequestWriter};
use event::{Kind, Shingle, Span, Time};
use parking_lot::Mutex;
use redis::{Cmd, Value, cmd};
use stats::{Addition, Measure};

use super::exact_limit::BATCH_TTL;
use super::message_pack::clamped;
use super::name::{CellName, NameCodec};
use super::{batch::NUMBER_TTL, sighting};
use crate::remote::{
    CellChange, CellForm, CellImage, ExactLimitBatch, MarkClaim, Partition, PartitionCount, PartitionRead,
    RemoteCell, SketchHalf, WriteBatch,
};

/// Tables of a partition, by the bits of a shingle after those of the partition. A part of the layout: it never changes. Each
/// is a key that the server looks for in every command; one alone would be moved and copied in longer pieces.
pub(super) const TABLES: u8 = 4;
/// The number of forms from which on all are forgotten, to be compiled anew.
const FORMS_MAX: usize = 1024;

/// A form as requests say it.
#[derive(Debug)]
struct KnownForm {
    /// The form itself, so that its address means it and no other.
    form: Arc<CellForm>,
    field: Vec<u8>,
}

/// Makes requests.
#[derive(Debug)]
pub(super) struct TableCodec {
    forms: Mutex<HashMap<usize, Arc<KnownForm>>>,
    partition_bits: u32,
}

/// The table of a shingle in its partition.
fn table_of(shingle: Shingle, partition_bits: u32) -> u8 {
    let bits = TABLES.trailing_zeros();
    (shingle.0.checked_shl(partition_bits).unwrap_or(0) >> (64 - bits)) as u8
}

/// The forms of one request, and its keys.
struct RequestParts<'a> {
    codec: &'a TableCodec,
    names: &'a NameCodec,
    partition: Partition,
    forms: Vec<Arc<KnownForm>>,
    keys: Vec<Vec<u8>>,
    tables: [Option<u16>; TABLES as usize],
}

impl<'a> RequestParts<'a> {
    fn new(
        codec: &'a TableCodec,
        names: &'a NameCodec,
        partition: Partition,
        keys: Vec<Vec<u8>>,
    ) -> RequestParts<'a> {
        RequestParts { codec, names, partition, forms: Vec::new(), keys, tables: [None; TABLES as usize] }
    }

    fn key(&mut self, name: Vec<u8>) -> u16 {
        let at = self.keys.iter().position(|known| *known == name).unwrap_or_else(|| {
            self.keys.push(name);
            self.keys.len() - 1
        });
        at as u16
    }

    fn table(&mut self, shingle: Shingle) -> u16 {
        let table = table_of(shingle, self.codec.partition_bits);
        if let Some(key) = self.tables[usize::from(table % TABLES)] {
            return key;
        }
        self.keys.push(self.names.table(self.partition, table));
        let key = (self.keys.len() - 1) as u16;
        self.tables[usize::from(table % TABLES)] = Some(key);
        key
    }

    fn form(&mut self, form: &Arc<CellForm>, writer: &mut RequestWriter) -> u16 {
        if let Some(at) = self.forms.iter().position(|known| Arc::ptr_eq(&known.form, form)) {
            return at as u16;
        }
        let known = self.codec.known(form);
        writer.form(&known.field);
        self.forms.push(known);
        (self.forms.len() - 1) as u16
    }

    fn place(&mut self, cell: &RemoteCell, writer: &mut RequestWriter) -> Result<CellPlace, &'static str> {
        let definition = &cell.form.definition;
        let is_pair = cell.key.kind.0 & RemoteCell::PAIR != 0;
        if (cell.key.space, cell.key.kind.0 & !RemoteCell::PAIR) != (definition.space, definition.kind.0) {
            return Err("a key is of another kind than its definition");
        }
        Ok(CellPlace {
            form: self.form(&cell.form, writer),
            is_pair,
            table: self.table(cell.key.shingle),
            shingle: cell.key.shingle,
        })
    }

    fn command(self, command: TableCommand, request: Vec<u8>) -> Cmd {
        call(command, &self.keys, &request)
    }
}

fn call(command: TableCommand, keys: &[Vec<u8>], request: &[u8]) -> Cmd {
    let mut call = cmd(command.name());
    keys.iter().for_each(|key| {
        call.arg(key.as_slice());
    });
    // The server's clock.
    call.arg(0).arg(request);
    call
}

impl TableCodec {
    pub(super) fn new(partitions: PartitionCount) -> TableCodec {
        TableCodec { forms: Mutex::default(), partition_bits: partitions.count().trailing_zeros() }
    }

    /// The form as requests say it.
    fn known(&self, form: &Arc<CellForm>) -> Arc<KnownForm> {
        let mut forms = self.forms.lock();
        if let Some(known) = forms.get(&(Arc::as_ptr(form) as usize)) {
            return known.clone();
        }
        let field = TableForm::field_of(form.id, &form.definition);
        let known = Arc::new(KnownForm { form: form.clone(), field });
        if forms.len() >= FORMS_MAX {
            forms.clear();
        }
        forms.insert(Arc::as_ptr(form) as usize, known.clone());
        known
    }

    /// The call of a batch; an error names the change that is not of its form.
    pub(super) fn write(
        &self,
        names: &NameCodec,
        node: &[u8; 16],
        batch: &WriteBatch,
    ) -> Result<Cmd, &'static str> {
        let keys = vec![names.number(batch.partition), names.writer(batch.partition)];
        let mut parts = RequestParts::new(self, names, batch.partition, keys);
        let numbers = (batch.number, batch.previous);
        let mut writer = RequestWriter::write(numbers, node, batch.horizon, NUMBER_TTL.unsigned_abs());
        for write in batch.writes.iter() {
            let place = parts.place(&write.cell, &mut writer)?;
            let measure = &write.cell.form.definition.measure;
            match &write.change {
                CellChange::Merge(words) => writer.merge(place, words),
                CellChange::Unique { pair, time } => {
                    if !measure.has_pairs() {
                        return Err("only an exact distinct count has pairs");
                    }
                    let table = parts.table(*pair);
                    writer.unique(place, (*pair, table), clamped(*time));
                }
                CellChange::Flow { now, flow } => {
                    if !matches!(measure, Measure::Gcra(_)) {
                        return Err("only a bucket flows");
                    }
                    writer.flow(place, clamped(*now), *flow);
                }
            }
        }
        Ok(parts.command(TableCommand::Write, writer.finish()))
    }

    /// The calls of a reading, each of a part of its cells; the first has the places, too.
    pub(super) fn read(&self, names: &NameCodec, read: &PartitionRead) -> Result<Vec<Cmd>, &'static str> {
        let mut calls = Vec::with_capacity(1);
        let (mut cells, mut places) = (read.cells.chunks(PLACES_MAX), Some(&read.places));
        loop {
            let part = cells.next();
            if part.is_none() && !calls.is_empty() {
                return Ok(calls);
            }
            let keys = vec![names.number(read.partition), names.writer(read.partition)];
            let mut parts = RequestParts::new(self, names, read.partition, keys);
            let mut writer = RequestWriter::default();
            for cell in part.unwrap_or_default() {
                let place = parts.place(cell, &mut writer)?;
                writer.cell(place);
            }
            let sketched = places.take().filter(|places| !places.is_empty());
            let request = match sketched {
                None => writer.finish(),
                Some(places) => {
                    let mut key = |half: &SketchHalf| parts.key(names.sketch(read.partition, half));
                    let place = |(half, place): &(SketchHalf, stats::SketchPlace)| {
                        (key(half), key(&sighting::half_before(half)), *place)
                    };
                    let places: Vec<_> = places.iter().map(place).collect();
                    writer.finish_with(&places)
                }
            };
            calls.push(parts.command(TableCommand::Read, request));
        }
    }

    /// The calls of a reading while keys lie apart: one for each table.
    pub(super) fn read_table(
        &self,
        names: &NameCodec,
        partition: Partition,
        cells: &[RemoteCell],
    ) -> Result<Vec<(Vec<usize>, Cmd)>, &'static str> {
        let mut tables = std::collections::BTreeMap::<u8, Vec<usize>>::new();
        for (at, cell) in cells.iter().enumerate() {
            tables.entry(table_of(cell.key.shingle, self.partition_bits)).or_default().push(at);
        }
        let mut calls = Vec::new();
        for list in tables
            .into_values()
            .flat_map(|list| list.chunks(PLACES_MAX).map(<[usize]>::to_vec).collect::<Vec<_>>())
        {
            let mut parts = RequestParts::new(self, names, partition, Vec::new());
            let mut writer = RequestWriter::default();
            for at in &list {
                let place = parts.place(&cells[*at], &mut writer)?;
                writer.cell(place);
            }
            calls.push((list, parts.command(TableCommand::Cells, writer.finish())));
        }
        Ok(calls)
    }

    /// The call for claims of one partition.
    pub(super) fn claim(
        &self,
        names: &NameCodec,
        partition: Partition,
        claims: &[&MarkClaim],
    ) -> Result<Cmd, &'static str> {
        let mut parts = RequestParts::new(self, names, partition, Vec::new());
        let mut writer = RequestWriter::default();
        for claim in claims {
            if !matches!(claim.cell.form.definition.measure, Measure::Once(_)) {
                return Err("only marks of requests are claimed");
            }
            let place = parts.place(&claim.cell, &mut writer)?;
            writer.claim(place, clamped(claim.time), &claim.token);
        }
        Ok(parts.command(TableCommand::Claim, writer.finish()))
    }

    /// The call of a round; an error names the request that cannot be made.
    pub(super) fn take(&self, names: &NameCodec, round: &ExactLimitBatch) -> Result<Cmd, &'static str> {
        let keys = vec![names.exact_batch(round.partition, &round.owner)];
        let mut parts = RequestParts::new(self, names, round.partition, keys);
        let mut writer = RequestWriter::take(round.number, round.horizon, BATCH_TTL.unsigned_abs());
        for ask in round.asks.iter() {
            let fits = matches!(
                (&ask.cell.form.definition.measure, &ask.add),
                (Measure::Windows(_) | Measure::Gcra(_), Addition::Nothing)
                    | (Measure::Gcra(_), Addition::Flow(_))
                    | (
                        Measure::Windows(_),
                        Addition::Take(_) | Addition::GiveBack { .. } | Addition::Counters(_)
                    )
            );
            if !fits {
                return Err("a limit takes another kind of addition");
            }
            let place = parts.place(&ask.cell, &mut writer)?;
            let windows: [Option<Span>; 2] = match ask.cell.form.definition.measure {
                Measure::Gcra(_) => [None; 2],
                _ => ask.windows,
            };
            if !writer.ask(place, clamped(ask.time), windows, &ask.add) {
                return Err("a limit takes another kind of addition");
            }
        }
        Ok(parts.command(TableCommand::Take, writer.finish()))
    }

    /// The call that removes cells of a partition.
    pub(super) fn remove(&self, names: &NameCodec, partition: Partition, cells: &[CellName]) -> Cmd {
        let mut parts = RequestParts::new(self, names, partition, vec![names.writer(partition)]);
        let bare = |CellName { key, form }: &CellName| BareName {
            table: parts.table(key.shingle),
            space: key.space.0,
            kind: key.kind.0 & !RemoteCell::PAIR,
            is_pair: key.kind.0 & RemoteCell::PAIR != 0,
            form: *form,
            shingle: key.shingle.0,
        };
        let bare: Vec<BareName> = cells.iter().map(bare).collect();
        let request = request::remove(&bare);
        parts.command(TableCommand::Remove, request)
    }
}

/// The call that removes what has expired from a table.
pub(super) fn sweep(names: &NameCodec, partition: Partition, table: u8, horizon: Time, steps: u64) -> Cmd {
    call(TableCommand::Sweep, &[names.table(partition, table)], &request::sweep(horizon, steps))
}

/// The call for the names of a table's cells, from where the last answer ended.
pub(super) fn scan(names: &NameCodec, partition: Partition, table: u8, from: &[u8], count: usize) -> Cmd {
    call(TableCommand::Scan, &[names.table(partition, table)], &request::scan(from, count as u64))
}

/// Reads the images that were answered of cells, and the places of those that are no cells of their forms.
pub(super) fn images(
    answer: &[u8],
    cells: &[RemoteCell],
) -> Result<(Vec<Option<CellImage>>, Vec<usize>), &'static str> {
    let (mut images, mut unsound) = (Vec::with_capacity(cells.len()), Vec::new());
    request::read_cells(answer, cells.len(), |at, words| {
        let plan = &cells[at].form.plan;
        let is_cell = |words: &&[u64]| plan.check(words) && plan.times(words).is_some();
        let image = words.filter(is_cell).map(<[u64]>::to_vec);
        if image.is_none() && words.is_some() {
            unsound.push(at);
        }
        images.push(image);
    })?;
    Ok((images, unsound))
}

/// The names that a scan has answered, and where the next begins.
pub(super) fn names_of(value: &Value) -> Result<(Vec<u8>, Vec<CellName>), &'static str> {
    let Value::BulkString(answer) = value else { return Err("no answer of the command that names cells") };
    let (next, names) = request::read_names(answer)?;
    let name = |name: BareName| CellName {
        key: event::Key {
            space: event::Space(name.space),
            kind: Kind(name.kind | if name.is_pair { RemoteCell::PAIR } else { 0 }),
            shingle: Shingle(name.shingle),
        },
        form: name.form,
    };
    Ok((next, names.into_iter().map(name).collect()))
}

/// Reads the oldest and the newest version of requests that a server takes.
pub(super) fn versions(value: &Value) -> Option<(i64, i64)> {
    match value {
        Value::Array(list) => match list.as_slice() {
            [Value::Int(oldest), Value::Int(newest)] => Some((*oldest, *newest)),
            _ => None,
        },
        _ => None,
    }
}
