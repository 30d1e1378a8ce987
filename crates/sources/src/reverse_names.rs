//! Names of addresses, asked of a resolver over UDP. Whoever has an address can name it as he likes, so a name counts only if
//! it leads back to the address.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use logs::crowdsec::enrichment::ReverseNames;

/// The file that names the machine's resolvers.
const SYSTEM: &str = "/etc/resolv.conf";
/// The time that is waited for an answer.
const WAIT: Duration = Duration::from_millis(500);
/// Failures in a row after which only each sixty-fourth question is asked: whoever reads a log does not wait for names.
const FAILURES_MAX: u32 = 4;
const ASK_AGAIN: u32 = 64;
/// Names of an address that are asked whether they lead back.
const NAMES_MAX: usize = 4;
/// Records of an answer that are read, and bytes of it.
const RECORDS_MAX: usize = 64;
const ANSWER_BYTES_MAX: usize = 4096;
/// Packets that are read for one question: others than the answer are passed over.
const PACKETS_MAX: usize = 8;

const TYPE_A: u16 = 1;
const TYPE_PTR: u16 = 12;
const TYPE_AAAA: u16 = 28;

/// A resolver.
#[derive(Debug)]
pub struct DnsNames {
    resolver: SocketAddr,
    failures: AtomicU32,
}

/// The answer of a resolver: names and addresses of its records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolverAnswer {
    /// Names, with a dot behind them.
    pub names: Vec<String>,
    /// Addresses.
    pub addresses: Vec<IpAddr>,
}

impl DnsNames {
    /// A resolver at an address.
    pub fn new(resolver: SocketAddr) -> DnsNames {
        DnsNames { resolver, failures: AtomicU32::new(0) }
    }

    /// The first resolver of the machine; none if it names none.
    pub fn of_system() -> Option<DnsNames> {
        first_resolver(&std::fs::read_to_string(SYSTEM).ok()?).map(DnsNames::new)
    }

    fn confirmed(&self, ip: IpAddr) -> io::Result<Option<String>> {
        let ip = ip.to_canonical();
        let names = self.ask(&reverse_name(ip), TYPE_PTR)?.names;
        let kind = if ip.is_ipv4() { TYPE_A } else { TYPE_AAAA };
        for name in names.into_iter().take(NAMES_MAX) {
            if self.ask(&name, kind)?.addresses.contains(&ip) {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    fn ask(&self, name: &str, kind: u16) -> io::Result<ResolverAnswer> {
        let own: SocketAddr = match self.resolver {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(own)?;
        socket.connect(self.resolver)?;
        socket.set_read_timeout(Some(WAIT))?;
        // A number and a port that nobody can guess who does not see the question.
        let id = RandomState::new().hash_one(name) as u16;
        let question = question(id, name, kind).ok_or(ErrorKind::InvalidInput)?;
        socket.send(&question)?;
        let mut bytes = [0; ANSWER_BYTES_MAX];
        for _ in 0..PACKETS_MAX {
            let length = socket.recv(&mut bytes)?;
            if let Some(answer) = ResolverAnswer::read(&bytes[..length], &question) {
                return Ok(answer);
            }
        }
        Err(ErrorKind::InvalidData.into())
    }
}

impl ReverseNames for DnsNames {
    fn name(&self, ip: IpAddr) -> Option<String> {
        let failures = self.failures.load(Ordering::Relaxed);
        if failures >= FAILURES_MAX && !failures.is_multiple_of(ASK_AGAIN) {
            self.failures.store(failures.wrapping_add(1), Ordering::Relaxed);
            return None;
        }
        let found = self.confirmed(ip);
        let failures = if found.is_ok() { 0 } else { failures.wrapping_add(1) };
        self.failures.store(failures, Ordering::Relaxed);
        found.ok().flatten()
    }
}

fn first_resolver(text: &str) -> Option<SocketAddr> {
    let mut addresses = text.lines().filter_map(|line| line.trim().strip_prefix("nameserver"));
    addresses.find_map(|address| Some(SocketAddr::new(address.trim().parse().ok()?, 53)))
}

/// The name that an address has in the tree of addresses.
fn reverse_name(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa.")
        }
        IpAddr::V6(ip) => {
            let digits = format!("{:032x}", ip.to_bits());
            let digits: String = digits.chars().rev().flat_map(|digit| [digit, '.']).collect();
            format!("{digits}ip6.arpa.")
        }
    }
}

/// A question; none if the name is none.
fn question(id: u16, name: &str, kind: u16) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(name.len() + 18);
    bytes.extend(id.to_be_bytes());
    // Recursion is desired; one question.
    bytes.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.trim_end_matches('.').split('.') {
        let length = u8::try_from(label.len()).ok().filter(|length| (1..64).contains(length))?;
        bytes.push(length);
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes.extend(kind.to_be_bytes());
    bytes.extend([0, 1]);
    (name.len() < 255).then_some(bytes)
}

/// A reader of a message.
struct MessageReader<'m> {
    bytes: &'m [u8],
    at: usize,
}

impl MessageReader<'_> {
    fn number(&mut self) -> Option<u16> {
        let bytes = self.bytes.get(self.at..self.at + 2)?;
        self.at += 2;
        Some(u16::from_be_bytes(bytes.try_into().ok()?))
    }

