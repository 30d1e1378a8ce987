//! Charts, drawn here as SVG: they need no script, and classes give them their colours.
//!
//! A chart stretches with its place, so no text is in it; numbers stand beside it and in tables. Those that have a [`PlotData`] are
//! drawn again by `charts.js` where scripts run, with axes, the values below the pointer, and a part of it enlarged.

use event::{Span, Time};
use maud::{Markup, html};
use serde::Serialize;

use super::texts::t;

/// Units across a chart.
const WIDTH: f64 = 1000.0;
/// Points beyond which nothing is told apart.
const FAR: f64 = 1e12;
/// Most columns of a timeline.
const COLUMNS_MAX: usize = 336;

/// The data of a chart, as `charts.js` reads it from the attribute `data-plot`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub(super) enum PlotData<'a> {
    /// Columns, the first series at the bottom.
    Columns {
        #[serde(flatten)]
        axis: ColumnAxis,
        /// The name of what the axis shows.
        across: &'a str,
        series: Vec<PlotSeries<'a>>,
        /// The place of a column that stands out.
        marked: Option<usize>,
        /// The page of what is in a column, to which `from` and `to` are added.
        open: Option<String>,
    },
    /// A curve of shares against shares, with points on it.
    Shares { across: &'a str, up: &'a str, curve: &'a [(f64, f64)], dots: &'a [(f64, f64)] },
}

/// The places of columns: the first one's beginning and the width of each, in seconds or points.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "unit")]
pub(super) enum ColumnAxis {
    Time { first: f64, width: f64 },
    Points { first: f64, width: f64 },
}

impl ColumnAxis {
    /// Columns of equal width from a time on.
    pub(super) fn of_time(first: Time, width: Span) -> ColumnAxis {
        ColumnAxis::Time { first: first.0 as f64 / 1e6, width: width.as_seconds_f64() }
    }
}

/// A series of counts, one for each column.
#[derive(Debug, Serialize)]
pub(super) struct PlotSeries<'a> {
    pub(super) label: String,
    /// The class that gives it its colour.
    pub(super) class: &'a str,
    pub(super) counts: Vec<u64>,
}

impl PlotData<'_> {
    fn attribute(&self) -> Option<String> {
        serde_json::to_string(self).ok()
    }
}

/// A scale of points, from the least to the most that is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct PointScale {
    least: f64,
    most: f64,
}

impl PointScale {
    /// A scale on which all of these and 0 have a place.
    pub(super) fn of(points: impl IntoIterator<Item = f64>) -> PointScale {
        let finite = points.into_iter().filter(|point| point.is_finite()).map(|point| point.clamp(-FAR, FAR));
        let (least, most) =
            finite.fold((0.0f64, 0.0f64), |(least, most), point| (least.min(point), most.max(point)));
        let margin = if most > least { (most - least) * 0.04 } else { 1.0 };
        PointScale { least: if least < 0.0 { least - margin } else { 0.0 }, most: most + margin }
    }

    fn x(self, point: f64) -> f64 {
        let point = if point.is_finite() { point.clamp(self.least, self.most) } else { self.least };
        (point - self.least) / (self.most - self.least) * WIDTH
    }
}

/// A bar from one number of points to another, with lines across.
pub(super) fn span_bar(scale: PointScale, from: f64, to: f64, lines: &[f64]) -> Markup {
    let (left, right) = (scale.x(from.min(to)), scale.x(from.max(to)));
    let class = if to >= from { "adds" } else { "takes" };
    html! {
        svg.span viewBox="0 0 1000 20" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
            line.zero x1=(x(scale.x(0.0))) x2=(x(scale.x(0.0))) y1="0" y2="20" {}
            @for line in lines {
                line.limit x1=(x(scale.x(*line))) x2=(x(scale.x(*line))) y1="0" y2="20" {}
            }
            rect class=(class) x=(x(left)) y="4" width=(x((right - left).max(2.0))) height="12" {}
        }
    }
}

fn x(x: f64) -> String {
    format!("{x:.1}")
}

/// A bar to the left or right of the middle, for a value between two extremes of the same size.
pub(super) fn diverging_bar(value: f64, extreme: f64) -> Markup {
    let scale = PointScale {
        least: -extreme.abs().max(f64::MIN_POSITIVE),
        most: extreme.abs().max(f64::MIN_POSITIVE),
    };
    span_bar(scale, 0.0, value, &[])
}

/// A share of a whole.
pub(super) fn share_bar(share: f64) -> Markup {
    span_bar(PointScale { least: 0.0, most: 1.0 }, 0.0, share, &[])
}

/// A number of things within a column's time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TimelineColumn {
    pub(super) start: Time,
    pub(super) count: u64,
}

/// Columns of equal width over a stretch of time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TimelineChart {
    pub(super) width: Span,
    pub(super) columns: Vec<TimelineColumn>,
    /// The column that stands out.
    marked: Option<usize>,
}

