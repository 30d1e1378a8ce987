//! The resolvers that the configuration names, asked by hickory: UDP with random ports and numbers, TCP where an
//! answer was truncated, repetition and the next server where none came.

use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use hickory_resolver::system_conf::read_system_conf;
use plan::DnsPlan;

use super::{DnsAnswer, DnsRecord, DnsRecordType, DnsReply, DnsUpstream};

/// Most records of one answer that are looked at.
const RECORDS_MAX: usize = 100;
/// Questions under way at once on one connection.
const ACTIVE_MAX: usize = 1024;

/// The resolvers.
#[derive(Clone)]
pub(crate) struct HickoryResolver(TokioResolver);

impl HickoryResolver {
    /// Asks nobody yet. `None` if the system's configuration names no resolver that can be read.
    pub(crate) fn new(plan: &DnsPlan) -> Option<HickoryResolver> {
        let (config, system) = if plan.system {
            let read = read_system_conf();
            let (config, options) = read
                .inspect_err(|error| tracing::error!(%error, "the system's resolvers cannot be read"))
                .ok()?;
            (config, Some(options))
        } else {
            let servers = plan.resolvers.iter().map(|address| {
                let mut connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
                connections.iter_mut().for_each(|connection| connection.port = address.port());
                NameServerConfig::new(address.ip(), true, connections)
            });
            let servers = servers.collect();
            (ResolverConfig::from_parts(None, Vec::new(), servers), None)
        };
        let mut options = ResolverOpts::default();
        // Two tries of each server fit into the time of a decision.
        options.timeout =
            Duration::from_micros(plan.timeout.0.unsigned_abs() / 2).max(Duration::from_millis(10));
        options.attempts = 1;
        options.edns0 = true;
        options.cache_size = 0;
        options.use_hosts_file = ResolveHosts::Never;
        options.max_active_requests = ACTIVE_MAX;
        if let Some(system) = system {
            options.timeout = options.timeout.min(system.timeout);
        }
        let builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        let built = builder.with_options(options).build();
        built
            .inspect_err(|error| tracing::error!(%error, "there is no name service"))
            .ok()
            .map(HickoryResolver)
    }
}

impl DnsUpstream for HickoryResolver {
    fn query(&self, name: Box<str>, kind: DnsRecordType) -> BoxFuture<'static, DnsReply> {
        let resolver = self.0.clone();
        Box::pin(async move {
            let wanted = match kind {
                DnsRecordType::A => RecordType::A,
                DnsRecordType::Aaaa => RecordType::AAAA,
                DnsRecordType::Mx => RecordType::MX,
                DnsRecordType::Ptr => RecordType::PTR,
                DnsRecordType::Txt => RecordType::TXT,
            };
            let Ok(mut name) = Name::from_ascii(&name) else {
                return DnsReply { answer: DnsAnswer::NoName, ttl: None };
            };
            // Search domains are for people.
            name.set_fqdn(true);
            match resolver.lookup(name, wanted).await {
                Ok(lookup) => found(&lookup),
                Err(NetError::Dns(DnsError::NoRecordsFound(none))) => {
                    let answer = match none.response_code {
                        ResponseCode::NoError => DnsAnswer::Nothing,
                        ResponseCode::NXDomain => DnsAnswer::NoName,
                        _ => DnsAnswer::Failed,
                    };
                    DnsReply { answer, ttl: none.negative_ttl.map(|ttl| Duration::from_secs(ttl.into())) }
                }
                Err(error) => {
                    tracing::debug!(%error, "a name could not be looked up");
                    DnsReply { answer: DnsAnswer::Failed, ttl: None }
                }
            }
        })
    }
}

fn found(lookup: &Lookup) -> DnsReply {
    let records = lookup.answers().iter().filter_map(|record| {
        let text = |name: &Name| {
            let name = name.to_ascii().to_ascii_lowercase();
            name.strip_suffix('.').unwrap_or(&name).into()
        };
        Some(match &record.data {
            RData::A(ip) => DnsRecord::A(ip.0),
            RData::AAAA(ip) => DnsRecord::Aaaa(ip.0),
            RData::MX(mx) => DnsRecord::Mx(mx.preference, text(&mx.exchange)),
            RData::PTR(name) => DnsRecord::Ptr(text(&name.0)),
            RData::TXT(txt) => {
                DnsRecord::Txt(txt.txt_data.iter().flat_map(|part| part.iter().copied()).collect())
            }
            _ => return None,
        })
    });
    let records: Vec<DnsRecord> = records.take(RECORDS_MAX).collect();
    let answer = if records.is_empty() { DnsAnswer::Nothing } else { DnsAnswer::Found(records.into()) };
    DnsReply { answer, ttl: Some(lookup.valid_until().saturating_duration_since(Instant::now())) }
}
