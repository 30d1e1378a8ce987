//! Any texts are files of CrowdSec: parsers and scenarios, or problems with their places; any lines go through them.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use logs::crowdsec::CrowdsecFiles;
use logs::crowdsec::data_files::CrowdsecDataFiles;
use logs::crowdsec::pipeline::{CrowdsecPipeline, CrowdsecSelection};
use logs::crowdsec::record::CrowdsecLine;

fuzz_target!(|raw: &[u8]| {
    let text = String::from_utf8_lossy(raw);
    if text.len() > 4096 {
        return;
    }
    let mut parts = text.split("\n=====\n");
    let (parser, scenario) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let lines = parts.next().unwrap_or_default();
    let files = [
        ("parsers/s00-raw/a.yaml", parser),
        ("parsers/s01-parse/b.yaml", parser),
        ("scenarios/c.yaml", scenario),
        ("postoverflows/s00-enrich/d.yaml", parser),
        ("acquis.yaml", scenario),
        ("profiles.yaml", scenario),
    ];
    let files = CrowdsecFiles(files.map(|(path, text)| (path.to_owned(), text.to_owned())).into());
    let mut problems = Vec::new();
    let selection = CrowdsecSelection::all(&files);
    let mut pipeline = CrowdsecPipeline::live(
        &files,
        &selection,
        CrowdsecDataFiles::default(),
        logs::IPV6_PREFIX,
        &mut problems,
    );
    for (number, line) in lines.lines().enumerate() {
        let line = CrowdsecLine { raw: Arc::from(line), ..CrowdsecLine::default() };
        let reading = pipeline.read(line, 1_700_000_000_000_000_000 + number as i64);
        assert!(reading.overflows.len() <= 64);
    }
    let import = plan::formats::crowdsec::read(
        &files,
        CrowdsecDataFiles::default(),
        "/etc/crowdsec",
        logs::IPV6_PREFIX,
    );
    let config = plan::Config::from_text("import", &import.text, &plan::Overrides::default());
    assert!(plan::Plan::compile(&config).is_ok(), "{}", import.text);
});
