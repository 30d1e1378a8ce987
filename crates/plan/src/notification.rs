//! `[[notification]]`, checked: the places that are told what happens.

use std::net::IpAddr;
use std::sync::Arc;

use data_encoding::BASE64;
use event::{Span, Time};
use jiff::Timestamp;
use jiff::civil;
use jiff::tz::TimeZone;
use judge::{Effect, Severity};
use logs::log_stream::zone;

use crate::config::{Config, ConfigProblems, ConfigView, Document, notification_authority_key};
use crate::entries;
use crate::pipeline::Pipeline;
use crate::signers::is_protected_url;

/// Most places.
const NOTIFICATIONS_MAX: usize = 32;
/// Most bytes of a template.
const TEMPLATE_BYTES_MAX: usize = 4096;
/// Most addresses that one mail goes to.
const ADDRESSES_MAX: usize = 32;
/// The place of reports at AbuseIPDB.
const ABUSEIPDB: &str = "https://api.abuseipdb.com/api/v2/report";

/// The occasion of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotificationOccasion {
    /// A rule's effect.
    Rule,
    /// A key that was put on the ban list.
    Ban,
    /// A thing that is unlike its past.
    Anomaly,
    /// A promise or a probability that does not come true.
    Drift,
    /// A condition of the node that has begun or ended.
    Condition,
    /// Reviews that should be decided by now.
    ReviewOverdue,
    /// A rule whose effects were taken back.
    Correction,
    /// A test by a person.
    Test,
}

impl NotificationOccasion {
    /// All occasions.
    pub const ALL: [NotificationOccasion; 8] = [
        NotificationOccasion::Rule,
        NotificationOccasion::Ban,
        NotificationOccasion::Anomaly,
        NotificationOccasion::Drift,
        NotificationOccasion::Condition,
        NotificationOccasion::ReviewOverdue,
        NotificationOccasion::Correction,
        NotificationOccasion::Test,
    ];

    /// The name of the occasion.
    pub fn name(self) -> &'static str {
        match self {
            NotificationOccasion::Rule => "rule",
            NotificationOccasion::Ban => "ban",
            NotificationOccasion::Anomaly => "anomaly",
            NotificationOccasion::Drift => "drift",
            NotificationOccasion::Condition => "condition",
            NotificationOccasion::ReviewOverdue => "review_overdue",
            NotificationOccasion::Correction => "correction",
            NotificationOccasion::Test => "test",
        }
    }

    fn named(name: &str) -> Option<NotificationOccasion> {
        NotificationOccasion::ALL.into_iter().find(|occasion| occasion.name() == name)
    }
}

/// The form in which notifications are sent, and the settings of that form.
#[derive(Clone, PartialEq, Eq)]
pub enum NotificationForm {
    /// JSON.
    Webhook {
        /// The key of signatures, if they are signed.
        key: Option<Arc<[u8]>>,
    },
    /// Slack's incoming webhooks.
    Slack,
    /// A message to a room.
    Matrix {
        /// The room.
        room: String,
        /// The access token.
        token: String,
    },
    /// Reports of addresses.
    AbuseIpDb {
        /// The API key.
        key: String,
        /// The numbers of the categories, with commas between.
        categories: String,
    },
    /// Mail.
    Smtp(MailDelivery),
}

/// The way of mail.
#[derive(Clone, PartialEq, Eq)]
pub struct MailDelivery {
    /// The host.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The protection of the connection.
    pub security: MailSecurity,
    /// The user and the password.
    pub login: Option<(String, String)>,
    /// The address that it comes from.
    pub from: String,
    /// The addresses that it goes to.
    pub to: Vec<String>,
}

/// The protection of a connection to a mail server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailSecurity {
    /// None: the server is this machine.
    None,
    /// STARTTLS, without which nothing is sent.
    StartTls,
    /// TLS from the first byte.
    Tls,
}

impl NotificationForm {
    /// The name of the form.
    pub fn name(&self) -> &'static str {
        match self {
            NotificationForm::Webhook { .. } => "webhook",
            NotificationForm::Slack => "slack",
            NotificationForm::Matrix { .. } => "matrix",
            NotificationForm::AbuseIpDb { .. } => "abuseipdb",
            NotificationForm::Smtp(_) => "smtp",
        }
    }
}

