//! Block lists: files of addresses and networks, as others publish and export them.
//!
//! ```text
//! 192.0.2.0/24 ; SBL1                         plain, CIDR, FireHOL, Spamhaus DROP; also 192.0.2.1-192.0.2.9
//! {"cidr": "192.0.2.0/24", "sblid": "SBL1"}   Spamhaus DROP as JSON, one a line
//! add bad 192.0.2.7 timeout 600               ipset save
//! [{"value": "192.0.2.7", "duration": "4h"}]  cscli decisions list -o json, cscli decisions import
//! duration,scope,value                        CSV of CrowdSec, by the names of its columns
//! ```
//!
//! Lines are read one at a time, and what a line says is handed over at once: memory is for what the caller keeps. JSON of CrowdSec is one
//! value, and bounded by itself.

use std::io::{self, BufRead, Read};

use event::Span;
use judge::Network;
use serde::Deserialize;

/// Longest line that is read.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Most bytes of JSON that is one value.
const JSON_BYTES_MAX: u64 = 256 << 20;
/// Bad lines that are named; more are only counted.
const NAMED_MAX: usize = 20;
/// Networks that a range from one address to another may be cut into.
const PARTS_MAX: usize = 254;

/// The format of a block list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockListFormat {
    /// An address, network or range a line, with remarks behind `#` or `;`.
    Plain,
    /// The output of `ipset save`.
    Ipset,
    /// Spamhaus DROP as JSON, an object a line.
    DropJson,
    /// Decisions of CrowdSec as JSON.
    CrowdsecJson,
    /// Decisions of CrowdSec as CSV.
    CrowdsecCsv,
}

impl BlockListFormat {
    /// The names of formats, as settings and flags have them. Some are the same for a reader.
    pub const NAMES: [(&'static str, BlockListFormat); 8] = [
        ("plain", BlockListFormat::Plain),
        ("cidr", BlockListFormat::Plain),
        ("firehol", BlockListFormat::Plain),
        ("spamhaus-drop", BlockListFormat::Plain),
        ("spamhaus-json", BlockListFormat::DropJson),
        ("ipset", BlockListFormat::Ipset),
        ("crowdsec-json", BlockListFormat::CrowdsecJson),
        ("crowdsec-csv", BlockListFormat::CrowdsecCsv),
    ];

    /// Returns the format of this name.
    pub fn named(name: &str) -> Option<BlockListFormat> {
        BlockListFormat::NAMES.iter().find(|(own, _)| *own == name).map(|(_, format)| *format)
    }

    /// Returns the format that the first bytes of a list look like.
    pub fn detect(start: &[u8]) -> BlockListFormat {
        let mut lines = start.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let first = lines.find(|line| !line.is_empty() && !line.starts_with(b"#")).unwrap_or_default();
        if first.starts_with(b"[") {
            BlockListFormat::CrowdsecJson
        } else if first.starts_with(b"{") {
            BlockListFormat::DropJson
        } else if first.starts_with(b"create ") || first.starts_with(b"add ") {
            BlockListFormat::Ipset
        } else if first.contains(&b',') {
            BlockListFormat::CrowdsecCsv
        } else {
            BlockListFormat::Plain
        }
    }
}

/// An entry of a block list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockListEntry {
    /// The addresses.
    pub network: Network,
    /// The time for which it is to hold, if the list says one.
    pub lasts: Option<Span>,
}

/// The lines of a block list that could not be taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadLines {
    /// The number of them.
    pub count: u64,
    /// The first ones: the number of the line, and what is wrong with it.
    pub named: Vec<(u64, String)>,
}

impl BadLines {
    fn add(&mut self, line: u64, why: impl Into<String>) {
        self.count += 1;
        if self.named.len() < NAMED_MAX {
            self.named.push((line, why.into()));
        }
    }
}

