//! Law: what is pushed is what the text says, in OTLP's protobuf. Settings of pushes are read as OpenTelemetry's.

use proptest::prelude::*;
use tally_api::metrics::{OtlpContext, otlp_body};
use tally_testing::otlp::{Export, PushedMetric, PushedPoint, read};
use tally_wire::otlp::{attributes, headers};
use tally_wire::settings::{check, check_all};

const CONTEXT: OtlpContext<'_> = OtlpContext {
    version: "9",
    attributes: &[],
    start_ms: Some(5),
    time_ms: 1_700_000_000_123,
};

fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn a_counter_is_a_cumulative_sum_and_a_gauge_has_no_beginning() {
    let text = "# HELP a_total Of \"a\".\n# TYPE a_total counter\na_total{by=\"x\",of=\"y\"} 18446744073709551615\n\
                # HELP b B.\n# TYPE b gauge\nb -0.0005\n# HELP none N.\n# TYPE none counter\n";
    let Export { metrics, .. } = read(&otlp_body(text, &CONTEXT));
    let nanos = 1_700_000_000_123_000_000;
    let counter = PushedMetric {
        name: "a_total".to_owned(),
        description: "Of \"a\".".to_owned(),
        kind: "sum",
        is_cumulative: true,
        is_monotonic: true,
        points: vec![PushedPoint {
            attributes: pairs(&[("by", "x"), ("of", "y")]),
            start_nanos: Some(5_000_000),
            nanos,
            whole: Some(i64::MAX.unsigned_abs()),
            ..PushedPoint::default()
        }],
    };
    let gauge = PushedMetric {
        name: "b".to_owned(),
        description: "B.".to_owned(),
        kind: "gauge",
        points: vec![PushedPoint {
            nanos,
            double: Some(-0.0005),
            ..PushedPoint::default()
        }],
        ..PushedMetric::default()
    };
    assert_eq!(metrics, [counter, gauge]);
}

#[test]
fn summaries_and_histograms_keep_their_numbers() {
    let text = "# HELP s S.\n# TYPE s summary\ns_sum 1.250\ns_count 3\n# HELP h H.\n# TYPE h histogram\n\
                h_bucket{route=\"r\",le=\"0.001\"} 2\nh_bucket{route=\"r\",le=\"0.5\"} 2\n\
                h_bucket{route=\"r\",le=\"+Inf\"} 7\nh_sum{route=\"r\"} 9.500\nh_count{route=\"r\"} 7\n\
                h_bucket{route=\"q\",le=\"0.001\"} 1\nh_bucket{route=\"q\",le=\"0.5\"} 1\n\
                h_bucket{route=\"q\",le=\"+Inf\"} 1\nh_sum{route=\"q\"} 0.001\nh_count{route=\"q\"} 1\n";
    let Export { metrics, .. } = read(&otlp_body(text, &CONTEXT));
    let [summary, histogram] = metrics.as_slice() else {
        panic!("{metrics:?}");
    };
    assert_eq!(
        (
            summary.kind,
            summary.points[0].whole,
            summary.points[0].double
        ),
        ("summary", Some(3), Some(1.25))
    );
    let [of_r, of_q] = histogram.points.as_slice() else {
        panic!("{histogram:?}");
    };
    assert!(histogram.is_cumulative && histogram.kind == "histogram");
    assert_eq!(
        (&of_r.buckets, &of_r.bounds),
        (&vec![2, 0, 5], &vec![0.001, 0.5])
    );
    assert_eq!(
        (of_r.whole, of_r.double, of_r.start_nanos),
        (Some(7), Some(9.5), Some(5_000_000))
    );
    assert_eq!(
        (&of_q.buckets, &of_q.attributes),
        (&vec![1, 0, 0], &pairs(&[("route", "q")]))
    );
}

#[test]
fn attributes_of_the_operator_are_added_and_win() {
    let set = attributes("service.name=mine,deployment.environment=a%20%22b%22").expect("pairs");
    let context = OtlpContext {
        attributes: &set,
        ..CONTEXT
    };
    let wanted = [
        ("service.version", "9"),
        ("service.name", "mine"),
        ("deployment.environment", "a \"b\""),
    ];
    assert_eq!(read(&otlp_body("", &context)).resource, pairs(&wanted));
}

#[test]
fn headers_are_read_as_those_of_opentelemetry_and_none_is_tallys_own() {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        headers("Authorization=Basic%20YWI9%3D, x-scope=1,b=c=d"),
        Some(vec![
            pair("authorization", "Basic YWI9="),
            pair("x-scope", "1"),
            pair("b", "c=d")
        ])
    );
    let seventeen = vec!["a=b"; 17].join(",");
    let long = format!("a={}", "b".repeat(5_000));
    for wrong in [
        "",
        "a",
        "=b",
        "a b=c",
        "a=%0d%0aevil:1",
        "a=%zz",
        "a=%C3%A4",
        "Content-Type=x",
        "HOST=x",
        "a=b,,c=d",
        &seventeen,
        &long,
    ] {
        assert_eq!(headers(wrong), None, "{wrong}");
    }
}

#[test]
fn an_inner_address_is_refused_unless_it_is_allowed_and_no_refusal_shows_what_is_secret() {
    let all = |url: &str, allow: &str| {
        check_all(|name| match name {
            "TALLY_OTLP_URL" => Some(url.to_owned()),
            "TALLY_ALERTS_ALLOW" if !allow.is_empty() => Some(allow.to_owned()),
            _ => None,
        })
    };
    assert_eq!(all("https://otlp.example.com/v1/metrics", ""), Ok(()));
    assert_eq!(
        all("http://localhost:4318/v1/metrics", r#"["localhost"]"#),
        Ok(())
    );
    for inner in [
        "http://localhost:4318/v1/metrics",
        "https://10.0.0.1/",
        "https://169.254.169.254/",
        "ftp://a.example",
    ] {
        let refused = all(inner, "").expect_err("an inner address");
        assert!(
            refused.detail().starts_with("TALLY_OTLP_URL"),
            "{}",
            refused.detail()
        );
        assert!(
            !refused.detail().contains("webhook"),
            "{}",
            refused.detail()
        );
    }
    let refused = check("TALLY_OTLP_HEADERS", "authorization: S3cr3t").expect_err("no pair");
    assert!(!refused.detail().contains("S3cr3t"), "{}", refused.detail());
    let refused = check("TALLY_OTLP_URL", "otlp.example.com/?key=S3cr3t").expect_err("no scheme");
    assert!(!refused.detail().contains("S3cr3t"), "{}", refused.detail());
}

proptest! {
    #[test]
    fn any_text_is_read_without_a_panic(
        text in ".{0,200}",
        body in "(# HELP |# TYPE |[a-z]{1,4}|[ {}=\",\n0-9.]){0,60}",
    ) {
        let _ = (headers(&text), attributes(&text));
        let _ = read(&otlp_body(&body, &CONTEXT));
    }
}