impl std::fmt::Debug for NotificationForm {
    // Secrets are in it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Hours of each day in which only what is urgent is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuietHours {
    from: civil::Time,
    to: civil::Time,
    zone: TimeZone,
}

impl QuietHours {
    /// Reads hours as `22:00-07:00`.
    fn parse(text: &str, zone: TimeZone) -> Option<QuietHours> {
        let (from, to) = text.split_once('-')?;
        let [from, to] = [from, to].map(|text| {
            let (hour, minute) = text.trim().split_once(':')?;
            let is_number = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
            if !is_number(hour) || !is_number(minute) {
                return None;
            }
            civil::Time::new(hour.parse().ok()?, minute.parse().ok()?, 0, 0).ok()
        });
        let (from, to) = (from?, to?);
        (from != to).then_some(QuietHours { from, to, zone })
    }

    /// Returns true if a time is in these hours, by the clock of their zone.
    pub fn contains(&self, time: Time) -> bool {
        let Ok(timestamp) = Timestamp::from_microsecond(time.0) else { return false };
        let clock = self.zone.to_datetime(timestamp).time();
        if self.from < self.to {
            self.from <= clock && clock < self.to
        } else {
            self.from <= clock || clock < self.to
        }
    }
}

/// A place that is told what happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotificationPlan {
    /// Its name.
    pub name: Arc<str>,
    /// The form.
    pub form: NotificationForm,
    /// The URL that requests are sent to; of mail, none.
    pub url: NotificationUrl,
    /// Certificates in PEM of those who vouch for its host, instead of public authorities.
    pub authority: Option<Arc<str>>,
    /// The occasions beside effects of rules.
    pub on: Vec<NotificationOccasion>,
    /// The pipelines that it is about; all if there are none.
    pub pipelines: Vec<String>,
    /// The text for people.
    pub template: Option<Arc<str>>,
    /// The time for which notifications are gathered.
    pub digest: Option<Span>,
    /// The hours in which they are kept back.
    pub quiet: Option<QuietHours>,
    /// The occasions that are never kept back.
    pub urgent: Vec<NotificationOccasion>,
    /// Most requests a minute.
    pub rate_max: u32,
    /// The longest time for a request.
    pub timeout: Span,
    /// The time before another try.
    pub retry: Span,
    /// The time after which no other is made.
    pub give_up: Span,
}

/// A URL that is not shown, as it may hold a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct NotificationUrl(pub String);

impl std::fmt::Debug for NotificationUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.host())
    }
}

impl NotificationUrl {
    /// Returns host and port, which may be shown.
    pub fn host(&self) -> &str {
        let rest = self.0.split_once("://").map_or("", |(_, rest)| rest);
        rest.split(['/', '?', '#']).next().unwrap_or_default()
    }
}

impl NotificationPlan {
    /// Returns true if an occasion of a pipeline, or of none, is sent there.
    pub fn takes(&self, occasion: NotificationOccasion, pipeline: Option<&str>) -> bool {
        self.on.contains(&occasion) && self.is_about(pipeline)
    }

    /// Returns true if it is about a pipeline, or about none.
    pub fn is_about(&self, pipeline: Option<&str>) -> bool {
        self.pipelines.is_empty()
            || pipeline.is_none_or(|pipeline| self.pipelines.iter().any(|own| own == pipeline))
    }
}

