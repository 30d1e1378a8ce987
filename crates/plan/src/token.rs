//! Named tokens as configured: `[[token]]` of the main file.

use access::{AccessScope, ScopeSet, TokenDigest};
use event::Time;

use crate::config::{ConfigProblems, ConfigView, Document};
use crate::entries;

/// A token that the configuration has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenPlan {
    /// Its name.
    pub name: String,
    /// The hash of its text.
    pub digest: TokenDigest,
    /// The operations that it may be used for.
    pub scopes: ScopeSet,
    /// The pipelines that it is limited to; none for no limit.
    pub pipelines: Vec<String>,
    /// The time from which it no longer holds.
    pub expires: Option<Time>,
}

/// Reads a list of scopes. Words that are none were told of.
pub(crate) fn scopes(view: ConfigView<'_>, key: &str) -> ScopeSet {
    view.strings(key).into_iter().filter_map(|(word, _)| word.parse::<AccessScope>().ok()).collect()
}

/// Compiles the tokens.
pub(crate) fn tokens(document: &Document, problems: &mut ConfigProblems) -> Vec<TokenPlan> {
    let mut plans: Vec<TokenPlan> = Vec::new();
    for view in entries(document, "token", problems) {
        let Some(name) = view.str("name") else { continue };
        let digest = match (view.str("secret"), view.str("sha256")) {
            (Some(_), Some(_)) => {
                problems.add(view.origin("sha256"), "a token has `secret` or `sha256`, not both", None);
                continue;
            }
            (Some(secret), None) => Some(TokenDigest::of(secret.as_bytes())),
            (None, Some(hex)) => {
                let digest = TokenDigest::from_hex(hex);
                if digest.is_none() {
                    let help = "`printf %s TOKEN | sha256sum` writes it".to_owned();
                    problems.add(view.origin("sha256"), "expected 64 hexadecimal digits", Some(help));
                }
                digest
            }
            (None, None) => {
                let help = "add `secret` or `sha256`".to_owned();
                problems.add(view.origin("name"), format!("the token `{name}` has no secret"), Some(help));
                None
            }
        };
        let scopes = scopes(view, "scopes");
        if scopes.is_empty() {
            let help = format!("add scopes = [\"decide\"], or others of: {}", AccessScope::WORDS.join(", "));
            problems.add(view.origin("scopes"), format!("the token `{name}` may do nothing"), Some(help));
        }
        let Some(digest) = digest else { continue };
        if plans.iter().any(|other| other.digest == digest) {
            problems.add(view.origin("name"), format!("`{name}` is the same token as another"), None);
        }
        let pipelines = view.strings("pipelines").into_iter().map(|(name, _)| name.to_owned()).collect();
        plans.push(TokenPlan {
            name: name.to_owned(),
            digest,
            scopes,
            pipelines,
            expires: view.time("expires"),
        });
    }
    plans
}

#[cfg(test)]
mod tests {
    use crate::{Config, Overrides, Plan};

    fn check(text: &str, overrides: Overrides, expected: Result<&[(&str, &str)], &str>) {
        let config = Config::from_text("t.toml", &format!("preset = \"web\"\n{text}"), &overrides);
        match (Plan::compile(&config), expected) {
            (Ok(plan), Ok(expected)) => {
                let found: Vec<(String, String)> =
                    plan.tokens.iter().map(|token| (token.name.clone(), token.scopes.to_string())).collect();
                let expected: Vec<(String, String)> = expected
                    .iter()
                    .map(|(name, scopes)| ((*name).to_owned(), (*scopes).to_owned()))
                    .collect();
                assert_eq!(found, expected, "{text}");
            }
            (Err(problems), Err(why)) => assert!(problems.to_string().contains(why), "{why}: {problems}"),
            (Ok(_), Err(why)) => panic!("{text}: {why} is not found"),
            (Err(problems), Ok(_)) => panic!("{text}: {problems}"),
        }
    }

    fn environment(variables: &[(&str, &str)]) -> Overrides {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Overrides { environment: variables.iter().map(pair).collect(), ..Overrides::default() }
    }

    #[test]
    fn tokens_are_read_from_files_and_the_environment() {
        let none = Overrides::default;
        let token = "[[token]]\nname = \"bouncer\"\n";
        let secret = "secret = \"0123456789abcdef\"\n";
        check(&format!("{token}{secret}scopes = [\"enforce\"]"), none(), Ok(&[("bouncer", "enforce")]));
        check(&format!("{token}{secret}"), none(), Err("may do nothing"));
        check(&format!("{token}scopes = [\"enforce\"]"), none(), Err("has no secret"));
        check(
            &format!("{token}scopes = [\"enforce\"]\nsha256 = \"1234\""),
            none(),
            Err("64 hexadecimal digits"),
        );
        check(&format!("{token}{secret}scopes = [\"root\"]"), none(), Err("root"));
        let variables = [
            ("TOLLHOUSE_TOKEN_SITE_SECRET", "0123456789abcdef"),
            ("TOLLHOUSE_TOKEN_SITE_SCOPES", "[\"decide\"]"),
        ];
        check("", environment(&variables), Ok(&[("site", "decide")]));
        let open = "[server]\nlisten = \"192.0.2.1:1\"\n";
        check(open, none(), Err("no token is asked for"));
        check(&format!("{open}require_token = true"), none(), Ok(&[]));
        check(&format!("{open}{token}{secret}scopes = [\"read\"]"), none(), Ok(&[("bouncer", "read")]));
        check("[server]\ntokens = [\"0123456789abcdef\"]\ntoken_scopes = []", none(), Err("may do nothing"));
    }
}
