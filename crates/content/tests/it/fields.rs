//! Facts of declared fields, in any event.

use content::budget::{Budget, Cancellation};
use content::field::{ContentKind, FieldColumns, features};
use event::{Column, Facts, Schema, SchemaBuilder, Slot, Type, Value};
use proptest::prelude::*;

use crate::story::Mail;

/// A schema with one field of a kind of content.
struct Field {
    schema: Schema,
    slot: Slot,
    columns: FieldColumns,
}

impl Field {
    fn new(content: ContentKind, kind: Type) -> Field {
        let mut builder = SchemaBuilder::default();
        let field = Column { name: "f".into(), kind, doc: String::new(), journalled: true };
        let slot = builder.add(field).unwrap();
        let columns = FieldColumns::register(&mut builder, "f", content).unwrap();
        Field { schema: builder.finish(), slot, columns }
    }

    fn row(&self, value: impl Into<Value>, budget: &Budget) -> Facts {
        let mut row = self.schema.empty_row();
        row.set(self.slot, value);
        features(self.slot, &self.columns, budget, &mut row);
        row
    }

    fn fact(&self, row: &Facts, name: &str) -> String {
        let name = format!("f.{name}");
        let slot = self.schema.slot(&name).unwrap_or_else(|| panic!("no fact {name}"));
        row.get(slot).map(Value::to_string).unwrap_or_default()
    }
}

fn budget() -> Budget {
    Budget::of_message(10_000, &Cancellation::default())
}

/// Checks facts by name; an empty text stands for a missing one.
fn check(content: ContentKind, value: impl Into<Value>, expected: &[(&str, &str)]) {
    let value = value.into();
    let field = Field::new(content, value.type_of());
    let row = field.row(value.clone(), &budget());
    assert_eq!(row.get(field.slot), Some(&value), "the field itself stays");
    for (name, expected) in expected {
        assert_eq!(field.fact(&row, name), *expected, "{content}: {name}");
    }
}

#[test]
fn a_comment_shows_what_a_message_does() {
    check(
        ContentKind::Text,
        "Earn m\u{43E}ney! Call eight zero zero 555 1239, Telegram: @Some_Name, joe (at) example (dot) com.\n\
         See https://www.google.com/url?q=https%3A%2F%2Fevil.example.org%2F and hxxp://bad[.]example/x \u{1F600}",
        &[
            (
                "text",
                "earn money! call eight zero zero 0 0, telegram: @some_name, joe (at) example (dot) com. \
                 see https://www.google.com/url?q=https%0a%0f%0fevil.example.org%0f and hxxp://bad[.]example/x \u{1F600}",
            ),
            ("mixed_scripts", "1"),
            ("emoji", "1"),
            ("empty", "false"),
            ("phones", "8005551239"),
            ("obfuscated_phones", "1"),
            ("addresses", "joe@example.com"),
            ("obfuscated_addresses", "1"),
            ("obfuscated_links", "1"),
            ("handles", "telegram:some_name"),
            (
                "links",
                "https://www.google.com/url?q=https%3A%2F%2Fevil.example.org%2F, https://evil.example.org/, http://bad.example/x",
            ),
            ("link_hosts", "www.google.com, evil.example.org, bad.example"),
            ("link_domains", "google.com, example.org, bad.example"),
            ("link_count", "3"),
            ("redirects", "1"),
            ("cut_short", "false"),
        ],
    );
}

