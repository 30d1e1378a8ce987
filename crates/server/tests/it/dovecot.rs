//! A real Dovecot, started by the test: mail that is moved to Junk or out of it is feedback, and Sieve files what is tagged.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{MAIL, MESSAGE, NOBODY, TestServer, is_root, obedient, start};
use crate::ports::free_port;

/// Long enough never to matter where Dovecot works.
const PATIENCE: Duration = Duration::from_secs(60);

/// The client's address in [`received`]: only the decision knows it.
const CLIENT: &str = "11.22.33.44";

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/dovecot").join(name)
}

struct Dovecot {
    directory: tempfile::TempDir,
    port: u16,
    master: Child,
}

impl Dovecot {
    /// Starts one with the shipped scripts and settings, whose reports go to this address.
    fn start(reports: &str) -> Dovecot {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        std::fs::set_permissions(root, std::fs::Permissions::from_mode(0o755)).unwrap();
        for folder in ["run", "home", "sieve", "sieve-pipe"] {
            std::fs::create_dir(root.join(folder)).unwrap();
        }
        chown(root.join("home"), Some(NOBODY), Some(NOBODY)).unwrap();
        std::fs::copy(example("tollhouse-report"), root.join("sieve-pipe/tollhouse-report")).unwrap();
        std::fs::write(root.join("sieve-pipe/tollhouse-report.conf"), format!("url={reports}\n")).unwrap();
        let port = free_port();
        let at = root.display();
        let shipped = std::fs::read_to_string(example("90-tollhouse.conf")).unwrap();
        let shipped = shipped.replace("/usr/local/lib/tollhouse", &at.to_string());
        assert!(shipped.contains(&format!("file:{at}/sieve/report-ham.sieve")), "{shipped}");
        let config = format!(
            "base_dir = {at}/run\nstate_dir = {at}/run\nlog_path = {at}/log\nprotocols = imap\nlisten = 127.0.0.1\nssl = no\n\
             disable_plaintext_auth = no\nfirst_valid_uid = 1\nmail_location = maildir:~/Maildir\n\
             mail_uid = {NOBODY}\nmail_gid = {NOBODY}\nmail_home = {at}/home/%u\n\
             passdb {{\n  driver = static\n  args = password=secret\n}}\n\
             userdb {{\n  driver = static\n  args = uid={NOBODY} gid={NOBODY} home={at}/home/%u\n}}\n\
             service imap-login {{\n  inet_listener imap {{\n    port = {port}\n  }}\n  inet_listener imaps {{\n    port = 0\n  }}\n}}\n\
             namespace inbox {{\n  inbox = yes\n  mailbox Junk {{\n    auto = create\n  }}\n  mailbox Trash {{\n    auto = create\n  }}\n}}\n\
             {shipped}"
        );
        std::fs::write(root.join("dovecot.conf"), config).unwrap();
        for script in ["report-spam.sieve", "report-ham.sieve", "file-spam.sieve"] {
            std::fs::copy(example(script), root.join("sieve").join(script)).unwrap();
            let compiled = Command::new("sievec")
                .args(["-x", "+vnd.dovecot.pipe +imapsieve", "-c"])
                .arg(root.join("dovecot.conf"))
                .arg(root.join("sieve").join(script))
                .output()
                .unwrap();
            assert!(compiled.status.success(), "{script}: {}", String::from_utf8_lossy(&compiled.stderr));
        }
        let config = root.join("dovecot.conf");
        let master = Command::new("dovecot").arg("-F").arg("-c").arg(config).stdin(Stdio::null()).spawn();
        Dovecot { port, master: master.unwrap(), directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// The folder that the shipped script files a message to, which is what Sieve's own test program says.
    fn filed(&self, message: &str) -> String {
        let file = self.path("message");
        std::fs::write(&file, message).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        let mut tested = Command::new("sieve-test");
        tested.arg("-c").arg(self.path("dovecot.conf"));
        let tested = tested.arg(self.path("sieve/file-spam.sieve")).arg(&file).output().unwrap();
        let told = String::from_utf8_lossy(&tested.stdout).into_owned();
        assert!(tested.status.success(), "{told}{}", String::from_utf8_lossy(&tested.stderr));
        let folder = told.lines().find_map(|line| line.trim().strip_prefix("* store message in folder: "));
        folder.unwrap_or_else(|| panic!("{told}")).to_owned()
    }
}

impl Drop for Dovecot {
    fn drop(&mut self) {
        let _ = Command::new("doveadm").arg("-c").arg(self.path("dovecot.conf")).arg("stop").output();
        let started = Instant::now();
        while matches!(self.master.try_wait(), Ok(None)) {
            if started.elapsed() > PATIENCE {
                let _ = self.master.kill();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A mail program.
struct Imap {
    reader: BufReader<TcpStream>,
    said: usize,
}

impl Imap {
    fn log_in(dovecot: &Dovecot, user: &str) -> Imap {
        let started = Instant::now();
        let stream = loop {
            match TcpStream::connect(("127.0.0.1", dovecot.port)) {
                Ok(stream) => break stream,
                Err(error) => assert!(started.elapsed() < PATIENCE, "{error}: {}", dovecot.log()),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut imap = Imap { reader: BufReader::new(stream), said: 0 };
        imap.line();
        imap.say(&format!("LOGIN {user} secret"));
        imap
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.reader.read_line(&mut line).unwrap() > 0, "the connection was closed");
        line
    }

    /// Gives a command and returns what comes before its answer, which must be a good one.
    fn say(&mut self, command: &str) -> String {
        self.said += 1;
        let tag = format!("a{} ", self.said);
        self.reader.get_mut().write_all(format!("{tag}{command}\r\n").as_bytes()).unwrap();
        let mut told = String::new();
        loop {
            let line = self.line();
            if let Some(answer) = line.strip_prefix(&tag) {
                assert!(answer.starts_with("OK"), "{command}: {answer}");
                return told;
            }
            told += &line;
        }
    }

    /// Puts a message into a folder, alone.
    fn put(&mut self, folder: &str, message: &str) {
        self.say(&format!("SELECT {folder}"));
        self.say(r"UID STORE 1:* +FLAGS (\Deleted)");
        self.say("EXPUNGE");
        self.said += 1;
        let command = format!("a{} APPEND {folder} {{{}}}\r\n", self.said, message.len());
        self.reader.get_mut().write_all(command.as_bytes()).unwrap();
        assert!(self.line().starts_with('+'));
        self.reader.get_mut().write_all(format!("{message}\r\n").as_bytes()).unwrap();
        while !self.line().starts_with(&format!("a{} OK", self.said)) {}
    }

    /// Moves the only message of a folder to another.
    fn carry(&mut self, from: &str, to: &str) {
        self.say(&format!("SELECT {from}"));
        self.say(&format!("MOVE 1 {to}"));
        assert!(self.say(&format!("STATUS {from} (MESSAGES)")).contains("(MESSAGES 0)"));
    }
}

/// Returns true if Dovecot is there and may be started.
fn can_run() -> bool {
    let is_there =
        |program: &str| Command::new(program).arg("--version").stdin(Stdio::null()).output().is_ok();
    if ["dovecot", "sievec", "sieve-test", "curl"].into_iter().all(is_there) && is_root() {
        return true;
    }
    println!("skipped: tests with Dovecot: it is not installed, or this user may not start it");
    false
}

/// Runs a test with a Dovecot, and a server with a listener `spamc`.
fn with_dovecot(settings: &[(&str, &str)], test: impl FnOnce(TestServer, &Dovecot)) {
    if !can_run() {
        return;
    }
    let parent = tempfile::tempdir().unwrap();
    let directory = obedient(&parent.path().join("data"));
    let own = [
        ("listener.spamc.protocol", "spamc"),
        ("listener.spamc.listen", "127.0.0.1:0"),
        ("listener.rspamd.protocol", "rspamd"),
        ("listener.rspamd.listen", "127.0.0.1:0"),
    ];
    let server = start(&directory, &[&own[..], settings].concat());
    let dovecot = Dovecot::start(&format!("http://{}", server.address));
    test(server, &dovecot);
}

/// The message as spamc's protocol gives it back: with the fields that say what was decided.
fn judged(server: &TestServer, message: &str) -> String {
    let request = format!("PROCESS SPAMC/1.5\r\nContent-length: {}\r\n\r\n{message}", message.len());
    let answer = String::from_utf8(server.exchange("spamc", request.as_bytes())).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// The message as a mail server received it from a client.
fn received(message: &str) -> String {
    format!(
        "Received: from mx.example.org (mx.example.org [{CLIENT}]) by mx.test; Sun, 17 May 2026 09:59:30 +0000\r\n{message}"
    )
}

/// The number of times that something was said of a key.
fn said(server: &TestServer, key: &str, word: &str) -> u64 {
    let timeline = server.get(&format!("/v1/timeline?{key}")).json();
    let tiers = timeline["tiers"].as_array().unwrap().iter();
    let buckets = tiers.flat_map(|tier| tier["buckets"].as_array().unwrap());
    buckets.filter_map(|bucket| bucket["counts"][word].as_u64()).sum()
}

#[test]
fn mail_that_is_moved_is_reported() {
    with_dovecot(&[], |server, dovecot| {
        let client = format!("kind=ip&value={CLIENT}");
        let check = |complaints: u64, pardons: u64, what: &str| {
            let told = (said(&server, &client, "complaint"), said(&server, &client, "pardon"));
            assert_eq!(told, (complaints, pardons), "{what}: {}", dovecot.log());
        };
        let mut imap = Imap::log_in(dovecot, "bob@example.net");

        // Feedback on the decision, which knows what the mail itself does not say, by whom the mail is.
        let mail = judged(&server, &received(MESSAGE));
        assert!(mail.contains("\r\nX-Tollhouse-Id: "), "{mail}");
        imap.put("INBOX", &mail);
        imap.carry("INBOX", "Junk");
        check(1, 0, "moved to Junk");
        let reporter = server.get("/v1/timeline?kind=reporter&value=bob@example.net").json();
        assert_eq!(reporter["windows"][1]["counts"]["reports"], 1, "{reporter}");
        imap.carry("Junk", "Trash");
        check(1, 0, "thrown away");
        imap.carry("Trash", "Junk");
        check(1, 0, "said before");
        imap.carry("Junk", "INBOX");
        check(0, 1, "moved out of Junk");
        // Another reader has a word of his own.
        let mut other = Imap::log_in(dovecot, "cid@example.net");
        other.put("INBOX", &mail);
        other.carry("INBOX", "Junk");
        check(1, 1, "moved by another");

        // Mail without an id is learned: from what it says itself, as anybody may have written the rest.
        let author = "kind=from&value=eve@example.org";
        imap.put("INBOX", &received(&MESSAGE.replace("ann@", "eve@")));
        imap.carry("INBOX", "Junk");
        assert_eq!(said(&server, author, "complaint"), 1, "{}", dovecot.log());
        check(1, 1, "no decision is known");
        // The mail itself, even one from its reader's own address, and not what is attached to it.
        let attached = MESSAGE.replace("ann@", "dan@");
        let spam = format!(
            "From: bob@example.net\r\nSubject: bounce\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n\
             --b\r\nContent-Type: message/rfc822\r\n\r\n{attached}\r\n--b--\r\n"
        );
        imap.put("INBOX", &spam);
        imap.carry("INBOX", "Junk");
        assert_eq!(said(&server, "kind=from&value=bob@example.net", "complaint"), 1, "{}", dovecot.log());
        assert_eq!(said(&server, "kind=from&value=dan@example.org", "complaint"), 0);

        // Without us mail is moved all the same.
        server.stop();
        imap.put("INBOX", &mail);
        imap.carry("INBOX", "Junk");
    });
}

/// The script by itself: it gives a token that is in no argument, and says by its exit code what came of it.
#[test]
fn reports_carry_a_token() {
    if Command::new("curl").arg("--version").output().is_err() {
        println!("skipped: tests with curl: it is not installed");
        return;
    }
    let parent = tempfile::tempdir().unwrap();
    let directory = obedient(&parent.path().join("data"));
    let server = start(&directory, &[("server.tokens", "[\"a-token-of-some-length\"]")]);
    let script = parent.path().join("tollhouse-report");
    std::fs::copy(example("tollhouse-report"), &script).unwrap();
    let check = |settings: &str, class: &str, user: &str, expected: i32| {
        let settings = format!("url=http://{}\n{settings}\n", server.address);
        std::fs::write(parent.path().join("tollhouse-report.conf"), &settings).unwrap();
        let mut run = Command::new(&script);
        let mut run = run.args([class, user]).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        run.stdin.take().unwrap().write_all(MESSAGE.as_bytes()).unwrap();
        assert_eq!(run.wait().unwrap().code(), Some(expected), "{settings} {class} {user}");
    };
    check("token=a-token-of-some-length\npipeline=mail", "complaint", "bob@example.net", 0);
    check("token=another-of-some-length", "complaint", "cid@example.net", 75);
    check("", "complaint", "cid@example.net", 75);
    check("token=a-token-of-some-length", "complaint", "", 75);
    check("token=a-token-of-some-length", "no-such-class", "cid@example.net", 75);
    check("token=a-token-of-some-length", "complaint", "dan@example.net\r\nTollhouse-Event-Id: 7", 0);
    let token = "Authorization: Bearer a-token-of-some-length";
    let said = |user: &str| {
        let url = format!("/v1/timeline?kind=reporter&value={user}");
        server.ask("GET", &url, &[token], b"").json()["windows"][1]["counts"]["reports"].as_u64().unwrap_or(0)
    };
    assert_eq!((said("bob@example.net"), said("cid@example.net")), (1, 0));
    server.stop();
}

#[test]
fn sieve_files_what_is_tagged() {
    with_dovecot(&[("listener.spamc.subject_tag", "[SPAM]")], |server, dovecot| {
        let forged =
            format!("X-Spam: Yes\r\nX-Spam-Flag: YES\r\nX-Spam-Level: ****************\r\n{MESSAGE}");
        assert_eq!(dovecot.filed(&forged), "Junk", "the script reads the field");
        assert_eq!(dovecot.filed(&judged(&server, &forged)), "INBOX", "{}", judged(&server, &forged));
        let tagged = judged(&server, &MESSAGE.replace("The minutes of Monday", "please tag"));
        assert!(tagged.contains("\r\nSubject: [SPAM] please tag\r\n"), "{tagged}");
        assert_eq!(dovecot.filed(&tagged), "Junk", "{tagged}");

        // By Rspamd's protocol a mail server is told the fields to take away and to add.
        let told = |message: &str| {
            let request = format!(
                "POST /checkv2 HTTP/1.0\r\n{MAIL}\r\nContent-Length: {}\r\n\r\n{message}",
                message.len()
            );
            let answer = String::from_utf8(server.exchange("rspamd", request.as_bytes())).unwrap();
            let answer: serde_json::Value =
                serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
            let milter = &answer["milter"];
            let removed = milter["remove_headers"].as_object().unwrap();
            let (header, body) = message.split_once("\r\n\r\n").unwrap();
            let kept =
                header.split("\r\n").filter(|line| !removed.contains_key(line.split(':').next().unwrap()));
            let added = milter["add_headers"].as_object().unwrap().iter();
            let added =
                added.map(|(name, field)| format!("{name}: {}\r\n", field["value"].as_str().unwrap()));
            format!("{}{}\r\n\r\n{body}", added.collect::<String>(), kept.collect::<Vec<_>>().join("\r\n"))
        };
        assert_eq!(dovecot.filed(&told(&forged)), "INBOX", "{}", told(&forged));
        let tagged = told(&MESSAGE.replace("The minutes of Monday", "please tag"));
        assert_eq!(dovecot.filed(&tagged), "Junk", "{tagged}");
        server.stop();
    });
}
