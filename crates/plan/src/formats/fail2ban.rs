//! Jails of fail2ban → pipelines of the configuration: which lines, who is counted, how often, how long.
//!
//! | fail2ban | here |
//! |---|---|
//! | `failregex`, `ignoreregex`, `prefregex`, `datepattern`, `maxlines` | `[log]` |
//! | `maxretry` within `findtime` | a count of the address (IPv6: of its /64), and a rule, which lines that are older do not fire |
//! | `bantime` | a label with `decision = "ban"`: the ban list |
//! | `bantime.increment` | a rule for each length |
//! | `logpath`, `backend = systemd` | `[[source]]` |
//! | `ignoreip` | a set, which no rule of the pipeline passes |
//! | `recidive` | bans of all jails counted by address |

use std::collections::BTreeSet;
use std::fmt::Write;

use event::Span;
use logs::fail2ban::Fail2banFiles;
use logs::fail2ban::duration::FailDuration;
use logs::fail2ban::formula::{self, BanTimeFacts};
use logs::fail2ban::jail::{self, Fail2banJail};
use logs::log_reader::LogPatterns;
use sources::journal_follower::UNITS_MAX;
use sources::path_pattern::PathPattern;

use crate::label_span::LabelSpan;

/// The space in which all jails count.
const SPACE: u16 = 40;
/// Lengths of a count's buckets, in seconds: each divides an hour or is whole hours of a day.
const BUCKETS: [i64; 18] =
    [1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 21_600, 86_400];
/// The length of a ban without an end.
const ENDLESS: Span = Span::days(3650);
/// Most lengths of bans that become longer.
const STEPS_MAX: usize = 21;
/// Most files of a source.
const FILES_MAX: usize = 100;
/// The jail that bans who was banned before; its log is fail2ban's own.
const RECIDIVE: &str = "recidive";

/// A configuration that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fail2banImport {
    /// Files by their names; the first one is the main file and names the others.
    pub files: Vec<(String, String)>,
    /// The number of sources that the configuration reads.
    pub sources: usize,
    /// The number of patterns.
    pub patterns: usize,
    /// The parts that are not taken, for people: one line each.
    pub left: Vec<String>,
}

/// Bans of one address in all jails.
struct SharedBans {
    /// The window in which they are counted for lengths of bans, if a jail asks for those of all.
    increment: Option<CountedWindow>,
    recidive: Option<Recidive>,
    /// The bits of an IPv6 address that are counted and banned.
    ipv6_prefix: u8,
}

impl SharedBans {
    /// Windows of the count.
    fn tiers(&self) -> Vec<String> {
        let mut windows: Vec<&CountedWindow> =
            self.increment.iter().chain(self.recidive.iter().map(|recidive| &recidive.within)).collect();
        windows.sort_by_key(|window| (window.bucket, window.seconds));
        // Of two with buckets of one length, the longer one has both.
        let mut tiers: Vec<String> = Vec::new();
        for (index, window) in windows.iter().enumerate() {
            let is_within = windows[index + 1..].iter().any(|other| other.bucket == window.bucket);
            if !is_within {
                tiers.push(format!("\"{}\"", window.tier()));
            }
        }
        tiers
    }
}

/// Bans of one address in all jails that lead to a longer one.
struct Recidive {
    count: u32,
    within: CountedWindow,
    length: Span,
}

/// A time in which something is counted, in buckets.
struct CountedWindow {
    bucket: i64,
    seconds: i64,
}

impl CountedWindow {
    /// The window of a time, rounded up to whole buckets, of which there are about sixty.
    fn of(span: Span) -> CountedWindow {
        let seconds = (span.0 / 1_000_000).clamp(1, 366 * 86_400);
        let bucket = BUCKETS.into_iter().find(|bucket| *bucket >= seconds / 60).unwrap_or(86_400);
        CountedWindow { bucket, seconds: (seconds + bucket - 1) / bucket * bucket }
    }

    fn tier(&self) -> String {
        format!("{} x {}", shown(self.bucket), self.seconds / self.bucket + 1)
    }
}