/// Compiles the notifications of the main file.
pub(crate) fn compile(
    document: &Document,
    pipelines: &[Arc<Pipeline>],
    problems: &mut ConfigProblems,
) -> Vec<NotificationPlan> {
    let mut plans = Vec::new();
    for view in entries(document, "notification", problems) {
        let Some(name) = view.str("name") else { continue };
        if plans.len() == NOTIFICATIONS_MAX {
            let message = format!("there are more than {NOTIFICATIONS_MAX} [[notification]]");
            problems.add(view.origin("name"), message, None);
            break;
        }
        let Some((form, url)) = form(&view, name, problems) else { continue };
        let list = |key: &str| -> Vec<NotificationOccasion> {
            view.strings(key).into_iter().filter_map(|(word, _)| NotificationOccasion::named(word)).collect()
        };
        let on = list("on");
        if matches!(form, NotificationForm::AbuseIpDb { .. })
            && on.iter().any(|occasion| *occasion != NotificationOccasion::Ban)
        {
            let help = "`on = [\"ban\"]`; addresses of rules that notify it are reported, too".to_owned();
            problems.add(view.origin("on"), "AbuseIPDB takes reports of addresses alone", Some(help));
        }
        for (pipeline, origin) in view.strings("pipelines") {
            if !pipelines.iter().any(|known| known.name == pipeline) {
                let help = crate::expected(pipeline, pipelines.iter().map(|known| known.name.as_str()));
                problems.add(origin, format!("there is no pipeline `{pipeline}`"), Some(help));
            }
        }
        let authority = document.list_file(&notification_authority_key(name));
        if let Some(file) = authority.filter(|file| !file.text.contains("-----BEGIN CERTIFICATE-----")) {
            let help = "it is PEM, with `-----BEGIN CERTIFICATE-----`".to_owned();
            let message = format!("{}: there is no certificate", file.name);
            problems.add(view.origin("authority"), message, Some(help));
        }
        let template = view.str("template");
        if let Some(Err(why)) = template.map(NotificationTemplate::parse) {
            let names = NotificationTemplate::NAMES.map(|name| format!("{{{name}}}")).join(", ");
            problems.add(view.origin("template"), why, Some(format!("expected {names}")));
        }
        let zone_name = view.str("zone").unwrap_or("UTC");
        let known = zone(zone_name).or_else(|| (zone_name == "UTC").then_some(TimeZone::UTC));
        if known.is_none() {
            let help = "expected a name such as `Europe/Berlin`, or `UTC+0200`".to_owned();
            problems.add(view.origin("zone"), format!("there is no time zone `{zone_name}`"), Some(help));
        }
        let quiet = view.str("quiet").and_then(|text| {
            let hours = QuietHours::parse(text, known.unwrap_or(TimeZone::UTC));
            if hours.is_none() {
                let help = "expected hours such as `22:00-07:00`".to_owned();
                problems.add(view.origin("quiet"), format!("`{text}` are no hours"), Some(help));
            }
            hours
        });
        let span = |key: &str, default: Span, least: Span| view.span(key).unwrap_or(default).max(least);
        plans.push(NotificationPlan {
            name: Arc::from(name),
            form,
            url: NotificationUrl(url),
            authority: authority.map(|file| Arc::from(&*file.text)),
            on,
            pipelines: view.strings("pipelines").into_iter().map(|(name, _)| name.to_owned()).collect(),
            template: template.map(Arc::from),
            digest: view.span("digest").filter(|span| span.0 > 0),
            quiet,
            urgent: list("urgent"),
            rate_max: view.integer("rate_max").and_then(|rate| u32::try_from(rate).ok()).unwrap_or(60),
            timeout: span("timeout", Span::seconds(10), Span(100_000)).min(Span::minutes(2)),
            retry: span("retry", Span::seconds(5), Span(10_000)),
            give_up: span("give_up", Span::hours(1), Span(0)),
        });
    }
    plans
}

/// Warns of rules that notify a place which is not among those that there are. Without any, who carries out verdicts may heed it.
pub(crate) fn warn_of_unknown(
    config: &Config,
    pipelines: &[Arc<Pipeline>],
    places: &[NotificationPlan],
    problems: &mut ConfigProblems,
) {
    if places.is_empty() {
        return;
    }
    let is_known = |whom: &str| places.iter().any(|place| *place.name == *whom);
    for document in config.documents() {
        let Some(pipeline) = pipelines.iter().find(|pipeline| pipeline.name == document.name()) else {
            continue;
        };
        for view in document.list("rule") {
            let rule = view.str("name").and_then(|name| pipeline.rules.rule(name));
            for effect in rule.into_iter().flat_map(|rule| &rule.effects) {
                if let Effect::Notify(whom) = effect
                    && !is_known(whom)
                {
                    let help = crate::expected(whom, places.iter().map(|place| &*place.name));
                    let message = format!("there is no [[notification]] `{whom}`: nobody is told");
                    problems.push(Severity::Warning, view.origin("effects"), message, Some(help));
                }
            }
        }
    }
}

