//! The records that SpamAssassin's TxRep and AWL and Rspamd's module `reputation` keep of senders: how many messages, and which
//! scores the filter gave them.
//!
//! ```text
//! username,email,ip,msgcount,totscore,signedby,last_hit                a table of TxRep or AWL, with commas, tabs or bars
//! GLOBAL,ann@example.org,none,412,-371.2,,2026-05-17 09:59:00
//!      0.0         (0.0/7)  --  dawson@example.com|ip=208.192          a line of `sa-awl`: mean, sum/count, sender
//! {"key":"RR:i:192.0.2.7","n":"31","l":"1779012000000","v1m":"-2.25"}  a hash of Rspamd's with its key
//! ```
//!
//! TxRep keeps several records of one message: of the address with a network, of the address alone, of its domain, of the client
//! and of its name. The address alone and the client are each a record of all messages that they sent; the others are left out.
//!
//! (Sources: `Mail::SpamAssassin::Plugin::TxRep`, `Mail::SpamAssassin::SQLBasedAddrList` and `sa-awl` of SpamAssassin 4.0,
//! `reputation.lua` of Rspamd 3.)

use std::net::IpAddr;

use event::Time;
use serde_json::{Map, Value};

/// Longest line that is read.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// Most messages of a record: what counts more is no count.
pub const COUNT_MAX: u64 = 1_000_000_000;

/// The prefix of Rspamd's keys, if its configuration has no other.
pub const RSPAMD_PREFIX: &str = "RR:";

/// Most columns of a table.
const COLUMNS_MAX: usize = 64;
/// Longest address that a message can have (RFC 5321).
const ADDRESS_BYTES_MAX: usize = 320;
/// Shortest text that is taken for a hash.
const HASH_BYTES_MIN: usize = 16;

/// The filter that records are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistorySource {
    /// SpamAssassin's plugin TxRep.
    TxRep,
    /// SpamAssassin's plugin AWL, the auto-welcomelist.
    Awl,
    /// Rspamd's module `reputation`.
    Rspamd,
}

/// The sender that a record is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SenderIdentity {
    /// An address in From.
    Address(String),
    /// The address of a client.
    Client(IpAddr),
}

/// A record of a sender.
#[derive(Clone, Debug, PartialEq)]
pub struct SenderRecord {
    /// Tells the record from all others of its source.
    pub name: String,
    /// The user whose mail it is of; empty where the source has no users.
    pub user: String,
    /// The sender.
    pub sender: SenderIdentity,
    /// The number of its messages, from 1 to [`COUNT_MAX`].
    pub count: u64,
    /// The mean of the scores that the filter gave them. Finite.
    pub mean: f64,
    /// The time of the latest one, if it is kept.
    pub last: Option<Time>,
}

/// The sort of a record that cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnusableRecord {
    /// An address together with a network, of which TxRep has the address alone, too.
    AddressOfNetwork,
    /// A domain, a client's name, a country or an AS number.
    Name,
    /// A message that TxRep remembers.
    Message,
    /// A client of the filter's own network.
    Internal,
    /// A hash, which nobody turns back into what it was made of.
    Hash,
    /// A key without the prefix of Rspamd's reputations.
    Key,
    /// A record of no message.
    Empty,
}

impl UnusableRecord {
    /// The name of the sort, for programs.
    pub fn name(self) -> &'static str {
        match self {
            UnusableRecord::AddressOfNetwork => "address_of_network",
            UnusableRecord::Name => "name",
            UnusableRecord::Message => "message",
            UnusableRecord::Internal => "internal",
            UnusableRecord::Hash => "hash",
            UnusableRecord::Key => "key",
            UnusableRecord::Empty => "empty",
        }
    }

    /// The reason to leave it out, for people.
    pub fn reason(self) -> &'static str {
        match self {
            UnusableRecord::AddressOfNetwork => {
                "addresses with a network: the address alone has the same messages"
            }
            UnusableRecord::Name => "domains, names, countries and AS numbers: no sender alone",
            UnusableRecord::Message => "single messages",
            UnusableRecord::Internal => "clients of the own network",
            UnusableRecord::Hash => {
                "hashes, of Rspamd's option `hashed` or of SPF records: nobody knows of what"
            }
            UnusableRecord::Key => "keys with another prefix than --prefix",
            UnusableRecord::Empty => "records of no message",
        }
    }
}