/// Writes the jails that are switched on as pipelines. Of an IPv6 address so many bits are counted and banned.
pub fn read(files: &Fail2banFiles, ipv6_prefix: u8) -> Fail2banImport {
    let (jails, problems) = jail::read(files);
    let mut import = Fail2banImport::default();
    let mut left: BTreeSet<String> = problems.iter().map(ToString::to_string).collect();
    let recidive = jails.iter().find(|jail| jail.is_enabled && jail.name == RECIDIVE).map(|jail| {
        left.extend(jail.problems.iter().map(ToString::to_string));
        Recidive {
            count: jail.max_retry,
            within: CountedWindow::of(jail.find_time),
            length: length(jail.ban_time),
        }
    });
    let over_all = |jail: &Fail2banJail| {
        jail.is_enabled && jail.increment.as_ref().is_some_and(|increment| increment.over_all_jails)
    };
    let increment =
        jails.iter().any(over_all).then_some(CountedWindow { bucket: 86_400, seconds: 30 * 86_400 });
    let shared = SharedBans { increment, recidive, ipv6_prefix };
    let mut sources = String::new();
    let mut names = BTreeSet::new();
    for jail in jails.iter().filter(|jail| jail.is_enabled && jail.name != RECIDIVE) {
        left.extend(jail.problems.iter().map(ToString::to_string));
        let Some(filter) = &jail.filter else { continue };
        left.extend(filter.problems.iter().map(ToString::to_string));
        if filter.written.patterns.is_empty() {
            let message = format!("no pattern of `{}` is taken, and so not the jail", filter.name);
            left.insert(jail.problem("filter", &message).to_string());
            continue;
        }
        let mut name = identifier(&jail.name);
        while !names.insert(name.clone()) {
            name.push_str("_2");
        }
        let text = pipeline(jail, &name, &filter.written, &shared, &mut left);
        if let Some(source) = source(jail, &name, &mut left) {
            sources.push_str(&source);
            import.sources += 1;
        }
        import.patterns += filter.written.patterns.len();
        import.files.push((format!("{name}.toml"), text));
    }
    let others: Vec<String> = import.files.iter().skip(1).map(|(name, _)| quoted(name)).collect();
    if let Some((name, text)) = import.files.first_mut() {
        *name = "tollhouse.toml".to_owned();
        if !others.is_empty() {
            let _ = write!(text, "\n[node]\npipelines = [\n    {},\n]\n", others.join(",\n    "));
        }
        text.push_str(&sources);
    }
    import.left = left.into_iter().collect();
    import
}

/// The length of a ban, within what a label can be kept.
fn length(duration: FailDuration) -> Span {
    match duration {
        FailDuration::Span(span) => span.clamp(Span::seconds(1), ENDLESS),
        FailDuration::Endless => ENDLESS,
    }
}

/// A length of time in its largest whole unit.
fn shown(seconds: i64) -> String {
    let units = [(86_400, "d"), (3600, "h"), (60, "m")];
    match units.into_iter().find(|(unit, _)| seconds >= *unit && seconds % unit == 0) {
        Some((unit, name)) => format!("{}{name}", seconds / unit),
        None => format!("{seconds}s"),
    }
}

fn shown_span(span: Span) -> String {
    shown((span.0 / 1_000_000).max(1))
}

/// The length of a ban as an effect has it.
fn shown_step(step: LabelSpan) -> String {
    match step.least == step.most {
        true => shown_span(step.least),
        false => format!("{} to {}", shown_span(step.least), shown_span(step.most)),
    }
}

/// A name that rules can use.
fn identifier(name: &str) -> String {
    let mut text: String = name
        .chars()
        .map(|character| if character.is_ascii_alphanumeric() { character.to_ascii_lowercase() } else { '_' })
        .take(40)
        .collect();
    if !text.starts_with(|character: char| character.is_ascii_lowercase()) {
        text.insert_str(0, "jail_");
    }
    text
}

/// A TOML string, in the form that shows a pattern best.
fn quoted(text: &str) -> String {
    let is_plain = text.chars().all(|character| !character.is_control() || character == '\t');
    if is_plain && !text.contains('\'') {
        format!("'{text}'")
    } else if is_plain && !text.contains("'''") && !text.ends_with('\'') {
        format!("'''{text}'''")
    } else {
        toml_edit::Value::from(text).to_string()
    }
}

fn list(texts: &[String]) -> String {
    if texts.is_empty() {
        return "[]".to_owned();
    }
    let lines: Vec<String> = texts.iter().map(|text| format!("    {},\n", quoted(text))).collect();
    format!("[\n{}]", lines.concat())
}

