//! Laws: replies come in the order of their commands; commands about the connection take effect before the next one; a
//! client that is not known runs nothing.

use tally_redis::request::CommandBatch;
use tally_resp::connection::{Connection, shapes_of};
use tally_resp::step::{ConnectionStep, OUTPUT_BYTES_MAX, Owed};
use tally_wire::redis::Reply;

fn bytes_of(commands: &[&str]) -> Vec<u8> {
    let encoded = commands.iter().map(|command| {
        let words: Vec<&str> = command.split(' ').collect();
        let parts = words
            .iter()
            .map(|word| format!("${}\r\n{word}\r\n", word.len()));
        format!("*{}\r\n{}", words.len(), parts.collect::<String>())
    });
    encoded.collect::<String>().into_bytes()
}

/// A client of a service with one key, and what its commands are answered.
struct Client {
    connection: Connection,
    key: Option<&'static str>,
    /// The commands that ran, each batch by itself.
    ran: Vec<Vec<String>>,
    /// How many bytes were sent before the end of what arrived together.
    sent: Vec<usize>,
    is_closed: bool,
    /// Bytes that have arrived and are not taken yet.
    inbox: Vec<u8>,
}

impl Client {
    fn new(key: Option<&'static str>) -> Self {
        Self {
            connection: Connection::new(7, "127.0.0.1:5".to_owned()),
            key,
            ran: Vec::new(),
            sent: Vec::new(),
            is_closed: false,
            inbox: Vec::new(),
        }
    }

    fn check(&self, sent: Option<&str>) -> Result<(), String> {
        match (self.key, sent) {
            (None, _) => Ok(()),
            (Some(key), Some(sent)) if key == sent => Ok(()),
            (_, None) => Err("NOAUTH Authentication required.".to_owned()),
            _ => Err("WRONGPASS invalid".to_owned()),
        }
    }

    fn step(&mut self, step: ConnectionStep) {
        let sent = self.connection.key().map(str::to_owned);
        match step {
            ConnectionStep::Prove => {
                let outcome = self.check(sent.as_deref());
                self.connection.proved(outcome);
            }
            ConnectionStep::Authenticate(login) => {
                let outcome = self.check(Some(&login.key));
                self.connection.authenticated(login, outcome);
            }
            ConnectionStep::Run(CommandBatch {
                commands,
                is_transaction,
            }) => {
                let shapes = shapes_of(&commands);
                let outcome = self.check(sent.as_deref()).map(|()| {
                    self.ran
                        .push(commands.iter().map(|args| args.join(" ")).collect());
                    commands
                        .iter()
                        .map(|args| Reply::text(args.join("_")))
                        .collect()
                });
                self.connection.ran(&shapes, is_transaction, outcome);
            }
            ConnectionStep::Listen(stream) => self.connection.listening(&stream, Ok(())),
            ConnectionStep::Send => self.sent.push(self.connection.take_output().len()),
            ConnectionStep::Unlisten => {}
            ConnectionStep::Close => self.is_closed = true,
        }
    }

    /// The replies to these bytes, with `|` for the end of a line.
    fn say_bytes(&mut self, bytes: &[u8]) -> String {
        self.inbox.extend_from_slice(bytes);
        loop {
            let taken = self.connection.receive(&self.inbox);
            self.inbox.drain(..taken);
            match self.connection.step() {
                Some(step) => self.step(step),
                None if taken == 0 => break,
                None => {}
            }
            if self.is_closed {
                break;
            }
        }
        let output = self.connection.take_output();
        String::from_utf8(output)
            .expect("text")
            .replace("\r\n", "|")
    }

    fn say(&mut self, commands: &[&str]) -> String {
        self.say_bytes(&bytes_of(commands))
    }
}

