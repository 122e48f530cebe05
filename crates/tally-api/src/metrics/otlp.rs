//! The metrics of the deployment as OTLP/HTTP sends them, in JSON.
//!
//! Invariant: what is sent is made from the text of `/metrics`, so names, labels and values are the same. Sums are
//! cumulative and monotonic. A family of the text is one metric: `_sum`, `_count` and `_bucket` belong to it.
//!
//! Source: opentelemetry.io/docs/specs/otlp, "JSON Protobuf Encoding"; opentelemetry-proto,
//! `metrics/v1/metrics.proto`.

use crate::json::to_json;

/// The media type of the body.
pub const OTLP_CONTENT_TYPE: &str = "application/json";

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: &str = "\"aggregationTemporality\":2";

/// The nanoseconds of a millisecond, as the digits that follow its number.
const NANOS: &str = "000000";

/// What all points of a body have in common.
#[derive(Clone, Debug)]
pub struct OtlpContext<'a> {
    /// The version of this build.
    pub version: &'a str,
    /// Attributes that the operator adds to the resource.
    pub attributes: &'a [(String, String)],
    /// Since when the sums count, unix milliseconds, where that is known.
    pub start_ms: Option<i64>,
    /// The time of the points, unix milliseconds.
    pub time_ms: i64,
}

impl OtlpContext<'_> {
    /// The times of a point; only points of sums have a start.
    fn times(&self, has_start: bool) -> String {
        let mut text = String::new();
        if let Some(start_ms) = self.start_ms.filter(|_| has_start) {
            text.extend([
                "\"startTimeUnixNano\":\"",
                &start_ms.to_string(),
                NANOS,
                "\",",
            ]);
        }
        text.extend([
            "\"timeUnixNano\":\"",
            &self.time_ms.to_string(),
            NANOS,
            "\"",
        ]);
        text
    }

    fn resource(&self) -> String {
        let own = [("service.name", "tally"), ("service.version", self.version)];
        let added = (self.attributes.iter()).map(|(name, value)| (name.as_str(), value.as_str()));
        // What the operator names comes in place of Tally's own.
        let kept =
            |(name, _): &(&str, &str)| !self.attributes.iter().any(|(added, _)| added == name);
        attributes(own.into_iter().filter(kept).chain(added))
    }
}

/// `"attributes":[…]`.
fn attributes<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = "\"attributes\":[".to_owned();
    for (index, (name, value)) in pairs.enumerate() {
        let comma = if index > 0 { "," } else { "" };
        let (name, value) = (to_json(&name), to_json(&value));
        text.extend([
            comma,
            "{\"key\":",
            &name,
            ",\"value\":{\"stringValue\":",
            &value,
            "}}",
        ]);
    }
    text.push(']');
    text
}

/// A line of the text: its name, its labels and its value.
struct Sample<'a> {
    name: &'a str,
    labels: Vec<(&'a str, &'a str)>,
    value: &'a str,
}

impl<'a> Sample<'a> {
    /// No label of Tally's has a quotation mark or a backslash in its value.
    fn of(line: &'a str) -> Option<Self> {
        let (sample, value) = line.rsplit_once(' ')?;
        let Some((name, labels)) = sample.split_once('{') else {
            return Some(Self {
                name: sample,
                labels: Vec::new(),
                value,
            });
        };
        let labels = labels.strip_suffix("\"}")?.split("\",");
        let labels = labels
            .map(|label| label.split_once("=\""))
            .collect::<Option<_>>()?;
        Some(Self {
            name,
            labels,
            value,
        })
    }

    /// The labels, without the bound of a bucket.
    fn attributes(&self) -> String {
        attributes(
            self.labels
                .iter()
                .copied()
                .filter(|(name, _)| *name != "le"),
        )
    }

    fn bound(&self) -> Option<&'a str> {
        self.labels
            .iter()
            .find(|(name, _)| *name == "le")
            .map(|(_, bound)| *bound)
    }
}

/// A family of the text.
struct TextFamily<'a> {
    name: &'a str,
    help: &'a str,
    kind: &'a str,
    samples: Vec<Sample<'a>>,
}

