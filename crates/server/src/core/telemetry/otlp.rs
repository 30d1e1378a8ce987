//! Requests to a collector, as OTLP 1.0 has them: `opentelemetry/proto/collector/{trace,metrics}/v1`.

use std::collections::BTreeMap;

use super::protobuf::ProtobufWriter;
use super::trace::FinishedSpan;

/// The node that spans and metrics are of.
#[derive(Clone, Debug)]
pub(super) struct TelemetryResource {
    pub(super) service: String,
    pub(super) instance: String,
}

const SCOPE: &str = "tollhouse";
/// `STATUS_CODE_ERROR`.
const FAILED: u64 = 2;
/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u64 = 2;

fn attribute(message: &mut ProtobufWriter, field: u32, name: &str, value: &str) {
    message.message(field, |pair| {
        pair.bytes(1, name.as_bytes());
        pair.message(2, |any| any.bytes(1, value.as_bytes()));
    });
}

impl TelemetryResource {
    /// Returns that of a node.
    pub(super) fn of(instance: &str) -> TelemetryResource {
        TelemetryResource { service: "tollhouse".to_owned(), instance: instance.to_owned() }
    }

    fn write(&self, message: &mut ProtobufWriter) {
        message.message(1, |resource| {
            attribute(resource, 1, "service.name", &self.service);
            attribute(resource, 1, "service.version", env!("CARGO_PKG_VERSION"));
            attribute(resource, 1, "service.instance.id", &self.instance);
        });
    }
}

fn scope(message: &mut ProtobufWriter) {
    message.message(1, |scope| {
        scope.bytes(1, SCOPE.as_bytes());
        scope.bytes(2, env!("CARGO_PKG_VERSION").as_bytes());
    });
}

/// Returns an `ExportTraceServiceRequest` of some spans.
pub(super) fn traces(resource: &TelemetryResource, spans: &[FinishedSpan]) -> Vec<u8> {
    let mut request = ProtobufWriter::default();
    request.message(1, |of_resource| {
        resource.write(of_resource);
        of_resource.message(2, |of_scope| {
            scope(of_scope);
            for span in spans {
                of_scope.message(2, |message| write_span(message, span));
            }
        });
    });
    request.into_bytes()
}

fn write_span(message: &mut ProtobufWriter, span: &FinishedSpan) {
    message.bytes(1, &span.trace.to_be_bytes());
    message.bytes(2, &span.id.to_be_bytes());
    if let Some(parent) = span.parent {
        message.bytes(4, &parent.to_be_bytes());
    }
    message.bytes(5, span.name.as_bytes());
    message.varint(6, span.kind as u64);
    message.fixed(7, span.begun);
    message.fixed(8, span.ended);
    for (name, value) in &span.attributes {
        attribute(message, 9, name, value);
    }
    if span.has_failed {
        message.message(15, |status| status.varint(3, FAILED));
    }
}

/// A metric of a page in the format of OpenMetrics.
#[derive(Debug, Default)]
struct ParsedMetric<'a> {
    kind: &'a str,
    help: &'a str,
    /// The values by labels but `le`; of a histogram the buckets, sum and count.
    points: BTreeMap<Vec<(String, String)>, ParsedPoint>,
}

#[derive(Debug, Default)]
struct ParsedPoint {
    value: f64,
    sum: f64,
    count: u64,
    /// The upper bound of each bucket, and the number up to it.
    buckets: Vec<(f64, u64)>,
}

/// Returns an `ExportMetricsServiceRequest` of all metrics of a page, as `/metrics` shows it.
pub(super) fn metrics(resource: &TelemetryResource, page: &str, since: u64, now: u64) -> Vec<u8> {
    let mut request = ProtobufWriter::default();
    request.message(1, |of_resource| {
        resource.write(of_resource);
        of_resource.message(2, |of_scope| {
            scope(of_scope);
            for (name, metric) in parse(page) {
                of_scope.message(2, |message| write_metric(message, name, &metric, since, now));
            }
        });
    });
    request.into_bytes()
}

fn write_metric(message: &mut ProtobufWriter, name: &str, metric: &ParsedMetric<'_>, since: u64, now: u64) {
    message.bytes(1, name.as_bytes());
    message.bytes(2, metric.help.as_bytes());
    let number = |message: &mut ProtobufWriter, labels: &[(String, String)], point: &ParsedPoint| {
        message.message(1, |number| {
            number.fixed(2, since);
            number.fixed(3, now);
            number.double(4, point.value);
            labels.iter().for_each(|(name, value)| attribute(number, 7, name, value));
        });
    };
    match metric.kind {
        "counter" => message.message(7, |sum| {
            metric.points.iter().for_each(|(labels, point)| number(sum, labels, point));
            sum.varint(2, CUMULATIVE);
            sum.varint(3, 1);
        }),
        "histogram" => message.message(9, |histogram| {
            for (labels, point) in &metric.points {
                histogram.message(1, |message| write_histogram(message, labels, point, since, now));
            }
            histogram.varint(2, CUMULATIVE);
        }),
        _ => message.message(5, |gauge| {
            metric.points.iter().for_each(|(labels, point)| number(gauge, labels, point));
        }),
    }
}

