//! The suite over servers with the module `tollhouse`: what holds of cells that scripts keep holds of those in tables.

use cluster::wire::{ClusterOpenError, WireClient, WireSettings};
use redis::cmd;

use crate::proxy::{Network, Proxy};
use crate::servers::{Cluster, are_there, module, wait, with_module};
use crate::support::{WireNode, settings};

macro_rules! over_the_module {
    ($($file:ident: $($test:ident)*;)*) => {
        $(mod $file {
            $(#[test]
            fn $test() {
                super::with_module(crate::$file::$test);
            })*
        })*
    };
}

over_the_module! {
    forms:
        cells_are_those_of_stats
        a_batch_counts_once_and_none_is_left_out
        a_mark_is_left_by_one
    ;
    homes:
        a_node_conforms_over_real_servers
        random_histories_over_real_servers_agree_with_a_list_of_events
        nobody_dates_himself_out_of_a_limit_over_real_servers
    ;
    exact:
        rounds_are_decided_as_stats_would_decide
        a_round_counts_once_and_an_earlier_one_no_more
        three_nodes_let_through_as_much_as_one
        what_one_node_does_the_others_know
        lost_answers_are_asked_for_again
        a_killed_master_lets_nothing_through_twice
    ;
    faults:
        a_killed_master_loses_nothing_that_replicas_have
        a_paused_master_is_not_waited_for
        slots_move_under_load
        a_slot_whose_keys_lie_apart_is_read_key_by_key
        a_server_without_memory_is_full
        an_answer_that_is_lost_counts_once
    ;
    nodes:
        every_acknowledged_addition_counts_once
    ;
    sightings:
        scripts_count_as_sketches_do
        nodes_over_real_servers_share_what_they_have_seen
        a_kill_leaves_what_was_flushed
    ;
    transfers:
        every_cell_leaves_once
        what_is_brought_in_is_read_by_every_node
        what_is_erased_is_gone_for_every_node
    ;
}

/// The error of a node that is opened over a cluster, as soon as there is one: servers do not know at once who has come back.
fn refusal(settings: &WireSettings) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let open = || runtime.block_on(WireClient::open(settings.clone(), runtime.handle().clone()));
    let mut said = None;
    wait("a node is refused", || {
        said = open().err().filter(|error| matches!(error, ClusterOpenError::Module { .. }));
        said.is_some()
    });
    said.expect("it was refused").to_string()
}

#[test]
fn a_cluster_stays_with_what_it_began_with() {
    if !are_there() || module().is_none() {
        return;
    }
    let Some(cluster) = Cluster::single(&["--enable-module-command", "yes"]) else { return };
    let server = &cluster.servers[0];
    let opened = |node| WireNode::open(settings(cluster.addresses(), node)).wire.has_tables();
    assert!(!opened(1), "scripts are what a server without the module has");
    let path = module().unwrap().display().to_string();
    assert_eq!(server.cli(&["MODULE", "LOAD", &path]).trim(), "OK");
    assert!(!opened(2), "cells that are in hashes stay there");
    server.cli(&["FLUSHALL"]);
    assert!(opened(3));
    // A server that comes back without it.
    let url = format!("redis://{}/", server.address());
    let mut direct = redis::Client::open(url).unwrap().get_connection().unwrap();
    let names: Vec<String> = cmd("KEYS").arg("*").query(&mut direct).unwrap();
    assert_eq!(names.len(), 1, "{names:?}");
    assert_eq!(cmd("GET").arg(&names[0]).query::<String>(&mut direct).unwrap(), "3 1024");
    let Some(bare) = Cluster::single(&[]) else { return };
    bare.servers[0].cli(&["SET", &names[0], "3 1024"]);
    let said = refusal(&settings(bare.addresses(), 1));
    for part in ["by the module `tollhouse`", &bare.servers[0].address(), "has no such module. Load it there"]
    {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn a_replica_that_lost_the_module_is_named() {
    with_module(|| {
        let Some(mut cluster) = Cluster::start() else { return };
        assert!(WireNode::open(settings(cluster.addresses(), 1)).wire.has_tables());
        let masters = cluster.masters();
        let replica = (0..cluster.servers.len()).find(|at| !masters.contains(at)).expect("a replica");
        let server = &mut cluster.servers[replica];
        server.signal("KILL");
        server.forget_module();
        server.again();
        let address = server.address();
        cluster.settle();
        let said = refusal(&settings(cluster.addresses(), 1));
        assert!(said.contains(&format!("{address} has no such module")), "{said}");
        for other in cluster.servers.iter().filter(|other| other.address() != address) {
            assert!(!said.contains(&other.address()), "{said}");
        }
    });
}

/// A node that is older than the module of one server, or newer: neither is let in, and both are named.
#[test]
fn a_module_of_another_version_is_named() {
    with_module(|| {
        let Some(cluster) = Cluster::unreplicated() else { return };
        let proxy = Proxy::start(cluster.servers[1].address());
        let reach = vec![(cluster.servers[1].address(), proxy.address.to_string())];
        let through = WireSettings { reach, ..settings(cluster.addresses(), 1) };
        proxy.set(Network::Newer);
        // Nobody has agreed on tables yet: where not all servers have what a node asks for, scripts keep its statistics.
        let scripts = WireSettings { prefix: "another".into(), ..through.clone() };
        assert!(!WireNode::open(scripts).wire.has_tables());
        proxy.set(Network::Whole);
        assert!(WireNode::open(through.clone()).wire.has_tables());
        proxy.set(Network::Newer);
        let said = refusal(&through);
        let address = cluster.servers[1].address();
        let named = format!("{address} takes requests of version 2 to 3, and this node makes 1");
        assert!(said.contains(&named), "{said}");
        assert!(!said.contains(&cluster.servers[0].address()), "{said}");
        proxy.set(Network::Whole);
        assert!(WireNode::open(through).wire.has_tables());
    });
}
