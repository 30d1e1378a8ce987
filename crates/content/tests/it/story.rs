//! Whole messages in, facts out.

use content::budget::{Budget, Cancellation};
use content::mail::message::{
    Envelope, EnvelopeColumns, MailColumns, envelope_features, event, features, time,
};
use content::network::PrefixLengths;
use event::{Facts, Schema, SchemaBuilder, Time, Value};

/// A schema for mail.
pub(crate) struct Mail {
    pub(crate) schema: Schema,
    pub(crate) envelope: EnvelopeColumns,
    pub(crate) columns: MailColumns,
}

impl Mail {
    pub(crate) fn new() -> Mail {
        let mut builder = SchemaBuilder::default();
        let envelope = EnvelopeColumns::register(&mut builder).unwrap();
        let columns = MailColumns::register(&mut builder).unwrap();
        Mail { schema: builder.finish(), envelope, columns }
    }

    /// The row of a stored message.
    pub(crate) fn row(&self, raw: &[u8]) -> Facts {
        self.row_of(raw, Envelope::from_headers(raw))
    }

    fn row_of(&self, raw: &[u8], envelope: Envelope) -> Facts {
        let event = event(raw, envelope);
        let mut row = self.schema.empty_row();
        for (name, value) in event.fields {
            row.set(self.schema.slot(&name).unwrap(), value);
        }
        envelope_features(&self.envelope, PrefixLengths::default(), &mut row);
        let budget = Budget::of_message(raw.len(), &Cancellation::default());
        features(raw, &budget, &self.envelope, &self.columns, &mut row);
        row
    }
}

/// Checks facts by name; an empty text stands for a missing one.
pub(crate) fn check(raw: &str, envelope: Envelope, expected: &[(&str, &str)]) {
    let mail = Mail::new();
    let row = mail.row_of(raw.as_bytes(), envelope);
    for (name, expected) in expected {
        let slot = mail.schema.slot(name).unwrap_or_else(|| panic!("no fact {name}"));
        let found = row.get(slot).map(Value::to_string).unwrap_or_default();
        assert_eq!(found, *expected, "{name}");
    }
}

const PHISH: &str = "Received: from mail.evil.example (unknown [203.0.114.9])\r\n\
\tby mx.home.example (Postfix) with ESMTP id 1; Thu, 22 Aug 2024 12:36:23 +0200\r\n\
Received: from x by y; Thu, 22 Aug 2024 12:36:20 +0200\r\n\
DKIM-Signature: v=1; a=rsa-sha256; d=Evil.example;\r\n s=k; b=abc\r\n\
From: \"security@bank.example\" <Alert+77@EVIL.example>\r\n\
Reply-To: collect@other.example\r\n\
To: Ann <ann@home.example>, bob@home.example\r\n\
Subject: Re: =?utf-8?q?Your_P=D0=B0yment?= FAILED!!\r\n\
Date: Thu, 22 Aug 2024 12:36:00 +0200\r\n\
Message-ID: <1@Evil.Example>\r\n\
X-Mailer: Mailer 3.14.15\r\n\
MIME-Version: 1.0\r\n\
Content-Type: multipart/mixed; boundary=\"o\"\r\n\
\r\n\
--o\r\n\
Content-Type: multipart/alternative; boundary=i\r\n\
\r\n\
--i\r\n\
Content-Type: text/plain; charset=UTF-8\r\n\
\r\n\
only in plain: http://plain.example.org/\r\n\
--i\r\n\
Content-Type: text/html; charset=UTF-8\r\n\
\r\n\
<p>Dear cust\u{200b}omer, call +1 (202) 555\u{2011}0143 or \u{ff12}\u{ff10}\u{ff12}\u{ff15}\u{ff15}\u{ff15}\u{ff10}\u{ff11}\r\n\
or mail <a href=\"mailto:Help@Evil.example?subject=x\">us</a>. <a href=\"http://192.0.2.7/x#f\">www.bank.example.com</a>\r\n\
--i--\r\n\
--o\r\n\
Content-Type: application/octet-stream; name=\"Invoice.PDF.exe\"\r\n\
Content-Disposition: attachment; filename=\"Invoice.PDF.exe\"\r\n\
Content-Transfer-Encoding: base64\r\n\
\r\n\
aGVsbG8=\r\n\
--o--\r\n";

