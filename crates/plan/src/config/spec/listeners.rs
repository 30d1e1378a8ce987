//! Settings of listeners.

use access::AccessScope;

use super::{Section, SectionForm, SettingSpec, SettingType, required, setting};

/// The protocols of listeners.
const PROTOCOLS: &[&str] = &["milter", "policy", "rspamd", "spamc", "resp", "envoy", "grpc", "monitoring"];

/// The protocols of mail servers, and which of them hand over whole messages, or take one of our replies.
const MAIL: &[&str] = &["milter", "policy", "rspamd", "spamc"];
const MESSAGES: &[&str] = &["milter", "rspamd", "spamc"];
const REPLYING: &[&str] = &["milter", "policy", "rspamd"];
const ENVELOPES: &[&str] = &["milter", "policy"];

/// The protocols whose clients speak TLS. Sendmail's milter and Postfix's policy delegation have none.
const ENCRYPTED: &[&str] = &["rspamd", "spamc", "resp", "envoy", "grpc", "monitoring"];

/// The settings of TLS.
pub(super) const TLS: &[SettingSpec] = &[
    required(
        "certificate",
        SettingType::Text,
        "File in PEM: the certificate, and behind it those between it and its authority. Like the other files of `tls` it lies beside the configuration, is read again when it has changed and at SIGHUP, and one that cannot be used leaves the one before in use",
    ),
    required("key", SettingType::Text, "File in PEM of its private key (PKCS #8, SEC 1 or PKCS #1)"),
    setting(
        "client_ca",
        SettingType::Text,
        None,
        "File in PEM of the authorities of clients' certificates. Unless given, clients are asked for none",
    ),
    setting(
        "client_certificates",
        SettingType::Choice(&["optional", "required"]),
        None,
        "Whether a client without a certificate may ask. Unless given: `required`. One that nobody of `client_ca` vouches for is always refused",
    ),
    setting(
        "client_crl",
        SettingType::Text,
        None,
        "File in PEM of the lists of revoked certificates (CRL), one of each authority of `client_ca` that has issued a client's. A certificate whose authority has none there is refused",
    ),
    setting(
        "minimum",
        SettingType::Choice(&["1.2", "1.3"]),
        None,
        "Oldest version of TLS. Unless given: `1.2`; older ones are not spoken",
    ),
];

/// The choice of what a mail server can be asked to do.
const REPLY: SettingType =
    SettingType::Choice(&["pass", "tag", "quarantine", "redirect", "reject", "defer", "discard"]);

/// The settings of what a mail server is asked to do for each action.
const REPLIES: &[SettingSpec] = &[
    setting("accept", REPLY, None, "Unless given: `pass`, delivered with header fields"),
    setting("tag", REPLY, None, "Unless given: `tag`, delivered with header fields that call it spam"),
    setting("quarantine", REPLY, None, "Unless given: `quarantine`, held in the mail server's queue"),
    setting("reject", REPLY, None, "Unless given: `reject`, refused for good"),
    setting("throttle", REPLY, None, "Unless given: `defer`, refused for now"),
    setting("shadow", REPLY, None, "Unless given: `discard`, accepted and delivered to nobody"),
    setting("challenge", REPLY, None, "Unless given: `tag`"),
    setting("review_before", REPLY, None, "Unless given: `quarantine`"),
    setting("review_after", REPLY, None, "Unless given: `tag`"),
];

