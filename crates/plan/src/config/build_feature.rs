//! Parts of the program that a build can leave out, and the settings that need them. The configuration is read the same by
//! every build: one that lacks a part says so where the setting stands.

use std::fmt;

use super::document::Document;
use super::problem::{ConfigOrigin, ConfigProblems};
use super::view::ConfigView;

/// A part of the program that a build can leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildFeature {
    /// Batches in columns.
    Arrow,
    /// Statistics in a cluster.
    Cluster,
    /// Listeners over gRPC.
    Grpc,
    /// Topics of Kafka that are followed.
    Kafka,
    /// Lookups about messages: SPF, DKIM, DMARC, ARC and DNS lists.
    MailAuth,
    /// Segments of the journal in object storage.
    ObjectStore,
}

impl BuildFeature {
    /// All of them, by name.
    pub const ALL: [BuildFeature; 6] = [
        BuildFeature::Arrow,
        BuildFeature::Cluster,
        BuildFeature::Grpc,
        BuildFeature::Kafka,
        BuildFeature::MailAuth,
        BuildFeature::ObjectStore,
    ];

    /// Returns the name of the feature in Cargo.
    pub fn name(self) -> &'static str {
        match self {
            BuildFeature::Arrow => "arrow",
            BuildFeature::Cluster => "cluster",
            BuildFeature::Grpc => "grpc",
            BuildFeature::Kafka => "kafka",
            BuildFeature::MailAuth => "mail-auth",
            BuildFeature::ObjectStore => "object-store",
        }
    }

    /// Returns where a main file asks for this part.
    fn origins(self, main: &Document) -> Vec<&ConfigOrigin> {
        match self {
            BuildFeature::Arrow => Vec::new(),
            BuildFeature::Kafka => {
                let asking = main.list("sink").into_iter().filter(|view| view.table("kafka").is_some());
                asking.map(|view| view.origin("kafka")).collect()
            }
            BuildFeature::Cluster => {
                let cluster = main.section("cluster").filter(ConfigView::is_written);
                cluster.map(|view| view.first_origin()).into_iter().collect()
            }
            BuildFeature::Grpc => {
                let listeners = main.list("listener").into_iter();
                let asking = listeners.filter(|view| matches!(view.str("protocol"), Some("envoy" | "grpc")));
                let collector = main.section("telemetry").filter(|view| view.str("protocol") == Some("grpc"));
                asking.chain(collector).map(|view| view.origin("protocol")).collect()
            }
            BuildFeature::MailAuth => {
                let dns = main.section("dns").filter(|view| !view.strings("resolvers").is_empty());
                dns.map(|view| view.origin("resolvers")).into_iter().collect()
            }
            BuildFeature::ObjectStore => {
                let journal = main.section("journal").filter(|view| view.str("upload").is_some());
                journal.map(|view| view.origin("upload")).into_iter().collect()
            }
        }
    }
}

/// A part that is asked for, and that the program was built without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingFeature(pub BuildFeature);

impl MissingFeature {
    /// Returns what to do about it.
    pub fn help(self) -> String {
        format!("build it with `--features {}`", self.0.name())
    }

    /// Refuses all settings of a main file that need the part.
    pub(crate) fn refuse(self, main: &Document, problems: &mut ConfigProblems) {
        for origin in self.0.origins(main) {
            problems.add(origin, self.to_string(), Some(self.help()));
        }
    }
}

impl fmt::Display for MissingFeature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this tollhouse was built without the feature `{}`", self.0.name())
    }
}

impl std::error::Error for MissingFeature {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Overrides, Plan};

    #[test]
    fn settings_of_missing_parts_are_refused_where_they_stand() {
        let check = |settings: &str, expected: Option<(BuildFeature, usize)>| {
            let text = format!("preset = \"mail\"\n{settings}\n");
            let compile = |missing| {
                let overrides = Overrides { missing, ..Overrides::default() };
                Plan::compile(&Config::from_text("t.toml", &text, &overrides))
            };
            assert!(compile(&[]).is_ok(), "{settings}");
            let told =
                compile(&BuildFeature::ALL).err().map(|problems| problems.to_string()).unwrap_or_default();
            let Some((feature, line)) = expected else {
                assert_eq!(told, "", "{settings}");
                return;
            };
            let name = feature.name();
            let what = format!("this tollhouse was built without the feature `{name}`");
            for part in [what, format!("t.toml:{line}:"), format!("build it with `--features {name}`")] {
                assert!(told.contains(&part), "{settings}\n{told}\nlacks {part}");
            }
        };
        check("[ledger]\nmemory = \"64MiB\"", None);
        check("[cluster]\nnodes = [\"a:1\"]", Some((BuildFeature::Cluster, 3)));
        let listener =
            |protocol| format!("[[listener]]\nname = \"l\"\nprotocol = \"{protocol}\"\nlisten = \"[::1]:0\"");
        check(&listener("milter"), None);
        check(&listener("envoy"), Some((BuildFeature::Grpc, 4)));
        check(&listener("grpc"), Some((BuildFeature::Grpc, 4)));
        let collector =
            |protocol| format!("[telemetry]\nendpoint = \"http://[::1]:1\"\nprotocol = \"{protocol}\"");
        check(&collector("http"), None);
        check(&collector("grpc"), Some((BuildFeature::Grpc, 4)));
        check(
            "[[sink]]\nname = \"s\"\nkafka = { brokers = [\"a\"], topic = \"t\" }",
            Some((BuildFeature::Kafka, 4)),
        );
        check("[[sink]]\nname = \"s\"\nnats = { servers = [\"nats://a\"], subject = \"t\" }", None);
        check("[dns]\ntimeout = \"1s\"", None);
        check("[dns]\nresolvers = [\"127.0.0.1\"]", Some((BuildFeature::MailAuth, 3)));
        check("[journal]\nupload_every = \"1m\"", None);
        check("[journal]\nupload = \"file:///srv/decisions\"", Some((BuildFeature::ObjectStore, 3)));
    }
}
