//! Jails of fail2ban → pipelines of the configuration: which lines, who is counted, how often, how long.
//!
//! | fail2ban | here |
//! |---|---|
//! | `failregex`, `ignoreregex`, `prefregex`, `datepattern`, `maxlines` | `[log]` |
//! | `maxretry` within `findtime` | a count of the address, and a rule |
//! | `bantime` | a label with `decision = "ban"`: the ban list |
//! | `bantime.increment` | a rule for each length |
//! | `ignoreip` | a set, which no rule of the pipeline passes |
//! | `recidive` | bans of all jails counted by address |

use std::collections::BTreeSet;
use std::fmt::Write;

use event::Span;
use logs::fail2ban::Fail2banFiles;
use logs::fail2ban::duration::FailDuration;
use logs::fail2ban::jail::{self, Fail2banJail};
use logs::log_reader::LogPatterns;

/// The space in which all jails count.
const SPACE: u16 = 40;
/// Lengths of a count's buckets, in seconds: each divides an hour or is whole hours of a day.
const BUCKETS: [i64; 18] =
    [1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 21_600, 86_400];
/// The length of a ban without an end.
const ENDLESS: Span = Span::days(3650);
/// Most lengths of bans that become longer.
const STEPS_MAX: usize = 10;
/// The jail that bans who was banned before; its log is fail2ban's own.
const RECIDIVE: &str = "recidive";

/// A configuration that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fail2banImport {
    /// Files by their names; the first one is the main file and names the others.
    pub files: Vec<(String, String)>,
    /// Commands that follow the jails' logs.
    pub commands: Vec<String>,
    /// The number of patterns.
    pub patterns: usize,
    /// The parts that are not taken, for people: one line each.
    pub left: Vec<String>,
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

/// Writes the jails that are switched on as pipelines.
pub fn read(files: &Fail2banFiles) -> Fail2banImport {
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
    let mut names = BTreeSet::new();
    for jail in jails.iter().filter(|jail| jail.is_enabled && jail.name != RECIDIVE) {
        left.extend(jail.problems.iter().map(ToString::to_string));
        let Some(filter) = &jail.filter else { continue };
        left.extend(filter.problems.iter().map(ToString::to_string));
        if filter.written.patterns.is_empty() {
            left.insert(format!("[{}]: no pattern of `{}` is taken", jail.name, filter.name));
            continue;
        }
        let mut name = identifier(&jail.name);
        while !names.insert(name.clone()) {
            name.push_str("_2");
        }
        let commands = commands(jail, &name);
        let text = pipeline(jail, &name, &filter.written, recidive.as_ref(), &commands, &mut left);
        import.patterns += filter.written.patterns.len();
        import.commands.extend(commands);
        import.files.push((format!("{name}.toml"), text));
    }
    let others: Vec<String> = import.files.iter().skip(1).map(|(name, _)| quoted(name)).collect();
    if let Some((name, text)) = import.files.first_mut() {
        *name = "tollhouse.toml".to_owned();
        if !others.is_empty() {
            let _ = write!(text, "\n[node]\npipelines = [\n    {},\n]\n", others.join(",\n    "));
        }
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

fn commands(jail: &Fail2banJail, name: &str) -> Vec<String> {
    let follow = format!("tollhouse follow --server http://127.0.0.1:8377 --pipeline {name}");
    if jail.is_journal {
        let matches =
            jail.filter.as_ref().map(|filter| filter.journal_matches.join(" + ")).unwrap_or_default();
        return vec![format!("journalctl -f -o json {matches} | {follow} -")];
    }
    let each = jail.log_paths.iter().zip(1..);
    let number = |index: i32| if jail.log_paths.len() > 1 { format!("-{index}") } else { String::new() };
    each.map(|(path, index)| format!("{follow} --position {name}{}.position {path}", number(index))).collect()
}

/// The fact that is counted: the address, unless the patterns name another id alone.
fn counted(patterns: &LogPatterns) -> &'static str {
    let texts = || patterns.patterns.iter().chain(&patterns.prefix);
    let has_host = [
        "<HOST>", "<ADDR>", "<SUBNET>", "<IP4>", "<IP6>", "<F-IP4", "<F-IP6", "<F-ADDR", "<DNS>", "<F-DNS",
        "(?P<ip",
    ];
    let has_id = ["<F-ID", "(?P<fid>"];
    let names = |tags: &[&str]| texts().any(|text| tags.iter().any(|tag| text.contains(tag)));
    if names(&has_id) && !names(&has_host) { "log.id" } else { "log.ip" }
}

fn pipeline(
    jail: &Fail2banJail,
    name: &str,
    patterns: &LogPatterns,
    recidive: Option<&Recidive>,
    commands: &[String],
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
    for command in commands {
        let _ = writeln!(text, "# {command}");
    }
    let _ = write!(text, "\nname = \"{name}\"\nspace = {SPACE}\ninput = \"log\"\n\n[log]\n");
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
            left.insert(format!("[{}] `logtimezone`: there is no time zone `{zone}`", jail.name));
        }
    }
    if jail.is_journal {
        text.push_str("envelope = \"journal\"\n");
    }

    let steps = steps(jail, ban);
    let of_recidive = recidive.filter(|_| of == "log.ip");
    let counts = if steps.len() > 1 { "[\"seen\", \"bans\"]" } else { "[\"seen\"]" };
    let coarse = if window.seconds < 86_400 { ", \"1d x 31\"" } else { "" };
    let coarse = if steps.len() > 1 { coarse } else { "" };
    let _ = write!(
        text,
        "\n[[kind]]\nname = \"{name}\"\nof = \"{of}\"\ndescription = \"Who failed\"\n\n\
         [[statistic]]\nname = \"{name}\"\nkeys = [\"{name}\"]\ncounts = {counts}\nwindows = [\"{}\"{coarse}]\n",
        window.tier()
    );
    if let Some(recidive) = of_recidive {
        let _ = write!(
            text,
            "\n# Bans of all jails.\n[[kind]]\nname = \"banned_address\"\nof = \"log.ip\"\n\n\
             [[statistic]]\nname = \"banned_address\"\nkeys = [\"banned_address\"]\ncounts = [\"bans\"]\nwindows = [\"{}\"]\n\n\
             [[label]]\nname = \"recidive\"\nof = \"banned_address\"\nkeep = \"{}\"\ndecision = \"ban\"\n",
            recidive.within.tier(),
            shown_span(recidive.length)
        );
    }
    let longest = steps.iter().copied().max().unwrap_or(ban);
    let _ = write!(
        text,
        "\n[[label]]\nname = \"banned\"\nof = \"{name}\"\nkeep = \"{}\"\ndecision = \"ban\"\ndescription = \"Failed too often\"\n",
        shown_span(longest)
    );
    let exempt = exempt(jail, left);
    if !exempt.is_empty() && of == "log.ip" {
        let _ = write!(text, "\n[[set]]\nname = \"exempt\"\ntype = \"ip\"\nvalues = {}\n", list(&exempt));
    }
    let mut condition = format!("{name}.seen('{}') >= {}", shown(window.seconds), jail.max_retry - 1);
    if jail.max_retry == 1 {
        condition = format!("has({of})");
    }
    let _ = write!(condition, " && !{name}.marked('banned')");
    if !exempt.is_empty() && of == "log.ip" {
        condition.push_str(" && !(log.ip in exempt)");
    }
    let rule = name.to_ascii_uppercase();
    let days = if window.seconds < 86_400 { "30d".to_owned() } else { shown(window.seconds) };
    for (index, step) in steps.iter().enumerate() {
        let mut effects =
            vec![format!("mark {name} as 'banned' for {}", shown_span(*step)), "set reject".to_owned()];
        let mut when = condition.clone();
        let mut rule = rule.clone();
        if steps.len() > 1 {
            effects.push(format!("add {name}.bans"));
            let is_last = index + 1 == steps.len();
            let _ = write!(when, " && {name}.bans('{days}') {} {index}", if is_last { ">=" } else { "==" });
            let _ = write!(rule, "_{}", index + 1);
        }
        if of_recidive.is_some() {
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
        left.insert(format!("[{}]: it names no log", jail.name));
    }
    let known = ["iptables", "nftables", "ufw", "firewallcmd", "ipset", "%(", "dummy"];
    for action in jail.actions.iter().filter(|action| !known.iter().any(|known| action.starts_with(known))) {
        left.insert(format!("[{}] `action`: `{action}` is not run; bouncers read the ban list", jail.name));
    }
    text
}