#[test]
fn commands_that_arrive_together_run_together_and_are_replied_in_order() {
    let mut client = Client::new(None);
    client.say(&["PING"]);
    client.ran.clear();
    let said = client.say(&["GET a", "GET b", "CLIENT ID", "GET c", "NOPE", "GET d"]);
    assert_eq!(said, "$5|GET_a|$5|GET_b|:7|$5|GET_c|$4|NOPE|$5|GET_d|");
    assert_eq!(
        client.ran,
        [vec!["GET a", "GET b"], vec!["GET c", "NOPE", "GET d"]]
    );
    let many = vec!["GET a"; 1_001];
    client.say(&many);
    assert_eq!(
        client.ran[2..].iter().map(Vec::len).collect::<Vec<_>>(),
        [1_000, 1]
    );
}

#[test]
fn a_client_that_is_not_known_runs_nothing() {
    let mut client = Client::new(Some("secret"));
    let no = "-NOAUTH Authentication required.|";
    for command in [
        "GET a",
        "CLIENT ID",
        "COMMAND COUNT",
        "SELECT 0",
        "MULTI",
        "SUBSCRIBE __keyspace@0__:a",
    ] {
        assert_eq!(client.say(&[command]), no, "{command}");
    }
    assert!(
        client
            .say(&["HELLO 3"])
            .starts_with("-NOAUTH HELLO must be called")
    );
    assert_eq!(client.say(&["AUTH wrong"]), "-WRONGPASS invalid|");
    assert_eq!(
        client.say(&["HELLO 3 AUTH default wrong"]),
        "-WRONGPASS invalid|"
    );
    assert_eq!(client.say(&["GET a"]), no);
    assert_eq!(
        client.say(&["AUTH"]),
        "-ERR wrong number of arguments for 'auth' command|"
    );
    assert_eq!(client.say(&["AUTH a b c"]), "-ERR syntax error|");
    assert_eq!(client.ran, Vec::<Vec<String>>::new());
    // The protocol is what it was.
    assert_eq!(
        client.say(&["AUTH default secret", "GET a", "CLIENT GETNAME"]),
        "+OK|$5|GET_a|$-1|"
    );
    assert_eq!(client.say(&["RESET", "GET a"]), format!("+RESET|{no}"));
    let greeted = client.say(&["HELLO 3 AUTH any secret SETNAME me", "CLIENT GETNAME"]);
    assert!(
        greeted.starts_with("%7|$6|server|$5|tally|$7|version|"),
        "{greeted}"
    );
    assert!(greeted.contains(
        "|$5|proto|:3|$2|id|:7|$4|mode|$10|standalone|$4|role|$6|master|$7|modules|*0|$2|me|"
    ));
}

#[test]
fn greetings_that_may_not_be_are_refused_and_change_nothing() {
    let mut client = Client::new(None);
    for (command, refusal) in [
        ("HELLO 4", "-NOPROTO unsupported protocol version|"),
        (
            "HELLO x",
            "-ERR Protocol version is not an integer or out of range|",
        ),
        (
            "HELLO 3 AUTH a",
            "-ERR Syntax error in HELLO option 'AUTH'|",
        ),
        ("HELLO 3 NOPE", "-ERR Syntax error in HELLO option 'NOPE'|"),
        (
            "HELLO 3 SETNAME é",
            "-ERR Client names cannot contain spaces, newlines or special characters.|",
        ),
    ] {
        assert_eq!(client.say(&[command]), refusal, "{command}");
    }
    assert!(client.say(&["HELLO"]).contains("$5|proto|:2|"));
    assert!(client.say(&["HELLO 2"]).starts_with("*14|$6|server|"));
    assert!(client.say(&["HELLO 3"]).starts_with("%7|"));
    assert!(client.say(&["HELLO"]).contains("$5|proto|:3|"));
}

