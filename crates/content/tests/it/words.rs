//! Facts of messages' words, contacts and links.

use content::mail::message::Envelope;

use crate::story::check;

#[test]
fn obfuscations_are_facts_and_the_text_is_undone() {
    check(
        "Subject: F R E E  ca$h\n From: x\nContent-Type: text/plain; charset=utf-8\n\n\
         V\u{456}agra and \u{ff36}\u{ff29}\u{ff21}\u{ff27}\u{ff32}\u{ff21}, v1agra, c\u{336}i\u{336}a\u{336}lis \u{1F600} \u{202E}x\u{202C} hi\u{E0041}\n",
        Envelope::default(),
        &[
            ("mail.body_text", "viagra and viagra, viagra, cialis \u{1F600} x hi"),
            ("mail.mixed_scripts", "1"),
            ("mail.look_alikes", "1"),
            ("mail.styled_letters", "6"),
            ("mail.leet_words", "2"),
            ("mail.spaced_words", "1"),
            ("mail.stacked_marks", "3"),
            ("mail.bidi_controls", "2"),
            ("mail.tag_characters", "1"),
            ("mail.zero_width", "0"),
            ("mail.emoji", "1"),
            ("mail.subject_emoji", "0"),
            ("mail.subject_obfuscated", "true"),
        ],
    );
}

#[test]
fn languages_and_scripts_are_facts() {
    check(
        "Subject: x\nContent-Type: text/plain; charset=utf-8\n\n\
         \u{42D}\u{442}\u{43E} \u{43F}\u{438}\u{441}\u{44C}\u{43C}\u{43E} \u{43E} \u{434}\u{43E}\u{43C}\u{435}, \
         \u{43A}\u{43E}\u{442}\u{43E}\u{440}\u{44B}\u{439} \u{43C}\u{44B} \u{432}\u{438}\u{434}\u{435}\u{43B}\u{438} \
         \u{43D}\u{430} \u{43F}\u{440}\u{43E}\u{448}\u{43B}\u{43E}\u{439} \u{43D}\u{435}\u{434}\u{435}\u{43B}\u{435}.\n",
        Envelope::default(),
        &[
            ("mail.language", "rus"),
            ("mail.scripts", "Cyrillic"),
            ("mail.foreign_letter_share", "0"),
            ("mail.subject_obfuscated", "false"),
        ],
    );
}

#[test]
fn contacts_are_facts_however_they_are_written() {
    check(
        "Subject: x\nContent-Type: text/plain; charset=utf-8\n\n\
         Call eight zero zero 555 1239 or 8\u{41E}0-555-12\u{417}8. Mail joe (at) example (dot) com.\n\
         Telegram: @Some_Name, https://wa.me/491701234567. Pay to 1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa\n\
         or 4111 1111 1111 1111. See hxxp://evil[.]example/x.\n",
        Envelope::default(),
        &[
            ("mail.phones", "8005551239, 8005551238"),
            ("mail.obfuscated_phones", "2"),
            ("mail.body_addresses", "joe@example.com"),
            ("mail.obfuscated_addresses", "1"),
            ("mail.handles", "whatsapp:491701234567, telegram:some_name"),
            ("mail.wallets", "btc:1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"),
            ("mail.card_numbers", "1"),
            ("mail.obfuscated_links", "1"),
            ("mail.links", "https://wa.me/491701234567, http://evil.example/x"),
        ],
    );
}

#[test]
fn links_show_their_tricks() {
    check(
        "Subject: x\nContent-Type: text/html; charset=utf-8\n\n\
         <a href=\"https://www.google.com/url?q=https%3A%2F%2Fevil.example.org%2F\">www.evil.example.org</a>\n\
         <a href=\"http://paypal.com@192.0.2.7:81/\">x</a> <a href=\"http://3221225985/%252e\">y</a>\n\
         <a href=\"http://p\u{430}ypal.com/?utm_source=z\">z</a> <a href=\"javascript:x()\">w</a>\n\
         <a href=\"http://paypal.com.evil.example.net/\">v</a>\n",
        Envelope::default(),
        &[
            (
                "mail.links",
                "https://www.google.com/url?q=https%3A%2F%2Fevil.example.org%2F, https://evil.example.org/, \
                 http://192.0.2.7:81/, http://192.0.2.1/%252e, http://xn--pypal-4ve.com/, http://paypal.com.evil.example.net/",
            ),
            ("mail.redirects", "1"),
            ("mail.link_text_mismatch", "false"),
            ("mail.link_poses_as", "paypal.com"),
            ("mail.link_homograph", "true"),
            ("mail.link_user", "true"),
            ("mail.link_ip_host", "true"),
            ("mail.link_odd_ip", "true"),
            ("mail.link_odd_port", "true"),
            ("mail.link_double_encoded", "true"),
            ("mail.script_links", "1"),
        ],
    );
}
