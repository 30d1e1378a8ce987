//! The sources of every crate, parsed, without their tests.

use std::fs;
use std::path::{Path, PathBuf};

use syn::{Attribute, Item};

/// A source file of the product.
pub(crate) struct Source {
    /// The crate's folder, such as `engine`.
    pub(crate) krate: String,
    /// The modules from the crate's root to this file, such as `["pipeline", "settle"]`; none for `lib.rs` and `main.rs`.
    pub(crate) module: Vec<String>,
    /// The path below `crates/`.
    pub(crate) path: String,
    pub(crate) items: Vec<Item>,
    /// The attributes of the module itself, such as those of a crate's root.
    pub(crate) attributes: Vec<Attribute>,
}

/// Every source file under `crates/*/src`. Modules for tests alone are left out.
pub(crate) fn all() -> Vec<Source> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut sources = Vec::new();
    for entry in fs::read_dir(crates).unwrap() {
        let root = entry.unwrap().path().join("src");
        if root.is_dir() {
            let mut files = Vec::new();
            collect(&root, &mut files);
            sources.extend(files.iter().map(|file| read(crates, &root, file)));
        }
    }
    assert!(sources.len() > 300, "{} sources are not the whole workspace", sources.len());
    sources
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("tests") {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
            files.push(path);
        }
    }
}

/// Adds the Rust files of a folder, its tests included. Build outputs and hidden folders are left out.
pub(crate) fn rust_files(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn read(crates: &Path, root: &Path, file: &Path) -> Source {
    let inside = file.strip_prefix(root).unwrap().with_extension("");
    let mut module: Vec<String> = inside.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
    if module.last().is_some_and(|last| ["lib", "main", "mod"].contains(&last.as_str())) {
        module.pop();
    }
    let path = file.strip_prefix(crates).unwrap().display().to_string();
    let text = fs::read_to_string(file).unwrap();
    let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
    let items = parsed.items.into_iter().filter(|item| !is_test(item)).collect();
    let krate = path.split('/').next().unwrap().to_owned();
    Source { krate, module, path, items, attributes: parsed.attrs }
}

fn is_test(item: &Item) -> bool {
    let attributes: &[Attribute] = match item {
        Item::Mod(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    };
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Ident>().is_ok_and(|condition| condition == "test")
    })
}
