//! The real clients: `rspamc`, `spamc` and Exim, as Debian has them. Programs are those that are installed, or what
//! `scripts/mail-clients` has unpacked; without either the tests say that they were skipped.

use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::harness::{MESSAGE, TestServer, long_message, with_server};

/// A program, and what it needs to run where it was only unpacked.
pub(crate) struct Program {
    path: PathBuf,
    unpacked: Option<PathBuf>,
}

/// The folder that `scripts/mail-clients` unpacks to.
fn unpacked() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("mail-clients")
}

impl Program {
    pub(crate) fn find(name: &str) -> Option<Program> {
        let system = ["/usr/bin", "/usr/sbin"].map(|directory| Path::new(directory).join(name));
        if let Some(path) = system.into_iter().find(|path| path.exists()) {
            return Some(Program { path, unpacked: None });
        }
        let root = unpacked();
        let own = ["usr/bin", "usr/sbin"].map(|directory| root.join(directory).join(name));
        let found = own.into_iter().find(|path| path.exists());
        if found.is_none() {
            println!("skipped: {name} is not installed, and scripts/mail-clients has not unpacked it");
        }
        Some(Program { path: found?, unpacked: Some(root) })
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        if let Some(root) = &self.unpacked {
            let libraries = root.join("usr/lib");
            let beside = std::fs::read_dir(&libraries).unwrap().map(|entry| entry.unwrap().path());
            let beside =
                beside.filter(|path| path.is_dir() && (path.ends_with("rspamd") || is_multiarch(path)));
            let paths: Vec<String> =
                beside.chain([libraries.clone()]).map(|path| path.display().to_string()).collect();
            command.env("LD_LIBRARY_PATH", paths.join(":"));
        }
        command
    }

    /// Runs it on some input; `expected` is its exit code.
    fn run(&self, arguments: &[&str], input: &str, expected: i32) -> String {
        let output = fed(self.command().args(arguments), input);
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(expected), "{arguments:?}: {told}{errors}");
        told
    }
}

fn is_multiarch(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().contains("-linux-gnu"))
}

pub(crate) fn fed(command: &mut Command, input: &str) -> Output {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // Who does not want its input is told so by its exit code.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().unwrap()
}

/// Every message of this subject is refused by the rules of these tests.
const BAD: &str = "From: Ann <ann@example.org>\r\nTo: bob@example.net\r\nSubject: refuse this\r\n\
    Message-ID: <bad@example.org>\r\nDate: Sun, 17 May 2026 09:59:00 +0000\r\n\r\nDear Bob,\r\nthis is bad.\r\n";

/// Rules that decide beyond doubt, so that what clients are told can be known.
const RULES: &str = "[[rule]]\nname = \"TEST_REFUSED\"\nwhen = \"mail.subject == 'refuse this'\"\nscore = 99.5\n\
    description = \"The subject asks for it\"\n\
    [[rule]]\nname = \"TEST_MARKED\"\nwhen = \"mail.subject == 'mark this'\"\nscore = 0\neffects = [\"set tag\"]\n\
    [[rule]]\nname = \"TEST_LATER\"\nwhen = \"mail.subject == 'later please'\"\nscore = 0\neffects = [\"set throttle\"]\n";

fn with_listener(protocol: &str, settings: &[(&str, &str)], test: impl FnOnce(&TestServer, SocketAddr)) {
    let (name, listen) = (format!("listener.{protocol}.protocol"), format!("listener.{protocol}.listen"));
    let learn = format!("listener.{protocol}.learn");
    let own = [(name.as_str(), protocol), (listen.as_str(), "127.0.0.1:0"), (learn.as_str(), "true")];
    let settings: Vec<_> = own.iter().chain(settings).copied().collect();
    with_server(&settings, |running| {
        let posted = running.post("/v1/rules", &["Content-Type: application/toml"], RULES);
        assert_eq!(posted.status, 200, "{}", posted.body);
        test(running, running.listener(protocol).parse().unwrap());
    });
}

