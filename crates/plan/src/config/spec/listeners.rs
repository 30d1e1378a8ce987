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
        "PEM chain, own certificate first. `tls` files are reread when changed and at SIGHUP; an unusable \
        one leaves the last in use",
    ),
    required("key", SettingType::Text, "PEM private key (PKCS #8, SEC 1 or PKCS #1)"),
    setting(
        "client_ca",
        SettingType::Text,
        None,
        "PEM authorities for client certificates. Default: none are asked for",
    ),
    setting(
        "client_certificates",
        SettingType::Choice(&["optional", "required"]),
        None,
        "Client certificates. Default: `required`. One that `client_ca` does not vouch for is always refused",
    ),
    setting(
        "client_crl",
        SettingType::Text,
        None,
        "PEM revocation lists (CRL), one for each authority of `client_ca` that issued a client's. \
        Certificates of an authority without one are refused",
    ),
    setting("minimum", SettingType::Choice(&["1.2", "1.3"]), None, "Oldest TLS version. Default: `1.2`"),
];

/// The choice of what a mail server can be asked to do.
const REPLY: SettingType =
    SettingType::Choice(&["pass", "tag", "quarantine", "redirect", "reject", "defer", "discard"]);

/// The settings of what a mail server is asked to do for each action.
const REPLIES: &[SettingSpec] = &[
    setting("accept", REPLY, None, "Default: `pass`, delivered with header fields"),
    setting("tag", REPLY, None, "Default: `tag`, delivered with header fields that call it spam"),
    setting("quarantine", REPLY, None, "Default: `quarantine`, held in the mail server's queue"),
    setting("reject", REPLY, None, "Default: `reject`, refused for good"),
    setting("throttle", REPLY, None, "Default: `defer`, refused for now"),
    setting("shadow", REPLY, None, "Default: `discard`, accepted and delivered to nobody"),
    setting("challenge", REPLY, None, "Default: `tag`"),
    setting("review_before", REPLY, None, "Default: `quarantine`"),
    setting("review_after", REPLY, None, "Default: `tag`"),
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
            "Any address but a loopback one needs a token",
        ),
        setting(
            "tokens",
            SettingType::List(&SettingType::Secret(16)),
            Some("[]"),
            "Unnamed bearer tokens. With any, a request must carry one of them, of `[[token]]` or of \
            `tollhouse token`. See [access.md](../operating/access.md)",
        ),
        setting(
            "token_scopes",
            SettingType::List(&SettingType::Choice(AccessScope::WORDS)),
            Some(
                "[\"decide\", \"teach\", \"read\", \"read-content\", \"enforce\", \"rules\", \"administer\"]",
            ),
            "Permissions of `tokens`",
        ),
        setting(
            "require_token",
            SettingType::Bool,
            Some("false"),
            "Require a token even if none is configured here: those of `tollhouse token`, which a server \
            sees within a second",
        ),
        setting("body_max", SettingType::Size(1 << 50), Some("\"32MiB\""), "Largest request body"),
        setting("batch_max", SettingType::Integer(1, 1_000_000), Some("10000"), "Most events in a batch"),
        setting(
            "requests_max",
            SettingType::Integer(1, 1_000_000),
            Some("512"),
            "Most requests at once; more get 503",
        ),
        setting(
            "connections_max",
            SettingType::Integer(1, 1_000_000),
            Some("4096"),
            "Most open connections; more wait",
        ),
        setting(
            "client_connections_max",
            SettingType::Integer(1, 1_000_000),
            Some("1000"),
            "Most open connections per address, at most three quarters of what file descriptors allow; more \
            are closed at once",
        ),
        setting("timeout", SettingType::Span, Some("\"10s\""), "Time limit of a request, including its body"),
        setting(
            "body_rate_min",
            SettingType::Size(1 << 40),
            Some("\"1KiB\""),
            "Bytes a second a body must average after `body_grace`, on every listener. Slower ones are \
            dropped (HTTP 408). `0B`: any pace",
        ),
        setting("body_grace", SettingType::Span, Some("\"5s\""), "Time in which a body may come at any pace"),
        setting("tls", SettingType::Table(TLS), None, "Serve HTTPS instead of HTTP"),
    ],
};

pub(super) const TOKEN: Section = Section {
    name: "token",
    form: SectionForm::List("name"),
    node: true,
    doc: "A named token and its permissions. `tollhouse token` makes tokens without changing files. See \
        [access.md](../operating/access.md).",
    settings: &[
        required("name", SettingType::Name, "Name in the audit log"),
        setting("secret", SettingType::Secret(16), None, "The token itself"),
        setting(
            "sha256",
            SettingType::Text,
            None,
            "Instead of `secret`: its SHA-256 as 64 hexadecimal digits. The token must be random, as from \
            `openssl rand -hex 32`",
        ),
        setting(
            "scopes",
            SettingType::List(&SettingType::Choice(AccessScope::WORDS)),
            Some("[]"),
            "Permissions, at least one",
        ),
        setting(
            "pipelines",
            SettingType::List(&SettingType::Name),
            Some("[]"),
            "Restrict it to these pipelines. Default: all, and the operations of the whole node",
        ),
        setting("expires", SettingType::Time, None, "When it expires"),
    ],
};

