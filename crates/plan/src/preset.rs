//! The presets: files of the configuration language, embedded in the binary.

/// A preset.
#[derive(Debug)]
pub struct Preset {
    /// The name of the preset in `preset = "..."`.
    pub name: &'static str,
    /// The preset that it extends, as its text says, too.
    pub extends: Option<&'static str>,
    /// The file's text.
    pub text: &'static str,
}

/// All presets.
pub static ALL: &[Preset] = &[
    Preset { name: "mail", extends: None, text: include_str!("../../../presets/mail.toml") },
    Preset { name: "web", extends: None, text: include_str!("../../../presets/web.toml") },
    Preset { name: "gate", extends: None, text: include_str!("../../../presets/gate.toml") },
    Preset { name: "analytics", extends: None, text: include_str!("../../../presets/analytics.toml") },
    Preset { name: "login", extends: None, text: include_str!("../../../presets/login.toml") },
    Preset { name: "comments", extends: None, text: include_str!("../../../presets/comments.toml") },
    Preset { name: "signup", extends: None, text: include_str!("../../../presets/signup.toml") },
    Preset { name: "api", extends: None, text: include_str!("../../../presets/api.toml") },
    Preset { name: "payment", extends: None, text: include_str!("../../../presets/payment.toml") },
    Preset {
        name: "mail-incoming",
        extends: Some("mail"),
        text: include_str!("../../../presets/mail-incoming.toml"),
    },
    Preset {
        name: "mail-outgoing",
        extends: Some("mail"),
        text: include_str!("../../../presets/mail-outgoing.toml"),
    },
];

/// A preset of a program's log, by the file of its name.
macro_rules! log_preset {
    ($name:literal) => {
        Preset {
            name: $name,
            extends: Some("log"),
            text: include_str!(concat!("../../../presets/logs/", $name, ".toml")),
        }
    };
}

/// Presets of logs: what they have in common, and those of programs by what their logs say.
pub static LOGS: &[Preset] = &[
    Preset { name: "log", extends: None, text: include_str!("../../../presets/logs/log.toml") },
    log_preset!("sshd"),
    log_preset!("pam"),
    log_preset!("sudo"),
    log_preset!("postfix"),
    log_preset!("dovecot"),
    log_preset!("exim"),
    log_preset!("nginx-error"),
    log_preset!("nginx-mail"),
    log_preset!("apache-error"),
    log_preset!("modsecurity"),
    log_preset!("vsftpd"),
    log_preset!("proftpd"),
    log_preset!("mysql"),
    log_preset!("postgresql"),
    log_preset!("mongodb"),
    log_preset!("redis"),
    log_preset!("asterisk"),
    log_preset!("openvpn"),
    log_preset!("wireguard"),
    log_preset!("nextcloud"),
    log_preset!("vaultwarden"),
    log_preset!("gitea"),
    log_preset!("gitlab"),
    log_preset!("grafana"),
    log_preset!("keycloak"),
    log_preset!("home-assistant"),
    log_preset!("proxmox"),
    log_preset!("suricata"),
    log_preset!("netfilter"),
    log_preset!("windows"),
];

/// Presets that go together, and what the main file of a data directory says beside them.
#[derive(Debug)]
pub struct PresetBundle {
    /// The name of the bundle in `tollhouse init --preset`.
    pub name: &'static str,
    /// The purpose of the bundle, in one line.
    pub summary: &'static str,
    /// The names of its presets, each with what its file says beside it; the first is the default pipeline's.
    pub presets: &'static [(&'static str, &'static str)],
    /// The settings of the node that connect them.
    pub settings: &'static str,
}

/// All bundles.
pub static BUNDLES: &[PresetBundle] = &[PresetBundle {
    name: "site",
    summary: "a site behind a proxy: `gate` asks before a request is answered, `web` judges the log",
    presets: &[("web", ""), ("gate", include_str!("../../../presets/bundles/site-gate.toml"))],
    settings: include_str!("../../../presets/bundles/site.toml"),
}];

