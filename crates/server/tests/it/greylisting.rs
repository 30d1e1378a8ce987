//! Greylisting by the module of this name, asked by policy delegation, with a clock that the test sets.

use crate::harness::{MAIL, MESSAGE, SetClock, TestServer, directory, start_by, switch_on};

/// Asks as Postfix does before the message comes, and returns the answer's first word.
fn asked(server: &TestServer, instance: &str, sender: &str, recipient: &str, user: &str) -> String {
    let request = format!(
        "request=smtpd_access_policy\nprotocol_state=RCPT\nprotocol_name=ESMTP\nclient_address=198.51.100.7\n\
         helo_name=client.example.net\nsender={sender}\nrecipient={recipient}\nrecipient_count=0\nqueue_id=\n\
         instance={instance}\nsize=0\nsasl_username={user}\n\n"
    );
    let answer = String::from_utf8(server.exchange("policy", request.as_bytes())).unwrap();
    answer.strip_prefix("action=").unwrap().split_whitespace().next().unwrap().to_owned()
}

/// Hands over the message itself, and returns the action.
fn sent(server: &TestServer, recipient: &str, user: &str) -> String {
    let user = Some(format!("Tollhouse-User: {user}")).filter(|_| !user.is_empty());
    let recipient = format!("Tollhouse-Rcpt-To: {recipient}");
    let known =
        [MAIL, "Tollhouse-Client-Ip: 198.51.100.7", "Tollhouse-Mail-From: ann@example.org", &recipient];
    let headers: Vec<&str> = known.into_iter().chain(user.as_deref()).collect();
    let decided = server.post("/v1/decide?pipeline=mail", &headers, MESSAGE).json();
    decided["action"].as_str().unwrap().to_owned()
}

/// Runs a test with a node whose default pipeline greylists, and its clock.
fn with_greylisting(test: impl FnOnce(&TestServer, &SetClock)) {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    switch_on(&directory, &["greylisting"]);
    let settings = [("listener.policy.protocol", "policy"), ("listener.policy.listen", "127.0.0.1:0")];
    let clock = SetClock::default();
    let server = start_by(&directory, &settings, |_| clock.clock());
    test(&server, &clock);
    server.stop();
}

#[test]
fn who_is_known_is_not_asked_to_come_again() {
    with_greylisting(|server, _| {
        let ask = |attempt: &str| asked(server, attempt, "eve@example.com", "bob@example.net", "");
        // Ten mails from there were accepted, of people who have logged in.
        for message in 0..9 {
            assert_eq!(sent(server, &format!("new{message}@example.net"), "ann"), "accept");
        }
        assert_eq!(ask("1.a"), "DEFER_IF_PERMIT");
        assert_eq!(sent(server, "last@example.net", "ann"), "accept");
        assert_eq!(ask("2.a"), "DUNNO");
    });
}

/// A test text that is always refused: see `mail.test_pattern`.
const REFUSED: &str = "XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X";

#[test]
fn what_is_to_be_refused_is_not_deferred() {
    with_greylisting(|server, _| {
        let headers = [
            MAIL,
            "Tollhouse-Client-Ip: 198.51.100.7",
            "Tollhouse-Mail-From: ann@example.org",
            "Tollhouse-Rcpt-To: bob@example.net",
        ];
        let action = |message: &str| {
            let decided = server.post("/v1/decide?pipeline=mail", &headers, message).json();
            decided["action"].as_str().unwrap().to_owned()
        };
        assert_eq!(action(&format!("From: ann@example.org\r\nSubject: x\r\n\r\n{REFUSED}\r\n")), "reject");
        assert_eq!(action(MESSAGE), "throttle");
    });
}

#[test]
fn who_is_new_comes_again() {
    with_greylisting(|server, clock| {
        let (defers, passes) = ("DEFER_IF_PERMIT", "DUNNO");
        let mut attempt = 0;
        let mut ask = |sender: &str, recipient: &str, user: &str| {
            attempt += 1;
            asked(server, &format!("{attempt}.a"), sender, recipient, user)
        };
        let ann = "ann@example.org";
        assert_eq!(ask(ann, "bob@example.net", ""), defers, "new");
        assert_eq!(ask(ann, "bob@example.net", "ann"), passes, "who has logged in");
        assert_eq!(ask("", "bob@example.net", ""), passes, "bounces");
        clock.set(299);
        assert_eq!(ask(ann, "bob@example.net", ""), defers, "too soon");
        clock.set(301);
        assert_eq!(ask("other@example.org", "bob@example.net", ""), passes, "of the same domain");
        assert_eq!(ask(ann, "bob@example.net", ""), passes);
        assert_eq!(ask(ann, "cid@example.net", ""), defers, "to somebody else");
        // What passes is counted with its message, and after five nobody there is asked to come again.
        for message in 0..5 {
            assert_eq!(ask(ann, &format!("new{message}@example.net"), ""), defers, "after {message}");
            clock.set(400 + message);
            assert_ne!(sent(server, "bob@example.net", ""), "throttle");
        }
        assert_eq!(ask(ann, "dan@example.net", ""), passes, "known by then");
        // Nobody has come from there for longer than anything is kept.
        clock.set(40 * 86_400);
        assert_eq!(ask(ann, "dan@example.net", ""), defers, "forgotten");
    });
}
