//! Packages, and what service managers expect of a server: `packaging/`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::follow::Ends;
use crate::program::{Data, PROGRAM, Server, run, run_with};
use crate::python::python;
use crate::servers::{Cluster, module};

fn packaging(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(path)
}

/// Longest time for what a server says or does by itself; only a failure takes it.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_service_manager_hears_when_it_serves_lives_and_stops() {
    let data = Data::new(&["mail"]);
    let path = data.path().parent().unwrap().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let variables = [("NOTIFY_SOCKET", path.display().to_string()), ("WATCHDOG_USEC", "300000".to_owned())];
    let variables = variables.map(|(name, value)| (name.to_owned(), value));
    let server = Server::start_in(&data.path(), &variables, &[]);
    let next = || {
        let mut bytes = [0; 500];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    };
    assert_eq!(next(), format!("READY=1\nSTATUS=serving on {}", server.url));
    for _ in 0..3 {
        assert_eq!(next(), "WATCHDOG=1");
    }
    assert_eq!(server.end(Signal::TERM), Some(0));
    let said: Vec<String> =
        std::iter::repeat_with(next).find(|said| said.starts_with("STOPPING=1")).into_iter().collect();
    assert_eq!(said.len(), 1);
}

/// A call over a connection of its own.
fn is_answered(address: SocketAddr) -> bool {
    let call = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    call().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200 "))
}

