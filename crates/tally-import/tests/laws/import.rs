//! Each line of a log is counted once: through repeats, lost answers, other filters, clocks and bad files.

use std::collections::BTreeMap;

use serde_json::json;
use tally_import::host::{Exit, Failure, ImportHost, Neighbor};
use tally_import::import::{Begun, Import, Options};
use tally_import::notes::LogSource;
use tally_import::options::CountSettings;
use tally_import::part::Step;
use tally_import::report::{IngestReport, lines_of};
use tally_import::splitter::{LogEnding, PART_BYTES_MAX};
use tally_import::text::{Course, Screen, of_logs};
use tally_import::totals::Totals;
use tally_import::values::Values;

use super::host::Memory;
use super::options::settings;

const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
const NOW_MS: i64 = 1_431_857_103_000;

fn line(path: &str, status: u16) -> String {
    format!(
        "203.0.113.9 - - [17/May/2015:10:05:03 +0000] \"GET {path} HTTP/1.1\" {status} 1 \"-\" \"{FIREFOX}\"\n"
    )
}

/// What the service counts: each key once for each counter. `refuses` returns the code of a line.
#[derive(Default)]
struct Service {
    counts: BTreeMap<String, u64>,
    keys: BTreeMap<(String, String), String>,
    refuses: Option<fn(&str) -> Option<&'static str>>,
    loses: bool,
    bodies: usize,
}

impl Service {
    fn ingest(&mut self, key: &str, body: &str) -> Option<(IngestReport, bool)> {
        self.bodies += 1;
        let mut sums: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        let (mut rejected, mut errors) = (Vec::new(), Vec::new());
        for (number, text) in (1..).zip(body.lines()) {
            let id = serde_json::from_str::<serde_json::Value>(text).unwrap()["id"]
                .as_str()
                .unwrap()
                .to_owned();
            match self.refuses.and_then(|refuses| refuses(&id)) {
                Some(code) => {
                    rejected.push(json!({"code": code, "lines": number.to_string()}));
                    errors.push(json!({"line": number, "code": code, "detail": "it is full"}));
                }
                None => sums.entry(id).or_default().push(text),
            }
        }
        let mut is_repeat = !sums.is_empty();
        for (id, lines) in sums {
            let text = lines.join("\n");
            let name = (key.to_owned(), id.clone());
            match self.keys.get(&name) {
                Some(known) => assert_eq!(*known, text, "a key is used for other lines"),
                None => {
                    *self.counts.entry(id).or_default() += u64::try_from(lines.len()).unwrap();
                    self.keys.insert(name, text);
                    is_repeat = false;
                }
            }
        }
        let report = json!({"rejected_lines": rejected, "errors": errors});
        (!self.loses).then(|| (serde_json::from_value(report).unwrap(), is_repeat))
    }
}

struct World {
    host: Memory,
    service: Service,
}

fn world() -> World {
    World {
        host: Memory::default(),
        service: Service::default(),
    }
}

impl World {
    fn import(&self, change: impl FnOnce(&mut CountSettings), again: bool) -> Import {
        let mut settings = settings();
        change(&mut settings);
        Import::new(Options {
            settings,
            again,
            version: "1".to_owned(),
        })
        .unwrap()
    }

    /// Imports a file, as the command does. Whether its last answer came.
    fn file(&mut self, import: &mut Import, number: u32, bytes: &[u8]) -> Result<bool, Failure> {
        self.host.files.borrow_mut().insert(number, bytes.to_vec());
        let source = LogSource {
            number,
            name: format!("{number}.log"),
            path: format!("/{number}.log"),
            dev: "1".to_owned(),
            ino: number.to_string(),
            bytes: Some(u64::try_from(bytes.len()).unwrap()),
            ..LogSource::default()
        };
        let job = import.open(source, false);
        import.look(job, bytes);
        let Begun::Known(_) = import.begin(&self.host, job, false)? else {
            panic!("undecided");
        };
        let from = import.start(&self.host, job, false)?.unwrap();
        import.push(job, bytes.get(usize::try_from(from).unwrap()..).unwrap());
        import.ends(job, LogEnding::Unfinished);
        while let Some(part) = import.next(&self.host, job)? {
            if !self.part(import, (job, part)) {
                return Ok(false);
            }
        }
        import.close(&self.host, job, true);
        Ok(true)
    }