impl TimelineChart {
    /// Lays the buckets of one width, of which empty ones are left out, over the time that they span up to now.
    pub(super) fn of(width: Span, buckets: &[(Time, u64)], now: Time) -> TimelineChart {
        let width = Span(width.0.max(1));
        let first = buckets.iter().map(|(start, _)| start.bucket(width)).min().unwrap_or(now.bucket(width));
        let newest = buckets.iter().map(|(start, _)| start.bucket(width)).max().unwrap_or(first);
        let last = now.bucket(width).max(newest);
        let shown = usize::try_from(last.saturating_sub(first)).unwrap_or(COLUMNS_MAX).saturating_add(1);
        let shown = shown.clamp(12, COLUMNS_MAX);
        let first = last.saturating_sub(shown as i64 - 1);
        let mut columns: Vec<TimelineColumn> = (0..shown as i64)
            .map(|index| TimelineColumn {
                start: Time(first.saturating_add(index).saturating_mul(width.0)),
                count: 0,
            })
            .collect();
        for (start, count) in buckets {
            let index = usize::try_from(start.bucket(width).saturating_sub(first)).ok();
            if let Some(column) = index.and_then(|index| columns.get_mut(index)) {
                column.count = column.count.saturating_add(*count);
            }
        }
        TimelineChart { width, columns, marked: None }
    }

    /// Returns the chart with a time that stands out, if it is within.
    pub(super) fn marked(self, time: Time) -> TimelineChart {
        let first = self.columns.first().map_or(0, |column| column.start.bucket(self.width));
        let place = usize::try_from(time.bucket(self.width).saturating_sub(first)).ok();
        TimelineChart { marked: place.filter(|place| *place < self.columns.len()), ..self }
    }

    /// The largest count.
    pub(super) fn most(&self) -> u64 {
        self.columns.iter().map(|column| column.count).max().unwrap_or(0)
    }

    /// All counts.
    pub(super) fn total(&self) -> u64 {
        self.columns.iter().fold(0u64, |total, column| total.saturating_add(column.count))
    }

    /// Draws the columns, which the script draws again under a name; each opens a page of its time, if there is one.
    pub(super) fn draw(&self, class: &str, name: &str, open: Option<String>) -> Markup {
        let counts = self.columns.iter().map(|column| column.count).collect();
        let first = self.columns.first().map_or(Time(0), |column| column.start);
        let data = PlotData::Columns {
            axis: ColumnAxis::of_time(first, self.width),
            across: t("decisions.when"),
            series: vec![PlotSeries { label: name.to_owned(), class, counts }],
            marked: self.marked,
            open,
        };
        self.picture(class, data.attribute().as_deref())
    }

    /// Draws the columns, small.
    pub(super) fn draw_small(&self, class: &str) -> Markup {
        self.picture(class, None)
    }

    fn picture(&self, class: &str, data: Option<&str>) -> Markup {
        let most = self.most().max(1) as f64;
        let step = WIDTH / self.columns.len().max(1) as f64;
        let gap = if self.columns.len() > 120 { 0.0 } else { step * 0.15 };
        html! {
            svg.timeline data-plot=[data] viewBox="0 0 1000 100" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
                line.grid x1="0" x2="1000" y1="0.5" y2="0.5" {}
                line.grid x1="0" x2="1000" y1="50" y2="50" {}
                @if let Some(place) = self.marked { rect.marked x=(x(place as f64 * step)) y="0" width=(x(step)) height="100" {} }
                g class=(class) {
                    @for (index, column) in self.columns.iter().enumerate().filter(|(_, column)| column.count > 0) {
                        @let height = (column.count as f64 / most * 98.0).max(1.5);
                        rect x=(x(index as f64 * step + gap / 2.0)) y=(x(100.0 - height)) width=(x(step - gap)) height=(x(height)) {}
                    }
                }
                line.base x1="0" x2="1000" y1="99.5" y2="99.5" {}
            }
        }
    }
}

/// Counts of several sorts in columns, the lowest sort first.
pub(super) struct StackedChart {
    pub(super) axis: ColumnAxis,
    pub(super) across: &'static str,
    /// Names and classes of the sorts.
    pub(super) sorts: Vec<(String, String)>,
    /// A count of each sort for each column.
    pub(super) columns: Vec<Vec<u64>>,
    /// The page of what is in a column, to which `from` and `to` are added.
    pub(super) open: Option<String>,
}

impl StackedChart {
    /// The largest sum of a column.
    pub(super) fn most(&self) -> u64 {
        self.columns.iter().map(|column| sum(column)).max().unwrap_or(0)
    }

