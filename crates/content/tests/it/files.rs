//! Real attachments and pages of the peers' own tests: what must be seen in them is seen.

use corpora::folder;
use event::Value;

use crate::story::Mail;

/// Checks facts of a message by name; an empty text stands for a missing one.
fn check(name: &str, expected: &[(&str, &str)]) {
    let Some(path) = folder(&format!("mail/{name}")) else { return };
    let mail = Mail::new();
    let row = mail.row(&std::fs::read(path).unwrap());
    for (fact, expected) in expected {
        let slot = mail.schema.slot(fact).unwrap_or_else(|| panic!("no fact {fact}"));
        let found = row.get(slot).map(Value::to_string).unwrap_or_default();
        assert_eq!(found, *expected, "{fact} of {name}");
    }
}

#[test]
fn programs_are_known() {
    check(
        "edge-rspamd/exe_attm.eml",
        &[
            ("mail.attachment_kinds", "elf"),
            ("mail.executable_content", "true"),
            ("mail.executable_attachment", "true"),
        ],
    );
    check(
        "edge-rspamd/gargantua.eml",
        &[
            (
                "mail.attachment_kinds",
                "zip, text, rar, pe, elf, lnk, java-class, rtf, pdf, chm, data, arj, cab, ace, tar, bzip2, xz, zstd, \
                 iso, html, image, swf, ole, installer, office, 7z, png, jpeg, gif, script, calendar, media, svg",
            ),
            ("mail.executable_content", "true"),
            ("mail.archive_unread", "true"),
            ("mail.archive_encrypted", "false"),
        ],
    );
}

#[test]
fn archives_are_opened() {
    check(
        "edge-rspamd/zip-doublebad.eml",
        &[
            ("mail.archive_names", "fake.pdf.exe"),
            ("mail.archive_executable", "true"),
            ("mail.double_extension", "true"),
            ("mail.executable_attachment", "false"),
            ("mail.archive_inconsistent", "false"),
        ],
    );
    check("edge-rspamd/broken_richtext.eml", &[("mail.archive_names", "eicar.com")]);
    check("edge-rspamd/f.zip.gz.eml", &[("mail.archive_names", "f.zip, f.txt"), ("mail.archive_depth", "2")]);
    check("edge-rspamd/rar4.eml", &[("mail.attachment_kinds", "rar"), ("mail.archive_unread", "true")]);
    check(
        "edge-spamassassin/spam/olevbmacro/zippwmacro.eml",
        &[("mail.archive_names", "macro.xlsm"), ("mail.archive_encrypted", "true")],
    );
}

#[test]
fn documents_are_looked_into() {
    for (name, macros, auto) in
        [("nomacro", "false", "false"), ("macro", "true", "false"), ("malicemacro", "true", "true")]
    {
        check(
            &format!("edge-spamassassin/spam/olevbmacro/{name}.eml"),
            &[("mail.office_macros", macros), ("mail.office_auto_macros", auto)],
        );
    }
    check(
        "edge-spamassassin/spam/olevbmacro/renamedmacro.eml",
        &[("mail.office_macros", "true"), ("mail.attachment_mismatch", "true")],
    );
    check("edge-spamassassin/spam/olevbmacro/encrypted.eml", &[("mail.office_encrypted", "true")]);
    check("edge-rspamd/pdf_js.eml", &[("mail.pdf_script", "true"), ("mail.pdf_encrypted", "false")]);
    check("edge-rspamd/pdf_encrypted.eml", &[("mail.pdf_encrypted", "true"), ("mail.pdf_script", "false")]);
    check(
        "edge-rspamd/ics.eml",
        &[("mail.calendar_method", "publish"), ("mail.attachment_kinds", "calendar")],
    );
}

#[test]
fn hidden_text_is_kept_apart() {
    check(
        "edge-rspamd/zerofont.eml",
        &[
            ("mail.html_hidden_text", "le aring"),
            ("mail.html_split_words", "1"),
            ("mail.body_text", "fish test url foo bar ttt ololo baz"),
        ],
    );
}