pub(super) const OIDC: Section = Section {
    name: "oidc",
    form: SectionForm::Table,
    node: true,
    doc: "Console login through an OpenID Connect provider: Keycloak, Authentik, Dex, Entra, Okta, Google \
        and others. Requests then need a token or a session. See \
        [access.md](../operating/access.md#login-by-openid-connect).",
    settings: &[
        setting(
            "issuer",
            SettingType::Text,
            None,
            "The provider's own URL, with `/.well-known/openid-configuration` below it. `https://`, or \
            `http://` on loopback",
        ),
        setting("client_id", SettingType::Text, None, "This server's client id at the provider"),
        setting(
            "client_secret",
            SettingType::Secret(1),
            None,
            "Its client secret, if it has one. PKCE is always used",
        ),
        setting(
            "console",
            SettingType::Text,
            None,
            "URL at which browsers reach this server, such as `https://tollhouse.example.org`. Register \
            `…/console/oidc/return` at the provider as a redirect URI",
        ),
        setting(
            "scopes",
            SettingType::List(&SettingType::Text),
            Some("[\"profile\", \"email\"]"),
            "Scopes to request beside `openid`",
        ),
        setting(
            "name_claim",
            SettingType::Text,
            Some("\"preferred_username\""),
            "Claim that names the person in the audit log, prefixed with `oidc:`",
        ),
        setting("role_claim", SettingType::Text, Some("\"groups\""), "Claim with the role, a text or a list"),
        setting(
            "viewer",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Values for viewers. The highest of several roles counts; without one nobody can log in",
        ),
        setting("reviewer", SettingType::List(&SettingType::Text), Some("[]"), "Values for reviewers"),
        setting("editor", SettingType::List(&SettingType::Text), Some("[]"), "Values for editors"),
        setting(
            "administrator",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Values for administrators",
        ),
        setting(
            "authority",
            SettingType::Text,
            None,
            "PEM file of authorities for the provider's host, instead of public ones",
        ),
    ],
};

pub(super) const SEARCH: Section = Section {
    name: "search",
    form: SectionForm::List("name"),
    node: true,
    doc: "A saved search in past decisions, offered in the console to all who may read them. See \
        [console.md](../guides/console.md#saved-searches).",
    settings: &[
        required("name", SettingType::Name, "Its name"),
        setting("description", SettingType::Text, None, "What it finds, for people. Default: the name"),
        setting("pipeline", SettingType::Name, None, "Only this pipeline"),
        setting("text", SettingType::Text, None, "Only events with a logged text that contains this"),
        setting("action", SettingType::Text, None, "Only these actions, separated by commas"),
        setting("rule", SettingType::Text, None, "Only where this rule fired"),
        setting("kind", SettingType::Text, None, "Only events with a key of this kind, of `value`"),
        setting("value", SettingType::Text, None, "The key's value"),
        setting("where", SettingType::Text, None, "Only where this condition holds, as in a rule"),
        setting(
            "label",
            SettingType::Text,
            None,
            "Only where the last judgement has this class; `any`: judged, `none`: not judged",
        ),
        setting("score_from", SettingType::Float, None, "Only from this score up"),
        setting("score_below", SettingType::Float, None, "Only below this score"),
        setting("last", SettingType::Span, None, "Only this long up to now"),
        setting("facts", SettingType::List(&SettingType::Text), Some("[]"), "Facts to show"),
    ],
};

pub(super) const AUDIT: Section = Section {
    name: "audit",
    form: SectionForm::Table,
    node: true,
    doc: "The audit log of who did what, in `audit/` of the data directory. See \
        [access.md](../operating/access.md#the-audit-log).",
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
    doc: "Traces and metrics for an OpenTelemetry collector, by OTLP. See \
        [telemetry.md](../operating/telemetry.md).",
    settings: &[
        setting(
            "endpoint",
            SettingType::Text,
            None,
            "Collector URL, such as `http://127.0.0.1:4318`. Without it nothing is traced or sent",
        ),
        setting(
            "protocol",
            SettingType::Choice(&["http", "grpc"]),
            Some("\"http\""),
            "OTLP over HTTP (most collectors' port 4318) or gRPC (4317)",
        ),
        setting(
            "authorization",
            SettingType::Secret(1),
            None,
            "`Authorization` header to send the collector",
        ),
        setting(
            "sample",
            SettingType::Float,
            Some("0.01"),
            "Share of requests to trace, 0 to 1. Requests with `traceparent` follow it if the caller has a \
            token or is in `trusted`",
        ),
        setting(
            "trusted",
            SettingType::List(&SettingType::Network),
            Some("[]"),
            "Networks whose `traceparent` counts without a token, such as Envoys'; not proxies that pass on \
            visitors' headers",
        ),
        setting(
            "metrics",
            SettingType::Interval,
            Some("\"1m\""),
            "How often to send the metrics of `/metrics`",
        ),
    ],
};

