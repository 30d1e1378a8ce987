//! Mail: an RFC 5322 message and its SMTP envelope → an event, and the facts that rules and keys are made of.
//!
//! Reading is best effort, as receivers' programs read: whatever is malformed is read in the way that shows most
//! and named in `mail.defects`. Nothing is fetched or executed, no file is opened, archives are looked into within
//! bounds of their own ([`crate::mail::attachment`]), and no claim of the
//! message about its own origin is believed: what the envelope says is kept apart from what the header says.
//!
//! Everything is bounded: at most [`MESSAGE_BYTES_MAX`] bytes of a message are looked at, [`PARTS_MAX`] leaf
//! parts nested [`DEPTH_MAX`] deep, [`FIELDS_MAX`] header fields of which [`FIELD_BYTES_MAX`] bytes each are
//! parsed, [`TEXT_BYTES_MAX`] bytes of visible text from [`SOURCE_BYTES_MAX`] bytes of encoded text,
//! [`LINKS_MAX`] links, [`ITEMS_MAX`] items of other lists, [`ITEM_BYTES_MAX`] bytes a string. All work is charged to the
//! message's [`Budget`]; what is left out when that ends is said by `mail.cut_short`. Attachments can use up half of
//! it, the sources of texts half of the rest, and pictures what the facts of texts leave: nothing that comes first hides all
//! that follows.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use event::{Event, Facts, Time, Value};
use mail_parser::{Addr, DateTime, HeaderValue, Host};
use memchr::memmem;

use crate::address::{MailAddress, NULL_SENDER};
use crate::budget::Budget;
pub use crate::field::{ITEM_BYTES_MAX, ITEMS_MAX, LINKS_MAX};
use crate::field::{ObfuscationTally, UniqueList, VisibleText, cut, set_list};
use crate::mail::attachment::Attachments;
pub use crate::mail::columns::{EnvelopeColumns, MESSAGE_BYTES_MAX, MailColumns};
use crate::mail::mime::{
    self, Defect, Defects, HeaderField, MailHeader, MimePart, PartRole, TransferEncoding,
};
use crate::mail::test_pattern::TestPattern;
use crate::mail::{header_fingerprint, source};
use crate::network::{PrefixLengths, is_public, network};
use crate::text::{self, name};
use crate::web::link::{self, Link, TextReference};

/// Most leaf parts that are looked at.
pub const PARTS_MAX: usize = mime::PARTS_MAX;
/// Most levels of multiparts and attached messages that are opened.
pub const DEPTH_MAX: usize = mime::DEPTH_MAX;
/// Most header fields that are looked at.
pub const FIELDS_MAX: usize = mime::FIELDS_MAX;
/// Most bytes of one header field that are parsed.
pub const FIELD_BYTES_MAX: usize = mime::FIELD_BYTES_MAX;
/// Most bytes of text parts, still encoded, that are read for text and links.
pub const SOURCE_BYTES_MAX: usize = 512 * 1024;
/// Most bytes of visible text.
pub const TEXT_BYTES_MAX: usize = text::TEXT_BYTES_MAX;
/// Most envelope recipients; RFC 5321 asks servers to take 100, and few take more than 1,000.
pub const RECIPIENTS_MAX: usize = 1_000;
/// Steps of the fields that facts are made of, whatever stands in them.
const HEADER_STEPS: u64 = 30_000;
/// Steps of a byte of a text's source: its encoding, its charset, test patterns.
const STEPS_A_SOURCE_BYTE: u64 = 8;

/// The data of the SMTP session about a message. All of it is optional: callers know more or less.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope {
    /// The client's address.
    pub client_ip: Option<IpAddr>,
    /// The name that the client gave itself.
    pub helo: Option<String>,
    /// The reverse-path; empty or `<>` for the null sender.
    pub sender: Option<String>,
    /// The recipients.
    pub recipients: Vec<String>,
    /// The user who was authenticated.
    pub user: Option<String>,
}