/// The source that a jail's log is, as the server reads it.
fn source(jail: &Fail2banJail, name: &str, left: &mut BTreeSet<String>) -> Option<String> {
    let mut text = format!("\n[[source]]\nname = \"{name}\"\npipeline = \"{name}\"\n");
    if jail.is_journal {
        let matches = jail.filter.iter().flat_map(|filter| &filter.journal_matches);
        let words = matches.flat_map(|text| text.split_whitespace()).map(|word| word.trim_matches('"'));
        let mut units: Vec<&str> = Vec::new();
        for word in words.filter(|word| *word != "+") {
            match word.strip_prefix("_SYSTEMD_UNIT=") {
                Some(unit) => units.push(unit),
                None => {
                    left.insert(of_journal_match(jail, &format!("`{word}` is no unit, and not taken")));
                }
            }
        }
        units.sort_unstable();
        units.dedup();
        if units.len() > UNITS_MAX {
            let message = format!("more than {UNITS_MAX} units: {} are left out", units.len() - UNITS_MAX);
            left.insert(of_journal_match(jail, &message));
        }
        // Without a unit all of the journal is read, and patterns say what counts.
        let units: Vec<String> = units.into_iter().take(UNITS_MAX).map(quoted).collect();
        let _ = match units.is_empty() {
            true => writeln!(text, "journald = {{}}"),
            false => writeln!(text, "journald = {{ units = [{}] }}", units.join(", ")),
        };
        return Some(text);
    }
    let (mut files, mut refused) = (Vec::new(), Vec::new());
    for path in &jail.log_paths {
        match PathPattern::new(path) {
            Ok(_) if files.len() < FILES_MAX => files.push(path.clone()),
            Ok(_) => refused.push(format!("`logpath`: more than {FILES_MAX} files: `{path}` is not read")),
            Err(error) => refused.push(format!("`logpath`: `{path}`: {error}")),
        }
    }
    left.extend(refused.iter().map(|message| jail.problem("logpath", message).to_string()));
    let _ = writeln!(text, "files = {}", list(&files));
    (!files.is_empty()).then_some(text)
}

/// Returns what is wrong with the conditions of a jail's journal, which its filter may bring.
fn of_journal_match(jail: &Fail2banJail, message: &str) -> String {
    let mut problem = jail.problem("journalmatch", &format!("`journalmatch`: {message}"));
    let of_filter = jail.filter.as_ref().and_then(|filter| filter.journal_place.clone());
    if let (0, Some((file, line))) = (problem.line, of_filter) {
        (problem.file, problem.line) = (file, line);
    }
    problem.to_string()
}

/// The fact that is counted: the address with those that its holder could move to, unless the patterns name another id alone.
fn counted(patterns: &LogPatterns) -> &'static str {
    let texts = || patterns.patterns.iter().chain(&patterns.prefix);
    let has_host = [
        "<HOST>", "<ADDR>", "<SUBNET>", "<IP4>", "<IP6>", "<F-IP4", "<F-IP6", "<F-ADDR", "<DNS>", "<F-DNS",
        "(?P<ip",
    ];
    let has_id = ["<F-ID", "(?P<fid>"];
    let names = |tags: &[&str]| texts().any(|text| tags.iter().any(|tag| text.contains(tag)));
    if names(&has_id) && !names(&has_host) { "log.id" } else { "log.net" }
}

