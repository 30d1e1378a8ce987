//! A real Postfix, started by the test: what is decided here is what becomes of its mail.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::harness::{NOBODY, TestServer, is_root, obedient, start};
use crate::ports::free_port;

/// Debian's folder of Postfix's programs.
const DAEMONS: &str = "/usr/lib/postfix/sbin";
/// Long enough never to matter where Postfix works.
const PATIENCE: Duration = Duration::from_secs(60);

struct Postfix {
    directory: tempfile::TempDir,
}

/// Services of `master.cf` that deliver a message to a mailbox. Nothing runs in a changed root.
const SERVICES: &str = "\
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
flush unix n - n 1000? 0 flush
showq unix n - n - - showq
error unix - - n - - error
retry unix - - n - - error
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
proxymap unix - - n - - proxymap
postlog unix-dgram n - n - 1 postlogd
";

impl Postfix {
    /// Starts one that listens on these ports, each with settings of its own.
    fn start(ports: &[(u16, &str)]) -> Postfix {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        std::fs::set_permissions(root, std::fs::Permissions::from_mode(0o755)).unwrap();
        for folder in ["etc", "queue", "data", "mail", "log"] {
            std::fs::create_dir(root.join(folder)).unwrap();
        }
        chown(root.join("mail"), Some(NOBODY), Some(NOBODY)).unwrap();
        let owned = Command::new("chown").arg("postfix").arg(root.join("data")).status().unwrap();
        assert!(owned.success());
        let at = root.display();
        let main = format!(
            "compatibility_level = 3.6\nqueue_directory = {at}/queue\ndata_directory = {at}/data\n\
             command_directory = /usr/sbin\ndaemon_directory = {DAEMONS}\nmail_owner = postfix\nsetgid_group = postdrop\n\
             maillog_file_prefixes = {at}\nmaillog_file = {at}/log/maillog\nmyhostname = mx.test\nmydestination =\n\
             inet_interfaces = 127.0.0.1\ninet_protocols = ipv4\nmynetworks = 127.0.0.0/8\nsmtpd_peername_lookup = no\n\
             alias_maps =\nalias_database =\nlocal_recipient_maps =\nvirtual_mailbox_domains = test.local\n\
             virtual_mailbox_base = {at}/mail\nvirtual_mailbox_maps = static:box/\nvirtual_uid_maps = static:{NOBODY}\n\
             virtual_gid_maps = static:{NOBODY}\nvirtual_minimum_uid = 100\nsmtpd_error_sleep_time = 0\n\
             smtpd_relay_restrictions = permit_mynetworks, reject\n"
        );
        std::fs::write(root.join("etc/main.cf"), main).unwrap();
        let mut master = String::new();
        for (port, settings) in ports {
            writeln!(master, "127.0.0.1:{port} inet n - n - - smtpd {settings}").unwrap();
        }
        std::fs::write(root.join("etc/master.cf"), master + SERVICES).unwrap();
        let postfix = Postfix { directory };
        let started = postfix.run("start");
        assert!(started, "{}", postfix.log());
        postfix
    }

