//! Parts that a build can leave out. `cargo test -p tollhouse --no-default-features features` asks a build without any.

use rustix::process::Signal;

use crate::program::{Data, Server, run};

/// The parts, and whether this build has them.
const ALL: [(&str, bool); 6] = [
    ("arrow", cfg!(feature = "arrow")),
    ("cluster", cfg!(feature = "cluster")),
    ("grpc", cfg!(feature = "grpc")),
    ("kafka", cfg!(feature = "kafka")),
    ("mail-auth", cfg!(feature = "mail-auth")),
    ("object-store", cfg!(feature = "object-store")),
];

#[test]
fn the_long_version_names_the_features() {
    let names: Vec<&str> = ALL.iter().filter(|(_, is_built)| *is_built).map(|(name, _)| *name).collect();
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let long = run(["--version"], "").expect(0).stdout;
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(long, format!("tollhouse {version}\nfeatures: {names}\n"));
    assert_eq!(run(["-V"], "").expect(0).stdout, format!("tollhouse {version}\n"));
}

/// A request to a part that the build lacks is refused, with the part's name and the mend, and no other request is.
#[test]
fn what_a_build_lacks_is_said() {
    let data = Data::new(&["mail"]);
    let path = data.path();
    let path = path.to_str().unwrap();
    let listener = |protocol: &str| {
        let settings = [("protocol", protocol), ("listen", "127.0.0.1:0")];
        settings.map(|(key, value)| format!("--set=listener.l.{key}={value}")).to_vec()
    };
    let settings = [
        ("cluster", vec!["--set=ledger.home=cluster".to_owned(), "--set=ledger.nodes=[\"a:1\"]".to_owned()]),
        ("grpc", listener("envoy")),
        ("grpc", listener("grpc")),
        ("mail-auth", vec!["--set=dns.resolvers=[\"127.0.0.1\"]".to_owned()]),
        ("object-store", vec!["--set=journal.upload=file:///nowhere".to_owned()]),
    ];
    let check = |name: &str, args: &[&str], code: i32| {
        let (_, is_built) = ALL.into_iter().find(|(known, _)| *known == name).unwrap();
        let ran = run(args, "");
        let told = format!("this tollhouse was built without the feature `{name}`");
        assert_eq!(ran.stderr.contains(&told), !is_built, "{args:?}: {}", ran.stderr);
        if !is_built {
            assert!(ran.stderr.contains(&format!("build it with `--features {name}`")), "{}", ran.stderr);
            assert_eq!(ran.code, code, "{args:?}");
        }
    };
    for (name, set) in &settings {
        let mut args = vec!["config", "check", "--data", path];
        args.extend(set.iter().map(String::as_str));
        check(name, &args, 1);
    }
    check("kafka", &["follow", "--server", "http://127.0.0.1:1", "kafka://no-topic"], 2);
    check("object-store", &["export", "--journal", "file:///nowhere"], 2);
    check("mail-auth", &["check", "--dns", "--data", path, "-"], 2);
    // These would not end soon.
    if !cfg!(feature = "arrow") {
        check("arrow", &["bench", "events"], 2);
    }
    if !cfg!(feature = "grpc") {
        let mut args = vec!["serve".to_owned(), "--data".to_owned(), path.to_owned()];
        args.extend(listener("grpc"));
        check("grpc", &args.iter().map(String::as_str).collect::<Vec<_>>(), 2);
    }
}

#[test]
fn batches_in_columns_are_refused_where_they_cannot_be_read() {
    let data = Data::new(&["mail"]);
    let server = Server::start(&data.path(), &[]);
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let request = agent.post(format!("{}/v1/batch/observe", server.url));
    let mut answer = request.content_type("application/vnd.apache.arrow.stream").send("x").unwrap();
    let (status, told) = (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap());
    let is_built = cfg!(feature = "arrow");
    assert_eq!(status, if is_built { 400 } else { 415 }, "{told}");
    assert_eq!(told.contains("built without the feature `arrow`"), !is_built, "{told}");
    assert_eq!(server.end(Signal::TERM), Some(0));
}