/// Lengths of bans, the first ban's first.
fn steps(jail: &Fail2banJail, ban: Span) -> Vec<Span> {
    let Some(increment) = &jail.increment else { return vec![ban] };
    let longest = increment.max.map_or(ENDLESS, length);
    let mut steps: Vec<Span> = Vec::new();
    for index in 0..STEPS_MAX {
        let factor = match increment.multipliers.as_slice() {
            [] => 2f64.powi(index as i32) * increment.factor,
            multipliers => match multipliers.get(index) {
                Some(factor) => *factor,
                None => break,
            },
        };
        // Whole seconds, so that the text says what is meant.
        let seconds = (ban.as_seconds_f64() * factor).clamp(1.0, longest.as_seconds_f64()) as i64;
        let step = Span::seconds(seconds);
        if steps.last() == Some(&step) {
            break;
        }
        steps.push(step);
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
            left.insert(format!("[{}] `ignoreip`: `{text}` is no address or network", jail.name));
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

    /// The configuration of an import, which must be taken without a warning.
    fn plan(import: &Fail2banImport) -> crate::Plan {
        let texts: Vec<&str> = import.files.iter().map(|(_, text)| text.as_str()).collect();
        let main = texts[0].split("\n[node]").next().expect("main");
        let config = crate::Config::from_text("test", main, &crate::Overrides::default());
        crate::Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}\n{main}"))
    }

    #[test]
    fn a_jail_becomes_a_pipeline() {
        let import = read(&files(
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
            "when = \"sshd.seen('10m') >= 2 && !sshd.marked('banned') && !(log.ip in exempt)\"",
            "effects = [\"mark sshd as 'banned' for 1h\", \"set reject\"]",
            "'10.0.0.0/8'",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert_eq!(
            import.left,
            [
                "[sshd] `action`: `mail-whois` is not run; bouncers read the ban list",
                "[sshd] `ignoreip`: `trusted.example` is no address or network",
            ]
        );
        assert_eq!(
            import.commands,
            [
                "tollhouse follow --server http://127.0.0.1:8377 --pipeline sshd --position sshd.position /var/log/auth.log"
            ]
        );
    }

    #[test]
    fn bans_become_longer_and_repeaters_are_banned_everywhere() {
        let import = read(&files(
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
