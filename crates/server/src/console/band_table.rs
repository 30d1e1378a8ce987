//! Bands in a table: what they promise, and what came of it.

use maud::{Markup, html};

use super::format::{number, percent, points};
use super::texts::{counted, fill, t, word};
use crate::api::BandJson;

/// A share, or a dash where there is none.
pub(super) fn shown_share(share: Option<f64>) -> Markup {
    html! { @match share { Some(share) => { (exact_percent(share)) } None => { span.dim { "–" } } } }
}

/// Bands with what they promise and what came of it, below a heading `lines`.
pub(super) fn lines(bands: &[BandJson]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-labelledby="lines" { table.rows.stacks {
            thead { tr {
                th scope="col" { (t("overview.action")) }
                th.number scope="col" { (t("learners.begins")) }
                th.number scope="col" { (t("learners.promised")) }
                th.number scope="col" { (t("learners.reached")) }
                th.number scope="col" { (t("learners.recall")) }
                th scope="col" { (t("learners.basis")) }
            } }
            tbody { @for band in bands { (line(band)) } }
        } }
        p.dim { (t("learners.lines_help")) }
    }
}

/// A small share with the digits that it has: promises are of tenths of a per cent.
fn exact_percent(share: f64) -> String {
    let percents = share * 100.0;
    if percents > 0.0 && percents < 10.0 {
        let text = format!("{percents:.2}");
        return format!("{} %", text.trim_end_matches('0').trim_end_matches('.'));
    }
    percent(share)
}

fn line(band: &BandJson) -> Markup {
    html! {
        tr {
            th scope="row" { span.badge.(band.action.name()) { (word("action", band.action.name())) } }
            td.number { (points(band.at)) }
            @match &band.promise {
                None => { td.number.dim { "–" } td.number.dim { "–" } td.number.dim { "–" } td.dim.whole { (t("learners.fixed")) } }
                Some(promise) => {
                    td.number { (exact_percent(promise.false_positives)) }
                    td.number { (shown_share(promise.reached)) }
                    td.number { (shown_share(promise.recall)) }
                    td.whole {
                        @if promise.held { (fill("learners.held", &[("good", &number(promise.good as u64))])) }
                        @else { (fill("learners.waiting", &[("judged", &number(promise.judged)), ("needed", &number(promise.needed))])) }
                        @if promise.mislabelled > 0 { " " (counted("learners.mislabelled_one", "learners.mislabelled", promise.mislabelled as u64)) }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_shares_keep_their_digits() {
        let check = |share: f64, expected: &str| assert_eq!(exact_percent(share), expected, "{share}");
        check(0.005, "0.5 %");
        check(0.0, "0.0 %");
        check(0.0125, "1.25 %");
        check(0.5, "50 %");
    }
}