#[test]
fn a_phish_shows_its_marks() {
    let envelope = Envelope {
        client_ip: Some("203.0.114.9".parse().unwrap()),
        helo: Some("mail.evil.example".into()),
        sender: Some("bounce@Third.example".into()),
        recipients: vec!["Ann@home.example".into()],
        user: None,
    };
    check(
        PHISH,
        envelope,
        &[
            ("client.ip", "203.0.114.9"),
            ("client.net", "203.0.114.0/24"),
            ("client.user", ""),
            ("mail.sender", "bounce@third.example"),
            ("mail.sender_domain", "third.example"),
            ("mail.recipients", "ann@home.example"),
            ("mail.from", "alert+77@evil.example"),
            ("mail.from_domain", "evil.example"),
            ("mail.display_name", "security@bank.example"),
            ("mail.display_name_address_differ", "true"),
            ("mail.reply_to", "collect@other.example"),
            ("mail.from_reply_to_differ", "true"),
            ("mail.from_sender_differ", "true"),
            ("mail.recipients_in_to", "true"),
            ("mail.to_count", "2"),
            ("mail.subject", "Re: Your P\u{430}yment FAILED!!"),
            ("mail.subject_exclaims", "2"),
            ("mail.reply_without_references", "true"),
            ("mail.date", "2024-08-22T10:36:00Z"),
            ("mail.message_id_host", "evil.example"),
            ("mail.mailer", "Mailer 0.0.0"),
            ("mail.dkim_domains", "evil.example"),
            (
                "mail.header_order",
                "received,dkim-signature,from,reply-to,to,subject,date,message-id,x-mailer,mime-version,content-type",
            ),
            ("mail.header_count", "12"),
            ("mail.received_count", "2"),
            ("mail.has_list_headers", "false"),
            ("mail.parts", "3"),
            ("mail.defects", ""),
            ("mail.charset", "utf-8"),
            ("mail.html_only", "false"),
            ("mail.body_text", "dear customer, call +0 (0) 0-0 or 0 or mail us. www.bank.example.com"),
            ("mail.zero_width", "1"),
            ("mail.mixed_scripts", "1"),
            ("mail.phones", "12025550143"),
            ("mail.body_addresses", "help@evil.example"),
            ("mail.links", "http://plain.example.org/, http://192.0.2.7/x"),
            ("mail.link_domains", "example.org"),
            ("mail.link_ip_host", "true"),
            ("mail.link_text_mismatch", "true"),
            ("mail.attachment_names", "invoice.pdf.exe"),
            ("mail.attachment_types", "application/octet-stream"),
            ("mail.attachment_sums", "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"),
            ("mail.executable_attachment", "true"),
            ("mail.double_extension", "true"),
            ("mail.fingerprints", ""),
        ],
    );
}

#[test]
fn what_is_not_said_is_missing() {
    check(
        "hello\n",
        Envelope { sender: Some(String::new()), ..Envelope::default() },
        &[
            ("mail.sender", "<>"),
            ("mail.sender_domain", ""),
            ("mail.from", ""),
            ("mail.from_sender_differ", ""),
            ("mail.recipients_in_to", ""),
            ("mail.upper_share", ""),
            ("mail.has_subject", "false"),
            ("mail.body_text", "hello"),
            ("mail.links", ""),
            ("mail.link_count", "0"),
            ("mail.defects", "no-blank-line"),
        ],
    );
    check(
        "",
        Envelope::default(),
        &[("mail.body_empty", "true"), ("mail.size", "0"), ("mail.text_chars", "0")],
    );
}

#[test]
fn base64_text_and_page_are_read() {
    check(
        "Subject: AbC\nContent-Type: text/html\nContent-Transfer-Encoding: base64\nList-Id: News <News.example.com>\n\n\
         PGZvcm0gYWN0aW9uPSJodHRwczovL2V2aWwuZXhhbXBsZS5jb20vYSI+PGltZyBzcmM9Ii8veCI+aGk8L2Zvcm0+",
        Envelope::default(),
        &[
            ("mail.base64_text", "true"),
            ("mail.html_only", "true"),
            ("mail.html_form", "true"),
            ("mail.html_images", "1"),
            ("mail.links", "https://evil.example.com/a"),
            ("mail.list_id", "news.example.com"),
            ("mail.has_list_headers", "true"),
            ("mail.upper_share", "0.6666666666666666"),
        ],
    );
}

#[test]
fn stored_mail_gives_its_envelope_and_time() {
    let stored = format!(
        "From bounce@third.example Thu Aug 22 12:40:00 2024\nReturn-Path: <Bounce@third.example>\n\
         Delivered-To: ann@home.example\nReceived: from localhost (localhost [127.0.0.1])\n\tby mx; Thu, 22 Aug 2024 12:36:24 +0200\n{PHISH}"
    );
    let envelope = Envelope::from_headers(stored.as_bytes());
    let expected = Envelope {
        client_ip: Some("203.0.114.9".parse().unwrap()),
        helo: Some("mail.evil.example".into()),
        sender: Some("<Bounce@third.example>".into()),
        recipients: vec!["ann@home.example".into()],
        user: None,
    };
    assert_eq!(envelope, expected);
}

#[test]
fn the_time_is_the_topmost_that_is_plausible() {
    let seconds = Time::from_seconds;
    for (raw, expected) in [
        (
            "Received: from a by b; Thu, 22 Aug 2024 12:36:23 +0200\nDate: Thu, 1 Aug 2024 00:00:00 +0000\n\n",
            Some(seconds(1_724_322_983)),
        ),
        ("Received: from a by b\nDate: Thu, 1 Aug 2024 00:00:00 +0000\n\n", Some(seconds(1_722_470_400))),
        ("From a@b Thu Aug 22 12:36:23 2002\nSubject: x\n\n", Some(seconds(1_030_019_783))),
        ("Date: Thu, 1 Jan 1970 00:00:00 +0000\n\n", None),
        ("Date: Thu, 1 Jan 2150 00:00:00 +0000\n\n", None),
        ("Date: tomorrow\n\n", None),
        ("", None),
    ] {
        assert_eq!(time(raw.as_bytes()), expected, "{raw:?}");
    }
}