    /// Reads a name. Pointers only lead back, so that there is an end.
    fn name(&mut self) -> Option<String> {
        let mut name = String::new();
        let mut at = self.at;
        let mut before = at;
        let mut is_behind = false;
        loop {
            let length = usize::from(*self.bytes.get(at)?);
            match length {
                0 => {
                    self.at = if is_behind { self.at } else { at + 1 };
                    return Some(name);
                }
                1..64 => {
                    let label = self.bytes.get(at + 1..at + 1 + length)?;
                    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
                    if !label.iter().all(is_plain) || name.len() + length > 254 {
                        return None;
                    }
                    name.extend(label.iter().map(|byte| char::from(byte.to_ascii_lowercase())));
                    name.push('.');
                    at += 1 + length;
                }
                192.. => {
                    let place = (length & 63) << 8 | usize::from(*self.bytes.get(at + 1)?);
                    if place >= before {
                        return None;
                    }
                    if !is_behind {
                        self.at = at + 2;
                        is_behind = true;
                    }
                    (at, before) = (place, place);
                }
                _ => return None,
            }
        }
    }
}

impl ResolverAnswer {
    /// Reads the answer to a question; none if it is that of another, or none at all. A name that does not exist has no records.
    pub fn read(bytes: &[u8], question: &[u8]) -> Option<ResolverAnswer> {
        let rest = question.get(12..)?;
        let flags = *bytes.get(2)?;
        let code = *bytes.get(3)? & 15;
        let is_answer = flags & 128 != 0 && bytes.get(..2)? == &question[..2] && bytes.get(4..6)? == [0, 1];
        let asked = bytes.get(12..12 + rest.len())?;
        if !is_answer || !asked.eq_ignore_ascii_case(rest) || !matches!(code, 0 | 3) {
            return None;
        }
        let mut reader = MessageReader { bytes, at: 6 };
        let count = usize::from(reader.number()?);
        reader.at = 12 + rest.len();
        let mut answer = ResolverAnswer::default();
        for _ in 0..count.min(RECORDS_MAX) {
            reader.name()?;
            let kind = reader.number()?;
            reader.at += 6;
            let length = usize::from(reader.number()?);
            let data = bytes.get(reader.at..reader.at + length)?;
            match kind {
                TYPE_A => answer.addresses.push(<[u8; 4]>::try_from(data).ok()?.into()),
                TYPE_AAAA => answer.addresses.push(<[u8; 16]>::try_from(data).ok()?.into()),
                TYPE_PTR => {
                    let mut name = MessageReader { bytes, at: reader.at };
                    // A name with odd letters is no name, and others may follow.
                    answer.names.extend(name.name().filter(|name| !name.is_empty()));
                }
                _ => {}
            }
            reader.at += length;
        }
        Some(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record under the question's name.
    fn record(kind: u16, data: &[u8]) -> Vec<u8> {
        let length = u16::try_from(data.len()).unwrap().to_be_bytes();
        [&[192, 12][..], &kind.to_be_bytes(), &[0, 1, 0, 0, 0, 60], &length, data].concat()
    }

    fn answer(question: &[u8], code: u8, records: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = question.to_vec();
        bytes[2] |= 128;
        bytes[3] = code;
        bytes[7] = u8::try_from(records.len()).unwrap();
        bytes.extend(records.concat());
        bytes
    }

    fn name(text: &str) -> Vec<u8> {
        let labels = text.split('.').flat_map(|label| {
            let mut bytes = vec![u8::try_from(label.len()).unwrap()];
            bytes.extend(label.as_bytes());
            bytes
        });
        labels.chain([0]).collect()
    }

    #[test]
    fn answers_are_read_and_others_are_not() {
        let asked = question(7, "1.2.0.192.in-addr.arpa.", TYPE_PTR).unwrap();
        let good = answer(&asked, 0, &[record(5, b"x"), record(TYPE_PTR, &name("A.example"))]);
        let found = ResolverAnswer::read(&good, &asked).unwrap();
        assert_eq!(found.names, ["a.example."]);
        let pointed = answer(&asked, 0, &[record(TYPE_PTR, &[1, b'b', 192, 12])]);
        assert_eq!(ResolverAnswer::read(&pointed, &asked).unwrap().names, ["b.1.2.0.192.in-addr.arpa."]);
        assert_eq!(ResolverAnswer::read(&answer(&asked, 3, &[]), &asked), Some(ResolverAnswer::default()));
        let odd = answer(&asked, 0, &[record(TYPE_PTR, &name("a b.example"))]);
        assert_eq!(ResolverAnswer::read(&odd, &asked), Some(ResolverAnswer::default()));
        let mut circle = answer(&asked, 0, &[record(TYPE_PTR, &[192, 0])]);
        let place = u8::try_from(circle.len() - 2).unwrap();
        *circle.last_mut().unwrap() = place;
        assert_eq!(ResolverAnswer::read(&circle, &asked), Some(ResolverAnswer::default()));
        let mut other = good.clone();
        other[0] = 9;
        let refused = answer(&asked, 5, &[]);
        for wrong in [&other[..], &refused, &asked, &good[..good.len() - 3], &[]] {
            assert_eq!(ResolverAnswer::read(wrong, &asked), None, "{wrong:?}");
        }
    }

    #[test]
    fn addresses_have_names_in_their_trees() {
        assert_eq!(reverse_name("192.0.2.7".parse().unwrap()), "7.2.0.192.in-addr.arpa.");
        let name = reverse_name("2001:db8::1".parse().unwrap());
        assert!(name.starts_with("1.0.0.0.") && name.ends_with("8.b.d.0.1.0.0.2.ip6.arpa."), "{name}");
        let resolver = first_resolver("# none\nsearch a\nnameserver fe80::1%eth0\nnameserver 192.0.2.53\n");
        assert_eq!(resolver, Some("192.0.2.53:53".parse().unwrap()));
    }

    #[test]
    fn a_name_counts_if_it_leads_back() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let names = DnsNames::new(socket.local_addr().unwrap());
        let resolver = std::thread::spawn(move || {
            let mut bytes = [0; 512];
            // Two questions about each of two addresses.
            for _ in 0..4 {
                let (length, from) = socket.recv_from(&mut bytes).unwrap();
                let asked = &bytes[..length];
                let kind = u16::from_be_bytes([asked[length - 4], asked[length - 3]]);
                let record = match kind {
                    TYPE_PTR => record(TYPE_PTR, &name("crawl.example")),
                    _ => record(TYPE_A, &[192, 0, 2, 1]),
                };
                socket.send_to(&answer(asked, 0, &[record]), from).unwrap();
            }
        });
        assert_eq!(names.name("192.0.2.1".parse().unwrap()).as_deref(), Some("crawl.example."));
        assert_eq!(names.name("192.0.2.2".parse().unwrap()), None);
        resolver.join().unwrap();
    }

    #[test]
    fn a_resolver_that_fails_is_hardly_asked() {
        // Nobody listens there any more: each question fails at once.
        let gone = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let names = DnsNames::new(gone);
        for asked in 1..=FAILURES_MAX {
            assert_eq!(names.name("192.0.2.1".parse().unwrap()), None);
            assert_eq!(names.failures.load(Ordering::Relaxed), asked);
        }
    }
}
