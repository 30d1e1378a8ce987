//! The page that asks a browser to solve a challenge: who asks and why, a task that a worker solves, and the way back.
//!
//! It is one document without anything of anybody else. What it says stands in `presets/challenge`, a file a language; what it
//! looks like can be replaced by a [`PageTemplate`]. Every value is escaped for the place where it stands, also the host and the
//! path that a stranger has sent. Solving is in `solver.js`, the way there and back in `page.js`.

mod markup;
mod translation;

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::LazyLock;

pub(crate) use self::translation::Translation;

use self::markup::{compact, css_string, html, json_in_script, nonce, shown};
use gate::page_template::{PageTemplate, PlaceholderSlot};

static PAGE: LazyLock<PageTemplate> =
    LazyLock::new(|| PageTemplate::read(include_str!("page.html")).unwrap_or_default());
static STYLE: LazyLock<String> = LazyLock::new(|| compact(include_str!("style.css"), "{};,"));
static SCRIPT: LazyLock<String> = LazyLock::new(|| {
    compact(concat!(include_str!("solver.js"), include_str!("page.js")), "{}()[];,:=+-*/<>!&|?^%")
});

/// A reason for which a visitor is asked, as far as the visitor is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChallengeReason {
    /// Nothing is known of the visitor yet.
    New,
    /// The site has more to do than usual.
    Busy,
    /// The request looks like those of programs.
    Suspicious,
    /// Many attempts from there have failed.
    Failures,
    /// The pass of a former challenge has run out.
    Expired,
}

/// The way through for browsers without scripts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScriptlessOffer<'a> {
    /// Seconds after which the page goes on.
    pub(crate) wait_seconds: u32,
    /// URL of a picture on the same host that only clients that lay a page out load.
    pub(crate) mark_url: &'a str,
    /// URL on the same host where the page goes on.
    pub(crate) continue_url: &'a str,
}

/// A page that asks for the solution of one challenge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChallengePage<'a> {
    /// A challenge in ALTCHA's second form, as JSON.
    pub(crate) challenge: &'a str,
    /// The path on the site that the proxy hands to Tollhouse, `/.tollhouse/`; solutions go to `verify` below it.
    pub(crate) base: &'a str,
    /// Path and query of the request, on the same site.
    pub(crate) return_to: &'a str,
    /// True if the request had a body, which is not kept: the visitor is sent back to the form.
    pub(crate) is_form: bool,
    /// The host that asks.
    pub(crate) site: &'a str,
    /// The reason that is told.
    pub(crate) reason: ChallengeReason,
    /// The owner's mail address or URL.
    pub(crate) contact: Option<&'a str>,
    /// A name of this decision, for complaints.
    pub(crate) reference: &'a str,
    /// The way without scripts, if the owner offers one.
    pub(crate) without_scripts: Option<ScriptlessOffer<'a>>,
    /// A value that nobody can foresee, new for each page: only what bears it runs.
    pub(crate) nonce: &'a str,
}

