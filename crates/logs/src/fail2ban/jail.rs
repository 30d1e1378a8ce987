//! A section of `jail.conf` with all that is laid over it: which log, which filter, how often, how long.

use std::collections::BTreeMap;

use super::duration::{self, FailDuration};
use super::filter::Fail2banFilter;
use super::formula::{self, BanTimeFacts};
use super::merged::MergedConfig;
use super::{Fail2banFiles, Fail2banProblem, option_list};
use event::Span;

/// Most jails of a configuration.
const JAILS_MAX: usize = 2_000;
/// Most factors of lengths of bans.
const MULTIPLIERS_MAX: usize = 100;

/// Bans that become longer with each one.
#[derive(Clone, Debug, PartialEq)]
pub struct BanIncrement {
    /// Factors of lengths by the number of bans before; the last one is for all further ones. If there are none, the formula
    /// counts.
    pub multipliers: Vec<f64>,
    /// A formula of Python; lengths are doubled if there is none.
    pub formula: Option<String>,
    /// A factor of all but the first.
    pub factor: f64,
    /// Seconds of which a random part is added.
    pub random: f64,
    /// The longest ban.
    pub max: Option<FailDuration>,
    /// True if bans of all jails count.
    pub over_all_jails: bool,
}

/// A jail.
#[derive(Clone, Debug)]
pub struct Fail2banJail {
    /// The name.
    pub name: String,
    /// True if it is switched on.
    pub is_enabled: bool,
    /// The filter; none if it could not be read.
    pub filter: Option<Fail2banFilter>,
    /// Files that it follows, with patterns of names.
    pub log_paths: Vec<String>,
    /// True if it follows the journal.
    pub is_journal: bool,
    /// Failures within `find_time` that lead to a ban.
    pub max_retry: u32,
    /// The time in which failures count.
    pub find_time: Span,
    /// The length of a ban.
    pub ban_time: FailDuration,
    /// Bans that become longer.
    pub increment: Option<BanIncrement>,
    /// Addresses, networks and names that are never banned.
    pub ignored: Vec<String>,
    /// True if the machine's own addresses are never banned.
    pub ignores_self: bool,
    /// The zone of the log's dates, if it is not the machine's.
    pub log_zone: Option<String>,
    /// Names of actions.
    pub actions: Vec<String>,
    /// Options that were not taken.
    pub problems: Vec<Fail2banProblem>,
    /// The files and lines of options that are looked at later.
    places: BTreeMap<&'static str, (String, usize)>,
}

impl Fail2banJail {
    /// Returns what is wrong with an option, with its file and line.
    pub fn problem(&self, option: &str, message: &str) -> Fail2banProblem {
        let (file, line) = self.places.get(option).cloned().unwrap_or_else(|| ("jail.conf".to_owned(), 0));
        Fail2banProblem { file, line, message: format!("[{}] {message}", self.name) }
    }
}

/// Options of a jail that a filter of its own has, too.
const FILTER_OPTIONS: [&str; 6] =
    ["prefregex", "failregex", "ignoreregex", "maxlines", "datepattern", "journalmatch"];

/// Options whose places are kept.
const PLACED: [&str; 7] =
    ["enabled", "filter", "logpath", "ignoreip", "logtimezone", "action", "journalmatch"];
/// Words of `port` for all of them.
const ALL_PORTS: [&str; 4] = ["", "all", "0:65535", "1:65535"];

/// Reads all jails, those that are switched off among them. Problems of files stand apart.
pub fn read(files: &Fail2banFiles) -> (Vec<Fail2banJail>, Vec<Fail2banProblem>) {
    let Some(mut config) = MergedConfig::read(files, "jail") else {
        let message = "there is no such file".to_owned();
        return (Vec::new(), vec![Fail2banProblem { file: "jail.conf".to_owned(), line: 0, message }]);
    };
    config.set_default("fail2ban_version", "1.0");
    config.set_default("fail2ban_confpath", "/etc/fail2ban");
    let mut names: Vec<String> = config.sections().map(str::to_owned).collect();
    if names.len() > JAILS_MAX {
        let message = format!("more than {JAILS_MAX} jails: {} are left out", names.len() - JAILS_MAX);
        config.problems.push(Fail2banProblem { file: "jail.conf".to_owned(), line: 0, message });
        names.truncate(JAILS_MAX);
    }
    let jails = names.iter().map(|name| jail(files, &mut config, name)).collect();
    (jails, config.problems)
}

