//! Mail: an RFC 5322 message and its SMTP envelope → an event, and the facts that rules and keys are made of.
//!
//! Reading is best effort, as receivers' programs read: whatever is malformed is read in the way that shows most
//! and named in `mail.defects`. Nothing is fetched, executed or unpacked, no file is opened, and no claim of the
//! message about its own origin is believed: what the envelope says is kept apart from what the header says.
//!
//! Everything is bounded: at most [`MESSAGE_BYTES_MAX`] bytes of a message are looked at, [`PARTS_MAX`] leaf
//! parts nested [`DEPTH_MAX`] deep, [`FIELDS_MAX`] header fields of which [`FIELD_BYTES_MAX`] bytes each are
//! parsed, [`TEXT_BYTES_MAX`] bytes of visible text from [`SOURCE_BYTES_MAX`] bytes of encoded text,
//! [`LINKS_MAX`] links, [`ITEMS_MAX`] items of other lists, [`ITEM_BYTES_MAX`] bytes a string. Time is linear in
//! the bytes looked at.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use event::{Event, Facts, Time, Value};
use mail_parser::{Addr, DateTime, HeaderValue, Host};
use sha2::{Digest, Sha256};

use crate::address::{Address, NULL_SENDER};
use crate::fingerprint::fingerprints;
use crate::html::{self, Limits};
use crate::link::{self, Found, Link};
use crate::mime::{self, Defect, Defects, Encoding, Field, Header, Part, Role};
use crate::network::{Prefixes, is_public, network};
use crate::text;

/// Most bytes of a message that are looked at.
pub const MESSAGE_BYTES_MAX: usize = 32 * 1024 * 1024;
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
/// Most links.
pub const LINKS_MAX: usize = 1_000;
/// Most envelope recipients; RFC 5321 asks servers to take 100, and few take more than 1,000.
pub const RECIPIENTS_MAX: usize = 1_000;
/// Most items of any other list.
pub const ITEMS_MAX: usize = 200;
/// Longest string and list item but for `mail.body_text`; longer ones are cut.
pub const ITEM_BYTES_MAX: usize = 2_048;

/// What the SMTP session said about a message. All of it is optional: callers know more or less.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope {
    /// The client's address.
    pub client_ip: Option<IpAddr>,
    /// What the client called itself.
    pub helo: Option<String>,
    /// The reverse-path; empty or `<>` for the null sender.
    pub sender: Option<String>,
    /// The recipients.
    pub recipients: Vec<String>,
    /// Who was authenticated.
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
        let (header, _) = Header::read(raw, &mut Defects::default());
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

event::columns! {
    /// What is known of a message before its content is looked at.
    pub struct EnvelopeColumns {
        client_ip: Ip "client.ip" "Address of the client that handed the message over",
        client_net: String "client.net" "Network of the client's address in CIDR notation",
        helo: String "client.helo" "Name by which the client introduced itself",
        user: String "client.user" "Name under which the client was authenticated",
        sender: String "mail.sender" "Envelope sender, `<>` for the null sender of bounces",
        sender_domain: String "mail.sender_domain" "Domain of the envelope sender",
        recipients: List "mail.recipients" "Envelope recipients",
    }
}