/// Reads a block list, and hands each entry over; `None` for the format looks at its beginning. `take` answers whether there is room
/// for more.
///
/// # Errors
/// The error of the reader; JSON that is none, or too long; more entries than there is room for.
pub fn read(
    mut list: impl BufRead,
    format: Option<BlockListFormat>,
    mut take: impl FnMut(BlockListEntry) -> bool,
) -> io::Result<BadLines> {
    let format = match format {
        Some(format) => format,
        None => BlockListFormat::detect(list.fill_buf()?),
    };
    let mut bad = BadLines::default();
    if format == BlockListFormat::CrowdsecJson {
        crowdsec_json(list, &mut bad, &mut take)?;
        return Ok(bad);
    }
    let (mut line, mut number) = (Vec::new(), 0);
    let mut columns: Option<CsvColumns> = None;
    loop {
        line.clear();
        let length = list.by_ref().take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut line)?;
        if length == 0 {
            return Ok(bad);
        }
        number += 1;
        if length > LINE_BYTES_MAX && !line.ends_with(b"\n") {
            list.skip_until(b'\n')?;
            bad.add(number, "the line is too long");
            continue;
        }
        let Ok(text) = std::str::from_utf8(line.trim_ascii()) else {
            bad.add(number, "it is no UTF-8");
            continue;
        };
        let text = text.trim_start_matches('\u{feff}');
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let mut full = false;
        let mut give = |network, lasts| full |= !take(BlockListEntry { network, lasts });
        let read = match format {
            BlockListFormat::Plain => plain(text, &mut give),
            BlockListFormat::Ipset => ipset(text, &mut give),
            BlockListFormat::DropJson => drop_json(text, &mut give),
            BlockListFormat::CrowdsecCsv => match &columns {
                Some(columns) => columns.read(text, &mut give),
                None => CsvColumns::of(text).map(|found| columns = Some(found)),
            },
            BlockListFormat::CrowdsecJson => Ok(()),
        };
        if full {
            return Err(too_many());
        }
        if let Err(why) = read {
            bad.add(number, why);
        }
    }
}

fn too_many() -> io::Error {
    io::Error::other("the list has more entries than there is room for")
}

type Give<'a> = &'a mut dyn FnMut(Network, Option<Span>);

/// Reads an address, a network, or a range as `192.0.2.1-192.0.2.9`.
fn addresses(text: &str, lasts: Option<Span>, give: Give<'_>) -> Result<(), String> {
    if let Ok(network) = text.parse::<Network>() {
        if network.is_everything() {
            return Err(format!("`{}` is everybody", shown(text)));
        }
        give(network, lasts);
        return Ok(());
    }
    let ends = text.split_once('-').and_then(|(low, high)| {
        let [low, high] = [low, high].map(|end| end.trim().parse::<std::net::Ipv4Addr>().ok());
        Some((low?.to_bits(), high?.to_bits()))
            .filter(|(low, high)| low <= high && (*low, *high) != (0, u32::MAX))
    });
    let Some((mut low, high)) = ends else {
        return Err(format!("`{}` is no address or network", shown(text)));
    };
    for _ in 0..PARTS_MAX {
        let mut bits = low.trailing_zeros().min(31);
        while u64::from(low) + (1u64 << bits) - 1 > u64::from(high) {
            bits -= 1;
        }
        let end = low + ((1u64 << bits) - 1) as u32;
        give(Network::V4(low, end), lasts);
        match end.checked_add(1) {
            Some(next) if next <= high => low = next,
            _ => break,
        }
    }
    Ok(())
}

fn plain(text: &str, give: Give<'_>) -> Result<(), String> {
    let entry = text.split(['#', ';']).next().unwrap_or_default().trim();
    if entry.is_empty() { Ok(()) } else { addresses(entry, None, give) }
}

fn ipset(text: &str, give: Give<'_>) -> Result<(), String> {
    let mut words = text.split_ascii_whitespace();
    match words.next() {
        Some("add") => {}
        Some("create") => return Ok(()),
        _ => return Err("expected `create` or `add`".to_owned()),
    }
    let Some(entry) = words.nth(1) else { return Err("`add` names no entry".to_owned()) };
    if words.clone().any(|word| word == "nomatch") {
        return Err("exceptions (`nomatch`) are not taken".to_owned());
    }
    let timeout = words.skip_while(|word| *word != "timeout").nth(1);
    let timeout = timeout.and_then(|timeout| timeout.parse::<u32>().ok()).filter(|seconds| *seconds > 0);
    // Of sets with ports and the like the address is the first part.
    let address = entry.split(',').next().unwrap_or_default();
    addresses(address, timeout.map(|seconds| Span::seconds(seconds.into())), give)
}

#[derive(Deserialize)]
struct DropLine {
    cidr: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
}

fn drop_json(text: &str, give: Give<'_>) -> Result<(), String> {
    let line: DropLine = serde_json::from_str(text).map_err(|error| error.to_string())?;
    match (line.cidr, line.kind) {
        (Some(cidr), _) => addresses(cidr.trim(), None, give),
        // The last line says when the list was made.
        (None, Some(_)) => Ok(()),
        (None, None) => Err("there is no `cidr`".to_owned()),
    }
}

