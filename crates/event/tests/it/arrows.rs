//! Imports between the modules of a crate: they go one way, so that a part can be read without the rest.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{Item, ItemMod, ItemUse, Macro, Path, UseTree};

use crate::sources::{self, Source};

/// A path of modules, or of something in one.
type Names = Vec<String>;

/// The modules that are imported by each module of a folder, among those of the folder, with the lines that do so.
type Arrows = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// The paths that a line with `use` names, each with the name that it gives; `*` for all names of a module.
fn imports(tree: &UseTree, before: &[String]) -> Vec<(Names, String)> {
    match tree {
        UseTree::Path(path) => imports(&path.tree, &below(before, &path.ident)),
        UseTree::Group(group) => group.items.iter().flat_map(|tree| imports(tree, before)).collect(),
        UseTree::Glob(_) => vec![(before.to_vec(), "*".to_owned())],
        UseTree::Name(name) if name.ident == "self" => {
            vec![(before.to_vec(), before.last().cloned().unwrap_or_default())]
        }
        UseTree::Rename(name) if name.ident == "self" => vec![(before.to_vec(), name.rename.to_string())],
        UseTree::Name(name) => vec![(below(before, &name.ident), name.ident.to_string())],
        UseTree::Rename(name) => vec![(below(before, &name.ident), name.rename.to_string())],
    }
}

/// The paths of one file that begin with `crate`, `super` or `self`, written from the root.
struct Paths {
    /// The module that the walk is in.
    module: Names,
    found: BTreeSet<Names>,
}

impl Paths {
    fn of(source: &Source) -> BTreeSet<Names> {
        let mut paths = Paths { module: source.module.clone(), found: BTreeSet::new() };
        source.items.iter().for_each(|item| paths.visit_item(item));
        paths.found
    }