#[test]
fn rspamc_works() {
    let Some(rspamc) = Program::find("rspamc") else { return };
    with_listener("rspamd", &[], |running, address| {
        let host = address.to_string();
        let run = |arguments: &[&str], input: &str| {
            rspamc.run(&[&["-h", &host, "-t", "20"], arguments].concat(), input, 0)
        };
        let envelope = [
            "-i",
            "192.0.2.1",
            "-F",
            "ann@example.org",
            "-r",
            "bob@example.net",
            "--helo",
            "mail.example.org",
        ];
        let told = run(&envelope, BAD);
        assert!(told.contains("Action: reject") && told.contains("Spam: true"), "{told}");
        assert!(told.contains("Symbol: TEST_REFUSED (99.50)"), "{told}");
        assert!(told.contains("Message-ID: bad@example.org"), "{told}");
        let told = run(&["--compressed"], MESSAGE);
        assert!(told.contains("Action: no action") && told.contains("Spam: false"), "{told}");
        let json: Value = serde_json::from_str(&run(&["--json", "-u", "joe", "symbols"], BAD)).unwrap();
        assert_eq!(json["symbols"]["TEST_REFUSED"]["options"][0], "mail.subject=refuse this", "{json}");
        let id = json["tollhouse"]["id"].as_str().unwrap();
        assert_eq!(running.get(&format!("/v1/decisions/{id}")).json()["facts"]["client.user"], "joe");
        // Rspamd's client marks a message by itself.
        let marked = run(&["--mime"], BAD);
        assert!(marked.contains("TEST_REFUSED") && marked.contains("this is bad"), "{marked}");

        assert!(run(&["learn_spam"], BAD).contains("success = true"));
        assert!(run(&["learn_ham"], MESSAGE).contains("success = true"));
        assert!(run(&["learn_ham"], MESSAGE).contains("already learned"));
        // Said to be of the other class, it is learned anew and no longer what it was.
        assert!(run(&["learn_ham"], BAD).contains("success = true"));
        let stat = run(&["stat"], "");
        assert!(stat.contains("Messages scanned: 4") && stat.contains("Messages learned: 2"), "{stat}");
        assert!(stat.contains("Messages with action reject: 3"), "{stat}");
        let uptime = run(&["uptime"], "");
        assert!(uptime.contains("Uptime: "), "{uptime}");
    });
}

#[test]
fn rspamc_gives_its_password() {
    let Some(rspamc) = Program::find("rspamc") else { return };
    let settings = [
        ("listener.rspamd.protocol", "rspamd"),
        ("listener.rspamd.listen", "127.0.0.1:0"),
        ("server.tokens", "[\"a-token-of-some-length\"]"),
    ];
    with_server(&settings, |running| {
        let host = running.listener("rspamd");
        let refused = fed(rspamc.command().args(["-h", host, "learn_spam"]), BAD);
        let told =
            String::from_utf8_lossy(&refused.stdout).into_owned() + &String::from_utf8_lossy(&refused.stderr);
        assert!(told.contains("403") || told.contains("Unauthorized"), "{told}");
        let told = rspamc.run(&["-h", host, "-P", "a-token-of-some-length", "learn_spam"], BAD, 0);
        assert!(told.contains("success = true"), "{told}");
    });
}