impl Envelope {
    /// Reconstructs the envelope of stored mail: the sender from `Return-Path` (or the mbox line), the recipients
    /// from `Delivered-To` and `X-Original-To`, else `To`, and the client from the topmost `Received` field that
    /// names a public address.
    ///
    /// Only fit for mail that one's own servers stored: everyone can write these fields, and only one's own
    /// server, writing last and on top, makes them true.
    pub fn from_headers(raw: &[u8]) -> Envelope {
        let raw = &raw[..raw.len().min(MESSAGE_BYTES_MAX)];
        let (header, _) = MailHeader::read(raw, &mut Defects::default());
        let mut envelope = Envelope::default();
        for field in header.all("Received").take(ITEMS_MAX) {
            let HeaderValue::Received(received) = field.parse(|stream| stream.parse_received()) else {
                continue;
            };
            let named = match received.from {
                Some(Host::IpAddr(ip)) => Some(ip),
                _ => None,
            };
            let Some(ip) = received.from_ip.or(named).filter(|&ip| is_public(ip)) else { continue };
            envelope.client_ip = Some(ip.to_canonical());
            envelope.helo = received.helo.or(received.from).map(|host| match host {
                Host::Name(name) => cut(&name),
                Host::IpAddr(ip) => ip.to_string(),
            });
            break;
        }
        let mbox = || std::str::from_utf8(header.mbox?).ok()?.split_whitespace().nth(1).map(cut);
        envelope.sender = header.get("Return-Path").map(|field| cut(&field.text())).or_else(mbox);
        for name in ["Delivered-To", "X-Original-To"] {
            for field in header.all(name).take(ITEMS_MAX) {
                let recipient = cut(&field.text());
                if !envelope.recipients.contains(&recipient) {
                    envelope.recipients.push(recipient);
                }
            }
        }
        if envelope.recipients.is_empty() {
            envelope.recipients =
                addresses(header.get("To")).into_iter().map(|(_, address)| address.full).collect();
        }
        envelope
    }
}

/// The event of a message: its envelope as fields named as the [`EnvelopeColumns`], the message as raw. The time
/// is left open: when it arrived is for the caller to say, [`time`] says what a stored message claims.
pub fn event(raw: impl Into<Arc<[u8]>>, envelope: Envelope) -> Event {
    Event { raw: Some(raw.into()), ..envelope_event(envelope) }
}

/// The event of an envelope alone, before its message has come.
pub fn envelope_event(envelope: Envelope) -> Event {
    let mut event = Event::default();
    if let Some(ip) = envelope.client_ip {
        event.push("client.ip", ip);
    }
    if let Some(helo) = envelope.helo {
        event.push("client.helo", helo);
    }
    if let Some(user) = envelope.user {
        event.push("client.user", user);
    }
    if let Some(sender) = envelope.sender {
        let sender = if sender.trim().is_empty() { NULL_SENDER } else { &sender };
        event.push("mail.sender", normal_address(sender));
    }
    if !envelope.recipients.is_empty() {
        let recipients = envelope.recipients.iter().take(RECIPIENTS_MAX);
        let recipients: Vec<String> = recipients.map(|to| normal_address(to)).collect();
        event.push("mail.recipients", recipients);
    }
    event
}

/// The normalised address, or the text as it is where it is none: what was said is not lost.
fn normal_address(text: &str) -> String {
    MailAddress::parse(text).map_or_else(|| cut(text), |address| address.full)
}

/// The time at which a stored message was received: of its topmost `Received` field, else of `Date`, else of its mbox
/// line (taken as UTC). Times before 1980 and after 2100 are none.
pub fn time(raw: &[u8]) -> Option<Time> {
    let raw = &raw[..raw.len().min(MESSAGE_BYTES_MAX)];
    let (header, _) = MailHeader::read(raw, &mut Defects::default());
    let received = || date_of(header.get("Received")?.text().rsplit_once(';')?.1);
    received().or_else(|| date_of(&header.get("Date")?.text())).or_else(|| mbox_time(header.mbox?))
}

fn date_of(text: &str) -> Option<Time> {
    let date = DateTime::parse_rfc822(&format!("{}\n", text.trim()))?;
    // A leap second is a second too; the parser's own check refuses it.
    let valid = date.is_valid() || DateTime { second: 0, ..date }.is_valid() && date.second == 60;
    plausible(Time::from_seconds(date.to_timestamp())).filter(|_| valid)
}