#[test]
fn no_connection_is_refused_while_one_server_follows_another_on_a_socket() {
    let data = Data::new(&["mail"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut server = Server::start_on(&listener, &data.path(), &[]);
    let (answered, refused, over) =
        (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let clients: Vec<_> = (0..2)
        .map(|_| {
            let (answered, refused, over) = (Arc::clone(&answered), Arc::clone(&refused), Arc::clone(&over));
            thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let count = if is_answered(address) { &answered } else { &refused };
                    count.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let wait_for_more = || {
        let before = answered.load(Ordering::Relaxed);
        while answered.load(Ordering::Relaxed) < before + 20 && refused.load(Ordering::Relaxed) == 0 {
            thread::sleep(Duration::from_millis(1));
        }
    };
    for _ in 0..2 {
        wait_for_more();
        assert_eq!(server.end(Signal::TERM), Some(0));
        server = Server::start_on(&listener, &data.path(), &[]);
    }
    wait_for_more();
    over.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|client| client.join().unwrap());
    assert_eq!(refused.load(Ordering::Relaxed), 0, "of {} calls", answered.load(Ordering::Relaxed));
    assert_eq!(server.url, format!("http://{address}"));
    assert_eq!(server.end(Signal::TERM), Some(0));
}

#[test]
fn health_is_asked_for_by_a_command() {
    let data = Data::new(&["mail"]);
    let server = Server::start(&data.path(), &[]);
    assert_eq!(run(["health", "--server", &server.url], "").expect(0).stdout, "ok\n");
    let said = run(["health", "--json", "--server", &server.url], "").expect(0).json().remove(0);
    assert_eq!(said["status"], "ok");
    let url = server.url.clone();
    assert_eq!(server.end(Signal::TERM), Some(0));
    run(["health", "--server", &url], "").expect(2);
}

#[test]
fn a_directory_may_have_its_configuration_elsewhere_and_its_settings_from_credentials() {
    let data = Data::new(&["mail"]);
    let folder = data.path().parent().unwrap().to_path_buf();
    let bare = folder.join("bare");
    let init = ["init", "--secret-only", "--data", bare.to_str().unwrap()];
    run(init, "").expect(0);
    let secret = std::fs::read(bare.join("secret")).unwrap();
    run(init, "").expect(0);
    assert_eq!(std::fs::read(bare.join("secret")).unwrap(), secret, "a secret is never replaced");
    let other = data.path().join("secret");
    let refused = run(init.into_iter().chain(["--secret", other.to_str().unwrap()]), "").expect(2);
    assert!(refused.stderr.contains("another secret"), "{}", refused.stderr);

    let credentials = folder.join("credentials");
    std::fs::create_dir(&credentials).unwrap();
    let token = "a-token-of-a-credential";
    std::fs::write(credentials.join("TOLLHOUSE_SERVER_TOKENS"), format!("[\"{token}\"]\n")).unwrap();
    let variables = [("CREDENTIALS_DIRECTORY".to_owned(), credentials.display().to_string())];
    let config = data.path().join("tollhouse.toml");
    let server = Server::start_in(&bare, &variables, &["--config", config.to_str().unwrap()]);
    run(["top", "from", "--server", &server.url], "").expect(2);
    run(["top", "from", "--server", &server.url, "--token", token], "").expect(0);
    assert_eq!(server.end(Signal::TERM), Some(0));
}

/// Returns the output of a program, or says that something was skipped as it is not there.
fn output(program: &str, args: &[&str], purpose: &str) -> Option<Output> {
    match Command::new(program).args(args).output() {
        Ok(output) => Some(output),
        Err(error) => {
            println!("skipped: {purpose}: {program}: {error}");
            None
        }
    }
}

#[test]
fn the_units_are_valid_and_their_sandbox_is_tight() {
    let unit = packaging("deb/systemd/tollhouse.service").display().to_string();
    let args = ["security", "--offline=yes", "--no-pager", "--threshold=15", &unit];
    let Some(ran) = output("systemd-analyze", &args, "the exposure of the unit") else { return };
    let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && said.contains("Overall exposure level"), "{said}");
    // The program is where packages put it, so it is missing here; nothing else may be.
    let socket = packaging("deb/systemd/tollhouse.socket").display().to_string();
    let ran = output("systemd-analyze", &["verify", "--man=no", &unit, &socket], "the units").unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    let others: Vec<&str> = said
        .lines()
        .filter(|line| !line.is_empty() && !line.contains("/usr/bin/tollhouse is not executable"))
        .collect();
    assert_eq!(others, Vec::<&str>::new());
}

/// Builds the Debian package of this program under a version into a folder.
fn debian_package(folder: &Path, version: &str) -> Option<PathBuf> {
    let program = packaging("deb/build").display().to_string();
    let folder = folder.display().to_string();
    output("dpkg-deb", &["--version"], "the Debian package")?;
    let module = module().map(|module| module.display().to_string());
    let mut args = vec!["--version", version, "--compress", "none"];
    module.iter().for_each(|module| args.extend(["--module", module.as_str()]));
    args.extend([PROGRAM, &folder]);
    let ran = output(&program, &args, "the Debian package")?;
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    Some(PathBuf::from(String::from_utf8(ran.stdout).unwrap().trim()))
}

#[test]
fn the_debian_package_is_installed_started_upgraded_and_purged() {
    let folder = tempfile::tempdir().unwrap();
    let Some(first) = debian_package(folder.path(), "0.1.0") else { return };
    let again = tempfile::tempdir().unwrap();
    let same = debian_package(again.path(), "0.1.0").unwrap();
    let is_same = Command::new("cmp").args([&first, &same]).status().unwrap().success();
    assert!(is_same, "the same program makes the same package");
    drop(again);
    let next = debian_package(folder.path(), "0.1.0+next").unwrap();
    check("deb/check", &[&first, &next]);
}

#[test]
fn the_debian_package_has_a_module_that_servers_load() {
    let folder = tempfile::tempdir().unwrap();
    let Some(package) = debian_package(folder.path(), "0.1.0") else { return };
    if module().is_none() {
        println!(
            "skipped: the module in the Debian package: it is built for systems with shared objects only"
        );
        return;
    }
    let tree = folder.path().join("tree");
    let taken = Command::new("dpkg-deb").arg("-x").args([&package, &tree]).status().unwrap();
    assert!(taken.success());
    let file = tree.join("usr/lib/tollhouse/libtollhouse_module.so").display().to_string();
    let Some(cluster) = Cluster::single(&["--loadmodule", &file]) else { return };
    let loaded = cluster.servers[0].cli(&["MODULE", "LIST"]);
    assert!(loaded.contains("tollhouse") && loaded.contains(&file), "{loaded}");
}

/// Runs a script of `packaging`; one that ends with 77 has said what it skipped.
fn check(script: &str, args: &[&Path]) {
    let ran = Command::new(packaging(script)).args(args).output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    println!("{said}");
    assert!(ran.status.success() || ran.status.code() == Some(77), "{script}: {said}{errors}");
}

#[test]
fn an_image_is_the_same_each_time_and_starts_without_an_engine() {
    if output("python3", &["--version"], "the image").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let index = |name: &str| {
        let layout = folder.path().join(name);
        let build = Command::new(packaging("oci/build"))
            .args(["--compress", "none", PROGRAM])
            .arg(&layout)
            .output()
            .unwrap();
        assert!(build.status.success(), "{}", String::from_utf8_lossy(&build.stderr));
        std::fs::read_to_string(layout.join("index.json")).unwrap()
    };
    assert_eq!(index("image"), index("again"));
    std::fs::remove_dir_all(folder.path().join("again")).unwrap();
    check("oci/check", &[&folder.path().join("image")]);
}

#[test]
fn the_chart_renders_to_what_kubernetes_takes() {
    let purpose = "the Helm chart against the schemas of Kubernetes";
    let wanted = ["helm-python-sdk==0.2.2", "kubernetes-validate==1.37.0"];
    let Some(python) = python("kubernetes", &wanted, purpose) else { return };
    let ran = Command::new(python).arg(packaging("kubernetes/check")).output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{said}{errors}");
    println!("{said}");
}

/// The configurations that are shipped beside images and charts, with the token that they are given from outside.
#[test]
fn the_shipped_configurations_are_taken() {
    let variables = [("TOLLHOUSE_SERVER_TOKENS".to_owned(), "[\"a-token-of-sixteen\"]".to_owned())];
    for file in ["compose/tollhouse.toml", "compose/mail.toml"] {
        let path = packaging(file).display().to_string();
        let checked = run_with(&variables, &["config", "check", &path]);
        assert_eq!(checked.code, 0, "{file}: {}{}", checked.stdout, checked.stderr);
        let checked = run_with(&[], &["config", "check", &path]);
        assert!(
            checked.code != 0 && checked.stderr.contains("no token"),
            "{file} is for nobody without a token"
        );
    }
}

/// The proxy of the compose file in front of its node, at other addresses.
#[test]
fn the_proxy_of_the_compose_file_asks_its_node() {
    if output("nginx", &["-v"], "the proxy of the compose file").is_none() {
        return;
    }
    let data = Data::new(&["web"]);
    let folder = data.path().parent().unwrap().to_path_buf();
    let variables = [("TOLLHOUSE_SERVER_TOKENS".to_owned(), "[\"a-token-of-sixteen\"]".to_owned())];
    let config = std::fs::read_to_string(packaging("compose/tollhouse.toml")).unwrap();
    let config = config.replace("count = 1200", "count = 3").replace("\"10.0.0.0/8\"", "\"127.0.0.0/8\"");
    let config = data.file("compose.toml", &config);
    let server = Server::start_in(&data.path(), &variables, &["--config", &config]);
    let socket = folder.join("site");
    let site = std::fs::read_to_string(packaging("compose/nginx.conf")).unwrap();
    let site = site
        .replace("tollhouse:8377", server.url.trim_start_matches("http://"))
        .replace("listen 80;", &format!("listen unix:{};", socket.display()))
        // The node need not be in a hurry here.
        .replace("250ms", "60s")
        // Clients of a unix socket have no address.
        .replace("$remote_addr", "192.0.2.1");
    let path = folder.display();
    let text = format!(
        "pid {path}/pid;\nerror_log {path}/error.log;\nevents {{}}\nhttp {{\naccess_log off;\nclient_body_temp_path {path}/body;\n\
         proxy_temp_path {path}/proxy;\nfastcgi_temp_path {path}/fastcgi;\nuwsgi_temp_path {path}/uwsgi;\nscgi_temp_path {path}/scgi;\n{site}}}\n"
    );
    let text = data.file("nginx.conf", &text);
    // One process: a worker would outlive a master that is killed.
    let mut nginx = Ends(
        Command::new("nginx").args(["-c", &text, "-g", "daemon off; master_process off;"]).spawn().unwrap(),
    );
    while UnixStream::connect(&socket).is_err() {
        assert!(
            nginx.0.try_wait().unwrap().is_none(),
            "{}",
            std::fs::read_to_string(folder.join("error.log")).unwrap()
        );
        thread::sleep(Duration::from_millis(5));
    }
    let ask = || {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
    };
    let answers: Vec<u16> = (0..5).map(|_| ask()).collect();
    assert_eq!(answers, [200, 200, 200, 429, 429]);
    assert_eq!(server.end(Signal::TERM), Some(0));
    assert_eq!(ask(), 200, "without its node the site goes on");
}

/// `promtool`, installed or unpacked.
fn promtool() -> Option<PathBuf> {
    let unpacked = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("mail-clients/usr/bin/promtool");
    let found = [PathBuf::from("/usr/bin/promtool"), unpacked].into_iter().find(|path| path.exists());
    if found.is_none() {
        println!("skipped: promtool is not installed, and scripts/mail-clients has not unpacked it");
    }
    found
}

#[test]
fn each_alert_is_raised_by_what_it_is_for_and_by_nothing_else() {
    let Some(promtool) = promtool() else { return };
    for [what, file] in [["check", "tollhouse.rules.yml"], ["test", "tollhouse.test.yml"]] {
        let ran = Command::new(&promtool)
            .args([what, "rules", file])
            .current_dir(packaging("prometheus"))
            .output()
            .unwrap();
        let (said, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success(), "{said}{errors}");
    }
}

#[test]
fn the_bill_of_materials_names_every_crate_with_its_licence() {
    if output("python3", &["--version"], "the bill of materials").is_none() {
        return;
    }
    let ran = Command::new(packaging("sbom")).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let bill: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let parts = bill["components"].as_array().unwrap();
    for name in ["tollhouse-engine", "serde", "rustls"] {
        assert!(parts.iter().any(|part| part["name"] == name), "{name} is missing");
    }
    for part in parts {
        let name = part["name"].as_str().unwrap();
        assert!(part["licenses"][0]["expression"].is_string(), "{name} has no licence");
        assert!(part["hashes"].is_array() || name.starts_with("tollhouse-"), "{name} has no checksum");
        assert!(name != "proptest", "tests are no part of it");
    }
}

/// The script that starts a cluster to try takes no other program's port, and no other Redis for its own.
#[test]
fn the_cluster_script_says_when_a_port_is_taken() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/cluster");
    let directory = tempfile::tempdir().unwrap();
    // Of the ports between servers, too, which are 10,000 above.
    let is_fit = |listener: &TcpListener| (12_000..50_000).contains(&listener.local_addr().unwrap().port());
    let bound = std::iter::repeat_with(|| TcpListener::bind("127.0.0.1:0").unwrap());
    let held: Vec<TcpListener> = bound.take(100).collect();
    let listener = held.iter().find(|listener| is_fit(listener)).expect("a port far from the end");
    let taken = listener.local_addr().unwrap().port();
    for (order, first) in [(vec!["up"], taken - 2), (vec!["up"], taken - 10_003), (vec!["start", "0"], taken)]
    {
        let mut command = Command::new(&script);
        command.args(&order).env("PORT", first.to_string()).env("DIRECTORY", directory.path());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{order:?}: {said}");
        assert!(
            said.contains("another program has port") && said.contains(&taken.to_string()),
            "{order:?}: {said}"
        );
        let started = std::fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(started, 0, "{order:?}: nothing is started beside it");
    }
}
