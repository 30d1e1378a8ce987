//! Any bytes behind a slash are a request_target, whose path has a form that is its own form; what a server would follow is no longer in it.
#![no_main]

use content::web::request_target::{RequestTarget, normal_path};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(target) = RequestTarget::read(bytes) {
        check(&target.path);
    }
    check(&RequestTarget::read(&[b"/", bytes].concat()).unwrap().path);
    check(&content::text::received(bytes));
});

fn check(path: &str) {
    let normal = normal_path(path);
    assert_eq!(normal_path(&normal), normal);
    assert!(normal == "*" || normal.starts_with('/'));
    assert!(["//", "/./", "/../", "\\", "?", "#", ";"].iter().all(|odd| !normal.contains(odd)));
    assert!(normal.len() <= 3 * path.len() + 1);
}