fn mbox_time(line: &[u8]) -> Option<Time> {
    let line = std::str::from_utf8(line).ok()?;
    let words: Vec<&str> = line.split_ascii_whitespace().take(16).collect();
    let date = words.get(2..7)?.join(" ");
    let date = jiff::civil::DateTime::strptime("%a %b %d %H:%M:%S %Y", date).ok()?;
    plausible(Time(date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_microsecond()))
}

fn plausible(time: Time) -> Option<Time> {
    const FIRST: Time = Time::from_seconds(315_532_800); // 1980-01-01
    const LAST: Time = Time::from_seconds(4_133_980_800); // 2101-01-01
    Some(time).filter(|time| (FIRST..LAST).contains(time))
}

/// Fills what follows from the envelope's fields alone, where it is still missing: the client's network and the
/// sender's domain. Cheap; for decisions that are taken before the message arrives.
pub fn envelope_features(columns: &EnvelopeColumns, prefixes: PrefixLengths, facts: &mut Facts) {
    if let (Some(Value::Ip(ip)), None) = (facts.get(columns.client_ip), facts.get(columns.client_net)) {
        facts.set(columns.client_net, network(*ip, prefixes));
    }
    if facts.get(columns.sender_domain).is_none() {
        let sender = facts.get(columns.sender).and_then(Value::as_str).and_then(MailAddress::parse);
        if let Some(sender) = sender.filter(|sender| !sender.domain.is_empty()) {
            facts.set(columns.sender_domain, sender.domain);
        }
    }
}

/// Fills what a message says. What it does not say stays missing; counts and yes-or-no facts are always there.
/// Facts that compare with the envelope are missing where the row has none; fill it first
/// ([`envelope_features`]).
///
/// Costs about 160 µs for a message of 5 KB, and never more than the budget holds.
pub fn features(
    raw: &[u8],
    budget: &Budget,
    envelope: &EnvelopeColumns,
    columns: &MailColumns,
    facts: &mut Facts,
) {
    let looked_at = &raw[..raw.len().min(MESSAGE_BYTES_MAX)];
    let mut skeleton = mime::walk(looked_at, budget);
    if looked_at.len() < raw.len() {
        skeleton.defects.add(Defect::TooLarge);
    }
    facts.set(columns.size, raw.len());
    facts.set(columns.parts, skeleton.parts.len());
    if budget.spend(HEADER_STEPS) {
        header_features(&skeleton.header, envelope, columns, facts, &mut skeleton.defects);
    }
    let half = budget.share(2);
    let mut attachments = Attachments::read(&skeleton.parts, &half, &mut skeleton.defects);
    budget.rejoin(&half);
    let half = budget.share(2);
    let mut body = MailBody::read(&skeleton.parts, &half, &mut skeleton.defects);
    budget.rejoin(&half);
    let rest = budget.share_but(body.seen.steps());
    attachments.read_codes(&rest);
    budget.rejoin(&rest);
    for text in attachments.shown() {
        body.seen.add_links(text, budget);
    }
    attachments.fill(columns, facts);
    body.fill(budget, columns, facts);
    facts.set(columns.cut_short, budget.is_short());
    let defects = skeleton.defects.names();
    facts.set(columns.defect_count, defects.len());
    set_list(facts, columns.defects, defects);
}

fn set_text(facts: &mut Facts, slot: event::Slot, text: &str) {
    let text = text::truncate(text.trim(), ITEM_BYTES_MAX);
    if !text.is_empty() {
        facts.set(slot, text);
    }
}

/// The names and addresses of an address field, groups laid flat.
fn addresses(field: Option<&HeaderField<'_>>) -> Vec<(String, MailAddress)> {
    let Some(HeaderValue::Address(list)) = field.map(|field| field.parse(|stream| stream.parse_address()))
    else {
        return Vec::new();
    };
    let read = |addr: &Addr<'_>| {
        let address =
            MailAddress::parse(addr.address.as_deref()?).filter(|address| !address.domain.is_empty())?;
        Some((addr.name.as_deref().map(cut).unwrap_or_default(), address))
    };
    list.iter().filter_map(read).collect()
}

