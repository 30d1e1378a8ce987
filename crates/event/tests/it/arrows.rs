//! Imports between the modules of a crate: they go one way, so that a part can be read without the rest.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{ItemMod, ItemUse, Path, UseTree};

use crate::sources::{self, Source};

/// The modules that are imported by each module of one crate, among those right below the root.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The paths that one file names, as far as they begin at the crate's root.
struct Paths<'a> {
    source: &'a Source,
    /// Modules inside of the file that the walk is in.
    inner: Vec<String>,
    found: Vec<Vec<String>>,
}

impl Paths<'_> {
    /// Adds a path that begins with `crate`, `super` or `self`, written from the root.
    fn add(&mut self, path: &[String]) {
        let mut here: Vec<String> = self.source.module.iter().chain(&self.inner).cloned().collect();
        let mut rest = path;
        match path.first().map(String::as_str) {
            Some("crate") => (here, rest) = (Vec::new(), &path[1..]),
            Some("self") => rest = &path[1..],
            Some("super") => {}
            _ => return,
        }
        while rest.first().is_some_and(|part| part == "super") {
            here.pop();
            rest = &rest[1..];
        }
        here.extend_from_slice(rest);
        self.found.push(here);
    }

    fn add_tree(&mut self, prefix: &mut Vec<String>, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.add_tree(prefix, &path.tree);
                prefix.pop();
            }
            UseTree::Name(name) => self.add_leaf(prefix, name.ident.to_string()),
            UseTree::Rename(name) => self.add_leaf(prefix, name.ident.to_string()),
            UseTree::Glob(_) => self.add(prefix),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_tree(prefix, tree);
                }
            }
        }
    }

    fn add_leaf(&mut self, prefix: &mut Vec<String>, leaf: String) {
        prefix.push(leaf);
        self.add(prefix);
        prefix.pop();
    }
}

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.add_tree(&mut Vec::new(), &item.tree);
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.inner.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.inner.pop();
    }

    fn visit_path(&mut self, path: &'ast Path) {
        let parts: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.add(&parts);
        visit::visit_path(self, path);
    }
}

/// The arrows between the modules right below a folder of a crate, or below its root.
fn arrows(sources: &[Source], krate: &str, folder: &[&str]) -> Arrows {
    let child = |path: &[String]| {
        let is_below = path.iter().zip(folder).all(|(part, folder)| part == folder);
        path.get(folder.len()).filter(|_| is_below).cloned()
    };
    let of_crate = || sources.iter().filter(|source| source.krate == krate);
    let modules: BTreeSet<String> = of_crate().filter_map(|source| child(&source.module)).collect();
    let mut arrows = Arrows::new();
    for source in of_crate() {
        let Some(from) = child(&source.module) else { continue };
        let mut paths = Paths { source, inner: Vec::new(), found: Vec::new() };
        for item in &source.items {
            paths.visit_item(item);
        }
        let to = paths.found.iter().filter_map(|path| child(path));
        let to: Vec<String> = to.filter(|to| *to != from && modules.contains(to)).collect();
        arrows.entry(from).or_default().extend(to);
    }
    arrows
}

/// The modules that can be reached from one by its arrows.
fn reached<'a>(arrows: &'a Arrows, from: &'a str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        for to in arrows.get(module).into_iter().flatten() {
            if reached.insert(to.as_str()) {
                open.push(to);
            }
        }
    }
    reached
}

/// Sets of more than one module of which each reaches all others.
fn knots(arrows: &Arrows) -> BTreeSet<BTreeSet<&str>> {
    let mut knots = BTreeSet::new();
    for module in arrows.keys() {
        let there = reached(arrows, module);
        let knot: BTreeSet<&str> =
            there.iter().copied().filter(|other| reached(arrows, other).contains(module.as_str())).collect();
        if knot.len() > 1 {
            knots.insert(knot);
        }
    }
    knots
}

/// Folders whose modules are looked at as those right below a crate's root are: what moves into a folder hides no circle.
const FOLDERS: [(&str, &str); 2] = [("server", "core"), ("server", "protocol")];

/// Modules that protocols of `server` share. Every other one in their folder is a protocol.
const SHARED: [&str; 7] =
    ["batch", "content_encoding", "grpc_transport", "input", "limit_group", "mail", "site_gate"];

#[test]
fn imports_between_modules_go_one_way() {
    let sources = sources::all();
    let crates: BTreeSet<&str> = sources.iter().map(|source| source.krate.as_str()).collect();
    let roots = crates.into_iter().map(|krate| (krate, None));
    for (krate, folder) in roots.chain(FOLDERS.map(|(krate, folder)| (krate, Some(folder)))) {
        let arrows = arrows(&sources, krate, folder.as_slice());
        assert!(folder.is_none() || arrows.len() > 3, "{krate} has no folder {folder:?}");
        let knots = knots(&arrows);
        assert!(knots.is_empty(), "modules of {krate} import each other in a circle: {knots:?}");
    }
}

#[test]
fn protocols_stand_alone_upon_the_core() {
    let sources = sources::all();
    let parts = arrows(&sources, "server", &[]);
    assert!(!parts["core"].contains("protocol"), "server's core imports protocols");
    let protocols = arrows(&sources, "server", &["protocol"]);
    for shared in SHARED {
        assert!(protocols.contains_key(shared), "there is no module protocol::{shared}");
    }
    for (module, imported) in &protocols {
        for imported in imported {
            assert!(SHARED.contains(&imported.as_str()), "protocol::{module} imports protocol::{imported}");
        }
    }
}

#[test]
fn a_circle_is_found_and_a_chain_is_none() {
    let arrow = |from: &str, to: &[&str]| (from.to_owned(), to.iter().map(|&to| to.to_owned()).collect());
    let chain: Arrows = [arrow("a", &["b"]), arrow("b", &["c"]), arrow("c", &[])].into();
    assert!(knots(&chain).is_empty());
    let circle: Arrows =
        [arrow("a", &["b"]), arrow("b", &["c"]), arrow("c", &["a"]), arrow("d", &["a"])].into();
    assert_eq!(knots(&circle), [["a", "b", "c"].into()].into());
}
