//! Tokens and the audit log in JSON.

use std::collections::BTreeMap;

use access::audit::{AuditFault, AuditPage, AuditRecord, AuditVerification};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Timestamp;

/// A page of the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Audit)]
pub struct AuditJson {
    /// The entries, the oldest first or as `order` says.
    pub entries: Vec<AuditEntryJson>,
    /// The number for `after` of the next page, or with `order=newest` for `before`, if there is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
    /// The number of lines that could not be read: `tollhouse audit --verify` says where.
    pub unread: u64,
}

/// An entry of the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditEntry)]
pub struct AuditEntryJson {
    /// Its number: 1, 2, 3 …
    pub number: u64,
    /// The time of it.
    pub time: Timestamp,
    /// The name of the token, or the user of the machine; `local` where no token is asked for.
    pub by: String,
    /// The address that it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The action, such as `rules.post`.
    pub action: String,
    /// The status of the answer: from 400 on it was refused, or failed.
    pub status: u16,
    /// The objects of the action, such as a pipeline or a decision's id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub detail: BTreeMap<String, String>,
    /// The hash of this entry and of all before it.
    pub chain: String,
}

impl From<AuditRecord> for AuditEntryJson {
    fn from(AuditRecord { number, entry, chain }: AuditRecord) -> AuditEntryJson {
        AuditEntryJson {
            number,
            time: Timestamp(entry.time),
            by: entry.by,
            from: entry.from,
            action: entry.action,
            status: entry.status,
            detail: entry.detail,
            chain: chain.to_string(),
        }
    }
}

impl From<AuditPage> for AuditJson {
    fn from(AuditPage { records, next, unread }: AuditPage) -> AuditJson {
        AuditJson { entries: records.into_iter().map(AuditEntryJson::from).collect(), next, unread }
    }
}

/// The result of a verification of the audit log's chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditVerification)]
pub struct AuditVerificationJson {
    /// True if the chain holds.
    pub sound: bool,
    /// The number of lines that were read.
    pub lines: u64,
    /// The number of the first line that is there; 0 if there is none.
    pub first: u64,
    /// The last line: noted elsewhere, it proves later what was before it.
    pub head: AuditHeadJson,
    /// True if the last line is not whole: a write is under way, or a crash cut it off.
    pub torn: bool,
    /// The number of places at which the chain does not hold.
    pub fault_count: u64,
    /// The first hundred of them.
    pub faults: Vec<AuditFaultJson>,
}

/// A line of the audit log by its number and hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditHead)]
pub struct AuditHeadJson {
    /// Its number; 0 before the first.
    pub number: u64,
    /// Its hash, and that of all before it.
    pub chain: String,
}

/// A place at which the chain of the audit log does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditFault)]
pub struct AuditFaultJson {
    /// The file.
    pub file: String,
    /// The line in it, from 1 on; 0 for the file as a whole.
    pub line: u64,
    /// The fault.
    pub why: String,
}

impl From<AuditVerification> for AuditVerificationJson {
    fn from(found: AuditVerification) -> AuditVerificationJson {
        let faults = found.faults.into_iter();
        AuditVerificationJson {
            sound: found.fault_count == 0,
            lines: found.lines,
            first: found.first,
            head: AuditHeadJson { number: found.head.number, chain: found.head.chain.to_string() },
            torn: found.is_torn,
            fault_count: found.fault_count,
            faults: faults.map(|AuditFault { file, line, why }| AuditFaultJson { file, line, why }).collect(),
        }
    }
}

/// The tokens of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Tokens)]
pub struct TokensJson {
    /// The tokens.
    pub tokens: Vec<TokenJson>,
}

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Token)]
pub struct TokenJson {
    /// Its name; those of `[server] tokens` are called `server.tokens.1` and so on.
    pub name: String,
    /// The scopes.
    pub scopes: Vec<String>,
    /// The pipelines that it is limited to; none for no limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pipelines: Vec<String>,
    /// The time from which it no longer holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// The time of its last use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Timestamp>,
    /// The number of its secrets: two while it is rotated.
    pub secrets: usize,
}

/// A name and its password.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Login)]
pub struct LoginJson {
    /// The name.
    pub name: String,
    /// The password.
    pub password: String,
}

impl std::fmt::Debug for LoginJson {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoginJson").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A session that was begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = NewSession)]
pub struct NewSessionJson {
    /// The secret, sent as `Authorization: Bearer …`. It is shown this once.
    pub token: String,
    /// The session.
    #[serde(flatten)]
    pub session: SessionJson,
}

/// Sessions of people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Sessions)]
pub struct SessionsJson {
    /// The sessions, those used latest first.
    pub sessions: Vec<SessionJson>,
}

/// A session of a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Session)]
pub struct SessionJson {
    /// Its id.
    pub id: String,
    /// The person.
    pub user: String,
    /// The role: `viewer`, `reviewer`, `editor` or `administrator`.
    pub role: String,
    /// The scopes of the role.
    pub scopes: Vec<String>,
    /// The time at which it began.
    pub begun: Timestamp,
    /// The time of its latest request.
    pub seen: Timestamp,
    /// The address that it was begun from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

impl From<access::Session> for SessionJson {
    fn from(session: access::Session) -> SessionJson {
        SessionJson {
            id: session.id,
            user: session.user,
            role: session.role.to_string(),
            scopes: session.role.scopes().iter().map(|scope| scope.word().to_owned()).collect(),
            begun: Timestamp(session.begun),
            seen: Timestamp(session.seen),
            from: session.from,
        }
    }
}