/// Returns what stands before the first address of a field and its name, as in `Bank team, _ <a@b.example>`: readers show it
/// as a name.
fn words_before_address(field: Option<&HeaderField<'_>>) -> String {
    let Some(HeaderValue::Address(list)) = field.map(|field| field.parse(|stream| stream.parse_address()))
    else {
        return String::new();
    };
    let is_address = |text: &str| MailAddress::parse(text).is_some_and(|address| !address.domain.is_empty());
    let words = list.iter().take(ITEMS_MAX).map_while(|addr| match (&addr.name, &addr.address) {
        (_, Some(address)) if is_address(address) => None,
        (Some(name), _) => Some(name.as_ref()),
        (None, address) => Some(address.as_deref().unwrap_or_default()),
    });
    let words: Vec<&str> = words.filter(|words| !words.trim().is_empty()).collect();
    words.join(", ")
}

/// Fields that RFC 5322, 3.6 allows once.
const SINGLE_FIELDS: [&str; 7] = ["From", "Sender", "Reply-To", "Date", "Message-ID", "Subject", "To"];

fn header_features(
    header: &MailHeader<'_>,
    envelope: &EnvelopeColumns,
    columns: &MailColumns,
    facts: &mut Facts,
    defects: &mut Defects,
) {
    if SINGLE_FIELDS.iter().any(|name| header.all(name).nth(1).is_some()) {
        defects.add(Defect::DuplicateField);
    }
    if !header.fields.iter().all(HeaderField::is_ascii) {
        defects.add(Defect::RawHeader);
    }
    facts.set(columns.header_count, header.count);
    facts.set(columns.received_count, header.all("Received").count());
    facts.set(columns.header_order, header_order(header));
    let client = match facts.get(envelope.client_ip) {
        Some(Value::Ip(ip)) => Some(*ip),
        _ => None,
    };
    header_fingerprint::fill(header, client, columns, facts);
    let helo = match facts.get(envelope.helo) {
        Some(Value::String(helo)) => Some(helo.to_string()),
        _ => None,
    };
    let start = source::header_start(header, client, helo.as_deref());
    if !start.is_empty() {
        facts.set(columns.header_start, start);
    }

    let subject = header.get("Subject").map(|field| cut(&field.unstructured())).unwrap_or_default();
    facts.set(columns.has_subject, !subject.is_empty());
    set_text(facts, columns.subject, &subject);
    let (upper, lower) = subject.chars().fold((0usize, 0usize), |(upper, lower), c| {
        (upper + usize::from(c.is_uppercase()), lower + usize::from(c.is_lowercase()))
    });
    if upper + lower > 0 {
        facts.set(columns.upper_share, upper as f64 / (upper + lower) as f64);
    }
    facts.set(columns.subject_exclaims, subject.chars().filter(|c| matches!(c, '!' | '！' | '¡')).count());
    let refers = header.get("References").is_some() || header.get("In-Reply-To").is_some();
    facts.set(columns.refers, refers);
    facts.set(columns.reply_without_references, is_reply(&subject) && !refers);
    let first_id = |name: &str| first_message_id(&header.get(name)?.text());
    let thread = ["References", "In-Reply-To", "Message-ID"].into_iter().find_map(first_id);
    set_text(facts, columns.thread, &thread.unwrap_or_default());

    let date = header.get("Date").and_then(|field| date_of(&field.text()));
    facts.set(columns.has_date, date.is_some());
    if let Some(date) = date {
        facts.set(columns.date, date);
    }
    let message_id = header.get("Message-ID").map(HeaderField::text);
    facts.set(columns.has_message_id, message_id.is_some());
    let host = message_id.as_deref().and_then(|id| id.trim_end_matches('>').rsplit_once('@'));
    if let Some(host) = host.and_then(|(_, host)| link::host(host)) {
        set_text(facts, columns.message_id_host, &host);
    }
    if let Some(mailer) = header.get("X-Mailer").or_else(|| header.get("User-Agent")) {
        set_text(facts, columns.mailer, &text::mask_digits(&mailer.unstructured()));
    }
    let list_id = header.get("List-Id").map(HeaderField::text);
    if let Some(id) = &list_id {
        let id = id.rsplit_once('<').map_or(id.as_ref(), |(_, id)| id).trim_end_matches('>');
        set_text(facts, columns.list_id, &id.to_lowercase());
    }
    let bulk = header.get("Precedence").map(HeaderField::text);
    let bulk =
        bulk.is_some_and(|said| ["bulk", "list", "junk"].iter().any(|bulk| said.eq_ignore_ascii_case(bulk)));
    facts
        .set(columns.has_list_headers, bulk || list_id.is_some() || header.get("List-Unsubscribe").is_some());
    let mut signers = UniqueList::new(ITEMS_MAX);
    for field in header.all("DKIM-Signature").take(ITEMS_MAX) {
        let tags = field.text();
        let domain =
            tags.split(';').filter_map(|tag| tag.split_once('=')).find(|(name, _)| name.trim() == "d");
        if let Some(domain) = domain.and_then(|(_, domain)| link::host(domain)) {
            signers.add(domain);
        }
    }
    set_list(facts, columns.dkim_domains, signers.items);
    address_features(header, envelope, columns, facts);
}

