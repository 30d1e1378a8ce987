//! Servers behind the names of the settings: all addresses of a host, which a headless service has one for each server of, and
//! the hosts and ports of a service (RFC 2782). They are looked up again and again, as servers come and go under a name.

use std::net::SocketAddr;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::proto::rr::{Name, RData};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use super::settings::WireSettings;
use super::topology::ServerAddress;

/// The beginning of settings that are names of services.
pub(super) const SERVICE_PREFIX: &str = "dnssrv+";
/// The time that name service may take for one name.
const LOOKUP_WITHIN: Duration = Duration::from_secs(2);
/// Most servers behind a name.
const SERVERS_MAX: usize = 256;

/// The servers that are asked first, as name service knew them last.
#[derive(Debug, Default)]
pub(super) struct SeedServers {
    known: Mutex<KnownSeeds>,
}

#[derive(Debug, Default)]
struct KnownSeeds {
    servers: Vec<ServerAddress>,
    looked_up: Option<Instant>,
}

/// Returns what is wrong with a setting that is to name servers, if something is.
pub(super) fn fault(node: &str) -> Option<String> {
    match node.strip_prefix(SERVICE_PREFIX) {
        Some(name) if Name::from_ascii(name).is_ok_and(|name| name.num_labels() > 1) => None,
        Some(_) => {
            Some(format!("`{node}` is no service: expected `{SERVICE_PREFIX}_redis._tcp.example.org`"))
        }
        None if ServerAddress::parse(node).is_some() => None,
        None => Some(format!("`{node}` is no server: expected `host:port`")),
    }
}

impl SeedServers {
    /// The servers as they were last found.
    pub(super) fn known(&self) -> Vec<ServerAddress> {
        self.known.lock().servers.clone()
    }

    /// The servers, looked up again if that is due. A name that cannot be looked up keeps what was found of it before.
    pub(super) async fn current(&self, settings: &WireSettings) -> Vec<ServerAddress> {
        let is_due = {
            let known = self.known.lock();
            let is_old = |at: Instant| at.elapsed() >= settings.refresh_every;
            known.servers.is_empty() || known.looked_up.is_none_or(is_old)
        };
        if is_due {
            let mut found = Vec::new();
            let mut is_whole = true;
            for node in &settings.nodes {
                match timeout(LOOKUP_WITHIN, servers(node, settings.tls.is_some())).await {
                    Ok(Ok(some)) => found.extend(some),
                    Ok(Err(why)) => {
                        is_whole = false;
                        tracing::warn!(node, %why, "servers of the cluster cannot be looked up");
                    }
                    Err(_) => {
                        is_whole = false;
                        tracing::warn!(node, "name service does not answer");
                    }
                }
            }
            let mut known = self.known.lock();
            if !is_whole {
                found.append(&mut known.servers);
            }
            if found.is_empty() {
                // Whoever connects says why there is none.
                found.extend(settings.nodes.iter().filter_map(|node| ServerAddress::parse(node)));
            }
            found.sort_unstable();
            found.dedup();
            found.truncate(SERVERS_MAX);
            *known = KnownSeeds { servers: found, looked_up: Some(Instant::now()) };
        }
        self.known()
    }
}

/// The servers that a setting names. Where connections are encrypted a host stays a name, which its certificate has.
async fn servers(node: &str, is_encrypted: bool) -> Result<Vec<ServerAddress>, String> {
    let hosts = match node.strip_prefix(SERVICE_PREFIX) {
        Some(name) => {
            let resolver = TokioResolver::builder_tokio().and_then(|builder| builder.build());
            services(&resolver.map_err(|error| error.to_string())?, name).await?
        }
        None => ServerAddress::parse(node).into_iter().collect(),
    };
    if is_encrypted {
        return Ok(hosts);
    }
    let mut found = Vec::new();
    let mut failed = None;
    for host in hosts {
        match tokio::net::lookup_host((host.host.as_str(), host.port)).await {
            Ok(addresses) => found.extend(addresses.take(SERVERS_MAX).map(server)),
            Err(error) => failed = Some(format!("{}: {error}", host.host)),
        }
    }
    match failed {
        Some(why) if found.is_empty() => Err(why),
        _ => Ok(found),
    }
}

fn server(address: SocketAddr) -> ServerAddress {
    ServerAddress { host: address.ip().to_canonical().to_string(), port: address.port() }
}

