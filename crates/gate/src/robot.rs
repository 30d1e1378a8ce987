//! Robots that say who they are: their names in agents, the names of their addresses, the networks that their operators publish.
//!
//! ```text
//! agent ─► claim ─► its networks ─┬─► verified
//!                └► its names    ─┴─► impostor; unknown, while names cannot be had
//! ```
//!
//! Pure. Which names an address has, forward and back, is for whoever asks name service to find.

use std::cmp::Reverse;
use std::net::IpAddr;

use aho_corasick::AhoCorasick;
use serde::Deserialize;

/// Most bytes of a file of networks.
pub const NETWORKS_BYTES_MAX: usize = 4 << 20;
/// Most networks of a file.
const NETWORKS_MAX: usize = 100_000;
/// Most bytes of an agent that are looked at.
const AGENT_BYTES_MAX: usize = 1024;

/// A robot that says who it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeclaredRobot {
    /// The name.
    pub name: String,
    /// The operator.
    pub operator: String,
    /// Words that its agents have, in lower case.
    pub agents: Vec<String>,
    /// Domains of the names of its addresses, in lower case, without a dot before them.
    pub domains: Vec<String>,
}

impl DeclaredRobot {
    /// Returns true if a name of an address, as name service has it forward and back, is one of the robot's.
    pub fn has_name(&self, name: &str) -> bool {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        self.domains.iter().any(|domain| {
            name.strip_suffix(domain.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        })
    }
}

/// Declared robots, whose words are looked for all at once.
#[derive(Debug)]
pub struct DeclaredRobots {
    robots: Vec<DeclaredRobot>,
    words: AhoCorasick,
    /// The place of the robot that each word is of.
    robot_of_word: Vec<usize>,
}

impl DeclaredRobots {
    /// Prepares the search for the words of robots.
    ///
    /// # Errors
    /// If the words are too many, or too long in all: gigabytes.
    pub fn new(robots: Vec<DeclaredRobot>) -> Result<DeclaredRobots, aho_corasick::BuildError> {
        let places = || robots.iter().enumerate();
        let all = || places().flat_map(|(at, robot)| robot.agents.iter().map(move |word| (at, word)));
        let words = || all().filter(|(_, word)| !word.is_empty());
        let automaton = AhoCorasick::new(words().map(|(_, word)| word))?;
        let robot_of_word = words().map(|(at, _)| at).collect();
        Ok(DeclaredRobots { words: automaton, robot_of_word, robots })
    }

    /// Returns the robots, in the order in which they were declared.
    pub fn as_slice(&self) -> &[DeclaredRobot] {
        &self.robots
    }

    /// Returns the place of the robot that an agent claims to be: that with the longest word, the first of several. A word begins and ends
    /// where a name does, so that `applebot` is not found in `grapplebot`.
    pub fn claimed(&self, agent: &str) -> Option<usize> {
        let agent = agent[..agent.floor_char_boundary(AGENT_BYTES_MAX)].to_lowercase();
        let is_name = |start: usize, end: usize| {
            let before = agent[..start].chars().next_back();
            let after = agent[end..].chars().next();
            ![before, after].into_iter().flatten().any(char::is_alphanumeric)
        };
        let found =
            self.words.find_overlapping_iter(&agent).filter(|found| is_name(found.start(), found.end()));
        let claims = found.filter_map(|found| {
            Some((found.len(), Reverse(*self.robot_of_word.get(found.pattern().as_usize())?)))
        });
        claims.max().map(|(_, Reverse(at))| at)
    }
}

/// Reasons for a file that has no networks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishedNetworksError {
    /// The file is longer than such files are.
    #[error("a file of networks has at most {NETWORKS_BYTES_MAX} bytes and {NETWORKS_MAX} networks")]
    TooLarge,
    /// The file is JSON of another shape.
    #[error("it is no JSON with `prefixes`: {0}")]
    Malformed(String),
    /// A network is none.
    #[error("`{0}` is no network such as `192.0.2.0/24`")]
    Network(String),
    /// The file has no networks.
    #[error("it has no networks")]
    Empty,
}

#[derive(Deserialize)]
struct PublishedPrefixes {
    prefixes: Vec<PublishedPrefix>,
}

#[derive(Deserialize)]
struct PublishedPrefix {
    #[serde(rename = "ipv4Prefix", default)]
    v4: Option<String>,
    #[serde(rename = "ipv6Prefix", default)]
    v6: Option<String>,
}