    fn part(&mut self, import: &mut Import, (job, part): (u32, u32)) -> bool {
        let mut now_ms = NOW_MS;
        loop {
            match import.step((&self.host, job, part), (now_ms, false)) {
                Step::Done => return true,
                Step::Wait { ms, .. } => now_ms += ms,
                Step::Send { key, body } => {
                    let Some((report, is_repeat)) = self.service.ingest(&key, &body) else {
                        return false;
                    };
                    import.answered((&self.host, job, part), now_ms, &report, is_repeat);
                }
            }
        }
    }

    /// Imports a pipe that pauses behind each of these pieces, as the command does.
    fn pipe(&mut self, pieces: &[&str]) -> Import {
        let mut import = self.import(|_| {}, false);
        let source = LogSource {
            name: "standard input".to_owned(),
            ..LogSource::default()
        };
        let job = import.open(source, false);
        let mut has_begun = false;
        for at in 0..=pieces.len() {
            let piece = pieces.get(at).map_or("", |piece| *piece);
            match has_begun {
                true => import.push(job, piece.as_bytes()),
                false => _ = import.look(job, piece.as_bytes()),
            }
            let ending = match at < pieces.len() {
                true => LogEnding::Idle,
                false => LogEnding::Closed,
            };
            import.ends(job, ending);
            if !has_begun {
                let begun = import.begin(&self.host, job, false).unwrap();
                has_begun = begun != Begun::Undecided;
                if !has_begun {
                    continue;
                }
                import.start(&self.host, job, false).unwrap();
                import.ends(job, ending);
            }
            while let Some(part) = import.next(&self.host, job).unwrap() {
                assert!(self.part(&mut import, (job, part)));
            }
        }
        import.close(&self.host, job, true);
        import
    }

    fn run(&mut self, number: u32, text: &str, change: impl FnOnce(&mut CountSettings)) -> Import {
        let mut import = self.import(change, false);
        self.file(&mut import, number, text.as_bytes()).unwrap();
        import
    }

    fn sum(&self) -> u64 {
        self.service.counts.values().sum()
    }
}

#[test]
fn what_was_counted_is_not_counted_again_and_what_a_filter_left_out_is_counted_by_the_next_one() {
    let mut world = world();
    let log = [line("/a", 200), line("/b", 404), line("/a", 200)].concat();
    assert_eq!(
        world
            .run(1, &log, |it| it.status = "500".into())
            .totals
            .counted,
        0
    );
    assert_eq!(world.run(1, &log, |_| {}).totals.counted, 2);
    let same = world.run(1, &log, |_| {});
    assert_eq!(
        (same.totals.counted, same.totals.counted_before.bytes),
        (0, log.len().try_into().unwrap())
    );
    let all = world.run(1, &log, |it| it.status = "any".into());
    assert_eq!(
        (
            all.totals.counted,
            all.totals.counted_before.lines,
            world.sum()
        ),
        (1, 2, 3)
    );
    let more = world.run(1, &[log.as_str(), &line("/c", 200)].concat(), |it| {
        it.status = "any".into()
    });
    assert_eq!((more.totals.counted, world.sum()), (1, 4));
}

#[test]
fn a_pipe_counts_once_wherever_it_pauses_when_it_comes_again() {
    let clf = |index: usize| line(&format!("/{index}"), 200);
    let w3c = |index: usize| match index {
        0 => "#Fields: date time c-ip cs-method cs-uri-stem sc-status\n".to_owned(),
        _ => format!("2015-05-17 10:05:0{index} 203.0.113.9 GET /{index} 200\n"),
    };
    let lines: [&dyn Fn(usize) -> String; 2] = [&clf, &w3c];
    for line in lines {
        let text = |from: usize, to: usize| (from..to).map(line).collect::<String>();
        let all = text(0, 9);
        for at in (1..all.len()).step_by(29) {
            let mut world = world();
            world.pipe(&[&text(0, 2), &text(2, 6)]);
            let counted = world.sum();
            let (one, other) = all.split_at(at);
            let again = world.pipe(&[one, other]).totals.counted;
            assert_eq!((again, world.sum()), (3, counted + 3), "{at}");
        }
    }
}

