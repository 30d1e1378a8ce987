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
fn texts_that_are_made() {
    check("mail.subject + '!' == 'Cheap Äpfel!'", TRUE);
    check("mail.from + '|' + string(mail.size) == 'ann@example.org|7'", TRUE);
    check("string(mail.html) + string(mail.reply) + string(conn.ip) == '0.5true192.0.2.7'", TRUE);
    check("string(now) == '1970-01-12T13:46:40Z'", TRUE);
    check("mail.subject + string(mail.caps) == ''", None);
    check("mail.subject.lower() == 'cheap äpfel'", TRUE);
    check("mail.subject.substring(6) == 'Äpfel'", TRUE);
    check("mail.subject.substring(6, 8) == 'Äp'", TRUE);
    check("mail.subject.substring(6, 100) == 'Äpfel'", TRUE);
    check("mail.subject.substring(100) == ''", TRUE);
    check("mail.subject.substring(8, 6) == ''", TRUE);
    check("mail.subject.substring(mail.parts - 3) == ''", None);
    check("mail.from.split('@')[0] == 'ann'", TRUE);
    check("mail.from.split('@')[-1] == 'example.org'", TRUE);
    check("mail.from.split('@')[2] == ''", None);
    check("mail.from.split('@')[-3] == ''", None);
    check("mail.from.split('.').size() == 2", TRUE);
    check("'org' in mail.from.split('.')", TRUE);
    check("sets.intersects(mail.from.split('n'), words)", TRUE);
    check("mail.links[0] + mail.links[-1] == 'a.exampleb.example'", TRUE);
    check("mail.links[2] == 'a'", None);
    check("mail.links.join(', ') == 'a.example, b.example'", TRUE);
    check("regex.extract(mail.from, '@([a-z]+)') == 'example'", TRUE);
    check("regex.extract(mail.from, '[a-z]+') == 'ann'", TRUE);
    check("regex.extract(mail.from, '(x)|ann') == 'ann'", None);
    check("regex.extract(mail.from, '[0-9]') == 'ann'", None);
    check("regex.replace(mail.from, '[aeiou]', '$0') == '$0nn@$0x$0mpl$0.$0rg'", TRUE);
    check("domain(mail.from) == 'EXAMPLE.ORG'", TRUE);
    check("domain(mail.subject) == ''", None);
    check("domain(mail.from + '.') == 'EXAMPLE.ORG.'", TRUE);
}

#[test]
fn values_that_are_read_out_of_texts() {
    check("int(mail.from) == 0", None);
    check("int(string(mail.size) + '0') == 70", TRUE);
    check("double(string(mail.size) + '.5') == 7.5", TRUE);
    check("double('inf' + mail.from.substring(0, 0)) > 0", None);
    check("ip(string(conn.ip)) in ['192.0.2.0/24']", TRUE);
    check("ip('::ffff:' + string(conn.ip)) == conn.ip", TRUE);
    check("ip(mail.subject) == conn.ip", None);
    check("int(mail.date) == 992800 && double(age(mail.date)) == 7200", TRUE);
}

#[test]
fn texts_that_are_made_are_bounded() {
    let mut scope = TestScope::new();
    let long = "é".repeat(20_000);
    let row =
        scope.row(&[("mail.subject", Value::from(&*long)), ("mail.from", Value::from("a b".repeat(9_000)))]);
    let mut check = |source: &str, bytes: usize| {
        let library = super::library(&mut scope);
        let expression =
            crate::compile_expression(source, event::Type::String, &library, &mut scope).unwrap();
        let value = expression.evaluate(&row).unwrap();
        assert_eq!(value.as_str().unwrap().len(), bytes, "{source}");
    };
    let most = crate::text::TEXT_BYTES_MAX;
    check("mail.subject", most);
    check("'x' + mail.subject", most - 1);
    check("mail.subject + mail.subject + mail.subject", most);
    check("mail.subject.lower()", most);
    check("regex.replace(mail.subject, 'é', 'ééé')", most);
    check("mail.subject.split('x').join('')", most);
    check("mail.from.split(' ').join('  ')", 1_000 * 2 + 999 * 2 - 1);
    check("mail.subject.substring(8190)", 4);
}