#[test]
fn a_transaction_runs_at_once_or_not_at_all() {
    let mut client = Client::new(None);
    let said = client.say(&["MULTI", "INCR a", "SET a b", "GET c", "EXEC"]);
    assert_eq!(
        said,
        "+OK|+QUEUED|+QUEUED|+QUEUED|*3|$6|INCR_a|+SET_a_b|$5|GET_c|"
    );
    assert_eq!(client.ran, [["INCR a", "SET a b", "GET c"]]);
    client.ran.clear();
    let aborted = "-EXECABORT Transaction discarded because of previous errors.|";
    let said = client.say(&["MULTI", "NOPE", "GET a", "EXEC"]);
    assert!(
        said.starts_with("+OK|-ERR unknown command 'NOPE'"),
        "{said}"
    );
    assert!(said.ends_with(&format!("|+QUEUED|{aborted}")), "{said}");
    let said = client.say(&["MULTI", "GET", "EXEC"]);
    assert_eq!(
        said,
        format!("+OK|-ERR wrong number of arguments for 'get' command|{aborted}")
    );
    let said = client.say(&["MULTI", "CLIENT ID", "EXEC"]);
    assert_eq!(
        said,
        format!("+OK|-ERR Command not allowed inside a transaction|{aborted}")
    );
    let said = client.say(&["MULTI", "GET a", "DISCARD", "EXEC", "DISCARD"]);
    assert_eq!(
        said,
        "+OK|+QUEUED|+OK|-ERR EXEC without MULTI|-ERR DISCARD without MULTI|"
    );
    let said = client.say(&["MULTI", "MULTI", "WATCH a", "EXEC"]);
    assert_eq!(
        said,
        "+OK|-ERR MULTI calls can not be nested|-ERR WATCH inside MULTI is not allowed|*0|"
    );
    assert_eq!(client.ran, [Vec::<String>::new()]);
    assert!(
        client
            .say(&["WATCH a"])
            .starts_with("-ERR WATCH is not offered here")
    );
    assert_eq!(client.say(&["UNWATCH"]), "+OK|");
    let mut long = vec!["MULTI"];
    long.extend(vec!["GET a"; 1_001]);
    long.push("EXEC");
    let said = client.say(&long);
    assert!(said.ends_with(&format!(
        "-ERR a transaction has at most 1000 commands|{aborted}"
    )));
}

#[test]
fn the_connection_says_what_it_is() {
    let mut client = Client::new(None);
    assert_eq!(
        client.say(&["CLIENT SETNAME me", "CLIENT GETNAME", "client id"]),
        "+OK|$2|me|:7|"
    );
    assert_eq!(
        client.say(&[
            "CLIENT SETINFO lib-name ioredis",
            "CLIENT SETINFO LIB-VER 5"
        ]),
        "+OK|+OK|"
    );
    let info = client.say(&["CLIENT INFO"]);
    assert!(info.contains("|id=7 addr=127.0.0.1:5 name=me db=0 sub=0 psub=0 multi=-1 resp=2 lib-name=ioredis lib-ver=5\n|"), "{info}");
    for (command, refusal) in [
        (
            "CLIENT",
            "-ERR wrong number of arguments for 'client' command|",
        ),
        (
            "CLIENT SETINFO other x",
            "-ERR Unrecognized option 'other'|",
        ),
        ("SELECT 1", "-ERR DB index is out of range|"),
        ("SELECT x", "-ERR value is not an integer or out of range|"),
        (
            "SELECT",
            "-ERR wrong number of arguments for 'select' command|",
        ),
    ] {
        assert_eq!(client.say(&[command]), refusal, "{command}");
    }
    assert!(
        client
            .say(&["CLIENT KILL x"])
            .starts_with("-ERR unknown subcommand 'KILL'")
    );
    assert_eq!(client.say(&["SELECT 0"]), "+OK|");
    assert_eq!(client.say(&["QUIT", "GET a"]), "+OK|");
    assert!(client.is_closed);
    assert_eq!(client.ran, Vec::<Vec<String>>::new());
}

