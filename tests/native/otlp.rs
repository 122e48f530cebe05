//! Law: what is pushed is what the text says, in OTLP's JSON; and settings of pushes are read as OpenTelemetry's are.

use proptest::prelude::*;
use serde_json::{Value, json};
use tally_api::metrics::{OtlpContext, otlp_body};
use tally_wire::otlp::{attributes, headers};
use tally_wire::settings::{check, check_all};

const CONTEXT: OtlpContext<'_> = OtlpContext {
    version: "9",
    attributes: &[],
    start_ms: Some(5),
    time_ms: 1_700_000_000_123,
};

fn metrics(text: &str) -> Value {
    let body: Value = serde_json::from_str(&otlp_body(text, &CONTEXT)).expect("JSON");
    body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].clone()
}

#[test]
fn a_counter_is_a_cumulative_sum_and_a_gauge_has_no_beginning() {
    let text = "# HELP a_total Of \"a\".\n# TYPE a_total counter\na_total{by=\"x\",of=\"y\"} 18446744073709551615\n\
                # HELP b B.\n# TYPE b gauge\nb -0.0005\n# HELP none N.\n# TYPE none counter\n";
    let label = |name, value| json!({"key": name, "value": {"stringValue": value}});
    let time = "1700000000123000000";
    assert_eq!(
        metrics(text),
        json!([
            {"name": "a_total", "description": "Of \"a\".", "sum": {
                "dataPoints": [{
                    "attributes": [label("by", "x"), label("of", "y")],
                    "startTimeUnixNano": "5000000", "timeUnixNano": time, "asInt": "9223372036854775807",
                }],
                "isMonotonic": true, "aggregationTemporality": 2,
            }},
            {"name": "b", "description": "B.", "gauge": {
                "dataPoints": [{"attributes": [], "timeUnixNano": time, "asDouble": -0.0005}],
            }},
        ])
    );
}

#[test]
fn summaries_and_histograms_keep_their_numbers() {
    let text = "# HELP s S.\n# TYPE s summary\ns_sum 1.250\ns_count 3\n# HELP h H.\n# TYPE h histogram\n\
                h_bucket{route=\"r\",le=\"0.001\"} 2\nh_bucket{route=\"r\",le=\"0.5\"} 2\n\
                h_bucket{route=\"r\",le=\"+Inf\"} 7\nh_sum{route=\"r\"} 9.500\nh_count{route=\"r\"} 7\n\
                h_bucket{route=\"q\",le=\"0.001\"} 1\nh_bucket{route=\"q\",le=\"0.5\"} 1\n\
                h_bucket{route=\"q\",le=\"+Inf\"} 1\nh_sum{route=\"q\"} 0.001\nh_count{route=\"q\"} 1\n";
    let metrics = metrics(text);
    let summary = &metrics[0]["summary"]["dataPoints"][0];
    assert_eq!(
        (&summary["sum"], &summary["count"]),
        (&json!(1.25), &json!("3"))
    );
    let points = &metrics[1]["histogram"]["dataPoints"];
    assert_eq!(points[0]["bucketCounts"], json!(["2", "0", "5"]));
    assert_eq!(points[0]["explicitBounds"], json!([0.001, 0.5]));
    assert_eq!(
        (&points[0]["count"], &points[0]["sum"]),
        (&json!("7"), &json!(9.5))
    );
    assert_eq!(points[1]["bucketCounts"], json!(["1", "0", "0"]));
    assert_eq!(points[1]["attributes"][0]["value"]["stringValue"], "q");
    assert_eq!(points[2], Value::Null);
}

#[test]
fn attributes_of_the_operator_are_added_and_win() {
    let pairs = attributes("service.name=mine,deployment.environment=a%20%22b%22").expect("pairs");
    let context = OtlpContext {
        attributes: &pairs,
        ..CONTEXT
    };
    let body: Value = serde_json::from_str(&otlp_body("", &context)).expect("JSON");
    let resource = body["resourceMetrics"][0]["resource"]["attributes"].as_array();
    let found: Vec<(&str, &str)> = resource
        .expect("attributes")
        .iter()
        .filter_map(|one| Some((one["key"].as_str()?, one["value"]["stringValue"].as_str()?)))
        .collect();
    assert_eq!(
        found,
        [
            ("service.version", "9"),
            ("service.name", "mine"),
            ("deployment.environment", "a \"b\"")
        ]
    );
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
    fn any_text_is_read_without_a_panic(text in ".{0,200}", body in "(?s).{0,300}") {
        let _ = (headers(&text), attributes(&text));
        let made = otlp_body(&body, &CONTEXT);
        prop_assert!(serde_json::from_str::<Value>(&made).is_ok() || body.contains("# "), "{made}");
    }
}
