//! Settings of a node: its data, and the services it asks.

use super::{Section, SectionForm, SettingType, setting};

pub(super) const NODE: Section = Section {
    name: "node",
    form: SectionForm::Table,
    node: true,
    doc: "This node.",
    settings: &[
        setting("pipelines", SettingType::List(&SettingType::Text), Some("[]"), "Files of further pipelines"),
        setting(
            "watch",
            SettingType::Interval,
            Some("\"2s\""),
            "How often to check configuration files for changes",
        ),
        setting(
            "versions",
            SettingType::Integer(1, 1000),
            Some("20"),
            "Versions of each pipeline kept for rollback",
        ),
        setting(
            "log_decisions",
            SettingType::Choice(&["off", "acted", "all"]),
            Some("\"off\""),
            "Decisions over HTTP, gRPC and Redis' protocol to log: all but `accept` (`acted`), or all. Mail \
            listeners always log a line per message. See [logs.md](../operating/logs.md)",
        ),
    ],
};

pub(super) const LEDGER: Section = Section {
    name: "ledger",
    form: SectionForm::Table,
    node: true,
    doc: "Statistics, wherever they live.",
    settings: &[
        setting(
            "durability",
            SettingType::Durability,
            Some("\"1s\""),
            "`sync`: on disk before the answer; a duration: most that a crash loses, as long as a flush \
            takes at most a quarter of it; `none`: never waited for",
        ),
        setting(
            "memory",
            SettingType::Size(1 << 50),
            Some("\"1GiB\""),
            "Memory for cells, the directory of all keys (about 15 bytes each) and sketches. Cells that do \
            not fit stay on disk; keys beyond two thirds of it are only estimated",
        ),
        setting(
            "segment",
            SettingType::Size(1 << 30),
            Some("\"64MiB\""),
            "Size at which a segment file is closed; not with `[cluster]`",
        ),
    ],
};

pub(super) const REVIEW: Section = Section {
    name: "review",
    form: SectionForm::Table,
    node: true,
    doc: "The queue of decisions for people: those with action `review_before` or `review_after`.",
    settings: &[
        setting(
            "items",
            SettingType::Integer(0, 200_000),
            Some("20000"),
            "Most reviews, about 1 KB each; 0 for no queue. When full, the oldest decided one goes, else the \
            least exposed `review_after`; never held ones",
        ),
        setting("claim", SettingType::Span, Some("\"10m\""), "How long a claim of a review holds"),
        setting("within", SettingType::Span, Some("\"4h\""), "Service level: time to decide a review"),
        setting(
            "keep",
            SettingType::Span,
            Some("\"30d\""),
            "How long to keep a decided review, and a `review_after` nobody looked at. Held ones stay until \
            decided",
        ),
        setting(
            "agreement",
            SettingType::Integer(1, 9),
            Some("1"),
            "Reviewers who must agree. Two who differ escalate the review",
        ),
        setting(
            "exposure",
            SettingType::Text,
            None,
            "Numeric fact, such as a place's followers: the larger, the sooner somebody should look. \
            Default: the score",
        ),
        setting(
            "leads",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Reviewers who decide escalated reviews. Default: anybody who has not voted on it",
        ),
    ],
};

