//! The metrics of the deployment as OTLP/HTTP sends them, in protobuf.
//!
//! Invariant: what is sent is made from the text of `/metrics`, so names, labels and values are the same. Sums are
//! cumulative and monotonic. A family of the text is one metric: `_sum`, `_count` and `_bucket` belong to it.
//!
//! Source: opentelemetry-proto, `collector/metrics/v1/metrics_service.proto` and `metrics/v1/metrics.proto`; the bytes:
//! protobuf.dev/programming-guides/encoding.

/// The media type of the body.
pub const OTLP_CONTENT_TYPE: &str = "application/x-protobuf";

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u64 = 2;

/// The nanoseconds of a millisecond.
const NANOS: u64 = 1_000_000;

/// Wire types of fields: a varint, 8 bytes, and bytes with their length.
const VARINT: u64 = 0;
const FIXED: u64 = 1;
const BYTES: u64 = 2;

/// A message under construction, by the numbers of its fields.
#[derive(Clone, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            let [low, ..] = value.to_le_bytes();
            self.0.push(low | 0x80);
            value >>= 7;
        }
        let [low, ..] = value.to_le_bytes();
        self.0.push(low);
    }

    fn whole(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3 | VARINT);
        self.varint(value);
        self
    }

    fn fixed(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3 | FIXED);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn double(self, field: u64, text: &str) -> Self {
        self.fixed(field, number(text).to_bits())
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | BYTES);
        self.varint(u64::try_from(bytes.len()).unwrap_or(0));
        self.0.extend(bytes);
        self
    }

    fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    fn message(self, field: u64, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    fn attributes<'a>(self, field: u64, pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        pairs.fold(self, |message, (name, value)| {
            let value = Self::default().text(1, value);
            let pair = Self::default().text(1, name).message(2, &value);
            message.message(field, &pair)
        })
    }
}

/// The number of a sample.
fn number(text: &str) -> f64 {
    text.parse().unwrap_or(0.0)
}

fn whole(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}

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
    /// A point with its times; only points of sums have a start.
    fn point(&self, has_start: bool) -> Message {
        let nanos = |ms: i64| u64::try_from(ms).unwrap_or(0).saturating_mul(NANOS);
        let start_ms = self.start_ms.filter(|_| has_start);
        let point = start_ms.map_or_else(Message::default, |ms| {
            Message::default().fixed(2, nanos(ms))
        });
        point.fixed(3, nanos(self.time_ms))
    }

    fn resource(&self) -> Message {
        let own = [("service.name", "tally"), ("service.version", self.version)];
        let added = (self.attributes.iter()).map(|(name, value)| (name.as_str(), value.as_str()));
        // What the operator names comes in place of Tally's own.
        let kept =
            |(name, _): &(&str, &str)| !self.attributes.iter().any(|(added, _)| added == name);
        Message::default().attributes(1, own.into_iter().filter(kept).chain(added))
    }
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
    fn labels(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        (self.labels.iter().copied()).filter(|(name, _)| *name != "le")
    }

    fn bound(&self) -> Option<&'a str> {
        let mut labels = self.labels.iter();
        labels
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
    fn metric(&self, context: &OtlpContext<'_>) -> Option<Message> {
        let (field, points) = match self.kind {
            "counter" => (7, self.numbers(context, true)),
            "histogram" => (9, self.histograms(context)),
            "summary" => (11, self.summary(context)),
            _ => (5, self.numbers(context, false)),
        };
        let first = points.first()?.clone();
        let data = Message::default().message(1, &first);
        let data = (points.iter().skip(1)).fold(data, |data, point| data.message(1, point));
        let data = match self.kind {
            "counter" => data.whole(2, CUMULATIVE).whole(3, 1),
            "histogram" => data.whole(2, CUMULATIVE),
            _ => data,
        };
        let metric = Message::default().text(1, self.name).text(2, self.help);
        Some(metric.message(field, &data))
    }

    fn numbers(&self, context: &OtlpContext<'_>, has_start: bool) -> Vec<Message> {
        let point = |sample: &Sample<'_>| {
            let point = context.point(has_start);
            let point = match sample.value.contains('.') {
                true => point.double(4, sample.value),
                // It has a sign.
                false => point.fixed(6, whole(sample.value).min(i64::MAX.unsigned_abs())),
            };
            point.attributes(7, sample.labels())
        };
        self.samples.iter().map(point).collect()
    }

    fn summary(&self, context: &OtlpContext<'_>) -> Vec<Message> {
        let value = |suffix: &str| {
            let mut samples = self.samples.iter();
            let found = samples.find(|sample| sample.name.strip_prefix(self.name) == Some(suffix));
            found.map(|found| found.value)
        };
        let (Some(sum), Some(count)) = (value("_sum"), value("_count")) else {
            return Vec::new();
        };
        vec![context.point(true).fixed(4, whole(count)).double(5, sum)]
    }

    /// A point for each set of labels: its lines are next to each other, buckets first, the sum, and the count last.
    fn histograms(&self, context: &OtlpContext<'_>) -> Vec<Message> {
        let (mut points, mut bounds, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        let (mut below, mut sum) = (0, "0");
        for sample in &self.samples {
            match (sample.name.strip_prefix(self.name), sample.bound()) {
                (Some("_bucket"), Some(bound)) => {
                    let total = whole(sample.value);
                    counts.extend(total.saturating_sub(below).to_le_bytes());
                    if bound != "+Inf" {
                        bounds.extend(number(bound).to_le_bytes());
                    }
                    below = total;
                }
                (Some("_sum"), _) => sum = sample.value,
                (Some("_count"), _) => {
                    let point = context
                        .point(true)
                        .fixed(4, whole(sample.value))
                        .double(5, sum);
                    let point = point.bytes(6, &counts).bytes(7, &bounds);
                    points.push(point.attributes(9, sample.labels()));
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
pub fn otlp_body(text: &str, context: &OtlpContext<'_>) -> Vec<u8> {
    let scope = Message::default().text(1, "tally");
    let scope = Message::default().message(1, &scope);
    let families = families(text);
    let metrics = families.iter().filter_map(|family| family.metric(context));
    let scope = metrics.fold(scope, |scope, metric| scope.message(2, &metric));
    let resource = Message::default().message(1, &context.resource());
    Message::default()
        .message(1, &resource.message(2, &scope))
        .0
}
