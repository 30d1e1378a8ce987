//! Files that pages load: styles, scripts, libraries and the icon, under names that change with their content.

use std::io::Write;
use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use data_encoding::HEXLOWER;
use flate2::Compression;
use flate2::write::GzEncoder;
use maud::{Markup, html};
use sha2::{Digest, Sha256};

/// A file of the console.
pub(super) struct ConsoleAsset {
    name: &'static str,
    media: &'static str,
    bytes: &'static [u8],
    version: LazyLock<String>,
    /// Compressed when it is first asked for.
    packed: LazyLock<Vec<u8>>,
}

macro_rules! asset {
    ($path:literal, $name:literal, $media:expr) => {
        ConsoleAsset {
            name: $name,
            media: $media,
            bytes: include_bytes!(concat!("../../console/", $path)),
            version: LazyLock::new(|| version(include_bytes!(concat!("../../console/", $path)))),
            packed: LazyLock::new(|| packed(include_bytes!(concat!("../../console/", $path)))),
        }
    };
    ($name:literal, $media:expr) => {
        asset!($name, $name, $media)
    };
}

const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";

static STYLE: ConsoleAsset = asset!("style.css", CSS);
static SCRIPT: ConsoleAsset = asset!("script.js", JS);
static CHARTS: ConsoleAsset = asset!("charts.js", JS);
static EDITOR: ConsoleAsset = asset!("rule-editor.js", JS);
pub(super) static ICON: ConsoleAsset = asset!("icon.svg", "image/svg+xml");
static IDIOMORPH: ConsoleAsset = asset!("vendor/idiomorph.js", "idiomorph.js", JS);
static UPLOT: ConsoleAsset = asset!("vendor/uplot.js", "uplot.js", JS);
static UPLOT_STYLE: ConsoleAsset = asset!("vendor/uplot.css", "uplot.css", CSS);
static CODEMIRROR: ConsoleAsset = asset!("vendor/codemirror.js", "codemirror.js", JS);

/// All files that there are.
static ALL: [&ConsoleAsset; 9] =
    [&STYLE, &SCRIPT, &CHARTS, &EDITOR, &ICON, &IDIOMORPH, &UPLOT, &UPLOT_STYLE, &CODEMIRROR];

/// The files that a page loads, in the order in which they run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PageScripts {
    /// Keys, and parts that are refreshed.
    #[default]
    Common,
    /// Also charts.
    Charts,
    /// Also the editor of rules.
    Editor,
}

impl PageScripts {
    fn assets(self) -> Vec<&'static ConsoleAsset> {
        match self {
            PageScripts::Common => vec![&STYLE, &IDIOMORPH, &SCRIPT],
            PageScripts::Charts => vec![&STYLE, &UPLOT_STYLE, &IDIOMORPH, &UPLOT, &SCRIPT, &CHARTS],
            PageScripts::Editor => vec![&STYLE, &IDIOMORPH, &CODEMIRROR, &SCRIPT, &EDITOR],
        }
    }

    /// The elements of a page's head that load it.
    pub(super) fn load(self) -> Markup {
        html! { @for asset in self.assets() {
            @if asset.media == CSS { link rel="stylesheet" href=(asset.url()); } @else { script src=(asset.url()) defer {} }
        } }
    }
}

fn version(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes)[..6])
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    // Nothing is sent compressed that could not be: memory takes whatever is written to it.
    packer.write_all(bytes).and_then(|()| packer.finish()).unwrap_or_default()
}

/// True if a browser takes gzip, which it does not if it gives it a weight of 0.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let fields = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|field| field.to_str().ok());
    fields.flat_map(|field| field.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let weight = weight.trim().strip_prefix("q=").and_then(|weight| weight.parse::<f32>().ok());
        name.trim().eq_ignore_ascii_case("gzip") && weight.is_some_and(|weight| weight > 0.0)
    })
}

impl ConsoleAsset {
    /// The address of the file in its present version.
    pub(super) fn url(&self) -> String {
        format!("/console/static/{}/{}", *self.version, self.name)
    }
}

/// A file, which a browser may keep for ever.
pub(super) async fn file(Path((asked, name)): Path<(String, String)>, headers: HeaderMap) -> Response {
    let found = ALL.into_iter().find(|asset| asset.name == name);
    let Some(asset) = found.filter(|asset| *asset.version == asked) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let fields = [
        (header::CONTENT_TYPE, HeaderValue::from_static(asset.media)),
        (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::VARY, HeaderValue::from_static("accept-encoding")),
    ];
    if takes_gzip(&headers) && !asset.packed.is_empty() {
        let coding = [(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"))];
        return (fields, coding, asset.packed.as_slice()).into_response();
    }
    (fields, asset.bytes).into_response()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn all_that_pages_load_is_small() {
        let sizes = ALL.iter().map(|asset| asset.packed.len());
        let all: usize = sizes.sum();
        assert!(all < 200_000, "{all} bytes, compressed");
        for asset in ALL {
            let mut text = Vec::new();
            flate2::read::GzDecoder::new(asset.packed.as_slice()).read_to_end(&mut text).unwrap();
            assert_eq!(text, asset.bytes, "{}", asset.name);
            assert!(asset.url().ends_with(asset.name));
        }
    }

    #[test]
    fn libraries_are_those_whose_hashes_are_kept() {
        let sums = include_str!("../../console/vendor/SHA256SUMS");
        let kept = |name: &str| sums.lines().find_map(|line| line.strip_suffix(&format!("  {name}")));
        for asset in [&IDIOMORPH, &UPLOT, &UPLOT_STYLE, &CODEMIRROR] {
            assert_eq!(
                kept(asset.name),
                Some(&*HEXLOWER.encode(&Sha256::digest(asset.bytes))),
                "{}",
                asset.name
            );
        }
        let licences = include_bytes!("../../console/vendor/LICENCES.txt");
        assert_eq!(kept("LICENCES.txt"), Some(&*HEXLOWER.encode(&Sha256::digest(licences))));
        assert_eq!(sums.lines().count(), 5);
    }

    #[test]
    fn what_a_browser_takes_is_as_it_says() {
        let takes = |field: &'static str| {
            takes_gzip(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(field))]))
        };
        for field in ["gzip", "br, GZIP", "gzip;q=0.5, br", "deflate , gzip; q=1.0"] {
            assert!(takes(field), "{field}");
        }
        for field in ["", "br", "gzip;q=0", "identity, gzip; q=0.0", "gzip;q=x", "xgzip"] {
            assert!(!takes(field), "{field}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }
}