/// Parts that presets leave out, and files switch on by `modules = ["..."]`.
pub static MODULES: &[Preset] = &[
    Preset {
        name: "greylisting",
        extends: None,
        text: include_str!("../../../presets/modules/greylisting.toml"),
    },
    Preset {
        name: "dns-lists",
        extends: None,
        text: include_str!("../../../presets/modules/dns-lists.toml"),
    },
    Preset {
        name: "dns-list-barracuda",
        extends: None,
        text: include_str!("../../../presets/modules/dns-list-barracuda.toml"),
    },
    Preset {
        name: "declared-robots",
        extends: None,
        text: include_str!("../../../presets/modules/declared-robots.toml"),
    },
    Preset { name: "forms", extends: None, text: include_str!("../../../presets/modules/forms.toml") },
];

/// Lists that presets look for, in the form of the files that replace them.
pub static LISTS: &[Preset] = &[
    Preset { name: "probes", extends: None, text: include_str!("../../../presets/lists/probes.txt") },
    Preset { name: "exploits", extends: None, text: include_str!("../../../presets/lists/exploits.txt") },
    Preset { name: "attacks", extends: None, text: include_str!("../../../presets/lists/attacks.txt") },
    Preset { name: "interfaces", extends: None, text: include_str!("../../../presets/lists/interfaces.txt") },
    Preset { name: "tools", extends: None, text: include_str!("../../../presets/lists/tools.txt") },
    Preset { name: "robots", extends: None, text: include_str!("../../../presets/lists/robots.txt") },
    Preset {
        name: "mail-phrases",
        extends: None,
        text: include_str!("../../../presets/lists/mail-phrases.tsv"),
    },
];

/// The list of this name.
pub fn list(name: &str) -> Option<&'static Preset> {
    LISTS.iter().find(|list| list.name == name)
}

/// The module of this name.
pub fn module(name: &str) -> Option<&'static Preset> {
    MODULES.iter().find(|module| module.name == name)
}

/// The preset of this name.
pub fn find(name: &str) -> Option<&'static Preset> {
    pipelines().find(|preset| preset.name == name)
}

/// All presets that a pipeline can extend.
pub fn pipelines() -> impl Iterator<Item = &'static Preset> + Clone {
    ALL.iter().chain(LOGS)
}

impl Preset {
    /// A hash of its text and of what it extends, 16 hexadecimal digits.
    pub fn version(&self) -> String {
        let texts: Vec<&str> = self.layers().into_iter().map(|preset| preset.text).collect();
        crate::content_hash(texts.concat().as_bytes())
    }

    /// Returns the preset that this one extends, and this one itself.
    pub fn layers(&self) -> Vec<&Preset> {
        self.extends.and_then(find).into_iter().chain([self]).collect()
    }

    /// Returns the source of the main file that the comment at the top of a log's preset shows.
    pub fn source(&self) -> String {
        let comment = self.text.lines().map_while(|line| line.strip_prefix('#'));
        let source = comment.skip_while(|line| line.trim() != "[[source]]");
        source.flat_map(|line| [line.strip_prefix(' ').unwrap_or(line), "\n"]).collect()
    }

    /// The comment that opens the file: what it is for, in one line.
    pub fn summary(&self) -> &'static str {
        self.text.lines().next().unwrap_or_default().trim_start_matches(['#', ' '])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_extend_what_they_say() {
        for preset in pipelines() {
            let said = preset.text.lines().find_map(|line| line.strip_prefix("preset = "));
            assert_eq!(said.map(|name| name.trim_matches('"')), preset.extends, "{}", preset.name);
            // One is extended at most, so that this ends.
            assert!(preset.layers().len() == 1 || preset.layers()[0].extends.is_none(), "{}", preset.name);
            assert!(!preset.summary().is_empty());
        }
        assert_ne!(find("mail-incoming").unwrap().version(), find("mail").unwrap().version());
    }
}
