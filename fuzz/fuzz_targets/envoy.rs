//! Any text is a file of Envoy's rate limit service, or of Limitador: it is read, or refused with a place and a message.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plan::formats::envoy::Domains;

fuzz_target!(|text: &str| {
    match Domains::read(&[("a.yaml".to_owned(), text.to_owned())], false) {
        Ok(domains) => {
            for rule in domains.rules() {
                assert!(!rule.path.is_empty() && rule.replaces.iter().all(|name| !name.is_empty()));
            }
            let _ = domains.find("a", [("key", "value"), ("other", "")].into_iter());
        }
        Err(problems) => assert!(!problems.to_string().is_empty()),
    }
    if let Err(problems) = plan::formats::limitador::read("a.yaml", text) {
        assert!(!problems.to_string().is_empty());
    }
});
