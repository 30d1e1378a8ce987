//! Files that pages load: style, script and icon, under names that change with their content.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// A file of the console.
pub(super) struct ConsoleAsset {
    name: &'static str,
    media: &'static str,
    bytes: &'static [u8],
    version: LazyLock<String>,
}

macro_rules! asset {
    ($name:literal, $media:literal) => {
        ConsoleAsset {
            name: $name,
            media: $media,
            bytes: include_bytes!(concat!("../../console/", $name)),
            version: LazyLock::new(|| version(include_bytes!(concat!("../../console/", $name)))),
        }
    };
}

pub(super) static STYLE: ConsoleAsset = asset!("style.css", "text/css; charset=utf-8");
pub(super) static SCRIPT: ConsoleAsset = asset!("script.js", "text/javascript; charset=utf-8");
pub(super) static ICON: ConsoleAsset = asset!("icon.svg", "image/svg+xml");

fn version(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes)[..6])
}

impl ConsoleAsset {
    /// The address of the file in its present version.
    pub(super) fn url(&self) -> String {
        format!("/console/static/{}/{}", *self.version, self.name)
    }
}

/// A file, which a browser may keep for ever.
pub(super) async fn file(Path((asked, name)): Path<(String, String)>) -> Response {
    let found = [&STYLE, &SCRIPT, &ICON].into_iter().find(|asset| asset.name == name);
    let Some(asset) = found.filter(|asset| *asset.version == asked) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let fields = [
        (header::CONTENT_TYPE, HeaderValue::from_static(asset.media)),
        (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    (fields, asset.bytes).into_response()
}
