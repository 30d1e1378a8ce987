//! Any bytes are a database of addresses, or an answer of a resolver: facts, or none; names have an end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use logs::crowdsec::enrichment::CrowdsecEnrichment;
use sources::reverse_names::ResolverAnswer;

fuzz_target!(|raw: &[u8]| {
    let _ = CrowdsecEnrichment::default().add_database(raw.to_vec());
    let (question, answer) = raw.split_at(raw.len().min(40));
    if let Some(answer) = ResolverAnswer::read(answer, question) {
        assert!(answer.names.iter().all(|name| name.len() <= 255 && name.ends_with('.')));
    }
});