/// The form of a notification, and the URL of its requests.
fn form(
    view: &ConfigView<'_>,
    name: &str,
    problems: &mut ConfigProblems,
) -> Option<(NotificationForm, String)> {
    let word = view.str("type").unwrap_or("webhook");
    let mut need = |key: &str| -> Option<String> {
        let found = view.str(key).filter(|text| !text.is_empty()).map(str::to_owned);
        if found.is_none() {
            let message = format!("`{name}` has no `{key}`");
            problems.add(view.origin("name"), message, Some(format!("`{word}` needs one")));
        }
        found
    };
    let url = match (word, view.str("url")) {
        ("abuseipdb", None) => ABUSEIPDB.to_owned(),
        _ => need("url")?,
    };
    let form = match word {
        "slack" => NotificationForm::Slack,
        "matrix" => NotificationForm::Matrix { room: need("room")?, token: need("secret")? },
        "abuseipdb" => {
            let key = need("secret")?;
            let categories: Vec<String> =
                view.entries("categories").into_iter().map(|(number, _)| number).collect();
            if categories.is_empty() {
                let help = "such as `categories = [21]`, web application attack".to_owned();
                problems.add(view.origin("name"), format!("`{name}` has no `categories`"), Some(help));
            }
            NotificationForm::AbuseIpDb { key, categories: categories.join(",") }
        }
        "smtp" => {
            let from = need("from")?;
            let to: Vec<String> = view.strings("to").into_iter().map(|(to, _)| to.to_owned()).collect();
            if to.is_empty() || to.len() > ADDRESSES_MAX {
                let help = format!("expected one to {ADDRESSES_MAX} addresses");
                problems.add(view.origin("name"), format!("`{name}` has no `to`, or too many"), Some(help));
            }
            for address in to.iter().chain([&from]) {
                if !is_address(address) {
                    problems.add(view.origin("to"), format!("`{address}` is no address of mail"), None);
                }
            }
            let Some((host, port, security)) = mail_server(&url) else {
                let help = "expected `smtps://HOST`, `smtp://HOST`, or these with `:PORT`".to_owned();
                // The line of the URL is not shown: secrets may be in it.
                problems.add(view.origin("name"), "its `url` is no mail server", Some(help));
                return None;
            };
            let login = match (view.str("user"), view.str("secret")) {
                (Some(user), Some(password)) => Some((user.to_owned(), password.to_owned())),
                (None, None) => None,
                _ => {
                    problems.add(view.origin("name"), "`user` and `secret` go together", None);
                    None
                }
            };
            return Some((
                NotificationForm::Smtp(MailDelivery { host, port, security, login, from, to }),
                url,
            ));
        }
        _ => NotificationForm::Webhook { key: view.str("secret").map(signing_key) },
    };
    if !is_protected_url(&url) {
        let help =
            "expected `https://...`, or `http://` with a loopback address such as 127.0.0.1".to_owned();
        problems.add(view.origin("name"), format!("nothing is sent to the `url` of `{name}`"), Some(help));
    }
    Some((form, url))
}

/// The bytes of a key for signatures: of `whsec_` and base64 what they stand for, of others the text itself.
fn signing_key(secret: &str) -> Arc<[u8]> {
    let decoded = secret.strip_prefix("whsec_").and_then(|text| BASE64.decode(text.as_bytes()).ok());
    decoded.map_or_else(|| Arc::from(secret.as_bytes()), Arc::from)
}

/// Returns true if a text can stand as an address in an envelope and a header.
fn is_address(text: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"-._+=@".contains(&byte);
    text.len() <= 254
        && text.bytes().all(is_sign)
        && text
            .split_once('@')
            .is_some_and(|(user, host)| !user.is_empty() && !host.is_empty() && !host.contains('@'))
}

