//! Settings of a node: its data, and the services it asks.

use super::{Section, SectionForm, SettingType, setting};

pub(super) const NODE: Section = Section {
    name: "node",
    form: SectionForm::Table,
    node: true,
    doc: "This node.",
    settings: &[
        setting(
            "pipelines",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Files of further pipelines, relative to this file",
        ),
        setting(
            "watch",
            SettingType::Interval,
            Some("\"2s\""),
            "How often a server checks the configuration's files for changes; or `off`",
        ),
        setting(
            "versions",
            SettingType::Integer(1, 1000),
            Some("20"),
            "Versions of each pipeline that are kept for rollback",
        ),
        setting(
            "log_decisions",
            SettingType::Choice(&["off", "acted", "all"]),
            Some("\"off\""),
            "Decisions over HTTP, gRPC and Redis' protocol that the log has a line of: those with another action than `accept`, or all. Mail listeners have one of each message anyhow. See [logs.md](../operating/logs.md)",
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
            "`sync`: on disk before the answer; a length of time: a crash loses at most that much, while a flush takes at most a quarter of it; `none`: written, never waited for",
        ),
        setting(
            "memory",
            SettingType::Size(1 << 50),
            Some("\"1GiB\""),
            "Memory for statistics: cells, the directory of all keys in memory or on disk (some 15 bytes a key), and sketches. Cells that do not fit stay on disk; keys that do not fit into two thirds of it are only estimated",
        ),
        setting(
            "segment",
            SettingType::Size(1 << 30),
            Some("\"64MiB\""),
            "Size at which a segment file is closed and the next begun; only without [cluster]",
        ),
    ],
};

pub(super) const REVIEW: Section = Section {
    name: "review",
    form: SectionForm::Table,
    node: true,
    doc: "The queue of what people are to look at: decisions whose action is `review_before` or `review_after`.",
    settings: &[
        setting(
            "items",
            SettingType::Integer(0, 200_000),
            Some("20000"),
            "Most reviews that are kept, some 1 KB each; 0 for no queue. Beyond it the oldest decided one goes, or else the least exposed `review_after`; held ones stay",
        ),
        setting("claim", SettingType::Span, Some("\"10m\""), "How long a claim of a review holds"),
        setting(
            "within",
            SettingType::Span,
            Some("\"4h\""),
            "The service level: the time within which a review is to be decided",
        ),
        setting(
            "keep",
            SettingType::Span,
            Some("\"30d\""),
            "How long a review is kept after it is decided, and a `review_after` that nobody has looked at. What is held is kept until it is decided",
        ),
        setting(
            "agreement",
            SettingType::Integer(1, 9),
            Some("1"),
            "The number of different reviewers who have to say the same. Two that differ escalate the review",
        ),
        setting(
            "exposure",
            SettingType::Text,
            None,
            "Field or other fact with a number, such as the followers of a place: the larger it is, the sooner somebody should look. Unless given: the score",
        ),
        setting(
            "leads",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Reviewers who decide escalated reviews. Without any, everybody who has not voted on it",
        ),
    ],
};

