//! HTTPS between the program's commands and its server.

use std::net::TcpListener;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustix::process::Signal;

use crate::program::{Data, MESSAGE, Server, run, run_with};

/// An authority, which certificates of the own host are issued by.
pub(crate) struct HostAuthority(Issuer<'static, KeyPair>);

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl HostAuthority {
    /// Makes one, whose own certificate is the file `NAME.ca` beside the data directory.
    pub(crate) fn new(data: &Data, name: &str) -> HostAuthority {
        let (mut params, key) = (named(name), KeyPair::generate().unwrap());
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        data.file(&format!("{name}.ca"), &params.self_signed(&key).unwrap().pem());
        HostAuthority(Issuer::new(params, key))
    }

    /// Writes `NAME.pem` and `NAME.key` into a directory.
    pub(crate) fn issue(&self, directory: &Path, name: &str) {
        let key = KeyPair::generate().unwrap();
        let certificate = named(name).signed_by(&key, &self.0).unwrap();
        std::fs::write(directory.join(format!("{name}.pem")), certificate.pem()).unwrap();
        std::fs::write(directory.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }
}

/// Lets the configuration of a data directory say that HTTP is in TLS.
fn configure(data: &Data, more: &str) {
    let path = data.path().join("tollhouse.toml");
    let made = std::fs::read_to_string(&path).unwrap();
    let tls = format!("[server]\ntls = {{ certificate = \"server.pem\", key = \"server.key\"{more} }}\n");
    std::fs::write(&path, made.replace("[server]\n", &tls)).unwrap();
}

#[test]
fn commands_ask_over_tls() {
    let data = Data::new(&["mail"]);
    let authority = HostAuthority::new(&data, "authority");
    authority.issue(&data.path(), "server");
    configure(&data, "");
    let server = Server::start(&data.path(), &[]);
    assert!(server.url.starts_with("https://127.0.0.1:"), "{}", server.url);
    let ca = data.file("unused", "").replace("unused", "authority.ca");
    run(["health", "--server", &server.url, "--ca", &ca], "").expect(0);
    let by_name = server.url.replace("127.0.0.1", "localhost");
    let judged = run(["check", "--json", "-", "--server", &by_name, "--ca", &ca], MESSAGE).expect(0);
    assert!(judged.json()[0]["id"].is_string());
    run_with(&[("TOLLHOUSE_CA".to_owned(), ca.clone())], &["health", "--server", &server.url]).expect(0);
    // The variable is no setting of a server.
    run_with(
        &[("TOLLHOUSE_CA".to_owned(), ca.clone())],
        &["config", "check", "--data", &data.path().display().to_string()],
    )
    .expect(0);
    for (arguments, part) in [
        (vec!["health", "--server", &server.url], "--ca"),
        (vec!["health", "--server", &server.url.replace("https", "http")], "is a server running there?"),
        (
            vec!["health", "--server", &server.url, "--ca", "/nowhere/ca.pem"],
            "--ca /nowhere/ca.pem: No such file",
        ),
        (
            vec!["health", "--server", &server.url, "--ca", &ca.replace("authority.ca", "unused")],
            "no certificate is in it",
        ),
        (vec!["health", "--server", &server.url, "--client-cert", &ca], "--client-key"),
    ] {
        let ran = run(&arguments, "").expect(2);
        assert!(ran.stderr.contains(part), "{arguments:?}: {}", ran.stderr);
    }
    assert_eq!(server.end(Signal::TERM), Some(0));
}

#[test]
fn a_signal_renews_certificates_and_authorities() {
    let data = Data::new(&["mail"]);
    let [first, second] = ["first", "second"].map(|name| HostAuthority::new(&data, name));
    first.issue(&data.path(), "server");
    let at = |name: &str| data.path().with_file_name(name).display().to_string();
    std::fs::copy(at("first.ca"), data.path().join("clients.pem")).unwrap();
    configure(&data, ", client_ca = \"clients.pem\"");
    let server = Server::start(&data.path(), &["--set", "node.watch=off"]);
    let parent = data.path().parent().unwrap().to_path_buf();
    first.issue(&parent, "ann");
    second.issue(&parent, "eve");
    let ask = |authority: &str, who: &str| {
        let (ca, certificate, key) =
            (at(&format!("{authority}.ca")), at(&format!("{who}.pem")), at(&format!("{who}.key")));
        let own = ["--ca", &ca, "--client-cert", &certificate, "--client-key", &key];
        run([&["health", "--server", &server.url][..], &own].concat(), "").code
    };
    assert_eq!((ask("first", "ann"), ask("first", "eve"), ask("second", "ann")), (0, 2, 2));
    run(["health", "--server", &server.url, "--ca", &at("first.ca")], "").expect(2);

    // All that is in the files is another's now.
    second.issue(&data.path(), "server");
    std::fs::copy(at("second.ca"), data.path().join("clients.pem")).unwrap();
    server.signal(Signal::HUP);
    let deadline = Instant::now() + Duration::from_secs(60);
    while ask("second", "eve") != 0 {
        assert!(Instant::now() < deadline, "{}", server.said());
        sleep(Duration::from_millis(50));
    }
    assert_eq!((ask("second", "ann"), ask("first", "eve")), (2, 2));
    assert_eq!(server.end(Signal::TERM), Some(0));
}

#[test]
fn what_does_not_fit_is_said_at_the_start() {
    let data = Data::new(&["mail"]);
    let authority = HostAuthority::new(&data, "authority");
    configure(&data, "");
    let ran = data.run(&["serve", "--listen", "127.0.0.1:0"], "").expect(2);
    assert!(ran.stderr.contains("server.pem: No such file"), "{}", ran.stderr);
    authority.issue(&data.path(), "server");
    authority.issue(&data.path(), "other");
    std::fs::rename(data.path().join("other.key"), data.path().join("server.key")).unwrap();
    let ran = data.run(&["serve", "--listen", "127.0.0.1:0"], "").expect(2);
    assert!(ran.stderr.contains("TLS of listener `http`"), "{}", ran.stderr);
    assert!(ran.stderr.contains("server.key: the key does not match the certificate in"), "{}", ran.stderr);
    // Settings that cannot be are refused by the check of the configuration.
    let data = Data::new(&["mail"]);
    for (settings, part) in [
        (&["server.tls={ certificate = \"a.pem\" }"][..], "`tls` has no `key`"),
        (
            &["server.tls={ certificate = \"a.pem\", key = \"a.key\", client_certificates = \"optional\" }"],
            "add `client_ca`",
        ),
        (
            &["server.tls={ certificate = \"a.pem\", key = \"a.key\", minimum = \"1.1\" }"],
            "expected one of: 1.2, 1.3",
        ),
        (
            &[
                "listener.m.protocol=milter",
                "listener.m.listen=127.0.0.1:0",
                "listener.m.tls={ certificate = \"a.pem\", key = \"a.key\" }",
            ],
            "`tls` does nothing where `protocol` is `milter`",
        ),
    ] {
        let mut arguments = vec!["config", "check"];
        settings.iter().for_each(|setting| arguments.extend(["--set", setting]));
        let ran = data.run(&arguments, "");
        let told = format!("{}{}", ran.stdout, ran.stderr);
        assert!(ran.code != 0 && told.contains(part), "{settings:?} {}: {told}", ran.code);
    }
}

/// Checks that a socket which a service manager keeps open serves TLS from one server to the next, and turns nobody away.
#[test]
fn a_socket_that_is_handed_over_serves_tls() {
    let data = Data::new(&["mail"]);
    let authority = HostAuthority::new(&data, "authority");
    authority.issue(&data.path(), "server");
    configure(&data, "");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let ca = data.path().with_file_name("authority.ca").display().to_string();
    let mut server = Some(Server::start_on(&listener, &data.path(), &[]));
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| {
            (0..20).for_each(|_| _ = run(["check", "-", "--server", &url, "--ca", &ca], MESSAGE).expect(0));
        });
        for _ in 0..2 {
            assert_eq!(server.take().unwrap().end(Signal::TERM), Some(0));
            server = Some(Server::start_on(&listener, &data.path(), &[]));
        }
        asked.join().unwrap();
    });
}