/// The columns of CSV that are read.
struct CsvColumns {
    value: usize,
    duration: Option<usize>,
}

impl CsvColumns {
    fn of(head: &str) -> Result<CsvColumns, String> {
        let names: Vec<String> = cells(head).iter().map(|name| name.trim().to_ascii_lowercase()).collect();
        let find =
            |wanted: &[&str]| wanted.iter().find_map(|wanted| names.iter().position(|name| name == wanted));
        match find(&["value", "scope:value", "ip"]) {
            Some(value) => Ok(CsvColumns { value, duration: find(&["duration", "expiration"]) }),
            None => Err("the first line names no column `value`".to_owned()),
        }
    }

    fn read(&self, text: &str, give: Give<'_>) -> Result<(), String> {
        let cells = cells(text);
        let Some(value) = cells.get(self.value) else { return Err("there is no value".to_owned()) };
        let lasts = match self.duration.and_then(|at| cells.get(at)).map(|text| text.trim()) {
            None | Some("") => None,
            Some(text) => Some(duration(text).ok_or_else(|| format!("`{}` is no duration", shown(text)))?),
        };
        scoped(value, lasts, give)
    }
}

/// Reads a value of CrowdSec, with its scope before it or not: `Ip:192.0.2.7`.
fn scoped(value: &str, lasts: Option<Span>, give: Give<'_>) -> Result<(), String> {
    let value = value.trim();
    let bare = ["Ip:", "ip:", "Range:", "range:"].iter().find_map(|scope| value.strip_prefix(scope));
    addresses(bare.unwrap_or(value), lasts, give)
}

/// The cells of a line of CSV.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut cell, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if is_quoted && chars.peek() == Some(&'"') => cell.extend(chars.next()),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(std::mem::take(&mut cell)),
            other => cell.push(other),
        }
    }
    cells.push(cell);
    cells
}

/// Reads a duration of Go, such as `3h59m55.7s` or `4h`; what is over is none.
fn duration(text: &str) -> Option<Span> {
    let mut seconds = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let (number, behind) = rest.split_at_checked(digits)?;
        let unit = behind.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, behind) = behind.split_at_checked(unit)?;
        let factor = match unit {
            "d" => 86_400.0,
            "h" => 3_600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            "us" | "ns" => 0.0,
            _ => return None,
        };
        seconds += number.parse::<f64>().ok()? * factor;
        rest = behind;
    }
    // A hundred years are for ever.
    (seconds > 0.0).then(|| Span((seconds.min(3.2e9) * 1e6) as i64))
}

/// A decision of CrowdSec, or an alert with some.
#[derive(Deserialize)]
struct CrowdsecItem {
    value: Option<String>,
    duration: Option<String>,
    decisions: Option<Vec<CrowdsecItem>>,
}

fn crowdsec_json(
    list: impl BufRead,
    bad: &mut BadLines,
    take: &mut impl FnMut(BlockListEntry) -> bool,
) -> io::Result<()> {
    let mut limited = list.take(JSON_BYTES_MAX);
    let items: Option<Vec<CrowdsecItem>> = serde_json::from_reader(&mut limited)?;
    let (mut number, mut full) = (0, false);
    for item in items.unwrap_or_default() {
        let (alert, decisions) = match item.decisions {
            Some(decisions) => (None, decisions),
            None => (Some(item), Vec::new()),
        };
        for CrowdsecItem { value, duration: lasts, .. } in alert.into_iter().chain(decisions) {
            number += 1;
            let mut give = |network, lasts| full |= !take(BlockListEntry { network, lasts });
            let lasts = match lasts.as_deref() {
                None => Ok(None),
                Some(text) => {
                    duration(text).map(Some).ok_or_else(|| format!("`{}` is no duration", shown(text)))
                }
            };
            let read = match (value, lasts) {
                (Some(value), Ok(lasts)) => scoped(&value, lasts, &mut give),
                (None, _) => Err("a decision has no `value`".to_owned()),
                (_, Err(why)) => Err(why),
            };
            if let Err(why) = read {
                bad.add(number, why);
            }
            if full {
                return Err(too_many());
            }
        }
    }
    Ok(())
}