#[test]
fn spamc_works() {
    let Some(spamc) = Program::find("spamc") else { return };
    with_listener("spamc", &[], |running, address| {
        let (host, port) = (address.ip().to_string(), address.port().to_string());
        let run = |arguments: &[&str], input: &str, expected: i32| {
            spamc.run(&[&["-d", &host, "-p", &port, "-t", "20"], arguments].concat(), input, expected)
        };
        // The exit code of -c says whether it is spam.
        let summary = run(&["-c"], BAD, 1);
        let (score, threshold) = summary.trim().split_once('/').unwrap();
        let (score, threshold): (f64, f64) = (score.parse().unwrap(), threshold.parse().unwrap());
        assert!(score >= 99.5 && threshold < score, "{summary}");
        run(&["-c"], MESSAGE, 0);
        assert!(run(&["-y"], BAD, 0).contains("TEST_REFUSED"));
        for full in [run(&["-R"], BAD, 0), run(&["-r"], BAD, 0)] {
            assert!(full.contains("99.5 TEST_REFUSED           The subject asks for it"), "{full}");
        }
        assert!(run(&["-R"], MESSAGE, 0).contains("Content analysis details"));
        assert!(!run(&["-r"], MESSAGE, 0).contains("Content analysis details"), "only of spam");
        assert_eq!(run(&["-K"], "", 0), "SPAMD/1.5 0\n");
        let marked = run(&[], BAD, 0);
        assert!(marked.contains("X-Spam-Flag: YES\r\n") && marked.contains("TEST_REFUSED"), "{marked}");
        assert!(marked.ends_with("this is bad.\r\n"), "{marked}");
        let signed_id = marked.split("X-Tollhouse-Id: ").nth(1).unwrap_or_else(|| panic!("{marked}"));
        let id = signed_id.split('-').next().unwrap();
        assert_eq!(running.get(&format!("/v1/decisions/{id}")).json()["action"], "reject");
        let marked = run(&["--headers"], BAD, 0);
        assert!(marked.contains("X-Spam-Flag: YES\r\n") && marked.ends_with("this is bad.\r\n"), "{marked}");
        run(&["-E"], BAD, 1);
        run(&["-x", "-u", "joe"], MESSAGE, 0);
        // Too large for `spamc`, which then passes it on as it is.
        assert_eq!(run(&["-s", "100"], BAD, 0), BAD);
        assert!(run(&["-L", "spam"], BAD, 0).contains("Message successfully un/learned"));
        assert!(run(&["-L", "spam"], BAD, 0).contains("Message was already un/learned"));
        assert!(run(&["-L", "ham"], MESSAGE, 0).contains("Message successfully un/learned"));
        assert!(run(&["-L", "forget"], BAD, 0).contains("Message successfully un/learned"));
        assert!(run(&["-L", "forget"], BAD, 0).contains("Message was already un/learned"));
        let known = running.get("/v1/timeline?kind=subject&value=refuse%20this").json();
        let complaints: u64 = known["tiers"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|tier| tier["buckets"].as_array().unwrap())
            .filter_map(|bucket| bucket["counts"]["complaint"].as_u64())
            .sum();
        assert_eq!(complaints, 0, "{known}");
        let other = BAD.replace("this is bad", "that was worse");
        assert!(run(&["-C", "report"], &other, 0).contains("Message successfully reported/revoked"));
        let third = MESSAGE.replace("Monday", "Friday");
        assert!(run(&["-C", "revoke"], &third, 0).contains("Message successfully reported/revoked"));
    });
}

#[test]
fn spamc_compresses() {
    let Some(spamc) = Program::find("spamc") else { return };
    if !spamc.run(&["--help"], "", 0).contains("-z") {
        println!("skipped: spamc -z, this spamc was built without it");
        return;
    }
    with_listener("spamc", &[], |_, address| {
        let (host, port) = (address.ip().to_string(), address.port().to_string());
        spamc.run(&["-d", &host, "-p", &port, "-z", "-c"], BAD, 1);
    });
}

/// Settings with which nothing is decided.
const FAILING: [(&str, &str); 3] = [
    ("listener.spamc.body_max", "1KiB"),
    ("listener.spamc.oversize", "error"),
    ("listener.spamc.on_error", "closed"),
];

#[test]
fn spamc_falls_back_when_a_decision_fails() {
    let Some(spamc) = Program::find("spamc") else { return };
    with_listener("spamc", &FAILING, |_, address| {
        let (host, port) = (address.ip().to_string(), address.port().to_string());
        let run = |arguments: &[&str], expected: i32| {
            let retries = ["--filter-retries", "1", "-d", &host, "-p", &port];
            spamc.run(&[&retries[..], arguments].concat(), &long_message(), expected)
        };
        assert_eq!(run(&[], 0), long_message(), "without a filter mail passes");
        // It has one exit code for all that a filter refuses.
        run(&["-x", "-R"], 74);
    });
}

