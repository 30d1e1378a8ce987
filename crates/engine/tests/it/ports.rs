//! Ports that documents and examples name: something of theirs listens there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Ports of others: what is compared with, signed or asked beside.
const OTHERS: [(&str, u16, &str); 15] = [
    ("docs/guides/exim.md", 783, "a listener of `spamc`, as docs/guides/from-rspamd.md configures it"),
    ("docs/reference/cli.md", 11333, "Rspamd's own"),
    ("docs/reference/cli.md", 783, "spamd's own"),
    ("docs/reference/cli.md", 4222, "NATS' own"),
    ("docs/guides/limits.md", 8378, "a proxy of HAProxy's own, which asks Tollhouse for its script"),
    ("docs/guides/challenges.md", 8378, "a proxy of HAProxy's own, which asks Tollhouse for its script"),
    ("docs/guides/forms.md", 8080, "the application's own"),
    ("docs/guides/forms.md", 8081, "a server of nginx' own, which answers in the application's place"),
    ("docs/guides/postfix.md", 11331, "OpenDKIM's own"),
    ("docs/reference/configuration.md", 5353, "a resolver's own"),
    ("docs/reference/configuration.md", 4318, "a collector's own"),
    (
        "docs/reference/configuration.md",
        5514,
        "a listener of syslog, as docs/guides/sources.md configures it",
    ),
    ("docs/guides/sources.md", 5514, "a source's own, for syslog"),
    ("docs/operating/telemetry.md", 4318, "a collector's own"),
    ("docs/operating/install.md", 8080, "the site in front of the container"),
];

/// All pages and programs of a folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            files(&path, found);
        } else if path
            .extension()
            .is_some_and(|ending| ["md", "py", "sh", "toml"].iter().any(|own| ending == *own))
        {
            found.push(path);
        }
    }
}

/// The number that a text begins with.
fn number(text: &str) -> Option<u16> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text[..digits].parse().ok()
}

/// The ports of this host that a text names, as clients are given them.
fn named(text: &str) -> BTreeSet<u16> {
    let hosts = ["127.0.0.1:", "127.0.0.1 ", "localhost:", "[::1]:", "127.0.0.1, port_value: ", "0.0.0.0:"];
    let behind =
        hosts.iter().flat_map(|host| text.match_indices(host).map(|(at, host)| &text[at + host.len()..]));
    let mail = text.match_indices("inet:").map(|(at, mark)| &text[at + mark.len()..]);
    // The reversed form of Sendmail, `inet:PORT@HOST`.
    let mail = mail.filter(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with('@'));
    behind.chain(mail).filter_map(number).filter(|port| *port >= 25).collect()
}

/// The ports that a text configures.
fn configured(text: &str) -> BTreeSet<u16> {
    let settings = text.match_indices("listen").filter_map(|(at, name)| {
        let rest = text[at + name.len()..].trim_start().strip_prefix('=')?;
        let value = rest.trim_start().trim_start_matches('"').split(['"', '\n', ' ']).next()?;
        number(value.rsplit_once(':')?.1)
    });
    settings.collect()
}

#[test]
fn something_listens_where_documents_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    files(&root.join("docs"), &mut pages);
    files(&root.join("examples"), &mut pages);
    let reference = fs::read_to_string(root.join("docs/reference/configuration.md")).unwrap();
    let default =
        reference.lines().find_map(|line| line.strip_prefix("| `listen` | address")?.split('"').nth(1));
    let default = number(default.and_then(|listen| listen.rsplit_once(':')).unwrap().1).unwrap();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for page in &pages {
        let name = page.strip_prefix(&root).unwrap().display().to_string();
        let text = fs::read_to_string(page).unwrap();
        let own = configured(&text);
        for port in named(&text) {
            count += 1;
            let other = OTHERS.iter().any(|(page, own, _)| *page == name && *own == port);
            if port != default && !own.contains(&port) && !other {
                wrong.push(format!("{name}: nothing listens on port {port}: the default is {default}, the page configures {own:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count > 15, "{count} ports in {} pages", pages.len());
}
