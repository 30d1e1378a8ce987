//! The public workflow checks each feature of a build alone.

use std::fs;
use std::path::Path;

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The features of the program, in the order of its manifest.
fn features(manifest: &str) -> Vec<String> {
    let lines = manifest.lines().skip_while(|line| *line != "[features]").skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    let names = lines.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(" = "));
    names.map(|(name, _)| name.to_owned()).filter(|name| name != "default").collect()
}

#[test]
fn each_feature_is_checked_alone_and_described() {
    let features = features(&read("crates/tollhouse/Cargo.toml"));
    assert!(features.len() > 4, "{features:?} are not all features");
    let workflow = read(".github/workflows/test.yml");
    let list = workflow.lines().find_map(|line| line.trim().strip_prefix("for features in \"\" "));
    let checked: Vec<&str> = list.unwrap_or_default().trim_end_matches("; do").split(' ').collect();
    assert_eq!(checked, features, "the workflow checks other features than there are");
    let contributing = read("CONTRIBUTING.md");
    let rows = contributing.lines().skip_while(|line| *line != "## Features");
    let rows = rows.filter_map(|line| line.strip_prefix("| `")?.split_once('`')).map(|(name, _)| name);
    assert_eq!(rows.collect::<Vec<_>>(), features, "CONTRIBUTING.md describes other features than there are");
}