fn pipeline(
    jail: &Fail2banJail,
    name: &str,
    patterns: &LogPatterns,
    shared: &SharedBans,
    left: &mut BTreeSet<String>,
) -> String {
    let window = CountedWindow::of(jail.find_time);
    let ban = length(jail.ban_time);
    let of = counted(patterns);
    let failures = if jail.max_retry == 1 { "1 failure" } else { &format!("{} failures", jail.max_retry) };
    let mut text = format!(
        "# The jail `{}` of fail2ban: {failures} within {} ban for {}.\n",
        jail.name,
        shown(window.seconds),
        shown_span(ban)
    );
    let _ = write!(text, "\nname = \"{name}\"\nspace = {SPACE}\ninput = \"log\"\n");
    if of == "log.net" {
        let _ = write!(text, "\n[networks]\nipv4 = 32\nipv6 = {}\n", shared.ipv6_prefix);
    }
    text.push_str("\n[log]\n");
    if let Some(prefix) = &patterns.prefix {
        let _ = writeln!(text, "prefix = {}", quoted(prefix));
    }
    let _ = writeln!(text, "patterns = {}", list(&patterns.patterns));
    for (key, texts) in [("ignored", &patterns.ignored), ("dates", &patterns.dates)] {
        if !texts.is_empty() {
            let _ = writeln!(text, "{key} = {}", list(texts));
        }
    }
    if patterns.lines > 1 {
        let _ = writeln!(text, "lines = {}", patterns.lines);
    }
    if let Some(zone) = &jail.log_zone {
        if logs::log_stream::zone(zone).is_some() {
            let _ = writeln!(text, "zone = {}", quoted(zone));
        } else {
            let message = format!("`logtimezone`: there is no time zone `{zone}`");
            left.insert(jail.problem("logtimezone", &message).to_string());
        }
    }
    if jail.is_journal {
        text.push_str("envelope = \"journal\"\n");
    }

    let steps = steps(jail, ban);
    let of_recidive = shared.recidive.as_ref().filter(|_| of == "log.net");
    let is_over_all = steps.len() > 1
        && of == "log.net"
        && jail.increment.as_ref().is_some_and(|increment| increment.over_all_jails);
    let tiers = shared.tiers();
    let adds_to_all = of == "log.net" && !tiers.is_empty();
    let counts = if steps.len() > 1 { "[\"seen\", \"bans\"]" } else { "[\"seen\"]" };
    let coarse = if window.seconds < 86_400 { ", \"1d x 31\"" } else { "" };
    let coarse = if steps.len() > 1 { coarse } else { "" };
    let _ = write!(
        text,
        "\n[[kind]]\nname = \"{name}\"\nof = \"{of}\"\ndescription = \"Who failed\"\n\n\
         [[statistic]]\nname = \"{name}\"\nkeys = [\"{name}\"]\ncounts = {counts}\nwindows = [\"{}\"{coarse}]\n",
        window.tier()
    );
    if adds_to_all {
        let _ = write!(
            text,
            "\n# Bans of all jails.\n[[kind]]\nname = \"banned_address\"\nof = \"log.net\"\n\n\
             [[statistic]]\nname = \"banned_address\"\nkeys = [\"banned_address\"]\ncounts = [\"bans\"]\nwindows = [{}]\n",
            tiers.join(", ")
        );
    }
    if let Some(recidive) = of_recidive {
        let _ = write!(
            text,
            "\n[[label]]\nname = \"recidive\"\nof = \"banned_address\"\nkeep = \"{}\"\ndecision = \"ban\"\n",
            shown_span(recidive.length)
        );
    }
    let longest = steps.iter().map(|step| step.most).max().unwrap_or(ban);
    let _ = write!(
        text,
        "\n[[label]]\nname = \"banned\"\nof = \"{name}\"\nkeep = \"{}\"\ndecision = \"ban\"\ndescription = \"Failed too often\"\n",
        shown_span(longest)
    );
    let exempt = exempt(jail, left);
    if !exempt.is_empty() && of == "log.net" {
        let _ = write!(text, "\n[[set]]\nname = \"exempt\"\ntype = \"ip\"\nvalues = {}\n", list(&exempt));
    }
    let mut condition = format!("{name}.seen('{}') >= {}", shown(window.seconds), jail.max_retry - 1);
    if jail.max_retry == 1 {
        condition = format!("has({of})");
    }
    let _ = write!(condition, " && !{name}.marked('banned')");
    if !exempt.is_empty() && of == "log.net" {
        condition.push_str(" && !(log.ip in exempt)");
    }
    // A jail looks back as far as it counts: a log that is read from its beginning bans nobody for long ago.
    let _ = write!(condition, " && event.arrival - event.time <= duration('{}')", shown(window.seconds));
    let rule = name.to_ascii_uppercase();
    let days = if window.seconds < 86_400 { "30d".to_owned() } else { shown(window.seconds) };
    for (index, step) in steps.iter().enumerate() {
        let mut effects =
            vec![format!("mark {name} as 'banned' for {}", shown_step(*step)), "set reject".to_owned()];
        let mut when = condition.clone();
        let mut rule = rule.clone();
        if steps.len() > 1 {
            effects.push(format!("add {name}.bans"));
            let is_last = index + 1 == steps.len();
            let counted = if is_over_all {
                "banned_address.bans('30d')".to_owned()
            } else {
                format!("{name}.bans('{days}')")
            };
            let _ = write!(when, " && {counted} {} {index}", if is_last { ">=" } else { "==" });
            let _ = write!(rule, "_{}", index + 1);
        }
        if adds_to_all {
            effects.push("add banned_address.bans".to_owned());
        }
        let _ = write!(
            text,
            "\n[[rule]]\nname = \"{rule}\"\nwhen = {}\nscore = 0\ndescription = \"{failures} within {}\"\neffects = [{}]\n",
            toml_edit::Value::from(when),
            shown(window.seconds),
            effects.iter().map(|effect| format!("\"{effect}\"")).collect::<Vec<_>>().join(", ")
        );
    }
    if let Some(recidive) = of_recidive {
        let rules: Vec<String> = match steps.len() {
            1 => vec![format!("rule('{rule}')")],
            count => (1..=count).map(|index| format!("rule('{rule}_{index}')")).collect(),
        };
        let when = format!(
            "banned_address.bans('{}') >= {} && ({})",
            shown(recidive.within.seconds),
            recidive.count - 1,
            rules.join(" || ")
        );
        let _ = write!(
            text,
            "\n[[rule]]\nname = \"RECIDIVE\"\nwhen = {}\nscore = 0\ndescription = \"Banned before\"\neffects = [\"mark banned_address as 'recidive' for {}\"]\n",
            toml_edit::Value::from(when),
            shown_span(recidive.length)
        );
    }
    if !jail.is_journal && jail.log_paths.is_empty() {
        left.insert(jail.problem("enabled", "the jail names no log").to_string());
    }
    let known = ["iptables", "nftables", "ufw", "firewallcmd", "ipset", "%(", "dummy"];
    for action in jail.actions.iter().filter(|action| !known.iter().any(|known| action.starts_with(known))) {
        let message = format!("`action`: `{action}` is not run; bouncers read the ban list");
        left.insert(jail.problem("action", &message).to_string());
    }
    text
}

