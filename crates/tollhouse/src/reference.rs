//! The generated parts of the documents and of `packaging`, read off what the program itself reads: settings and facts, commands, the
//! OpenAPI description, metrics. A part lies between two comments of a page, `<!-- generated: NAME -->` and `<!-- end -->`;
//! what is around it is written by hand. `UPDATE=1 cargo test -p tollhouse reference` writes all parts; without `UPDATE` the
//! tests compare them.

mod monitoring;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Arg, Command, CommandFactory};
use engine::Engine;
use plan::{Config, Overrides, Plan};
use regex::Regex;
use serde_json::Value;
use server::{Clock, Server, SystemClock};

use crate::commands::Cli;

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Holds the parts of a page of the reference, by name and text, to what the page has: all of them and no other.
fn hold(page: &str, parts: &[(String, String)]) {
    hold_parts(&format!("docs/reference/{page}"), parts);
}

/// Holds a file of the repository to what is generated.
fn hold_file(page: &str, wanted: &str) {
    let path = root().join(page);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, wanted).unwrap();
    } else {
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(stored == wanted, "{page} is old: UPDATE=1 cargo test -p tollhouse reference");
    }
}

/// Holds the parts of a page of the repository to what is generated.
fn hold_parts(page: &str, parts: &[(String, String)]) {
    let stored = std::fs::read_to_string(root().join(page)).unwrap();
    let mut wanted = stored.clone();
    for (name, text) in parts {
        let begin = format!("<!-- generated: {name} -->\n");
        let (before, rest) =
            wanted.split_once(&begin).unwrap_or_else(|| panic!("{page} has no part `{name}`"));
        let (_, after) =
            rest.split_once("<!-- end -->\n").unwrap_or_else(|| panic!("{page}: `{name}` has no end"));
        wanted = format!("{before}{begin}{}\n<!-- end -->\n{after}", text.trim_end());
    }
    let count = wanted.matches("<!-- generated: ").count();
    assert_eq!(count, parts.len(), "{page} has parts that nothing generates");
    hold_file(page, &wanted);
}

#[test]
fn the_configuration_page_is_what_the_checker_reads() {
    hold("configuration.md", &[("settings".to_owned(), plan::reference())]);
}

#[test]
fn the_command_line_page_is_what_the_program_reads() {
    let mut root = Cli::command();
    root.build();
    let mut parts = vec![("common flags".to_owned(), common_flags(&root))];
    root.get_subcommands().for_each(|command| commands(command, &mut parts));
    hold("cli.md", &parts);
}

#[test]
fn the_page_of_sinks_and_its_schema_are_what_messages_are() {
    hold("sinks.md", &crate::sinks::schema::tables());
    let schema = serde_json::to_string_pretty(&crate::sinks::schema::schema()).unwrap();
    hold_file("docs/reference/sinks.schema.json", &format!("{schema}\n"));
}

/// The flags that many commands share, which the page lists once.
const COMMON: [&str; 9] =
    ["data", "config", "set", "server", "token", "ca", "client-cert", "client-key", "json"];

fn common_flags(root: &Command) -> String {
    let check = root.find_subcommand("check").unwrap();
    let flags = COMMON.map(|name| check.get_arguments().find(|flag| flag.get_long() == Some(name)).unwrap());
    table(&flags)
}

/// The parts of a command and of those below it.
fn commands(command: &Command, parts: &mut Vec<(String, String)>) {
    if command.get_name() == "help" {
        return;
    }
    let mut shown = command.clone();
    let usage = shown.render_usage().to_string();
    let lines: Vec<&str> = usage.trim_start_matches("Usage: ").lines().map(str::trim).collect();
    let is_sign = |sign: char| sign.is_ascii_lowercase() || sign.is_ascii_digit() || sign == '-';
    let words = lines[0].split(' ').skip(1);
    let words = words.take_while(|word| !word.starts_with('-') && word.chars().all(is_sign));
    let name = words.collect::<Vec<_>>().join(" ");
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let stop = if about.ends_with('.') { "" } else { "." };
    let mut text = format!("{about}{stop}\n\n");
    lines.iter().for_each(|line| text += &format!("    {line}\n"));
    let is_common = |flag: &&Arg| flag.get_long().is_some_and(|name| COMMON.contains(&name));
    let (common, own): (Vec<&Arg>, Vec<&Arg>) = command
        .get_arguments()
        .filter(|flag| !flag.is_hide_set() && !["help", "version"].contains(&flag.get_id().as_str()))
        .partition(is_common);
    if !own.is_empty() {
        text += &format!("\n{}", table(&own));
    }
    if !common.is_empty() {
        let names: Vec<String> =
            common.iter().filter_map(|flag| flag.get_long()).map(|name| format!("`--{name}`")).collect();
        text += &format!("\nCommon flags: {}.\n", names.join(", "));
    }
    if let Some(help) = command.get_after_help() {
        text += &format!("\n```text\n{}\n```\n", help.to_string().trim_end());
    }
    parts.push((name, text));
    command.get_subcommands().for_each(|below| commands(below, parts));
}