pub(super) const SERVER: Section = Section {
    name: "server",
    form: SectionForm::Table,
    node: true,
    doc: "The HTTP listener.",
    settings: &[
        setting(
            "listen",
            SettingType::Socket,
            Some("\"127.0.0.1:8377\""),
            "Address and port. Any address but a loopback one needs a token",
        ),
        setting(
            "tokens",
            SettingType::List(&SettingType::Secret(16)),
            Some("[]"),
            "Bearer tokens without a name; if there are any, a request must carry one, or one of `[[token]]` or of `tollhouse token`. See [access.md](../operating/access.md)",
        ),
        setting(
            "token_scopes",
            SettingType::List(&SettingType::Choice(AccessScope::WORDS)),
            Some(
                "[\"decide\", \"teach\", \"read\", \"read-content\", \"enforce\", \"rules\", \"administer\"]",
            ),
            "What each of `tokens` may be used for: by default everything",
        ),
        setting(
            "require_token",
            SettingType::Bool,
            Some("false"),
            "Whether a request must carry a token although none is configured here: those of `tollhouse token`, which a server sees within a second",
        ),
        setting("body_max", SettingType::Size(1 << 50), Some("\"32MiB\""), "Largest request body"),
        setting("batch_max", SettingType::Integer(1, 1_000_000), Some("10000"), "Most events in one batch"),
        setting(
            "requests_max",
            SettingType::Integer(1, 1_000_000),
            Some("512"),
            "Most requests at once; further ones get 503",
        ),
        setting(
            "connections_max",
            SettingType::Integer(1, 1_000_000),
            Some("4096"),
            "Most open connections; further ones wait",
        ),
        setting(
            "client_connections_max",
            SettingType::Integer(1, 1_000_000),
            Some("1000"),
            "Most open connections of one address, and at most three quarters of those that file descriptors allow; further ones are closed at once",
        ),
        setting(
            "timeout",
            SettingType::Span,
            Some("\"10s\""),
            "Longest time for one request, reading its body included",
        ),
        setting(
            "body_rate_min",
            SettingType::Size(1 << 40),
            Some("\"1KiB\""),
            "Bytes a second that a body must average while more of it is awaited, after `body_grace`; also on every listener. Slower bodies are dropped, over HTTP with 408. `0B` allows any pace",
        ),
        setting(
            "body_grace",
            SettingType::Span,
            Some("\"5s\""),
            "Time during which a body may come at any pace",
        ),
        setting("tls", SettingType::Table(TLS), None, "HTTPS instead of HTTP"),
    ],
};

pub(super) const TOKEN: Section = Section {
    name: "token",
    form: SectionForm::List("name"),
    node: true,
    doc: "A named token: whoever sends it may do what its scopes say. `tollhouse token` makes them without a change of files. See [access.md](../operating/access.md).",
    settings: &[
        required("name", SettingType::Name, "Its name in the audit log"),
        setting("secret", SettingType::Secret(16), None, "The token itself"),
        setting(
            "sha256",
            SettingType::Text,
            None,
            "Instead of `secret`: its SHA-256 as 64 hexadecimal digits. The token must be random then, such as `openssl rand -hex 32` makes one",
        ),
        setting(
            "scopes",
            SettingType::List(&SettingType::Choice(AccessScope::WORDS)),
            Some("[]"),
            "What it may be used for; at least one",
        ),
        setting(
            "pipelines",
            SettingType::List(&SettingType::Name),
            Some("[]"),
            "Pipelines that it is limited to; by default it is for all, and for the whole node's operations",
        ),
        setting("expires", SettingType::Time, None, "The time from which it no longer holds"),
    ],
};

pub(super) const OIDC: Section = Section {
    name: "oidc",
    form: SectionForm::Table,
    node: true,
    doc: "Login to the console at an identity provider, by OpenID Connect: Keycloak, Authentik, Dex, Entra, Okta, Google and the like. Requests need a token or a session then. See [access.md](../operating/access.md#login-by-openid-connect).",
    settings: &[
        setting(
            "issuer",
            SettingType::Text,
            None,
            "The provider, as it names itself: the URL below which `/.well-known/openid-configuration` lies. `https://`, or `http://` on loopback",
        ),
        setting("client_id", SettingType::Text, None, "The name that this server has there"),
        setting(
            "client_secret",
            SettingType::Secret(1),
            None,
            "The secret that it has there, if it has one. PKCE is used in any case",
        ),
        setting(
            "console",
            SettingType::Text,
            None,
            "The URL at which browsers reach this server, such as `https://tollhouse.example.org`. The provider must know `…/console/oidc/return` as a redirect URI",
        ),
        setting(
            "scopes",
            SettingType::List(&SettingType::Text),
            Some("[\"profile\", \"email\"]"),
            "What the provider is asked for beside `openid`",
        ),
        setting(
            "name_claim",
            SettingType::Text,
            Some("\"preferred_username\""),
            "The claim that names the person in the audit log, with `oidc:` before it",
        ),
        setting(
            "role_claim",
            SettingType::Text,
            Some("\"groups\""),
            "The claim, a text or a list, that gives the role",
        ),
        setting(
            "viewer",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Values of that claim that make a viewer. Somebody with several roles has the highest, and somebody without one may not log in",
        ),
        setting("reviewer", SettingType::List(&SettingType::Text), Some("[]"), "Values that make a reviewer"),
        setting("editor", SettingType::List(&SettingType::Text), Some("[]"), "Values that make an editor"),
        setting(
            "administrator",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Values that make an administrator",
        ),
        setting(
            "authority",
            SettingType::Text,
            None,
            "File in PEM of the authorities of the provider's host, instead of public ones",
        ),
    ],
};

