//! Presets of programs' logs against lines that others have labelled: fail2ban's, and CrowdSec's hub.
//!
//! Both are a measure, and nothing is made to fit them: fail2ban counts lines in other modes than its usual one, and by those
//! before them, and the hub counts log-ins, too. What is found beyond them is few, and what is missed is printed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use serde_json::Value;

use crate::log_presets::{meaning, settings, text};

/// Logs of fail2ban's tests, and the presets that read them.
const OF_FAIL2BAN: &[(&str, &str)] = &[
    ("sshd", "sshd"),
    ("pam-generic", "pam"),
    ("postfix", "postfix"),
    ("dovecot", "dovecot"),
    ("exim", "exim"),
    ("nginx-http-auth", "nginx-error"),
    ("nginx-limit-req", "nginx-error"),
    ("apache-auth", "apache-error"),
    ("apache-modsecurity", "modsecurity"),
    ("vsftpd", "vsftpd"),
    ("proftpd", "proftpd"),
    ("mysqld-auth", "mysql"),
    ("asterisk", "asterisk"),
    ("gitlab", "gitlab"),
    ("grafana", "grafana"),
];

/// Tests of the hub that say what each line is, and the presets that read their logs.
const OF_THE_HUB: &[(&str, &str)] = &[
    ("sshd-logs", "sshd"),
    ("postfix-logs", "postfix"),
    ("postscreen-logs", "postfix"),
    ("dovecot-logs", "dovecot"),
    ("exim-syslog-logs", "exim"),
    ("vsftpd-logs", "vsftpd"),
    ("mariadb-logs", "mysql"),
    ("mongodb-logs", "mongodb"),
    ("asterisk-logs", "asterisk"),
    ("vaultwarden-logs", "vaultwarden"),
    ("grafana-logs", "grafana"),
    ("proxmox-logs", "proxmox"),
    ("suricata-logs-evelog", "suricata"),
    ("iptables-logs", "netfilter"),
];

/// The least share of lines found that others mean, too.
const PRECISION_MIN: f64 = 0.95;

/// Counts of lines: those meant and found, meant and not found, found and not meant.
#[derive(Default)]
struct Agreement {
    both: usize,
    missed: usize,
    more: usize,
}

impl Agreement {
    fn add(&mut self, other: &Agreement) {
        self.both += other.both;
        self.missed += other.missed;
        self.more += other.more;
    }

    /// The share of lines found that are meant.
    fn precision(&self) -> f64 {
        self.both as f64 / (self.both + self.more).max(1) as f64
    }

    fn print(&self, name: &str) {
        let share = |of: usize| 100.0 * self.both as f64 / (of.max(1)) as f64;
        println!(
            "{name}: {} lines, precision {:.1} %, recall {:.1} %",
            self.both + self.missed,
            share(self.both + self.more),
            share(self.both + self.missed)
        );
    }
}

/// The folder of fail2ban's labelled logs, as `scripts/mail-clients` unpacks it or Debian installs it.
fn fail2ban_logs() -> Option<PathBuf> {
    let unpacked = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("mail-clients");
    let of = |root: PathBuf| root.join("usr/lib/python3/dist-packages/fail2ban/tests/files/logs");
    [unpacked, PathBuf::from("/")].into_iter().map(of).find(|logs| logs.join("sshd").exists())
}

#[test]
fn labels_of_fail2ban() {
    let Some(logs) = fail2ban_logs() else {
        println!("skipped: labelled lines of fail2ban: scripts/mail-clients has not unpacked its package");
        return;
    };
    let mut all = Agreement::default();
    for (file, preset) in OF_FAIL2BAN {
        let mut stream = settings(preset).open(TimeZone::UTC).expect("stream");
        let content = std::fs::read(logs.join(file)).expect("log");
        let content = String::from_utf8_lossy(&content);
        let mut agreement = Agreement::default();
        let mut label = None;
        for line in content.lines() {
            let comment = line.strip_prefix('#').map(|rest| rest.trim_start_matches('#').trim_start());
            if let Some(json) = comment.and_then(|comment| comment.strip_prefix("failJSON:")) {
                label = serde_json::from_str::<Value>(json).ok();
                continue;
            }
            if line.starts_with('#') || line.trim().is_empty() {
                continue;
            }
            let label = label.take().unwrap_or_default();
            let host = label["host"].as_str().unwrap_or_default();
            let is_meant = label["match"].as_bool().unwrap_or(false);
            // A name is no address, and not banned.
            if is_meant && host.parse::<std::net::IpAddr>().is_err() {
                continue;
            }
            let found = meaning(&mut stream, line).1.filter(|event| !text(event, "failure").is_empty());
            let found = found.map(|event| text(&event, "log.ip"));
            match (is_meant, found) {
                (true, Some(found)) if found == host => agreement.both += 1,
                (true, _) => {
                    agreement.missed += 1;
                    println!("{preset}: missed: {line}");
                }
                (false, Some(_)) => {
                    agreement.more += 1;
                    println!("{preset}: more: {line}");
                }
                (false, None) => {}
            }
        }
        agreement.print(&format!("{preset}, by fail2ban's `{file}`"));
        all.add(&agreement);
    }
    all.print("all of fail2ban's");
    assert!(all.both > 0 && all.precision() >= PRECISION_MIN, "{}", all.precision());
}

#[test]
fn labels_of_the_hub() {
    let Some(root) = corpora::folder("web/crowdsec-hub") else { return };
    let Some(tests) = [root.join("tests"), root.join(".tests")].into_iter().find(|tests| tests.is_dir())
    else {
        return;
    };
    let mut all = Agreement::default();
    for (folder, preset) in OF_THE_HUB {
        let folder = tests.join(folder);
        let Ok(asserted) = std::fs::read_to_string(folder.join("parser.assert")) else { continue };
        let logs = corpora::files(&folder)
            .into_iter()
            .filter(|path| path.extension().is_some_and(|end| end == "log"));
        // Addresses of lines that the last stage has, as often as it has them.
        let mut meant: BTreeMap<String, usize> = BTreeMap::new();
        for line in asserted.lines().filter(|line| line.contains("[\"s01-parse\"]")) {
            if let Some((_, value)) = line.split_once(".Evt.Meta[\"source_ip\"] == \"") {
                let value = value.trim_end_matches('"');
                *meant.entry(value.strip_prefix("::ffff:").unwrap_or(value).to_owned()).or_default() += 1;
            }
        }
        let mut stream = settings(preset).open(TimeZone::UTC).expect("stream");
        let mut agreement = Agreement::default();
        for path in logs {
            let content = std::fs::read(path).expect("log");
            for line in String::from_utf8_lossy(&content).lines() {
                let Some(event) = meaning(&mut stream, line).1 else { continue };
                if text(&event, "failure").is_empty() {
                    continue;
                }
                match meant.get_mut(&text(&event, "log.ip")).filter(|count| **count > 0) {
                    Some(count) => {
                        *count -= 1;
                        agreement.both += 1;
                    }
                    None => {
                        agreement.more += 1;
                        println!("{preset}: more: {line}");
                    }
                }
            }
        }
        agreement.missed = meant.values().sum();
        println!("{preset}: missed: {meant:?}");
        agreement
            .print(&format!("{preset}, by the hub's `{}`", folder.file_name().unwrap_or_default().display()));
        all.add(&agreement);
    }
    all.print("all of the hub's");
    assert!(all.both > 0 && all.precision() >= PRECISION_MIN, "{}", all.precision());
}
