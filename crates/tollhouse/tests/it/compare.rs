//! `compare`, with this very program as the other filter: both speak the others' protocols.

use crate::ports::free_port;
use crate::program::{Data, Server, run};

/// A message that nothing is wrong with.
const HARMLESS: &str = "From: Ann <ann@example.org>\r\nTo: bob@example.net\r\nSubject: The minutes of Monday\r\n\
    Date: Sun, 17 May 2026 09:59:00 +0000\r\nMessage-ID: <1@example.org>\r\n\r\nDear Bob,\r\nhere they are.\r\n";

/// Settings of a listener on a port that is free now.
fn listener(protocol: &str) -> (String, [String; 2]) {
    let address = format!("127.0.0.1:{}", free_port());
    let settings = [format!("listener.peer.protocol={protocol}"), format!("listener.peer.listen={address}")];
    (address, settings)
}

fn check(protocol: &str, kind: &str) {
    let data = Data::new(&["mail"]);
    let (address, [first, second]) = listener(protocol);
    let _server = Server::start(&data.path(), &["--set", &first, "--set", &second]);
    let message = data.file("message.eml", HARMLESS);
    let same = run(["compare", kind, &address, &message, "--json"], "").expect(0).json();
    let [pair, summary] = &same[..] else { panic!("{same:?}") };
    assert_eq!(pair["agree"], true, "{pair}");
    assert_eq!((&summary["summary"]["messages"], &summary["summary"]["agree"]), (&1.into(), &1.into()));

    let config = data.file(
        "other.toml",
        "preset = \"mail\"\n[[rule]]\nname = \"ONLY_HERE\"\nwhen = \"mail.size > 0\"\nscore = 50.0\n",
    );
    let told = run(["compare", kind, &address, &message, "--config", &config], "").expect(0);
    for part in
        ["agree on 0 of 1 messages", "speak where only here objects", "ONLY_HERE", "differ most", "reject"]
    {
        assert!(told.stdout.contains(part), "{part} is missing in {}", told.stdout);
    }
}

#[test]
fn with_an_rspamd() {
    check("rspamd", "rspamd");
}

#[test]
fn with_a_spamd() {
    check("spamc", "spamd");
}

#[test]
fn nobody_there_is_said() {
    let (address, _) = listener("rspamd");
    let ran = run(["compare", "rspamd", &format!("http://{address}"), "-"], HARMLESS).expect(2);
    assert!(ran.stderr.contains("nothing answers at "), "{}", ran.stderr);
    run(["compare", "rspamd", "https://example.org", "-"], HARMLESS).expect(2);
    run(["compare", "spamd", "nowhere", "-"], HARMLESS).expect(2);
}