/// An Exim that takes one message over standard input and says in its last answer what the filter said.
struct Exim {
    program: Program,
    directory: tempfile::TempDir,
}

/// A user and group of its own, which need not exist on the system.
const EXIM_ID: u32 = 65_533;

/// The lines of the guide's block of this number that begins with `spamd_address`: for the main configuration, and ACLs.
fn guide(number: usize) -> (String, String) {
    let text = include_str!("../../../../docs/guides/exim.md");
    let mut blocks = text.split("```").filter(|block| block.starts_with("\nspamd_address"));
    let block = blocks.nth(number).unwrap_or_else(|| panic!("the guide has no block {number}"));
    let (main, acls) = block.trim_start().split_once("\n\n").unwrap();
    (main.to_owned(), acls.to_owned())
}

/// A line of the guide that stands alone.
fn guide_line(begins: &str) -> String {
    let text = include_str!("../../../../docs/guides/exim.md");
    let line = text.lines().find(|line| line.trim_start().starts_with(begins));
    format!("{}\n", line.unwrap_or_else(|| panic!("the guide has no line {begins}")))
}

impl Exim {
    fn new(address: &str) -> Option<Exim> {
        let acl = "acl_check_data:\n  deny spam = nobody\n       message = refused score=$spam_score action=$spam_action\n\
             \x20 warn spam = nobody:true\n\
             \x20 deny message = passed score=$spam_score action=$spam_action report=${length_20:$spam_report}\n";
        Exim::configured(&format!("spamd_address = {address}"), acl)
    }

    /// With these lines of the main configuration, and these ACLs.
    fn configured(main: &str, acls: &str) -> Option<Exim> {
        let program = Program::find("exim4")?;
        let wrapper = Exim::wrapper();
        // Only root may name Exim a configuration, and what root makes is root's.
        let directory = tempfile::tempdir().unwrap();
        let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(directory.path()).unwrap());
        if owner != 0 {
            println!("skipped: Exim, which takes a configuration from root only");
            return None;
        }
        if program.unpacked.is_some() && wrapper.is_none() {
            println!("skipped: Exim, libnss_wrapper.so is not there to name its user");
            return None;
        }
        let path = directory.path();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["spool", "log"] {
            std::fs::create_dir(path.join(name)).unwrap();
            chown(path.join(name), Some(EXIM_ID), Some(EXIM_ID)).unwrap();
        }
        let users = format!(
            "root:x:0:0:root:/root:/bin/sh\nDebian-exim:x:{EXIM_ID}:{EXIM_ID}::/nonexistent:/bin/false\n\
             nobody:x:65534:65534::/nonexistent:/bin/false\n"
        );
        std::fs::write(path.join("passwd"), users).unwrap();
        std::fs::write(
            path.join("group"),
            format!("root:x:0:\nmail:x:8:\nadm:x:4:\nDebian-exim:x:{EXIM_ID}:\nnogroup:x:65534:\n"),
        )
        .unwrap();
        let at = path.display();
        let config = format!(
            "primary_hostname = test.example\nspool_directory = {at}/spool\nlog_file_path = {at}/log/%s\n\
             keep_environment = LD_LIBRARY_PATH : LD_PRELOAD : NSS_WRAPPER_PASSWD : NSS_WRAPPER_GROUP\n\
             host_lookup =\nqueue_only\n{main}\n\
             acl_smtp_rcpt = acl_rcpt\nacl_smtp_data = acl_check_data\nbegin acl\n\
             acl_rcpt:\n  accept control = dkim_disable_verify\n{acls}\n"
        );
        std::fs::write(path.join("exim.conf"), config).unwrap();
        Some(Exim { program, directory })
    }

    /// The header of the one message that was taken, as it waits in the queue.
    fn taken(&self) -> String {
        let queue = std::fs::read_dir(self.directory.path().join("spool/input")).unwrap();
        let mut headers = queue
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.display().to_string().ends_with("-H"));
        let header = headers.next().unwrap_or_else(|| panic!("the queue is empty"));
        let text = String::from_utf8_lossy(&std::fs::read(&header).unwrap()).into_owned();
        std::fs::remove_dir_all(self.directory.path().join("spool/input")).unwrap();
        text
    }

    fn wrapper() -> Option<PathBuf> {
        let libraries = [Path::new("/usr/lib").to_path_buf(), unpacked().join("usr/lib")];
        let entries = libraries.iter().filter_map(|path| std::fs::read_dir(path).ok()).flatten();
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| is_multiarch(path));
        paths.map(|path| path.join("libnss_wrapper.so")).find(|path| path.exists())
    }

    /// Returns Exim's answer to the message.
    fn say(&self, message: &str) -> String {
        let path = self.directory.path();
        let dialogue = format!(
            "EHLO mail.example.org\r\nMAIL FROM:<ann@example.org>\r\nRCPT TO:<bob@example.net>\r\nDATA\r\n{message}.\r\nQUIT\r\n"
        );
        let mut command = self.program.command();
        if let Some(wrapper) = Exim::wrapper() {
            command.env("LD_PRELOAD", wrapper);
            command
                .env("NSS_WRAPPER_PASSWD", path.join("passwd"))
                .env("NSS_WRAPPER_GROUP", path.join("group"));
        }
        let output =
            fed(command.arg("-C").arg(path.join("exim.conf")).args(["-bs", "-oMa", "192.0.2.1"]), &dialogue);
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        let answer = told.lines().skip_while(|line| !line.starts_with("354 ")).nth(1);
        answer.unwrap_or_else(|| panic!("{told}{errors}")).to_owned()
    }
}

