//! The frame of all pages: head, navigation, search, and the header fields that keep a page to itself.

use axum::http::{HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use super::assets::{ICON, PageScripts};
use super::texts::{t, word};
use crate::core::viewer::Viewer;

/// Nothing inside of a page runs or styles it, nothing comes from elsewhere, nobody frames it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     form-action 'self'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'";

/// The part of the console that a page belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConsoleSection {
    Overview,
    Decisions,
    Reviews,
    Keys,
    Bans,
    Limits,
    Rules,
    Learners,
    Settings,
    None,
}

/// The sections in the order of the navigation: address, text, and the key that leads there after `g`.
const NAVIGATION: [(ConsoleSection, &str, &str, &str); 9] = [
    (ConsoleSection::Overview, "/console/", "nav.overview", "o"),
    (ConsoleSection::Decisions, "/console/decisions", "nav.decisions", "d"),
    (ConsoleSection::Reviews, "/console/reviews", "nav.reviews", "q"),
    (ConsoleSection::Keys, "/console/keys", "nav.keys", "k"),
    (ConsoleSection::Bans, "/console/bans", "nav.bans", "b"),
    (ConsoleSection::Limits, "/console/limits", "nav.limits", "l"),
    (ConsoleSection::Rules, "/console/rules", "nav.rules", "r"),
    (ConsoleSection::Learners, "/console/learners", "nav.learners", "e"),
    (ConsoleSection::Settings, "/console/settings", "nav.settings", "s"),
];

/// The keys that act on the review in which the focus is, and their texts.
const REVIEW_KEYS: [(&str, &str); 8] = [
    ("p", "keyboard.publish"),
    ("x", "keyboard.refuse"),
    ("c", "keyboard.claim"),
    ("r", "keyboard.release"),
    ("e", "keyboard.escalate"),
    ("m", "keyboard.comment"),
    ("a", "keyboard.alike"),
    ("n", "keyboard.next"),
];

/// The frame of a page.
pub(super) struct PageFrame<'a> {
    pub(super) title: String,
    pub(super) section: ConsoleSection,
    /// `None` for who has yet to log in, and for errors.
    pub(super) viewer: Option<&'a Viewer>,
    pub(super) uri: Option<&'a Uri>,
    pub(super) scripts: PageScripts,
}

/// The outcome of the form that led here: the name of a text, and a number in it.
#[derive(Default, serde::Deserialize)]
struct DoneNotice {
    done: Option<String>,
    #[serde(default)]
    n: Option<u64>,
}

impl PageFrame<'_> {
    /// Returns the frame of a page that loads more than what all load.
    pub(super) fn with(self, scripts: PageScripts) -> Self {
        PageFrame { scripts, ..self }
    }

    /// Returns the whole page.
    pub(super) fn page(&self, content: &Markup) -> Response {
        let markup = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (self.title) " · " (t("common.name")) }
                    link rel="icon" type="image/svg+xml" href=(ICON.url());
                    (self.scripts.load())
                }
                body {
                    a.skip href="#content" { (t("common.skip")) }
                    (self.header())
                    main #content tabindex="-1" {
                        (self.notice())
                        (content)
                    }
                    (self.help())
                }
            }
        };
        let mut response = (StatusCode::OK, markup.into_string()).into_response();
        let headers = response.headers_mut();
        let fields: [(HeaderName, &'static str); 8] = [
            (header::CONTENT_TYPE, "text/html; charset=utf-8"),
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::CACHE_CONTROL, "no-store"),
            (header::REFERRER_POLICY, "same-origin"),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::X_FRAME_OPTIONS, "DENY"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
            (HeaderName::from_static("x-robots-tag"), "noindex, nofollow"),
        ];
        for (name, value) in fields {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response
    }

    fn header(&self) -> Markup {
        html! {
            header.top {
                a.brand href="/console/" { (mark()) span { (t("common.name")) } }
                @if self.viewer.is_some() {
                    nav aria-label=(t("nav.label")) {
                        @for (section, url, text, key) in NAVIGATION {
                            a href=(url) data-key=(key) aria-current=[(section == self.section).then_some("page")] { (t(text)) }
                        }
                    }
                    form.find action="/console/find" role="search" {
                        input #find type="search" name="q" placeholder=(t("find.placeholder")) aria-label=(t("find.label"))
                            autocomplete="off" spellcheck="false" maxlength="1024";
                        kbd aria-hidden="true" { "/" }
                    }
                }
                @if let Some(viewer) = self.viewer.filter(|viewer| viewer.has_session) {
                    form.out method="post" action="/console/logout" {
                        (secret(viewer))
                        button.quiet type="submit" { (t("login.out")) }
                    }
                }
            }
        }
    }

    /// Says what the form did that led to this page.
    fn notice(&self) -> Markup {
        let query = self.uri.and_then(Uri::query).unwrap_or_default();
        let DoneNotice { done, n } = serde_urlencoded::from_str(query).unwrap_or_default();
        let is_word = |done: &String| done.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        let Some(done) = done.filter(|done| done.len() < 32 && is_word(done)) else { return html! {} };
        let text = word("done", &done).replace("{n}", &super::format::number(n.unwrap_or(0)));
        html! { p.notice role="status" { (text) } }
    }

    fn help(&self) -> Markup {
        html! {
            dialog #keys aria-labelledby="keys-title" {
                h2 #keys-title { (t("keyboard.title")) }
                dl.keyboard {
                    dt { kbd { "/" } } dd { (t("keyboard.find")) }
                    dt { kbd { "j" } " " kbd { "k" } } dd { (t("keyboard.rows")) }
                    dt { kbd { "Enter" } } dd { (t("keyboard.open")) }
                    @for (_, _, text, key) in NAVIGATION {
                        dt { kbd { "g" } " " kbd { (key) } } dd { (t(text)) }
                    }
                    @if self.section == ConsoleSection::Reviews {
                        @for (key, text) in REVIEW_KEYS { dt { kbd { (key) } } dd { (t(text)) } }
                    }
                    dt { kbd { "?" } } dd { (t("keyboard.help")) }
                }
                form method="dialog" { button { (t("keyboard.close")) } }
            }
        }
    }
}

/// The field by which a form is known as its viewer's.
pub(super) fn secret(viewer: &Viewer) -> Markup {
    html! { input type="hidden" name="secret" value=(viewer.form_secret()); }
}

/// The sign of the product: a barrier.
fn mark() -> Markup {
    html! {
        svg.mark viewBox="0 0 24 24" width="20" height="20" aria-hidden="true" focusable="false" {
            path d="M4 21V9l5-5 5 5v12z" {}
            path.arm d="M14 12h8" {}
        }
    }
}

/// Leads a browser on after a form.
pub(super) fn redirect(url: &str) -> Response {
    let location = HeaderValue::try_from(url).unwrap_or_else(|_| HeaderValue::from_static("/console/"));
    let fields =
        [(header::LOCATION, location), (header::CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    (StatusCode::SEE_OTHER, fields).into_response()
}

/// A page's address with what was done.
pub(super) fn done(page: &str, done: &str, n: u64) -> String {
    let sign = if page.contains('?') { '&' } else { '?' };
    format!("{page}{sign}done={done}&n={n}")
}