pub(super) const SEARCH: Section = Section {
    name: "search",
    form: SectionForm::List("name"),
    node: true,
    doc: "A search in past decisions that the console offers by name, to all who may read them. See [console.md](../guides/console.md#saved-searches).",
    settings: &[
        required("name", SettingType::Name, "Its name"),
        setting(
            "description",
            SettingType::Text,
            None,
            "What it finds, for people; the name if it is not given",
        ),
        setting("pipeline", SettingType::Name, None, "Only of this pipeline"),
        setting("text", SettingType::Text, None, "Only on events of which a logged text contains this"),
        setting("action", SettingType::Text, None, "Only with one of these actions, separated by commas"),
        setting("rule", SettingType::Text, None, "Only if this rule fired"),
        setting("kind", SettingType::Text, None, "Only on events with a key of this kind and of `value`"),
        setting("value", SettingType::Text, None, "The value of that key"),
        setting("where", SettingType::Text, None, "Only if this condition is true, as in a rule"),
        setting(
            "label",
            SettingType::Text,
            None,
            "Only if the last judgement has this class; `any` for judged ones, `none` for others",
        ),
        setting("score_from", SettingType::Float, None, "Only with this score or a greater one"),
        setting("score_below", SettingType::Float, None, "Only with a lower score"),
        setting("last", SettingType::Span, None, "Only of so long a time up to now"),
        setting("facts", SettingType::List(&SettingType::Text), Some("[]"), "Facts that are shown"),
    ],
};

pub(super) const AUDIT: Section = Section {
    name: "audit",
    form: SectionForm::Table,
    node: true,
    doc: "The audit log of who did what: `audit/` in the data directory. See [access.md](../operating/access.md#the-audit-log).",
    settings: &[
        setting("keep", SettingType::Span, Some("\"400d\""), "Age at which a closed file is removed"),
        setting(
            "keep_bytes",
            SettingType::Size(1 << 50),
            Some("\"1GiB\""),
            "Size of the whole log above which closed files are removed, oldest first",
        ),
    ],
};

pub(super) const TELEMETRY: Section = Section {
    name: "telemetry",
    form: SectionForm::Table,
    node: true,
    doc: "Traces and metrics for an OpenTelemetry collector, by OTLP. See [telemetry.md](../operating/telemetry.md).",
    settings: &[
        setting(
            "endpoint",
            SettingType::Text,
            None,
            "URL of the collector, such as `http://127.0.0.1:4318`. Without it nothing is traced or sent",
        ),
        setting(
            "protocol",
            SettingType::Choice(&["http", "grpc"]),
            Some("\"http\""),
            "OTLP over HTTP (port 4318 of most collectors), or over gRPC (4317)",
        ),
        setting(
            "authorization",
            SettingType::Secret(1),
            None,
            "Value of the header `Authorization` that the collector is sent",
        ),
        setting(
            "sample",
            SettingType::Float,
            Some("0.01"),
            "Share of requests that are traced, from 0 to 1. Of a request with a `traceparent` its caller decides, if it has a token or is in `trusted`",
        ),
        setting(
            "trusted",
            SettingType::List(&SettingType::Network),
            Some("[]"),
            "Networks of callers whose `traceparent` counts without a token, such as those of Envoys. Not those of proxies that hand on what visitors send",
        ),
        setting(
            "metrics",
            SettingType::Interval,
            Some("\"1m\""),
            "Interval at which the metrics of `/metrics` are sent, or `off`",
        ),
    ],
};