impl TextFamily<'_> {
    /// The family as a metric; `None` where it has no samples.
    fn metric(&self, context: &OtlpContext<'_>) -> Option<String> {
        let (field, rest, points) = match self.kind {
            "counter" => ("sum", ",\"isMonotonic\":true,", self.numbers(context, true)),
            "summary" => ("summary", "", self.summary(context)),
            "histogram" => ("histogram", ",", self.histograms(context)),
            _ => ("gauge", "", self.numbers(context, false)),
        };
        let temporality = if rest.is_empty() { "" } else { CUMULATIVE };
        (!points.is_empty()).then(|| {
            let (name, help) = (to_json(&self.name), to_json(&self.help));
            let begin = [
                "{\"name\":",
                &name,
                ",\"description\":",
                &help,
                ",\"",
                field,
            ]
            .concat();
            [
                &begin,
                "\":{\"dataPoints\":[",
                &points.join(","),
                "]",
                rest,
                temporality,
                "}}",
            ]
            .concat()
        })
    }

    fn numbers(&self, context: &OtlpContext<'_>, has_start: bool) -> Vec<String> {
        let times = context.times(has_start);
        let point = |sample: &Sample<'_>| {
            // Whole numbers are text in this encoding, and have a sign.
            let value = match sample.value.contains('.') {
                true => ["\"asDouble\":", sample.value].concat(),
                false => {
                    let whole = sample.value.parse().unwrap_or(i64::MAX);
                    ["\"asInt\":\"", &whole.to_string(), "\""].concat()
                }
            };
            ["{", &sample.attributes(), ",", &times, ",", &value, "}"].concat()
        };
        self.samples.iter().map(point).collect()
    }

    fn summary(&self, context: &OtlpContext<'_>) -> Vec<String> {
        let value = |suffix: &str| {
            let mut samples = self.samples.iter();
            let found = samples.find(|sample| sample.name.strip_prefix(self.name) == Some(suffix));
            found.map(|found| found.value)
        };
        let (Some(sum), Some(count)) = (value("_sum"), value("_count")) else {
            return Vec::new();
        };
        let times = context.times(true);
        vec![
            [
                "{\"attributes\":[],",
                &times,
                ",\"count\":\"",
                count,
                "\",\"sum\":",
                sum,
                "}",
            ]
            .concat(),
        ]
    }

    /// A point for each set of labels: its lines are next to each other, buckets first, the sum, and the count last.
    fn histograms(&self, context: &OtlpContext<'_>) -> Vec<String> {
        let times = context.times(true);
        let (mut points, mut bounds, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        let (mut below, mut sum) = (0, "0");
        for sample in &self.samples {
            match (sample.name.strip_prefix(self.name), sample.bound()) {
                (Some("_bucket"), Some(bound)) => {
                    let total: u64 = sample.value.parse().unwrap_or(below);
                    counts.push(["\"", &total.saturating_sub(below).to_string(), "\""].concat());
                    bounds.extend((bound != "+Inf").then_some(bound));
                    below = total;
                }
                (Some("_sum"), _) => sum = sample.value,
                (Some("_count"), _) => {
                    let head = ["{", &sample.attributes(), ",", &times].concat();
                    let numbers = [",\"count\":\"", sample.value, "\",\"sum\":", sum].concat();
                    let buckets = [",\"bucketCounts\":[", &counts.join(","), "]"].concat();
                    let bounds_list = [",\"explicitBounds\":[", &bounds.join(","), "]}"].concat();
                    points.push([head, numbers, buckets, bounds_list].concat());
                    (below, sum) = (0, "0");
                    counts.clear();
                    bounds.clear();
                }
                _ => {}
            }
        }
        points
    }
}

fn families(text: &str) -> Vec<TextFamily<'_>> {
    let mut families: Vec<TextFamily<'_>> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap_or((rest, ""));
            families.push(TextFamily {
                name,
                help,
                kind: "",
                samples: Vec::new(),
            });
        } else if let Some(family) = families.last_mut() {
            match line.strip_prefix("# TYPE ") {
                Some(rest) => family.kind = rest.rsplit(' ').next().unwrap_or_default(),
                None => family.samples.extend(Sample::of(line)),
            }
        }
    }
    families
}

/// The body of a push: the families of a text of `/metrics`.
pub fn otlp_body(text: &str, context: &OtlpContext<'_>) -> String {
    let families = families(text);
    let metrics: Vec<String> = (families.iter())
        .filter_map(|family| family.metric(context))
        .collect();
    [
        "{\"resourceMetrics\":[{\"resource\":{",
        &context.resource(),
        "},\"scopeMetrics\":[{\"scope\":{\"name\":\"tally\"},\"metrics\":[",
        &metrics.join(","),
        "]}]}]}",
    ]
    .concat()
}
