//! Links: found in text, normalised, unwrapped, and held against what they imitate.
#![no_main]

use content::web::link::{self, Link, TextReference};
use content::web::{impersonation, messenger, redirect};
use libfuzzer_sys::fuzz_target;

fn follow(link: Link) {
    // What is normalised is its own normal form, but for the parameters of what was in the user name.
    let again = Link::parse(&link.url);
    assert!(again.is_none_or(|again| again.host == link.host));
    impersonation::of(&link.host, &link.obfuscation.user);
    messenger::of_link(&link.host, &link.url);
    let mut next = redirect::target(&link);
    for _ in 0..redirect::DEPTH_MAX {
        next = next.and_then(|link| redirect::target(&link));
    }
}

fuzz_target!(|text: &str| {
    if let Some(link) = Link::parse(text) {
        follow(link);
    }
    link::find(text, |found| {
        if let TextReference::Url(url) = found
            && let Some(link) = Link::parse(url)
        {
            follow(link);
        }
        true
    });
    link::host(text);
    messenger::of_uri(text);
    messenger::find(text, drop);
});