pub(super) const CLUSTER: Section = Section {
    name: "cluster",
    form: SectionForm::Table,
    node: true,
    doc: "The cluster of Redis or Valkey that statistics live in, if any; without it they live in the data directory.",
    settings: &[
        setting(
            "nodes",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Some servers of the cluster, each `host:port`; they name the others. All addresses of a host count, and are looked up again while the node runs; `dnssrv+_redis._tcp.example.org` names the hosts and ports of a service (SRV records)",
        ),
        setting("user", SettingType::Text, None, "User name for the cluster"),
        setting("password", SettingType::Secret(1), None, "Password for the cluster"),
        setting("tls", SettingType::Bool, Some("false"), "Whether connections to the cluster are encrypted"),
        setting(
            "tls_ca",
            SettingType::Text,
            None,
            "File of trusted authorities in PEM; default: the system's",
        ),
        setting(
            "prefix",
            SettingType::Text,
            Some("\"tollhouse:\""),
            "Prefix of all key names in the cluster, at most 64 bytes without braces",
        ),
        setting(
            "partitions",
            SettingType::Integer(1, 1 << 14),
            Some("1024"),
            "Parts of the key space, a power of two, fixed once the cluster has keys. More make moving slots smaller, fewer make batches larger",
        ),
        setting(
            "replicas",
            SettingType::Integer(0, 16),
            Some("0"),
            "Replicas that must confirm a write. With 0, nodes send again what a failed master had not passed on",
        ),
        setting(
            "flush",
            SettingType::Span,
            Some("\"1s\""),
            "How often each partition's sums are sent to the cluster",
        ),
        setting(
            "fresh",
            SettingType::Span,
            Some("\"1s\""),
            "How long a reading is answered from memory, with what this node has added since",
        ),
        setting(
            "stale",
            SettingType::Span,
            Some("\"10s\""),
            "How long an old reading is answered while it is read again; after that decisions wait",
        ),
        setting(
            "timeout",
            SettingType::Span,
            Some("\"250ms\""),
            "How long a decision waits for the cluster. Later readings are missing, and the pipeline's `on_error` decides",
        ),
        setting(
            "retain",
            SettingType::Span,
            Some("\"30s\""),
            "How long a node keeps acknowledged batches, for a replica that takes over without them",
        ),
        setting(
            "backlog",
            SettingType::Size(1 << 50),
            Some("\"1GiB\""),
            "Bytes on the node's disk that wait for the cluster; beyond it additions are refused",
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
            "URL at which other nodes reach this one, such as `http://10.0.0.7:8377`. Unless given: the address that the server listens on, if that is one address",
        ),
        setting(
            "peer_ca",
            SettingType::Text,
            None,
            "File of the authorities, in PEM, that other nodes' certificates must lead to. Unless given: `client_ca` of `[server] tls`, or public ones without it",
        ),
        setting(
            "peer_certificate",
            SettingType::Text,
            None,
            "Certificate, in PEM, that other nodes are shown. Unless given: that of `[server] tls`",
        ),
        setting("peer_key", SettingType::Text, None, "Private key of that certificate, in PEM"),
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
            "Size at which a segment file is closed and the next begun",
        ),
        setting(
            "rotate",
            SettingType::Span,
            Some("\"1d\""),
            "Span of arrivals after which a segment file is closed and the next begun",
        ),
        setting(
            "keep",
            SettingType::Span,
            Some("\"30d\""),
            "Age at which a closed segment is deleted, counted from the latest arrival in it",
        ),
        setting(
            "keep_bytes",
            SettingType::Size(1 << 50),
            Some("\"8GiB\""),
            "Size of the whole journal beyond which its oldest segments are deleted, uploaded or not",
        ),
        setting(
            "upload",
            SettingType::Text,
            None,
            "Where closed segments are uploaded to, for all nodes to be read together: `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, `az://CONTAINER/PREFIX` or `file:///DIRECTORY`. Credentials, region and endpoint are those of the environment (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT`, `GOOGLE_APPLICATION_CREDENTIALS`, `AZURE_STORAGE_ACCOUNT_NAME` and so on). A segment does not become too old before it is uploaded",
        ),
        setting(
            "upload_every",
            SettingType::Span,
            Some("\"5m\""),
            "Age at which a segment is closed where segments are uploaded, from 1 s: how far the upload is behind, about. The shorter, the more and smaller files",
        ),
        setting(
            "upload_keep",
            SettingType::Span,
            None,
            "Age at which a node removes its segments from where they were uploaded to; without it they stay, or go by rules of the bucket",
        ),
    ],
};

pub(super) const DNS: Section = Section {
    name: "dns",
    form: SectionForm::Table,
    node: true,
    doc: "Name service, for authentication and DNS lists. Without resolvers nothing is ever looked up.",
    settings: &[
        setting(
            "resolvers",
            SettingType::List(&SettingType::Text),
            Some("[]"),
            "Resolvers to ask: an address, or an address and a port, such as `127.0.0.1` or `[::1]:5353`; or `system` alone, for those of `/etc/resolv.conf`",
        ),
        setting(
            "timeout",
            SettingType::Span,
            Some("\"3s\""),
            "Longest time that one decision waits for name service, at most half of the `timeout` of `[server]`. Decisions go on without later answers",
        ),
        setting("ttl_min", SettingType::Span, Some("\"10s\""), "Shortest time for which an answer is kept"),
        setting(
            "ttl_max",
            SettingType::Span,
            Some("\"1d\""),
            "Longest time for which an answer is kept before it is asked for again",
        ),
        setting(
            "negative_max",
            SettingType::Span,
            Some("\"15m\""),
            "Longest time for which an empty answer is kept",
        ),
        setting(
            "stale",
            SettingType::Span,
            Some("\"1h\""),
            "How much longer an answer is used while resolvers fail or are too slow",
        ),
        setting("memory", SettingType::Size(1 << 40), Some("\"16MiB\""), "Memory for answers"),
        setting(
            "queries_max",
            SettingType::Integer(1, 65_536),
            Some("512"),
            "Most queries at once; further ones fail",
        ),
    ],
};
