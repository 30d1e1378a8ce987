//! The console: pages for people, rendered here, that show what the documented routes answer and do what these do.
//!
//! ```text
//! guard ─► ConsoleVisit ─► a page's function ─► the route's own function ─► markup ─► PageFrame
//!          who, and may they?                    protocol::http                        policy, head, navigation
//! ```
//!
//! Pages are read without scripts; `script.js` adds keys and keeps pages fresh, `charts.js` draws charts that can be enlarged, and
//! `rule-editor.js` completes and checks rules. Every value is escaped, and what strangers sent is also bounded and freed of
//! signs that turn text around ([`format::plain`]). Texts are in one file ([`texts`]). Nothing comes from another host, nothing
//! runs or is styled inside of a page. A form that changes something carries its viewer's secret ([`visit::ConsoleForm`]).

mod agreement;
mod alike;
mod allow_list;
mod assets;
mod ban_import;
mod band_table;
mod bans;
mod charts;
mod common;
mod decision;
mod decisions;
mod digits;
mod editor;
mod format;
mod frame;
mod impact;
mod keys;
mod learners;
mod limits;
mod live;
mod notes;
mod oidc;
mod overview;
mod preview;
mod related_keys;
mod relearning;
mod review;
mod reviews;
mod rules;
mod score_fit;
mod session;
mod sets;
mod settings;
mod similar;
mod texts;
mod upload;
mod version;
mod visit;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use plan::OIDC_RETURN_PATH;

use crate::core::node::Node;

/// The pages of the console, all below [`crate::core::viewer::CONSOLE`].
pub(crate) fn pages() -> Router<Arc<Node>> {
    Router::new()
        .route("/console/", get(overview::page))
        .route("/console/login", get(session::page).post(session::log_in))
        .route("/console/first", get(session::first_page).post(session::add_first))
        .route("/console/oidc", get(oidc::begin))
        .route(OIDC_RETURN_PATH, get(oidc::finish))
        .route("/console/logout", post(session::log_out))
        .route("/console/static/{version}/{name}", get(assets::file))
        .route("/console/find", get(keys::find))
        .route("/console/decisions", get(decisions::page))
        .route("/console/decisions/feedback", post(decisions::judge))
        .route("/console/decisions/save", post(decisions::save))
        .route("/console/decisions/unsave", post(decisions::unsave))
        .route("/console/decisions/export", get(live::export))
        .route("/console/decisions/common", get(common::page))
        .route("/console/decisions/live", get(live::follow))
        .route("/console/decisions/{id}", get(decision::page))
        .route("/console/decisions/{id}/similar", get(similar::page))
        .route("/console/decisions/{id}/feedback", post(decision::feedback))
        .route("/console/keys", get(keys::look_up))
        .route("/console/key", get(keys::page))
        .route("/console/bans", get(bans::page))
        .route("/console/bans/add", post(bans::add))
        .route("/console/bans/lift", post(bans::lift))
        .route("/console/bans/allowed", get(allow_list::page))
        .route("/console/allow/add", post(allow_list::add))
        .route("/console/allow/remove", post(allow_list::remove))
        .route("/console/notes/add", post(notes::add))
        .route("/console/notes/remove", post(notes::remove))
        .route("/console/key/reset", post(notes::reset))
        .route("/console/bans/import", get(ban_import::page).post(ban_import::take))
        .route("/console/limits", get(limits::page))
        .route("/console/limits/limit", get(limits::limit))
        .route("/console/limits/override", post(limits::except))
        .route("/console/limits/reset", post(limits::reset))
        .route("/console/rules", get(rules::page))
        .route("/console/rules/edit", get(editor::page).post(editor::take))
        .route("/console/rules/names", get(editor::names))
        .route("/console/rules/trial/cancel", post(editor::cancel))
        .route("/console/rules/fit", post(score_fit::begin))
        .route("/console/rules/set", get(sets::page))
        .route("/console/rules/version", get(version::page))
        .route("/console/rules/impact", get(impact::page))
        .route("/console/rules/correct", post(impact::correct))
        .route("/console/rules/rollback", post(rules::roll_back))
        .route("/console/rules/promote", post(rules::promote))
        .route("/console/learners", get(learners::page))
        .route("/console/learners/relearn", post(relearning::begin))
        .route("/console/learners/relearn/adopt", post(relearning::adopt))
        .route("/console/learners/relearn/discard", post(relearning::discard))
        .route("/console/learners/check", post(learners::try_event))
        .route("/console/reviews", get(reviews::page))
        .route("/console/reviews/agreement", get(agreement::page))
        .route("/console/reviews/alike", get(alike::page).post(alike::decide))
        .route("/console/reviews/next", get(review::next))
        .route("/console/reviews/{id}", get(review::page))
        .route("/console/reviews/{id}/{step}", post(review::act))
        .route("/console/settings", get(settings::page))
        .route("/console/settings/notify", post(settings::effective::notify))
        .route("/console/settings/access", get(settings::access::page))
        .route("/console/settings/access/end", post(settings::access::end))
        .route("/console/settings/audit", get(settings::audit::page))
        .route("/console/settings/audit/export", get(settings::audit::export))
        .route("/console/settings/snapshots", get(settings::snapshots::page))
        .route("/console/settings/snapshots/make", post(settings::snapshots::make))
        .route("/console/settings/nodes", get(settings::nodes::page))
        .route("/console/settings/nodes/forget", post(settings::nodes::forget))
        .route("/console/settings/sources", get(settings::sources::page))
        .route("/console/{*rest}", get(visit::nowhere))
}