/// Values of a jail, and what could not be read of them.
struct JailValues<'c> {
    config: &'c MergedConfig,
    jail: &'c str,
    problems: Vec<Fail2banProblem>,
}

impl JailValues<'_> {
    fn text(&mut self, option: &str) -> Option<String> {
        match self.config.get(self.jail, option, &BTreeMap::new())? {
            Ok(text) => Some(text),
            Err(problem) => {
                self.problems.push(problem);
                None
            }
        }
    }

    fn refuse(&mut self, option: &str, message: String) {
        let origin = self.config.raw(self.jail, option);
        self.problems.push(Fail2banProblem {
            file: origin.map_or_else(|| "jail.conf".to_owned(), |origin| origin.file.clone()),
            line: origin.map_or(0, |origin| origin.line),
            message: format!("[{}] `{option}`: {message}", self.jail),
        });
    }

    /// Refuses an option where it stands: once for all jails, if it stands for all.
    fn refuse_in_section(&mut self, option: &str, message: &str) {
        let is_own = self.config.own_options(self.jail).any(|own| own == option);
        let (jail, section) = (self.jail, if is_own { self.jail } else { "DEFAULT" });
        self.jail = section;
        self.refuse(option, message.to_owned());
        self.jail = jail;
    }

    fn number(&mut self, option: &str, default: u32) -> u32 {
        let Some(text) = self.text(option) else { return default };
        text.trim().parse().unwrap_or_else(|_| {
            self.refuse(option, format!("`{text}` is no number"));
            default
        })
    }

    fn duration(&mut self, option: &str) -> Option<FailDuration> {
        let text = self.text(option).filter(|text| !text.trim().is_empty())?;
        let read = duration::read(&text);
        if read.is_none() {
            self.refuse(option, format!("`{text}` is no length of time"));
        }
        read
    }

    fn is_true(&mut self, option: &str, default: bool) -> bool {
        self.text(option).map_or(default, |text| {
            matches!(text.trim().to_lowercase().as_str(), "1" | "on" | "true" | "yes")
        })
    }
}

/// Tells of options that mean something to fail2ban, and nothing here.
fn untaken(values: &mut JailValues<'_>) {
    let text = |values: &mut JailValues<'_>, option: &str| {
        values.text(option).map(|text| text.trim().to_lowercase()).unwrap_or_default()
    };
    let dns = text(values, "usedns");
    if !matches!(dns.as_str(), "" | "no") {
        let message = format!("`{dns}`: names of hosts are not looked up, and not banned");
        values.refuse_in_section("usedns", &message);
    }
    let encoding = text(values, "logencoding");
    if !matches!(encoding.as_str(), "" | "auto" | "utf-8" | "utf8" | "ascii" | "us-ascii") {
        values.refuse_in_section("logencoding", &format!("`{encoding}`: lines are read as UTF-8"));
    }
    let port = text(values, "port");
    if !ALL_PORTS.contains(&port.as_str()) {
        values.refuse_in_section("port", &format!("`{port}`: a ban holds for all ports"));
    }
    if values.config.raw(values.jail, "ignoreself").is_some() && values.is_true("ignoreself", true) {
        let message = "of this machine's addresses those of loopback alone are exempt";
        values.refuse_in_section("ignoreself", message);
    }
}

