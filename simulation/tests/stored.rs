//! Bodies at rest in a whole service: what has changed bits is refused and never told wrongly, and so is
//! what another schema has.

use serde_json::{Value, json};
use tally_host::object::SqlValue;
use tally_simulation::{Client, ClientRequest, Options, World, admin, deployed};
use tally_wire::names::Placement;
use tally_wire::stored::{FIRST, framed};

/// Rows of one table and kind whose bits are changed: the others are read by the same code.
const ROWS_OF_A_KIND: usize = 2;

fn ask(world: &World, client: &Client, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let key = format!("{path}-{}", body.to_string().len());
    let mut request = ClientRequest::new(method, path);
    // Under a key the first reply would be told, whatever became of the value.
    if !path.starts_with("/redis/get/") {
        request = request.header("idempotency-key", &key);
    }
    if !body.is_null() {
        request = request.body(body.to_string().into_bytes());
    }
    let answer = world.run(client.ask(request)).expect("no fault");
    let json = match answer.text().starts_with(['{', '[']) {
        true => answer.json(),
        false => Value::String(answer.text()),
    };
    (answer.status, json)
}

/// What deliveries of an alert are signed with: 32 bytes in base64.
const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// One of everything that is stored.
fn write_all(world: &World, client: &Client) {
    let month = json!({"limit": 100, "window_seconds": 2_592_000, "durability": "commit"});
    let writes = [
        (
            "POST",
            "/counters/site/increment",
            json!({"delta": 5, "unique": "ann", "sample": 12.5, "by": {"page": "a"}}),
        ),
        ("PUT", "/counters/sharded", json!({"shards": 4})),
        ("POST", "/counters/plain/increment", json!({"delta": 7})),
        ("PUT", "/counters/set/value", json!({"value": 70})),
        ("PUT", "/limits/api", month.clone()),
        ("POST", "/limits/api/ann", json!({"cost": 3})),
        ("PUT", "/boards/game", json!({"keep": "best"})),
        ("POST", "/boards/game/members/ann", json!({"score": 9})),
        ("POST", "/redis", json!(["SET", "text", "a value"])),
        ("POST", "/shares", json!({"prefix": "site"})),
        ("POST", "/keys", json!({"name": "ann", "scopes": ["read"]})),
        (
            "PUT",
            "/alerts/many",
            // Of a counter that nothing else here disturbs.
            json!({
                "counter": "nobody", "when": {"value": {"above": 5}},
                "webhook": "https://hooks.example.com/", "secret": SECRET
            }),
        ),
        ("POST", "/alerts/many/test", Value::Null),
        (
            "POST",
            "/api/event",
            json!({"key": "queued", "increment": 4}),
        ),
    ];
    for (method, path, body) in &writes {
        let (status, answer) = ask(world, client, method, path, body);
        assert!(status < 300, "{method} {path}: {status} {answer}");
    }
    for number in 1..12 {
        let body = json!({"delta": 1, "unique": "u".repeat(number)});
        let path = "/counters/sharded/increment";
        let (status, answer) = ask(world, client, "POST", path, &body);
        assert!(status < 300, "{answer}");
    }
    let read = "/api/counter?key=queued&consistency=strong";
    assert_eq!(ask(world, client, "GET", read, &Value::Null).0, 200);
}

const READS: [&str; 18] = [
    "/counters/site?consistency=strong",
    "/counters/site?consistency=strong&window=600",
    "/counters/site/history?step=1m",
    "/counters/site/distribution?consistency=strong&window=600",
    "/counters/site/breakdown?by=page&consistency=strong",
    "/counters/sharded?consistency=strong",
    "/counters/plain?consistency=strong",
    "/counters/set?consistency=strong",
    "/counters?prefix=&values=1",
    "/top?by=value",
    "/limits/api",
    "/limits/api/ann",
    "/boards/game/members",
    "/redis/get/text",
    // It changes nothing, and its reply is stored under a key.
    "/redis/setnx/text/other",
    "/keys",
    "/alerts/many",
    "/alerts/many/deliveries",
];

/// What stays of an answer while nobody writes.
fn lasting(answer: &Value) -> Value {
    match answer {
        Value::Object(members) => members
            .iter()
            .filter(|(name, _)| {
                let moving = [
                    "as_of",
                    "starts_at",
                    "ends_at",
                    "staleness_ms",
                    "exact",
                    "version",
                    "detail",
                    "reset_after_ms",
                ];
                !moving.contains(&name.as_str())
            })
            .map(|(name, value)| (name.clone(), lasting(value)))
            .collect(),
        Value::Array(items) => items.iter().map(lasting).collect(),
        other => other.clone(),
    }
}

