//! `tollhouse test crowdsec`: runs the tests of CrowdSec's hub.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use logs::crowdsec::hub_test::{AssertionReport, HubTest};
use serde::Serialize;

use crate::console::{Output, printable};
use crate::exit::{CommandError, Exit};
use crate::options::JsonOption;
use crate::{clock, crowdsec_files};

/// Run the tests of CrowdSec's hub: logs, and the expected results of parsers and scenarios
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse test crowdsec ~/hub
  tollhouse test crowdsec --only sshd-logs ~/hub
  tollhouse test crowdsec --data-files /var/lib/crowdsec/data ~/hub

Each test is a folder with `config.yaml`, a log, and `parser.assert` or `scenario.assert`, as for
`cscli hubtest`. A failing test shows the first false expression and the actual value. Exit code 1:
a test failed.")]
pub(super) struct CrowdsecTestArgs {
    /// Hub folder, with `parsers`, `scenarios`, `patterns` and `tests` or `.tests`
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Folder of the tests, if elsewhere
    #[arg(long, value_name = "DIR")]
    tests: Option<PathBuf>,
    /// Folder of the scenarios' data files [default: `data` in the hub]
    #[arg(long, value_name = "DIR")]
    data_files: Option<PathBuf>,
    /// Test to run; repeatable [default: all]
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    #[command(flatten)]
    json: JsonOption,
}

/// Most bytes of a test's log.
const LOG_BYTES_MAX: usize = 64 << 20;

/// A test as `--json` has it.
#[derive(Serialize)]
struct TestLine<'t> {
    name: &'t str,
    passed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    parsers: Option<TestPart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scenarios: Option<TestPart>,
    problems: Vec<String>,
}

/// The part of a test that is about parsers, or about scenarios.
#[derive(Serialize)]
struct TestPart {
    expressions: usize,
    failed: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<String>,
}

impl TestPart {
    fn of(report: &AssertionReport) -> TestPart {
        TestPart {
            expressions: report.count,
            failed: report.failed.len(),
            first: report.failed.first().map(ToString::to_string),
        }
    }

    fn is_passed(&self) -> bool {
        self.failed == 0
    }
}

/// The numbers of tests that passed, and of all.
#[derive(Default)]
struct TestCount {
    passed: usize,
    all: usize,
}

impl TestCount {
    fn add(&mut self, part: Option<&TestPart>) {
        self.all += usize::from(part.is_some());
        self.passed += usize::from(part.is_some_and(TestPart::is_passed));
    }
}

pub(super) fn run(args: &CrowdsecTestArgs) -> Result<Exit, CommandError> {
    let mut files = crowdsec_files::read(&args.directory)?;
    let tests = match &args.tests {
        Some(tests) => tests.clone(),
        None => {
            let known = ["tests", ".tests"].map(|name| args.directory.join(name));
            known.into_iter().find(|path| path.is_dir()).ok_or_else(|| {
                CommandError::new(format_args!("{}: there is no folder `tests`", args.directory.display()))
            })?
        }
    };
    let folders = folders(&tests)?;
    // Tests name files of other tests by the path that they have in the hub.
    for (name, folder) in &folders {
        let mut inside = BTreeMap::new();
        for kind in ["parsers", "scenarios", "postoverflows"] {
            crowdsec_files::read_folder(folder, &folder.join(kind), 4, LOG_BYTES_MAX, &mut inside);
        }
        files.0.extend(inside.into_iter().map(|(path, text)| (format!(".tests/{name}/{path}"), text)));
    }
    let now = clock::now().0.saturating_mul(1_000);
    let mut out = Output::new(args.json.json);
    let (mut parsers, mut scenarios, mut failed) = (TestCount::default(), TestCount::default(), 0usize);
    let wanted = folders.iter().filter(|(name, _)| args.only.is_empty() || args.only.contains(name));
    for (name, folder) in wanted {
        let mut test = BTreeMap::new();
        crowdsec_files::read_folder(folder, folder, 4, LOG_BYTES_MAX, &mut test);
        let Some(config) = test.get("config.yaml").cloned() else { continue };
        let data = crowdsec_files::data(&args.directory, args.data_files.as_deref());
        let report = HubTest { config: &config, files: &test }.run(&files, data, now);
        let line = TestLine {
            name,
            passed: report.is_passed(),
            parsers: report.parsers.as_ref().map(TestPart::of),
            scenarios: report.scenarios.as_ref().map(TestPart::of),
            problems: report.problems.iter().map(ToString::to_string).collect(),
        };
        failed += usize::from(!line.passed);
        parsers.add(line.parsers.as_ref());
        scenarios.add(line.scenarios.as_ref());
        show(&mut out, &line)?;
    }
    if !out.is_json() {
        out.line(format_args!(
            "{} of {} tests of parsers passed, {} of {} of scenarios",
            parsers.passed, parsers.all, scenarios.passed, scenarios.all
        ))?;
    }
    out.flush()?;
    Ok(if failed == 0 { Exit::Fine } else { Exit::Found })
}

fn show(out: &mut Output, line: &TestLine<'_>) -> Result<(), CommandError> {
    if out.is_json() {
        return out.json(line);
    }
    let is_asked = line.parsers.is_some() || line.scenarios.is_some();
    let word = match (line.passed, is_asked) {
        (true, _) => "passed",
        (false, true) => "failed",
        (false, false) => "asks nothing",
    };
    out.line(format_args!("{word:<7} {}", printable(line.name)))?;
    let parts = [("parsers", &line.parsers), ("scenarios", &line.scenarios)];
    for (kind, part) in parts {
        if let Some(part) = part.as_ref().filter(|part| !part.is_passed()) {
            let first = part.first.as_deref().unwrap_or_default();
            out.line(format_args!(
                "        {kind}: {} of {} are not true; {}",
                part.failed,
                part.expressions,
                printable(first)
            ))?;
        }
    }
    if !line.passed {
        for problem in &line.problems {
            out.line(format_args!("        not taken: {}", printable(problem)))?;
        }
    }
    Ok(())
}

/// Folders of tests by their names, in order.
fn folders(tests: &Path) -> Result<Vec<(String, PathBuf)>, CommandError> {
    let entries = fs::read_dir(tests)
        .map_err(|error| CommandError::new(format_args!("{}: {error}", tests.display())))?;
    let mut folders: Vec<(String, PathBuf)> = entries
        .flatten()
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .collect();
    folders.sort();
    Ok(folders)
}