/// The content of a line.
#[derive(Clone, Debug, PartialEq)]
pub enum HistoryLine {
    /// Nothing, or the head of a table.
    Head,
    /// A record of a sender.
    Record(SenderRecord),
    /// A record that cannot be taken.
    Unusable(UnusableRecord),
}

/// Reasons to refuse a line, each with its mend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistoryLineError {
    /// Longer than [`LINE_BYTES_MAX`].
    #[error("the line is longer than {} KiB", LINE_BYTES_MAX >> 10)]
    TooLong,
    /// The first line is neither the head of a table nor one of sa-awl.
    #[error(
        "this is neither the head of a table (with `email`, `count` or `msgcount`, and `totscore`) nor a line of sa-awl"
    )]
    NoHead,
    /// A line of sa-awl that has another form.
    #[error("expected `MEAN (SUM/COUNT)  --  ADDRESS|ip=…`, as sa-awl prints without --clean")]
    NoListing,
    /// A row with more fields than the table has columns, or a quotation mark that does not end.
    #[error("the fields are not those of the first line: has a value a line end or a separator?")]
    NoRow,
    /// No JSON object with a key.
    #[error("expected a JSON object with `key`, `n`, `l` and `v…`, one a line")]
    NoObject,
    /// A count that is none.
    #[error("the count is no number from 0 to {COUNT_MAX}")]
    NoCount,
    /// A score that is none.
    #[error("the score is no number")]
    NoScore,
    /// A time that is none.
    #[error("the time is neither as 2026-05-17 09:59:00 nor an epoch")]
    NoTime,
}

impl HistoryLineError {
    /// Returns true if nothing can be read behind a first line like this.
    pub fn is_of_file(&self) -> bool {
        matches!(self, HistoryLineError::NoHead)
    }
}

/// The places of a table's columns.
#[derive(Clone, Debug)]
struct TableColumns {
    separator: char,
    count: usize,
    email: usize,
    messages: usize,
    sum: usize,
    user: Option<usize>,
    ip: Option<usize>,
    signer: Option<usize>,
    last: Option<usize>,
}

/// The form of a file, which its first line shows.
#[derive(Clone, Debug)]
enum HistoryForm {
    Table(TableColumns),
    Listing,
}

/// A reader of the lines of a file.
#[derive(Clone, Debug)]
pub struct HistoryReader {
    source: HistorySource,
    prefix: String,
    form: Option<HistoryForm>,
}

impl HistoryReader {
    /// A reader of records of a filter, whose keys have a prefix if it is Rspamd.
    ///
    /// ```
    /// use content::mail::sender_history::{HistoryLine, HistoryReader, HistorySource, RSPAMD_PREFIX};
    ///
    /// let mut reader = HistoryReader::new(HistorySource::TxRep, RSPAMD_PREFIX);
    /// assert_eq!(reader.line("email\tip\tcount\ttotscore"), Ok(HistoryLine::Head));
    /// let Ok(HistoryLine::Record(record)) = reader.line("ann@example.org\tnone\t4\t-2") else { panic!() };
    /// assert_eq!((record.count, record.mean), (4, -0.5));
    /// ```
    pub fn new(source: HistorySource, prefix: &str) -> HistoryReader {
        HistoryReader { source, prefix: prefix.to_owned(), form: None }
    }

    /// Reads the next line, without its end.
    ///
    /// # Errors
    /// If it is none of such a file. Those behind it can still be read, unless [`HistoryLineError::is_of_file`].
    pub fn line(&mut self, text: &str) -> Result<HistoryLine, HistoryLineError> {
        if text.len() > LINE_BYTES_MAX {
            return Err(HistoryLineError::TooLong);
        }
        if text.trim().is_empty() {
            return Ok(HistoryLine::Head);
        }
        if self.source == HistorySource::Rspamd {
            return self.object(text);
        }
        match &self.form {
            None => self.first(text.trim_start_matches('\u{feff}')),
            Some(HistoryForm::Listing) => self.listed(text),
            Some(HistoryForm::Table(columns)) => self.row(columns, text),
        }
    }

