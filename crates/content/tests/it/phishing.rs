//! Marks of phishing, and of honest mail that has some of them.

use content::mail::message::Envelope;
use data_encoding::BASE64_MIME;

use crate::story::check;

/// A message of a page, and of files with their types.
fn message(head: &str, page: &str, files: &[(&str, &[u8])]) -> String {
    let mut raw = format!(
        "{head}MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/html\r\n\r\n{page}\r\n"
    );
    for (kind, content) in files {
        let content = BASE64_MIME.encode(content);
        raw +=
            &format!("--b\r\nContent-Type: {kind}\r\nContent-Transfer-Encoding: base64\r\n\r\n{content}\r\n");
    }
    raw + "--b--\r\n"
}

fn check_facts(raw: &str, expected: &[(&str, &str)]) {
    check(raw, Envelope::default(), expected);
}

#[test]
fn links_of_qr_codes_are_links() {
    let code = corpora::qr_png("https://sign-in.example.net/m?u=1");
    let page = "<p>Scan the code</p><img src=cid:code><a href=https://www.example.org/>us</a>";
    let raw = message("From: a@example.org\r\n", page, &[("image/png; name=code.png", &code)]);
    check_facts(
        &raw,
        &[
            ("mail.qr_codes", "1"),
            ("mail.qr_links", "https://sign-in.example.net/m?u=1"),
            ("mail.qr_link_domains", "example.net"),
            ("mail.links", "https://www.example.org/, https://sign-in.example.net/m?u=1"),
            ("mail.link_count", "2"),
            ("mail.images_unread", "false"),
            ("mail.cut_short", "false"),
        ],
    );
    let picture = corpora::qr_png("TICKET 2026-1234 SEAT 12A");
    let raw = message("From: a@example.org\r\n", "<p>Your ticket", &[("image/png", &picture)]);
    check_facts(&raw, &[("mail.qr_codes", "1"), ("mail.qr_links", ""), ("mail.link_count", "0")]);
}

#[test]
fn links_of_invitations_are_links() {
    let invitation = b"BEGIN:VCALENDAR\r\nMETHOD:REQUEST\r\nORGANIZER:mailto:a@example.org\r\n\
        DESCRIPTION:Confirm at https://pay.example.net/x\r\n";
    let raw = message("From: a@example.org\r\n", "<p>Hi", &[("text/calendar; method=REQUEST", invitation)]);
    check_facts(
        &raw,
        &[
            ("mail.calendar_links", "https://pay.example.net/x"),
            ("mail.calendar_link_domains", "example.net"),
            ("mail.links", "https://pay.example.net/x"),
            ("mail.attachment_links", "https://pay.example.net/x"),
        ],
    );
}

/// The names that a message claims: in From, and on its page.
fn check_names(from: &str, page: &str, claimed: &str, of_page: &str) {
    let raw = message(&format!("From: {from}\r\n"), page, &[]);
    check_facts(&raw, &[("mail.claimed_names", claimed), ("mail.page_names", of_page)]);
}

#[test]
fn names_are_claimed_by_others() {
    check_names("PayPal <service@paypal.com>", "<title>PayPal</title>", "", "");
    check_names("P\u{430}yPal <x@example.net>", "<p>Hi", "paypal", "");
    check_names("Dr. No <x@example.net>", "<p>Hi", "dr, drno, no", "");
    check_names(
        "x@example.net",
        "<img alt=Netflix src=http://netflix.com/a><a href=http://b.example/>",
        "",
        "netflix",
    );
    check_names("x@example.net", "<img alt=Netflix><a href=https://www.netflix.com/a>See</a>", "", "");
    check_names("x@example.net", "<p>Hi</p><p>&copy; DHL</p><a href=http://dhl-aggregate.net>", "", "dhl");
    check_names("PayPal team, _ <x@example.net>", "<p>Hi", "paypal, paypalteam, team", "");
    check_names("x@mail.dhl.de", "<title>DHL</title>", "", "");
    check_names("x@example.net", "<p>I like Netflix", "", "");
}

#[test]
fn threads_are_told_by_their_first_message() {
    let check_thread = |head: &str, page: &str, thread: &str, refers: &str, quotes: &str| {
        let raw = message(&format!("From: a@example.org\r\n{head}"), page, &[]);
        check_facts(&raw, &[("mail.thread", thread), ("mail.refers", refers), ("mail.quotes", quotes)]);
    };
    check_thread("Message-ID: <1@x>\r\n", "Hi", "1@x", "false", "false");
    check_thread("Message-ID: <3@x>\r\nIn-Reply-To: <2@x>\r\n", "Hi", "2@x", "true", "false");
    check_thread(
        "References: <1@x>\r\n <2@x>\r\nIn-Reply-To: <2@x>\r\n",
        "Yes<blockquote>Hi</blockquote>",
        "1@x",
        "true",
        "true",
    );
    check_facts("\r\nYes.\r\n> Hi\r\n", &[("mail.quotes", "true"), ("mail.thread", "")]);
}

#[test]
fn one_image_one_link() {
    let raw = message("", "<a href=https://example.org/><img src=cid:a></a><img src=cid:b>", &[]);
    check_facts(&raw, &[("mail.html_images", "2"), ("mail.html_image_links", "1"), ("mail.link_count", "1")]);
    let raw = message("", "<form action=https://evil.example/><input></form>", &[]);
    check_facts(&raw, &[("mail.html_form", "true"), ("mail.html_form_posts", "true")]);
}