#[test]
fn other_kinds_show_what_is_theirs() {
    check(
        ContentKind::Html,
        "<p>See <a href=\"https://evil.example.org/\">www.bank.example.com</a></p><i style=display:none>hidden words</i>",
        &[
            ("text", "see www.bank.example.com"),
            ("link_text_mismatch", "true"),
            ("html_hidden_text", "hidden words"),
            ("html_images", "0"),
        ],
    );
    check(
        ContentKind::Link,
        vec![
            "https://t.me/Some_Name".to_owned(),
            "http://paypal.com@192.0.2.7:81/".to_owned(),
            "none".to_owned(),
        ],
        &[
            ("links", "https://t.me/Some_Name, http://192.0.2.7:81/"),
            ("link_count", "2"),
            ("link_user", "true"),
            ("handles", "telegram:some_name"),
        ],
    );
    check(
        ContentKind::Email,
        "Ann+77@Mail.Example.co.uk",
        &[
            ("address", "ann+77@mail.example.co.uk"),
            ("untagged", "ann@mail.example.co.uk"),
            ("domain", "mail.example.co.uk"),
            ("registrable", "example.co.uk"),
        ],
    );
    check(ContentKind::Email, "nobody", &[("address", ""), ("cut_short", "false")]);
    check(ContentKind::Phone, "0049 (30) 123-45-67", &[("number", "49301234567"), ("obfuscated", "false")]);
    check(ContentKind::Phone, "call me", &[("number", ""), ("obfuscated", "")]);
    check(
        ContentKind::Name,
        "\u{410}nna \u{FF37}hatsApp +49 170 1234567",
        &[
            ("text", "anna whatsapp +0 0 0"),
            ("mixed_scripts", "1"),
            ("styled_letters", "1"),
            ("phones", "491701234567"),
        ],
    );
    check(
        ContentKind::Text,
        vec!["one www.example.org".to_owned(), "two".to_owned()],
        &[("text", "one www.example.org two"), ("link_count", "1")],
    );
    check(
        ContentKind::Text,
        "",
        &[("empty", "true"), ("text", ""), ("text_chars", "0"), ("link_count", "0")],
    );
}

#[test]
fn a_name_has_no_facts_of_longer_texts() {
    let field = Field::new(ContentKind::Name, Type::String);
    for name in ["f.language", "f.fingerprints", "f.html_images"] {
        assert_eq!(field.schema.slot(name), None, "{name}");
    }
}

#[test]
fn what_is_missing_shows_nothing() {
    let field = Field::new(ContentKind::Text, Type::String);
    let mut row = field.schema.empty_row();
    features(field.slot, &field.columns, &budget(), &mut row);
    assert!(row.values().iter().all(Option::is_none));
}

#[test]
fn what_cannot_be_paid_for_is_not_read_and_says_so() {
    let field = Field::new(ContentKind::Text, Type::String);
    let row = field
        .row("word ".repeat(1_000) + "www.example.org", &Budget::of_steps(1_000, &Cancellation::default()));
    assert_eq!(
        (field.fact(&row, "cut_short").as_str(), field.fact(&row, "link_count").as_str()),
        ("true", "0")
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// One code path: a text shows in a field what it shows as a message's body.
    #[test]
    fn a_field_shows_what_a_body_does(
        words in prop::collection::vec(
            "[a-z]{1,8}|[a-z]{2,5}\\.com/[a-z]|@[a-z]{5,9}|telegram|[0-9]{3,11}|[а-я]{1,6}|call|v1agra|a\u{200b}b|[一-十]{1,4}|joe \\(at\\) example\\.org|[.,!?\\-]",
            0..40,
        ),
    ) {
        let text = words.join(" ");
        let mail = Mail::new();
        let raw = format!("Content-Type: text/plain; charset=utf-8\n\n{text}");
        let body = mail.row(raw.as_bytes());
        let field = Field::new(ContentKind::Text, Type::String);
        let row = field.row(text.as_str(), &budget());
        for column in field.schema.columns() {
            let own = column.name.strip_prefix("f.").unwrap_or_default();
            let of_mail = match own {
                "text" | "empty" | "addresses" => format!("mail.body_{own}"),
                _ => format!("mail.{own}"),
            };
            if let Some(slot) = mail.schema.slot(&of_mail) {
                prop_assert_eq!(row.get(field.schema.slot(&column.name).unwrap()), body.get(slot), "{}", own);
            }
        }
    }
}