fn write_histogram(
    message: &mut ProtobufWriter,
    labels: &[(String, String)],
    point: &ParsedPoint,
    since: u64,
    now: u64,
) {
    message.fixed(2, since);
    message.fixed(3, now);
    message.fixed(4, point.count);
    message.double(5, point.sum);
    let mut below = 0;
    let counts =
        point.buckets.iter().map(|(_, up_to)| up_to.saturating_sub(std::mem::replace(&mut below, *up_to)));
    message.packed(6, counts);
    let bounds = point.buckets.iter().map(|(bound, _)| *bound).filter(|bound| bound.is_finite());
    message.packed(7, bounds.map(f64::to_bits));
    labels.iter().for_each(|(name, value)| attribute(message, 9, name, value));
}

/// Reads a page that this program has written. Lines of another form are passed over.
fn parse(page: &str) -> Vec<(&str, ParsedMetric<'_>)> {
    let mut metrics: Vec<(&str, ParsedMetric<'_>)> = Vec::new();
    for line in page.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (Some(word), Some(name)) = (words.next(), words.next()) else { continue };
            if metrics.last().is_none_or(|(last, _)| *last != name) {
                metrics.push((name, ParsedMetric::default()));
            }
            let Some((_, metric)) = metrics.last_mut() else { continue };
            match word {
                "HELP" => metric.help = words.next().unwrap_or_default(),
                "TYPE" => metric.kind = words.next().unwrap_or_default(),
                _ => {}
            }
        } else if let (Some((name, metric)), Some((series, labels, value))) =
            (metrics.last_mut(), sample(line))
        {
            let suffix = series.strip_prefix(*name).unwrap_or_default();
            let (bound, labels): (Vec<_>, Vec<_>) = labels.into_iter().partition(|(name, _)| name == "le");
            let point = metric.points.entry(labels).or_default();
            match (metric.kind, suffix) {
                ("histogram", "_sum") => point.sum = value,
                ("histogram", "_count") => point.count = value as u64,
                ("histogram", _) => {
                    let bound = bound.first().and_then(|(_, bound)| bound.parse().ok());
                    point.buckets.push((bound.unwrap_or(f64::INFINITY), value as u64));
                }
                _ => point.value = value,
            }
        }
    }
    metrics.retain(|(_, metric)| !metric.points.is_empty());
    metrics
}

/// The name, labels and value of a line.
type SampleParts<'a> = (&'a str, Vec<(String, String)>, f64);

fn sample(line: &str) -> Option<SampleParts<'_>> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once("=\"")?;
            let mut value = String::new();
            let mut chars = after.char_indices();
            let end = loop {
                match chars.next()? {
                    (at, '"') => break at,
                    (_, '\\') => match chars.next()?.1 {
                        'n' => value.push('\n'),
                        other => value.push(other),
                    },
                    (_, other) => value.push(other),
                }
            };
            labels.push((label.to_owned(), value));
            rest = after.get(end + 1..)?;
            rest = rest.strip_prefix(',').unwrap_or(rest);
        }
        rest = rest.strip_prefix('}')?;
    }
    let value = rest.trim_start().split(' ').next()?.parse().ok()?;
    Some((name, labels, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_as_it_was_written() {
        let page = "# HELP a_b Things, counted.\n# TYPE a_b counter\na_b_total{k=\"x\\\"\\\\y\\n\",z=\"\"} 5\na_b_total{k=\"1\"} 6\n\
                    # HELP g Now.\n# TYPE g gauge\ng 2.5\n# HELP h Took.\n# TYPE h histogram\nh_sum{r=\"/\"} 0.75\nh_count{r=\"/\"} 3\n\
                    h_bucket{le=\"0.1\",r=\"/\"} 1\nh_bucket{le=\"+Inf\",r=\"/\"} 3\nbroken{x=\"1\n# EOF\n";
        let metrics = parse(page);
        let names: Vec<_> =
            metrics.iter().map(|(name, metric)| (*name, metric.kind, metric.points.len())).collect();
        assert_eq!(names, [("a_b", "counter", 2), ("g", "gauge", 1), ("h", "histogram", 1)]);
        let labels = vec![("k".to_owned(), "x\"\\y\n".to_owned()), ("z".to_owned(), String::new())];
        assert_eq!(metrics[0].1.points[&labels].value, 5.0);
        assert_eq!((metrics[0].1.help, metrics[1].1.points[&Vec::new()].value), ("Things, counted.", 2.5));
        let point = &metrics[2].1.points[&vec![("r".to_owned(), "/".to_owned())]];
        assert_eq!((point.sum, point.count), (0.75, 3));
        assert_eq!(point.buckets, [(0.1, 1), (f64::INFINITY, 3)]);
    }
}