#[test]
fn commands_are_listed_as_redis_lists_them() {
    let mut client = Client::new(None);
    let count = tally_redis::command::COMMANDS.len();
    assert_eq!(client.say(&["COMMAND COUNT"]), format!(":{count}|"));
    let get = "*10|$3|get|:2|*1|+readonly|:1|:1|:1|*0|*0|*0|*0|";
    assert_eq!(
        client.say(&["COMMAND INFO get nope"]),
        format!("*2|{get}*-1|")
    );
    assert!(
        client
            .say(&["COMMAND"])
            .starts_with(&format!("*{count}|{get}"))
    );
    assert!(
        client
            .say(&["COMMAND LIST"])
            .starts_with(&format!("*{count}|$3|get|"))
    );
    assert!(
        client
            .say(&["COMMAND DOCS zadd"])
            .starts_with("*2|$4|zadd|*6|$7|summary|")
    );
    assert_eq!(
        client.say(&["COMMAND GETKEYS mset a 1 b 2"]),
        "*2|$1|a|$1|b|"
    );
    assert_eq!(
        client.say(&["COMMAND GETKEYS ping"]),
        "-ERR The command has no key arguments|"
    );
    assert!(
        client
            .say(&["COMMAND NOPE"])
            .starts_with("-ERR unknown subcommand 'NOPE'")
    );
    client.say(&["HELLO 3"]);
    assert!(
        client
            .say(&["COMMAND INFO zunion"])
            .starts_with("*1|*10|$6|zunion|:-3|~2|+readonly|+movablekeys|:0|:0|:0|")
    );
    assert!(
        client
            .say(&["COMMAND DOCS"])
            .starts_with(&format!("%{count}|"))
    );
}

#[test]
fn while_it_listens_a_client_of_the_second_version_says_nothing_else() {
    let mut client = Client::new(None);
    let subscribed = "*3|$9|subscribe|$16|__keyspace@0__:a|:1|";
    assert_eq!(client.say(&["SUBSCRIBE __keyspace@0__:a"]), subscribed);
    assert!(client.connection.is_listening());
    for command in ["GET a", "CLIENT ID", "MULTI"] {
        assert!(
            client.say(&[command]).starts_with("-ERR Can't execute '"),
            "{command}"
        );
    }
    assert_eq!(client.say(&["PING"]), "*2|$4|pong|$0||");
    assert_eq!(
        client.say(&["UNSUBSCRIBE", "GET a"]),
        "*3|$11|unsubscribe|$16|__keyspace@0__:a|:0|$5|GET_a|"
    );
    assert!(
        client
            .say(&["SUBSCRIBE news"])
            .starts_with("-ERR messages are not what Tally is for")
    );
    client.say(&["HELLO 3"]);
    let said = client.say(&["PSUBSCRIBE __keyspace@0__:*", "GET a"]);
    assert_eq!(said, ">3|$10|psubscribe|$16|__keyspace@0__:*|:1|$5|GET_a|");
    assert_eq!(client.say(&["RESET", "GET a"]), "+RESET|$5|GET_a|");
    assert!(!client.connection.is_listening());
}

#[test]
fn after_an_error_of_the_protocol_the_connection_ends() {
    let mut client = Client::new(None);
    client.say(&["PING"]);
    let bytes = [
        bytes_of(&["GET a"]),
        b"GET b\r\n".to_vec(),
        bytes_of(&["GET c"]),
    ]
    .concat();
    let said = client.say_bytes(&bytes);
    assert!(said.starts_with("$5|GET_a|-ERR Protocol error: "), "{said}");
    assert!(client.is_closed);
    assert_eq!(client.ran.concat(), ["PING", "GET a"]);
}

#[test]
fn a_word_of_a_client_becomes_no_reply() {
    let mut client = Client::new(None);
    let said = client.say_bytes(b"*2\r\n$6\r\nCLIENT\r\n$9\r\nx\r\n+OK\r\ny\r\n");
    assert_eq!(said.matches('|').count(), 1, "{said}");
}

#[test]
fn a_transaction_that_is_cut_anywhere_runs_nothing() {
    let bytes = bytes_of(&["MULTI", "INCR a", "SET a b", "EXEC"]);
    for cut in 0..bytes.len() {
        let mut client = Client::new(None);
        let said = client.say_bytes(&bytes[..cut]);
        assert!(client.ran.is_empty(), "{cut} bytes ran {:?}", client.ran);
        // Another connection has no part of it.
        let mut other = Client::new(None);
        assert_eq!(other.say(&["EXEC"]), "-ERR EXEC without MULTI|");
        // The rest, in a piece of its own, completes it.
        let rest = client.say_bytes(&bytes[cut..]);
        assert_eq!(
            format!("{said}{rest}"),
            "+OK|+QUEUED|+QUEUED|*2|$6|INCR_a|+SET_a_b|"
        );
    }
}