#[test]
fn what_was_sent_without_an_answer_is_sent_again_under_the_same_key() {
    let mut world = world();
    let log = [line("/a", 200), line("/b", 404)].concat();
    world.service.loses = true;
    let mut import = world.import(|_| {}, false);
    assert!(!world.file(&mut import, 1, log.as_bytes()).unwrap());
    world.service.loses = false;
    // Other options: what was sent is sent as it was, and the rest by the new ones.
    let again = world.run(1, &log, |it| it.status = "any".into());
    assert_eq!(
        (again.totals.counted, again.totals.counted_before.lines),
        (1, 1)
    );
    // The summary names what this run has counted.
    assert_eq!(again.totals.counters_so_far(), 1);
    assert_eq!((world.sum(), world.service.bodies), (2, 3));
}

#[test]
fn a_line_that_is_sent_again_and_refused_again_is_refused_once() {
    let mut world = world();
    let log = [line("/a", 200), line("/no", 200), line("/late", 200)].concat();
    // Nothing was counted: the key may not, say.
    world.service.loses = true;
    world.service.refuses = Some(|_| Some("forbidden"));
    let mut import = world.import(|_| {}, false);
    assert!(!world.file(&mut import, 1, log.as_bytes()).unwrap());
    world.service.loses = false;
    world.service.refuses = Some(|id| match id {
        "/no" => Some("forbidden"),
        "/late" => Some("unavailable"),
        _ => None,
    });
    let again = world.run(1, &log, |_| {}).totals;
    let rejected: Vec<u64> = again.rejected.values().copied().collect();
    assert_eq!(
        (again.counted, rejected.iter().sum()),
        (1, 2),
        "{:?}",
        again.rejected
    );
    assert!(!again.rejected.contains_key("clock-skew"));
    world.service.refuses = None;
    assert_eq!(world.run(1, &log, |_| {}).totals.counted, 2);
    assert_eq!(world.sum(), 3);
}

/// Caddy without its directive `log`, and what any program of its logger writes.
#[test]
fn a_log_without_a_request_says_so_and_one_with_some_does_not() {
    let note = "{\"level\":\"info\",\"ts\":1764321642.8,\"msg\":\"serving\"}\n";
    let said = |totals: &Totals| {
        let course = Course {
            seconds: 1.0,
            is_interrupted: false,
            files: 1,
        };
        of_logs(totals, course, Screen::default())
    };
    let mut world = world();
    let none = world.run(1, &note.repeat(3), |_| {}).totals;
    assert_eq!((none.lines, none.others), (0, 3));
    assert!(
        said(&none).contains("no request in 3 lines"),
        "{}",
        said(&none)
    );
    let request = "{\"ts\":1764321642.8,\"logger\":\"http.log.access\",\"request\":{\"uri\":\"/a\",\"method\":\"GET\"},\"status\":200}\n";
    let some = world.run(2, &[note, request].concat(), |_| {}).totals;
    assert_eq!((some.lines, some.others), (1, 1));
    assert!(!said(&some).contains("no request"), "{}", said(&some));
}

#[test]
fn lines_that_may_count_later_are_left_for_the_next_run_and_named() {
    let mut world = world();
    let log = [
        "nonsense\n".to_owned(),
        line("/a", 200),
        line("/full", 200),
        line("/full", 200),
    ]
    .concat();
    world.service.refuses = Some(|id| (id == "/full").then_some("quota-exceeded"));
    let import = world.run(1, &log, |_| {});
    assert_eq!(import.totals.rejected["quota-exceeded"], 2);
    let shown = &import.totals.refused[0];
    assert_eq!(
        (shown.file.as_str(), shown.line, shown.why.as_str()),
        ("1.log", 3, "quota-exceeded: it is full")
    );
    let unread = &import.totals.unread[0];
    assert_eq!((unread.line, unread.text.as_str()), (1, "nonsense"));
    world.service.refuses = None;
    assert_eq!(world.run(1, &log, |_| {}).totals.counted, 2);
    // The lines of the second run are numbered from the beginning of the file.
    world.service.refuses = Some(|_| Some("invalid-id"));
    let more = world.run(1, &[log.as_str(), &line("/z", 200)].concat(), |_| {});
    assert_eq!(more.totals.refused[0].line, 5);
}