pub(super) const LISTENER: Section = Section {
    name: "listener",
    form: SectionForm::List("name"),
    node: true,
    doc: "A socket for mail servers, Redis clients (`resp`), Envoy (`envoy`), batches (`grpc`), or probes \
        and Prometheus (`monitoring`).",
    settings: &[
        required("name", SettingType::Name, "Name in the log and in metrics"),
        required("protocol", SettingType::Choice(PROTOCOLS), "Protocol of its clients"),
        required("listen", SettingType::Endpoint, "Any address but a loopback one needs `clients`"),
        setting(
            "mode",
            SettingType::FileMode,
            Some("\"0660\""),
            "Permissions of a Unix socket; write permission lets clients ask",
        ),
        setting(
            "clients",
            SettingType::List(&SettingType::Network),
            Some("[]"),
            "Networks that may connect over TCP; list your own host, too. Default: loopback addresses are \
            open to their host",
        ),
        setting(
            "pipeline",
            SettingType::Name,
            None,
            "Pipeline that decides. Default: the first with input `message`; for `resp` and `grpc` the first",
        )
        .only("protocol", &["milter", "policy", "rspamd", "spamc", "resp", "grpc"]),
        setting("user", SettingType::Name, Some("\"default\""), "User name for `password`")
            .only("protocol", &["resp"]),
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
            "Limits taken by each envelope before its message arrives, keyed by `client.ip`, `client.helo`, \
            `client.user`, `mail.sender` and `mail.recipients`. Mail over a limit is deferred",
        )
        .only("protocol", ENVELOPES),
        setting(
            "envelope_first",
            SettingType::Bool,
            Some("false"),
            "Decide once all recipients are known (DATA), to refuse mail before its message. Costs another \
            decision per message",
        )
        .only("protocol", &["milter"]),
        setting(
            "on_error",
            SettingType::Choice(&["open", "closed"]),
            Some("\"open\""),
            "For undecided messages (`timeout`, overload): pass (`open`) or defer (`closed`). For missing \
            statistics or journal the pipeline's `on_error` decides",
        )
        .only("protocol", MAIL),
        setting("timeout", SettingType::Span, Some("\"5s\""), "Time limit of a decision")
            .only("protocol", &["milter", "policy", "rspamd", "spamc", "resp", "envoy"]),
        setting("idle", SettingType::Span, Some("\"10m\""), "Time after which a silent connection is closed"),
        setting(
            "tls",
            SettingType::Table(TLS),
            None,
            "TLS, with the keys of `[server] tls`. Milter and policy have none: use a Unix socket",
        )
        .only("protocol", ENCRYPTED),
        setting(
            "learn",
            SettingType::Bool,
            Some("false"),
            "Let everybody who may connect teach, with `spamc`, `rspamc` or `TOLL.LEARN`. `rspamc` always \
            may with one of the node's `tokens` as password, `resp` clients with `password`",
        )
        .only("protocol", &["rspamd", "spamc", "resp"]),
        setting(
            "signed_id",
            SettingType::Bool,
            Some("true"),
            "Add the field `X-Tollhouse-Id`, by which reports (`/v1/report`) find the decision. One already \
            there is removed, except in mail to `[report_addresses]` alone",
        )
        .only("protocol", MESSAGES),
        setting(
            "body_max",
            SettingType::Size(1 << 50),
            Some("\"32MiB\""),
            "Longest part of a message to judge; all bodies, with `[server]`'s, take at most eight of its \
            `body_max`",
        )
        .only("protocol", &["milter", "rspamd", "spamc", "resp"]),
        setting(
            "oversize",
            SettingType::Choice(&["judge", "error"]),
            Some("\"judge\""),
            "A message over `body_max`: judge its first part, or follow `on_error`",
        )
        .only("protocol", MESSAGES),
        setting(
            "connections_max",
            SettingType::Integer(1, 1_000_000),
            Some("1000"),
            "Most open connections; more wait",
        ),
        setting(
            "client_connections_max",
            SettingType::Integer(1, 1_000_000),
            Some("500"),
            "Most open connections per address; more are closed at once",
        ),
        setting(
            "act",
            SettingType::Choice(&["enforce", "tag", "none"]),
            Some("\"enforce\""),
            "`enforce`: do what `replies` say; `tag`: pass all, at most with header fields; `none`: pass all \
            unchanged, and only journal the decision",
        )
        .only("protocol", MAIL),
        setting("replies", SettingType::Table(REPLIES), None, "What the mail server does for each action")
            .only("protocol", MAIL),
        setting(
            "counts",
            SettingType::Choice(&["refused", "always"]),
            Some("\"refused\""),
            "Messages to count: those refused here, while a milter counts the rest (`refused`), or all, \
            without a milter (`always`)",
        )
        .only("protocol", &["policy"]),
        setting("quarantine_to", SettingType::Text, None, "Mailbox that `redirect` delivers to")
            .only("protocol", ENVELOPES),
        setting(
            "subject_tag",
            SettingType::Text,
            None,
            "Put once before the subject of messages delivered as spam, such as `[SPAM]`, also in replies. \
            Breaks DKIM signatures of the subject",
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
