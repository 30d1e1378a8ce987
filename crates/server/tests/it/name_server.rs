//! A name server for tests: UDP and TCP on one free loopback port, with the records it is given, some of which it
//! serves badly. It counts what it is asked.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use hickory_resolver::proto::op::{Message, OpCode, ResponseCode};
use hickory_resolver::proto::rr::rdata::{A, PTR, TXT};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};

/// The answer of the name server about a name.
#[derive(Clone, Debug)]
pub(crate) enum Say {
    Txt(String),
    A(Ipv4Addr),
    Ptr(String),
    /// Nothing, ever.
    Silence,
    /// Bytes that are no message.
    Garbage,
    /// A record, but only over TCP: over UDP it is said not to fit.
    Long(String),
    /// The answer that it failed.
    Failure,
}

/// Records by name, without the final dot.
type Records = HashMap<String, Say>;

pub(crate) struct NameServer {
    pub(crate) address: SocketAddr,
    asked: Arc<AskedNames>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// The time that a wait lasts before the end is looked for.
const TICK: Duration = Duration::from_millis(20);

impl NameServer {
    pub(crate) fn start(records: &[(&str, Say)]) -> NameServer {
        NameServer::slow(records, Duration::ZERO)
    }

    /// One that takes so long over UDP for each answer, however many it is asked for.
    pub(crate) fn slow(records: &[(&str, Say)], takes: Duration) -> NameServer {
        let records: Records = records.iter().map(|(name, say)| ((*name).to_owned(), say.clone())).collect();
        // The same port has to be free for both.
        let (tcp, udp) = loop {
            let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
            if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()) {
                break (tcp, udp);
            }
        };
        let address = udp.local_addr().unwrap();
        let (asked, stop) = (Arc::<AskedNames>::default(), Arc::new(AtomicBool::new(false)));
        udp.set_read_timeout(Some(TICK)).unwrap();
        tcp.set_nonblocking(true).unwrap();
        let threads = vec![
            spawn({
                let (records, asked, stop) = (records.clone(), Arc::clone(&asked), Arc::clone(&stop));
                move || serve_udp(&udp, &records, &asked, &stop, takes)
            }),
            spawn({
                let (asked, stop) = (Arc::clone(&asked), Arc::clone(&stop));
                move || serve_tcp(&tcp, &records, &asked, &stop)
            }),
        ];
        NameServer { address, asked, stop, threads }
    }

    /// The setting that names it.
    pub(crate) fn setting(&self) -> String {
        format!("[\"{}\"]", self.address)
    }

    /// Returns the questions that it was asked, in order.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|(name, kind)| format!("{name} {kind}")).collect()
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

type AskedNames = Mutex<Vec<(String, RecordType)>>;

fn serve_udp(socket: &UdpSocket, records: &Records, asked: &AskedNames, stop: &AtomicBool, takes: Duration) {
    let mut buffer = [0; 4096];
    while !stop.load(Ordering::SeqCst) {
        let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
        let Some(answer) = answer(&buffer[..length], records, asked, false) else { continue };
        if takes.is_zero() {
            let _ = socket.send_to(&answer, from);
        } else {
            let socket = socket.try_clone().unwrap();
            spawn(move || {
                sleep(takes);
                let _ = socket.send_to(&answer, from);
            });
        }
    }
}

fn serve_tcp(listener: &TcpListener, records: &Records, asked: &AskedNames, stop: &AtomicBool) {
    while !stop.load(Ordering::SeqCst) {
        let Ok((mut stream, _)) = listener.accept() else {
            sleep(TICK);
            continue;
        };
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let mut length = [0; 2];
        while stream.read_exact(&mut length).is_ok() {
            let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
            let read = stream.read_exact(&mut question);
            let Some(answer) = read.ok().and_then(|()| answer(&question, records, asked, true)) else {
                break;
            };
            let length = u16::try_from(answer.len()).unwrap().to_be_bytes();
            if stream.write_all(&[&length, &answer[..]].concat()).is_err() {
                break;
            }
        }
    }
}

fn answer(question: &[u8], records: &Records, asked: &AskedNames, over_tcp: bool) -> Option<Vec<u8>> {
    let question = Message::from_vec(question).ok()?;
    let query = question.queries.first()?.clone();
    let name = query.name().to_ascii().trim_end_matches('.').to_lowercase();
    let kind = query.query_type();
    asked.lock().unwrap().push((name.clone(), kind));
    let mut answer = Message::response(question.metadata.id, OpCode::Query);
    answer.metadata.recursion_desired = true;
    answer.metadata.recursion_available = true;
    answer.add_query(query.clone());
    let text = |text: &str| {
        let parts: Vec<String> =
            text.as_bytes().chunks(200).map(|part| String::from_utf8_lossy(part).into_owned()).collect();
        RData::TXT(TXT::new(parts))
    };
    let data = match records.get(&name) {
        Some(Say::Silence) => return None,
        Some(Say::Garbage) => return Some(b"\x00garbage that is no message at all".to_vec()),
        Some(Say::Failure) => {
            answer.metadata.response_code = ResponseCode::ServFail;
            None
        }
        Some(Say::Long(_)) if !over_tcp => {
            answer.metadata.truncation = true;
            None
        }
        Some(Say::Long(own) | Say::Txt(own)) if kind == RecordType::TXT => Some(text(own)),
        Some(Say::A(ip)) if kind == RecordType::A => Some(RData::A(A(*ip))),
        Some(Say::Ptr(host)) if kind == RecordType::PTR => {
            Some(RData::PTR(PTR(Name::from_ascii(format!("{host}.")).unwrap())))
        }
        Some(_) => None,
        None => {
            answer.metadata.response_code = ResponseCode::NXDomain;
            None
        }
    };
    if let Some(data) = data {
        answer.add_answer(Record::from_rdata(query.name().clone(), 60, data));
    }
    Some(answer.to_vec().unwrap())
}

/// The name of an address's reverse DNS.
pub(crate) fn reverse(ip: &str) -> String {
    let IpAddr::V4(ip) = ip.parse().unwrap() else { panic!("{ip}") };
    let [a, b, c, d] = ip.octets();
    format!("{d}.{c}.{b}.{a}.in-addr.arpa")
}
