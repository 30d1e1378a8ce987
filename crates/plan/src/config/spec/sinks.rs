//! Settings of sinks.

use super::{Section, SectionForm, SettingSpec, SettingType, required, setting};

const USER: SettingSpec =
    setting("user", SettingType::Text, None, "Broker user; with NATS and no password, a token");
const PASSWORD: SettingSpec = setting("password", SettingType::Secret(1), None, "Password of the user");
const TLS: SettingSpec =
    setting("tls", SettingType::Bool, None, "Use TLS; implied by `ca` and `certificate`. Default: no");
const CA: SettingSpec =
    setting("ca", SettingType::Text, None, "PEM authorities of the broker, instead of the system's");
const CERTIFICATE: SettingSpec = setting("certificate", SettingType::Text, None, "PEM client certificate");
const KEY: SettingSpec = setting("key", SettingType::Text, None, "Its private key, in PEM");

const KAFKA: &[SettingSpec] = &[
    setting(
        "brokers",
        SettingType::List(&SettingType::Text),
        None,
        "Bootstrap brokers, as `HOST:PORT`; the default port is 9092",
    ),
    setting("topic", SettingType::Text, None, "Topic"),
    USER,
    PASSWORD,
    setting(
        "mechanism",
        SettingType::Choice(&["plain", "scram-sha-256", "scram-sha-512"]),
        None,
        "SASL mechanism. Default: `scram-sha-512`; `plain` needs TLS",
    ),
    TLS,
    CA,
    CERTIFICATE,
    KEY,
];

const NATS: &[SettingSpec] = &[
    setting(
        "servers",
        SettingType::List(&SettingType::Text),
        None,
        "Servers, as `nats://HOST:PORT` or `tls://HOST:PORT`",
    ),
    setting("subject", SettingType::Text, None, "Subject; a JetStream stream must keep it"),
    setting("stream", SettingType::Name, None, "Stream that must keep the subject. Default: any"),
    setting("creds", SettingType::Text, None, "Credentials file made by `nsc`"),
    USER,
    PASSWORD,
    TLS,
    CA,
    CERTIFICATE,
    KEY,
];

pub(super) const SINK: Section = Section {
    name: "sink",
    form: SectionForm::List("name"),
    node: true,
    doc: "A broker to send decisions and feedback to, from the journal, in its order and at least once: \
        exactly one of `kafka` and `nats`. See [sinks.md](../guides/sinks.md).",
    settings: &[
        required(
            "name",
            SettingType::Name,
            "Name in the log, in metrics and at `/v1/sinks`; the sink's position is kept under it",
        ),
        setting("kafka", SettingType::Table(KAFKA), None, "A Kafka topic; record keys are decision ids"),
        setting(
            "nats",
            SettingType::Table(NATS),
            None,
            "A NATS JetStream subject; `Nats-Msg-Id` is the id of the decision or feedback",
        ),
        setting(
            "what",
            SettingType::List(&SettingType::Choice(&["decisions", "feedback"])),
            Some("[\"decisions\", \"feedback\"]"),
            "What to send",
        ),
        setting(
            "facts",
            SettingType::Bool,
            Some("true"),
            "Send the facts of decisions, as far as the journal has them (`content` of the pipeline)",
        ),
        setting(
            "start",
            SettingType::Choice(&["new", "oldest"]),
            Some("\"new\""),
            "Where a new sink starts: at new records, or at the journal's oldest",
        ),
    ],
};