#[test]
fn what_does_not_answer_is_tried_fifty_times_and_keeps_its_key() {
    let mut world = world();
    world.service.refuses = Some(|_| Some("unavailable"));
    let import = world.run(1, &line("/a", 200), |_| {});
    assert_eq!(
        (import.totals.rejected["unavailable"], world.service.bodies),
        (1, 51)
    );
    world.service.refuses = None;
    assert_eq!(world.run(1, &line("/a", 200), |_| {}).totals.counted, 1);
}

#[test]
fn a_line_ahead_of_the_servers_clock_waits_for_a_minute_at_most() {
    let world = world();
    let mut import = world.import(|_| {}, false);
    let log = line("/a", 200);
    world
        .host
        .files
        .borrow_mut()
        .insert(1, log.clone().into_bytes());
    let source = LogSource {
        number: 1,
        name: "a.log".into(),
        path: "/a".into(),
        ino: "1".into(),
        ..LogSource::default()
    };
    let job = import.open(source, false);
    import.look(job, log.as_bytes());
    import.begin(&world.host, job, false).unwrap();
    import.start(&world.host, job, false).unwrap();
    import.push(job, log.as_bytes());
    import.ends(job, LogEnding::Unfinished);
    let part = import.next(&world.host, job).unwrap().unwrap();
    let host: &dyn ImportHost = &world.host;
    let of = (host, job, part);
    let late_ms = NOW_MS - 30_000;
    assert!(matches!(
        import.step(of, (late_ms, false)),
        Step::Send { .. }
    ));
    let detail = "the record's time is 30000 ms ahead of the clock here, 5000 ms are allowed";
    let report = json!({
        "rejected_lines": [{"code": "clock-skew", "lines": "1"}],
        "errors": [{"line": 1, "code": "clock-skew", "detail": detail}],
    });
    import.answered(of, late_ms, &serde_json::from_value(report).unwrap(), false);
    assert_eq!(
        import.step(of, (late_ms, false)),
        Step::Wait { ms: 1_000, held: 1 }
    );
    // Nothing is sent before the server's clock is there.
    assert_eq!(
        import.step(of, (late_ms + 25_900, false)),
        Step::Wait { ms: 100, held: 1 }
    );
    assert!(matches!(
        import.step(of, (late_ms + 26_000, false)),
        Step::Send { .. }
    ));
}

#[test]
fn a_file_that_cannot_be_told_from_another_is_named() {
    let mut world = world();
    let log = line("/a", 200).repeat(3);
    world.run(1, &log, |_| {});
    let tail = log.as_bytes().to_vec();
    let neighbor = Neighbor {
        path: "/1.log".into(),
        is_packed: false,
        tail: Some(tail),
    };
    *world.host.neighbor.borrow_mut() = Some(neighbor);
    let mut import = world.import(|_| {}, false);
    let failure = world
        .file(
            &mut import,
            2,
            [log.as_str(), &line("/b", 200)].concat().as_bytes(),
        )
        .unwrap_err();
    assert_eq!(failure.exit, Exit::Partly);
    assert!(
        failure
            .message
            .contains("2.log begins with the same bytes as /1.log"),
        "{}",
        failure.message
    );
    let mut again = world.import(|_| {}, true);
    world.file(&mut again, 2, log.as_bytes()).unwrap();
    assert_eq!((again.totals.counted, world.sum()), (3, 6));
}

