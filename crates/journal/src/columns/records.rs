//! Records of a group, put together again from its columns.

use std::collections::BTreeSet;

use event::Time;
use judge::Action;

use super::cursor::ColumnEntry;
use super::detail::DecisionDetail;
use super::group_columns::{ColumnsOfGroup, FEW};
use super::read_columns::ReadColumns;
use super::reader::ColumnarSegment;
use super::{OWN, ReportDetail, own, pages};
use crate::encoding::{self, RecordReader, RecordWrite};
use crate::format::SegmentError;
use crate::id::RecordId;
use crate::visitor::FactChoice;
use crate::{Record, ReportRecord};

impl ColumnarSegment {
    /// The records of a group whose ids are wanted, with these facts at least.
    pub(crate) fn records(
        &self,
        (number, read): (usize, &mut ReadColumns),
        wanted: impl Fn(RecordId) -> bool,
        facts: FactChoice<'_>,
    ) -> Result<Vec<(RecordId, Record)>, SegmentError> {
        let Some(group) = self.index.groups.get(number) else { return Ok(Vec::new()) };
        let mut bytes = Vec::new();
        let count = self.rows((number, read), wanted, facts, &mut bytes)?;
        let records = Record::decode_all(&bytes);
        if records.len() == count { Ok(records) } else { Err(SegmentError::Damaged(group.at)) }
    }

    /// The records of these ids of a group. Where ids rise evenly, one page of them is read to find the row of one of few.
    pub(crate) fn find_all(
        &self,
        (number, read): (usize, &mut ReadColumns),
        ids: &BTreeSet<RecordId>,
        facts: FactChoice<'_>,
    ) -> Result<Vec<(RecordId, Record)>, SegmentError> {
        let Some(group) = self.index.groups.get(number) else { return Ok(Vec::new()) };
        if group.first > group.last {
            return Ok(Vec::new());
        }
        let few: Vec<RecordId> = ids.range(group.first..=group.last).take(FEW + 1).copied().collect();
        let mut columns = ColumnsOfGroup::new(self, group, &mut *read);
        let rows = match few.len() {
            0 => return Ok(Vec::new()),
            1..=FEW => self.rows_of(&mut columns, &few)?,
            _ => None,
        };
        let Some(rows) = rows else {
            return self.records((number, read), |id| ids.contains(&id), facts);
        };
        let mut bytes = Vec::new();
        if !rows.is_empty() {
            self.put_rows(&mut columns, (&rows, facts), &mut bytes)?;
        }
        let records = Record::decode_all(&bytes);
        if records.len() == rows.len() { Ok(records) } else { Err(SegmentError::Damaged(group.at)) }
    }

    /// The rows of those of some ids that are in a group, rising. `None` where all ids have to be read to tell.
    fn rows_of(
        &self,
        columns: &mut ColumnsOfGroup<'_>,
        ids: &[RecordId],
    ) -> Result<Option<Vec<(usize, RecordId)>>, SegmentError> {
        let group = columns.group();
        let (column, mut memory) = columns.stored(own::ID)?;
        let span = group.last.0.saturating_sub(group.first.0);
        let mut rows = Vec::new();
        for id in ids {
            let before = id.0.saturating_sub(group.first.0);
            let guess = u128::from(before) * u128::from(group.rows) / (u128::from(span) + 1);
            let place = (group.rows as usize, guess as usize);
            match pages::find_text(column, self.form, place, &id.digits(), &mut memory) {
                None => return Ok(None),
                Some(row) => rows.extend(row.map(|row| (row, *id))),
            }
        }
        rows.sort_unstable();
        Ok(Some(rows))
    }

    /// Puts the bytes of these records behind others, as rows have them, and answers how many records they are.
    pub(crate) fn rows(
        &self,
        (number, read): (usize, &mut ReadColumns),
        wanted: impl Fn(RecordId) -> bool,
        facts: FactChoice<'_>,
        into: &mut Vec<u8>,
    ) -> Result<usize, SegmentError> {
        let Some(mut columns) = self.columns_of(number, read) else { return Ok(0) };
        let mut ids = columns.whole(own::ID)?;
        let ids = (0..columns.group().rows as usize)
            .map(|row| Some((row, ids.next().text()?.parse::<RecordId>().ok()?)));
        let rows: Vec<(usize, RecordId)> = ids
            .filter(|row| row.is_none_or(|(_, id)| wanted(id)))
            .collect::<Option<_>>()
            .ok_or_else(|| columns.damaged())?;
        if !rows.is_empty() {
            self.put_rows(&mut columns, (&rows, facts), into)?;
        }
        Ok(rows.len())
    }

