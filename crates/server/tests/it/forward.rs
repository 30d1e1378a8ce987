//! What proxies ask before they hand a request on, as each of them asks, and through a real nginx.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{Answer, Running, answer, check_problem};
use crate::quotas::with_limits;

const SITE: &str = r#"
[[limit]]
name = "per_ip"
number = 1
key = ["client.ip:network"]
count = 2
per = "1m"

[[limit]]
name = "quiet"
number = 2
key = ["http.path", "client.ip"]
count = 1
per = "1m"
enforcement = "shadow_ban"

[[forward_auth]]
name = "site"
hops = ["127.0.0.0/8", "10.0.0.0/8"]
limits = ["per_ip"]

[[forward_auth]]
name = "quiet"
limits = ["quiet"]

[[forward_auth]]
name = "judged"
pipeline = "web"
refuse = 403

[[forward_auth]]
name = "elsewhere"
hops = ["192.0.2.0/24"]
limits = ["per_ip"]
"#;

fn ask(server: &Running, url: &str, headers: &[&str]) -> Answer {
    server.ask("GET", url, headers, b"")
}

#[test]
fn clients_are_told_apart_by_what_trusted_proxies_saw() {
    with_limits(SITE, |server| {
        let from = |list: &str| ask(server, "/v1/auth/site", &[&format!("X-Forwarded-For: {list}")]);
        let first = from("2001:db8::1, 10.0.0.1");
        assert_eq!((first.status, first.body.as_str()), (200, ""));
        assert_eq!(first.header("ratelimit"), Some("\"per_ip\";r=1;t=61"));
        // The same network, whatever the client itself has put before; and a browser's own token is not ours.
        let mine = [
            "X-Forwarded-For: 198.51.100.1, 2001:db8::2",
            "Authorization: Bearer of-the-client",
            "Host: example.org",
        ];
        assert_eq!(ask(server, "/v1/auth/site", &mine).status, 200);
        let refused = from("203.0.113.9, 2001:db8::3");
        assert_eq!(refused.status, 429);
        assert_eq!(refused.header("retry-after"), Some("61"));
        assert_eq!(refused.header("content-type"), Some("application/problem+json"));
        assert!(!refused.body.contains("per_ip"), "a client is told no more than that: {}", refused.body);
        assert_eq!(from("2001:db8:0:1::1").status, 200);

        check_problem(
            &ask(server, "/v1/auth/nowhere", &[]),
            404,
            "not-found",
            "no [[forward_auth]] `nowhere`",
        );
        check_problem(&ask(server, "/v1/auth/elsewhere", &[]), 403, "forbidden", "this address is no proxy");
    });
}

#[test]
fn a_silent_refusal_is_for_the_application_alone() {
    with_limits(SITE, |server| {
        // As Envoy asks, and as Traefik does.
        let envoy = || {
            ask(server, "/v1/auth/quiet/sign/up?a=b", &["X-Forwarded-For: 192.0.2.1", "Host: example.org"])
        };
        let first = envoy();
        let traefik = ask(
            server,
            "/v1/auth/quiet",
            &["X-Forwarded-For: 192.0.2.1", "X-Forwarded-Uri: /sign/up?c=d", "X-Forwarded-Method: POST"],
        );
        assert_eq!((first.status, first.header("tollhouse-silent")), (200, None));
        assert_eq!((traefik.status, traefik.header("tollhouse-silent")), (200, Some("1")));
        assert_eq!(first.header("ratelimit"), traefik.header("ratelimit"));
        assert_eq!(
            ask(server, "/v1/auth/quiet/", &["X-Forwarded-For: 192.0.2.1"]).header("tollhouse-silent"),
            None
        );
    });
}

