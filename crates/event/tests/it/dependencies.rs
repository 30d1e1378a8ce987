//! Dependencies that nobody names are built, audited and updated for nothing.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Crate and dependency that no source names: generated code does, or it is there for its features.
const UNNAMED: [(&str, &str); 4] =
    [("objects", "reqwest"), ("server", "prost"), ("server", "tonic-prost"), ("tollhouse", "tonic")];

/// The names of the dependencies in a section of a manifest.
fn dependencies<'m>(manifest: &'m str, section: &str) -> Vec<&'m str> {
    let lines = manifest.lines().skip_while(|line| *line != section).skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    lines
        .filter_map(|line| line.split(['.', ' ', '=']).next().filter(|name| !name.is_empty() && *name != "#"))
        .collect()
}

/// Every identifier and word of a crate's Rust files below these folders.
fn words(krate: &Path, folders: &[&str]) -> HashSet<String> {
    let mut words = HashSet::new();
    let mut open: Vec<PathBuf> = folders.iter().map(|folder| krate.join(folder)).collect();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && let Ok(text) = fs::read_to_string(&path)
        {
            let parts = text.split(|c: char| !c.is_alphanumeric() && c != '_');
            words.extend(parts.map(str::to_owned));
        }
    }
    words
}

#[test]
fn every_dependency_is_named_by_its_crate() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut unused, mut seen) = (Vec::new(), 0);
    for entry in fs::read_dir(crates).unwrap() {
        let krate = entry.unwrap().path();
        let Ok(manifest) = fs::read_to_string(krate.join("Cargo.toml")) else { continue };
        let name = krate.file_name().unwrap().to_str().unwrap();
        for (section, folders) in [
            ("[dependencies]", &["src"][..]),
            ("[build-dependencies]", &["build.rs"][..]),
            ("[dev-dependencies]", &["src", "tests", "benches", "examples"][..]),
        ] {
            let words = words(&krate, folders);
            for dependency in dependencies(&manifest, section) {
                seen += 1;
                if !words.contains(&dependency.replace('-', "_")) && !UNNAMED.contains(&(name, dependency)) {
                    unused.push(format!("{name}: {dependency} in {section}"));
                }
            }
        }
    }
    assert!(seen > 200, "{seen} dependencies are not those of the whole workspace");
    assert!(unused.is_empty(), "no source names them:\n{}", unused.join("\n"));
}