/// Lengths of bans, the first ban's first. What fail2ban adds by chance is drawn for each ban, above the longest, too.
fn steps(jail: &Fail2banJail, ban: Span) -> Vec<LabelSpan> {
    let Some(increment) = &jail.increment else { return vec![LabelSpan { least: ban, most: ban }] };
    let longest = increment.max.map_or(ENDLESS, length);
    let mut steps: Vec<LabelSpan> = Vec::new();
    let first = ban.as_seconds_f64();
    for index in 0..STEPS_MAX {
        let facts = BanTimeFacts { seconds: first, count: index as f64, factor: increment.factor };
        // A first ban is as long as it is, whatever the formula.
        let length = match (index, increment.multipliers.as_slice(), &increment.formula) {
            (0, ..) => first,
            (_, [.., last], _) => first * increment.factor * increment.multipliers.get(index).unwrap_or(last),
            (_, [], Some(formula)) => formula::evaluate(formula, facts).unwrap_or(first),
            (_, [], None) => first * 2f64.powi(index as i32) * increment.factor,
        };
        let (least, most) = match index {
            0 => (length, length),
            _ => {
                let least = length.min(longest.as_seconds_f64());
                (least, least + increment.random.max(0.0))
            }
        };
        // Whole seconds, so that the text says what is meant.
        let whole = |seconds: f64| Span::seconds(seconds.clamp(1.0, ENDLESS.as_seconds_f64()) as i64);
        steps.push(LabelSpan { least: whole(least), most: whole(most) });
    }
    // The last rule is for all further bans, so those of its length need no rule.
    while steps.len() > 1 && steps[steps.len() - 1] == steps[steps.len() - 2] {
        steps.pop();
    }
    steps
}

/// Addresses and networks that are never banned. Names are told of.
fn exempt(jail: &Fail2banJail, left: &mut BTreeSet<String>) -> Vec<String> {
    let mut exempt = Vec::new();
    if jail.ignores_self {
        exempt.extend(["127.0.0.0/8".to_owned(), "::1".to_owned()]);
    }
    for text in &jail.ignored {
        let address = text.split('/').next().unwrap_or_default();
        let length = text.split_once('/').map(|(_, length)| length.parse::<u8>());
        if address.parse::<std::net::IpAddr>().is_ok() && !matches!(length, Some(Err(_))) {
            // A set has no bits behind a prefix.
            let cut = network(text);
            if !exempt.contains(&cut) {
                exempt.push(cut);
            }
        } else {
            let message = format!("`ignoreip`: `{text}` is no address or network");
            left.insert(jail.problem("ignoreip", &message).to_string());
        }
    }
    exempt
}