    fn data(&self) -> PlotData<'_> {
        let series = self.sorts.iter().enumerate().map(|(place, (label, class))| {
            let counts = self.columns.iter().map(|column| column.get(place).copied().unwrap_or(0)).collect();
            PlotSeries { label: label.clone(), class: class.as_str(), counts }
        });
        // What never came only takes room.
        let series = series.filter(|series| series.counts.iter().any(|count| *count > 0)).collect();
        PlotData::Columns {
            axis: self.axis,
            across: self.across,
            series,
            marked: None,
            open: self.open.clone(),
        }
    }

    /// The parts of a column that are not empty: class, upper edge and height of each.
    fn parts(&self, column: &[u64], most: f64) -> Vec<(&str, f64, f64)> {
        let mut top = 100.0;
        let counts = self.sorts.iter().zip(column).filter(|(_, count)| **count > 0);
        let parts = counts.map(|((_, class), count)| {
            let height = *count as f64 / most * 98.0;
            top -= height;
            (class.as_str(), top, height)
        });
        parts.collect()
    }

    /// Draws columns whose parts stand upon each other.
    pub(super) fn draw(&self) -> Markup {
        let most = self.most().max(1) as f64;
        let step = WIDTH / self.columns.len().max(1) as f64;
        html! {
            svg.timeline.tall data-plot=[self.data().attribute()] viewBox="0 0 1000 100" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
                line.grid x1="0" x2="1000" y1="0.5" y2="0.5" {}
                line.grid x1="0" x2="1000" y1="50" y2="50" {}
                @for (index, column) in self.columns.iter().enumerate() {
                    @for (class, top, height) in self.parts(column, most) {
                        rect class=(class) x=(x(index as f64 * step + step * 0.1)) y=(x(top)) width=(x(step * 0.8)) height=(x(height)) {}
                    }
                }
                line.base x1="0" x2="1000" y1="99.5" y2="99.5" {}
            }
        }
    }
}

fn sum(counts: &[u64]) -> u64 {
    counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
}

/// A plot of shares against shares, both from 0 to 1.
pub(super) struct UnitPlot<'a> {
    /// Points that are joined by a line, in this order.
    pub(super) curve: &'a [(f64, f64)],
    /// Points that stand out.
    pub(super) dots: &'a [(f64, f64)],
    /// The names of the shares across and up.
    pub(super) across: &'a str,
    pub(super) up: &'a str,
}

impl UnitPlot<'_> {
    /// Draws it in a square, with the line on which both are equal.
    pub(super) fn draw(&self) -> Markup {
        let UnitPlot { curve, dots, across, up } = *self;
        let data = PlotData::Shares { across, up, curve, dots }.attribute();
        let at = |share: f64| if share.is_finite() { share.clamp(0.0, 1.0) * 200.0 } else { 0.0 };
        let mut path = String::new();
        for (index, (across, up)) in self.curve.iter().enumerate() {
            let sign = if index == 0 { 'M' } else { 'L' };
            path.push_str(&format!("{sign}{:.1} {:.1}", at(*across), 200.0 - at(*up)));
        }
        html! {
            svg.plot data-plot=[data] viewBox="-4 -4 208 208" aria-hidden="true" focusable="false" {
                @for part in [50, 100, 150] {
                    line.grid x1=(part) x2=(part) y1="0" y2="200" {}
                    line.grid x1="0" x2="200" y1=(part) y2=(part) {}
                }
                line.base x1="0" x2="200" y1="200" y2="200" {}
                line.base x1="0" x2="0" y1="0" y2="200" {}
                line.even x1="0" y1="200" x2="200" y2="0" {}
                @if !path.is_empty() { path.curve d=(path) {} }
                @for (across, up) in self.dots {
                    circle.dot cx=(x(at(*across))) cy=(x(200.0 - at(*up))) r="3.5" {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_times_have_their_place() {
        let minutes = |count: i64| Time::from_seconds(count * 60);
        let timeline =
            TimelineChart::of(Span::minutes(1), &[(minutes(100), 3), (minutes(110), 4)], minutes(119));
        assert_eq!((timeline.columns.len(), timeline.most(), timeline.total()), (20, 4, 7));
        assert_eq!(timeline.columns[10], TimelineColumn { start: minutes(110), count: 4 });
        let marked = |at: i64| {
            timeline.clone().marked(minutes(at)).draw_small("series").0.contains("class=\"marked\"")
        };
        assert!(marked(100) && marked(119) && !marked(99) && !marked(120));
        assert_eq!(TimelineChart::of(Span::minutes(1), &[], minutes(5)).columns.len(), 12);
        let long = TimelineChart::of(
            Span::minutes(1),
            &[(minutes(0), 1), (minutes(1_000_000), u64::MAX)],
            minutes(5),
        );
        assert_eq!((long.columns.len(), long.total()), (COLUMNS_MAX, u64::MAX));
        TimelineChart::of(Span(0), &[(Time(i64::MIN), 1), (Time(i64::MAX), 1)], Time(0));
    }

    #[test]
    fn everything_is_within_the_chart() {
        let numbers = |markup: &Markup, name: &str| -> Vec<f64> {
            let start = format!("{name}=\"");
            let parts = markup.0.split(&*start).skip(1);
            parts.map(|part| part.split('"').next().unwrap().parse().unwrap()).collect()
        };
        for points in [&[][..], &[0.0], &[5.0, -3.0], &[f64::NAN, f64::INFINITY, 2.0], &[1e308, -1e308]] {
            let scale = PointScale::of(points.iter().copied());
            for from in points {
                let bar = span_bar(scale, *from, 1.0, points);
                for name in [" x", " x1", " x2"] {
                    assert!(
                        numbers(&bar, name).iter().all(|x| (0.0..=1000.0).contains(x)),
                        "{points:?}: {}",
                        bar.0
                    );
                }
            }
        }
    }
}
