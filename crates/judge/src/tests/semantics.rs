use event::{Facts, Span, Value};

use super::{TestScope, compile, mail};

/// Checks the value of a condition for the mail of the tests, where `mail.caps` and `ip` are missing.
#[track_caller]
fn check(source: &str, expected: Option<bool>) {
    let mut scope = TestScope::new();
    let condition = compile(source, &mut scope).unwrap_or_else(|found| {
        panic!("{source}:\n{}", found.iter().map(|found| found.render(source)).collect::<Vec<_>>().join("\n"))
    });
    let row = mail(&scope);
    assert_eq!(condition.evaluate(&row), expected, "{source}");
    assert_eq!(condition.fires(&row), expected == Some(true), "{source}");
}

const TRUE: Option<bool> = Some(true);
const FALSE: Option<bool> = Some(false);

#[test]
fn numbers() {
    check("mail.size == 7", TRUE);
    check("mail.size > 7", FALSE);
    check("mail.size + mail.parts * 3 - 1 == 12", TRUE);
    check("mail.size % 4 == 3", TRUE);
    check("-mail.size < -6", TRUE);
    check("mail.size / mail.parts == 3.5", TRUE);
    check("int(mail.size / mail.parts) == 3", TRUE);
    check("double(mail.size) / 2 == 3.5", TRUE);
    check("mail.html * mail.parts == 1", TRUE);
    check("mail.size > 6.5", TRUE);
    check("mail.html in [0.5, 1]", TRUE);
    check("mail.size in [1, 7, 9]", TRUE);
    check("mail.size in [1, 7.0, 9.5]", TRUE);
    check("mail.size - 7 in [-0.0, 1]", TRUE);
    check("mail.size * 9223372036854775807 == 9223372036854775807", TRUE);
    check("mail.size / (mail.parts - 2) > 1", None);
    check("mail.size % (mail.parts - 2) == 1", None);
    check("mail.html * 1e308 * 1e10 > 1", None);
    check("mail.size > 0x6 && mail.size < 8u", TRUE);
}

#[test]
fn texts() {
    check("mail.subject == 'Cheap Äpfel'", TRUE);
    check("mail.subject < 'D'", TRUE);
    check("mail.subject.contains('Äp')", TRUE);
    check("mail.subject.startsWith('Cheap')", TRUE);
    check("mail.subject.endsWith('cheap')", FALSE);
    check("mail.subject.matches('(?i)^cheap ä')", TRUE);
    check(r"mail.from.matches(r'^\w+@')", TRUE);
    check("mail.from.endsWith(mail.subject)", FALSE);
    check("mail.subject.size() == 11", TRUE);
    check("size(mail.subject) == mail.size + 4", TRUE);
    check("mail.from in ['bob@example.org', 'ann@example.org']", TRUE);
    check("(mail.reply ? mail.from : mail.subject).startsWith('ann')", TRUE);
}

#[test]
fn lists_addresses_and_bytes() {
    check("'a.example' in mail.links", TRUE);
    check("'c.example' in mail.links", FALSE);
    check("mail.from in mail.links", FALSE);
    check("mail.links.size() == 2 && size(mail.body) == 3", TRUE);
    check("conn.ip == '192.0.2.7'", TRUE);
    check("conn.ip == '::ffff:192.0.2.7'", TRUE);
    check("'192.0.2.8' != conn.ip", TRUE);
    check("conn.ip in ['192.0.2.6', '192.0.2.7']", TRUE);
    check("conn.ip == ip", None);
}

#[test]
fn times() {
    check("now - mail.date == duration('2h')", TRUE);
    check("now - duration('1h') > mail.date", TRUE);
    check("now - mail.date > duration('1h') + duration('59m')", TRUE);
    check("event.time > timestamp('1970-01-02T00:00:00Z')", TRUE);
    check("-duration('1h') < now - mail.date", TRUE);
}

