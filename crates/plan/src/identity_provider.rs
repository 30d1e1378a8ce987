//! The identity provider at which people log in to the console: `[oidc]` of the main file.

use std::fmt;
use std::sync::Arc;

use access::Role;

use crate::config::{ConfigProblems, Document, PROVIDER_AUTHORITY};
use crate::signers::is_protected_url;

/// The path of the console to which the provider sends browsers back.
pub const OIDC_RETURN_PATH: &str = "/console/oidc/return";

/// An identity provider that speaks OpenID Connect.
#[derive(Clone, PartialEq, Eq)]
pub struct IdentityProviderPlan {
    /// The provider, as it names itself.
    pub issuer: String,
    /// The name that this server has there.
    pub client: String,
    /// The secret that it has there.
    pub secret: Option<String>,
    /// The address to which the provider sends browsers back.
    pub return_url: String,
    /// The scopes that are asked for, `openid` among them, separated by blanks.
    pub scopes: String,
    /// The claim that names the person.
    pub name_claim: String,
    /// The claim that gives the role.
    pub role_claim: String,
    /// Values of that claim, and the role that each gives.
    pub roles: Vec<(String, Role)>,
    /// Certificates in PEM of those who vouch for its host, instead of public authorities.
    pub authority: Option<Arc<str>>,
}

impl IdentityProviderPlan {
    /// Returns the highest role that values of the claim give.
    pub fn role(&self, values: &[&str]) -> Option<Role> {
        let given = self.roles.iter().filter(|(value, _)| values.contains(&value.as_str()));
        given.map(|(_, role)| *role).max()
    }

    /// Returns true if the browser's address is an encrypted one.
    pub fn is_secure(&self) -> bool {
        self.return_url.starts_with("https://")
    }
}

impl fmt::Debug for IdentityProviderPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = f.debug_struct("IdentityProviderPlan");
        all.field("issuer", &self.issuer).field("client", &self.client).field("roles", &self.roles);
        all.finish_non_exhaustive()
    }
}

/// Compiles the provider.
pub(crate) fn compile(document: &Document, problems: &mut ConfigProblems) -> Option<IdentityProviderPlan> {
    let view = document.section("oidc").filter(|view| view.is_written())?;
    let mut missing = |key: &str, help: &str| {
        let text = view.str(key).filter(|text| !text.is_empty());
        if text.is_none() {
            problems.add(view.origin(key), format!("[oidc] has no `{key}`"), Some(help.to_owned()));
        }
        text.unwrap_or_default().to_owned()
    };
    let issuer = missing("issuer", "add the URL that your provider names as its issuer");
    let client = missing("client_id", "add the name that your provider has given this server");
    let console = missing("console", "add the URL at which browsers reach this server");
    for (key, url) in [("issuer", &issuer), ("console", &console)] {
        if !url.is_empty() && !is_protected_url(url) {
            let help = "expected `https://…`, or `http://` with a loopback address".to_owned();
            problems.add(view.origin(key), format!("`{url}` is no address for logins"), Some(help));
        }
    }
    let mut roles = Vec::new();
    for role in Role::ALL {
        let values = view.strings(role.word()).into_iter();
        roles.extend(values.map(|(value, _)| (value.to_owned(), role)));
    }
    if roles.is_empty() {
        let help = "add, for example, administrator = [\"ops\"]: a value of `role_claim`".to_owned();
        problems.add(view.origin("issuer"), "[oidc] gives nobody a role", Some(help));
    }
    // A file that could not be read was told of.
    let file = document.list_file(PROVIDER_AUTHORITY);
    if let Some(file) = file.filter(|file| !file.text.contains("-----BEGIN CERTIFICATE-----")) {
        let help = "it is PEM, with `-----BEGIN CERTIFICATE-----`".to_owned();
        problems.add(view.origin("authority"), format!("{}: there is no certificate", file.name), Some(help));
    }
    let claim = |key: &str| view.str(key).unwrap_or_default().to_owned();
    let scopes =
        view.strings("scopes").into_iter().map(|(scope, _)| scope).filter(|scope| *scope != "openid");
    Some(IdentityProviderPlan {
        issuer,
        client,
        secret: view.str("client_secret").map(str::to_owned),
        return_url: format!("{}{OIDC_RETURN_PATH}", console.trim_end_matches('/')),
        scopes: std::iter::once("openid").chain(scopes).collect::<Vec<_>>().join(" "),
        name_claim: claim("name_claim"),
        role_claim: claim("role_claim"),
        roles,
        authority: file.map(|file| Arc::from(&*file.text)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Overrides, Plan};

    fn check(more: &str, expected: Result<&str, &str>) {
        let text = format!("preset = \"web\"\n[oidc]\n{more}");
        let config = Config::from_text("t.toml", &text, &Overrides::default());
        match (Plan::compile(&config), expected) {
            (Ok(plan), Ok(expected)) => {
                let provider = plan.identity_provider.unwrap();
                assert_eq!(provider.return_url, expected);
                assert_eq!(provider.scopes, "openid profile email");
                assert_eq!(provider.role(&["ops", "mods"]), Some(Role::Administrator));
                assert_eq!((provider.role(&["mods"]), provider.role(&["x"])), (Some(Role::Reviewer), None));
                assert!(!format!("{provider:?}").contains("s3cret"));
            }
            (Err(problems), Err(why)) => assert!(problems.to_string().contains(why), "{why}: {problems}"),
            (Ok(_), Err(why)) => panic!("{text}: {why} is not found"),
            (Err(problems), Ok(_)) => panic!("{text}: {problems}"),
        }
    }

    #[test]
    fn a_provider_is_whole_and_encrypted() {
        let roles = "client_secret = \"s3cret\"\nreviewer = [\"mods\"]\nadministrator = [\"ops\"]\n";
        let with = |issuer: &str, console: &str| {
            format!("issuer = \"{issuer}\"\nconsole = \"{console}\"\nclient_id = \"t\"\n{roles}")
        };
        let id = "https://id.example/realms/a";
        check(&with(id, "https://t.example/"), Ok("https://t.example/console/oidc/return"));
        check(&with("http://127.0.0.1:9", "http://[::1]:8"), Ok("http://[::1]:8/console/oidc/return"));
        check(&with("http://id.example", "https://t.example"), Err("no address for logins"));
        check(&with(id, "http://t.example"), Err("no address for logins"));
        check(
            &with(id, "https://t.example").replace("client_id", "scopes = []\n#"),
            Err("has no `client_id`"),
        );
        check(&with("", "https://t.example"), Err("has no `issuer`"));
        check(&with(id, "https://t.example").replace(roles, ""), Err("gives nobody a role"));
        check(&format!("{}authority = \"absent.pem\"", with(id, "https://t.example")), Err("absent.pem"));
    }
}
