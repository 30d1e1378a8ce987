//! `tollhouse import multimap`: lists of Rspamd's multimap as sets and rules.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::BufRead as _;
use std::path::{Path, PathBuf};

use content::mail::multimap::{self, MultimapEntry, MultimapKey};
use plan::{Config, Overrides, Plan};
use regex::RegexBuilder;

use crate::console::{Output, printable, say};
use crate::exit::{CommandError, Exit};

/// Convert Rspamd's multimap lists to sets and rules for a pipeline's file
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse import multimap --type ip --symbol OFFICE --score=-5 office.map
  tollhouse import multimap --type from --filter email:domain --symbol BLOCKED --score 8 bad.map
  tollhouse import multimap --type content --symbol PILLS --score 2 body.map >> data/mail.toml
  tollhouse import multimap --type url --symbol LINKS --lists data/lists links.map

Describe each list as multimap.conf does. A line with its own symbol and weight becomes a rule with
that weight times --score. Lines without an equivalent are reported and left out (exit code 1). The
output was checked over the preset `mail`.")]
pub(crate) struct MultimapImportArgs {
    /// Rspamd lists; several are joined
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Match type, as `type` in multimap.conf
    #[arg(long = "type", value_enum, value_name = "TYPE")]
    of: MapType,
    /// Part to match, as `filter`: email:addr, email:domain, email:domain:tld, email:name, tld, full
    #[arg(long, value_name = "FILTER")]
    filter: Option<String>,
    /// Field for --type header: From, Reply-To, Subject or List-Id
    #[arg(long, value_name = "NAME", required_if_eq("of", "header"))]
    header: Option<String>,
    /// With --type from: match From instead of the envelope sender, as `extract_from = "mime"`
    #[arg(long)]
    mime: bool,
    /// Rule name: the list's symbol
    #[arg(long, value_name = "SYMBOL", value_parser = symbol)]
    symbol: String,
    /// Score of the symbol
    #[arg(long, default_value_t = 1.0, value_name = "SCORE", allow_negative_numbers = true)]
    score: f64,
    /// Directory for entry files that the configuration names [default: entries inline]
    #[arg(long, value_name = "DIR")]
    lists: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum MapType {
    Ip,
    From,
    Rcpt,
    Url,
    Helo,
    Hostname,
    User,
    Filename,
    Content,
    Header,
}

fn symbol(text: &str) -> Result<String, String> {
    let is_symbol = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_symbol.then(|| text.to_owned()).ok_or_else(|| "expected letters, digits and _".to_owned())
}

/// The content of a set of a list's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SetContent {
    Networks,
    Addresses,
    Names,
    Domains,
}

impl SetContent {
    /// The end of the set's name, and its type.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            SetContent::Networks => ("networks", "ip"),
            SetContent::Addresses => ("addresses", "string"),
            SetContent::Names => ("names", "string"),
            SetContent::Domains => ("domains", "domain"),
        }
    }
}

/// The place in which a key is sought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MatchPlace {
    Network,
    /// An address: the whole, or its domain where a key has no local part.
    Address {
        whole: &'static str,
        domain: &'static str,
    },
    /// A text that is one of the set's.
    Text {
        fact: &'static str,
        holds: SetContent,
    },
    /// A list of which an item is one of the set's.
    List {
        fact: &'static str,
        holds: SetContent,
    },
    /// A text in which something is found.
    Inside {
        fact: &'static str,
        whole: bool,
    },
}