#[test]
fn commands_after_a_login_wait_for_it_and_those_after_a_wrong_one_run_nothing() {
    let mut client = Client::new(Some("secret"));
    let said = client.say(&["AUTH wrong", "INCR a", "MULTI", "INCR a", "EXEC"]);
    assert!(said.starts_with("-WRONGPASS"), "{said}");
    assert_eq!(said.matches("-NOAUTH").count(), 4, "{said}");
    assert!(client.ran.is_empty());
    let said = client.say(&["AUTH secret", "INCR a"]);
    assert_eq!(said, "+OK|$6|INCR_a|");
    // After RESET the client is a stranger again.
    let said = client.say(&["RESET", "INCR a"]);
    assert!(said.starts_with("+RESET|-NOAUTH"), "{said}");
    assert_eq!(client.ran, [["INCR a"]]);
    let said = client.say(&["AUTH secret", "RESET", "CLIENT ID"]);
    assert!(said.starts_with("+OK|+RESET|-NOAUTH"), "{said}");
    assert!(!client.connection.is_known());
}

#[test]
fn long_replies_to_short_commands_are_sent_before_more_are_written() {
    let mut client = Client::new(None);
    client.say(&["PING"]);
    let many = bytes_of(&["COMMAND DOCS"]).repeat(1_000);
    client.say_bytes(&many);
    let (longest, all) = (client.sent.iter().max(), client.sent.iter().sum::<usize>());
    assert!(all > 1_000_000);
    assert!(longest.is_some_and(|longest| *longest < 2 * OUTPUT_BYTES_MAX));
}

#[test]
fn a_client_owes_an_admitted_command_and_then_the_rest_of_what_it_began() {
    let mut client = Client::new(Some("secret"));
    assert_eq!(client.connection.owed(false), Some(Owed::Admission));
    let mut nothing = Connection::new(1, String::new());
    nothing.give_up(Owed::Admission, false, 60);
    assert_eq!(nothing.output_bytes(), 0);
    nothing.give_up(Owed::Admission, true, 60);
    assert!(nothing.output_bytes() > 0);
    client.say(&["GET a"]);
    client.say(&["AUTH guess"]);
    assert_eq!(client.connection.owed(false), Some(Owed::Admission));
    client.connection.give_up(Owed::Admission, false, 60);
    assert!(
        client
            .say_bytes(b"")
            .starts_with("-ERR no command was admitted within 60 s")
    );
    client.say(&["AUTH secret"]);
    assert_eq!(client.connection.owed(false), None);
    // The head of a command that is not complete is not taken.
    client.say_bytes(b"*");
    let begun = client.connection.owed(true);
    assert!(matches!(begun, Some(Owed::Rest(_))));
    client.say_bytes(b"2\r\n$3\r\nGET\r\n");
    assert_eq!(client.connection.owed(false), begun);
    assert!(client.connection.held_bytes() > 0);
    client.say_bytes(b"$1\r\na\r\n");
    assert_eq!(client.connection.owed(false), None);
    assert_eq!(client.connection.held_bytes(), 0);
    client.say_bytes(b"*2\r\n");
    assert_ne!(client.connection.owed(false), begun);
    client.connection.give_up(Owed::Rest(3), false, 60);
    assert!(
        client
            .say_bytes(b"")
            .starts_with("-ERR a command did not arrive within 60 s")
    );
}

#[test]
fn a_transaction_has_so_many_words() {
    let mut client = Client::new(None);
    client.say(&["PING", "MULTI"]);
    let many = format!("DEL{}", " a".repeat(60_000));
    assert_eq!(client.say(&[&many]), "+QUEUED|");
    assert!(client.connection.held_bytes() > 60_000 * 24);
    assert_eq!(
        client.say(&[&many]),
        "-ERR a transaction has at most 100000 words|"
    );
    assert_eq!(client.connection.held_bytes(), 0);
    assert!(client.say(&["EXEC"]).starts_with("-EXECABORT"));
}