#[test]
fn exim_asks_as_of_rspamd() {
    with_listener("rspamd", &[], |running, address| {
        let variant = format!("{} {} variant=rspamd", address.ip(), address.port());
        let Some(exim) = Exim::new(&variant) else { return };
        let answer = exim.say(BAD);
        assert!(
            answer.starts_with("550 refused score=9") || answer.starts_with("550 refused score=1"),
            "{answer}"
        );
        assert!(answer.ends_with(" action=reject"), "{answer}");
        let answer = exim.say(MESSAGE);
        assert!(answer.starts_with("550-passed score=") && answer.contains(" action=no action"), "{answer}");
        let sender = running.get("/v1/timeline?pipeline=mail&kind=ip&value=192.0.2.1");
        assert_eq!(sender.status, 200, "{}", sender.body);
        assert!(sender.body.contains("\"seen\""), "Exim says who the client is: {}", sender.body);
    });
}

#[test]
fn exim_asks_as_of_spamassassin() {
    with_listener("spamc", &[], |_, address| {
        let Some(exim) = Exim::new(&format!("{} {}", address.ip(), address.port())) else { return };
        let answer = exim.say(BAD);
        assert!(answer.starts_with("550 refused score=9") && answer.ends_with(" action=reject"), "{answer}");
        let answer = exim.say(MESSAGE);
        assert!(answer.starts_with("550 passed score=") && answer.contains(" action=no action"), "{answer}");
        assert!(answer.contains("report=Tollhouse has nothin"), "{answer}");
    });
}

#[test]
fn exim_defers_what_cannot_be_decided() {
    with_listener("spamc", &FAILING, |_, address| {
        let Some(exim) = Exim::new(&format!("{} {}", address.ip(), address.port())) else { return };
        let answer = exim.say(&long_message());
        assert!(answer.starts_with("451 "), "{answer}");
    });
}

/// A message whose subject asks for something, and which brings fields that only we should write.
fn asking(subject: &str) -> String {
    let forged = "X-Spam: No\r\nX-Spam-Flag: NO\r\nX-Tollhouse-Id: 1-2\r\n";
    format!("{forged}{}", BAD.replace("refuse this", subject))
}

