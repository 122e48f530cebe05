//! A reader of OTLP's metrics, from the numbers of the fields alone.
//!
//! Source: opentelemetry-proto, `metrics/v1/metrics.proto`.

/// A field of a message: its number, and its value.
type Field<'a> = (u64, Value<'a>);

#[derive(Clone, Copy)]
enum Value<'a> {
    Whole(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

/// Attributes, as they come.
pub type Attributes = Vec<(String, String)>;

/// A point of a metric.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PushedPoint {
    /// Its attributes.
    pub attributes: Attributes,
    /// Since when it counts, unix nanoseconds.
    pub start_nanos: Option<u64>,
    /// Its time, unix nanoseconds.
    pub nanos: u64,
    /// The number, or the count.
    pub whole: Option<u64>,
    /// The number, or the sum.
    pub double: Option<f64>,
    /// The counts of buckets.
    pub buckets: Vec<u64>,
    /// Their bounds.
    pub bounds: Vec<f64>,
}

/// A metric.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PushedMetric {
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// `gauge`, `sum`, `histogram` or `summary`.
    pub kind: &'static str,
    /// Whether it is cumulative.
    pub is_cumulative: bool,
    /// Whether it is monotonic.
    pub is_monotonic: bool,
    /// Its points.
    pub points: Vec<PushedPoint>,
}

/// A request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Export {
    /// The attributes of the resource.
    pub resource: Attributes,
    /// The metrics.
    pub metrics: Vec<PushedMetric>,
}

fn varint<'a>(bytes: &mut &'a [u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest): (&'a u8, &'a [u8]) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            break;
        }
    }
    value
}

fn fields(mut bytes: &[u8]) -> Vec<Field<'_>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = match key & 7 {
            0 => Value::Whole(varint(&mut bytes)),
            1 => {
                let (fixed, rest) = bytes.split_first_chunk().unwrap();
                bytes = rest;
                Value::Fixed(u64::from_le_bytes(*fixed))
            }
            wire_type => {
                assert_eq!(wire_type, 2, "no such wire type here");
                let length = usize::try_from(varint(&mut bytes)).unwrap();
                let (inside, rest) = bytes.split_at(length);
                bytes = rest;
                Value::Bytes(inside)
            }
        };
        fields.push((key >> 3, value));
    }
    fields
}

/// The messages of a field.
fn all(message: &[u8], number: u64) -> impl Iterator<Item = &[u8]> {
    fields(message)
        .into_iter()
        .filter_map(move |(known, value)| match value {
            Value::Bytes(bytes) if known == number => Some(bytes),
            _ => None,
        })
}

fn text(message: &[u8], number: u64) -> String {
    let bytes = all(message, number).next().unwrap_or_default();
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn attributes(message: &[u8], number: u64) -> Attributes {
    let pair = |pair| (text(pair, 1), text(all(pair, 2).next().unwrap(), 1));
    all(message, number).map(pair).collect()
}

fn packed(bytes: &[u8]) -> Vec<u64> {
    let (chunks, rest) = bytes.as_chunks();
    assert!(rest.is_empty());
    chunks
        .iter()
        .map(|chunk| u64::from_le_bytes(*chunk))
        .collect()
}

fn point(message: &[u8], kind: &str) -> PushedPoint {
    let is_number = matches!(kind, "gauge" | "sum");
    let mut point = PushedPoint {
        attributes: attributes(message, if kind == "histogram" { 9 } else { 7 }),
        ..PushedPoint::default()
    };
    for (number, value) in fields(message) {
        match (number, value) {
            (2, Value::Fixed(nanos)) => point.start_nanos = Some(nanos),
            (3, Value::Fixed(nanos)) => point.nanos = nanos,
            (4, Value::Fixed(bits)) if is_number => point.double = Some(f64::from_bits(bits)),
            (5, Value::Fixed(bits)) => point.double = Some(f64::from_bits(bits)),
            (4 | 6, Value::Fixed(whole)) => point.whole = Some(whole),
            (6, Value::Bytes(bytes)) => point.buckets = packed(bytes),
            (7, Value::Bytes(bytes)) if kind == "histogram" => {
                point.bounds = packed(bytes).into_iter().map(f64::from_bits).collect();
            }
            (7 | 9, Value::Bytes(_)) => {}
            (number, _) => assert_eq!(number, 0, "no such field here"),
        }
    }
    point
}

fn metric(message: &[u8]) -> PushedMetric {
    let kinds = [(5, "gauge"), (7, "sum"), (9, "histogram"), (11, "summary")];
    let mut kinds = kinds
        .into_iter()
        .filter_map(|(number, kind)| Some((all(message, number).next()?, kind)));
    let (data, kind) = kinds.next().unwrap();
    let is = |field: u64, wanted: u64| {
        fields(data).iter().any(|(number, value)| {
            *number == field && matches!(value, Value::Whole(one) if *one == wanted)
        })
    };
    PushedMetric {
        name: text(message, 1),
        description: text(message, 2),
        kind,
        is_cumulative: is(2, 2),
        is_monotonic: is(3, 1),
        points: all(data, 1).map(|message| point(message, kind)).collect(),
    }
}

/// Reads a request with one resource and one scope.
pub fn read(body: &[u8]) -> Export {
    let resource_metrics = all(body, 1).next().unwrap();
    let scope_metrics = all(resource_metrics, 2).next().unwrap();
    Export {
        resource: attributes(all(resource_metrics, 1).next().unwrap(), 1),
        metrics: all(scope_metrics, 2).map(metric).collect(),
    }
}