fn read_all(world: &World, client: &Client) -> Vec<(u16, Value)> {
    let read = |path: &&str| {
        let (status, answer) = ask(world, client, "GET", path, &Value::Null);
        (status, lasting(&answer))
    };
    READS.iter().map(read).collect()
}

/// A body: where it is, of which kind, and its bytes.
struct Stored {
    of: Placement,
    table: String,
    column: &'static str,
    kind: String,
    bytes: Vec<u8>,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bodies(world: &World) -> Vec<Stored> {
    let mut bodies: Vec<Stored> = Vec::new();
    for (binding, name, _, _) in world.objects() {
        let of = Placement {
            binding,
            name,
            location_hint: None,
        };
        let tables = "SELECT name FROM sqlite_master WHERE type = 'table'";
        for row in world.look(&of, tables).into_iter().flatten() {
            let Some(SqlValue::Text(table)) = row.first() else {
                continue;
            };
            for column in ["body", "done", "answer", "reply"] {
                let kind = match (binding, table.as_str()) {
                    ("CELLS", "rows") => "CAST(kind AS TEXT)",
                    ("TABLETS", "rows") => "hex(substr(key, 1, 1))",
                    _ => "''",
                };
                let rows = format!("SELECT {column}, {kind} FROM {table}");
                for row in world.look(&of, &rows).into_iter().flatten() {
                    if let [SqlValue::Blob(bytes), SqlValue::Text(kind)] = row.as_slice() {
                        bodies.push(Stored {
                            of: of.clone(),
                            table: table.clone(),
                            column,
                            kind: kind.clone(),
                            bytes: bytes.clone(),
                        });
                    }
                }
            }
        }
    }
    bodies
}

impl Stored {
    fn replace(&self, world: &World, from: &[u8], to: &[u8]) {
        let Self { table, column, .. } = self;
        let (from, to) = (hex(from), hex(to));
        let update = format!("UPDATE {table} SET {column} = x'{to}' WHERE {column} = x'{from}'");
        assert!(world.look(&self.of, &update).is_some(), "{update}");
    }
}

/// A body of which no bit was changed, and its kind. The last names first: those are the counters that are read. Bodies
/// are looked for anew each time, since some are written meanwhile.
fn next_body(world: &World, seen: &[(String, Vec<u8>)]) -> Option<(String, Stored)> {
    let kind_of = |body: &Stored| {
        let Stored {
            of,
            table,
            column,
            kind,
            ..
        } = body;
        format!("{} {table}.{column} {kind}", of.binding)
    };
    let all = bodies(world).into_iter().rev();
    let mut all = all.map(|body| (kind_of(&body), body));
    all.find(|(kind, body)| {
        let of_kind: Vec<_> = seen.iter().filter(|(known, _)| known == kind).collect();
        of_kind.len() < ROWS_OF_A_KIND && of_kind.iter().all(|(_, bytes)| *bytes != body.bytes)
    })
}

/// Changes a bit of each kind of body, one after the other. `read`: kinds that these reads must refuse.
fn every_changed_bit_is_found(tablets: Option<&str>, read: &[&str]) {
    let world = deployed(7, Options::default());
    world.set("TALLY_TABLETS", tablets);
    world.set("TALLY_REDIS", Some("1"));
    let client = admin(&world, world.site("FRA", 1));
    write_all(&world, &client);
    world.run_for_ms(120_000);
    world.restart(1_000);
    let before = read_all(&world, &client);
    for ((status, answer), path) in before.iter().zip(READS) {
        assert_eq!(*status, 200, "{path}: {answer}");
    }
    world.restart(1_000);
    let (mut seen, mut refused) = (Vec::new(), Vec::new());
    while let Some((kind, body)) = next_body(&world, &seen) {
        seen.push((kind.clone(), body.bytes.clone()));
        let bit = usize::try_from(
            world
                .chance()
                .below(u64::try_from(8 * body.bytes.len()).expect("few")),
        )
        .expect("a bit");
        let mut changed = body.bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        body.replace(&world, &body.bytes, &changed);
        let after = read_all(&world, &client);
        for (index, path) in READS.iter().enumerate() {
            match after[index].0 {
                503 => refused.push((kind.clone(), *path)),
                // A list names the partitions that it lacks.
                _ if after[index].1.get("missing_partitions").is_some() => {
                    refused.push((kind.clone(), *path));
                }
                _ => assert_eq!(
                    after[index], before[index],
                    "{path} with bit {bit} of a body of {kind} changed"
                ),
            }
        }
        world.restart(1_000);
        body.replace(&world, &changed, &body.bytes);
    }
    for kind in read {
        assert!(
            refused.iter().any(|(of, _)| of == kind),
            "{kind} is read by none of these"
        );
    }
    let after = read_all(&world, &client);
    assert_eq!(after, before, "all was put back");
}

const READ: [&str; 10] = [
    "BOARDS board.body ",
    "DIRECTORY alert_deliveries.body ",
    "DIRECTORY alerts.body ",
    "DIRECTORY api_keys.body ",
    "DIRECTORY policies.body ",
    "DIRECTORY roots.body ",
    "DIRECTORY totals.body ",
    "KEYSPACES keys.body ",
    "KEYSPACES tries.reply ",
    "LIMITERS limits.body ",
];

/// Golden: what is stored of keys of Redis's dialect and of replies to tries that have a name. A board's members and a
/// counter's unique elements lie in rows of their own.
#[test]
fn golden_bytes_of_keys() {
    let world = deployed(12, Options::default());
    let client = admin(&world, world.site("FRA", 1));
    let commands = [
        json!(["SET", "text", "a value"]),
        json!(["SET", "number", "5", "PXAT", "2000000000000"]),
        json!(["HSET", "hash", "field", "1", "other", ""]),
        json!(["SADD", "set", "b", "a"]),
        json!(["INCR", "counter"]),
        json!(["PEXPIREAT", "counter", "2000000000000"]),
        json!(["GET", "nothing"]),
        json!(["HGETALL", "hash"]),
        json!(["INCR", "text"]),
    ];
    for command in &commands {
        let request = ClientRequest::new("POST", "/redis").body(command.to_string().into_bytes());
        let name = command.to_string().replace(' ', "-");
        let pending = client.ask(request.header("idempotency-key", &name));
        world.run(pending).expect("no fault");
    }
    let (binding, name) = ("KEYSPACES", "all");
    let all = world.objects();
    let known = all.iter().find(|known| known.0 == binding);
    let of = Placement {
        binding,
        name: known.map_or(name.to_owned(), |known| known.1.clone()),
        location_hint: None,
    };
    let rows = "SELECT key, body, expires_ms FROM keys ORDER BY key";
    let end = SqlValue::Integer(2_000_000_000_000);
    let keys: [(&str, &[u8], &SqlValue); 5] = [
        // A counter, of which the end alone lies here, and its generation after that.
        ("counter", b"\x00\x01\x00\xcd\xd0\xea\xb6\xb7\x33", &end),
        (
            "hash",
            b"\x01\x01\x02\x05field\x011\x05other\x00\x00",
            &SqlValue::Null,
        ),
        ("number", b"\x01\x00\x015\x00", &end),
        ("set", b"\x01\x02\x02\x01a\x01b\x00", &SqlValue::Null),
        ("text", b"\x01\x00\x07a value\x00", &SqlValue::Null),
    ];
    let keys = keys.map(|(key, body, expires_ms)| {
        let body = SqlValue::Blob(framed(body, FIRST));
        vec![SqlValue::Text(key.to_owned()), body, expires_ms.clone()]
    });
    assert_eq!(world.look(&of, rows), Some(keys.to_vec()));
    let rows = "SELECT DISTINCT hex(reply) FROM tries ORDER BY length(reply), reply";
    // Those of commands that may write: no reply of a read is stored.
    let replies: [&[u8]; 4] = [
        b"\x01\x02",
        b"\x01\x04",
        b"\x02\x02OK",
        b"\x04\x2bERR value is not an integer or out of range",
    ];
    let mut replies = replies.map(|reply| hex(&framed(reply, FIRST)).to_uppercase());
    replies.sort_by_key(|reply| (reply.len(), reply.clone()));
    let replies = replies.map(|reply| vec![SqlValue::Text(reply)]);
    assert_eq!(world.look(&of, rows), Some(replies.to_vec()));
}

#[test]
fn every_changed_bit_of_objects_of_their_own_is_found() {
    let cells = [0, 1, 6, 9, 10, 14].map(|kind| format!("CELLS rows.body {kind}"));
    let cells = cells.iter().map(String::as_str);
    every_changed_bit_is_found(None, &cells.chain(READ).collect::<Vec<_>>());
}

#[test]
fn every_changed_bit_of_tablets_is_found() {
    let rows = ["00", "01", "06", "09", "0A", "0E"].map(|kind| format!("TABLETS rows.body {kind}"));
    let rows = rows.iter().map(String::as_str);
    every_changed_bit_is_found(Some("2"), &rows.chain(READ).collect::<Vec<_>>());
}

#[test]
fn a_changed_bit_of_a_tablets_log_is_found() {
    let world = deployed(8, Options::default());
    world.set("TALLY_TABLETS", Some("1"));
    let client = admin(&world, world.site("FRA", 1));
    let (status, _) = ask(
        &world,
        &client,
        "POST",
        "/counters/plain/increment",
        &json!({"delta": 7}),
    );
    assert_eq!(status, 200);
    world.restart(1_000);
    let bodies = bodies(&world);
    let log = bodies
        .iter()
        .find(|body| body.table == "log")
        .expect("it is not folded yet");
    let mut changed = log.bytes.clone();
    *changed.last_mut().expect("a byte") ^= 1;
    log.replace(&world, &log.bytes, &changed);
    let path = "/counters/plain?consistency=strong";
    let (status, answer) = ask(&world, &client, "GET", path, &Value::Null);
    assert_eq!(status, 503, "{answer}");
    assert!(answer["detail"].to_string().contains("damaged"), "{answer}");
    // It is named.
    let (status, health) = ask(&world, &client, "GET", "/healthz", &Value::Null);
    assert_eq!(status, 503, "{health}");
    assert!(health["detail"].to_string().contains("damaged"), "{health}");
    let (_, metrics) = ask(&world, &client, "GET", "/metrics", &Value::Null);
    let metrics = metrics.as_str().expect("a text");
    assert!(
        !metrics.contains("\ntally_unreadable_total 0\n")
            || !metrics.contains("\ntally_objects_unreadable_total 0\n")
    );
    assert!(world.errors().iter().any(|line| line.contains("damaged")));
    // Nothing is counted on top of what cannot be read.
    let write = json!({"delta": 1});
    let (status, _) = ask(&world, &client, "POST", "/counters/plain/increment", &write);
    assert_eq!(status, 503);
    world.restart(1_000);
    log.replace(&world, &changed, &log.bytes);
    let (status, answer) = ask(&world, &client, "GET", path, &Value::Null);
    assert_eq!((status, &answer["value"]), (200, &json!(7)));
}

/// The newest schema of each object.
fn schemas(world: &World) -> Vec<(Placement, i64)> {
    let mut schemas = Vec::new();
    for (binding, name, _, _) in world.objects() {
        let of = Placement {
            binding,
            name,
            location_hint: None,
        };
        let rows = world.look(&of, "SELECT MAX(version) FROM tally_schema");
        if let Some([SqlValue::Integer(version)]) = rows.iter().flatten().next().map(Vec::as_slice)
        {
            schemas.push((of, *version));
        }
    }
    schemas
}

#[test]
fn a_newer_schema_is_named_and_refused() {
    let world = deployed(10, Options::default());
    let client = admin(&world, world.site("FRA", 1));
    let write = json!({"delta": 7});
    let path = "/counters/plain/increment";
    assert_eq!(ask(&world, &client, "POST", path, &write).0, 200);
    let (status, health) = ask(&world, &client, "GET", "/healthz", &Value::Null);
    assert_eq!((status, &health["status"]), (200, &json!("ok")));
    assert_eq!(health["build"], env!("CARGO_PKG_VERSION"));
    assert_eq!(
        health["formats"],
        json!({"schema": 6, "body": 1, "protocol": 3})
    );
    world.restart(1_000);
    for (of, _) in schemas(&world) {
        let update = "INSERT INTO tally_schema VALUES (99)";
        assert!(world.look(&of, update).is_some());
    }
    let read = ask(
        &world,
        &client,
        "GET",
        "/counters/plain?consistency=strong",
        &Value::Null,
    );
    assert_eq!(read.0, 503, "{}", read.1);
    assert_eq!(
        ask(&world, &client, "POST", path, &json!({"delta": 10})).0,
        503
    );
    let (status, health) = ask(&world, &client, "GET", "/healthz", &Value::Null);
    assert_eq!(status, 503);
    assert!(
        health["detail"].to_string().contains("version 99"),
        "{health}"
    );
}