event::columns! {
    /// What a message's header and body say.
    pub struct MailColumns {
        from: String "mail.from" "First address of the From field",
        from_domain: String "mail.from_domain" "Domain of the From address",
        display_name: String "mail.display_name" "Name shown beside the From address",
        reply_to: String "mail.reply_to" "First address of the Reply-To field",
        reply_to_domain: String "mail.reply_to_domain" "Domain of the Reply-To address",
        to_count: Integer "mail.to_count" "Number of addresses in To and Cc",
        subject: String "mail.subject" "Subject, decoded",
        date: Time "mail.date" "Time in the Date field",
        message_id_host: String "mail.message_id_host" "Host in the Message-ID",
        mailer: String "mail.mailer" "Program named in X-Mailer or User-Agent, each run of digits written as 0",
        list_id: String "mail.list_id" "Identifier in the List-Id field",
        dkim_domains: List "mail.dkim_domains" "Domains that DKIM signatures name, not verified",
        header_order: String "mail.header_order" "Names of the header fields in order, repeats folded",
        header_count: Integer "mail.header_count" "Number of header fields",
        received_count: Integer "mail.received_count" "Number of Received fields",
        has_subject: Bool "mail.has_subject" "Whether there is a Subject that is not empty",
        has_date: Bool "mail.has_date" "Whether there is a Date that can be read",
        has_message_id: Bool "mail.has_message_id" "Whether there is a Message-ID",
        has_list_headers: Bool "mail.has_list_headers" "Whether it presents itself as list or bulk mail",
        upper_share: Float "mail.upper_share" "Share of capitals among the cased letters of the subject",
        subject_exclaims: Integer "mail.subject_exclaims" "Number of exclamation marks in the subject",
        reply_without_references: Bool "mail.reply_without_references" "Whether the subject claims a reply but no field refers to another message",
        from_reply_to_differ: Bool "mail.from_reply_to_differ" "Whether From and Reply-To are of different registrable domains",
        from_sender_differ: Bool "mail.from_sender_differ" "Whether From and envelope sender are of different registrable domains",
        display_name_address_differ: Bool "mail.display_name_address_differ" "Whether the shown name contains an address or host of another registrable domain than From",
        recipients_in_to: Bool "mail.recipients_in_to" "Whether an envelope recipient stands in To or Cc",

        size: Integer "mail.size" "Size in bytes",
        parts: Integer "mail.parts" "Number of leaf parts",
        defects: List "mail.defects" "What is wrong with the form, such as `unclosed` or `bad-encoding`",
        defect_count: Integer "mail.defect_count" "Number of kinds of defects of form",
        charset: String "mail.charset" "Charset of the first text part, lower case",
        has_html: Bool "mail.has_html" "Whether there is an HTML part",
        html_only: Bool "mail.html_only" "Whether there is an HTML part and no plain one",
        html_images: Integer "mail.html_images" "Number of images that HTML parts show",
        html_form: Bool "mail.html_form" "Whether an HTML part contains a form",
        base64_text: Bool "mail.base64_text" "Whether a text part of nothing but ASCII is hidden in base64",

        body_text: String "mail.body_text" "The whole visible text, normalised" transient,
        body_empty: Bool "mail.body_empty" "Whether there is no visible text",
        text_chars: Integer "mail.text_chars" "Number of characters of visible text",
        digit_share: Float "mail.digit_share" "Share of digits among the letters and digits of the text",
        mixed_scripts: Integer "mail.mixed_scripts" "Number of words in subject, shown name and text that mix Latin letters with look-alikes",
        zero_width: Integer "mail.zero_width" "Number of invisible characters in subject, shown name and text",
        fingerprints: List "mail.fingerprints" "Near-duplicate fingerprints of the text, see content::fingerprint",
        phones: List "mail.phones" "Digit strings like telephone numbers, without separators",
        body_addresses: List "mail.body_addresses" "E-mail addresses in the text",

        links: List "mail.links" "Normalised URLs of links, images and forms",
        link_hosts: List "mail.link_hosts" "Hosts of the links",
        link_domains: List "mail.link_domains" "Registrable domains of the links",
        link_count: Integer "mail.link_count" "Number of different links",
        link_ip_host: Bool "mail.link_ip_host" "Whether a link leads to a literal address",
        link_text_mismatch: Bool "mail.link_text_mismatch" "Whether a link shows one registrable domain and leads to another",

        attachment_names: List "mail.attachment_names" "Names of the attachments, lower case",
        attachment_types: List "mail.attachment_types" "Declared media types of the attachments",
        attachment_sums: List "mail.attachment_sums" "SHA-256 of the attachments' decoded contents in hexadecimal",
        attachment_count: Integer "mail.attachment_count" "Number of attachments",
        executable_attachment: Bool "mail.executable_attachment" "Whether an attachment's name ends like a program's",
        double_extension: Bool "mail.double_extension" "Whether an attachment poses as a document, such as `a.pdf.exe`",
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
    Address::parse(text).map_or_else(|| cut(text), |address| address.full)
}

/// When a stored message says it was received: by its topmost `Received` field, else by `Date`, else by its mbox
/// line (taken as UTC). Times before 1980 and after 2100 are none.
pub fn time(raw: &[u8]) -> Option<Time> {
    let raw = &raw[..raw.len().min(MESSAGE_BYTES_MAX)];
    let (header, _) = Header::read(raw, &mut Defects::default());
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
pub fn envelope_features(columns: &EnvelopeColumns, prefixes: Prefixes, facts: &mut Facts) {
    if let (Some(Value::Ip(ip)), None) = (facts.get(columns.client_ip), facts.get(columns.client_net)) {
        facts.set(columns.client_net, network(*ip, prefixes));
    }
    if facts.get(columns.sender_domain).is_none() {
        let sender = facts.get(columns.sender).and_then(Value::as_str).and_then(Address::parse);
        if let Some(sender) = sender.filter(|sender| !sender.domain.is_empty()) {
            facts.set(columns.sender_domain, sender.domain);
        }
    }
}

/// Fills what a message says. What it does not say stays missing; counts and yes-or-no facts are always there.
/// Facts that compare with the envelope are missing where the row has none; fill it first
/// ([`envelope_features`]).
///
/// Costs about 100 µs for a message of 5 KB.
pub fn features(raw: &[u8], envelope: &EnvelopeColumns, columns: &MailColumns, facts: &mut Facts) {
    let looked_at = &raw[..raw.len().min(MESSAGE_BYTES_MAX)];
    let mut skeleton = mime::walk(looked_at);
    if looked_at.len() < raw.len() {
        skeleton.defects.add(Defect::TooLarge);
    }
    facts.set(columns.size, raw.len());
    facts.set(columns.parts, skeleton.parts.len());
    header_features(&skeleton.header, envelope, columns, facts, &mut skeleton.defects);
    attachment_features(&skeleton.parts, columns, facts, &mut skeleton.defects);
    let body = Body::read(&skeleton.parts, &mut skeleton.defects);
    body.fill(columns, facts);
    let defects = skeleton.defects.names();
    facts.set(columns.defect_count, defects.len());
    set_list(facts, columns.defects, defects);
}

/// Cuts to [`ITEM_BYTES_MAX`].
fn cut(text: &str) -> String {
    text::truncate(text.trim(), ITEM_BYTES_MAX).to_owned()
}

fn set_text(facts: &mut Facts, slot: event::Slot, text: &str) {
    let text = text::truncate(text.trim(), ITEM_BYTES_MAX);
    if !text.is_empty() {
        facts.set(slot, text);
    }
}

fn set_list(facts: &mut Facts, slot: event::Slot, items: Vec<String>) {
    if !items.is_empty() {
        facts.set(slot, items);
    }
}

/// The names and addresses of an address field, groups laid flat.
fn addresses(field: Option<&Field<'_>>) -> Vec<(String, Address)> {
    let Some(HeaderValue::Address(list)) = field.map(|field| field.parse(|stream| stream.parse_address()))
    else {
        return Vec::new();
    };
    let read = |addr: &Addr<'_>| {
        let address =
            Address::parse(addr.address.as_deref()?).filter(|address| !address.domain.is_empty())?;
        Some((addr.name.as_deref().map(cut).unwrap_or_default(), address))
    };
    list.iter().filter_map(read).collect()
}

/// Fields that RFC 5322, 3.6 allows once.
const SINGLE_FIELDS: [&str; 7] = ["From", "Sender", "Reply-To", "Date", "Message-ID", "Subject", "To"];

fn header_features(
    header: &Header<'_>,
    envelope: &EnvelopeColumns,
    columns: &MailColumns,
    facts: &mut Facts,
    defects: &mut Defects,
) {
    if SINGLE_FIELDS.iter().any(|name| header.all(name).nth(1).is_some()) {
        defects.add(Defect::DuplicateField);
    }
    if !header.fields.iter().all(Field::is_ascii) {
        defects.add(Defect::RawHeader);
    }
    facts.set(columns.header_count, header.count);
    facts.set(columns.received_count, header.all("Received").count());
    facts.set(columns.header_order, header_order(header));

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
    facts.set(columns.reply_without_references, is_reply(&subject) && !refers);

    let date = header.get("Date").and_then(|field| date_of(&field.text()));
    facts.set(columns.has_date, date.is_some());
    if let Some(date) = date {
        facts.set(columns.date, date);
    }
    let message_id = header.get("Message-ID").map(Field::text);
    facts.set(columns.has_message_id, message_id.is_some());
    let host = message_id.as_deref().and_then(|id| id.trim_end_matches('>').rsplit_once('@'));
    if let Some(host) = host.and_then(|(_, host)| link::host(host)) {
        set_text(facts, columns.message_id_host, &host);
    }
    if let Some(mailer) = header.get("X-Mailer").or_else(|| header.get("User-Agent")) {
        set_text(facts, columns.mailer, &text::mask_digits(&mailer.unstructured()));
    }
    let list_id = header.get("List-Id").map(Field::text);
    if let Some(id) = &list_id {
        let id = id.rsplit_once('<').map_or(id.as_ref(), |(_, id)| id).trim_end_matches('>');
        set_text(facts, columns.list_id, &id.to_lowercase());
    }
    let bulk = header.get("Precedence").map(Field::text);
    let bulk =
        bulk.is_some_and(|said| ["bulk", "list", "junk"].iter().any(|bulk| said.eq_ignore_ascii_case(bulk)));
    facts
        .set(columns.has_list_headers, bulk || list_id.is_some() || header.get("List-Unsubscribe").is_some());
    let mut signers = Unique::new(ITEMS_MAX);
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
    header: &Header<'_>,
    envelope: &EnvelopeColumns,
    columns: &MailColumns,
    facts: &mut Facts,
) {
    let mut to = addresses(header.get("To"));
    to.extend(addresses(header.get("Cc")));
    facts.set(columns.to_count, to.len());
    if let Some(recipients) = facts.get(envelope.recipients).and_then(Value::as_list) {
        let shown: HashSet<&str> = to.iter().map(|(_, address)| address.full.as_str()).collect();
        let is_shown = |to: &str| Address::parse(to).is_some_and(|to| shown.contains(to.full.as_str()));
        let in_to = recipients.iter().take(ITEMS_MAX).any(|to| is_shown(to));
        facts.set(columns.recipients_in_to, in_to);
    }
    let reply_to = addresses(header.get("Reply-To")).into_iter().next();
    let Some((name, from)) = addresses(header.get("From")).into_iter().next() else { return };
    let organisation = link::organisation(&from.domain);
    if let Some((_, reply_to)) = reply_to {
        facts.set(columns.from_reply_to_differ, link::organisation(&reply_to.domain) != organisation);
        set_text(facts, columns.reply_to, &reply_to.full);
        set_text(facts, columns.reply_to_domain, &reply_to.domain);
    }
    let sender = facts.get(envelope.sender).and_then(Value::as_str).and_then(Address::parse);
    if let Some(sender) = sender.filter(|sender| !sender.domain.is_empty()) {
        facts.set(columns.from_sender_differ, link::organisation(&sender.domain) != organisation);
    }
    let mut differs = false;
    link::find(&name, |found| {
        let host = match found {
            Found::Url(url) => Link::parse(url).map(|link| link.host),
            Found::Address(address) => Address::parse(address).map(|address| address.domain),
        };
        differs = host.is_some_and(|host| link::organisation(&host) != organisation);
        !differs
    });
    facts.set(columns.display_name_address_differ, differs);
    set_text(facts, columns.display_name, &name);
    set_text(facts, columns.from, &from.full);
    set_text(facts, columns.from_domain, &from.domain);
}

/// Prefixes by which mail programs mark replies, in the languages that are met most.
const REPLY_PREFIXES: [&str; 10] = ["re", "aw", "sv", "antw", "odp", "rif", "ynt", "vs", "回复", "回覆"];

fn is_reply(subject: &str) -> bool {
    let prefix = subject.split_once([':', '：']).map_or("", |(prefix, _)| prefix.trim());
    let prefix = prefix.split_once('[').map_or(prefix, |(prefix, _)| prefix).to_lowercase();
    REPLY_PREFIXES.contains(&prefix.as_str())
}

fn header_order(header: &Header<'_>) -> String {
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

/// A list without repeats, at most so long.
struct Unique {
    items: Vec<String>,
    seen: HashSet<String>,
    max: usize,
}

impl Unique {
    fn new(max: usize) -> Unique {
        Unique { items: Vec::new(), seen: HashSet::new(), max }
    }

    /// Adds an item if it is new and there is room; false when there is none.
    fn add(&mut self, item: String) -> bool {
        if self.items.len() < self.max && !item.is_empty() && !self.seen.contains(&item) {
            self.seen.insert(item.clone());
            self.items.push(item);
        }
        self.items.len() < self.max
    }
}

/// Endings of names that some mail reader or shell runs when they are opened.
const EXECUTABLE_ENDINGS: [&str; 38] = [
    "ade", "adp", "apk", "app", "appx", "bat", "chm", "cmd", "com", "cpl", "dll", "exe", "hta", "img", "inf",
    "ins", "iso", "jar", "js", "jse", "lnk", "mde", "msc", "msi", "msp", "one", "pif", "ps1", "reg", "scf",
    "scr", "sct", "vb", "vbe", "vbs", "vhd", "wsf", "wsh",
];

/// Endings of documents that people open without a thought.
const DOCUMENT_ENDINGS: [&str; 17] = [
    "csv", "doc", "docx", "gif", "htm", "html", "jpeg", "jpg", "mp3", "mp4", "pdf", "png", "ppt", "pptx",
    "txt", "xls", "xlsx",
];

fn attachment_features(parts: &[Part<'_>], columns: &MailColumns, facts: &mut Facts, defects: &mut Defects) {
    let mut names = Unique::new(ITEMS_MAX);
    let mut types = Unique::new(ITEMS_MAX);
    let mut sums = Unique::new(ITEMS_MAX);
    let (mut count, mut executable, mut double) = (0usize, false, false);
    for part in parts.iter().filter(|part| part.role == Role::Attachment || part.name.is_some()) {
        count += 1;
        types.add(cut(&part.media_type));
        if let Some(name) = &part.name {
            let name = cut(name).to_lowercase();
            let mut endings = name.rsplit('.').map(str::trim);
            let ending = endings.next().unwrap_or_default();
            let runs = name.contains('.') && EXECUTABLE_ENDINGS.contains(&ending);
            let poses = endings.next().is_some_and(|ending| DOCUMENT_ENDINGS.contains(&ending));
            executable |= runs;
            double |= poses && (runs || matches!(ending, "htm" | "html" | "shtml" | "svg" | "zip"));
            names.add(name);
        }
        let content = part.decode(MESSAGE_BYTES_MAX, defects);
        if !content.is_empty() {
            sums.add(Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect());
        }
    }
    facts.set(columns.attachment_count, count);
    facts.set(columns.executable_attachment, executable);
    facts.set(columns.double_extension, double);
    set_list(facts, columns.attachment_names, names.items);
    set_list(facts, columns.attachment_types, types.items);
    set_list(facts, columns.attachment_sums, sums.items);
}

/// What is seen and clicked of the text parts.
struct Body {
    text: String,
    links: Links,
    charset: Option<String>,
    has_plain: bool,
    has_html: bool,
    images: usize,
    has_form: bool,
    base64_text: bool,
}

struct Links {
    urls: Unique,
    hosts: Unique,
    domains: Unique,
    addresses: Unique,
    phones: Unique,
    to_ip: bool,
    mismatch: bool,
}

impl Links {
    /// Adds what leads somewhere; false once there is no room for another link.
    fn add(&mut self, target: &str) -> bool {
        let scheme = target.get(..7).unwrap_or_default().to_ascii_lowercase();
        if scheme.starts_with("mailto:") {
            let address = target[7..].split('?').next().and_then(Address::parse);
            self.addresses.add(address.map(|address| address.full).unwrap_or_default());
            return true;
        }
        if scheme.starts_with("tel:") {
            phones(&target[4..], &mut self.phones);
            return true;
        }
        let Some(link) = Link::parse(target) else { return true };
        self.to_ip |= link.is_ip;
        if let Some(domain) = link::registrable(&link.host) {
            self.domains.add(domain.to_owned());
        }
        self.hosts.add(link.host);
        self.urls.add(cut(&link.url))
    }

    fn add_text(&mut self, text: &str) {
        link::find(text, |found| match found {
            Found::Url(url) => self.add(url),
            Found::Address(address) => {
                self.addresses.add(Address::parse(address).map(|address| address.full).unwrap_or_default());
                true
            }
        });
    }

    /// Whether the text of an anchor shows another registrable domain than it leads to.
    fn compare(&mut self, target: &str, shown: &str) {
        if self.mismatch || !shown.contains('.') {
            return;
        }
        let Some(target) = Link::parse(target) else { return };
        let target = link::organisation(&target.host);
        link::find(shown, |found| {
            if let Found::Url(url) = found
                && let Some(shown) = Link::parse(url)
                && let Some(shown) = link::registrable(&shown.host)
            {
                self.mismatch = shown != target;
            }
            false
        });
    }
}

impl Body {
    fn read(parts: &[Part<'_>], defects: &mut Defects) -> Body {
        let mut body = Body {
            text: String::new(),
            links: Links {
                urls: Unique::new(LINKS_MAX),
                hosts: Unique::new(LINKS_MAX),
                domains: Unique::new(LINKS_MAX),
                addresses: Unique::new(ITEMS_MAX),
                phones: Unique::new(ITEMS_MAX),
                to_ip: false,
                mismatch: false,
            },
            charset: None,
            has_plain: false,
            has_html: false,
            images: 0,
            has_form: false,
            base64_text: false,
        };
        // Of alternatives, readers show the HTML; the plain one is only searched for links.
        let shown: HashSet<usize> =
            parts.iter().filter(|part| part.role == Role::Html).filter_map(|part| part.alternative).collect();
        let mut source_left = SOURCE_BYTES_MAX;
        for part in parts.iter().filter(|part| part.role != Role::Attachment) {
            let decoded = part.decode(source_left, defects);
            source_left = source_left.saturating_sub(part.encoded_len());
            body.base64_text |=
                part.encoding == Encoding::Base64 && !decoded.is_empty() && decoded.is_ascii();
            body.charset =
                body.charset.or_else(|| part.charset.as_deref().map(|charset| cut(charset).to_lowercase()));
            let source = part.text(&decoded);
            let left = TEXT_BYTES_MAX.saturating_sub(body.text.len());
            if part.role == Role::Html {
                body.has_html = true;
                body.add_html(&source, left);
            } else {
                body.has_plain = true;
                let source = text::truncate(&source, TEXT_BYTES_MAX);
                body.links.add_text(source);
                if part.alternative.is_none_or(|alternative| !shown.contains(&alternative)) {
                    body.text.push_str(text::truncate(source, left));
                    body.text.push('\n');
                }
            }
        }
        phones(&body.text, &mut body.links.phones);
        body
    }

    fn add_html(&mut self, source: &str, text_bytes: usize) {
        let page = html::read(source, Limits { text_bytes, references: LINKS_MAX });
        self.images += page.images;
        self.has_form |= page.has_form;
        for reference in &page.references {
            self.links.add(&reference.target);
            self.links.compare(&reference.target, &reference.text);
        }
        self.links.add_text(&page.outside);
        self.text.push_str(&page.text);
        self.text.push('\n');
    }

    fn fill(self, columns: &MailColumns, facts: &mut Facts) {
        let said = |slot| facts.get(slot).and_then(Value::as_str).unwrap_or_default();
        let all = [said(columns.subject), said(columns.display_name), &self.text];
        let mixed: usize = all.iter().map(|text| text::mixed_script_words(text)).sum();
        let invisible = |text: &&str| {
            if text.is_ascii() { 0 } else { text.chars().filter(|&c| text::is_invisible(c)).count() }
        };
        let invisible: usize = all.iter().map(invisible).sum();
        facts.set(columns.mixed_scripts, mixed);
        facts.set(columns.zero_width, invisible);

        let text = self.text.trim();
        let (mut chars, mut alphanumeric, mut digits) = (0usize, 0usize, 0usize);
        for c in text.chars() {
            chars += 1;
            alphanumeric += usize::from(c.is_alphanumeric());
            digits += usize::from(text::digit(c).is_some());
        }
        if alphanumeric > 0 {
            facts.set(columns.digit_share, digits as f64 / alphanumeric.max(digits) as f64);
        }
        facts.set(columns.text_chars, chars);
        let normalised = text::normalise(text);
        facts.set(columns.body_empty, normalised.is_empty());
        set_list(facts, columns.fingerprints, fingerprints(&normalised));
        if !normalised.is_empty() {
            facts.set(columns.body_text, normalised);
        }

        if let Some(charset) = &self.charset {
            set_text(facts, columns.charset, charset);
        }
        facts.set(columns.has_html, self.has_html);
        facts.set(columns.html_only, self.has_html && !self.has_plain);
        facts.set(columns.html_images, self.images);
        facts.set(columns.html_form, self.has_form);
        facts.set(columns.base64_text, self.base64_text);
        facts.set(columns.link_count, self.links.urls.items.len());
        facts.set(columns.link_ip_host, self.links.to_ip);
        facts.set(columns.link_text_mismatch, self.links.mismatch);
        set_list(facts, columns.links, self.links.urls.items);
        set_list(facts, columns.link_hosts, self.links.hosts.items);
        set_list(facts, columns.link_domains, self.links.domains.items);
        set_list(facts, columns.body_addresses, self.links.addresses.items);
        set_list(facts, columns.phones, self.links.phones.items);
    }
}

/// Fewest and most digits of a telephone number (ITU-T E.164 allows 15).
const PHONE_DIGITS: std::ops::RangeInclusive<usize> = 7..=15;

/// Adds the digit strings that could be telephone numbers: 7 to 15 digits of any script, in groups parted by at
/// most three of space, dot, hyphen or parentheses. Four groups parted by dots are an address, and groups of
/// 4-2-2 or 2-2-4 a date.
fn phones(text: &str, phones: &mut Unique) {
    let folded = text::fold_digits(text);
    let mut groups: Vec<usize> = Vec::new();
    let mut digits = String::new();
    let mut gap = 0;
    let mut dots = 0;
    let mut inside_word = false;
    for c in folded.chars().chain(['\n']) {
        if c.is_ascii_digit() && !inside_word {
            match groups.last_mut() {
                Some(group) if gap == 0 => *group += 1,
                _ => groups.push(1),
            }
            gap = 0;
            // One digit more than allowed is enough to see that it is none.
            if digits.len() <= *PHONE_DIGITS.end() {
                digits.push(c);
            }
            continue;
        }
        let parts = matches!(c, ' ' | '.' | '-' | '(' | ')' | '\u{A0}' | '\u{2010}'..='\u{2013}');
        if parts && !digits.is_empty() && gap < 3 {
            gap += 1;
            dots += usize::from(c == '.');
            continue;
        }
        if !digits.is_empty() {
            let is_address = groups.len() == 4 && dots >= 3;
            let is_date = matches!(groups[..], [4, 2, 2] | [2, 2, 4]);
            // A letter right behind the digits makes it a word such as `1234567th`.
            let in_word = gap == 0 && (c.is_alphanumeric() || c == '_');
            if PHONE_DIGITS.contains(&digits.len()) && !is_address && !is_date && !in_word {
                phones.add(std::mem::take(&mut digits));
            }
            digits.clear();
            groups.clear();
            gap = 0;
            dots = 0;
        }
        inside_word = c.is_alphanumeric() || matches!(c, '_' | '/' | '=' | '&' | '#' | '%' | '@');
    }
}