/// The beginning of a text, as it may be shown.
fn shown(text: &str) -> String {
    text.chars().take(60).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str], bad: &[(u64, &str)]) {
        for format in [None, Some(BlockListFormat::detect(text.as_bytes()))] {
            let mut found = Vec::new();
            let lines = read(text.as_bytes(), format, |entry| {
                let lasts = entry.lasts.map(|lasts| format!(" {}", lasts.0 / 1_000_000)).unwrap_or_default();
                found.push(format!("{}{lasts}", entry.network));
                true
            });
            let lines = lines.unwrap();
            assert_eq!(found, expected, "{text}");
            assert_eq!(lines.count, bad.len() as u64, "{lines:?}");
            for ((line, why), (number, word)) in lines.named.iter().zip(bad) {
                assert!(line == number && why.contains(word), "{line}: {why}");
            }
        }
    }

    #[test]
    fn lists_are_read_as_they_are_published() {
        check(
            "# FireHOL\n192.0.2.0/24\n\n198.51.100.7 # a remark\n2001:db8::/32\nnobody\n0.0.0.0/0\n",
            &["192.0.2.0/24", "198.51.100.7", "2001:db8::/32"],
            &[(6, "`nobody` is no address"), (7, "everybody")],
        );
        check("; Spamhaus DROP\n1.10.16.0/20 ; SBL256894\r\n", &["1.10.16.0/20"], &[]);
        check("192.0.2.6-192.0.2.9\n", &["192.0.2.6/31", "192.0.2.8/31"], &[]);
        check("0.0.0.1-255.255.255.255\n192.0.2.9-192.0.2.1\n", &all_but_one(), &[(2, "no address")]);
        check(
            "{\"cidr\":\"1.10.16.0/20\",\"sblid\":\"SBL1\",\"rir\":\"apnic\"}\n{\"type\":\"metadata\",\"timestamp\":1}\n{}\nx\n",
            &["1.10.16.0/20"],
            &[(3, "no `cidr`"), (4, "expected value")],
        );
        check(
            "create bad hash:net family inet timeout 0\nadd bad 192.0.2.7 timeout 600\nadd bad 192.0.2.0/25\nadd bad 10.0.0.1,tcp:80\nadd bad 192.0.2.1 nomatch\nflush\nadd bad\n",
            &["192.0.2.7 600", "192.0.2.0/25", "10.0.0.1"],
            &[(5, "nomatch"), (6, "expected `create`"), (7, "names no entry")],
        );
        check(
            "duration,scope,value\n24h,ip,192.0.2.7\n,range,192.0.2.0/24\n1x,ip,192.0.2.8\n4h\n",
            &["192.0.2.7 86400", "192.0.2.0/24"],
            &[(4, "`1x` is no duration"), (5, "no value")],
        );
        check(
            "id,source,ip,reason,action,country,as,events_count,expiration,simulated,alert_id\n7,crowdsec,Ip:192.0.2.7,\"a, \"\"b\"\"\",ban,DE,,5,3h59m55.7s,false,9\n",
            &["192.0.2.7 14395"],
            &[],
        );
        check(
            "[{\"id\":1,\"decisions\":[{\"duration\":\"3h\",\"scope\":\"Ip\",\"value\":\"192.0.2.7\"}]},{\"value\":\"2001:db8::/48\"},{\"value\":\"ann\"},{}]",
            &["192.0.2.7 10800", "2001:db8::/48"],
            &[(3, "`ann`"), (4, "no `value`")],
        );
        check("null", &[], &[(1, "no address")]);
        check("", &[], &[]);
    }

    fn all_but_one() -> Vec<&'static str> {
        let texts = (0..31).map(|bits| format!("{}/{}", std::net::Ipv4Addr::from_bits(1 << bits), 32 - bits));
        let texts = texts.map(|text| text.trim_end_matches("/32").to_owned());
        texts.chain(["128.0.0.0/1".to_owned()]).map(|text| &*text.leak()).collect()
    }

    #[test]
    fn what_is_too_much_is_refused() {
        let mut left = 2;
        let mut take = |_| {
            left -= 1;
            left >= 0
        };
        assert!(read("1.1.1.1\n1.1.1.2\n".as_bytes(), None, &mut take).is_ok());
        assert!(read("1.1.1.3\n".as_bytes(), None, &mut take).is_err());
        let long = format!("{}\n192.0.2.7\n", "x".repeat(LINE_BYTES_MAX + 9));
        let mut found = 0;
        let bad = read(long.as_bytes(), Some(BlockListFormat::Plain), |_| {
            found += 1;
            true
        });
        assert_eq!((bad.unwrap().named, found), (vec![(1, "the line is too long".to_owned())], 1));
        assert!(read("[{".as_bytes(), None, |_| true).is_err());
    }
}