/// A network without bits behind its prefix.
fn network(text: &str) -> String {
    let Some((address, length)) = text.split_once('/') else { return text.to_owned() };
    let (Ok(address), Ok(length)) = (address.parse::<std::net::IpAddr>(), length.parse::<u32>()) else {
        return text.to_owned();
    };
    match address {
        std::net::IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32u32.saturating_sub(length)).unwrap_or(0);
            format!("{}/{}", std::net::Ipv4Addr::from_bits(address.to_bits() & mask), length.min(32))
        }
        std::net::IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128u32.saturating_sub(length)).unwrap_or(0);
            format!("{}/{}", std::net::Ipv6Addr::from_bits(address.to_bits() & mask), length.min(128))
        }
    }
}

#[cfg(test)]
mod tests {
    use event::{Shingle, Time};

    use super::*;

    fn files(jail: &str) -> Fail2banFiles {
        let filter = "[Definition]\nprefregex = ^ \\S+ sshd: <F-CONTENT>.+</F-CONTENT>$\nfailregex = ^Failed for <F-USER>.*</F-USER> from <HOST>$\n    ^it's <HOST>\n";
        let files = [
            ("jail.conf", jail),
            ("filter.d/sshd.conf", filter),
            ("filter.d/ids.conf", "[Definition]\nfailregex = ^bad <F-ID/>\n"),
            ("filter.d/recidive.conf", "[Definition]\nfailregex = Ban <HOST>\n"),
        ];
        Fail2banFiles(files.map(|(path, text)| (path.to_owned(), text.to_owned())).into())
    }

    fn read_all(files: &Fail2banFiles) -> Fail2banImport {
        read(files, 64)
    }

