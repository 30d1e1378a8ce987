//! Servers join a cluster and leave it, and slots move between them: command by command as `redis-cli --cluster` does it,
//! which gives up where servers do not agree yet. Here that is waited for.

use std::collections::BTreeMap;

use redis::{Connection, cmd, pipe};

use crate::servers::{Cluster, Server, wait};

/// Slots that are on their way at once.
const TOGETHER: usize = 100;

fn connect(server: &Server) -> Connection {
    redis::Client::open(format!("redis://{}/", server.address())).unwrap().get_connection().unwrap()
}

/// The name of the master of each slot, as a server sees it.
fn owners(server: &Server) -> BTreeMap<u16, String> {
    let mut owners = BTreeMap::new();
    for line in server.cli(&["CLUSTER", "NODES"]).lines() {
        let words: Vec<&str> = line.split(' ').collect();
        for range in words.iter().skip(8).filter(|range| !range.starts_with('[')) {
            let (from, to) = range.split_once('-').unwrap_or((range, range));
            let (Ok(from), Ok(to)) = (from.parse::<u16>(), to.parse::<u16>()) else { continue };
            owners.extend((from..=to).map(|slot| (slot, words[0].to_owned())));
        }
    }
    owners
}

/// The first `count` slots of a server.
pub(crate) fn slots_of(cluster: &Cluster, at: usize, count: usize) -> Vec<u16> {
    let id = cluster.servers[at].id();
    let own = owners(&cluster.servers[at]).into_iter().filter(|(_, owner)| *owner == id);
    let slots: Vec<u16> = own.map(|(slot, _)| slot).take(count).collect();
    assert_eq!(slots.len(), count);
    slots
}

/// Moves slots from one master to another, with their keys, and waits until all servers know.
pub(crate) fn move_slots(cluster: &Cluster, from: usize, to: usize, slots: &[u16]) {
    let [source_id, target_id] = [from, to].map(|at| cluster.servers[at].id());
    let [mut source, mut target] = [from, to].map(|at| connect(&cluster.servers[at]));
    let others = cluster.masters().into_iter().filter(|at| ![from, to].contains(at));
    let mut others: Vec<Connection> = others.map(|at| connect(&cluster.servers[at])).collect();
    let set = |server: &mut Connection, slots: &[u16], state: &str, id: &str| {
        let mut all = pipe();
        slots.iter().for_each(|slot| {
            all.cmd("CLUSTER").arg("SETSLOT").arg(slot).arg(state).arg(id).ignore();
        });
        wait("a server agrees to what becomes of slots", || match all.query::<()>(server) {
            Ok(()) => true,
            // Who has lost the last slot may have heard of it from others, and is a replica already.
            Err(error) => error.to_string().contains("only with masters"),
        });
    };
    for slots in slots.chunks(TOGETHER) {
        set(&mut target, slots, "IMPORTING", &source_id);
        set(&mut source, slots, "MIGRATING", &target_id);
        wait("keys have moved", || {
            let mut ask = pipe();
            slots.iter().for_each(|slot| {
                ask.cmd("CLUSTER").arg("GETKEYSINSLOT").arg(slot).arg(1000);
            });
            let keys: Vec<Vec<Vec<u8>>> = ask.query(&mut source).unwrap();
            for keys in keys.iter().filter(|keys| !keys.is_empty()) {
                let mut migrate = cmd("MIGRATE");
                migrate.arg("127.0.0.1").arg(cluster.servers[to].port).arg("").arg(0).arg(5000);
                // What fails stays where it is, and is tried again.
                let _ = migrate.arg("KEYS").arg(keys).query::<()>(&mut source);
            }
            keys.iter().all(Vec::is_empty)
        });
        set(&mut target, slots, "NODE", &target_id);
        set(&mut source, slots, "NODE", &target_id);
        others.iter_mut().for_each(|other| set(other, slots, "NODE", &target_id));
    }
    wait("all servers know where slots are", || {
        cluster.servers.iter().all(|server| {
            let owners = owners(server);
            slots.iter().all(|slot| owners.get(slot) == Some(&target_id))
        })
    });
}

/// Starts a master without slots, and a replica of it; answers the place of the master, which the replica follows.
pub(crate) fn join(cluster: &mut Cluster) -> usize {
    let [master, replica] = [cluster.add(), cluster.add()];
    let known = &cluster.servers[0];
    for server in [master, replica].map(|at| &cluster.servers[at]) {
        let [port, bus] = [server.port, server.bus].map(|port| port.to_string());
        assert_eq!(known.cli(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]).trim(), "OK");
    }
    wait("all servers know each other", || {
        cluster.servers.iter().all(|server| {
            let nodes = server.cli(&["CLUSTER", "NODES"]);
            nodes.lines().count() == cluster.servers.len() && !nodes.contains("handshake")
        })
    });
    let id = cluster.servers[master].id();
    wait("a server becomes a replica", || {
        cluster.servers[replica].cli(&["CLUSTER", "REPLICATE", &id]).trim() == "OK"
    });
    cluster.settle();
    master
}

/// Has a master without slots and its replica leave, which were the last to join.
pub(crate) fn leave(cluster: &mut Cluster, master: usize) {
    let leaving = cluster.servers.split_off(master);
    for id in leaving.iter().map(Server::id) {
        for server in &cluster.servers {
            wait("a server is forgotten", || {
                let said = server.cli(&["CLUSTER", "FORGET", &id]);
                said.trim() == "OK" || said.contains("Unknown node")
            });
        }
    }
    drop(leaving);
    cluster.settle();
}