/// Host, port and protection of a mail server.
fn mail_server(url: &str) -> Option<(String, u16, MailSecurity)> {
    let (scheme, rest) = url.split_once("://")?;
    let rest = rest.trim_end_matches('/');
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port.parse::<u16>().ok()?)),
        _ => (rest, None),
    };
    let host = host.trim_matches(['[', ']']);
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:".contains(&byte);
    if host.is_empty() || !host.bytes().all(is_sign) {
        return None;
    }
    let is_own = host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    let (security, usual) = match scheme {
        "smtps" => (MailSecurity::Tls, 465),
        "smtp" if is_own => (MailSecurity::None, 25),
        "smtp" => (MailSecurity::StartTls, 587),
        _ => return None,
    };
    Some((host.to_owned(), port.unwrap_or(usual), security))
}

/// A text with places for values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotificationTemplate<'t>(Vec<TemplatePart<'t>>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplatePart<'t> {
    Text(&'t str),
    Value(&'t str),
}

impl<'t> NotificationTemplate<'t> {
    /// The names of values.
    pub const NAMES: [&'static str; 10] =
        ["kind", "summary", "pipeline", "rule", "value", "until", "decision", "event", "action", "time"];

    /// Reads a template.
    ///
    /// # Errors
    /// If it is too long, has a brace without its other, or a name that there is not.
    pub fn parse(text: &'t str) -> Result<NotificationTemplate<'t>, String> {
        if text.len() > TEMPLATE_BYTES_MAX {
            return Err(format!("a template has at most {TEMPLATE_BYTES_MAX} bytes"));
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            parts.push(TemplatePart::Text(&rest[..at]));
            let brace = &rest[at..=at];
            let behind = &rest[at + 1..];
            if let Some(behind) = behind.strip_prefix(brace) {
                parts.push(TemplatePart::Text(brace));
                rest = behind;
                continue;
            }
            let name = if brace == "{" { behind.split_once('}') } else { None };
            let Some((name, behind)) = name else { return Err(format!("`{brace}` has no other")) };
            if !NotificationTemplate::NAMES.contains(&name) {
                return Err(format!("a template knows no `{{{name}}}`"));
            }
            parts.push(TemplatePart::Value(name));
            rest = behind;
        }
        parts.push(TemplatePart::Text(rest));
        Ok(NotificationTemplate(parts))
    }

    /// Puts values in their places.
    pub fn fill(&self, value: impl Fn(&str) -> String) -> String {
        let part = |part: &TemplatePart<'_>| match part {
            TemplatePart::Text(text) => (*text).to_owned(),
            TemplatePart::Value(name) => value(name),
        };
        self.0.iter().map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Overrides, Plan};

    #[test]
    fn notifications_are_checked() {
        let check = |text: &str, expected: Result<&str, &str>| {
            let text = format!("preset = \"web\"\n[[notification]]\nname = \"ops\"\n{text}");
            let config = Config::from_text("t.toml", &text, &Overrides::default());
            match (Plan::compile(&config), expected) {
                (Ok(plan), Ok(expected)) => {
                    assert_eq!(plan.notifications[0].form.name(), expected, "{text}");
                }
                (Err(problems), Err(expected)) => {
                    let found = problems.to_string();
                    assert!(found.contains(expected), "{text}: {found}");
                    assert!(!found.contains("hunter2"), "{found}");
                }
                (found, _) => panic!("{text}: {:?}", found.map(|plan| plan.notifications)),
            }
        };
        check("url = 'https://hooks.example/hunter2'", Ok("webhook"));
        check("url = 'http://127.0.0.1:1/a'\ntype = 'slack'\non = ['ban', 'drift']", Ok("slack"));
        check("url = 'http://hooks.example/hunter2'", Err("nothing is sent to the `url` of `ops`"));
        check("", Err("`ops` has no `url`"));
        check("url = 'https://a.example'\ntype = 'matrix'", Err("has no `room`"));
        let matrix = "url = 'https://a.example'\ntype = 'matrix'\nroom = '!a:b'";
        check(matrix, Err("has no `secret`"));
        check(&format!("{matrix}\nsecret = '0123456789abcdef'"), Ok("matrix"));
        check("type = 'abuseipdb'\nsecret = '0123456789abcdef'", Err("has no `categories`"));
        let abuse = "type = 'abuseipdb'\nsecret = '0123456789abcdef'\ncategories = [18, 21]\n";
        check(abuse, Ok("abuseipdb"));
        check(&format!("{abuse}on = ['drift']"), Err("reports of addresses alone"));
        let mail = "type = 'smtp'\nfrom = 'a@example.org'\nto = ['b@example.org']\n";
        check(&format!("{mail}url = 'smtps://mail.example.org'"), Ok("smtp"));
        check(&format!("{mail}url = 'https://mail.example.org'"), Err("its `url` is no mail server"));
        check(&format!("{mail}url = 'smtp://mail.example.org'\nuser = 'u'"), Err("go together"));
        check(
            "type = 'smtp'\nfrom = \"a@example.org\\nBcc: c\"\nto = ['b@example.org']\nurl = 'smtp://127.0.0.1'",
            Err("is no address of mail"),
        );
        let hook = "url = 'https://a.example'\n";
        check(&format!("{hook}template = '{{who}}'"), Err("a template knows no `{who}`"));
        check(&format!("{hook}quiet = '22-7'"), Err("are no hours"));
        check(&format!("{hook}quiet = '22:00-07:00'\nzone = 'Mars'"), Err("there is no time zone `Mars`"));
        check(&format!("{hook}pipelines = ['wbe']"), Err("there is no pipeline `wbe`"));
        check(&format!("{hook}on = ['bans']"), Err("bans"));
    }

    #[test]
    fn who_notifies_nobody_is_warned() {
        let check = |place: &str, expected: Option<&str>| {
            let rule = "[[rule]]\nname = \"A\"\nwhen = \"true\"\nscore = 0\neffects = [\"notify 'ops'\"]\n";
            let text = format!("preset = \"web\"\n{rule}{place}");
            let config = Config::from_text("t.toml", &text, &Overrides::default());
            let warnings =
                Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}")).warnings.to_string();
            let told = "there is no [[notification]] `";
            assert_eq!(warnings.contains(told), expected.is_some(), "{warnings}");
            assert!(warnings.contains(expected.unwrap_or_default()), "{warnings}");
        };
        let place =
            |name: &str| format!("[[notification]]\nname = \"{name}\"\nurl = \"https://a.example\"\n");
        check("", None);
        check(&place("ops"), None);
        check(&place("opps"), Some("did you mean `opps`"));
    }

    #[test]
    fn quiet_hours_go_by_the_clock_of_their_zone() {
        let check = |hours: &str, zone: &str, clock: &str, expected: bool| {
            let zone = zone_of(zone);
            let time: Timestamp = format!("2026-01-15T{clock}:00Z").parse().unwrap();
            let quiet = QuietHours::parse(hours, zone).unwrap();
            assert_eq!(quiet.contains(Time(time.as_microsecond())), expected, "{hours} {clock}");
        };
        check("22:00-07:00", "UTC+0000", "21:59", false);
        check("22:00-07:00", "UTC+0000", "22:00", true);
        check("22:00-07:00", "UTC+0000", "06:59", true);
        check("22:00-07:00", "UTC+0000", "07:00", false);
        check("12:00-13:30", "UTC+0000", "13:29", true);
        check("12:00-13:30", "UTC+0200", "13:29", false);
        check("12:00-13:30", "Europe/Berlin", "11:00", true);
        for text in ["", "22:00", "22:00-22:00", "24:00-07:00", "2:0-7:0", "-1:00-07:00"] {
            assert!(QuietHours::parse(text, TimeZone::UTC).is_none(), "{text}");
        }
    }

    fn zone_of(name: &str) -> TimeZone {
        zone(name).unwrap()
    }

    #[test]
    fn templates_have_values_in_their_places() {
        let check = |text: &str, expected: Result<&str, &str>| {
            let parsed = NotificationTemplate::parse(text);
            let filled = parsed.map(|parsed| parsed.fill(|name| format!("<{name}>")));
            assert_eq!(filled.as_deref().map_err(String::as_str), expected, "{text}");
        };
        check("", Ok(""));
        check("{rule}: {summary}!", Ok("<rule>: <summary>!"));
        check("{{rule}} }}", Ok("{rule} }"));
        check("ö{kind}ö", Ok("ö<kind>ö"));
        check("{", Err("`{` has no other"));
        check("a}", Err("`}` has no other"));
        check("{a", Err("`{` has no other"));
        check("{{{kind}", Ok("{<kind>"));
        check("{ rule }", Err("a template knows no `{ rule }`"));
    }
}