#[test]
fn missing_is_neither_true_nor_false() {
    check("mail.caps > 0.5", None);
    check("!(mail.caps > 0.5)", None);
    check("mail.caps != 0.5", None);
    check("mail.caps > 0.5 && mail.size == 0", FALSE);
    check("mail.caps > 0.5 && mail.size == 7", None);
    check("mail.caps > 0.5 || mail.size == 7", TRUE);
    check("mail.caps > 0.5 || mail.size == 0", None);
    check("mail.caps > 0.5 ? true : true", None);
    check("has(mail.caps)", FALSE);
    check("has(mail.size) && has(mail.links) && has(mail.body) && has(conn.ip) && has(now)", TRUE);
    check("mail.caps.or(1) > 0.5", TRUE);
    check("(mail.caps > 0.5).or(true)", TRUE);
    check("(mail.size / (mail.parts - 2)).or(0.0) == 0", TRUE);
    check("mail.subject.or('') != ''", TRUE);
    check("has(from.seen('1h'))", FALSE);
    check("from.seen('1h') >= 10", None);
}

#[test]
fn a_value_that_is_no_number_or_of_another_type_is_missing() {
    let mut scope = TestScope::new();
    let condition = compile("has(mail.html) || mail.html < 1.0 || mail.size == 7", &mut scope).unwrap();
    let row = scope.row(&[("mail.html", Value::from(f64::NAN)), ("mail.size", Value::from("7"))]);
    assert_eq!(condition.evaluate(&row), None);
    assert_eq!(condition.evaluate(&Facts::default()), None);
}

#[test]
fn readings_are_asked_for_once_and_whole() {
    let check = |source: &str, expected: &[&str]| {
        let condition = compile(source, &mut TestScope::new()).unwrap();
        let reads: Vec<&str> = condition.reads().iter().map(|read| read.text.as_str()).collect();
        assert_eq!(reads, expected, "{source}");
    };
    check(
        "from.seen('60m') > 10 && from.seen('1h') < 20 && mail.size > 1",
        &["from.seen('1h')", "mail.size"],
    );
    check("from.seen() > 10", &["from.seen()"]);
    check(
        "ratio(link_domain.spam('14d') + link_domain.complaint('14d'), link_domain.seen('1d'), 20) >= 0.99",
        &["ratio(link_domain.spam('14d') + link_domain.complaint('14d'), link_domain.seen('1d'), 20)"],
    );
    check("ratio(from.spam('1d'), from.seen('1d')) > 0.5", &["ratio(from.spam('1d'), from.seen('1d'), 1)"]);
    check("subject.first_age() < duration('1d')", &["subject.first_age()"]);
    check("from.last_age() < duration('1d')", &["from.last_age()"]);
    check("distinct('rcpts', '1d') > 100", &["distinct('rcpts', '1d')"]);
    check("last('country') != 'DE' && has(last('country'))", &["last('country')"]);
    check("estimated(last('country'))", &["estimated(last('country'))"]);
    check("is_new('from') || !is_new('rcpts')", &["is_new('from')", "is_new('rcpts')"]);
    check("estimated(is_new('from'))", &["estimated(is_new('from'))"]);
    // A kind and a fact may share a name.
    check("ip.seen('1h') > 5 && ip == '192.0.2.7'", &["ip.seen('1h')", "ip"]);
}

#[test]
fn readings_are_read() {
    let mut scope = TestScope::new();
    let source = "from.seen('1h') > 1000 && ratio(from.spam('1d'), from.seen('1d'), 20) >= 0.99 \
                  && subject.first_age() < duration('1d')";
    let condition = compile(source, &mut scope).unwrap();
    let mut row = scope.row(&[
        ("from.seen('1h')", Value::from(1001i64)),
        ("ratio(from.spam('1d'), from.seen('1d'), 20)", Value::from(0.995)),
        ("subject.first_age()", Value::from(0i64)),
    ]);
    assert!(condition.fires(&row));
    row.set(scope.schema().slot("subject.first_age()").unwrap(), Span::days(1).0);
    assert!(!condition.fires(&row));
}