    fn run(&self, command: &str) -> bool {
        let output = Command::new("postfix").arg("-c").arg(self.path("etc")).arg(command).output().unwrap();
        output.status.success()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path("log/maillog")).unwrap_or_default()
    }

    /// Waits until a file of this folder contains the text, and gives all of it.
    fn wait_for(&self, folder: &str, text: &str) -> String {
        let started = Instant::now();
        loop {
            let files = std::fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
            let mut contents = files.filter_map(|file| std::fs::read(file.path()).ok());
            let found = contents.find_map(|content| {
                Some(String::from_utf8_lossy(&content).into_owned()).filter(|content| content.contains(text))
            });
            if let Some(found) = found {
                return found;
            }
            assert!(started.elapsed() < PATIENCE, "no {text:?} in {folder}: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn delivered(&self, text: &str) -> String {
        self.wait_for("mail/box/new", text)
    }
}

impl Drop for Postfix {
    fn drop(&mut self) {
        self.run("stop");
        // A master that still lives would keep its files.
        let started = Instant::now();
        while self.run("status") && started.elapsed() < PATIENCE {
            self.run("abort");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// A connection to an SMTP server.
struct Smtp {
    reader: BufReader<TcpStream>,
    sent: usize,
}

impl Smtp {
    fn connect(port: u16) -> Smtp {
        let started = Instant::now();
        let stream = loop {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(stream) => break stream,
                Err(error) => assert!(started.elapsed() < PATIENCE, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut smtp = Smtp { reader: BufReader::new(stream), sent: 0 };
        smtp.reply();
        smtp.say("EHLO client.example.net");
        smtp
    }

    /// Says something and gives the answer's last line.
    fn say(&mut self, text: &str) -> String {
        self.reader.get_mut().write_all(format!("{text}\r\n").as_bytes()).unwrap();
        self.reply()
    }

    fn reply(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.reader.read_line(&mut line).unwrap() > 0, "the connection was closed");
            if line.as_bytes().get(3) != Some(&b'-') {
                return line.trim_end().to_owned();
            }
        }
    }

    /// Sends a message and gives the answer to its end, or the refusal before.
    fn send(&mut self, sender: &str, subject: &str, fields: &str) -> String {
        self.say("RSET");
        for command in
            [format!("MAIL FROM:<{sender}>"), "RCPT TO:<bob@test.local>".to_owned(), "DATA".to_owned()]
        {
            let answer = self.say(&command);
            if !answer.starts_with(['2', '3']) {
                return answer;
            }
        }
        let number = self.sent;
        self.sent += 1;
        self.say(&format!(
            "From: Ann <{sender}>\r\nTo: bob@test.local\r\nSubject: {subject}\r\n{fields}Date: Sun, 17 May 2026 09:59:00 +0000\r\n\
             Message-ID: <{number}@example.org>\r\n\r\nDear Bob,\r\nall is well.\r\n."
        ))
    }
}

/// Returns true if Postfix is there and may be started.
fn can_run() -> bool {
    if Path::new(DAEMONS).join("master").exists() && is_root() {
        return true;
    }
    println!("skipped: tests with Postfix: it is not installed, or this user may not start it");
    false
}

/// A server with a milter on TCP and on a unix socket, and policy delegation; the folder is open to Postfix.
fn tollhouse(parent: &Path) -> TestServer {
    std::fs::set_permissions(parent, std::fs::Permissions::from_mode(0o755)).unwrap();
    let directory = obedient(&parent.join("data"));
    let socket = format!("unix:{}", parent.join("milter.sock").display());
    let settings = [
        ("listener.tcp.protocol", "milter"),
        ("listener.tcp.listen", "127.0.0.1:0"),
        ("listener.tcp.subject_tag", "[SPAM]"),
        ("listener.unix.protocol", "milter"),
        ("listener.unix.listen", &socket),
        ("listener.unix.mode", "0666"),
        ("listener.early.protocol", "milter"),
        ("listener.early.listen", "127.0.0.1:0"),
        ("listener.early.envelope_first", "true"),
        ("listener.policy.protocol", "policy"),
        ("listener.policy.listen", "127.0.0.1:0"),
    ];
    start(&directory, &settings)
}

#[test]
fn postfix_does_what_is_decided() {
    if !can_run() {
        return;
    }
    let parent = tempfile::tempdir().unwrap();
    let server = tollhouse(parent.path());
    let [tcp, unix, early, policy] = [free_port(), free_port(), free_port(), free_port()];
    let milter =
        format!("-o smtpd_milters=inet:{} -o milter_default_action=tempfail", server.listener("tcp"));
    let first =
        format!("-o smtpd_milters=inet:{} -o milter_default_action=tempfail", server.listener("early"));
    let socket = parent.path().join("milter.sock");
    let local = format!("-o smtpd_milters=unix:{} -o milter_default_action=accept", socket.display());
    let asked = format!(
        "-o smtpd_recipient_restrictions=check_policy_service,inet:{},permit",
        server.listener("policy")
    );
    let ports = [(tcp, &milter), (unix, &local), (early, &first), (policy, &asked)];
    let postfix = Postfix::start(&ports.map(|(port, settings)| (port, settings.as_str())));

    // Many messages on one connection, over either kind of socket.
    for port in [tcp, unix] {
        let mut smtp = Smtp::connect(port);
        let first = format!("X-Mark: {port}-first");
        assert!(
            smtp.send("ann@example.org", "hello", &format!("{first}\r\n")).starts_with("250 "),
            "{}",
            postfix.log()
        );
        let message = postfix.delivered(&first);
        assert_eq!(message.matches("\nX-Spam-Status: ").count(), 1, "{message}");
        if port == tcp {
            // Nothing is known yet that speaks against anybody.
            assert!(
                message.contains("\nX-Spam-Status: No, score=") && !message.contains("X-Spam-Flag"),
                "{message}"
            );
        }
        let forged =
            format!("X-Spam-Status: No, forged\r\nX-Mark: {port}-tag\r\nx-spam-status: No, again\r\n");
        assert!(smtp.send("ann@example.org", "please tag", &forged).starts_with("250 "), "{}", postfix.log());
        let message = postfix.delivered(&format!("X-Mark: {port}-tag"));
        assert!(message.contains("\nX-Spam-Flag: YES\n") && !message.contains("forged"), "{message}");
        assert_eq!(message.to_lowercase().matches("x-spam-status:").count(), 1, "{message}");
        let subject = if port == tcp { "[SPAM] please tag" } else { "please tag" };
        assert!(message.contains(&format!("\nSubject: {subject}\n")), "{message}");
        let order: Vec<&str> =
            message.lines().filter_map(|line| line.split_once(": ")).map(|(name, _)| name).collect();
        let place = |name: &str| order.iter().position(|own| *own == name).unwrap();
        assert!(
            place("Received") < place("X-Tollhouse") && place("X-Tollhouse") < place("From"),
            "{message}"
        );

        let refused = smtp.send("ann@example.org", "please reject", "");
        assert!(refused.starts_with("550 5.7.1 Message refused, reference 1"), "{refused}");
        assert_eq!(
            smtp.send("ann@example.org", "please throttle", ""),
            "451 4.7.1 Not now, please try again later"
        );
        let held = format!("X-Mark: {port}-held");
        assert!(
            smtp.send("ann@example.org", "please quarantine", &format!("{held}\r\n")).starts_with("250 ")
        );
        postfix.wait_for("queue/hold", &held);
        let thrown = format!("X-Mark: {port}-thrown");
        assert!(smtp.send("ann@example.org", "please shadow", &format!("{thrown}\r\n")).starts_with("250 "));
        let last = format!("X-Mark: {port}-last");
        assert!(smtp.send("ann@example.org", "hello", &format!("{last}\r\n")).starts_with("250 "));
        postfix.delivered(&last);
        assert!(postfix.log().contains("milter-discard"), "{}", postfix.log());
        assert_eq!(smtp.say("QUIT").split(' ').next(), Some("221"));
        let delivered = std::fs::read_dir(postfix.path("mail/box/new")).unwrap().count();
        assert_eq!(
            delivered,
            if port == tcp { 3 } else { 6 },
            "what was thrown away went nowhere: {}",
            postfix.log()
        );
    }

    // Before the message comes, by a milter: the answer to DATA, after which the next message is taken.
    let mut smtp = Smtp::connect(early);
    let refused = smtp.send("reject@example.org", "hello", "");
    assert!(refused.starts_with("550 5.7.1 Message refused, reference 1"), "{refused}");
    assert_eq!(smtp.send("throttle@example.org", "hello", ""), "451 4.7.1 Not now, please try again later");
    assert_eq!(smtp.sent, 0, "neither was sent");
    assert!(smtp.send("tag@example.org", "hello", "X-Mark: early-tag\r\n").starts_with("250 "));
    assert!(postfix.delivered("X-Mark: early-tag").contains("\nX-Spam-Flag: YES\n"));
    let refused = smtp.send("ann@example.org", "please reject", "");
    assert!(refused.starts_with("550 5.7.1 Message refused, reference 1"), "{refused}");
    assert_eq!(smtp.sent, 2, "what the message says is judged with it");

    // And by policy delegation.
    let mut smtp = Smtp::connect(policy);
    let refused = smtp.send("reject@example.org", "hello", "");
    assert!(refused.contains("5.7.1") && refused.contains("Message refused, reference 1"), "{refused}");
    let later = smtp.send("throttle@example.org", "hello", "");
    assert!(later.starts_with("450 4.7.1") && later.contains("try again later"), "{later}");
    assert!(smtp.send("tag@example.org", "hello", "X-Mark: told\r\n").starts_with("250 "));
    let message = postfix.delivered("X-Mark: told");
    assert!(message.contains("X-Tollhouse: action=tag, score="), "{message}");
    assert!(smtp.send("ann@example.org", "hello", "").starts_with("250 "));

    // Without us Postfix does what it was told to do then.
    server.stop();
    assert!(!socket.exists());
    let later = Smtp::connect(tcp).send("ann@example.org", "hello", "");
    assert!(later.starts_with("451 4.7.1"), "{later}");
    let passed = Smtp::connect(unix).send("ann@example.org", "hello", "X-Mark: alone\r\n");
    assert!(passed.starts_with("250 "), "{passed}");
    assert!(!postfix.delivered("X-Mark: alone").contains("X-Tollhouse"));
    let later = Smtp::connect(policy).send("ann@example.org", "hello", "");
    assert!(later.starts_with("451 4.3.5"), "{later}");
}