    fn add(&mut self, path: &[String]) {
        self.found.extend(from_root(&self.module, path));
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        imports(&item.tree, &[]).iter().for_each(|(path, _)| self.add(path));
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_path(&mut self, path: &'ast Path) {
        let path_names: Names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.add(&path_names);
        visit::visit_path(self, path);
    }

    /// Macros have a grammar of their own, so paths are found among their words.
    fn visit_macro(&mut self, mac: &'ast Macro) {
        self.visit_path(&mac.path);
        let is_apart = |c: char| !c.is_alphanumeric() && !matches!(c, '_' | ':');
        let text = mac.tokens.to_string().replace(is_apart, " ").replace("::", " :: ");
        let words: Vec<&str> = text.split_whitespace().collect();
        for (at, _) in words.iter().enumerate().filter(|(_, word)| ["crate", "super", "self"].contains(word))
        {
            let pairs = words[at + 1..].chunks_exact(2).take_while(|pair| pair[0] == "::");
            let path: Names =
                [words[at]].into_iter().chain(pairs.map(|pair| pair[1])).map(str::to_owned).collect();
            self.add(&path);
        }
    }
}

/// The modules of one crate, and what each of them names.
struct CrateModules<'a> {
    files: Vec<(&'a Source, BTreeSet<Names>)>,
    /// Every module, written from the root. The root itself is the empty path.
    modules: BTreeSet<Names>,
    /// The names that modules define.
    items: BTreeSet<Names>,
    /// The path behind each name that a module imports.
    imported: BTreeMap<Names, Names>,
    /// The modules of which a module imports all.
    opened: BTreeMap<Names, Vec<Names>>,
}

impl<'a> CrateModules<'a> {
    fn new(sources: &'a [Source], name: &str) -> CrateModules<'a> {
        let sources: Vec<&Source> = sources.iter().filter(|source| source.krate == name).collect();
        let with_parents = |source: &&'a Source| (0..=source.module.len()).map(|end| &source.module[..end]);
        let modules = sources.iter().flat_map(with_parents).map(<[String]>::to_vec).collect();
        let files = sources.into_iter().map(|source| (source, Paths::of(source))).collect();
        let (items, imported, opened) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        let mut of = CrateModules { files, modules, items, imported, opened };
        let files: Vec<&Source> = of.files.iter().map(|(source, _)| *source).collect();
        for source in files {
            for item in &source.items {
                if let Item::Use(item) = item {
                    for (path, name) in imports(&item.tree, &[]) {
                        of.import(&source.module, &path, name);
                    }
                }
                of.items.extend(defined(item).map(|name| below(&source.module, name)));
            }
        }
        of
    }

    fn import(&mut self, module: &[String], path: &[String], name: String) {
        let is_child = path.first().is_some_and(|first| self.modules.contains(&below(module, first)));
        let path = if is_child { Some([module, path].concat()) } else { from_root(module, path) };
        let Some(path) = path else { return };
        if name == "*" {
            self.opened.entry(module.to_vec()).or_default().push(path);
        } else {
            self.imported.insert(below(module, name), path);
        }
    }

    /// Returns the path behind one that leads over an import.
    fn behind(&self, path: &[String]) -> Option<Names> {
        let end = (0..path.len()).rev().find(|&end| self.modules.contains(&path[..end]))?;
        let (module, rest) = path.split_at(end);
        let name = below(module, &rest[0]);
        if self.items.contains(&name) {
            return None;
        }
        let in_opened = || {
            let mut opened = self.opened.get(module)?.iter().map(|opened| below(opened, &rest[0]));
            opened.find(|name| self.items.contains(name) || self.imported.contains_key(name))
        };
        let imported = self.imported.get(&name).cloned().or_else(in_opened)?;
        Some([&imported, &rest[1..]].concat())
    }

    /// Returns the module right below a folder that a path leads into. What the folder itself, or a module outside of it, imports
    /// counts as the module's that it comes from.
    fn child(&self, folder: &[String], path: &[String]) -> Option<String> {
        // A path leads over a few imports at most; more would be a circle of them.
        const IMPORTS_MAX: usize = 10;
        let mut path = path.to_vec();
        for _ in 0..IMPORTS_MAX {
            if path.len() > folder.len()
                && path.starts_with(folder)
                && self.modules.contains(&path[..=folder.len()])
            {
                return path.into_iter().nth(folder.len());
            }
            path = self.behind(&path)?;
        }
        None
    }

    /// Returns the arrows between the modules right below a folder, or below the root. The folder's own module is none of them:
    /// it may use what lies in it and be used there.
    fn arrows(&self, folder: &[String]) -> Arrows {
        let mut arrows = Arrows::new();
        for (source, paths) in self.files.iter().filter(|(source, _)| source.module.starts_with(folder)) {
            let Some(from) = source.module.get(folder.len()) else { continue };
            let of = arrows.entry(from.clone()).or_default();
            for path in paths {
                if let Some(to) = self.child(folder, path).filter(|to| to != from) {
                    of.entry(to).or_default().insert(format!("{}: {}", source.path, path.join("::")));
                }
            }
        }
        arrows
    }

    /// Returns the folders: every module that others lie below, and the root.
    fn folders(&self) -> BTreeSet<&[String]> {
        self.modules.iter().filter_map(|module| module.split_last()).map(|(_, folder)| folder).collect()
    }
}

/// The name of what an item defines.
fn defined(item: &Item) -> Option<&syn::Ident> {
    match item {
        Item::Const(item) => Some(&item.ident),
        Item::Enum(item) => Some(&item.ident),
        Item::Fn(item) => Some(&item.sig.ident),
        Item::Static(item) => Some(&item.ident),
        Item::Struct(item) => Some(&item.ident),
        Item::Trait(item) => Some(&item.ident),
        Item::Type(item) => Some(&item.ident),
        _ => None,
    }
}

fn below(path: &[String], name: impl ToString) -> Names {
    path.iter().cloned().chain([name.to_string()]).collect()
}

/// Returns a path that begins with `crate`, `super` or `self` as it is written from the root.
fn from_root(module: &[String], path: &[String]) -> Option<Names> {
    let (mut here, mut rest) = match path.first()?.as_str() {
        "crate" => (Vec::new(), &path[1..]),
        "self" => (module.to_vec(), &path[1..]),
        "super" => (module.to_vec(), path),
        _ => return None,
    };
    while rest.first().is_some_and(|part| part == "super") {
        here.pop();
        rest = &rest[1..];
    }
    here.extend_from_slice(rest);
    Some(here)
}

/// The modules that can be reached from one by its arrows.
fn reached<'a>(arrows: &'a Arrows, from: &'a str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        for to in arrows.get(module).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(to.as_str()) {
                open.push(to);
            }
        }
    }
    reached
}

/// Sets of more than one module of which each reaches all others.
fn knots(arrows: &Arrows) -> BTreeSet<BTreeSet<&str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        arrows.keys().map(|module| (module.as_str(), reached(arrows, module))).collect();
    let mut knots = BTreeSet::new();
    for (module, there) in &reached {
        let knot: BTreeSet<&str> =
            there.iter().copied().filter(|other| reached[other].contains(module)).collect();
        if knot.len() > 1 {
            knots.insert(knot);
        }
    }
    knots
}