/// The hosts and ports of a service, those with the smallest priority first.
async fn services(resolver: &TokioResolver, name: &str) -> Result<Vec<ServerAddress>, String> {
    let lookup = resolver.srv_lookup(name).await.map_err(|error| error.to_string())?;
    let records = lookup.answers().iter().filter_map(|record| match &record.data {
        RData::SRV(service) => Some(service),
        _ => None,
    });
    let mut records: Vec<_> = records.take(SERVERS_MAX).collect();
    records.sort_by_key(|service| service.priority);
    let found = records.into_iter().filter_map(|service| {
        let host = service.target.to_ascii();
        let host = host.strip_suffix('.').unwrap_or(&host).to_owned();
        // The root as a target says that there is no such service.
        (!host.is_empty()).then_some(ServerAddress { host, port: service.port })
    });
    Ok(found.collect())
}

#[cfg(test)]
mod tests {
    use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
    use hickory_resolver::net::runtime::TokioRuntimeProvider;
    use hickory_resolver::proto::op::{Message, OpCode};
    use hickory_resolver::proto::rr::Record;
    use hickory_resolver::proto::rr::rdata::SRV;
    use tokio::net::UdpSocket;

    use super::*;

    #[test]
    fn settings_name_hosts_and_services() {
        let check = |node: &str, is_fine: bool| assert_eq!(fault(node).is_none(), is_fine, "{node}");
        check("redis-headless:6379", true);
        check("[::1]:1", true);
        check("dnssrv+_redis._tcp.redis.default.svc.cluster.local", true);
        for wrong in ["redis", "dnssrv+", "dnssrv+.", "dnssrv+redis", "redis:port"] {
            check(wrong, false);
        }
    }

    #[tokio::test]
    async fn all_addresses_of_a_host_are_servers() {
        let found = servers("localhost:7001", false).await.unwrap();
        assert!(!found.is_empty());
        for server in &found {
            assert!(["127.0.0.1", "::1"].contains(&server.host.as_str()) && server.port == 7001, "{server}");
        }
        let named = servers("localhost:7001", true).await.unwrap();
        assert_eq!(named, [ServerAddress::parse("localhost:7001").unwrap()]);
        assert!(servers("nothing.invalid:1", false).await.is_err());
    }

    #[tokio::test]
    async fn what_cannot_be_looked_up_keeps_what_was_known() {
        let settings = |nodes: &[&str]| WireSettings {
            refresh_every: Duration::ZERO,
            ..WireSettings::new(nodes.iter().map(|&node| node.to_owned()).collect(), [0; 16])
        };
        let seeds = SeedServers::default();
        let first = seeds.current(&settings(&["127.0.0.1:1", "127.0.0.1:1", "127.0.0.2:2"])).await;
        assert_eq!(first.len(), 2);
        assert_eq!(seeds.current(&settings(&["nothing.invalid:1"])).await, first);
        let next = seeds.current(&settings(&["127.0.0.3:3"])).await;
        assert_eq!(next, [ServerAddress::parse("127.0.0.3:3").unwrap()]);
    }

    #[tokio::test]
    async fn services_have_hosts_and_ports() {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let answers = async {
            let mut buffer = [0; 4096];
            for _ in 0..100 {
                let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
                let question = Message::from_vec(&buffer[..length]).unwrap();
                let query = question.queries.first().unwrap().clone();
                let mut answer = Message::response(question.metadata.id, OpCode::Query);
                answer.add_query(query.clone());
                for (priority, port, target) in [(20, 2, "b.example."), (10, 1, "a.example."), (0, 0, ".")] {
                    let service = SRV::new(priority, 0, port, Name::from_ascii(target).unwrap());
                    answer.add_answer(Record::from_rdata(query.name().clone(), 60, RData::SRV(service)));
                }
                socket.send_to(&answer.to_vec().unwrap(), from).await.unwrap();
            }
        };
        let mut connection = ConnectionConfig::udp();
        connection.port = address.port();
        let server = NameServerConfig::new(address.ip(), true, vec![connection]);
        let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
        let resolver = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        let resolver = resolver.build().unwrap();
        let found = tokio::select! {
            found = services(&resolver, "_redis._tcp.example.") => found.unwrap(),
            () = answers => unreachable!(),
        };
        let expected = ["a.example:1", "b.example:2"].map(|server| ServerAddress::parse(server).unwrap());
        assert_eq!(found, expected);
    }
}
