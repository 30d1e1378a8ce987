//! The files of `envoyproxy/ratelimit`: good ones mean what its tests say, bad ones are refused where they are wrong.

use std::path::{Path, PathBuf};

use plan::formats::envoy::{DescriptorMatch, Domains, Rate, RateUnit};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../corpora/limits/envoy")
}

fn read(files: &[&str], merge: bool) -> Result<Domains, String> {
    let read = |file: &&str| {
        let text = std::fs::read_to_string(folder().join(file)).unwrap();
        (Path::new(file).file_name().unwrap().to_str().unwrap().to_owned(), text)
    };
    let files: Vec<(String, String)> = files.iter().map(read).collect();
    Domains::read(&files, merge).map_err(|problems| problems.to_string())
}

/// Path, requests and unit of what an entry list means; `unlimited` for any number, `None` for no limit.
fn meant(domains: &Domains, domain: &str, entries: &[(&str, &str)]) -> Option<String> {
    let DescriptorMatch { rule, shared, .. } = domains.find(domain, entries.iter().copied())?;
    let rate = match rule.rate {
        None => "unlimited".to_owned(),
        Some(Rate { requests, unit }) => format!("{requests}/{}", unit.name()),
    };
    let flags =
        [(rule.shadow_mode, " shadow"), (rule.quota_mode, " quota"), (rule.detailed_metric, " detailed")];
    let flags: String = flags.into_iter().filter_map(|(is, word)| is.then_some(word)).collect();
    let shared: String = shared.into_iter().flatten().map(|pattern| format!(" {pattern}")).collect();
    Some(format!("{} {rate}{flags}{shared}", rule.path))
}

/// Entries of a descriptor, and what they mean.
type Case<'a> = (&'a [(&'a str, &'a str)], Option<&'a str>);

