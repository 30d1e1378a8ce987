//! Settings of sinks.

use super::{Section, SectionForm, SettingSpec, SettingType, required, setting};

const USER: SettingSpec =
    setting("user", SettingType::Text, None, "User of the broker; with NATS and no password, a token");
const PASSWORD: SettingSpec = setting("password", SettingType::Secret(1), None, "Password of the user");
const TLS: SettingSpec = setting(
    "tls",
    SettingType::Bool,
    None,
    "Talk TLS; also meant by any of `ca` and `certificate`. Unless given: no",
);
const CA: SettingSpec = setting(
    "ca",
    SettingType::Text,
    None,
    "Certificate authorities of the broker, in PEM, instead of the system's",
);
const CERTIFICATE: SettingSpec =
    setting("certificate", SettingType::Text, None, "Client certificate for the broker, in PEM");
const KEY: SettingSpec = setting("key", SettingType::Text, None, "Private key of that certificate, in PEM");

const KAFKA: &[SettingSpec] = &[
    setting(
        "brokers",
        SettingType::List(&SettingType::Text),
        None,
        "Brokers to begin with, as `HOST:PORT`; the port is 9092 unless given",
    ),
    setting("topic", SettingType::Text, None, "Topic"),
    USER,
    PASSWORD,
    setting(
        "mechanism",
        SettingType::Choice(&["plain", "scram-sha-256", "scram-sha-512"]),
        None,
        "SASL mechanism by which the user is shown. Unless given: `scram-sha-512`; `plain` needs TLS",
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
    setting("subject", SettingType::Text, None, "Subject, which a stream of JetStream must keep"),
    setting(
        "stream",
        SettingType::Name,
        None,
        "Stream that must be the one that keeps it. Unless given: any",
    ),
    setting("creds", SettingType::Text, None, "Credentials file of the user, as `nsc` makes it"),
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
    doc: "Brokers that decisions and feedback are sent to, from the journal, at least once and in its order. Exactly one of `kafka` and `nats` is given. See [sinks.md](../guides/sinks.md).",
    settings: &[
        required(
            "name",
            SettingType::Name,
            "Its name in the log, in metrics and at `/v1/sinks`; the position is kept under it",
        ),
        setting(
            "kafka",
            SettingType::Table(KAFKA),
            None,
            "A topic of Kafka; the key of a record is the id of the decision",
        ),
        setting(
            "nats",
            SettingType::Table(NATS),
            None,
            "A subject of NATS JetStream; `Nats-Msg-Id` is the id of the decision or feedback",
        ),
        setting(
            "what",
            SettingType::List(&SettingType::Choice(&["decisions", "feedback"])),
            Some("[\"decisions\", \"feedback\"]"),
            "What is sent",
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
            "Where a new sink begins: with what comes from now on, or with the oldest of the journal",
        ),
    ],
};