#[test]
fn exim_does_what_the_guide_says() {
    for (protocol, variant) in [("rspamd", " variant=rspamd"), ("spamc", "")] {
        let tag = format!("listener.{protocol}.subject_tag");
        with_listener(protocol, &[(&tag, "[SPAM]")], |running, address| {
            let (main, acls) = guide(0);
            assert!(main.contains("127.0.0.1 11333 variant=rspamd"), "{main}");
            let own = format!("{} {}{variant}", address.ip(), address.port());
            let main = main.replace("127.0.0.1 11333 variant=rspamd", &own);
            let Some(exim) = Exim::configured(&main, &acls) else { return };
            assert_eq!(exim.say(BAD), "550 Message refused as unwanted", "{protocol}");
            assert!(exim.say(MESSAGE).starts_with("250 OK id="), "{protocol}");
            let header = exim.taken();
            assert!(
                header.contains("X-Spam-Action: no action") && header.contains("X-Spam-Score: "),
                "{header}"
            );
            // What was taken can be reported by its signed id.
            let signed_id = header.split("X-Tollhouse-Id: ").nth(1).unwrap_or_else(|| panic!("{header}"));
            let id = signed_id.split('-').next().unwrap();
            assert_eq!(running.get(&format!("/v1/decisions/{id}")).json()["action"], "accept", "{header}");
            let answer = exim.say(&asking("mark this"));
            let later = exim.say(&asking("later please"));
            if protocol == "rspamd" {
                assert!(answer.starts_with("250 OK id="), "{answer}");
                let header = exim.taken();
                assert!(
                    header.contains("X-Spam-Flag: YES") && header.contains("X-Spam-Action: rewrite subject"),
                    "{header}"
                );
                assert!(header.contains("  Subject: [SPAM] mark this\n"), "{header}");
                // Exim keeps what was taken away, and says so by an asterisk.
                for forged in ["X-Spam: No", "X-Spam-Flag: NO", "X-Tollhouse-Id: 1-2", "Subject: mark this"] {
                    let line = header.lines().find(|line| line.ends_with(forged)).unwrap();
                    assert!(line.contains("* "), "{header}");
                }
                assert_eq!(later, "451 Please try again later");
            } else {
                // In this protocol there is only spam, and an error, which Exim passes over unless it is told otherwise.
                assert_eq!(answer, "550 Message refused as unwanted");
                assert!(later.starts_with("250 OK id="), "{later}");
                assert!(!exim.taken().contains("X-Spam-Score: "));
                let asks = "  warn    spam ";
                assert_eq!(acls.matches(asks).count(), 1, "{acls}");
                let acls = acls.replace(asks, &format!("{}{asks}", guide_line("defer   !spam")));
                let Some(exim) = Exim::configured(&main, &acls) else { return };
                let later = exim.say(&asking("later please"));
                assert!(later.starts_with("451 "), "{later}");
                assert!(exim.say(MESSAGE).starts_with("250 OK id="), "all else passes");
            }
        });
    }
}

#[test]
fn exim_asks_beside_another_filter_as_the_guide_says() {
    let second = [("listener.beside.protocol", "rspamd"), ("listener.beside.listen", "127.0.0.1:0")];
    with_listener("spamc", &second, |running, address| {
        let (main, acls) = guide(1);
        let beside: SocketAddr = running.listener("beside").parse().unwrap();
        let of = |address: SocketAddr| format!("{} {}", address.ip(), address.port());
        assert!(main.contains("127.0.0.1 783") && acls.contains("127.0.0.1 11333 variant=rspamd"));
        let main = main.replace("127.0.0.1 783", &of(address));
        let acls = acls.replace("127.0.0.1 11333", &of(beside));
        let Some(exim) = Exim::configured(&main, &acls) else { return };
        assert!(exim.say(BAD).starts_with("550 "));
        assert!(exim.say(MESSAGE).starts_with("250 OK id="));
        let header = exim.taken();
        assert!(header.contains("X-Tollhouse: no action "), "{header}");
    });
}
