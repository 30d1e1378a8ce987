use std::path::Path;

use plan::{ClientCertificates, TlsVersion};
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};

use super::*;

/// 2026-05-17T10:00:00Z.
const NOW: Time = Time::from_seconds(1_779_012_000);

/// A certificate that is valid in these years, and its key.
fn pair(years: [i32; 2]) -> [String; 2] {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    (params.not_before, params.not_after) = (date_time_ymd(years[0], 1, 1), date_time_ymd(years[1], 1, 1));
    let key = KeyPair::generate().unwrap();
    [params.self_signed(&key).unwrap().pem(), key.serialize_pem()]
}

fn plan(directory: &Path) -> TlsPlan {
    TlsPlan {
        certificate: directory.join("a.pem"),
        key: directory.join("a.key"),
        clients: ClientCertificates::Ignored,
        client_crl: None,
        minimum: TlsVersion::V1_2,
    }
}

fn open(plan: &TlsPlan, metrics: &TlsMetrics) -> Result<TlsTerminator, TlsError> {
    let threads = Arc::new(HandshakeThreads::start().unwrap());
    let settings = TlsSettings {
        listener: "l",
        plan,
        protocols: HTTP_1,
        connections_max: 100,
        timeout: Duration::from_secs(10),
    };
    TlsTerminator::open(settings, threads, metrics, NOW)
}

fn write(directory: &Path, pair: &[String; 2]) {
    std::fs::write(directory.join("a.pem"), &pair[0]).unwrap();
    std::fs::write(directory.join("a.key"), &pair[1]).unwrap();
}

#[track_caller]
fn check(pair: [&str; 2], authorities: Option<&str>, expected: Option<&str>) {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), &pair.map(str::to_owned));
    let mut plan = plan(directory.path());
    if let Some(authorities) = authorities {
        let path = directory.path().join("ca.pem");
        std::fs::write(&path, authorities).unwrap();
        plan.clients = ClientCertificates::Required(path);
    }
    match (open(&plan, &TlsMetrics::default()), expected) {
        (Ok(_), None) => {}
        (Err(error), Some(part)) => {
            let text = error.to_string().replace(&directory.path().display().to_string(), "");
            assert!(text.contains(part), "{text} does not contain {part}");
        }
        (opened, expected) => panic!("{expected:?}, but {opened:?}"),
    }
}

#[test]
fn what_cannot_be_used_is_said() {
    let [certificate, key] = pair([2020, 2030]);
    let [other, _] = pair([2020, 2030]);
    let chain = format!("{certificate}{other}");
    check([&certificate, &key], None, None);
    check([&chain, &key], None, None);
    // A certificate and its key may be one file, and text between them is passed over.
    check([&format!("about\n{key}\n{certificate}"), &key], None, None);
    check([&certificate, &key], Some(&chain), None);
    check(
        [&format!("{other}{certificate}"), &key],
        None,
        Some("/a.key: the key does not match the certificate in /a.pem"),
    );
    check([&key, &key], None, Some("/a.pem: no certificate is in it"));
    check([&certificate, &certificate], None, Some("/a.key: no private key is in it"));
    check([&certificate, ""], None, Some("/a.key: no private key is in it"));
    let cut = &certificate[..certificate.len() / 2];
    check([cut, &key], None, Some("/a.pem: this is no PEM"));
    let damaged = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    check([damaged, &key], None, Some("/a.pem: the certificate cannot be used: its time cannot be read"));
    let damaged = "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n";
    check([&certificate, damaged], None, Some("/a.key: the key cannot be used"));
    check([&certificate, &key], Some(""), Some("/ca.pem: no certificate is in it"));
    // One that is not valid is shown all the same where there is no other.
    let expired = pair([2020, 2021]);
    check([&expired[0], &expired[1]], None, None);

    let directory = tempfile::tempdir().unwrap();
    let missing = open(&plan(directory.path()), &TlsMetrics::default()).unwrap_err().to_string();
    assert!(
        missing.contains("/a.pem: No such file") && missing.contains("beside the configuration"),
        "{missing}"
    );
    std::fs::write(directory.path().join("a.pem"), vec![b'\n'; (4 << 20) + 1]).unwrap();
    let long = open(&plan(directory.path()), &TlsMetrics::default()).unwrap_err().to_string();
    assert!(long.contains("it is longer than 4194304 bytes"), "{long}");
}

/// Checks that a renewal is taken over once it is whole and good, and that nothing else is.
#[test]
fn renewals_are_taken_over_whole() {
    let directory = tempfile::tempdir().unwrap();
    let [first, second, third] = [2030, 2031, 2032].map(|year| pair([2020, year]));
    write(directory.path(), &first);
    let mut registry = Registry::default();
    let metrics = TlsMetrics::new(&mut registry);
    let tls = open(&plan(directory.path()), &metrics).unwrap();
    let look = || tls.renew(NOW, false);
    let year = || tls.current.read().validity.not_after.to_string()[..4].parse::<i32>().unwrap();
    let page = || {
        let mut page = String::new();
        text::encode(&mut page, &registry).unwrap();
        page
    };
    assert_eq!((year(), tls.fault(NOW)), (2030, None));

    // Half of a change is waited for.
    std::fs::write(directory.path().join("a.pem"), &second[0]).unwrap();
    look();
    std::fs::write(directory.path().join("a.key"), &second[1]).unwrap();
    look();
    assert_eq!((year(), tls.fault(NOW)), (2030, None));
    look();
    assert_eq!((year(), tls.fault(NOW)), (2031, None));

    // One that stays half is said, once, and mended as soon as it is whole.
    std::fs::write(directory.path().join("a.pem"), &third[0]).unwrap();
    (0..5).for_each(|_| look());
    assert_eq!(year(), 2031);
    assert!(tls.fault(NOW).unwrap().contains("the key does not match"), "{:?}", tls.fault(NOW));
    assert!(
        page().contains("tollhouse_tls_reloads_total{listener=\"l\",result=\"failed\"} 1\n"),
        "{}",
        page()
    );
    std::fs::write(directory.path().join("a.key"), &third[1]).unwrap();
    (0..2).for_each(|_| look());
    assert_eq!((year(), tls.fault(NOW)), (2032, None));

    // A signal does not wait for a second look.
    write(directory.path(), &first);
    tls.renew(NOW, true);
    assert_eq!(year(), 2030);
    // Files that are gone, or not valid, leave what is in use.
    std::fs::remove_file(directory.path().join("a.key")).unwrap();
    (0..2).for_each(|_| look());
    assert!(tls.fault(NOW).unwrap().contains("a.key: No such file"), "{:?}", tls.fault(NOW));
    for (years, part) in [([2020, 2021], "expired at 2021-01-01"), ([2028, 2030], "is valid from 2028-01-01")]
    {
        write(directory.path(), &pair(years));
        (0..2).for_each(|_| look());
        assert!(tls.fault(NOW).unwrap().contains(part), "{:?}", tls.fault(NOW));
    }
    assert_eq!(year(), 2030);
    write(directory.path(), &first);
    look();
    assert_eq!(tls.fault(NOW), None);
    // What is in use expires in its time.
    let later = Time::from_seconds(4_000_000_000);
    assert!(
        tls.fault(later).unwrap().contains("the certificate expired at 2030-01-01"),
        "{:?}",
        tls.fault(later)
    );
    assert!(
        page()
            .contains("tollhouse_tls_certificate_expiration_timestamp_seconds{listener=\"l\"} 1893456000\n"),
        "{}",
        page()
    );
}