pub(super) const LISTENER: Section = Section {
    name: "listener",
    form: SectionForm::List("name"),
    node: true,
    doc: "A socket for mail servers, Redis clients (`resp`), Envoy (`envoy`), batches (`grpc`), or probes and Prometheus (`monitoring`).",
    settings: &[
        required("name", SettingType::Name, "Its name in the log and in metrics"),
        required("protocol", SettingType::Choice(PROTOCOLS), "Protocol of its clients"),
        required(
            "listen",
            SettingType::Endpoint,
            "Address and port, or `unix:` and the path of a socket. Any address but a loopback one needs `clients`",
        ),
        setting(
            "mode",
            SettingType::FileMode,
            Some("\"0660\""),
            "Permissions of a Unix socket: who may write may ask",
        ),
        setting(
            "clients",
            SettingType::List(&SettingType::Network),
            Some("[]"),
            "Networks that may ask over TCP, the own host included. By default a loopback address is open to its host",
        ),
        setting(
            "pipeline",
            SettingType::Name,
            None,
            "Pipeline that decides; without it the first whose input is `message`, or for `resp` and `grpc` the first",
        )
        .only("protocol", &["milter", "policy", "rspamd", "spamc", "resp", "grpc"]),
        setting("user", SettingType::Name, Some("\"default\""), "Name that goes with the `password`").only("protocol", &["resp"]),
        setting(
            "password",
            SettingType::Secret(16),
            None,
            "Password that a client must send first (`AUTH`, `HELLO`)",
        )
        .only("protocol", &["resp"]),
        setting(
            "limits",
            SettingType::List(&SettingType::Name),
            Some("[]"),
            "Limits that each envelope takes from before its message comes, counted by `client.ip`, `client.helo`, `client.user`, `mail.sender` and `mail.recipients`. Mail over a limit is deferred",
        )
        .only("protocol", ENVELOPES),
        setting(
            "envelope_first",
            SettingType::Bool,
            Some("false"),
            "Whether the envelope is judged when all recipients are known (DATA), so that a message that is refused for it never comes. One more decision for each message",
        )
        .only("protocol", &["milter"]),
        setting(
            "on_error",
            SettingType::Choice(&["open", "closed"]),
            Some("\"open\""),
            "When a message cannot be decided (`timeout`, overload): let it pass (`open`) or defer it (`closed`). For missing statistics or journal the pipeline's `on_error` decides",
        )
        .only("protocol", MAIL),
        setting("timeout", SettingType::Span, Some("\"5s\""), "Longest time for one decision").only("protocol", &["milter", "policy", "rspamd", "spamc", "resp", "envoy"]),
        setting(
            "idle",
            SettingType::Span,
            Some("\"10m\""),
            "Time after which a silent connection is closed",
        ),
        setting(
            "tls",
            SettingType::Table(TLS),
            None,
            "TLS, with the keys of that of `[server]`. Milters and policy delegation have none in their protocols: use a Unix socket",
        )
        .only("protocol", ENCRYPTED),
        setting(
            "learn",
            SettingType::Bool,
            Some("false"),
            "Whether all who may connect may also teach: by learning of `spamc` and `rspamc`, by `TOLL.LEARN`. With one of the node's `tokens` as password `rspamc` may in any case, with the `password` clients of `resp`",
        )
        .only("protocol", &["rspamd", "spamc", "resp"]),
        setting(
            "ticket",
            SettingType::Bool,
            Some("true"),
            "Whether messages get a field `X-Tollhouse-Id`, by which reports (`/v1/report`) find the decision. One that a message brings is always removed, except in mail to `[report_addresses]` alone",
        )
        .only("protocol", MESSAGES),
        setting(
            "body_max",
            SettingType::Size(1 << 50),
            Some("\"32MiB\""),
            "Longest part of a message that is judged; all bodies together, with those of `[server]`, take at most eight of its `body_max`",
        )
        .only("protocol", &["milter", "rspamd", "spamc", "resp"]),
        setting(
            "oversize",
            SettingType::Choice(&["judge", "error"]),
            Some("\"judge\""),
            "A message beyond `body_max`: judged by its first part, or treated by `on_error`",
        )
        .only("protocol", MESSAGES),
        setting(
            "connections_max",
            SettingType::Integer(1, 1_000_000),
            Some("1000"),
            "Most open connections; further ones wait",
        ),
        setting(
            "client_connections_max",
            SettingType::Integer(1, 1_000_000),
            Some("500"),
            "Most open connections of one address; further ones are closed at once",
        ),
        setting(
            "act",
            SettingType::Choice(&["enforce", "tag", "none"]),
            Some("\"enforce\""),
            "`enforce`: the mail server does what `replies` say; `tag`: every message passes, at most with header fields; `none`: every message passes unchanged, and only the journal has the decision",
        )
        .only("protocol", MAIL),
        setting(
            "replies",
            SettingType::Table(REPLIES),
            None,
            "What the mail server does for an action, if not the default",
        )
        .only("protocol", MAIL),
        setting(
            "counts",
            SettingType::Choice(&["refused", "always"]),
            Some("\"refused\""),
            "Which messages count: those refused here (`refused`), as a milter counts the others, or all (`always`), without a milter",
        )
        .only("protocol", &["policy"]),
        setting("quarantine_to", SettingType::Text, None, "Address of the mailbox to which `redirect` delivers").only("protocol", ENVELOPES),
        setting(
            "subject_tag",
            SettingType::Text,
            None,
            "Text before the subject of messages that are delivered as spam, such as `[SPAM]`; once, also in replies. Signatures (DKIM) of the subject no longer hold then",
        )
        .only("protocol", MESSAGES),
        setting(
            "reject_text",
            SettingType::Text,
            Some("\"5.7.1 Message refused, reference {id}\""),
            "Status and text of a refusal; `{id}` is the decision's id",
        )
        .only("protocol", REPLYING),
        setting(
            "defer_text",
            SettingType::Text,
            Some("\"4.7.1 Not now, please try again later\""),
            "Status and text of a deferral",
        )
        .only("protocol", REPLYING),
    ],
};