#[test]
fn a_pipeline_can_decide() {
    with_limits(SITE, |server| {
        let about = |path: &str| {
            ask(
                server,
                "/v1/auth/judged",
                &["X-Forwarded-For: 192.0.2.7", "User-Agent: curl/8.0", &format!("X-Original-URI: {path}")],
            )
        };
        assert_eq!(about("/").status, 200);
        let answers: Vec<u16> = (0..40).map(|number| about(&format!("/.env?{number}")).status).collect();
        let decided = server.get("/metrics").body;
        assert!(decided.contains("tollhouse_judge_verdicts_total{pipeline=\"web\""), "{decided}");
        assert!(answers.iter().all(|status| [200, 401, 403].contains(status)), "{answers:?}");
    });
}

/// An nginx of its own; killed when it is dropped.
struct Nginx(Child);

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The configuration of docs/limits.md, in a folder of its own, before a site that nginx serves itself.
fn nginx(folder: &Path, port: u16, server: &Running) -> Option<Nginx> {
    let page = include_str!("../../../../docs/limits.md");
    let shown = page.split("```nginx\n").nth(1).and_then(|rest| rest.split("\n```").next());
    let shown = shown.expect("docs/limits.md shows how nginx asks");
    let shown = shown.replace("127.0.0.1:8377", &server.address.to_string());
    let shown = shown.replace("/v1/auth/site", "/v1/auth/site_nginx");
    let shown = shown.replace("proxy_pass http://app;", "root www;");
    let folder_text = folder.display();
    std::fs::create_dir_all(folder.join("www")).unwrap();
    std::fs::write(folder.join("www/page.txt"), "the page").unwrap();
    let config = format!(
        "daemon off;\nmaster_process off;\npid {folder_text}/pid;\nerror_log {folder_text}/error.log;\n\
         events {{}}\nhttp {{\naccess_log off;\nclient_body_temp_path {folder_text}/body;\n\
         proxy_temp_path {folder_text}/proxy;\nfastcgi_temp_path {folder_text}/fastcgi;\n\
         uwsgi_temp_path {folder_text}/uwsgi;\nscgi_temp_path {folder_text}/scgi;\n\
         server {{\nlisten 127.0.0.1:{port};\n{shown}\n}}\n}}\n"
    );
    std::fs::write(folder.join("nginx.conf"), config).unwrap();
    let child = Command::new("nginx")
        .args(["-p", folder.to_str()?, "-c", folder.join("nginx.conf").to_str()?])
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut nginx = Nginx(child);
    let until = Instant::now() + Duration::from_secs(30);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if nginx.0.try_wait().unwrap().is_some() || Instant::now() > until {
            let log = std::fs::read_to_string(folder.join("error.log")).unwrap_or_default();
            panic!("nginx does not serve: {log}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Some(nginx)
}

fn get(port: u16, path: &str, headers: &str) -> Answer {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    answer(&mut stream)
}

#[test]
fn nginx_asks_and_does_as_it_is_told() {
    let installed = Command::new("nginx").arg("-v").stderr(Stdio::null()).stdout(Stdio::null()).status();
    if !installed.is_ok_and(|status| status.success()) {
        println!("skipped: nginx is not installed");
        return;
    }
    let site =
        format!("{SITE}[[forward_auth]]\nname = \"site_nginx\"\nlimits = [\"per_ip\"]\nrefuse = 403\n");
    with_limits(&site, |server| {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let Some(_nginx) = nginx(folder.path(), port, server) else {
            println!("skipped: nginx could not be started");
            return;
        };
        for _ in 0..2 {
            let page = get(port, "/page.txt", "");
            assert_eq!((page.status, page.body.as_str()), (200, "the page"));
        }
        // What the client says of its address is not believed: the list's end is what nginx saw.
        let refused = get(port, "/page.txt", "X-Forwarded-For: 192.0.2.99\r\n");
        assert_eq!(refused.status, 429, "{}", refused.body);
        assert_eq!(refused.header("retry-after"), Some("61"));
        let metrics = server.get("/metrics").body;
        assert!(metrics.contains("tollhouse_limits_taken_total{limit=\"per_ip\",result=\"refused\"} 1"));
    });
}