fn jail(files: &Fail2banFiles, config: &mut MergedConfig, name: &str) -> Fail2banJail {
    let mut values = JailValues { config, jail: name, problems: Vec::new() };
    let is_enabled = values.is_true("enabled", false);
    let mut jail = Fail2banJail {
        name: name.to_owned(),
        is_enabled,
        filter: None,
        log_paths: Vec::new(),
        is_journal: values.text("backend").is_some_and(|backend| backend.trim().starts_with("systemd")),
        max_retry: values.number("maxretry", 5).max(1),
        find_time: Span::minutes(10),
        ban_time: FailDuration::Span(Span::minutes(10)),
        increment: None,
        ignored: Vec::new(),
        ignores_self: values.is_true("ignoreself", true),
        log_zone: values.text("logtimezone").filter(|zone| !zone.trim().is_empty()),
        actions: Vec::new(),
        problems: Vec::new(),
        places: BTreeMap::new(),
    };
    for option in PLACED {
        if let Some(origin) = values.config.raw(name, option) {
            jail.places.insert(option, (origin.file.clone(), origin.line));
        }
    }
    if is_enabled {
        untaken(&mut values);
    }
    match values.duration("findtime") {
        Some(FailDuration::Span(span)) => jail.find_time = span,
        Some(FailDuration::Endless) => {
            values.refuse("findtime", "for ever is not taken; 10 minutes are".to_owned())
        }
        None => {}
    }
    if let Some(duration) = values.duration("bantime") {
        jail.ban_time = duration;
    }
    if values.is_true("bantime.increment", false) {
        let facts = BanTimeFacts { seconds: 600.0, count: 1.0, factor: 1.0 };
        let mut formula = values.text("bantime.formula").filter(|formula| !formula.trim().is_empty());
        if let Some(Err(why)) = formula.as_deref().map(|text| formula::evaluate(text, facts)) {
            values.refuse("bantime.formula", format!("{why}; lengths are doubled"));
            formula = None;
        }
        let multipliers = values.text("bantime.multipliers").unwrap_or_default();
        // The factor may be a sum of its own, as in `2.0 / 2.885385`.
        let factor = values.text("bantime.factor").filter(|text| !text.trim().is_empty());
        let factor = factor.and_then(|text| match formula::evaluate(&text, facts) {
            Ok(factor) => Some(factor),
            Err(why) => {
                values.refuse("bantime.factor", why);
                None
            }
        });
        let random = match values.duration("bantime.rndtime") {
            Some(FailDuration::Span(span)) => span.as_seconds_f64(),
            Some(FailDuration::Endless) => {
                values.refuse("bantime.rndtime", "for ever is not taken; nothing is added".to_owned());
                0.0
            }
            None => 0.0,
        };
        let mut factors = Vec::new();
        for text in multipliers.split_whitespace() {
            match text.parse() {
                Ok(number) if factors.len() < MULTIPLIERS_MAX => factors.push(number),
                Ok(_) => {
                    values.refuse("bantime.multipliers", format!("more than {MULTIPLIERS_MAX}"));
                    break;
                }
                Err(_) => values.refuse("bantime.multipliers", format!("`{text}` is no number")),
            }
        }
        jail.increment = Some(BanIncrement {
            multipliers: factors,
            formula,
            random,
            factor: factor.filter(|factor: &f64| factor.is_finite() && *factor > 0.0).unwrap_or(1.0),
            max: values.duration("bantime.maxtime"),
            over_all_jails: values.is_true("bantime.overalljails", false),
        });
    }
    let ignored = values.text("ignoreip").unwrap_or_default();
    jail.ignored =
        ignored.split([' ', ',', '\n', '\t']).filter(|text| !text.is_empty()).map(str::to_owned).collect();
    if values.text("ignorecommand").is_some_and(|command| !command.trim().is_empty()) {
        values.refuse("ignorecommand", "commands are not run".to_owned());
    }

    let filter = values.text("filter").unwrap_or_else(|| name.to_owned());
    let of_jail = |values: &mut JailValues<'_>| {
        let mut given = BTreeMap::new();
        for option in FILTER_OPTIONS {
            if values.config.raw(name, option).is_some()
                && let Some(text) = values.text(option)
            {
                given.insert(option.to_owned(), text);
            }
        }
        given
    };
    if is_enabled {
        match option_list::read(&filter) {
            Ok((filter_name, mut options)) => {
                if jail.is_journal {
                    options.entry("logtype".to_owned()).or_insert_with(|| "journal".to_owned());
                }
                // What the filter says is known to the jail: `failregex = %(known/failregex)s`.
                if let Ok(filter) = Fail2banFilter::read(files, &filter_name, &options, &BTreeMap::new()) {
                    let problems = std::mem::take(&mut values.problems);
                    for (option, text) in [
                        ("failregex", filter.written.patterns.join("\n")),
                        ("ignoreregex", filter.written.ignored.join("\n")),
                        ("datepattern", filter.written.dates.join("\n")),
                    ] {
                        config.set_known(name, option, &text.replace('%', "%%"));
                    }
                    values = JailValues { config, jail: name, problems };
                }
                let given = of_jail(&mut values);
                options.extend(given.clone());
                match Fail2banFilter::read(files, &filter_name, &options, &given) {
                    Ok(filter) => jail.filter = Some(filter),
                    Err(problem) => {
                        let message = format!("`{filter}`: {problem}");
                        values.refuse("filter", message);
                    }
                }
            }
            Err(message) => values.refuse("filter", message),
        }
    }
    let paths = if is_enabled { values.text("logpath").unwrap_or_default() } else { String::new() };
    for path in paths.lines().map(str::trim).filter(|path| !path.is_empty()) {
        let path = path.strip_suffix(" tail").or_else(|| path.strip_suffix(" head")).unwrap_or(path);
        jail.log_paths.push(path.trim().to_owned());
    }
    if is_enabled && let Some(actions) = values.text("action") {
        for action in actions.lines().map(str::trim).filter(|action| !action.is_empty()) {
            jail.actions.push(action.split('[').next().unwrap_or(action).trim().to_owned());
        }
    }
    jail.problems = values.problems;
    jail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jails_with_what_is_laid_over_them() {
        let files = Fail2banFiles(
            [
                ("jail.conf", "[DEFAULT]\nbantime = 10m\nmaxretry = 5\nmode = normal\nfilter = %(__name__)s[mode=%(mode)s]\nignoreip = 127.0.0.1/8, ::1\n[a]\nlogpath = /x\n   /y*.log tail\n[b]\n"),
                ("jail.local", "[DEFAULT]\nbantime.increment = true\nbantime.multipliers = 1 5 30\nbantime.maxtime = 1w\n[a]\nenabled = true\nmaxretry = 3\nfindtime = 1h\nfailregex = %(known/failregex)s\n    ^more <HOST> 100%%\nbackend = systemd\n[c]\nenabled = yes\nbantime = soon\n"),
                ("filter.d/a.conf", "[Definition]\nfailregex = ^<mode> <HOST> 5%%$\njournalmatch = _COMM=a\n"),
            ]
            .map(|(path, text)| (path.to_owned(), text.to_owned()))
            .into(),
        );
        let (jails, problems) = read(&files);
        assert_eq!(problems, []);
        let names: Vec<(&str, bool)> =
            jails.iter().map(|jail| (jail.name.as_str(), jail.is_enabled)).collect();
        assert_eq!(names, [("a", true), ("b", false), ("c", true)]);
        let a = &jails[0];
        assert_eq!((a.max_retry, a.find_time, a.is_journal), (3, Span::hours(1), true));
        assert_eq!(a.log_paths, ["/x", "/y*.log"]);
        assert_eq!(a.ignored, ["127.0.0.1/8", "::1"]);
        let increment = a.increment.as_ref().expect("increment");
        assert_eq!(increment.multipliers, [1.0, 5.0, 30.0]);
        let filter = a.filter.as_ref().expect("filter");
        assert_eq!(filter.journal_matches, ["_COMM=a"]);
        let patterns = &filter.patterns.patterns;
        assert_eq!(patterns.len(), 2, "{patterns:?}");
        assert!(patterns[0].starts_with("^normal ") && patterns[0].ends_with("5%$"), "{patterns:?}");
        assert!(patterns[1].starts_with("^more ") && patterns[1].ends_with("100%"), "{patterns:?}");
        let problems: Vec<String> = jails[2].problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            problems,
            [
                "jail.local:14: [c] `bantime`: `soon` is no length of time",
                "jail.conf:5: [c] `filter`: `c[mode=normal]`: filter.d/c.conf: there is no such filter",
            ]
        );
    }
}
