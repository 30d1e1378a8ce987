//! Clients in other languages: the cases of `clients/cases`, played by its server; then a real node that is killed meanwhile.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::Signal;

use crate::follow::Ends;
use crate::npm::packages;
use crate::ports::free_port;
use crate::program::{Data, Server};
use crate::python::python;

const TOKEN: &str = "0123456789abcdef";
const URL: &str = "http://127.0.0.1:8377";
/// The number of events that each client sends to the node that is killed.
const EVENTS: u64 = 60;

/// The folder of the clients.
fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients").canonicalize().unwrap()
}

/// A folder for what tests build.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn has(program: &str, argument: &str, purpose: &str) -> bool {
    let is_there = Command::new(program).arg(argument).output().is_ok_and(|ran| ran.status.success());
    if !is_there {
        println!("skipped: {purpose}: {program} is not installed");
    }
    is_there
}

/// A command of a client, in its folder, and all that it says on one pipe.
fn command(folder: &str, program: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" \"$@\" 2>&1"]).arg(program).args(args);
    command.current_dir(clients().join(folder)).env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("PYTHONPATH", clients().join("python")).stdin(Stdio::null());
    command
}

fn expect(command: &mut Command) -> String {
    let ran = command.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{said}");
    said
}

/// Starts the server that plays the cases, and hands its URL on.
fn with_faults(test: impl FnOnce(&str)) {
    let server = Command::new("python3")
        .arg(clients().join("cases/server.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut server = Ends(server.unwrap());
    let mut url = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut url).unwrap();
    test(url.trim());
}

/// Starts a node, and a client that asks it what `live.json` has and then goes on asking. The node is killed in the middle, and
/// started again: each event counts once.
fn check_killed_node(address: &str, client: impl FnOnce(&str) -> Command) {
    let data = Data::new(&["web", "signup"]);
    let signup = data.path().join("signup.toml");
    let more = "\n[challenge]\ncost = \"1\"\nvisitor = [\"device\"]\npass_bound_to = [\"device\"]\n";
    fs::write(&signup, fs::read_to_string(&signup).unwrap() + more).unwrap();
    let tokens = format!("server.tokens=[\"{TOKEN}\"]");
    let settings = [&tokens, "server.body_max=64KiB", "server.batch_max=3", "ledger.durability=sync"];
    let args: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    let url = format!("http://127.0.0.1:{}", free_port());
    let mut server = Server::start_again(&data.path(), &url, &args);
    let mut client = Ends(client(&url).stdout(Stdio::piped()).spawn().unwrap());
    let mut said = String::new();
    for line in BufReader::new(client.0.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if line == "10 asked" {
            server.end(Signal::KILL);
            sleep(Duration::from_millis(300));
            server = Server::start_again(&data.path(), &url, &args);
        }
        said.push_str(&line);
        said.push('\n');
    }
    assert!(client.0.wait().unwrap().success(), "{said}");
    assert!(said.contains(&format!("\n{EVENTS} asked\n")), "{said}");
    assert_eq!(server.end(Signal::TERM), Some(0));
    let known = data.run(&["stats", "--json", "ip", address], "").expect(0).json().remove(0);
    let tiers = known["tiers"].as_array().unwrap().iter();
    let buckets = tiers.flat_map(|tier| tier["buckets"].as_array().unwrap());
    let seen: u64 = buckets.map(|bucket| bucket["counts"]["seen"].as_u64().unwrap_or(0)).sum();
    assert_eq!(seen, EVENTS, "{known}");
}

/// Starts a node that takes examples, and hands its URL on.
fn with_node(test: impl FnOnce(&str)) {
    let data = Data::new(&["web"]);
    let server = Server::start(&data.path(), &[]);
    test(&server.url);
    assert_eq!(server.end(Signal::TERM), Some(0));
}

/// The examples of a client's page in a language, asking a node at a URL.
fn examples(folder: &str, language: &str, url: &str) -> Vec<String> {
    let page = fs::read_to_string(clients().join(folder).join("README.md")).unwrap();
    let begin = format!("```{language}\n");
    let blocks = page.split(&begin).skip(1);
    blocks.map(|rest| rest.split("\n```").next().unwrap().replace(URL, url) + "\n").collect()
}

fn python_of_clients(purpose: &str) -> Option<PathBuf> {
    has("python3", "--version", purpose).then_some(())?;
    python("clients", &["httpx==0.28.1", "fastapi==0.165.0", "django==5.2.19"], purpose)
}

#[test]
fn cases_in_python() {
    let Some(python) = python_of_clients("the client in Python") else { return };
    with_faults(|url| {
        let said = expect(&mut command("python", &python, &["test_cases.py", url]));
        assert!(said.contains("fastapi: ") && said.contains("django: "), "{said}");
    });
}

#[test]
fn a_killed_node_and_python() {
    let Some(python) = python_of_clients("the client in Python, and a node that is killed") else { return };
    check_killed_node("192.0.2.1", |url| {
        command("python", &python, &["test_cases.py", "--node", url, TOKEN])
    });
}

#[test]
fn examples_in_python() {
    let Some(python) = python_of_clients("the examples of the client in Python") else { return };
    with_node(|url| {
        let [first, fastapi, django] = <[String; 3]>::try_from(examples("python", "python", url)).unwrap();
        let said = expect(&mut command("python", &python, &["-c", &first]));
        assert!(said.contains("TOOL"), "{said}");
        let visit = "
from fastapi.testclient import TestClient
with TestClient(app, client=('192.0.2.7', 1)) as visitor:
    print(visitor.post('/comments').json())
";
        let said = expect(&mut command("python", &python, &["-W", "ignore", "-c", &(fastapi + visit)]));
        assert_eq!(said, "{'is_shown': True}\n");
        let visit = "
import sys, types
sys.modules['shop'] = types.ModuleType('shop')
abuse = sys.modules['shop.abuse'] = types.ModuleType('shop.abuse')
abuse.event = lambda request: {'client.ip': request.META['REMOTE_ADDR'], 'http.path': request.path}
import django
from django.conf import settings
from django.http import HttpResponse
from django.urls import path
urls = types.ModuleType('urls')
urls.urlpatterns = [path('', lambda request: HttpResponse(request.tollhouse.action))]
settings.configure(ALLOWED_HOSTS=['*'], ROOT_URLCONF=urls, MIDDLEWARE=MIDDLEWARE, TOLLHOUSE=TOLLHOUSE)
django.setup()
from django.test import Client
print(Client().get('/').content.decode())
";
        let said = expect(&mut command("python", &python, &["-c", &(django + visit)]));
        assert_eq!(said, "accept\n");
    });
}

/// The folder with Express, or nothing where it cannot be had.
fn express(purpose: &str) -> Option<PathBuf> {
    has("node", "--version", purpose).then_some(())?;
    let folder = packages(&scratch("clients-express"), &["express@5.3.0"], purpose)?.join("node_modules");
    if let Err(error) = symlink(clients().join("javascript"), folder.join("tollhouse")) {
        assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    }
    Some(folder)
}

#[test]
fn cases_in_javascript() {
    let purpose = "the client in JavaScript";
    let (Some(express), true) = (express(purpose), has("python3", "--version", purpose)) else { return };
    with_faults(|url| {
        let args = ["test_cases.mjs", url, &express.display().to_string()];
        let said = expect(&mut command("javascript", Path::new("node"), &args));
        assert!(said.contains("express: "), "{said}");
    });
}

#[test]
fn a_killed_node_and_javascript() {
    if has("node", "--version", "the client in JavaScript, and a node that is killed") {
        check_killed_node("192.0.2.2", |url| {
            command("javascript", Path::new("node"), &["test_cases.mjs", "--node", url, TOKEN])
        });
    }
}

#[test]
fn examples_in_javascript() {
    let Some(express) = express("the examples of the client in JavaScript") else { return };
    with_node(|url| {
        let [first, guarded] = <[String; 2]>::try_from(examples("javascript", "js", url)).unwrap();
        let run = |name: &str, text: &str| {
            // Beside the packages, from where they are found.
            let script = express.with_file_name(name);
            fs::write(&script, text).unwrap();
            expect(&mut command("javascript", Path::new("node"), &[&script.display().to_string()]))
        };
        let said = run("first.mjs", &first);
        assert!(said.contains("TOOL"), "{said}");
        let visit = "app.listen(0, '127.0.0.1', async function () {
            const url = `http://127.0.0.1:${this.address().port}/comments`;
            console.log(await (await fetch(url, { method: 'POST' })).text());
            process.exit(0);
        });";
        let said = run("guarded.mjs", &guarded.replace("app.listen(3000);", visit));
        assert_eq!(said, "{\"isShown\":true}\n");
    });
}