/// Reads the networks of a file: JSON as Google, Microsoft, Apple and OpenAI publish it, or a network or address a line, with comments
/// behind `#`.
///
/// # Errors
/// If there are none, or one is none: half a list makes impostors of the other half.
pub fn published_networks(text: &str) -> Result<Vec<(IpAddr, u8)>, PublishedNetworksError> {
    if text.len() > NETWORKS_BYTES_MAX {
        return Err(PublishedNetworksError::TooLarge);
    }
    let text = text.trim_start_matches('\u{feff}');
    let mut networks = Vec::new();
    let mut add = |text: &str| {
        let network =
            network(text).ok_or_else(|| PublishedNetworksError::Network(text.chars().take(60).collect()))?;
        networks.push(network);
        if networks.len() > NETWORKS_MAX { Err(PublishedNetworksError::TooLarge) } else { Ok(()) }
    };
    if text.trim_start().starts_with('{') {
        let published: PublishedPrefixes = serde_json::from_str(text)
            .map_err(|error| PublishedNetworksError::Malformed(error.to_string()))?;
        for prefix in published.prefixes {
            for text in [prefix.v4, prefix.v6].into_iter().flatten() {
                add(&text)?;
            }
        }
    } else {
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                add(line)?;
            }
        }
    }
    if networks.is_empty() { Err(PublishedNetworksError::Empty) } else { Ok(networks) }
}

fn network(text: &str) -> Option<(IpAddr, u8)> {
    let text = text.trim();
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse::<u8>().ok()?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(most);
    (bits <= most).then_some((address, bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn robots() -> Vec<DeclaredRobot> {
        let robot = |name: &str, agents: &[&str], domains: &[&str]| DeclaredRobot {
            name: name.to_owned(),
            operator: String::new(),
            agents: agents.iter().map(|word| (*word).to_owned()).collect(),
            domains: domains.iter().map(|domain| (*domain).to_owned()).collect(),
        };
        vec![
            robot("Googlebot", &["googlebot"], &["googlebot.com", "google.com"]),
            robot("Applebot", &["applebot"], &["applebot.apple.com"]),
            robot("Applebot-Extended", &["applebot-extended"], &[]),
            robot("none", &[""], &[""]),
        ]
    }

    #[test]
    fn agents_claim_to_be_robots_by_whole_names() {
        let all = DeclaredRobots::new(robots()).expect("few words");
        let check = |agent: &str, expected: Option<&str>| {
            let found = all.claimed(agent).map(|at| all.as_slice()[at].name.as_str());
            assert_eq!(found, expected, "{agent}");
        };
        check("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", Some("Googlebot"));
        check("GOOGLEBOT", Some("Googlebot"));
        check("Googlebot-Image/1.0", Some("Googlebot"));
        check("Mozilla/5.0 (Applebot-Extended/0.1)", Some("Applebot-Extended"));
        check("Googlebot Applebot", Some("Googlebot"));
        check("grapplebot/1.0", None);
        check("googlebots", None);
        check("Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0", None);
        check("", None);
        check("notgooglebot googlebot", Some("Googlebot"));
        check("äapplebot", None);
        check("\u{130}applebot applebot", Some("Applebot"));
        check(&format!("{}googlebot", "ä".repeat(2000)), None);
    }

    #[test]
    fn names_are_within_the_domains_of_a_robot() {
        let all = robots();
        let check = |name: &str, expected: bool| assert_eq!(all[0].has_name(name), expected, "{name}");
        check("crawl-66-249-66-1.googlebot.com", true);
        check("Crawl-66-249-66-1.GoogleBot.com.", true);
        check("google.com", true);
        check("crawl.evilgooglebot.com", false);
        check("googlebot.com.example.net", false);
        check("", false);
        assert!(!DeclaredRobot::default().has_name("a.example"));
    }

    #[test]
    fn networks_are_read_as_they_are_published() {
        let check = |text: &str, expected: &[&str]| {
            let found = published_networks(text).map(|all| {
                all.into_iter().map(|(address, bits)| format!("{address}/{bits}")).collect::<Vec<_>>()
            });
            assert_eq!(found, Ok(expected.iter().map(|text| (*text).to_owned()).collect()), "{text}");
        };
        check(
            r#"{"creationTime": "2025-01-01", "prefixes": [{"ipv6Prefix": "2001:4860:4801:10::/64"}, {"ipv4Prefix": "66.249.64.0/27"}]}"#,
            &["2001:4860:4801:10::/64", "66.249.64.0/27"],
        );
        check(
            "\u{feff}# comment\n192.0.2.0/24 # more\n\n2001:db8::1\n",
            &["192.0.2.0/24", "2001:db8::1/128"],
        );
        let refused = |text: &str, expected: &str| {
            let error = published_networks(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        };
        refused("", "no networks");
        refused(r#"{"prefixes": []}"#, "no networks");
        refused("192.0.2.0/33", "`192.0.2.0/33`");
        refused("<html>", "`<html>`");
        refused(r#"{"prefixes": [{"ipv4Prefix": "x"}]}"#, "`x`");
        refused(r#"{"ranges": []}"#, "prefixes");
        refused(&"192.0.2.1\n".repeat(100_001), "at most");
    }
}