#[test]
fn an_expression_gives_a_value_of_its_type() {
    let mut scope = TestScope::new();
    let row = mail(&scope);
    let mut check = |source: &str, wanted: event::Type, expected: Result<Option<Value>, &str>| {
        let library = super::library(&mut scope);
        let found = crate::compile_expression(source, wanted, &library, &mut scope);
        let found = found.map(|expression| expression.evaluate(&row));
        let found = found.map_err(|found| found[0].render(source));
        assert_eq!(found, expected.map_err(str::to_owned), "{source}");
    };
    use event::Type;
    check(
        "mail.from.split('@')",
        Type::List,
        Ok(Some(Value::from(vec!["ann".to_owned(), "example.org".to_owned()]))),
    );
    check(
        "mail.links",
        Type::List,
        Ok(Some(Value::from(vec!["a.example".to_owned(), "b.example".to_owned()]))),
    );
    check("mail.size * 2", Type::Integer, Ok(Some(Value::from(14i64))));
    check("mail.size * 2", Type::Float, Ok(Some(Value::from(14.0))));
    check("mail.size > 2", Type::Bool, Ok(Some(Value::from(true))));
    check("now - duration('1s')", Type::Time, Ok(Some(Value::Time(event::Time::from_seconds(999_999)))));
    check("ip('192.0.2.1')", Type::Ip, Ok(Some(Value::Ip("192.0.2.1".parse().unwrap()))));
    check("mail.caps", Type::Float, Ok(None));
    check("is_bulk", Type::Bool, Ok(None));
    check(
        "mail.size",
        Type::String,
        Err(
            "the field is of type string, this is an integer\n  | mail.size\n  | ^^^^^^^^^\n  = `string(...)` prints a number, a bool, a time or an address",
        ),
    );
    check(
        "age(mail.date)",
        Type::Integer,
        Err(
            "the field is of type integer, this is a duration\n  | age(mail.date)\n  | ^^^^^^^^^^^^^^\n  = `int(...)` and `double(...)` give its seconds",
        ),
    );
    check(
        "mail.links",
        Type::String,
        Err(
            "the field is of type string, this is a list\n  | mail.links\n  | ^^^^^^^^^^\n  = take one item, as in `...[0]`, or all of them with `.join(',')`",
        ),
    );
}

#[test]
fn tables() {
    check("lookup('places', conn.ip) == 'home'", TRUE);
    check("lookup('places', ip('192.0.2.200')) == 'away'", TRUE);
    check("lookup('places', ip('192.0.3.1')) == 'away'", None);
    check("lookup('places', ip) == 'away'", None);
    check("lookup('places', ip('::ffff:192.0.2.200')).or('') == 'away'", TRUE);
    check("conn.ip in places && !(ip('192.0.3.1') in places)", TRUE);
    check("ip in places", None);
    check("lookup('owners', mail.from.split('@')[1]) == 'ann'", TRUE);
    check("lookup('owners', 'X.Sub.Example.ORG.' + mail.subject.substring(20)) == 'bob'", TRUE);
    check("mail.from.split('@')[1] in owners && !(mail.from in owners)", TRUE);
    check("lookup('colours', mail.size) == 'seven'", TRUE);
    check("lookup('colours', mail.from.substring(0, 1)) == 'red'", TRUE);
    check("mail.subject in colours", FALSE);
}

#[test]
fn distances() {
    check("distance('52.52,13.405', string(mail.html) + ',' + string(mail.size)) > 5700.0", TRUE);
    check("distance('52.52,13.405', string(mail.html) + ',' + string(mail.size)) < 5900.0", TRUE);
    check("distance(mail.subject, '0,0') > 1.0", None);
    check("distance('0,0', last('country')) > 1.0", None);
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
    check(
        "max_bucket(from.seen('120m'), '10m') > 5 && empty_buckets(from.seen('2h'), '600s') < 2",
        &["max_bucket(from.seen('2h'), '10m')", "empty_buckets(from.seen('2h'), '10m')"],
    );
    check("dispersion(from.seen('2h'), '10m') < 0.5", &["dispersion(from.seen('2h'), '10m')"]);
    check(
        "median_interval(from.seen('2h'), '60s') < duration('5m') && interval_variation(from.seen('2h'), '1m') < 0.1",
        &["median_interval(from.seen('2h'), '1m')", "interval_variation(from.seen('2h'), '1m')"],
    );
    check(
        "estimated(max_bucket(from.seen('2h'), '10m')) || !has(dispersion(from.seen('2h'), '10m'))",
        &["estimated(max_bucket(from.seen('2h'), '10m'))", "dispersion(from.seen('2h'), '10m')"],
    );
    check(
        "reputation('account') < -25.0 && evidence('account') > 3.0",
        &["reputation('account')", "evidence('account')"],
    );
    check(
        "grade('account') == 'bad' || grade('account') in ['suspicious', 'unknown']",
        &["grade('account')"],
    );
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