/// Runs Go, with what it builds kept beside what Cargo does.
fn go(folder: &Path, args: &[&str]) {
    let mut go = Command::new("go");
    go.args(args).current_dir(folder).env("GOCACHE", scratch("clients-go")).env("GOFLAGS", "-mod=mod");
    // Everything is in the standard library.
    let ran = go.env("GOPROXY", "off").env("GOTOOLCHAIN", "local").output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

/// The program with all tests of the client, or nothing where there is no Go.
fn go_tests(purpose: &str, name: &str) -> Option<PathBuf> {
    has("go", "version", purpose).then_some(())?;
    let program = scratch("clients-go-tests").join(name);
    go(&clients().join("go"), &["test", "-c", "-o", &program.display().to_string(), "."]);
    Some(program)
}

#[test]
fn cases_in_go() {
    let purpose = "the client in Go";
    let (true, Some(tests)) = (has("python3", "--version", purpose), go_tests(purpose, "cases")) else {
        return;
    };
    with_faults(|url| {
        let args = ["-test.v", "-test.run", "TestCases|TestMiddleware"];
        let said = expect(command("go", &tests, &args).env("TOLLHOUSE_FAULTS", url));
        assert!(said.contains("--- PASS: TestCases") && said.contains("--- PASS: TestMiddleware"), "{said}");
    });
}

#[test]
fn a_killed_node_and_go() {
    let Some(tests) = go_tests("the client in Go, and a node that is killed", "node") else { return };
    check_killed_node("192.0.2.3", |url| {
        let mut command = command("go", &tests, &["-test.v", "-test.run", "TestNode"]);
        command.env("TOLLHOUSE_NODE", url).env("TOLLHOUSE_NODE_TOKEN", TOKEN);
        command
    });
}

#[test]
fn examples_in_go() {
    if !has("go", "version", "the examples of the client in Go") {
        return;
    }
    with_node(|url| {
        let [example] = <[String; 1]>::try_from(examples("go", "go", url)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let client = clients().join("go").display().to_string();
        let module = format!(
            "module example\n\ngo 1.19\n\nrequire tollhouse v0.0.0\n\nreplace tollhouse => {client}\n"
        );
        fs::write(folder.path().join("go.mod"), module).unwrap();
        let visit = "visit(client.Middleware(event, comments))";
        let served = "log.Fatal(http.ListenAndServe(\"127.0.0.1:8080\", client.Middleware(event, comments)))";
        assert!(example.contains(served), "{example}");
        fs::write(folder.path().join("main.go"), example.replace(served, visit)).unwrap();
        let visitor = "package main

import (
	\"fmt\"
	\"net/http\"
	\"net/http/httptest\"
)

func visit(handler http.Handler) {
	answer, request := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, \"/comments\", nil)
	handler.ServeHTTP(answer, request)
	fmt.Print(answer.Code, \" \", answer.Body)
}
";
        fs::write(folder.path().join("visit.go"), visitor).unwrap();
        go(folder.path(), &["build", "-o", "example", "."]);
        let said = expect(&mut command("go", &folder.path().join("example"), &[]));
        assert!(said.ends_with("200 shown: true\n"), "{said}");
    });
}
