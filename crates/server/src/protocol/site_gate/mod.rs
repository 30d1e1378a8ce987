//! The gate in front of a site, whatever protocol a proxy asks in: a request's head becomes a question, and the answer is what
//! the client is to get where it may not pass.

mod challenge_answer;
pub(crate) mod challenge_page;
mod forwarded_request;
mod question;
pub(crate) mod silent_answer;
mod visitor_identity;

pub(crate) use self::challenge_answer::{
    BASE, CHALLENGE, PASS_COOKIE, STATUS, challenge_page as page, cookie, seconds, shown_page, spoken,
    wants_page,
};
pub(crate) use self::forwarded_request::ForwardedRequest;
#[cfg(feature = "grpc")]
pub(crate) use self::question::SILENT;
pub(crate) use self::question::{GateQuestion, NOT_LET_THROUGH, refused, undecided};
