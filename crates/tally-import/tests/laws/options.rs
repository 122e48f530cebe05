//! What is wrong with an option is said by its name and its value.

use tally_import::host::Exit;
use tally_import::options::CountSettings;

pub fn settings() -> CountSettings {
    CountSettings {
        status: "200-299,304".to_owned(),
        method: "GET".to_owned(),
        paths: "keep".to_owned(),
        strip_query: true,
        ..CountSettings::default()
    }
}

#[test]
fn an_option_that_cannot_be_read_is_named() {
    type Change = fn(&mut CountSettings);
    let cases: [(Change, &str); 14] = [
        (
            |it| it.format = "csv".into(),
            "--format \"csv\" is not known: logpush",
        ),
        (
            |it| it.status = "2xx".into(),
            "--status \"2xx\" is no list of statuses: write it as 200-299,304",
        ),
        (|it| it.status = String::new(), "--status \"\" is no list"),
        (
            |it| it.method = String::new(),
            "--method \"\" is no list of methods: write it as GET,POST, or any",
        ),
        (
            |it| it.method = "GET,".into(),
            "--method \"GET,\" is no list",
        ),
        (|it| it.method = "a b".into(), "--method \"a b\" is no list"),
        (
            |it| it.paths = "cut".into(),
            "--paths \"cut\" is not known: keep, strip, add",
        ),
        (
            |it| it.by = vec!["page".into(), "page".into()],
            "--by \"page,page\" is no list of dimensions",
        ),
        (
            |it| it.by = vec![String::new()],
            "--by \"\" is no list of dimensions",
        ),
        (|it| it.site = Some(String::new()), "--site \"\" is empty"),
        (
            |it| it.site = Some("x".repeat(513)),
            "is 513 bytes long: an id has 512 at most",
        ),
        (
            |it| it.site = Some("a\nb".into()),
            "--site \"a\\nb\" has control characters",
        ),
        (|it| it.prefix = "x".repeat(512), "is 512 bytes long"),
        (|it| it.prefix = "a\u{1}".into(), "has control characters"),
    ];
    for (change, said) in cases {
        let mut settings = settings();
        change(&mut settings);
        let failure = settings.reader("").err().expect(said);
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.message.contains(said), "{}", failure.message);
    }
    for format in ["", "nginx", "iis", "elb", "caddy"] {
        let settings = CountSettings {
            format: format.to_owned(),
            method: "get,M-SEARCH".to_owned(),
            ..settings()
        };
        assert!(settings.reader("").is_ok(), "{format}");
    }
}