fn address_features(
    header: &MailHeader<'_>,
    envelope: &EnvelopeColumns,
    columns: &MailColumns,
    facts: &mut Facts,
) {
    let mut to = addresses(header.get("To"));
    to.extend(addresses(header.get("Cc")));
    facts.set(columns.to_count, to.len());
    if let Some(recipients) = facts.get(envelope.recipients).and_then(Value::as_list) {
        let shown: HashSet<&str> = to.iter().map(|(_, address)| address.full.as_str()).collect();
        let is_shown = |to: &str| MailAddress::parse(to).is_some_and(|to| shown.contains(to.full.as_str()));
        let in_to = recipients.iter().take(ITEMS_MAX).any(|to| is_shown(to));
        facts.set(columns.recipients_in_to, in_to);
    }
    let reply_to = addresses(header.get("Reply-To")).into_iter().next();
    let Some((mut name, from)) = addresses(header.get("From")).into_iter().next() else { return };
    let before = words_before_address(header.get("From"));
    if !before.is_empty() {
        name = cut(&format!("{before}, {name}"));
    }
    let organisation = link::organisation(&from.domain);
    if let Some((_, reply_to)) = reply_to {
        facts.set(columns.from_reply_to_differ, link::organisation(&reply_to.domain) != organisation);
        set_text(facts, columns.reply_to, &reply_to.full);
        set_text(facts, columns.reply_to_domain, &reply_to.domain);
    }
    let sender = facts.get(envelope.sender).and_then(Value::as_str).and_then(MailAddress::parse);
    if let Some(sender) = sender.filter(|sender| !sender.domain.is_empty()) {
        facts.set(columns.from_sender_differ, link::organisation(&sender.domain) != organisation);
    }
    let mut differs = false;
    link::find(&name, |found| {
        let host = match found {
            TextReference::Url(url) => Link::parse(url).map(|link| link.host),
            TextReference::Address(address) => MailAddress::parse(address).map(|address| address.domain),
        };
        differs = host.is_some_and(|host| link::organisation(&host) != organisation);
        !differs
    });
    facts.set(columns.display_name_address_differ, differs);
    let mut claimed = UniqueList::new(ITEMS_MAX);
    name::find(&name, |name| {
        if !name::is_own_domain(&name, organisation) {
            claimed.add(name);
        }
    });
    set_list(facts, columns.claimed_names, claimed.items);
    set_text(facts, columns.display_name, &name);
    set_text(facts, columns.from, &from.full);
    set_text(facts, columns.from_domain, &from.domain);
}

/// Returns the first identifier in a field.
fn first_message_id(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('<')?;
    let (id, _) = rest.split_once('>')?;
    Some(id.trim().to_owned()).filter(|id| !id.is_empty())
}

/// Prefixes by which mail programs mark replies, in the languages that are met most.
const REPLY_PREFIXES: [&str; 10] = ["re", "aw", "sv", "antw", "odp", "rif", "ynt", "vs", "回复", "回覆"];

fn is_reply(subject: &str) -> bool {
    let prefix = subject.split_once([':', '：']).map_or("", |(prefix, _)| prefix.trim());
    let prefix = prefix.split_once('[').map_or(prefix, |(prefix, _)| prefix).to_lowercase();
    REPLY_PREFIXES.contains(&prefix.as_str())
}

fn header_order(header: &MailHeader<'_>) -> String {
    let mut order = String::new();
    let mut last = "";
    for field in &header.fields {
        if field.is(last) {
            continue;
        }
        last = field.name;
        if order.len() + last.len() >= ITEM_BYTES_MAX {
            break;
        }
        if !order.is_empty() {
            order.push(',');
        }
        order.extend(last.chars().map(|c| c.to_ascii_lowercase()));
    }
    order
}