impl MatchPlace {
    fn of(args: &MultimapImportArgs) -> Result<MatchPlace, CommandError> {
        let filter = args.filter.as_deref();
        let text = |fact, holds| MatchPlace::Text { fact, holds };
        let list = |fact, holds| MatchPlace::List { fact, holds };
        let from = |whole, domain| match filter {
            None => Some(MatchPlace::Address { whole, domain }),
            Some("email" | "email:addr") => Some(text(whole, SetContent::Addresses)),
            Some("email:domain") => Some(text(domain, SetContent::Names)),
            Some("email:domain:tld") => Some(text(domain, SetContent::Domains)),
            Some(_) => None,
        };
        let host = |fact| match filter {
            None => Some(text(fact, SetContent::Names)),
            Some("tld") => Some(text(fact, SetContent::Domains)),
            Some(_) => None,
        };
        let header = args.header.as_deref().unwrap_or_default().to_ascii_lowercase();
        let place = match (args.of, header.as_str(), filter) {
            (MapType::Ip, _, None) => Some(MatchPlace::Network),
            (MapType::From, _, Some("email:name")) if args.mime => {
                Some(MatchPlace::Inside { fact: "mail.display_name", whole: true })
            }
            (MapType::From, ..) if args.mime => from("mail.from", "mail.from_domain"),
            (MapType::From, ..) => from("mail.sender", "mail.sender_domain"),
            (MapType::Rcpt, _, None | Some("email" | "email:addr")) => {
                Some(list("mail.recipients", SetContent::Addresses))
            }
            (MapType::Url, _, None) => Some(list("mail.link_hosts", SetContent::Names)),
            (MapType::Url, _, Some("tld")) => Some(list("mail.link_domains", SetContent::Names)),
            (MapType::Url, _, Some("full")) => Some(list("mail.links", SetContent::Addresses)),
            (MapType::Helo, ..) => host("client.helo"),
            (MapType::Hostname, ..) => host("client.ptr"),
            (MapType::User, _, None) => Some(text("client.user", SetContent::Names)),
            (MapType::Filename, _, None) => Some(list("mail.attachment_names", SetContent::Names)),
            (MapType::Content, _, None | Some("text" | "oneline" | "body" | "rawtext")) => {
                Some(MatchPlace::Inside { fact: "mail.body_text", whole: false })
            }
            (MapType::Header, "from", Some("email:name")) => {
                Some(MatchPlace::Inside { fact: "mail.display_name", whole: true })
            }
            (MapType::Header, "from", Some(_)) => from("mail.from", "mail.from_domain"),
            (MapType::Header, "reply-to", Some(_)) => from("mail.reply_to", "mail.reply_to_domain"),
            (MapType::Header, "subject", None) => {
                Some(MatchPlace::Inside { fact: "mail.subject", whole: true })
            }
            (MapType::Header, "list-id", None) => {
                Some(MatchPlace::Inside { fact: "mail.list_id", whole: true })
            }
            _ => None,
        };
        place.ok_or_else(|| {
            CommandError::new("there is no fact here for this type, filter and header").help(
                "docs/reference/configuration.md has all facts; the list's lines can be a [[set]] with `file` of your own",
            )
        })
    }
}

