//! Network databases in MaxMind's format, written by a small writer of their own: no licensed data.

use std::fs;

use engine::{Directory, Engine, Proposal, ReloadError};
use event::Event;
use judge::LookupTable;
use plan::{Config, Overrides, Plan, preset};

use crate::pipeline::{NOW, decide_at};

/// A value of a record.
enum Data {
    Text(&'static str),
    Number(u32),
    Float(f64),
    Truth(bool),
    Map(Vec<(&'static str, Data)>),
    List(Vec<Data>),
}

use Data::{Float, List, Map, Number, Text, Truth};

/// Writes a control byte and what belongs to it: types above 7 have a byte of their own.
fn control(bytes: &mut Vec<u8>, kind: u8, size: usize) {
    let short = u8::try_from(size.min(29)).unwrap();
    if kind <= 7 {
        bytes.push(kind << 5 | short)
    } else {
        bytes.extend([short, kind - 7])
    }
    if size >= 29 {
        bytes.push(u8::try_from(size - 29).unwrap());
    }
}

impl Data {
    fn write(&self, bytes: &mut Vec<u8>) {
        match self {
            Text(text) => {
                control(bytes, 2, text.len());
                bytes.extend(text.as_bytes());
            }
            Float(float) => {
                control(bytes, 3, 8);
                bytes.extend(float.to_be_bytes());
            }
            Number(number) => {
                control(bytes, 6, 4);
                bytes.extend(number.to_be_bytes());
            }
            Truth(truth) => control(bytes, 14, usize::from(*truth)),
            Map(entries) => {
                control(bytes, 7, entries.len());
                for (key, value) in entries {
                    Text(key).write(bytes);
                    value.write(bytes);
                }
            }
            List(items) => {
                control(bytes, 11, items.len());
                items.iter().for_each(|item| item.write(bytes));
            }
        }
    }
}

/// A side of a node of the tree.
#[derive(Clone, Copy)]
enum Side {
    Empty,
    Node(usize),
    Record(usize),
}

/// A database of networks that do not overlap, with 32 bits a side.
fn database(records: &[(&str, Data)]) -> Vec<u8> {
    let (mut nodes, mut data) = (vec![[Side::Empty; 2]], Vec::new());
    for (network, record) in records {
        let (address, prefix) = network.split_once('/').unwrap();
        let prefix: u32 = prefix.parse().unwrap();
        let (bits, prefix) = match address.parse().unwrap() {
            std::net::IpAddr::V4(ip) => (u128::from(ip.to_bits()), prefix + 96),
            std::net::IpAddr::V6(ip) => (ip.to_bits(), prefix),
        };
        let offset = data.len();
        record.write(&mut data);
        let mut node = 0;
        for depth in 0..prefix {
            let side = usize::from(bits >> (127 - depth) & 1 == 1);
            if depth + 1 == prefix {
                nodes[node][side] = Side::Record(offset);
            } else if let Side::Node(next) = nodes[node][side] {
                node = next;
            } else {
                nodes.push([Side::Empty; 2]);
                let next = nodes.len() - 1;
                nodes[node][side] = Side::Node(next);
                node = next;
            }
        }
    }
    let mut bytes = Vec::new();
    for side in nodes.iter().flatten() {
        let value = match side {
            Side::Empty => nodes.len(),
            Side::Node(node) => *node,
            Side::Record(offset) => nodes.len() + 16 + offset,
        };
        bytes.extend(u32::try_from(value).unwrap().to_be_bytes());
    }
    bytes.extend([0; 16]);
    bytes.extend(data);
    bytes.extend(b"\xab\xcd\xefMaxMind.com");
    // Numbers of the metadata have types of their own, which a reader takes for one another.
    let short = |bytes: &mut Vec<u8>, key: &'static str, kind: u8, value: &[u8]| {
        Text(key).write(bytes);
        control(bytes, kind, value.len());
        bytes.extend(value);
    };
    control(&mut bytes, 7, 9);
    short(&mut bytes, "node_count", 6, &u32::try_from(nodes.len()).unwrap().to_be_bytes());
    short(&mut bytes, "record_size", 5, &32u16.to_be_bytes());
    short(&mut bytes, "ip_version", 5, &6u16.to_be_bytes());
    short(&mut bytes, "binary_format_major_version", 5, &2u16.to_be_bytes());
    short(&mut bytes, "binary_format_minor_version", 5, &0u16.to_be_bytes());
    short(&mut bytes, "build_epoch", 9, &1_700_000_000u64.to_be_bytes());
    for (key, value) in [
        ("database_type", Text("Test")),
        ("languages", List(vec![Text("en")])),
        ("description", Map(vec![("en", Text("A test"))])),
    ] {
        Text(key).write(&mut bytes);
        value.write(&mut bytes);
    }
    bytes
}

/// A small database of places.
pub(crate) fn city() -> Vec<u8> {
    let place = |country, latitude, longitude| {
        Map(vec![
            (
                "country",
                Map(vec![("iso_code", Text(country)), ("is_in_european_union", Truth(country == "DE"))]),
            ),
            ("subdivisions", List(vec![Map(vec![("iso_code", Text("BE"))])])),
            ("location", Map(vec![("latitude", Float(latitude)), ("longitude", Float(longitude))])),
            ("autonomous_system_number", Number(64_500)),
        ])
    };
    database(&[
        ("192.0.2.0/24", place("DE", 52.52, 13.4)),
        ("203.0.113.0/25", place("AU", -33.87, 151.21)),
        ("2001:db8::/32", place("FR", 48.86, 2.35)),
    ])
}

const CONFIG: &str = r#"
name = "logins"

[[field]]
name = "ip"
type = "ip"

[[table]]
name = "geo"
type = "ip"
file = "city.mmdb"
format = "mmdb"

[[field]]
name = "country"
type = "string"
value = "lookup('geo', ip, 'country.iso_code')"

[[field]]
name = "asn"
type = "integer"
value = "int(lookup('geo', ip, 'autonomous_system_number'))"

[[field]]
name = "latitude"
type = "float"
value = "double(lookup('geo', ip, 'location.latitude'))"

[[field]]
name = "region"
type = "string"
value = "lookup('geo', ip, 'subdivisions.0.iso_code')"

[[field]]
name = "union"
type = "bool"
value = "lookup('geo', ip, 'country.is_in_european_union') == 'true'"

[[kind]]
name = "country"
of = "country"

[[statistic]]
name = "counts"
keys = ["country"]
counts = ["seen"]
windows = ["1h x 24"]

[[rule]]
name = "KNOWN"
when = "ip in geo"
score = 1
"#;

struct Home {
    _parent: tempfile::TempDir,
    directory: Directory,
}

impl Home {
    fn new(text: &str, database: &[u8]) -> Home {
        let parent = tempfile::tempdir().unwrap();
        let directory = Directory::create(&parent.path().join("data"), &[&preset::ALL[0]]).unwrap();
        fs::write(directory.config_path(), text).unwrap();
        fs::write(directory.path().join("city.mmdb"), database).unwrap();
        Home { _parent: parent, directory }
    }

    fn plan(&self) -> Result<Plan, String> {
        let config = Config::load(&self.directory.config_path(), &Overrides::default());
        Plan::compile(&config).map_err(|problems| problems.to_string())
    }
}

/// Country, AS number, latitude, region, union, and whether there is a record.
fn seen(engine: &Engine, ip: &str) -> String {
    let mut event = Event::default();
    event.push("ip", ip);
    let prepared = engine.prepare(&engine.plan().pipelines[0], event.clone(), NOW);
    let schema = &prepared.pipeline().schema;
    let fact = |name: &str| {
        let value = prepared.facts().get(schema.slot(name).unwrap());
        value.map_or("-".to_owned(), ToString::to_string)
    };
    let facts = ["country", "asn", "latitude", "region", "union"].map(fact).join(" ");
    let fires = !decide_at(engine, event, NOW).verdict.reasons.is_empty();
    format!("{facts} {fires}")
}

#[test]
fn addresses_have_a_country_a_place_and_an_owner() {
    let home = Home::new(CONFIG, &city());
    let plan = home.plan().unwrap();
    assert!(plan.warnings.is_empty(), "{}", plan.warnings);
    let engine = Engine::open(&home.directory, plan).unwrap();
    assert_eq!(seen(&engine, "192.0.2.7"), "DE 64500 52.52 BE true true");
    assert_eq!(seen(&engine, "::ffff:192.0.2.7"), "DE 64500 52.52 BE true true");
    assert_eq!(seen(&engine, "203.0.113.127"), "AU 64500 -33.87 BE false true");
    assert_eq!(seen(&engine, "203.0.113.128"), "- - - - - false");
    assert_eq!(seen(&engine, "2001:db8::1"), "FR 64500 48.86 BE false true");
    assert_eq!(seen(&engine, "2001:db9::1"), "- - - - - false");
}

#[test]
fn a_database_that_is_replaced_is_read_again_and_a_damaged_one_is_refused() {
    let home = Home::new(CONFIG, &city());
    let engine = Engine::open(&home.directory, home.plan().unwrap()).unwrap();
    let first = engine.plan().pipelines[0].version.clone();
    let path = home.directory.path().join("city.mmdb");
    let country = Map(vec![("country", Map(vec![("iso_code", Text("AT"))]))]);
    fs::write(&path, database(&[("192.0.2.0/24", country)])).unwrap();
    engine.change(Proposal::Files, NOW, false).unwrap();
    assert_eq!(seen(&engine, "192.0.2.7"), "AT - - - - true");

    let half = &city()[..200];
    fs::write(&path, half).unwrap();
    let refused = match engine.change(Proposal::Files, NOW, false) {
        Err(ReloadError::Problems(problems)) => problems.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(refused.contains("table `geo`: the network database is damaged"), "{refused}");
    assert_eq!(seen(&engine, "192.0.2.7"), "AT - - - - true");

    engine.change(Proposal::Back { pipeline: "logins", version: &first }, NOW, false).unwrap();
    assert_eq!(seen(&engine, "192.0.2.7"), "DE 64500 52.52 BE true true");
}

#[test]
fn an_as_number_is_a_key() {
    let text = CONFIG.to_owned()
        + r#"
[[kind]]
name = "asn"
of = "asn"

[[statistic]]
name = "networks"
keys = ["asn"]
counts = ["seen"]
windows = ["1h x 24"]

[[rule]]
name = "CROWD"
when = "asn.seen('1h') >= 2"
score = 1
"#;
    let home = Home::new(&text, &city());
    let engine = Engine::open(&home.directory, home.plan().unwrap()).unwrap();
    let crowd = |ip: &str| {
        let mut event = Event::default();
        event.push("ip", ip);
        let decision = decide_at(&engine, event, NOW);
        decision.verdict.reasons.iter().any(|reason| reason.rule == "CROWD")
    };
    let found = ["192.0.2.7", "203.0.113.5", "203.0.113.128", "2001:db8::1"].map(crowd);
    assert_eq!(found, [false, false, false, true], "one owner of three networks; the third address has none");
    let plan = engine.plan();
    let known = pollster::block_on(engine.timeline(&plan.pipelines[0], "asn", "64500", NOW)).unwrap();
    assert_eq!((known.piece.as_str(), known.windows[0].1.clone()), ("64500", vec![3]));
}

#[test]
fn what_cannot_be_looked_up_is_told() {
    let check = |old: &str, new: &str, message: &str| {
        assert!(CONFIG.contains(old), "{old}");
        let home = Home::new(&CONFIG.replace(old, new), &city());
        let found = match home.plan() {
            Ok(plan) => plan.warnings.to_string(),
            Err(problems) => problems,
        };
        assert!(found.contains(message), "{found}");
    };
    check("'country.iso_code'", "'country..iso_code'", "`country..iso_code` is no path");
    check(
        "'country.iso_code'",
        "'contry.iso_code'",
        "no record of `geo` that was looked at has a value `contry.iso_code`",
    );
    check(", 'country.iso_code'", "", "a record of `geo` has many values");
    let paths = "`lookup('geo', client.ip, 'autonomous_system_number')`; it has `autonomous_system_number`, \
        `country.is_in_european_union`, `country.iso_code`, `location.latitude`, `location.longitude`, \
        `subdivisions.0.iso_code`";
    check(", 'country.iso_code'", "", paths);
    check("'country.iso_code'", "'contry.iso_code'", "did you mean `country.iso_code`?");
    check("type = \"ip\"\nfile", "type = \"string\"\nfile", "the keys of a network database are networks");
    check("format = \"mmdb\"", "format = \"mmdb\"\nseparator = \"comma\"", "`separator` does nothing");
    check("city.mmdb", "cities.mmdb", "cannot read");
}

#[test]
fn no_damage_makes_it_panic() {
    let whole = city();
    assert!(LookupTable::read_database(whole.clone()).is_ok());
    for length in 0..whole.len() {
        _ = LookupTable::read_database(whole[..length].to_vec());
    }
    for at in 0..whole.len() {
        for with in [0, 1, 0x7f, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= with;
            let Ok(table) = LookupTable::read_database(bytes) else { continue };
            for ip in ["192.0.2.7", "203.0.113.1", "2001:db8::1", "::", "255.255.255.255"] {
                _ = table.find_ip(ip.parse().unwrap());
            }
        }
    }
}

#[test]
fn nobody_travels_faster_than_aeroplanes_do() {
    let travel = r#"
        [[field]]
        name = "user"
        type = "string"
        [[field]]
        name = "place"
        type = "string"
        value = "lookup('geo', ip, 'location.latitude') + ',' + lookup('geo', ip, 'location.longitude')"
        [[kind]]
        name = "account"
        of = "user"
        [[last]]
        name = "last_place"
        per = "account"
        of = "place"
        keep = "30d"
        [[rule]]
        name = "TRAVEL"
        when = "distance(place, last('last_place')) > 500.0 && distance(place, last('last_place')) > double(last_place.last_age()) * 0.25"
        score = 1
    "#;
    let home = Home::new(&format!("{CONFIG}{travel}"), &city());
    let engine = Engine::open(&home.directory, home.plan().unwrap()).unwrap();
    let travels = |ip: &str, hours: i64| {
        let mut event = Event::default();
        event.push("ip", ip);
        event.push("user", "ann");
        let decision = decide_at(&engine, event, NOW + event::Span::hours(hours));
        decision.verdict.reasons.iter().any(|reason| reason.rule == "TRAVEL")
    };
    let (berlin, paris, sydney) = ("192.0.2.7", "2001:db8::1", "203.0.113.1");
    assert!(!travels(berlin, 0), "nothing is known yet");
    assert!(!travels(berlin, 0));
    assert!(!travels(paris, 1), "878 km in an hour");
    assert!(travels(sydney, 3));
    assert!(!travels(berlin, 22), "16,095 km in 19 hours");
    assert!(travels(paris, 22), "at once");
}