fn check(files: &[&str], domain: &str, cases: &[Case<'_>]) {
    let domains = read(files, true).unwrap();
    for (entries, expected) in cases {
        assert_eq!(meant(&domains, domain, entries).as_deref(), *expected, "{entries:?}");
    }
}

#[test]
fn descriptors_mean_what_the_peers_tests_say() {
    check(
        &["config/basic_config.yaml"],
        "test-domain",
        &[
            (&[], None),
            (&[("unknown", "x")], None),
            (&[("key1", "value1")], None),
            (
                &[("key1", "value1"), ("subkey1", "something")],
                Some("test-domain.key1_value1.subkey1 5/second"),
            ),
            (
                &[("key1", "value1"), ("subkey1", "subvalue1")],
                Some("test-domain.key1_value1.subkey1_subvalue1 10/second"),
            ),
            (&[("key1", "other"), ("subkey1", "subvalue1")], None),
            (&[("key2", "something")], Some("test-domain.key2 20/minute")),
            (&[("key2", "value2")], Some("test-domain.key2_value2 30/minute")),
            (&[("key2", "value3")], None),
            (&[("key2", "something"), ("deeper", "x")], None),
            (&[("key3", "foo")], Some("test-domain.key3 1/hour")),
            (&[("key4", "foo")], Some("test-domain.key4 1/day")),
            (&[("key5", "value5")], Some("test-domain.key5_value5 15/day")),
            (
                &[("key5", "value5"), ("subkey5", "subvalue5")],
                Some("test-domain.key5_value5.subkey5_subvalue5 25/day"),
            ),
            (&[("key5", "value5"), ("subkey5", "subvalue")], None),
            (&[("key6", "foo")], Some("test-domain.key6 unlimited")),
            (&[("key7", "unspecified_value")], Some("test-domain.key7 70/minute detailed")),
        ],
    );
    let domains = read(&["config/basic_config.yaml"], false).unwrap();
    assert_eq!(
        domains.find("test-domain", [("key4", "x")].into_iter()).unwrap().rule.name,
        "key4_rate_limit"
    );
    assert!(!domains.has("other") && domains.find("other", [("key4", "x")].into_iter()).is_none());
    check(
        &["config/shadowmode_config.yaml"],
        "test-domain",
        &[
            (
                &[("key1", "value1"), ("subkey1", "something")],
                Some("test-domain.key1_value1.subkey1 5/second"),
            ),
            (
                &[("key1", "value1"), ("subkey1", "subvalue1")],
                Some("test-domain.key1_value1.subkey1_subvalue1 10/second shadow"),
            ),
            (&[("key2", "something")], Some("test-domain.key2 20/minute shadow")),
            (&[("key2", "value2")], Some("test-domain.key2_value2 30/minute")),
        ],
    );
    check(
        &["config/merge_domain_key1.yaml", "config/merge_domain_key2.yaml", "config/duplicate_domain.yaml"],
        "test-domain",
        &[
            (&[("key1", "value1")], Some("test-domain.key1_value1 10/minute")),
            (&[("key2", "value2")], Some("test-domain.key2_value2 20/minute")),
        ],
    );
}

#[test]
fn patterns_stand_for_values() {
    check(
        &["config/wildcard.yaml"],
        "test-domain",
        &[
            (&[("wild", "foo1")], Some("test-domain.wild_foo* 20/minute")),
            (&[("wild", "foo")], Some("test-domain.wild_foo* 20/minute")),
            (&[("wild", "bar")], None),
            (&[("noWild", "foo1")], None),
            (&[("noVal", "foo1")], Some("test-domain.noVal 20/minute")),
            (&[("midWild", "barab")], Some("test-domain.midWild_bar*b 20/minute")),
            (&[("midWild", "bara")], None),
            (&[("multiWild", "foo1bar2baz")], Some("test-domain.multiWild_foo*bar*baz 10/minute")),
            (&[("multiWild", "foobaz")], None),
            (
                &[("nestedWild", "val1"), ("wild", "goo2")],
                Some("test-domain.nestedWild_val1.wild_goo* 20/minute"),
            ),
        ],
    );
    check(
        &["config/share_threshold.yaml"],
        "test-domain",
        &[
            (&[("files", "files/a.pdf")], Some("test-domain.files_files/* 100/minute files/*")),
            (
                &[("nested", "parent"), ("files", "nested/x")],
                Some("test-domain.nested_parent.files_nested/* 200/minute nested/*"),
            ),
            (
                &[("files", "top/a"), ("files", "nested/b")],
                Some("test-domain.files_top/*.files_nested/* 300/minute top/* nested/*"),
            ),
            (
                &[("route", "api/v1"), ("method", "GET")],
                Some("test-domain.route_api/*.method 60/minute api/*"),
            ),
            (
                &[("service", "svc/a"), ("endpoint", "e")],
                Some("test-domain.service_svc/*.endpoint 80/minute detailed svc/*"),
            ),
            (
                &[("path", "path/a"), ("file", "file/b"), ("type", "t")],
                Some("test-domain.path_path/*.file_file/*.type 120/minute path/*"),
            ),
            (
                &[("user", "user/a"), ("resource", "res/b"), ("action", "t")],
                Some("test-domain.user_user/*.resource_res/*.action 150/minute user/* res/*"),
            ),
            (&[("file", "test1")], Some("test-domain.file_test1 50/minute")),
            (&[("file", "test2")], Some("test-domain.file_test* 100/minute test*")),
            (&[("midpath", "/api/x/v1")], Some("test-domain.midpath_/api*v1 100/minute /api*v1")),
            (&[("multiroute", "svc1ep2rpc")], Some("test-domain.multiroute_svc*ep*rpc 50/minute svc*ep*rpc")),
            (
                &[("tenant", "t1prod"), ("resource", "res1v2")],
                Some("test-domain.tenant_t*prod.resource_res*v2 60/minute t*prod res*v2"),
            ),
        ],
    );
}

#[test]
fn the_peers_examples_are_read() {
    check(
        &["examples/example.yaml", "examples/config.yaml"],
        "rl",
        &[
            (&[("category", "account")], Some("rl.category_account 4/minute")),
            (&[("foo", "x"), ("bar", "banned")], Some("rl.foo.bar_banned 0/minute")),
            (&[("foo", "x"), ("baz", "shady")], Some("rl.foo.baz_shady 3/minute shadow")),
            (&[("foo", "x"), ("bay", "y")], Some("rl.foo.bay unlimited")),
            (&[("service", "service_1")], Some("rl.service_service_1 1/minute quota")),
        ],
    );
    let domains = read(&["examples/example.yaml"], false).unwrap();
    let found = domains.find("rl", [("service", "service_2")].into_iter()).unwrap();
    assert_eq!(found.rule.metadata, Some(serde_json::json!({"service_with_quota": {"name": "service_2"}})));
    let found = domains.find("rl", [("category", "account")].into_iter()).unwrap();
    assert_eq!(found.rule.replaces, ["bkthomps", "fake_name"]);
    assert_eq!(found.rule.rate, Some(Rate { requests: 4, unit: RateUnit::Minute }));
    let runtime = ["basic.yaml", "another.yaml", "share_threshold.yaml", "reload.yaml"];
    let runtime = runtime.map(|file| format!("runtime/{file}"));
    let domains = read(&runtime.each_ref().map(String::as_str), false).unwrap();
    assert!(["basic", "another", "share-threshold-test", "reload"].iter().all(|domain| domains.has(domain)));
    assert_eq!(read(&["config/metadata.yaml"], false).unwrap().rules().count(), 3);
}

#[test]
fn what_is_wrong_is_told_with_place_and_mend() {
    for (files, expected) in [
        (&["config/bad_yaml.yaml"][..], "bad_yaml.yaml:1:1: error: this is no YAML: "),
        (
            &["config/basic_config.yaml", "config/duplicate_domain.yaml"],
            "duplicate_domain.yaml:1:9: error: domain `test-domain` is in another file, too",
        ),
        (&["config/empty_domain.yaml"], "empty_domain.yaml:1:1: error: the file has no domain"),
        (&["config/empty_key.yaml"], "empty_key.yaml:3:5: error: the descriptor has no key"),
        (
            &["config/duplicate_key.yaml"],
            "duplicate_key.yaml:6:10: error: descriptor `test-domain.key1_value1` is defined twice",
        ),
        (&["config/bad_limit_unit.yaml"], "bad_limit_unit.yaml:6:13: error: `foo` is no unit"),
        (&["config/misspelled_key.yaml"], "misspelled_key.yaml:5:5: error: unknown key `ratelimit`"),
        (&["config/misspelled_key2.yaml"], "misspelled_key2.yaml:7:7: error: unknown key `requestsperunit`"),
        (&["config/non_map_list.yaml"], "non_map_list.yaml:3:5: error: this is text"),
        (&["config/non_string_key.yaml"], "non_string_key.yaml:1:1: error: a key is a number, not text"),
        (&["config/replaces_empty.yaml"], "replaces_empty.yaml:10:15: error: `replaces` names nothing"),
        (&["config/replaces_self.yaml"], "replaces_self.yaml:10:15: error: a limit cannot replace itself"),
        (
            &["config/unlimited_with_unit.yaml"],
            "unlimited_with_unit.yaml:6:13: error: an unlimited limit has no unit",
        ),
    ] {
        let problems = read(files, false).unwrap_err();
        assert!(problems.contains(expected), "{files:?}: {problems}");
    }
    let problems = read(&["config/misspelled_key.yaml"], false).unwrap_err();
    assert!(problems.contains("did you mean `rate_limit`?"), "{problems}");
}