    fn first(&mut self, text: &str) -> Result<HistoryLine, HistoryLineError> {
        if let Some(columns) = TableColumns::of(text) {
            self.form = Some(HistoryForm::Table(columns));
            return Ok(HistoryLine::Head);
        }
        let read = self.listed(text).map_err(|error| match error {
            HistoryLineError::NoListing => HistoryLineError::NoHead,
            error => error,
        })?;
        self.form = Some(HistoryForm::Listing);
        Ok(read)
    }

    /// Reads a line of sa-awl.
    fn listed(&self, text: &str) -> Result<HistoryLine, HistoryLineError> {
        let no_listing = || HistoryLineError::NoListing;
        let (figures, sender) = text.split_once("  --  ").ok_or_else(no_listing)?;
        let (mean, figures) = figures.trim().split_once('(').ok_or_else(no_listing)?;
        let _: f64 = mean.trim().parse().map_err(|_| no_listing())?;
        let figures = figures.strip_suffix(')').ok_or_else(no_listing)?;
        let (sum, count) = figures.split_once('/').ok_or_else(no_listing)?;
        let (sender, signer) = sender.split_once("|signedby=").unwrap_or((sender, ""));
        let (email, ip) = sender.split_once("|ip=").unwrap_or((sender, "none"));
        self.record(["", email, ip, signer], count, sum, "")
    }

    fn row(&self, columns: &TableColumns, text: &str) -> Result<HistoryLine, HistoryLineError> {
        let fields = split(text, columns.separator).filter(|fields| fields.len() <= columns.count);
        let fields = fields.ok_or(HistoryLineError::NoRow)?;
        // Blanks at the end of a line may be gone, and with them its last separators.
        let at =
            |column: usize| fields.get(column).map_or("", |field| if field == "NULL" { "" } else { field });
        let maybe = |column: Option<usize>| column.map_or("", at);
        let who = [maybe(columns.user), at(columns.email), maybe(columns.ip), maybe(columns.signer)];
        self.record(who, at(columns.messages), at(columns.sum), maybe(columns.last))
    }

    /// Returns the record of a user, an address, its network and a signer.
    fn record(
        &self,
        who: [&str; 4],
        count: &str,
        sum: &str,
        last: &str,
    ) -> Result<HistoryLine, HistoryLineError> {
        let [user, email, ip, signer] = who.map(str::trim);
        let count = count_of(count)?;
        let sum: f64 = sum.trim().parse().map_err(|_| HistoryLineError::NoScore)?;
        if !sum.is_finite() {
            return Err(HistoryLineError::NoScore);
        }
        let last = time_of(last)?;
        let sender = match self.source {
            HistorySource::TxRep => of_txrep(email, ip, signer),
            _ if is_address(email) => Ok(SenderIdentity::Address(email.to_owned())),
            _ => Err(UnusableRecord::Name),
        };
        Ok(match sender {
            Err(sort) => HistoryLine::Unusable(sort),
            Ok(_) if count == 0 => HistoryLine::Unusable(UnusableRecord::Empty),
            Ok(sender) => HistoryLine::Record(SenderRecord {
                name: [user, email, ip, signer].join("\0"),
                user: user.to_owned(),
                sender,
                count,
                mean: sum / count as f64,
                last,
            }),
        })
    }

    /// Reads a hash of Rspamd's.
    fn object(&self, text: &str) -> Result<HistoryLine, HistoryLineError> {
        let object: Map<String, Value> =
            serde_json::from_str(text).map_err(|_| HistoryLineError::NoObject)?;
        let Some(Value::String(key)) = object.get("key") else { return Err(HistoryLineError::NoObject) };
        let Some(token) = key.strip_prefix(&self.prefix) else {
            return Ok(HistoryLine::Unusable(UnusableRecord::Key));
        };
        let sender = match of_rspamd(token) {
            Ok(sender) => sender,
            Err(sort) => return Ok(HistoryLine::Unusable(sort)),
        };
        let count = object.get("n").and_then(shown).ok_or(HistoryLineError::NoCount)?;
        let count = count_of(&count)?;
        if count == 0 {
            return Ok(HistoryLine::Unusable(UnusableRecord::Empty));
        }
        // A mean for each bucket of time, of which Rspamd takes the mean.
        let (mut sum, mut buckets) = (0.0, 0.0);
        for (_, value) in object.iter().filter(|(name, _)| name.starts_with('v')) {
            sum += number_of(value).ok_or(HistoryLineError::NoScore)?;
            buckets += 1.0;
        }
        let mean: f64 = sum / buckets;
        if !mean.is_finite() {
            return Err(HistoryLineError::NoScore);
        }
        let last = match object.get("l") {
            None | Some(Value::Null) => None,
            Some(value) => {
                let millis = number_of(value).filter(|millis| (0.0..9e15).contains(millis));
                Some(Time::from_millis(millis.ok_or(HistoryLineError::NoTime)? as i64))
            }
        };
        Ok(HistoryLine::Record(SenderRecord {
            name: key.clone(),
            user: String::new(),
            sender,
            count,
            mean,
            last,
        }))
    }
}