/// A tar archive of one log.
fn tar() -> Vec<u8> {
    let mut tar = b"access.log".to_vec();
    tar.resize(257, 0);
    tar.extend_from_slice(b"ustar\x0000");
    tar.resize(512, 0);
    tar.extend_from_slice([line("/a", 200), line("/b", 200)].concat().as_bytes());
    tar
}

#[test]
fn a_tar_archive_holds_no_lines_of_an_export_or_a_list_either() {
    let tar = tar();
    let failure = Values::new("create", "").push(&tar, "x.tar").unwrap_err();
    assert!(
        failure.message.starts_with("x.tar is a tar archive"),
        "{}",
        failure.message
    );
    let failure = Values::new("create", "")
        .list(&String::from_utf8_lossy(&tar))
        .unwrap_err();
    assert!(
        failure.message.starts_with("the list is a tar archive"),
        "{}",
        failure.message
    );
}

#[test]
fn a_file_that_is_no_log_says_what_it_is() {
    let tar = tar();
    for (bytes, said) in [
        (&b""[..], "1.log is empty"),
        (b"\xef\xbb\xbf", "1.log holds a byte order mark alone"),
        (b"\n\r\n  \n", "1.log holds blank lines alone"),
        (
            b"GET /a\rGET /b\r",
            "1.log: its lines end in carriage returns alone; convert it by `tr '\\r' '\\n'`",
        ),
        (
            b"hello\nworld\n",
            "1.log: no format fits its first lines; name it by --format (logpush, ",
        ),
        (b"\xff\xfea\0", "1.log is UTF-16"),
        (b"a\0b\0c\0\n\0", "1.log is UTF-16"),
        (
            &tar,
            "1.log is a tar archive, which is not read here: unpack",
        ),
        (
            b"{\"id\":\"a\",\"value\":1}\n",
            "1.log is an export of Tally: import it with --format tally",
        ),
        (
            b"\xef\xbb\xbf{\"policy\":\"a\",\"body\":{}}\n",
            "1.log is an export of Tally",
        ),
        (
            b"{\"end\":true,\"counters\":0,\"complete\":true}\n",
            "1.log is an export of Tally",
        ),
        (
            b"{\"id\":\"1\",\"message\":\"GET /\"}\n",
            "1.log: no format fits its first lines",
        ),
        (
            b"{\"id\":\"req1\",\"method\":\"GET\",\"url\":\"/api\",\"status\":200}\n",
            "1.log: no format fits its first lines",
        ),
        (
            b"{\"policy\":\"a\",\"verdict\":1}\n",
            "1.log: no format fits its first lines",
        ),
    ] {
        let mut world = world();
        let mut import = world.import(|_| {}, false);
        let failure = world.file(&mut import, 1, bytes).unwrap_err();
        assert!(failure.message.starts_with(said), "{}", failure.message);
    }
}

#[test]
fn a_file_that_is_no_log_from_a_line_on_is_named_and_the_lines_before_count() {
    let mut world = world();
    let mut import = world.import(|_| {}, false);
    let endless = vec![b'x'; 4 * PART_BYTES_MAX + 1];
    let text = [line("/a", 200).into_bytes(), endless].concat();
    let failure = world.file(&mut import, 1, &text).unwrap_err();
    assert_eq!(failure.exit, Exit::Partly);
    let said =
        "1.log: a line has more than 16 MiB: this is no log; the lines before it are counted";
    assert_eq!(failure.message, said);
    assert_eq!(world.sum(), 1);
}

#[test]
fn rewrites_are_the_callers_and_ids_are_theirs() {
    let mut world = world();
    let change = |it: &mut CountSettings| it.rewrites = vec![("/old/".into(), "/new/".into())];
    world.run(1, &line("/old/x", 200), change);
    assert_eq!(world.service.counts.keys().collect::<Vec<_>>(), ["/new/x"]);
}

#[test]
fn ranges_of_lines_end_with_the_body() {
    assert_eq!(lines_of("3,5-7", 9).collect::<Vec<_>>(), [3, 5, 6, 7]);
    assert_eq!(lines_of("3-4000000000", 5).collect::<Vec<_>>(), [3, 4, 5]);
    assert_eq!(lines_of("x,-", 5).count(), 0);
}