/// The entries that are sought for one symbol and score.
#[derive(Debug, Default, PartialEq)]
struct MapEntries {
    sets: BTreeMap<SetContent, (&'static str, bool, Vec<String>)>,
    patterns: Vec<(&'static str, String)>,
}

impl MapEntries {
    /// Adds a key, or says why it cannot be sought here.
    fn add(&mut self, place: MatchPlace, key: &MultimapKey) -> Result<(), String> {
        match key {
            MultimapKey::Pattern { pattern, flags } => self.add_pattern(place, pattern, flags),
            MultimapKey::Text(key) => self.add_text(place, key),
        }
    }

    fn add_text(&mut self, place: MatchPlace, key: &str) -> Result<(), String> {
        if key.chars().any(char::is_control) {
            return Err("the key has control characters".to_owned());
        }
        let lower = key.to_lowercase();
        match place {
            MatchPlace::Network => {
                // Rspamd writes addresses of IPv6 in brackets, if it likes.
                let network = key.replace(['[', ']'], "");
                let known = network.parse::<judge::Network>();
                known.map_err(|judge::NetworkError| format!("`{key}` is no address and no network"))?;
                self.put(SetContent::Networks, "client.ip", false, network);
            }
            MatchPlace::Address { whole, domain } => match lower.rsplit_once('@') {
                Some(("", name)) => self.put(SetContent::Names, domain, false, name.to_owned()),
                Some((user, "")) => {
                    self.seek(whole, &format!("(?i)^{}@", regex::escape(user)));
                }
                Some(_) => self.put(SetContent::Addresses, whole, false, lower),
                None if lower.contains('.') => self.put(SetContent::Names, domain, false, lower),
                None => self.seek(whole, &format!("(?i)^{}@", regex::escape(&lower))),
            },
            // The names of users may differ in nothing but case.
            MatchPlace::Text { fact: fact @ "client.user", holds } => {
                self.put(holds, fact, false, key.to_owned())
            }
            MatchPlace::Text { fact: fact @ ("client.helo" | "client.ptr"), holds: SetContent::Names } => {
                self.seek(fact, &format!("(?i)^{}$", regex::escape(&lower)));
            }
            MatchPlace::Text { fact, holds } => self.put(holds, fact, false, lower),
            MatchPlace::List { fact, holds } => {
                if fact == "mail.recipients" && !lower.contains('@') {
                    return Err("recipients are sought by their whole address".to_owned());
                }
                self.put(holds, fact, true, lower);
            }
            MatchPlace::Inside { fact, whole } => {
                let escaped = regex::escape(&lower);
                let pattern = if whole { format!("(?i)^{escaped}$") } else { format!("(?i){escaped}") };
                self.seek(fact, &pattern);
            }
        }
        Ok(())
    }

    fn put(&mut self, holds: SetContent, fact: &'static str, is_list: bool, value: String) {
        let (_, _, values) = self.sets.entry(holds).or_insert((fact, is_list, Vec::new()));
        values.push(value);
    }

    /// Seeks an expression in a fact.
    fn seek(&mut self, fact: &'static str, pattern: &str) {
        // Between single quotes, where nothing is escaped.
        self.patterns.push((fact, pattern.replace('\'', r"\x27")));
    }

    fn add_pattern(&mut self, place: MatchPlace, pattern: &str, flags: &str) -> Result<(), String> {
        /// The bound that rules have.
        const COMPILED_BYTES_MAX: usize = 256 << 10;
        /// All other facts are in lower case here, so that capitals would find nothing.
        const CASED: [&str; 4] = ["mail.subject", "mail.display_name", "mail.list_id", "client.user"];
        let (fact, domain) = match place {
            // Rspamd seeks in an address and in its domain.
            MatchPlace::Address { whole, domain } => (whole, Some(domain)),
            MatchPlace::Text { fact, .. } | MatchPlace::Inside { fact, .. } => (fact, None),
            MatchPlace::Network => return Err("an address has no regular expression".to_owned()),
            MatchPlace::List { fact, .. } => {
                return Err(format!("`{fact}` is a list, in which no expression seeks"));
            }
        };
        let known =
            "imsx".chars().filter(|flag| flags.contains(*flag) || *flag == 'i' && !CASED.contains(&fact));
        let known: String = known.collect();
        let pattern = if known.is_empty() { pattern.to_owned() } else { format!("(?{known}){pattern}") };
        let built = RegexBuilder::new(&pattern)
            .size_limit(COMPILED_BYTES_MAX)
            .dfa_size_limit(COMPILED_BYTES_MAX)
            .build();
        built.map_err(|error| error.to_string().lines().last().unwrap_or_default().to_owned())?;
        if pattern.chars().any(char::is_control) {
            return Err("the expression has control characters".to_owned());
        }
        self.seek(fact, &pattern);
        domain.into_iter().for_each(|domain| self.seek(domain, &pattern));
        Ok(())
    }
}

/// Rules and sets by symbol and weight, in the order in which they were met.
#[derive(Debug, Default)]
struct MapLists(Vec<((String, f64), MapEntries)>);

impl MapLists {
    fn add(
        &mut self,
        place: MatchPlace,
        entry: &MultimapEntry,
        symbol: &str,
        score: f64,
    ) -> Result<(), String> {
        let symbol = entry.symbol.clone().unwrap_or_else(|| symbol.to_owned());
        let name = (symbol, score * entry.weight.unwrap_or(1.0));
        let found = self.0.iter().position(|(known, _)| *known == name);
        let found = found.unwrap_or_else(|| {
            self.0.push((name, MapEntries::default()));
            self.0.len() - 1
        });
        self.0[found].1.add(place, &entry.key)
    }

    /// The configuration, with sets in files of this directory if one is given: the files' names and contents beside it.
    fn configuration(&self, source: &str, lists: Option<&Path>) -> (String, Vec<(PathBuf, String)>) {
        let (mut text, mut files) = (String::new(), Vec::new());
        let mut names: BTreeMap<&str, usize> = BTreeMap::new();
        for ((symbol, score), sought) in &self.0 {
            let count = names.entry(symbol).or_default();
            *count += 1;
            let name = if *count == 1 { symbol.clone() } else { format!("{symbol}_W{count}") };
            write_rules(&mut text, &mut files, &name, *score, sought, (source, lists));
        }
        (text, files)
    }
}

/// Most regular expressions and bytes of them in one condition, which a rule's bounds allow.
const PATTERNS_MAX: usize = 24;
const CONDITION_BYTES: usize = 12 << 10;

fn write_rules(
    text: &mut String,
    files: &mut Vec<(PathBuf, String)>,
    name: &str,
    score: f64,
    sought: &MapEntries,
    (source, lists): (&str, Option<&Path>),
) {
    // Nothing that is written to a string fails.
    let mut conditions = Vec::new();
    for (holds, (fact, is_list, values)) in &sought.sets {
        let (word, kind) = holds.words();
        let set = format!("{}_{word}", name.to_lowercase());
        let _ = write!(text, "\n[[set]]\nname = \"{set}\"\ntype = \"{kind}\"\n");
        if let Some(lists) = lists {
            let path = lists.join(format!("{set}.txt"));
            let _ = writeln!(text, "file = {}", quoted(&path.to_string_lossy()));
            files.push((path, values.join("\n") + "\n"));
        } else {
            text.push_str("values = [\n");
            values.iter().for_each(|value| *text += &format!("    {},\n", quoted(value)));
            text.push_str("]\n");
        }
        let sought =
            if *is_list { format!("sets.intersects({fact}, {set})") } else { format!("{fact} in {set}") };
        conditions.push(sought);
    }
    conditions.extend(sought.patterns.iter().map(|(fact, pattern)| format!("{fact}.matches(r'{pattern}')")));
    let mut written: Vec<String> = Vec::new();
    let mut rest = conditions.as_slice();
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = rest.iter().take(PATTERNS_MAX).take_while(|condition| {
            bytes += condition.len() + 4;
            bytes <= CONDITION_BYTES
        });
        let (now, later) = rest.split_at(fits.count().max(1));
        rest = later;
        let any = now.join("\n|| ");
        // Several rules of one list count once.
        let none = written.iter().map(|before| format!("!rule('{before}') && ")).collect::<String>();
        let when = if none.is_empty() { any } else { format!("{none}(\n{any}\n)") };
        let rule =
            if written.is_empty() { name.to_owned() } else { format!("{name}_P{}", written.len() + 1) };
        let _ = write!(
            text,
            "\n[[rule]]\nname = \"{rule}\"\nwhen = '''\n{when}\n'''\nscore = {score:?}\ndescription = {}\n",
            quoted(&format!("Listed in {source}")),
        );
        written.push(rule);
    }
}

/// A basic string of TOML, which escapes as JSON does.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

pub(super) fn run(args: MultimapImportArgs) -> Result<Exit, CommandError> {
    let place = MatchPlace::of(&args)?;
    let mut lists = MapLists::default();
    let (mut taken, mut left_out) = (0u64, 0u64);
    for path in &args.files {
        let shown = path.display();
        let failed = |error: std::io::Error| CommandError::new(format_args!("{shown}: {error}"));
        let file = std::io::BufReader::new(std::fs::File::open(path).map_err(failed)?);
        for (bytes, number) in file.split(b'\n').zip(1u64..) {
            let bytes = bytes.map_err(failed)?;
            let text = String::from_utf8_lossy(&bytes);
            let read = multimap::line(&text).map_err(|error| error.to_string());
            let added = read.and_then(|entry| {
                entry.map(|entry| lists.add(place, &entry, &args.symbol, args.score)).transpose()
            });
            match added {
                Ok(None) => {}
                Ok(Some(())) => taken += 1,
                Err(why) => {
                    left_out += 1;
                    say(format_args!("{shown}:{number}: left out: {}", printable(&why)));
                }
            }
        }
    }
    let names: Vec<String> =
        args.files.iter().filter_map(|path| Some(path.file_name()?.to_string_lossy().into())).collect();
    let source = names.join(", ");
    let (checked, _) = lists.configuration(&source, None);
    let config =
        Config::from_text("imported", &format!("preset = \"mail\"\n{checked}"), &Overrides::default());
    Plan::compile(&config)?;
    // The configuration may lie elsewhere, from where a relative path leads elsewhere.
    let directory = args.lists.as_deref().map(std::path::absolute).transpose().map_err(CommandError::new)?;
    let (text, files) = lists.configuration(&source, directory.as_deref());
    if let Some(directory) = &directory {
        let failed =
            |error: std::io::Error| CommandError::new(format_args!("{}: {error}", directory.display()));
        disk::create_directories(directory).map_err(failed)?;
        for (path, content) in &files {
            disk::replace(path, content.as_ref()).map_err(failed)?;
        }
    }
    let mut out = Output::new(false);
    out.line(format_args!("{}", text.trim_end()))?;
    out.flush()?;
    say(format_args!("{taken} entries, {left_out} lines left out"));
    Ok(if left_out > 0 { Exit::Found } else { Exit::Fine })
}