impl TableColumns {
    /// The columns that a first line names; `None` if it is no head of such a table.
    fn of(head: &str) -> Option<TableColumns> {
        let separator = ['\t', ',', '|'].into_iter().find(|separator| head.contains(*separator))?;
        let names = split(head, separator).filter(|names| names.len() <= COLUMNS_MAX)?;
        let column = |name: &str| names.iter().position(|column| column.trim().eq_ignore_ascii_case(name));
        Some(TableColumns {
            separator,
            count: names.len(),
            email: column("email")?,
            messages: column("count").or_else(|| column("msgcount"))?,
            sum: column("totscore")?,
            user: column("username"),
            ip: column("ip"),
            signer: column("signedby"),
            last: column("last_hit"),
        })
    }
}

/// Returns the fields of a row; `None` if a quotation mark does not end.
fn split(text: &str, separator: char) -> Option<Vec<String>> {
    let mut fields = vec![String::new()];
    let mut chars = text.chars().peekable();
    let mut is_quoted = false;
    while let Some(letter) = chars.next() {
        let field = fields.last_mut()?;
        match letter {
            // Two of them in a quoted field are one of its own.
            '"' if is_quoted => match chars.next_if_eq(&'"') {
                Some(_) => field.push('"'),
                None => is_quoted = false,
            },
            '"' if separator == ',' && field.is_empty() => is_quoted = true,
            // As `mysql -B` writes what would end a field.
            '\\' if separator == '\t' => match chars.next() {
                Some('t') => field.push('\t'),
                Some('n') => field.push('\n'),
                Some('0') => field.push('\0'),
                other => field.extend(other),
            },
            letter if letter == separator && !is_quoted => fields.push(String::new()),
            letter => field.push(letter),
        }
    }
    (!is_quoted).then_some(fields)
}

/// Returns the sender of a record of TxRep.
fn of_txrep(email: &str, ip: &str, signer: &str) -> Result<SenderIdentity, UnusableRecord> {
    // Of a message the date stands in the place of a signer.
    let is_date = !signer.is_empty() && signer.bytes().all(|byte| byte.is_ascii_digit());
    if is_date || email.ends_with("@sa_generated") {
        return Err(UnusableRecord::Message);
    }
    if let Ok(client) = email.parse() {
        return of_client(client);
    }
    match (is_address(email), ip) {
        (false, _) => Err(UnusableRecord::Name),
        (true, "" | "none") => Ok(SenderIdentity::Address(email.to_owned())),
        (true, _) => Err(UnusableRecord::AddressOfNetwork),
    }
}

/// Returns the sender of a key of Rspamd's, without its prefix.
fn of_rspamd(token: &str) -> Result<SenderIdentity, UnusableRecord> {
    if let Some(Ok(client)) = token.strip_prefix("i:").map(str::parse) {
        return of_client(client);
    }
    if is_address(token) {
        return Ok(SenderIdentity::Address(token.to_owned()));
    }
    let is_hash = token.len() >= HASH_BYTES_MIN && !token.contains(['.', ':', '@', ' ']);
    Err(if is_hash { UnusableRecord::Hash } else { UnusableRecord::Name })
}

fn of_client(client: IpAddr) -> Result<SenderIdentity, UnusableRecord> {
    let client = client.to_canonical();
    let is_internal = client.is_loopback() || client.is_unspecified();
    if is_internal { Err(UnusableRecord::Internal) } else { Ok(SenderIdentity::Client(client)) }
}

fn is_address(text: &str) -> bool {
    let is_plain = |part: &str| {
        !part.is_empty()
            && !part.contains(|c: char| c.is_whitespace() || c.is_control() || "@|<>".contains(c))
    };
    let (local, domain) = text.rsplit_once('@').unwrap_or_default();
    text.len() <= ADDRESS_BYTES_MAX && is_plain(local) && is_plain(domain) && !domain.contains(':')
}