    /// Puts the bytes of these rows of a group behind others, in their order. The ids were read before; for all facts all other
    /// columns are, so that damage to any is found.
    fn put_rows(
        &self,
        columns: &mut ColumnsOfGroup<'_>,
        (rows, facts): (&[(usize, RecordId)], FactChoice<'_>),
        into: &mut Vec<u8>,
    ) -> Result<(), SegmentError> {
        let count = columns.group().chunks.len();
        for part in rows.chunks(if rows.len() <= FEW { 1 } else { rows.len() }) {
            let (Some((first, _)), Some((last, _))) = (part.first(), part.last()) else { continue };
            let range = *first..*last + 1;
            let cursors = (0..count).map(|column| {
                let is_wanted = column != own::ID && self.index.layout.is_of(column, facts);
                is_wanted.then(|| columns.cursor(column, range.clone())).transpose()
            });
            let mut cursors = cursors.collect::<Result<Vec<_>, SegmentError>>()?;
            let mut next = range.start;
            for (row, id) in part {
                cursors.iter_mut().flatten().for_each(|column| column.pass(row - next));
                next = row + 1;
                let entries: Vec<ColumnEntry<'_>> = cursors
                    .iter_mut()
                    .map(|column| match column {
                        Some(column) => column.next(),
                        None => ColumnEntry::missing(),
                    })
                    .collect();
                self.row(*id, &entries, into).ok_or_else(|| columns.damaged())?;
            }
        }
        Ok(())
    }

    /// Puts the bytes of a record there. `None` if it is none; that it is one shows when it is decoded.
    fn row(&self, id: RecordId, row: &[ColumnEntry<'_>], into: &mut Vec<u8>) -> Option<()> {
        let owned = |column: usize| row[column].text().map(str::to_owned);
        let time = Time(row[own::TIME].integer()?);
        match row[own::WHAT].bytes()? {
            what if what == super::DECISION.as_bytes() => return self.decision(id, row, into),
            what if super::REPORTS.iter().any(|report| what == report.as_bytes()) => {
                let detail: ReportDetail = postcard::from_bytes(row[own::DETAIL].bytes()?).ok()?;
                let report = ReportRecord {
                    decision: row[own::DECISION].text()?.parse().ok()?,
                    class: owned(own::CLASS).or(detail.class),
                    signal: what == super::SIGNAL.as_bytes(),
                    time,
                    by: detail.by,
                    weight: detail.weight,
                    limited: detail.limited,
                    counters: detail.counters,
                    replaced: detail.replaced,
                };
                Record::Report(report).encode_into(id, into);
            }
            _ => return None,
        }
        Some(())
    }

    fn decision(&self, id: RecordId, row: &[ColumnEntry<'_>], into: &mut Vec<u8>) -> Option<()> {
        let detail = DecisionDetail::read(row[own::DETAIL].bytes()?)?;
        into.put_varint(id.0);
        into.put_varint(encoding::DECISION);
        let version = row[own::VERSION].bytes()?;
        into.put_content(row[own::PIPELINE].bytes()?);
        into.put_content(version);
        match row[own::EVENT_ID].bytes() {
            None => into.push(0),
            Some(name) => {
                into.push(1);
                into.put_content(name);
            }
        }
        into.put_signed(row[own::TIME].integer()?);
        into.put_signed(row[own::ARRIVAL].integer()?);
        into.push(u8::from(row[own::DUPLICATE].truth()?));
        into.put_varint(detail.facts);
        let known = self.index.layout.versions.iter().find(|known| known.version.as_bytes() == version);
        let mut slots = known.map_or(&[][..], |known| &known.slots).iter();
        let mut extras = detail.extras.iter().peekable();
        for fact in 0..detail.facts {
            let slot = slots.next().copied().flatten();
            match (extras.next_if(|(extra, _)| *extra == fact), slot) {
                (Some((_, value)), _) => {
                    into.push(1);
                    into.extend_from_slice(value);
                }
                (None, Some(slot)) => row.get(OWN.len() + slot as usize)?.put(into)?,
                (None, None) => into.push(0),
            }
        }
        if extras.next().is_some() {
            return None;
        }
        into.put_content(detail.keys);
        into.extend_from_slice(&row[own::SCORE].float()?.to_le_bytes());
        into.extend_from_slice(&row[own::PROBABILITY].float()?.to_le_bytes());
        into.put_made(&row[own::ACTION].text()?.parse::<Action>().ok()?);
        for (rules, (count, mut reasons)) in
            [&row[own::RULES], &row[own::SHADOW]].into_iter().zip(detail.reasons)
        {
            let (first, end) = rules.values;
            if (end - first) as u64 != count {
                return None;
            }
            into.put_varint(count);
            for rule in first..end {
                into.put_content(rules.chunk.bytes(rule)?);
                into.extend_from_slice(reasons.passed(RecordReader::pass_reason).ok()?);
            }
        }
        into.extend_from_slice(detail.next);
        into.extend_from_slice(detail.effects);
        Some(())
    }
}
