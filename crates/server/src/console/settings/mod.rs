//! The section of settings: what the node is set to, who may do what there and did, and how that is which it works with.
//!
//! Each page stands for routes and shows what these answer. Those of one section are led to by tabs; a viewer sees the tabs of the
//! pages that may be opened, and without the right to administer begins at the first of them.

pub(super) mod access;
pub(super) mod audit;
pub(super) mod effective;
pub(super) mod nodes;
pub(super) mod snapshots;
pub(super) mod sources;

use axum::response::Response;
use maud::{Markup, html};

use super::frame::{ConsoleSection, redirect};
use super::texts::t;
use super::visit::{ConsoleVisit, PageFailure};
use crate::core::viewer::ViewerRight;

/// A page of the section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SettingsTab {
    Effective,
    Access,
    Audit,
    Snapshots,
    Nodes,
    Sources,
}

impl SettingsTab {
    /// All pages, in the order of the tabs.
    const ALL: [SettingsTab; 6] = [
        SettingsTab::Effective,
        SettingsTab::Access,
        SettingsTab::Audit,
        SettingsTab::Snapshots,
        SettingsTab::Nodes,
        SettingsTab::Sources,
    ];

    /// The address.
    fn url(self) -> &'static str {
        match self {
            SettingsTab::Effective => "/console/settings",
            SettingsTab::Access => "/console/settings/access",
            SettingsTab::Audit => "/console/settings/audit",
            SettingsTab::Snapshots => "/console/settings/snapshots",
            SettingsTab::Nodes => "/console/settings/nodes",
            SettingsTab::Sources => "/console/settings/sources",
        }
    }

    fn title(self) -> &'static str {
        match self {
            SettingsTab::Effective => t("settings.title"),
            SettingsTab::Access => t("access.title"),
            SettingsTab::Audit => t("audit.title"),
            SettingsTab::Snapshots => t("snapshots.title"),
            SettingsTab::Nodes => t("nodes.title"),
            SettingsTab::Sources => t("sources.title"),
        }
    }

    /// The right that the routes ask for which the page shows.
    fn right(self) -> ViewerRight {
        match self {
            SettingsTab::Effective | SettingsTab::Access | SettingsTab::Audit | SettingsTab::Snapshots => {
                ViewerRight::Administer
            }
            SettingsTab::Nodes | SettingsTab::Sources => ViewerRight::Read,
        }
    }

    /// Returns the page with its tabs, for a viewer who may open it.
    fn page(self, visit: &ConsoleVisit, content: &Markup) -> Response {
        let open = SettingsTab::ALL.into_iter().filter(|tab| visit.viewer.may(tab.right()));
        let frame = visit.frame(self.title(), ConsoleSection::Settings);
        frame.page(&html! {
            div.head {
                h1 { (self.title()) }
                nav.tabs aria-label=(t("settings.tabs")) { @for tab in open {
                    a href=(tab.url()) aria-current=[(tab == self).then_some("page")] { (tab.title()) }
                } }
            }
            (content)
        })
    }
}

/// The page that the section begins with.
pub(super) async fn page(visit: ConsoleVisit) -> Result<Response, PageFailure> {
    match SettingsTab::ALL.into_iter().find(|tab| visit.viewer.may(tab.right())) {
        Some(SettingsTab::Effective) | None => effective::page(visit).await,
        Some(other) => Ok(redirect(other.url())),
    }
}
