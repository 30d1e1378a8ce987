//! Tests of CrowdSec's hub, run by its own files: each with what it expects of parsers and scenarios.

use std::collections::BTreeMap;
use std::path::Path;

use logs::crowdsec::CrowdsecFiles;
use logs::crowdsec::data_files::CrowdsecDataFiles;
use logs::crowdsec::hub_test::{AssertionReport, HubTest};

/// The present: 2026-11-26.
const NOW: i64 = 1_795_651_200_000_000_000;

fn read_folder(root: &Path, folder: &Path, files: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            read_folder(root, &path, files);
        } else if let (Ok(text), Ok(name)) = (std::fs::read_to_string(&path), path.strip_prefix(root)) {
            files.insert(name.to_string_lossy().into_owned(), text);
        }
    }
}

#[test]
fn tests_of_the_hub_pass() {
    let Some(root) = corpora::folder("web/crowdsec-hub") else {
        return;
    };
    let mut files = BTreeMap::new();
    for folder in ["parsers", "scenarios", "postoverflows", "patterns"] {
        read_folder(&root, &root.join(folder), &mut files);
    }
    let tests =
        [root.join("tests"), root.join(".tests")].into_iter().find(|tests| tests.is_dir()).expect("tests");
    let mut names: Vec<_> =
        std::fs::read_dir(&tests).expect("tests").flatten().map(|entry| entry.path()).collect();
    names.sort();
    // Tests name files of other tests by the path that they have in the hub.
    for name in &names {
        let mut inside = BTreeMap::new();
        read_folder(name, &name.join("parsers"), &mut inside);
        let name = name.file_name().unwrap_or_default().to_string_lossy();
        files.extend(inside.into_iter().map(|(path, text)| (format!(".tests/{name}/{path}"), text)));
    }
    let files = CrowdsecFiles(files);
    let (mut parsers, mut scenarios) = ((0, 0), (0, 0));
    for folder in names {
        let mut test = BTreeMap::new();
        read_folder(&folder, &folder, &mut test);
        let Some(config) = test.get("config.yaml").cloned() else { continue };
        let report = HubTest { config: &config, files: &test }.run(&files, CrowdsecDataFiles::default(), NOW);
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let count = |kind: &str, outcome: &Option<AssertionReport>, counts: &mut (u32, u32)| {
            let Some(outcome) = outcome else { return };
            counts.1 += 1;
            match outcome.failed.first() {
                None => counts.0 += 1,
                Some(first) => {
                    println!("{name}: {kind}: {} of {} failed: {first}", outcome.failed.len(), outcome.count);
                    for problem in &report.problems {
                        println!("    {problem}");
                    }
                }
            }
        };
        count("parsers", &report.parsers, &mut parsers);
        count("scenarios", &report.scenarios, &mut scenarios);
        if report.parsers.is_none() && report.scenarios.is_none() {
            println!("{name}: nothing was asked");
        }
    }
    println!("parsers: {} of {}; scenarios: {} of {}", parsers.0, parsers.1, scenarios.0, scenarios.1);
    assert!(f64::from(parsers.0) >= 0.85 * f64::from(parsers.1), "parsers: {parsers:?}");
    assert!(f64::from(scenarios.0) >= 0.80 * f64::from(scenarios.1), "scenarios: {scenarios:?}");
}