/// Returns whether a text quotes a message, as mail programs do that.
fn quotes(source: &str, is_page: bool) -> bool {
    const LINES: [&str; 2] = ["\n>", "-----Original Message-----"];
    const ELEMENTS: [&str; 6] = [
        "<blockquote",
        "<BLOCKQUOTE",
        "gmail_quote",
        "divRplyFwdMsg",
        "appendonsend",
        "-----Original Message-----",
    ];
    let marks: &[&str] = if is_page { &ELEMENTS } else { &LINES };
    marks.iter().any(|mark| memmem::find(source.as_bytes(), mark.as_bytes()).is_some())
}

/// The content of the text parts.
#[derive(Default)]
struct MailBody {
    seen: VisibleText,
    charset: Option<String>,
    has_plain: bool,
    has_html: bool,
    base64_text: bool,
    quotes: bool,
    test_pattern: Option<TestPattern>,
    source_start: String,
}

impl MailBody {
    fn read(parts: &[MimePart<'_>], budget: &Budget, defects: &mut Defects) -> MailBody {
        let mut body = MailBody::default();
        // Of alternatives, readers show the HTML; the plain one is only searched for links.
        let shown: HashSet<usize> = parts
            .iter()
            .filter(|part| part.role == PartRole::Html)
            .filter_map(|part| part.alternative)
            .collect();
        let mut source_left = SOURCE_BYTES_MAX;
        for part in parts.iter().filter(|part| part.role != PartRole::Attachment) {
            let bytes = budget.afford(part.encoded_len().min(source_left), STEPS_A_SOURCE_BYTE);
            let decoded = part.decode(bytes, defects);
            source_left = source_left.saturating_sub(part.encoded_len());
            body.base64_text |=
                part.encoding == TransferEncoding::Base64 && !decoded.is_empty() && decoded.is_ascii();
            body.charset =
                body.charset.or_else(|| part.charset.as_deref().map(|charset| cut(charset).to_lowercase()));
            let source = part.text(&decoded);
            body.test_pattern = body.test_pattern.max(TestPattern::find(&source));
            body.quotes |= quotes(&source, part.role == PartRole::Html);
            source::add_text(&mut body.source_start, &source);
            if part.role == PartRole::Html {
                body.has_html = true;
                body.seen.add_page(&source, budget);
            } else {
                body.has_plain = true;
                match part.alternative.is_some_and(|alternative| shown.contains(&alternative)) {
                    true => body.seen.add_links(&source, budget),
                    false => body.seen.add_plain(&source, budget),
                }
            }
        }
        body
    }

    /// Sets the facts, From, subject and shown name being set already.
    fn fill(self, budget: &Budget, columns: &MailColumns, facts: &mut Facts) {
        let mut shown = ObfuscationTally::default();
        let mut subject_emoji = 0;
        for slot in [columns.display_name, columns.subject] {
            let before = shown.counts.emoji;
            shown.add(facts.get(slot).and_then(Value::as_str).unwrap_or_default());
            subject_emoji = shown.counts.emoji - before;
        }
        facts.set(columns.subject_emoji, subject_emoji);
        facts.set(columns.subject_obfuscated, shown.is_obfuscated());
        let mut names = self.seen.names();
        if let Some(from) = facts.get(columns.from_domain).and_then(Value::as_str) {
            names.retain(|name| !name::is_own_domain(name, link::organisation(from)));
        }
        set_list(facts, columns.page_names, names);
        self.seen.fill(&shown, budget, &columns.body, facts);

        if !self.source_start.is_empty() {
            facts.set(columns.source_start, self.source_start);
        }
        if let Some(charset) = &self.charset {
            set_text(facts, columns.charset, charset);
        }
        facts.set(columns.has_html, self.has_html);
        facts.set(columns.html_only, self.has_html && !self.has_plain);
        facts.set(columns.base64_text, self.base64_text);
        facts.set(columns.quotes, self.quotes);
        if let Some(pattern) = self.test_pattern {
            set_text(facts, columns.test_pattern, pattern.name());
        }
    }
}
