//! Traits of what requests have in common, and those that were met of late.

use crate::web::recent::RecentResults;

/// Traits of the agents, paths, referers and hosts that were met of late: only their text decides them.
#[derive(Debug, Default)]
pub(crate) struct RecentTraits {
    pub(crate) agents: RecentResults<AgentTraits>,
    pub(crate) paths: RecentResults<PathTraits>,
    pub(crate) referers: RecentResults<RefererTraits>,
    pub(crate) hosts: RecentResults<Option<String>>,
}

/// The traits of a client by its agent.
#[derive(Debug)]
pub(crate) struct AgentTraits {
    pub(crate) is_bot: bool,
    pub(crate) is_tool: bool,
    pub(crate) family: Box<str>,
    pub(crate) has_code: bool,
}

/// The traits of a referer.
#[derive(Debug)]
pub(crate) struct RefererTraits {
    pub(crate) host: Option<Box<str>>,
    pub(crate) has_code: bool,
}

/// The traits of a path.
#[derive(Debug)]
pub(crate) struct PathTraits {
    pub(crate) normal: Box<str>,
    pub(crate) depth: usize,
    pub(crate) ending: Option<Box<str>>,
    pub(crate) has_scheme: bool,
    pub(crate) is_probe: bool,
    pub(crate) is_exploit: bool,
    pub(crate) is_interface: bool,
    pub(crate) has_code: bool,
}
