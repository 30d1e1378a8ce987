//! Tokens of forms and bait in JSON.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The token of a form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = FormToken)]
pub struct FormTokenJson {
    /// The text for a hidden field of the form, to be sent as the event field `form.token`.
    pub token: String,
    /// The seconds for which it holds.
    pub seconds: u32,
}

/// Bait for the pages of a site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Baits)]
pub struct BaitsJson {
    /// Fields for forms.
    pub fields: Vec<BaitJson>,
    /// Links for pages.
    pub links: Vec<BaitJson>,
    /// The rule of a style sheet that hides the fields.
    pub css: String,
    /// The lines of `robots.txt` by which honest robots leave the links alone.
    pub robots: String,
    /// Parameters that are bait by configuration.
    pub parameters: Vec<String>,
    /// The seconds until there are other names. These hold a day longer.
    pub seconds: u32,
}

/// A field or a link that nobody sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Bait)]
pub struct BaitJson {
    /// The name of the field, or the path of the link.
    pub name: String,
    /// HTML to put into the form, or into the page.
    pub html: String,
}