/// The lines that make a knot, one arrow after the other.
fn lines(arrows: &Arrows, knot: &BTreeSet<&str>) -> String {
    let mut lines = String::new();
    for from in knot {
        for (to, paths) in arrows[*from].iter().filter(|(to, _)| knot.contains(to.as_str())) {
            lines += &format!("  {from} imports {to}\n");
            lines.extend(paths.iter().map(|path| format!("    {path}\n")));
        }
    }
    lines
}

/// Modules that protocols of `server` share. Every other one in their folder is a protocol.
const SHARED: [&str; 7] =
    ["batch", "content_encoding", "grpc_transport", "input", "limit_group", "mail", "site_gate"];

#[test]
fn imports_between_modules_go_one_way() {
    let sources = sources::all();
    let crates: BTreeSet<&str> = sources.iter().map(|source| source.krate.as_str()).collect();
    let mut folders = 0;
    let mut found = String::new();
    for name in crates {
        let modules = CrateModules::new(&sources, name);
        for folder in modules.folders() {
            folders += 1;
            let arrows = modules.arrows(folder);
            for knot in knots(&arrows) {
                found += &format!("{name}/{}: {knot:?}\n{}", folder.join("/"), lines(&arrows, &knot));
            }
        }
    }
    assert!(folders > 80, "{folders} folders are not the whole workspace");
    assert!(found.is_empty(), "these modules import each other in a circle:\n{found}");
}

#[test]
fn protocols_stand_alone_upon_the_core() {
    let sources = sources::all();
    let server = CrateModules::new(&sources, "server");
    assert!(!server.arrows(&[])["core"].contains_key("protocol"), "server's core imports protocols");
    let protocols = server.arrows(&["protocol".to_owned()]);
    for shared in SHARED {
        assert!(protocols.contains_key(shared), "there is no module protocol::{shared}");
    }
    for (module, imported) in &protocols {
        for imported in imported.keys() {
            assert!(SHARED.contains(&imported.as_str()), "protocol::{module} imports protocol::{imported}");
        }
    }
}

#[test]
fn a_circle_is_found_and_a_chain_is_none() {
    let line = || BTreeSet::from([String::new()]);
    let arrow =
        |from: &str, to: &[&str]| (from.to_owned(), to.iter().map(|&to| (to.to_owned(), line())).collect());
    let chain: Arrows = [arrow("a", &["b"]), arrow("b", &["c"]), arrow("c", &[])].into();
    assert!(knots(&chain).is_empty());
    let circle: Arrows =
        [arrow("a", &["b"]), arrow("b", &["c"]), arrow("c", &["a"]), arrow("d", &["a"])].into();
    assert_eq!(knots(&circle), [["a", "b", "c"].into()].into());
}

#[test]
fn a_name_counts_as_the_module_that_defines_it() {
    let source = |module: &[&str], text: &str| Source {
        krate: "a".to_owned(),
        module: module.iter().map(|&name| name.to_owned()).collect(),
        path: String::new(),
        items: syn::parse_file(text).unwrap().items,
        attributes: Vec::new(),
    };
    let sources = [
        source(&[], "pub use parts::Wheel; mod parts; mod road;"),
        source(
            &["parts"],
            "mod rim; mod tyre; pub use self::rim::*; pub use tyre::Tyre as Wheel; struct Own;",
        ),
        source(&["parts", "rim"], "pub struct Rim; fn turn() { say!(\"{}\", super::Wheel::new(1)); }"),
        source(&["parts", "tyre"], "use crate::parts::{Own, Rim}; pub struct Tyre;"),
        source(&["road"], "use crate::Wheel;"),
    ];
    let modules = CrateModules::new(&sources, "a");
    let check = |folder: &[&str], expected: &[(&str, &[&str])]| {
        let folder: Names = folder.iter().map(|&name| name.to_owned()).collect();
        let arrows = modules.arrows(&folder);
        let found: Vec<(&str, Vec<&str>)> = arrows
            .iter()
            .map(|(from, to)| (from.as_str(), to.keys().map(String::as_str).collect()))
            .collect();
        let expected: Vec<(&str, Vec<&str>)> =
            expected.iter().map(|(from, to)| (*from, to.to_vec())).collect();
        assert_eq!(found, expected, "{folder:?}");
    };
    check(&[], &[("parts", &[]), ("road", &["parts"])]);
    check(&["parts"], &[("rim", &["tyre"]), ("tyre", &["rim"])]);
}
