//! Any texts are files of fail2ban's configuration: jails, or problems with their places; what is written of them is bounded.
#![no_main]

use libfuzzer_sys::fuzz_target;
use logs::fail2ban::formula::BanTimeFacts;
use logs::fail2ban::{Fail2banFiles, duration, formula, ini, jail, option_list};

fuzz_target!(|raw: &[u8]| {
    let text = String::from_utf8_lossy(raw);
    if text.len() > 4096 {
        return;
    }
    let (first, second) = text.split_once("\n---\n").unwrap_or((&text, ""));
    let (_, problems) = ini::read("f", first);
    assert!(problems.iter().all(|problem| problem.line <= first.lines().count()));
    let _ = (duration::read(first), option_list::read(first));
    let facts = BanTimeFacts { seconds: 600.0, count: 3.0, factor: 1.0 };
    if let Ok(length) = formula::evaluate(first, facts) {
        assert!(length.is_finite());
    }
    let files = [("jail.conf", first), ("filter.d/a.conf", second), ("filter.d/common.conf", first)];
    let files = Fail2banFiles(files.map(|(path, text)| (path.to_owned(), text.to_owned())).into());
    let _ = jail::read(&files);
    let import = plan::formats::fail2ban::read(&files, logs::IPV6_PREFIX);
    assert!(import.files.iter().all(|(name, _)| !name.contains('/')));
});