    /// The configuration of an import, which must be taken without a warning.
    fn plan(import: &Fail2banImport) -> crate::Plan {
        let texts: Vec<&str> = import.files.iter().map(|(_, text)| text.as_str()).collect();
        let main = texts[0].split("\n[node]").next().expect("main");
        let main = main.split("\n[[source]]").next().expect("main");
        let config = crate::Config::from_text("test", main, &crate::Overrides::default());
        crate::Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}\n{main}"))
    }

    #[test]
    fn a_jail_becomes_a_pipeline() {
        let import = read_all(&files(
            "[DEFAULT]\nignoreip = 10.1.2.3/8 trusted.example\nfindtime = 10m\nbantime = 1h\nmaxretry = 3\n[sshd]\nenabled = true\nlogpath = /var/log/auth.log\naction = mail-whois[x=1]\n[off]\n",
        ));
        assert_eq!(import.files.len(), 1);
        let plan = plan(&import);
        let pipeline = &plan.pipelines[0];
        assert_eq!((pipeline.name.as_str(), pipeline.input.name()), ("sshd", "log"));
        let settings = pipeline.log().expect("settings");
        assert_eq!(
            settings.patterns.patterns,
            ["^Failed for <F-USER>.*</F-USER> from <HOST>$", "^it's <HOST>"]
        );
        let (_, text) = &import.files[0];
        for part in [
            "when = \"sshd.seen('10m') >= 2 && !sshd.marked('banned') && !(log.ip in exempt) && event.arrival - event.time <= duration('10m')\"",
            "effects = [\"mark sshd as 'banned' for 1h\", \"set reject\"]",
            "'10.0.0.0/8'",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert_eq!(
            import.left,
            [
                "jail.conf:2: [sshd] `ignoreip`: `trusted.example` is no address or network",
                "jail.conf:9: [sshd] `action`: `mail-whois` is not run; bouncers read the ban list",
            ]
        );
    }

    /// A /64 is no way around a ban.
    #[test]
    fn addresses_of_ipv6_count_by_their_network() {
        let jail = files(
            "[sshd]\nenabled = true\nlogpath = /x\n[recidive]\nenabled = true\n[ids]\nenabled = true\nlogpath = /y\n",
        );
        for (prefix, address, expected) in [
            (64, "2001:db8:0:7::1", "2001:db8:0:7::/64"),
            (128, "2001:db8:0:7::1", "2001:db8:0:7::1"),
            (48, "2001:db8:0:7::1", "2001:db8::/48"),
            (64, "192.0.2.7", "192.0.2.7"),
        ] {
            let import = read(&jail, prefix);
            let pipeline = &plan(&import).pipelines[0];
            let of = pipeline.kinds.iter().map(|kind| pipeline.schema.column(kind.fields.as_slice()[0].slot));
            let of: Vec<&str> = of.map(|column| column.name.as_str()).collect();
            assert_eq!(of, ["log.net", "log.net"]);
            let network = content::network::network(address.parse().expect("address"), pipeline.prefixes);
            assert_eq!(network, expected);
            assert!(!import.files[1].1.contains("[networks]"), "{}", import.files[1].1);
        }
    }

    #[test]
    fn bans_become_longer_and_repeaters_are_banned_everywhere() {
        let import = read_all(&files(
            "[DEFAULT]\nbantime = 10m\nbantime.increment = true\nbantime.maxtime = 1h\n[sshd]\nenabled = true\nbackend = systemd\n[ids]\nenabled = true\nmaxretry = 1\nlogpath = /x\n[recidive]\nenabled = true\nfindtime = 1d\nbantime = 1w\n",
        ));
        let names: Vec<&str> = import.files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["tollhouse.toml", "ids.toml"]);
        let plan = plan(&import);
        let rules: Vec<&str> =
            plan.pipelines[0].rules.rules().iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!(rules, ["SSHD_1", "SSHD_2", "SSHD_3", "SSHD_4", "RECIDIVE"]);
        assert_eq!(plan.pipelines[0].log().expect("log").envelope, logs::log_stream::LogEnvelope::Journal);
        assert!(import.files[1].1.contains("of = \"log.id\""), "{}", import.files[1].1);
        assert_eq!(import.left, Vec::<String>::new());
    }

    #[test]
    fn logs_are_sources_of_the_main_file() {
        let import = read_all(&files(
            "[sshd]\nenabled = true\nbackend = systemd\njournalmatch = _SYSTEMD_UNIT=sshd.service + _COMM=sshd\n[ids]\nenabled = true\nlogpath = /x\n  /var/log/y*.log tail\n",
        ));
        let (_, main) = &import.files[0];
        let sources = "\n[[source]]\nname = \"sshd\"\npipeline = \"sshd\"\njournald = { units = ['sshd.service'] }\n\
            \n[[source]]\nname = \"ids\"\npipeline = \"ids\"\nfiles = [\n    '/x',\n    '/var/log/y*.log',\n]\n";
        assert!(main.ends_with(sources), "{main}");
        let left = ["jail.conf:4: [sshd] `journalmatch`: `_COMM=sshd` is no unit, and not taken".to_owned()];
        assert_eq!((import.sources, import.left), (2, left.to_vec()));
        assert!(!import.files[1].1.contains("[[source]]"));
    }

    #[test]
    fn what_is_not_taken_is_named_with_its_file_and_line() {
        let paths: String = (0..=FILES_MAX).map(|number| format!("  /x{number}\n")).collect();
        let jail = format!(
            "[DEFAULT]\nusedns = warn\nignoreself = true\n[sshd]\nenabled = true\nport = ssh\nlogencoding = latin1\nlogtimezone = Nowhere/Else\nlogpath = /var/**/y\n{paths}\
             [nolog]\nenabled = true\nfilter = sshd\n[journal]\nenabled = true\nfilter = journal\nbackend = systemd\nbantime.increment = true\nbantime.multipliers = 1 x 2\nbantime.maxtime = 1h\n"
        );
        let mut files = files(&jail);
        let filter = "[Definition]\nfailregex = ^a <HOST>\njournalmatch = _SYSTEMD_UNIT=a.service _UID=0\n";
        files.0.insert("filter.d/journal.conf".to_owned(), filter.to_owned());
        let left = read_all(&files).left;
        let line = 9 + FILES_MAX + 1;
        let expected = [
            "filter.d/journal.conf:3: [journal] `journalmatch`: `_UID=0` is no unit, and not taken".to_owned(),
            "jail.conf:2: [DEFAULT] `usedns`: `warn`: names of hosts are not looked up, and not banned".to_owned(),
            "jail.conf:3: [DEFAULT] `ignoreself`: of this machine's addresses those of loopback alone are exempt".to_owned(),
            "jail.conf:6: [sshd] `port`: `ssh`: a ban holds for all ports".to_owned(),
            "jail.conf:7: [sshd] `logencoding`: `latin1`: lines are read as UTF-8".to_owned(),
            "jail.conf:8: [sshd] `logtimezone`: there is no time zone `Nowhere/Else`".to_owned(),
            format!("jail.conf:9: [sshd] `logpath`: more than {FILES_MAX} files: `/x{FILES_MAX}` is not read"),
            format!("jail.conf:{}: [nolog] the jail names no log", line + 2),
            format!("jail.conf:{}: [journal] `bantime.multipliers`: `x` is no number", line + 9),
        ];
        for expected in &expected {
            assert!(left.contains(expected), "{expected}\n{left:#?}");
        }
        assert!(left.iter().all(|left| left.contains(": [")), "{left:#?}");
    }

    #[test]
    fn lengths_of_bans_are_those_of_fail2ban() {
        let check = |options: &str, random: i64, expected: &[i64]| {
            let jail = format!(
                "[DEFAULT]\nbantime = 1m\nbantime.increment = true\n{options}[sshd]\nenabled = true\nlogpath = /x\n"
            );
            let (jails, _) = jail::read(&files(&jail));
            let found = steps(&jails[0], Span::minutes(1));
            let of = |end: fn(&LabelSpan) -> Span| -> Vec<i64> {
                found.iter().map(|step| end(step).0 / 1_000_000).collect()
            };
            assert_eq!(of(|step| step.least), expected, "{options}");
            assert_eq!(
                of(|step| step.most)[1..],
                expected.iter().map(|least| least + random).collect::<Vec<_>>()[1..]
            );
            assert_eq!(found[0].least, found[0].most, "a first ban is as long as it is");
        };
        check("bantime.maxtime = 5m\n", 0, &[60, 120, 240, 300]);
        check("bantime.multipliers = 1 5 5 30\nbantime.factor = 2\n", 0, &[60, 600, 600, 3600]);
        check(
            "bantime.formula = ban.Time * (1 + ban.Count) * banFactor\nbantime.maxtime = 4m\n",
            0,
            &[60, 120, 180, 240],
        );
        check("bantime.rndtime = 10\nbantime.maxtime = 2m\n", 10, &[60, 120]);
        check("bantime.formula = __import__('os')\nbantime.maxtime = 2m\n", 0, &[60, 120]);
    }

    #[test]
    fn what_is_added_by_chance_is_drawn_for_each_ban() {
        let import = read_all(&files(
            "[DEFAULT]\nbantime = 10m\nbantime.increment = true\nbantime.maxtime = 1h\nbantime.rndtime = 5m\n[sshd]\nenabled = true\nlogpath = /x\n",
        ));
        let plan = plan(&import);
        let (_, text) = &import.files[0];
        for part in [
            "as 'banned' for 10m\"",
            "as 'banned' for 20m to 25m\"",
            "as 'banned' for 1h to 65m\"",
            "keep = \"65m\"",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let marks = plan.pipelines[0].effects.iter().flatten().filter_map(|effect| match effect {
            crate::EffectPlan::Mark { lasts, .. } => Some(*lasts),
            _ => None,
        });
        let of = |key: u64, at: i64| -> Vec<Span> {
            marks.clone().map(|lasts| lasts.of(Shingle(key), Time(at))).collect()
        };
        assert_eq!(of(1, 0), of(1, 0));
        let drawn: Vec<Span> = (0..400).map(|key| of(key, 0)[1]).collect();
        let within = |from: i64, to: i64| {
            drawn.iter().filter(|span| (Span::minutes(from)..=Span::minutes(to)).contains(*span)).count()
        };
        // A fifth of them in each minute, by keys and times that are given.
        assert_eq!(within(20, 25), 400, "{drawn:?}");
        assert!((20..25).all(|minute| (50..=110).contains(&within(minute, minute + 1))), "{drawn:?}");
        let later: BTreeSet<Span> = (0..20).map(|at| of(7, at)[1]).collect();
        assert!(later.len() > 10, "{later:?}");
    }

    #[test]
    fn bans_of_all_jails_count_where_that_is_asked_for() {
        let import = read_all(&files(
            "[DEFAULT]\nbantime.increment = true\nbantime.overalljails = true\nbantime.maxtime = 20m\n[sshd]\nenabled = true\nlogpath = /x\n[recidive]\nenabled = true\nfindtime = 1d\nbantime = 1w\n",
        ));
        plan(&import);
        let (_, text) = &import.files[0];
        for part in [
            "windows = [\"30m x 49\", \"1d x 31\"]",
            "banned_address.bans('30d') == 0",
            "banned_address.bans('30d') >= 1",
            "banned_address.bans('1d') >= 4",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn windows_are_whole_buckets() {
        let check = |span: Span, tier: &str, window: &str| {
            let counted = CountedWindow::of(span);
            assert_eq!((counted.tier().as_str(), shown(counted.seconds).as_str()), (tier, window));
        };
        check(Span::minutes(10), "10s x 61", "10m");
        check(Span::seconds(1), "1s x 2", "1s");
        check(Span::seconds(601), "10s x 62", "610s");
        check(Span::days(1), "30m x 49", "1d");
        check(Span::days(7), "6h x 29", "7d");
    }
}