fn table(flags: &[&Arg]) -> String {
    let mut text = "| flag | meaning |\n|---|---|\n".to_owned();
    for flag in flags {
        let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
        let mut meaning = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let words: Vec<String> =
            flag.get_possible_values().iter().map(|word| format!("`{}`", word.get_name())).collect();
        if flag.get_action().takes_values() && !words.is_empty() {
            meaning += &format!(": {}", words.join(", "));
        }
        let defaults: Vec<_> = flag.get_default_values().iter().map(|it| it.to_string_lossy()).collect();
        if flag.get_action().takes_values() && !defaults.is_empty() {
            meaning += &format!(" [default: {}]", defaults.join(","));
        }
        if let Some(variable) = flag.get_env() {
            meaning += &format!(" [env: {}]", variable.display());
        }
        let shown = if flag.is_positional() { flag.to_string() } else { long(flag) };
        writeln!(text, "| `{}` | {} |", shown.replace('|', "\\|"), meaning.replace('|', "\\|")).unwrap();
    }
    text
}

/// A flag as it is typed, with the name of its value.
fn long(flag: &Arg) -> String {
    let short = flag.get_short().map_or_else(String::new, |short| format!("-{short}, "));
    let names: Vec<String> =
        flag.get_value_names().into_iter().flatten().map(|name| format!(" {name}")).collect();
    let values = if flag.get_action().takes_values() { names.concat() } else { String::new() };
    format!("{short}--{}{values}", flag.get_long().unwrap_or_default())
}

/// Returns the answers of a fresh node with the preset `mail` at some URLs.
fn answers<const N: usize>(urls: [&str; N]) -> [String; N] {
    let text = "preset = \"mail\"\n[server]\nlisten = \"127.0.0.1:0\"\n";
    let overrides = Overrides::default();
    let plan = Plan::compile(&Config::from_text("reference.toml", text, &overrides)).unwrap();
    let engine = Arc::new(Engine::ephemeral(plan).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = Server::bind(engine, Clock::of(SystemClock, None)).unwrap();
        let address = server.local_addr();
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let served = tokio::spawn(server.serve(async { drop(ended.await) }));
        let ask = move |url: &str| {
            let mut answer = ureq::get(format!("http://{address}{url}")).call().unwrap();
            answer.body_mut().read_to_string().unwrap()
        };
        let urls = urls.map(str::to_owned);
        let answers = tokio::task::spawn_blocking(move || urls.map(|url| ask(&url))).await.unwrap();
        end.send(()).unwrap();
        served.await.unwrap().unwrap();
        answers
    })
}

#[test]
fn the_http_and_metrics_pages_are_what_a_node_says_of_itself() {
    let [description, metrics] = answers(["/openapi.json", "/metrics"]);
    hold("http.md", &[("operations".to_owned(), operations(&serde_json::from_str(&description).unwrap()))]);
    let metrics = all_metrics(&metrics);
    let rows: Vec<String> = metrics
        .iter()
        .map(|MetricFamily { name, kind, help }| format!("| `{name}` | {kind} | {help} |\n"))
        .collect();
    let table = format!("| metric | type | meaning |\n|---|---|---|\n{}", rows.concat());
    hold("metrics.md", &[("metrics".to_owned(), table)]);
    monitoring::hold(&metrics);
}

/// A metric with all its labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MetricFamily {
    name: String,
    kind: String,
    help: String,
}