#[cfg(test)]
mod tests {
    use super::super::SettingCondition;
    use super::*;
    use crate::config::{Config, Overrides};

    /// A value that fits.
    fn sample(setting: &SettingSpec) -> String {
        if let Some(default) = setting.default {
            return default.to_owned();
        }
        match setting.shape {
            SettingType::Secret(_) => "\"0123456789abcdef\"".to_owned(),
            SettingType::Table(_) if setting.key == "tls" => {
                "{ certificate = \"a.pem\", key = \"a.key\" }".to_owned()
            }
            SettingType::Table(_) => "{ tag = \"pass\" }".to_owned(),
            SettingType::Name => "\"mail\"".to_owned(),
            _ => "\"quarantine@example.org\"".to_owned(),
        }
    }

    fn problems(protocol: &str, more: &str) -> Vec<String> {
        let text = format!(
            "preset = \"mail\"\n[[listener]]\nname = \"l\"\nprotocol = \"{protocol}\"\nlisten = \"[::1]:0\"\n{more}\n"
        );
        let config = Config::from_text("t.toml", &text, &Overrides::default());
        let (problems, _) = config.problems();
        problems.list().iter().map(ToString::to_string).collect()
    }

    /// Every setting says for which protocols it is, and is refused, where it stands, for all others.
    #[test]
    fn settings_that_do_nothing_are_refused() {
        const FOR_ALL: [&str; 8] = [
            "name",
            "protocol",
            "listen",
            "mode",
            "clients",
            "connections_max",
            "client_connections_max",
            "idle",
        ];
        for setting in LISTENER.settings {
            assert_eq!(setting.only.is_none(), FOR_ALL.contains(&setting.key), "{}", setting.key);
            let Some(SettingCondition { key: "protocol", values: words }) = setting.only else { continue };
            assert!(words.iter().all(|word| PROTOCOLS.contains(word)), "{}", setting.key);
            for protocol in PROTOCOLS {
                let found = problems(protocol, &format!("{} = {}", setting.key, sample(setting)));
                if words.contains(protocol) {
                    assert!(found.is_empty(), "{protocol} {}: {found:?}", setting.key);
                } else {
                    assert_eq!(found.len(), 1, "{protocol} {}: {found:?}", setting.key);
                    let told = format!("`{}` does nothing where `protocol` is `{protocol}`", setting.key);
                    assert!(found[0].contains(&told) && found[0].contains("t.toml:6"), "{}", found[0]);
                }
            }
        }
        // What is said elsewhere than in a file is refused, too.
        let flags = [("protocol", "milter"), ("listen", "[::1]:0"), ("password", "0123456789abcdef")];
        let flags = flags.map(|(key, value)| (format!("listener.m.{key}"), value.to_owned())).to_vec();
        let config = Config::from_preset("mail", &Overrides { flags, ..Overrides::default() });
        assert_eq!(config.problems().0.list().len(), 1);
    }
}
