//! The exposition format of Prometheus, read as strictly as it is written here.

use std::collections::BTreeMap;

/// Name, labels and value of one sample, as they stand.
pub type Sample = (String, Vec<(String, String)>, String);

/// One family.
#[derive(Debug)]
pub struct Family {
    /// What TYPE says.
    pub kind: String,
    /// Its samples, in their order.
    pub samples: Vec<Sample>,
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The labels between braces; no escapes, since nothing here needs any.
fn labels_of(text: &str) -> Vec<(String, String)> {
    let labels = text.split(',').map(|label| {
        let (name, value) = label.split_once('=').expect("a label");
        let value = value
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'));
        let value = value.expect("a quoted value");
        assert!(
            is_name(name) && !value.contains(['"', '\\', '\n']),
            "{label}"
        );
        (name.to_owned(), value.to_owned())
    });
    labels.collect()
}

/// Reads the exposition format as strictly as it is written: HELP, then TYPE, then the samples of that
/// family alone, each family once.
pub fn parse(text: &str) -> BTreeMap<String, Family> {
    assert!(text.ends_with('\n'));
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let help = line.strip_prefix("# HELP ").expect("HELP begins a family");
        let (name, help) = help.split_once(' ').expect("a help text");
        assert!(
            is_name(name) && !help.is_empty() && !help.contains('\\'),
            "{line}"
        );
        let kind = lines.next().and_then(|line| line.strip_prefix("# TYPE "));
        let (typed, kind) = kind.and_then(|kind| kind.split_once(' ')).expect("TYPE");
        assert_eq!(typed, name);
        let mut family = Family {
            kind: kind.to_owned(),
            samples: Vec::new(),
        };
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            let (sample, labels) = match series.split_once('{') {
                Some((sample, labels)) => (
                    sample,
                    labels_of(labels.strip_suffix('}').expect("a brace")),
                ),
                None => (series, Vec::new()),
            };
            let suffix = sample.strip_prefix(name).expect("a sample of its family");
            let allowed: &[&str] = match kind {
                "counter" | "gauge" => &[""],
                "summary" => &["_sum", "_count"],
                "histogram" => &["_bucket", "_sum", "_count"],
                other => panic!("type {other}"),
            };
            assert!(allowed.contains(&suffix), "{line}");
            assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{line}");
            let known = |(other, set, _): &Sample| other == sample && *set == labels;
            assert!(!family.samples.iter().any(known), "twice: {line}");
            family
                .samples
                .push((sample.to_owned(), labels, value.to_owned()));
        }
        assert!(kind != "counter" || name.ends_with("_total"), "{name}");
        assert!(
            families.insert(name.to_owned(), family).is_none(),
            "{name} twice"
        );
    }
    families
}

/// Every series of a text with its value.
pub fn values(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.map(|line| {
        let (series, value) = line.rsplit_once(' ').expect("a value");
        (series.to_owned(), value.parse().expect("a number"))
    });
    pairs.collect()
}