fn count_of(text: &str) -> Result<u64, HistoryLineError> {
    let count = text.trim().parse().ok().filter(|count| *count <= COUNT_MAX);
    count.ok_or(HistoryLineError::NoCount)
}

/// A number of JSON, or a text that is one, as Redis has it.
fn number_of(value: &Value) -> Option<f64> {
    shown(value)?.trim().parse().ok().filter(|number: &f64| number.is_finite())
}

fn shown(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Reads a time as databases write it: without a zone it is UTC.
fn time_of(text: &str) -> Result<Option<Time>, HistoryLineError> {
    let text = text.trim();
    if text.is_empty() || text.starts_with("0000-00-00") {
        return Ok(None);
    }
    let time = text.parse().or_else(|_| format!("{text}Z").parse());
    time.map(Some).map_err(|_| HistoryLineError::NoTime)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOON: Time = Time::from_seconds(1_779_012_000); // 2026-05-17T10:00:00Z

    fn address(text: &str) -> SenderIdentity {
        SenderIdentity::Address(text.to_owned())
    }

    fn client(text: &str) -> SenderIdentity {
        SenderIdentity::Client(text.parse().unwrap())
    }

    /// The content of each line behind the first.
    fn read(source: HistorySource, text: &str) -> Vec<Result<HistoryLine, HistoryLineError>> {
        let mut reader = HistoryReader::new(source, RSPAMD_PREFIX);
        text.lines().map(|line| reader.line(line)).collect()
    }

    #[track_caller]
    fn check(
        source: HistorySource,
        head: &str,
        line: &str,
        (sender, count, mean, last): (SenderIdentity, u64, f64, Option<Time>),
    ) {
        let read = read(source, &format!("{head}{line}")).pop().unwrap();
        let Ok(HistoryLine::Record(record)) = read else { panic!("{line:?}: {read:?}") };
        assert_eq!((record.sender, record.count, record.mean, record.last), (sender, count, mean, last));
    }

    #[track_caller]
    fn check_unusable(source: HistorySource, head: &str, line: &str, sort: UnusableRecord) {
        let read = read(source, &format!("{head}{line}")).pop().unwrap();
        assert_eq!(read, Ok(HistoryLine::Unusable(sort)), "{line:?}");
    }

    const CSV: &str = "username,email,ip,msgcount,totscore,signedby,last_hit\n";
    const TSV: &str = "username\temail\tip\tcount\ttotscore\tsignedby\tlast_hit\n";

    #[test]
    fn tables_of_txrep_are_read() {
        let txrep = HistorySource::TxRep;
        let ann = || (address("ann@example.org"), 412, -0.5, Some(NOON));
        check(txrep, CSV, "GLOBAL,ann@example.org,none,412,-206,,2026-05-17 10:00:00", ann());
        check(txrep, CSV, "\"a,b\",ann@example.org,none,412,-206,example.org,2026-05-17 10:00:00.000", ann());
        check(txrep, CSV, "GLOBAL,ann@example.org,none,412,-206,spf,2026-05-17 12:00:00+02", ann());
        check(txrep, TSV, "GLOBAL\tann@example.org\tnone\t412\t-206\t\t2026-05-17 10:00:00", ann());
        check(txrep, TSV, "GLOBAL\tann@example.org\tnone\t412\t-206\t\t1779012000", ann());
        check(
            txrep,
            &CSV.replace(',', "|"),
            "GLOBAL|ann@example.org|none|412|-206||2026-05-17 10:00:00",
            ann(),
        );
        let undated = || (address("bob@example.net"), 3, 8.0, None);
        check(txrep, TSV, "NULL\tbob@example.net\tnone\t3\t24\tNULL\tNULL", undated());
        check(txrep, CSV, "x,bob@example.net,none,3,24,,0000-00-00 00:00:00", undated());
        check(txrep, "\u{feff}email,count,totscore\n", "bob@example.net,3,24", undated());
        check(txrep, CSV, "x,192.0.2.7,none,3,24,,", (client("192.0.2.7"), 3, 8.0, None));
        check(txrep, CSV, "x,2001:db8::7,none,3,24,,", (client("2001:db8::7"), 3, 8.0, None));
        check(txrep, CSV, "x,::ffff:192.0.2.7,none,3,24,,", (client("192.0.2.7"), 3, 8.0, None));
        for (line, sort) in [
            ("x,ann@example.org,192.0,9,1,,", UnusableRecord::AddressOfNetwork),
            ("x,example.org,192.0,9,1,,", UnusableRecord::Name),
            ("x,mail-7.example.org,none,9,1,helo,", UnusableRecord::Name),
            ("x,1ca64c@sa_generated,none,1,1,1779012000,", UnusableRecord::Message),
            ("x,caf@mail.example.org,none,1,1,1779012000,", UnusableRecord::Message),
            ("x,127.0.0.1,none,9,1,,", UnusableRecord::Internal),
            ("x,ann@example.org,none,0,0,,", UnusableRecord::Empty),
        ] {
            check_unusable(txrep, CSV, line, sort);
        }
    }

    #[test]
    fn tables_and_listings_of_awl_are_read() {
        let awl = HistorySource::Awl;
        let head = "username,email,ip,count,totscore,signedby\n";
        check(awl, head, "GLOBAL,ann@example.org,192.0,9,4.5,", (address("ann@example.org"), 9, 0.5, None));
        check(awl, head, "GLOBAL,ann@example.org,192.0,9,4.5", (address("ann@example.org"), 9, 0.5, None));
        check_unusable(awl, head, "GLOBAL,192.0.2.7,none,9,4.5,", UnusableRecord::Name);
        let listed = |line: &str, sender: &str, count, mean| {
            check(awl, "", line, (address(sender), count, mean, None));
            check(
                awl,
                "     0.0         (0.0/7)  --  x@example.com|ip=208.192\n",
                line,
                (address(sender), count, mean, None),
            );
        };
        listed("     0.0         (0.0/7)  --  dawson@example.com|ip=208.192", "dawson@example.com", 7, 0.0);
        listed("    21.8        (43.5/2)  --  mc_2s@example.com|ip=none", "mc_2s@example.com", 2, 21.75);
        listed(
            "    -1.0       (-4.0/4)  --  ann@example.org|ip=none|signedby=example.org",
            "ann@example.org",
            4,
            -1.0,
        );
        listed("     1.0         (2.0/2)  --  old@example.org", "old@example.org", 2, 1.0);
        check_unusable(awl, "", "  1.0  (1.0/1)  --  no address|ip=none", UnusableRecord::Name);
    }

    #[test]
    fn hashes_of_rspamd_are_read() {
        let rspamd = HistorySource::Rspamd;
        let line = r#"{"key":"RR:i:192.0.2.7","n":"31","l":"1779012000000","v1m":"-2.25"}"#;
        check(rspamd, "", line, (client("192.0.2.7"), 31, -2.25, Some(NOON)));
        let line = r#"{"key":"RR:ann@example.org","n":31,"l":1.779012e12,"v1m":2,"v1d":4}"#;
        check(rspamd, "", line, (address("ann@example.org"), 31, 3.0, Some(NOON)));
        check(rspamd, "", r#"{"key":"RR:i:2001:db8::","n":2,"v1m":9}"#, (client("2001:db8::"), 2, 9.0, None));
        for (key, sort) in [
            ("RR:a:64500", UnusableRecord::Name),
            ("RR:c:DE", UnusableRecord::Name),
            ("RR:example.org.a", UnusableRecord::Name),
            ("RR:i:elsewhere", UnusableRecord::Name),
            ("RR:ann@example.org:192.0.2.7", UnusableRecord::Name),
            ("RR:s9y5zfc43p8qhbrw1ck97zxqkfh4q1xi", UnusableRecord::Hash),
            ("RR:i:127.0.0.1", UnusableRecord::Internal),
            ("RS:i:192.0.2.7", UnusableRecord::Key),
        ] {
            check_unusable(rspamd, "", &format!(r#"{{"key":"{key}","n":"1","v1m":"1"}}"#), sort);
        }
        check_unusable(rspamd, "", r#"{"key":"RR:i:192.0.2.7","n":0}"#, UnusableRecord::Empty);
    }

    #[test]
    fn lines_that_are_none_are_refused() {
        let refused = |source, text: &str, error: HistoryLineError| {
            assert_eq!(read(source, text).pop().unwrap(), Err(error), "{text:?}");
        };
        let (txrep, rspamd) = (HistorySource::TxRep, HistorySource::Rspamd);
        refused(txrep, "From: ann@example.org", HistoryLineError::NoHead);
        refused(txrep, "email,count\nann@example.org,4", HistoryLineError::NoHead);
        refused(
            HistorySource::Awl,
            "cleaning:      0.0         (0.0/1)  --  x@example.com|ip=1.2",
            HistoryLineError::NoHead,
        );
        refused(txrep, "  1.0  (2.0/2)  --  a@example.org\nnothing", HistoryLineError::NoListing);
        refused(txrep, &format!("{CSV}a,b,c,1,2,d,,e"), HistoryLineError::NoRow);
        refused(txrep, &format!("{CSV}\"a,b,c,1,2,d,"), HistoryLineError::NoRow);
        refused(txrep, &format!("{CSV}x,a@example.org,none,-1,2,,"), HistoryLineError::NoCount);
        refused(txrep, &format!("{CSV}x,a@example.org,none,1000000001,2,,"), HistoryLineError::NoCount);
        refused(txrep, &format!("{CSV}x,a@example.org,none,1,nan,,"), HistoryLineError::NoScore);
        refused(txrep, &format!("{CSV}x,a@example.org,none,1,1,,yesterday"), HistoryLineError::NoTime);
        refused(txrep, &"x".repeat(LINE_BYTES_MAX + 1), HistoryLineError::TooLong);
        refused(rspamd, "[1]", HistoryLineError::NoObject);
        refused(rspamd, r#"{"n":1}"#, HistoryLineError::NoObject);
        refused(rspamd, r#"{"key":"RR:i:192.0.2.7","v1m":1}"#, HistoryLineError::NoCount);
        refused(rspamd, r#"{"key":"RR:i:192.0.2.7","n":1}"#, HistoryLineError::NoScore);
        refused(rspamd, r#"{"key":"RR:i:192.0.2.7","n":1,"v1m":1,"l":-5}"#, HistoryLineError::NoTime);
        assert_eq!(read(txrep, "\n  \n"), [Ok(HistoryLine::Head), Ok(HistoryLine::Head)]);
    }

    fn source() -> impl Strategy<Value = HistorySource> {
        prop::sample::select(vec![HistorySource::TxRep, HistorySource::Awl, HistorySource::Rspamd])
    }

    proptest! {
        #[test]
        fn nothing_panics_and_records_are_bounded(source in source(), lines in prop::collection::vec("\\PC{0,80}", 0..8)) {
            let mut reader = HistoryReader::new(source, RSPAMD_PREFIX);
            for line in lines.iter().map(String::as_str).chain([CSV.trim_end()]) {
                if let Ok(HistoryLine::Record(record)) = reader.line(line) {
                    prop_assert!((1..=COUNT_MAX).contains(&record.count) && record.mean.is_finite());
                }
            }
        }

        #[test]
        fn every_form_says_the_same(
            local in "[a-z0-9.,\"_+-]{1,20}", count in 1..COUNT_MAX, mean in -50i32..50, seconds in 0..4_000_000_000i64
        ) {
            let (email, sum) = (format!("{local}@example.org"), f64::from(mean) * count as f64);
            let last = Time::from_seconds(seconds);
            let quoted = email.replace('"', "\"\"");
            let forms = [
                (HistorySource::TxRep, format!("{CSV}x,\"{quoted}\",none,{count},{sum},,{last}")),
                (HistorySource::TxRep, format!("{TSV}x\t{email}\tnone\t{count}\t{sum}\t\t{last}")),
                (HistorySource::Awl, format!("{CSV}x,\"{quoted}\",192.0,{count},{sum},,{last}")),
                (HistorySource::Rspamd, serde_json::json!({
                    "key": format!("RR:{email}"), "n": count.to_string(), "l": seconds * 1000, "v1m": f64::from(mean)
                }).to_string()),
            ];
            for (source, text) in forms {
                let read = read(source, &text).pop();
                let Some(Ok(HistoryLine::Record(record))) = read else { panic!("{text}: {read:?}") };
                prop_assert_eq!(&record.sender, &SenderIdentity::Address(email.clone()));
                prop_assert_eq!((record.count, record.last), (count, Some(last)));
                prop_assert!((record.mean - f64::from(mean)).abs() < 1e-9);
            }
        }
    }
}
