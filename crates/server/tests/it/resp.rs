//! The protocol of Redis: byte by byte, and by clients of Redis.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::process::{Command, Stdio};

use engine::Directory;
use redis::{Connection, Value};

use crate::harness::{JSON, TestServer, check_problem, configure, obedient, start, with_listener};
use crate::python::python;

/// Limits beside the presets, and a pipeline of plain events.
const LIMITS: &str = "
[[limit]]
name = \"signup\"
key = [\"ip:network\", \"name\"]
count = 3
per = \"1h\"
[[limit]]
name = \"burst\"
key = [\"user\"]
count = 2
per = \"1s\"
also = [\"hourly\"]
[[limit]]
name = \"hourly\"
key = [\"user\"]
count = 3
per = \"1h\"
counts = \"allowed\"
[[limit]]
name = \"hidden\"
key = [\"user\"]
count = 1
per = \"1h\"
enforcement = \"shadow_ban\"
";

fn with_resp(settings: &[(&str, &str)], test: impl FnOnce(&TestServer)) {
    let parent = tempfile::tempdir().unwrap();
    let directory = obedient(&parent.path().join("data"));
    configure(&directory, LIMITS);
    let own = [("listener.m.protocol", "resp"), ("listener.m.listen", "127.0.0.1:0")];
    let running = start(&directory, &[&own[..], settings].concat());
    test(&running);
    running.stop();
}

/// Sends lines of words and checks all that comes back.
fn check(server: &TestServer, lines: &str, expected: &str) {
    let answer = server.exchange("m", lines.as_bytes());
    assert_eq!(String::from_utf8_lossy(&answer), expected, "{lines}");
}

fn client(server: &TestServer) -> Connection {
    let url = format!("redis://{}/", server.listener("m"));
    redis::Client::open(url).unwrap().get_connection().unwrap()
}

#[test]
fn connections_are_set_up_as_with_redis() {
    with_resp(&[], |server| {
        check(server, "PING\nping hello\nECHO \"a b\"\n", "+PONG\r\n$5\r\nhello\r\n$3\r\na b\r\n");
        check(
            server,
            "SELECT 0\nSELECT 1\nSELECT x\n",
            "+OK\r\n-ERR DB index is out of range\r\n-ERR invalid DB index\r\n",
        );
        check(server, "QUIT\nPING\n", "+OK\r\n");
        check(
            server,
            "ECHO\nGET a\n",
            "-ERR wrong number of arguments for 'echo' command\r\n-ERR unknown command 'GET', with args beginning with: 'a' \r\n",
        );
        check(
            server,
            "CLIENT SETNAME web-1\nCLIENT GETNAME\nCLIENT SETINFO LIB-NAME x\nCLIENT NO-EVICT on\nRESET\nCLIENT GETNAME\n",
            "+OK\r\n$5\r\nweb-1\r\n+OK\r\n+OK\r\n+RESET\r\n$-1\r\n",
        );
        check(
            server,
            "CONFIG GET save appendonly\n",
            "*4\r\n$10\r\nappendonly\r\n$2\r\nno\r\n$4\r\nsave\r\n$0\r\n\r\n",
        );
        check(server, "HELLO 4\n", "-NOPROTO unsupported protocol version\r\n");
        let hello = server.exchange("m", b"HELLO 3 SETNAME web\r\nCLIENT GETNAME\r\n");
        let hello = String::from_utf8(hello).unwrap();
        assert!(
            hello.starts_with("%7\r\n$6\r\nserver\r\n$9\r\ntollhouse\r\n")
                && hello.ends_with("$3\r\nweb\r\n"),
            "{hello}"
        );
        let info = String::from_utf8(server.exchange("m", b"INFO server\r\n")).unwrap();
        assert!(info.contains("\r\nredis_version:") && !info.contains("# Clients"), "{info}");
        let docs = String::from_utf8(server.exchange("m", b"COMMAND DOCS cl.throttle\r\n")).unwrap();
        assert!(docs.starts_with("*2\r\n$11\r\ncl.throttle\r\n*10\r\n$7\r\nsummary\r\n"), "{docs}");
        check(server, "*1\r\n+PING\r\nPING\r\n", "-ERR Protocol error: expected '$', got '+'\r\n");
    });
}

#[test]
fn a_password_is_asked_for() {
    let settings = [("listener.m.password", "correct horse battery"), ("listener.m.user", "app")];
    with_resp(&settings, |server| {
        check(server, "PING\n", "-NOAUTH Authentication required.\r\n");
        let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
        check(
            server,
            "AUTH wrong\nAUTH other \"correct horse battery\"\nPING\n",
            &format!("{wrong}{wrong}-NOAUTH Authentication required.\r\n"),
        );
        check(
            server,
            "AUTH \"correct horse battery\"\nPING\nRESET\nPING\n",
            "+OK\r\n+PONG\r\n+RESET\r\n-NOAUTH Authentication required.\r\n",
        );
        let hello = server.exchange("m", b"HELLO 2 AUTH app \"correct horse battery\"\r\n");
        assert!(hello.starts_with(b"*14\r\n"), "{}", String::from_utf8_lossy(&hello));
        check(server, "*11\r\n", "-ERR Protocol error: unauthenticated multibulk length\r\n");
        let url = format!("redis://app:correct%20horse%20battery@{}/", server.listener("m"));
        let mut client = redis::Client::open(url).unwrap().get_connection().unwrap();
        assert_eq!(redis::cmd("PING").query::<String>(&mut client).unwrap(), "PONG");
    });
}

#[test]
fn throttling_is_that_of_redis_cell() {
    with_resp(&[], |server| {
        check(
            server,
            &"CL.THROTTLE user123 2 30 60\n".repeat(4),
            "*5\r\n:0\r\n:3\r\n:2\r\n:-1\r\n:2\r\n*5\r\n:0\r\n:3\r\n:1\r\n:-1\r\n:4\r\n*5\r\n:0\r\n:3\r\n:0\r\n:-1\r\n:6\r\n*5\r\n:1\r\n:3\r\n:0\r\n:2\r\n:6\r\n",
        );
        // More than ever fits, nothing at all, and several at once.
        check(
            server,
            "CL.THROTTLE k 2 30 60 4\nCL.THROTTLE k 2 30 60 0\nCL.THROTTLE k 2 30 60 2\n",
            "*5\r\n:1\r\n:3\r\n:3\r\n:-1\r\n:0\r\n*5\r\n:0\r\n:3\r\n:3\r\n:-1\r\n:0\r\n*5\r\n:0\r\n:3\r\n:1\r\n:-1\r\n:4\r\n",
        );
        check(
            server,
            "CL.THROTTLE k 2 0 60\nCL.THROTTLE k x 30 60\nCL.THROTTLE k 2 30\nCL.THROTTLE k 2 30 60 1 1\n",
            "-ERR Zero rates are not supported\r\n-ERR value is not an integer or out of range\r\n-ERR wrong number of arguments for 'cl.throttle' command\r\n-ERR wrong number of arguments for 'cl.throttle' command\r\n",
        );
        // Seven in three seconds are one in 428,571,428 nanoseconds there: seven fill not quite three seconds.
        check(
            server,
            &"CL.THROTTLE o 10 7 3 7\n".repeat(2),
            "*5\r\n:0\r\n:11\r\n:4\r\n:-1\r\n:3\r\n*5\r\n:1\r\n:11\r\n:4\r\n:2\r\n:3\r\n",
        );
        // Faster than one in a nanosecond, and buckets that never fill.
        for (words, answer) in [
            ("1 1000000001 1", "-ERR Zero rates are not supported\r\n"),
            ("1 9223372036854775807 1", "-ERR Zero rates are not supported\r\n"),
            ("0 1 3153600001", "-ERR the bucket takes more than 36500d to fill\r\n"),
            ("1 1 9223372036854775807", "-ERR the bucket takes more than 36500d to fill\r\n"),
            ("9223372036854775807 1 1", "-ERR the bucket takes more than 36500d to fill\r\n"),
            ("0 1000000000 1", "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:1\r\n"),
            ("0 1 3153600000", "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:3153600000\r\n"),
        ] {
            check(server, &format!("CL.THROTTLE {} {words}\n", words.replace(' ', "-")), answer);
        }
        let binary = b"*5\r\n$11\r\nCL.THROTTLE\r\n$2\r\n\xff\x00\r\n$1\r\n0\r\n$1\r\n1\r\n$1\r\n1\r\n";
        let other = b"*5\r\n$11\r\nCL.THROTTLE\r\n$2\r\n\xfe\x00\r\n$1\r\n0\r\n$1\r\n1\r\n$1\r\n1\r\n";
        let answer = server.exchange("m", &[&binary[..], other, binary].concat());
        assert_eq!(
            String::from_utf8(answer).unwrap(),
            "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:1\r\n*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:1\r\n*5\r\n:1\r\n:1\r\n:0\r\n:1\r\n:1\r\n",
            "keys are any bytes"
        );
    });
}

#[test]
fn configured_limits_are_taken_from() {
    with_resp(&[], |server| {
        let take = "TOLL.TAKE signup 192.0.2.1 ann\n";
        let answer = String::from_utf8(server.exchange("m", take.repeat(4).as_bytes())).unwrap();
        let allowed: Vec<&str> = answer.split("*8\r\n").skip(1).map(|answer| &answer[..14]).collect();
        assert_eq!(
            allowed,
            [":0\r\n:3\r\n:2\r\n:-", ":0\r\n:3\r\n:1\r\n:-", ":0\r\n:3\r\n:0\r\n:-", ":1\r\n:3\r\n:0\r\n:3"],
            "{answer}"
        );
        let mut client = client(server);
        let mut ask = |words: &str| {
            let mut command = redis::Cmd::new();
            words.split(' ').for_each(|word| {
                command.arg(word);
            });
            command.query::<Value>(&mut client)
        };
        let numbers = |answer: Value| match answer {
            Value::Array(items) => {
                let number = |item| if let Value::Int(number) = item { number } else { panic!("{item:?}") };
                items.into_iter().map(number).collect::<Vec<i64>>()
            }
            other => panic!("{other:?}"),
        };
        let peeked = numbers(ask("TOLL.PEEK signup 192.0.2.1 ann").unwrap());
        assert_eq!((peeked[0], peeked[2], peeked[7]), (1, 0, 0));
        assert_eq!(numbers(ask("TOLL.TAKE signup 192.0.2.1 ann PEEK COST 0").unwrap())[7], 0);
        assert_eq!(numbers(ask("TOLL.TAKE signup 2001:db8::1 bob COST 2").unwrap())[2], 1, "by its network");
        assert_eq!(numbers(ask("TOLL.TAKE signup 2001:db8::2 bob").unwrap())[2], 0);
        assert_eq!(ask("TOLL.REFUND signup 2001:db8::2 bob COST 3").unwrap(), Value::Okay);
        assert_eq!(numbers(ask("TOLL.PEEK signup 2001:db8::2 bob").unwrap())[2], 3);
        assert_eq!(ask("TOLL.SET signup 2001:db8::2 bob USED 2").unwrap(), Value::Okay);
        assert_eq!(numbers(ask("TOLL.PEEK signup 2001:db8::2 bob").unwrap())[2], 1);
        assert_eq!(ask("TOLL.RESET signup 192.0.2.1 ann").unwrap(), Value::Okay);
        assert_eq!(numbers(ask("TOLL.PEEK signup 192.0.2.1 ann").unwrap())[2], 3);
        // Nested limits: the strictest is told.
        let hours: Vec<i64> = (0..3).map(|_| numbers(ask("TOLL.TAKE burst eve").unwrap())[0]).collect();
        assert_eq!(hours, [0, 0, 1]);
        assert_eq!(numbers(ask("TOLL.PEEK hourly eve").unwrap())[2], 1, "what is refused is given back");
        let hidden: Vec<(i64, i64)> = (0..2)
            .map(|_| numbers(ask("TOLL.TAKE hidden mallory").unwrap()))
            .map(|answer| (answer[0], answer[5]))
            .collect();
        assert_eq!(hidden, [(0, 0), (0, 1)], "a shadow ban is told to the application alone");
        for (words, error) in [
            ("TOLL.TAKE sign a b", "there is no limit 'sign'"),
            ("TOLL.TAKE signup a", "has 2 words: ip, name"),
            ("TOLL.TAKE signup a b COST x", "value is not an integer"),
            ("TOLL.TAKE signup a b c", "syntax error"),
            ("TOLL.SET signup a b", "syntax error"),
            ("TOLL.RESET signup a b COST 1", "syntax error"),
        ] {
            let told = ask(words).unwrap_err().to_string();
            assert!(told.contains(error), "{words}: {told}");
        }
    });
}

#[test]
fn events_are_decided_and_statistics_told() {
    with_resp(&[("listener.m.learn", "true")], |server| {
        let mut client = client(server);
        let message = "From: a@example.org\r\nSubject: please reject\r\n\r\nHi\r\n";
        let decide = redis::cmd("TOLL.DECIDE")
            .arg("mail")
            .arg("raw")
            .arg(message)
            .arg("client.ip")
            .arg("192.0.2.9")
            .arg("id")
            .arg("first")
            .to_owned();
        let decided: Value = decide.query(&mut client).unwrap();
        let told = format!("{decided:?}");
        assert!(
            told.contains("\"action\"") && told.contains("\"reject\"") && told.contains("ORDERED_REJECT"),
            "{told}"
        );
        let stats = redis::cmd("TOLL.STATS").arg("-").arg("ip").arg("192.0.2.9").to_owned();
        let stats = format!("{:?}", stats.query::<Value>(&mut client).unwrap());
        assert!(stats.contains("\"windows\"") && stats.contains("\"seen\""), "{stats}");
        let synced: (i64, i64) = redis::cmd("WAITAOF").arg(&[1, 0, 0]).query(&mut client).unwrap();
        assert_eq!(synced, (1, 0));
        let asked_nothing: (i64, i64) = redis::cmd("WAITAOF").arg(&[0, 0, 10]).query(&mut client).unwrap();
        assert_eq!(asked_nothing, (0, 0));
        for words in [[2, 0, 0], [1, -1, 0]] {
            assert!(redis::cmd("WAITAOF").arg(&words).query::<(i64, i64)>(&mut client).is_err(), "{words:?}");
        }
        let learn = redis::cmd("TOLL.LEARN")
            .arg("mail")
            .arg("spam")
            .arg("raw")
            .arg(message)
            .arg("id")
            .arg("second")
            .to_owned();
        let learned = format!("{:?}", learn.query::<Value>(&mut client).unwrap());
        assert!(learned.contains("\"standing\"") && learned.contains("\"operator\""), "{learned}");
        // One that is not read where it is.
        let long = format!("{message}{}", "text ".repeat(2_000));
        let observe = redis::cmd("TOLL.OBSERVE").arg("mail").arg("raw").arg(long).to_owned();
        let observed = format!("{:?}", observe.query::<Value>(&mut client).unwrap());
        assert!(observed.contains("\"mail.subject\""), "{observed}");
        for (words, error) in [
            (vec!["TOLL.DECIDE", "mial", "raw", "x"], "there is no pipeline `mial`"),
            (vec!["TOLL.DECIDE", "mail", "raw"], "field 'raw' has no value"),
            (vec!["TOLL.DECIDE", "mail", "client.ip", "x"], "field `client.ip`: expected ip"),
            (vec!["TOLL.STATS", "mail", "ipp", "x"], "there is no kind `ipp`"),
            (vec!["TOLL.LEARN", "mail", "spma", "raw", "x"], "there is no feedback class `spma`"),
        ] {
            let mut command = redis::Cmd::new();
            words.iter().for_each(|word| {
                command.arg(*word);
            });
            let told = command.query::<Value>(&mut client).unwrap_err().to_string();
            assert!(told.contains(error), "{words:?}: {told}");
        }
        let page = server.get("/metrics").body;
        assert!(page.contains("tollhouse_resp_commands_total{listener=\"m\"}"), "{page}");
    });
    with_resp(&[], |server| {
        let answer = server.exchange("m", b"TOLL.LEARN mail spam subject x\r\n");
        assert!(answer.starts_with(b"-NOPERM "), "{}", String::from_utf8_lossy(&answer));
    });
}

#[test]
fn what_is_pipelined_is_answered_in_order() {
    with_resp(&[], |server| {
        let mut lines = String::new();
        let mut expected = String::new();
        for round in 0..2000 {
            lines += &format!("CL.THROTTLE k{round} 0 1 1\nECHO {round}\n");
            expected +=
                &format!("*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:1\r\n${}\r\n{round}\r\n", round.to_string().len());
        }
        check(server, &lines, &expected);
        let mut client = client(server);
        let mut pipe = redis::pipe();
        (0..3000).for_each(|_| {
            pipe.cmd("CL.THROTTLE").arg("one").arg(999).arg(1).arg(3600);
        });
        let answers: Vec<[i64; 5]> = pipe.query(&mut client).unwrap();
        assert_eq!(answers.iter().filter(|answer| answer[0] == 0).count(), 1000);
        assert!(answers[..1000].iter().zip((0..1000).rev()).all(|(answer, left)| answer[2] == left));
    });
}

#[test]
fn takes_of_many_connections_are_decided_together() {
    const CONNECTIONS: usize = 40;
    const ROUNDS: usize = 25;
    with_resp(&[], |server| {
        // Own keys tell whether each connection hears what it asked, the shared one whether takes get lost or count twice,
        // and words that are wrong whether what stands between is answered in its place.
        let answers = std::thread::scope(|scope| {
            let talks: Vec<_> = (0..CONNECTIONS)
                .map(|own| {
                    scope.spawn(move || {
                        let mut client = client(server);
                        let mut left = Vec::new();
                        for round in 0..ROUNDS {
                            let mut pipe = redis::pipe();
                            pipe.cmd("CL.THROTTLE").arg(format!("own{own}")).arg(ROUNDS).arg(1).arg(3600);
                            pipe.cmd("CL.THROTTLE").arg("shared").arg(99).arg(1).arg(3600);
                            pipe.cmd("ECHO").arg(own);
                            pipe.cmd("CL.THROTTLE").arg("shared").arg(99).arg(1).arg(3600);
                            let (mine, first, echo, second): ([i64; 5], [i64; 5], usize, [i64; 5]) =
                                pipe.query(&mut client).unwrap();
                            assert_eq!((mine[0], mine[2], echo), (0, (ROUNDS - round) as i64, own));
                            left.extend(
                                [first, second].iter().filter(|take| take[0] == 0).map(|take| take[2]),
                            );
                        }
                        left
                    })
                })
                .collect();
            talks.into_iter().flat_map(|talk| talk.join().unwrap()).collect::<Vec<i64>>()
        });
        let mut left = answers;
        left.sort_unstable();
        assert_eq!(left, (0..100).collect::<Vec<i64>>(), "each of the hundred was given to one");
    });
}

#[test]
fn a_client_cannot_cost_too_much() {
    with_resp(&[("listener.m.body_max", "1KiB")], |server| {
        check(server, "*2\r\n$4\r\nECHO\r\n$1024\r\n", "-ERR Protocol error: invalid bulk length\r\n");
        check(server, &"a".repeat(2000), "-ERR Protocol error: too big inline request\r\n");
    });
    // A client that never reads what it asks for is let go.
    with_resp(&[("server.timeout", "200ms")], |server| {
        let mut stream = server.connect_to("m");
        let asked = b"COMMAND DOCS\r\n".repeat(1000);
        let mut sent = 0;
        while sent < 64 << 20 {
            match stream.write(&asked) {
                Ok(bytes) => sent += bytes,
                Err(_) => break,
            }
        }
        assert!(sent < 64 << 20, "it was never let go");
        check(server, "PING\n", "+PONG\r\n");
    });
    with_resp(&[("listener.m.idle", "200ms")], |server| {
        let mut stream = server.connect_to("m");
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty());
    });
}

/// Returns true if a program is there.
fn has(program: &str) -> bool {
    let there = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let there = there.is_ok_and(|status| status.success());
    if !there {
        println!("skipped: {program} is not installed");
    }
    there
}

#[test]
fn redis_cli_is_a_client() {
    if !has("redis-cli") {
        return;
    }
    with_resp(&[], |server| {
        let (host, port) = server.listener("m").rsplit_once(':').unwrap();
        let ask = |arguments: &[&str]| {
            let output =
                Command::new("redis-cli").args(["-h", host, "-p", port]).args(arguments).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        };
        assert_eq!(ask(&["CL.THROTTLE", "a", "15", "30", "60"]), "0\n16\n15\n-1\n2\n");
        assert_eq!(ask(&["-3", "PING"]), "PONG\n");
        assert_eq!(ask(&["-3", "--json", "TOLL.TAKE", "signup", "192.0.2.1", "a"]).matches(',').count(), 7);
        assert!(ask(&["INFO"]).contains("tollhouse_version:"));
        assert!(ask(&["COMMAND", "COUNT"]).trim().parse::<u32>().unwrap() > 10);
        // As it is used by a person: it asks for the commands' documentation first.
        let mut child = Command::new("redis-cli")
            .args(["-h", host, "-p", port])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"CL.THROTTLE b 0 1 1\nCL.THROTTLE b 0 1 1\n").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "0\n1\n0\n-1\n1\n1\n1\n0\n1\n1\n");
    });
}

#[test]
fn redis_benchmark_is_a_client() {
    if !has("redis-benchmark") {
        return;
    }
    with_resp(&[], |server| {
        let (host, port) = server.listener("m").rsplit_once(':').unwrap();
        for arguments in [
            &["CL.THROTTLE", "k:__rand_int__", "15", "30", "60"][..],
            &["TOLL.TAKE", "signup", "ip", "__rand_int__"],
        ] {
            let output = Command::new("redis-benchmark")
                .args(["-h", host, "-p", port, "-n", "2000", "-c", "4", "-P", "16", "-r", "1000", "--csv"])
                .args(arguments)
                .output()
                .unwrap();
            let (text, errors) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(output.status.success() && text.lines().count() == 2, "{text} {errors}");
            assert!(!errors.contains("WARN") && !text.contains("ERR"), "{text} {errors}");
        }
    });
}

/// The script of what the client library of Python does.
const PYTHON: &str = r#"
import sys
import redis
host, port = sys.argv[1].rsplit(":", 1)
for protocol in (2, 3):
    client = redis.Redis(host=host, port=int(port), protocol=protocol)
    assert client.ping()
    key = "py%d" % protocol
    assert client.execute_command("CL.THROTTLE", key, 1, 30, 60) == [0, 2, 1, -1, 2]
    pipe = client.pipeline(transaction=False)
    for _ in range(3):
        pipe.execute_command("CL.THROTTLE", key, 1, 30, 60)
    assert [answer[0] for answer in pipe.execute()] == [0, 1, 1]
    try:
        client.execute_command("TOLL.TAKE", "nothing", "a")
        raise AssertionError("it was taken")
    except redis.ResponseError as error:
        assert "there is no limit" in str(error), error
    assert client.info("server")["tollhouse_version"]
print("done")
"#;

#[test]
fn pythons_library_is_a_client() {
    let purpose = "Python's client of Redis";
    let Some(python) = python("python-redis", &["redis==8.1.0"], purpose) else { return };
    with_resp(&[], |server| {
        let output = Command::new(&python).args(["-c", PYTHON, server.listener("m")]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n", "{errors}");
    });
}

#[test]
fn a_conversation_ends_with_the_server() {
    with_listener("resp", &[], |server| {
        let mut stream = server.connect_to("m");
        stream.write_all(b"PING\r\n").unwrap();
        let mut answer = [0; 7];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"+PONG\r\n");
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(stream.read(&mut answer).unwrap(), 0);
    });
}

/// The bytes that come until the server closes, of a client that goes on sending.
fn until_closed(server: &TestServer, bytes: &[u8]) -> Vec<u8> {
    let mut stream = server.connect_to("m");
    let mut answer = Vec::new();
    // Who is closed on may hear of it while he writes.
    if stream.write_all(bytes).is_ok() {
        let mut part = [0; 1024];
        while let Ok(read @ 1..) = stream.read(&mut part) {
            answer.extend_from_slice(&part[..read]);
        }
    }
    answer
}

#[test]
fn a_page_in_a_browser_is_not_obeyed() {
    with_resp(&[], |server| {
        let used = |user: &str| {
            let peeked = server.exchange("m", format!("TOLL.PEEK burst user {user}\n").as_bytes());
            String::from_utf8(peeked).unwrap()
        };
        let fresh = used("nobody");
        let body = "\r\nTOLL.TAKE burst user victim\r\nTOLL.TAKE burst user victim\r\n";
        for head in [
            "POST / HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://evil.example\r\nContent-Length: 70\r\n",
            "PUT /x HTTP/1.1\r\n",
            "GET / HTTP/1.1\r\n",
            "Host: evil.example\r\n",
            "post /x\r\n",
        ] {
            assert_eq!(until_closed(server, format!("{head}{body}").as_bytes()), b"", "{head}");
            assert_eq!(used("victim"), fresh, "{head}");
        }
        // What came before it is answered, and what is a value is no request.
        assert_eq!(until_closed(server, b"PING\r\nGET / HTTP/1.1\r\nPING\r\n"), b"+PONG\r\n");
        assert_eq!(server.exchange("m", b"ECHO HTTP/1.1\r\n"), b"$8\r\nHTTP/1.1\r\n");
        // And who knows no command is no client.
        let unknown = until_closed(server, &b"nonsense\r\n".repeat(100));
        assert_eq!(unknown.iter().filter(|byte| **byte == b'\n').count(), 16);
        let page = server.get("/metrics").body;
        assert!(
            page.contains("tollhouse_listener_failures_total{listener=\"m\",reason=\"http\"} 6"),
            "{page}"
        );
    });
}

#[test]
fn wrong_passwords_are_counted_and_answered_late() {
    with_resp(&[("listener.m.password", "correct horse battery")], |server| {
        let begun = std::time::Instant::now();
        let answer = server.exchange("m", b"AUTH wrong\r\nAUTH wrong\r\nHELLO 2 AUTH default wrong\r\n");
        assert_eq!(answer.iter().filter(|byte| **byte == b'\n').count(), 3);
        // Each waits for its time, however fast the machine is.
        assert!(begun.elapsed() >= std::time::Duration::from_millis(100 + 200 + 400));
        let page = server.get("/metrics").body;
        assert!(page.contains("tollhouse_wrong_tokens_total{listener=\"m\"} 3"), "{page}");
    });
}

const PAIR: &str = "
[[field]]
name = \"device\"
type = \"string\"
[[kind]]
name = \"pair\"
of = [\"client.ip\", \"device\"]
[[kind]]
name = \"wide\"
of = \"client.ip\"
prefix = { ipv4 = 16, ipv6 = 48 }
[[statistic]]
name = \"pairs\"
keys = [\"pair\", \"wide\"]
counts = [\"seen\"]
windows = [\"10m x 6\"]
";

#[test]
fn a_key_of_several_fields_is_looked_up_by_its_values() {
    let parent = tempfile::tempdir().unwrap();
    let directory =
        Directory::create(&parent.path().join("data"), &[plan::preset::find("web").unwrap()]).unwrap();
    configure(&directory, PAIR);
    let server = start(&directory, &[("listener.m.protocol", "resp"), ("listener.m.listen", "127.0.0.1:0")]);
    let event = serde_json::json!({"client.ip": "192.0.2.7", "device": "a\"b"}).to_string();
    assert_eq!(server.post("/v1/decide", &[JSON], &event).status, 200);
    let stats = |values: &[&str]| -> redis::RedisResult<Value> {
        redis::cmd("TOLL.STATS").arg("-").arg("pair").arg(values).query(&mut client(&server))
    };
    for values in [&["192.0.2.7", "a\"b"][..], &["[\"192.0.2.7\",\"a\\\"b\"]"]] {
        let told = format!("{:?}", stats(values).unwrap());
        assert!(told.contains("\"tiers\"") && told.contains("\"seen\""), "{told}");
    }
    assert!(
        stats(&["192.0.2.7"]).unwrap_err().to_string().contains("write the values of its 2 fields in order")
    );
    let line = server.get("/v1/timeline?kind=pair&value=%5B%22192.0.2.7%22,%22a%5C%22b%22%5D").json();
    assert_eq!((&line["piece"], &line["quality"]), (&"[\"192.0.2.7\",\"a\\\"b\"]".into(), &"exact".into()));
    assert_eq!(line["tiers"][0]["buckets"][0]["counts"]["seen"], 1);
    let refused = server.get("/v1/timeline?kind=pair&value=192.0.2.7");
    check_problem(&refused, 422, "not-applicable", "write the values of its 2 fields in order");
    let told = server.get("/v1/pipelines").json();
    let kinds = told["pipelines"][0]["kinds"].as_array().unwrap();
    let kind = |name: &str| kinds.iter().find(|kind| kind["name"] == name).unwrap();
    assert_eq!(kind("pair")["of"], serde_json::json!(["client.ip", "device"]));
    assert_eq!(kind("pair")["normalise"], serde_json::json!(["exact", "exact"]));
    assert_eq!(kind("wide")["normalise"], "network/16/48");
    server.stop();
}