pub(super) const CLUSTER: Section = Section {
    name: "cluster",
    form: SectionForm::Table,
    node: true,
    doc: "The Redis or Valkey cluster for statistics. Without one they live in the data directory.",
    settings: &[
        setting(
            "nodes",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Some servers, each `host:port`; they name the rest. All addresses of a host count and are \
            resolved again at run time; `dnssrv+_redis._tcp.example.org` names a service's hosts and ports \
            (SRV)",
        ),
        setting("user", SettingType::Text, None, "User name"),
        setting("password", SettingType::Secret(1), None, "Password"),
        setting("tls", SettingType::Bool, Some("false"), "Encrypt connections to the cluster"),
        setting("tls_ca", SettingType::Text, None, "PEM file of trusted authorities. Default: the system's"),
        setting(
            "prefix",
            SettingType::Text,
            Some("\"tollhouse:\""),
            "Prefix of all key names, at most 64 bytes without braces",
        ),
        setting(
            "partitions",
            SettingType::Integer(1, 1 << 14),
            Some("1024"),
            "Parts of the key space, a power of two, fixed once the cluster has keys. More make slots \
            smaller to move, fewer make batches larger",
        ),
        setting(
            "replicas",
            SettingType::Integer(0, 16),
            Some("0"),
            "Replicas that must confirm a write. With 0, nodes resend what a failed master had not passed on",
        ),
        setting(
            "flush",
            SettingType::Span,
            Some("\"1s\""),
            "How often to send each partition's sums to the cluster",
        ),
        setting(
            "fresh",
            SettingType::Span,
            Some("\"1s\""),
            "How long to answer a reading from memory, plus what this node has added since",
        ),
        setting(
            "stale",
            SettingType::Span,
            Some("\"10s\""),
            "How long to answer with an old reading while reading it again; then decisions wait",
        ),
        setting(
            "timeout",
            SettingType::Span,
            Some("\"250ms\""),
            "How long a decision waits for the cluster. Later readings are missing, and the pipeline's \
            `on_error` decides",
        ),
        setting(
            "unready",
            SettingType::Choice(&["never", "some", "all"]),
            Some("\"never\""),
            "When `/readyz` answers 503 while shards do not answer: never (it answers 200 and `degraded`), if \
            some do not, or if none does",
        ),
        setting(
            "retain",
            SettingType::Span,
            Some("\"30s\""),
            "How long to keep acknowledged batches, for a replica that takes over without them",
        ),
        setting(
            "backlog",
            SettingType::Size(1 << 50),
            Some("\"1GiB\""),
            "Most bytes on the node's disk waiting for the cluster; beyond it additions are refused",
        ),
        setting(
            "sweep",
            SettingType::Integer(0, 1_000_000),
            Some("1000"),
            "Keys a second that this node compacts in the cluster once nobody writes them; 0 for none",
        ),
        setting(
            "advertise",
            SettingType::Text,
            None,
            "URL at which other nodes reach this one, such as `http://10.0.0.7:8377`. Default: the server's \
            `listen`, if that is one address",
        ),
        setting(
            "peer_ca",
            SettingType::Text,
            None,
            "PEM file of authorities for other nodes' certificates. Default: `client_ca` of `[server] tls`, \
            else public ones",
        ),
        setting(
            "peer_certificate",
            SettingType::Text,
            None,
            "PEM certificate to show other nodes. Default: that of `[server] tls`",
        ),
        setting("peer_key", SettingType::Text, None, "Its private key, in PEM"),
    ],
};

pub(super) const JOURNAL: Section = Section {
    name: "journal",
    form: SectionForm::Table,
    node: true,
    doc: "The log of decisions.",
    settings: &[
        setting(
            "segment",
            SettingType::Size(1 << 30),
            Some("\"64MiB\""),
            "Size at which a segment file is closed",
        ),
        setting(
            "rotate",
            SettingType::Span,
            Some("\"1d\""),
            "Span of arrivals after which a segment file is closed",
        ),
        setting(
            "keep",
            SettingType::Span,
            Some("\"30d\""),
            "Age at which a closed segment is deleted, from its latest arrival",
        ),
        setting(
            "keep_bytes",
            SettingType::Size(1 << 50),
            Some("\"8GiB\""),
            "Size of the journal above which the oldest segments are deleted, uploaded or not",
        ),
        setting(
            "upload",
            SettingType::Text,
            None,
            "Upload closed segments, to read all nodes' together: `s3://BUCKET/PREFIX`, \
            `gs://BUCKET/PREFIX`, `az://CONTAINER/PREFIX` or `file:///DIRECTORY`. Credentials, region and \
            endpoint come from `AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT`, `GOOGLE_APPLICATION_CREDENTIALS`, \
            `AZURE_STORAGE_ACCOUNT_NAME` and so on. `keep` waits for the upload",
        ),
        setting(
            "upload_every",
            SettingType::Span,
            Some("\"5m\""),
            "Age at which a segment is closed for upload, from 1 s: about the upload's lag. Shorter means \
            more, smaller files",
        ),
        setting(
            "upload_keep",
            SettingType::Span,
            None,
            "Age at which a node removes its uploaded segments. Default: never; bucket rules may",
        ),
    ],
};

pub(super) const DNS: Section = Section {
    name: "dns",
    form: SectionForm::Table,
    node: true,
    doc: "DNS for authentication and DNS lists. Without resolvers nothing is looked up.",
    settings: &[
        setting(
            "resolvers",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Resolvers: addresses with an optional port, such as `127.0.0.1` or `[::1]:5353`; or `system` \
            alone, for those of `/etc/resolv.conf`",
        ),
        setting(
            "timeout",
            SettingType::Span,
            Some("\"3s\""),
            "Longest wait of one decision for DNS, at most half of `[server]`'s `timeout`. Decisions go on \
            without later answers",
        ),
        setting("ttl_min", SettingType::Span, Some("\"10s\""), "Shortest time to keep an answer"),
        setting("ttl_max", SettingType::Span, Some("\"1d\""), "Longest time to keep an answer"),
        setting("negative_max", SettingType::Span, Some("\"15m\""), "Longest time to keep an empty answer"),
        setting(
            "stale",
            SettingType::Span,
            Some("\"1h\""),
            "How much longer to use an answer while resolvers fail or are too slow",
        ),
        setting("memory", SettingType::Size(1 << 40), Some("\"16MiB\""), "Memory for answers"),
        setting(
            "queries_max",
            SettingType::Integer(1, 65_536),
            Some("512"),
            "Most queries at once; more fail",
        ),
    ],
};