/// Returns all metrics: those of a fresh node's page, those of a node in front of a cluster, and those that have no sample yet.
fn all_metrics(page: &str) -> Vec<MetricFamily> {
    let mut metrics: Vec<MetricFamily> =
        families(page).into_iter().map(|(name, kind, help)| MetricFamily { name, kind, help }).collect();
    let of_cluster = cluster::ClusterMetrics::default()
        .figures()
        .into_iter()
        .chain(cluster::wire::WireCounters::default().figures());
    for figure in of_cluster {
        metrics.push(MetricFamily {
            name: format!("tollhouse_cluster_{}", figure.name),
            kind: if figure.is_sum { "counter" } else { "gauge" }.to_owned(),
            help: figure.help.to_owned(),
        });
    }
    for declared in declared_metrics() {
        if metrics.iter().all(|known| known.name != declared.name) {
            metrics.push(declared);
        }
    }
    metrics.sort();
    metrics
}

/// Returns the metrics that the sources register. A page leaves those out that have labels and were never counted.
fn declared_metrics() -> Vec<MetricFamily> {
    let call = Regex::new(
        r#"register\(\s*"(?<name>tollhouse_\w+)",\s*(?:"(?<help>[^"]*)"|help),\s*&?(?<metric>[\w.]+)"#,
    )
    .unwrap();
    let help = Regex::new(r#"let help =\s*"([^"]*)";"#).unwrap();
    let mut found = Vec::new();
    for krate in ["auth", "engine", "server"] {
        let mut files = Vec::new();
        sources(&root().join("crates").join(krate).join("src"), &mut files);
        for text in files.iter().map(|file| std::fs::read_to_string(file).unwrap()) {
            for at in call.captures_iter(&text) {
                let begin = at.get(0).unwrap().start();
                let last = |pattern: &Regex| {
                    pattern.captures_iter(&text[..begin]).last().map(|found| found[1].to_owned())
                };
                let meaning = at.name("help").map(|help| help.as_str().to_owned()).or_else(|| last(&help));
                let field = |path: &str| {
                    let mut steps =
                        path.split('.').filter(|step| *step != "clone" && step.parse::<u8>().is_err());
                    steps.next_back().unwrap().to_owned()
                };
                let named = field(&at["metric"]);
                // A local name of a field, and where the type of that is.
                let alias = Regex::new(&format!(r"let {named} = ([\w.]+)\(\);")).unwrap();
                let metric = last(&alias).map_or(named, |path| field(&path));
                let kind = Regex::new(&format!(r"\b{metric}\b\s*[:=][^;\n]*?(Counter|Gauge|Histogram|Info)"))
                    .unwrap();
                let kind = kind.captures(&text).unwrap_or_else(|| panic!("the type of {metric}"));
                found.push(MetricFamily {
                    name: at["name"].to_owned(),
                    kind: kind[1].to_lowercase(),
                    help: meaning.unwrap(),
                });
            }
        }
    }
    assert!(found.len() > 40, "{} metrics are not all that the sources register", found.len());
    found
}

/// All Rust files in a folder and below.
fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        match path.is_dir() {
            true => sources(&path, into),
            false => into.extend(path.extension().is_some_and(|ending| ending == "rs").then_some(path)),
        }
    }
}

/// The operations of a description, by their tags.
fn operations(description: &Value) -> String {
    let mut rows: BTreeMap<usize, String> = BTreeMap::new();
    let tags: Vec<(&str, &str)> = description["tags"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|tag| Some((tag["name"].as_str()?, tag["description"].as_str()?)))
        .collect();
    for (path, item) in description["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let Some(tag) = operation["tags"][0].as_str() else { continue };
            let place = tags.iter().position(|(name, _)| *name == tag).unwrap();
            let summary =
                operation["summary"].as_str().unwrap_or_default().trim_end_matches('.').replace('\n', " ");
            let parameters: Vec<String> = operation["parameters"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|parameter| parameter["in"] == "query")
                .filter_map(|parameter| Some(format!("`{}`", parameter["name"].as_str()?)))
                .collect();
            let row =
                format!("| `{} {path}` | {summary} | {} |\n", method.to_uppercase(), parameters.join(", "));
            *rows.entry(place).or_default() += &row;
        }
    }
    let parts = rows.into_iter().map(|(place, rows)| {
        format!(
            "**{}**\n\n| operation | does | parameters of the URL |\n|---|---|---|\n{rows}\n",
            tags[place].1
        )
    });
    parts.collect()
}

/// Name, type and meaning of each family of a page of metrics.
fn families(page: &str) -> Vec<(String, String, String)> {
    let described = page.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' '));
    described
        .map(|(name, help)| {
            let kind = page.lines().find_map(|line| line.strip_prefix(&format!("# TYPE {name} ")));
            (name.to_owned(), kind.unwrap_or_default().to_owned(), help.trim_end_matches('.').to_owned())
        })
        .collect()
}