impl ChallengePage<'_> {
    /// Returns the page in a language, laid out by the owner's template or our own.
    pub(crate) fn render(&self, translation: &Translation, template: Option<&PageTemplate>) -> String {
        let mut page = String::with_capacity(16 << 10);
        template.unwrap_or(&PAGE).fill(&mut page, |slot, page| self.slot(slot, translation, page));
        page
    }

    /// Returns the page that tells a visitor without scripts what came of the waiting: the form, which was not kept, can be sent
    /// again, or the check did not succeed, for cookies or pictures that were refused.
    pub(crate) fn render_outcome(
        &self,
        has_passed: bool,
        translation: &Translation,
        template: Option<&PageTemplate>,
    ) -> String {
        let mut page = String::with_capacity(8 << 10);
        template.unwrap_or(&PAGE).fill(&mut page, |slot, page| match slot {
            PlaceholderSlot::Head | PlaceholderSlot::FormNote => {}
            PlaceholderSlot::Challenge => {
                let said = if has_passed { &translation.form_done } else { &translation.cookies };
                let _ = write!(page, "<div id=\"th-check\"><p id=\"th-status\">{}</p>", html(said));
                if !has_passed {
                    let (to, retry) = (same_site(self.return_to), html(&translation.retry));
                    let _ = write!(page, "<p><a href=\"{}\">{retry}</a></p>", html(&to));
                }
                page.push_str("</div>");
            }
            _ => self.slot(slot, translation, page),
        });
        page
    }

    fn slot(&self, slot: PlaceholderSlot, text: &Translation, page: &mut String) {
        let site = html(&shown(self.site)).into_owned();
        match slot {
            PlaceholderSlot::Language => page.push_str(text.language()),
            PlaceholderSlot::Direction => page.push_str(&html(&text.direction)),
            PlaceholderSlot::Title => page.push_str(&html(&text.title)),
            PlaceholderSlot::Site => page.push_str(&site),
            PlaceholderSlot::Intro => {
                page.push_str(&html(&text.intro).replace("{site}", &format!("<bdi>{site}</bdi>")))
            }
            PlaceholderSlot::Reason => page.push_str(&html(self.reason(text))),
            PlaceholderSlot::FormNote if self.is_form => paragraph(page, &html(&text.form_waits)),
            PlaceholderSlot::FormNote => {}
            PlaceholderSlot::Privacy => page.push_str(&html(&text.privacy)),
            PlaceholderSlot::Contact => self.contact(text, page),
            PlaceholderSlot::Reference => page.push_str(&html(&shown(self.reference))),
            PlaceholderSlot::Nonce => page.push_str(&nonce(self.nonce)),
            PlaceholderSlot::Style => {
                let _ = write!(page, "<style nonce=\"{}\">{}</style>", nonce(self.nonce), *STYLE);
            }
            PlaceholderSlot::Head => self.head(page),
            PlaceholderSlot::Challenge => self.challenge(text, page),
        }
    }

    fn reason<'t>(&self, text: &'t Translation) -> &'t str {
        match self.reason {
            ChallengeReason::New => &text.reason_new,
            ChallengeReason::Busy => &text.reason_busy,
            ChallengeReason::Suspicious => &text.reason_suspicious,
            ChallengeReason::Failures => &text.reason_failures,
            ChallengeReason::Expired => &text.reason_expired,
        }
    }

    /// Writes the part of the head that is for browsers without scripts: where to go on, and when.
    fn head(&self, page: &mut String) {
        page.push_str("<noscript>");
        if let Some(way) = self.without_scripts {
            let _ = write!(
                page,
                "<meta http-equiv=\"refresh\" content=\"{};url={}\">",
                way.wait_seconds,
                html(&same_site(way.continue_url))
            );
        }
        let _ = write!(page, "<style nonce=\"{}\">#th-status,#th-bar{{display:none}}", nonce(self.nonce));
        if let Some(way) = self.without_scripts {
            let _ = write!(
                page,
                "#th-plain{{background:url({}) no-repeat}}",
                css_string(&same_site(way.mark_url))
            );
        }
        page.push_str("</style></noscript>");
    }

    /// The task itself. Until its script runs it says that the browser is too old for it.
    fn challenge(&self, text: &Translation, page: &mut String) {
        let return_to = same_site(self.return_to);
        let _ = write!(
            page,
            "<div id=\"th-check\"><p id=\"th-status\" role=\"status\">{}</p>\
             <progress id=\"th-bar\" max=\"1\" value=\"0\" aria-label=\"{}\"></progress>\
             <form id=\"th-form\" method=\"post\" action=\"{}verify\"><input type=\"hidden\" name=\"altcha\">\
             <input type=\"hidden\" name=\"return\" value=\"{}\">\
             <button type=\"button\" id=\"th-go\" hidden></button></form><noscript><div id=\"th-plain\">",
            html(&text.unsupported),
            html(&text.progress),
            html(&same_site(self.base)),
            html(&return_to),
        );
        match self.without_scripts {
            Some(way) => {
                paragraph(page, &html(&text.plain_wait).replace("{seconds}", &way.wait_seconds.to_string()));
                let _ = write!(
                    page,
                    "<p><a href=\"{}\">{}</a></p>",
                    html(&same_site(way.continue_url)),
                    html(&text.plain_link)
                );
            }
            None => paragraph(page, &html(&text.plain_none)),
        }
        let _ = write!(
            page,
            "</div></noscript></div><script type=\"application/json\" id=\"th-data\">{{\"challenge\":{},\
             \"return\":{},\"form\":{},\"text\":{}}}</script><script nonce=\"{}\">{}</script>",
            json_in_script(self.challenge),
            json_in_script(&serde_json::Value::from(&*return_to).to_string()),
            self.is_form,
            json_in_script(&text.of_script().to_string()),
            nonce(self.nonce),
            *SCRIPT,
        );
    }

    fn contact(&self, text: &Translation, page: &mut String) {
        match self.contact {
            Some(contact) => {
                let link = self.contact_link(contact);
                paragraph(page, &html(&text.contact).replace("{contact}", &link));
            }
            None => paragraph(page, &html(&text.contact_none)),
        }
        if !self.reference.is_empty() {
            let reference = format!("<bdi>{}</bdi>", html(&shown(self.reference)));
            paragraph(page, &html(&text.reference).replace("{reference}", &reference));
        }
    }

    /// A link to the owner, where that is a web page or a mail address; what is neither stands as it is.
    fn contact_link(&self, contact: &str) -> String {
        let text = html(&shown(contact)).into_owned();
        let is_mail = |address: &str| {
            address.split_once('@').is_some_and(|(name, host)| !name.is_empty() && !host.is_empty())
                && address.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"@.-_+".contains(&byte))
        };
        let scheme =
            |name: &str| contact.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
        if is_mail(contact) {
            let subject: String = self
                .reference
                .chars()
                .filter(|sign| sign.is_ascii_alphanumeric() || "-_.".contains(*sign))
                .collect();
            format!("<a href=\"mailto:{text}?subject={subject}\">{text}</a>")
        } else if scheme("https://") || scheme("http://") {
            format!("<a href=\"{}\"><bdi>{text}</bdi></a>", html(contact))
        } else {
            format!("<bdi>{text}</bdi>")
        }
    }

    /// Returns the fields that belong to the page's answer, besides those that every answer has.
    ///
    /// Nothing but what bears the nonce runs, nothing comes from elsewhere, nobody frames or keeps the page.
    pub(crate) fn headers(&self, translation: &Translation) -> [(&'static str, String); 8] {
        let nonce = nonce(self.nonce);
        let policy = format!(
            "default-src 'none'; script-src 'nonce-{nonce}'; worker-src blob:; style-src 'nonce-{nonce}'; \
             img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
        );
        [
            ("content-type", "text/html; charset=utf-8".to_owned()),
            ("content-security-policy", policy),
            ("content-language", translation.language().to_owned()),
            ("cache-control", "no-store".to_owned()),
            ("referrer-policy", "same-origin".to_owned()),
            ("vary", "Accept-Language, Cookie".to_owned()),
            ("x-content-type-options", "nosniff".to_owned()),
            ("x-robots-tag", "noindex".to_owned()),
        ]
    }
}

/// Returns a reference to the same site, whatever a stranger has sent: browsers read `//host` and `/\host` as other hosts.
///
/// It is right for `Location`, too.
pub(crate) fn same_site(path: &str) -> Cow<'_, str> {
    let mut rest = path.chars();
    match (rest.next(), rest.next()) {
        _ if path.contains(char::is_control) => Cow::Borrowed("/"),
        (Some('/'), Some('/' | '\\')) => Cow::Owned(format!("/.{path}")),
        (Some('/'), _) => Cow::Borrowed(path),
        _ => Cow::Borrowed("/"),
    }
}

fn paragraph(page: &mut String, markup: &str) {
    let _ = write!(page, "<p>{markup}</p>");
}

#[cfg(test)]
mod tests;
