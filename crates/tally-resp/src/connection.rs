//! The state of a connection, and the commands about it.
//!
//! Invariants: replies are written in the order of their commands. A command about the connection takes effect before
//! the next one is looked at. What the client sends is bounded before it is stored, and more narrowly before it has
//! authenticated.

use std::collections::VecDeque;

use crate::encoder::{Encoder, Protocol};
use crate::framing::{Arrived, CommandBounds, Framing, ProtocolError};
use crate::hello::{Greeting, check_name, has_login, parse_hello};
use crate::own::{Own, own_of};
use crate::shape::{self, Shape, shape_of};
use crate::step::{ConnectionStep, Login, OUTPUT_BYTES_MAX, Owed};
use crate::subscriptions::{Subscriptions, Wanted};
use crate::table;
use crate::transaction::Transaction;
use tally_redis::error;
use tally_redis::notifications::Subscription;
use tally_redis::request::{COMMANDS_MAX, CommandBatch};
use tally_wire::messages::Arguments;
use tally_wire::redis::Reply;

/// Why there is no memory for what a client has sent, or for its replies.
const FULL: &str = "ERR the memory for commands and replies of all clients is full";

/// A connection of a client.
pub struct Connection {
    id: i64,
    peer: String,
    framing: Framing,
    waiting: VecDeque<Arrived>,
    /// How many commands have arrived.
    arrived: u64,
    failed: Option<ProtocolError>,
    out: Encoder,
    key: Option<String>,
    /// Whether the client may run commands, as far as is known: each of them is checked again.
    is_known: bool,
    name: String,
    library: [String; 2],
    transaction: Option<Transaction>,
    subscriptions: Subscriptions,
    /// What the last command that subscribes asks for.
    wanted: Option<Subscription>,
}

impl Connection {
    /// A connection with this number, from this address.
    pub fn new(id: i64, peer: String) -> Self {
        Self {
            id,
            peer,
            framing: Framing::default(),
            waiting: VecDeque::new(),
            arrived: 0,
            failed: None,
            out: Encoder::default(),
            key: None,
            is_known: false,
            name: String::new(),
            library: [String::new(), String::new()],
            transaction: None,
            subscriptions: Subscriptions::default(),
            wanted: None,
        }
    }

    /// The key of the connection.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Whether the client may run commands, as far as is known.
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// Whether the client listens to keys.
    pub fn is_listening(&self) -> bool {
        self.subscriptions.count() > 0
    }

    /// Whether it listens to a channel, or to a pattern, of this stream.
    pub fn is_heard(&self, stream: &Subscription) -> bool {
        self.subscriptions.is_heard(stream)
    }

    /// Takes commands from the beginning of these bytes: all that are complete, as far as they may run together.
    /// Returns how many bytes were taken.
    pub fn receive(&mut self, bytes: &[u8]) -> usize {
        // The bounds of the next command depend on whether this one authenticates.
        let count_max = if self.is_known { COMMANDS_MAX } else { 1 };
        let bounds = CommandBounds::of(self.is_known);
        let mut taken = 0;
        while self.waiting.len() < count_max && self.failed.is_none() {
            let rest = bytes.get(taken..).unwrap_or_default();
            match self.framing.take(rest, bounds) {
                Ok((part, Some(arrived))) => {
                    taken += part;
                    self.arrived = self.arrived.wrapping_add(1);
                    self.waiting.push_back(arrived);
                }
                Ok((part, None)) => return taken + part,
                Err(error) => self.failed = Some(error),
            }
        }
        taken
    }

    /// Takes what is to be sent.
    pub fn take_output(&mut self) -> Vec<u8> {
        self.out.take()
    }

    /// How many bytes are to be sent.
    pub fn output_bytes(&self) -> usize {
        self.out.bytes().len()
    }

    /// What the client has yet to send; `None` where it may be silent. `has_more`: whether bytes have arrived that
    /// [`Connection::receive`] did not take.
    pub fn owed(&self, has_more: bool) -> Option<Owed> {
        match self.is_known {
            false => Some(Owed::Admission),
            true if has_more || self.framing.is_inside() => Some(Owed::Rest(self.arrived)),
            true => None,
        }
    }

    /// Writes why a client is not waited for any longer. One that has sent nothing gets nothing. `has_more`: as in
    /// [`Connection::owed`].
    pub fn give_up(&mut self, owed: Owed, has_more: bool, seconds: u64) {
        let has_begun = has_more || self.arrived > 0 || self.framing.is_inside();
        match owed {
            Owed::Admission if !has_begun => {}
            Owed::Admission => self.out.error(&format!(
                "ERR no command was admitted within {seconds} s; connect again, and send AUTH with a valid key first"
            )),
            Owed::Rest(_) => self.out.error(&format!(
                "ERR a command did not arrive within {seconds} s; connect again, and send it at once"
            )),
        }
    }

    /// Writes that there is no memory for what the client has sent.
    pub fn refuse_room(&mut self, bytes_max: usize) {
        self.out.error(&format!(
            "{FULL} ({bytes_max} bytes); nothing of this command was done, connect again later"
        ));
    }

    /// Writes, in place of replies that were taken from the output, that there is no memory for them.
    pub fn lose_replies(&mut self, bytes_max: usize) {
        self.out.error(&format!(
            "{FULL} ({bytes_max} bytes); the commands ran, and their replies are lost, so read what you changed before you send it again"
        ));
    }

    /// How many bytes of memory the client fills, besides the bytes that are to be sent.
    pub fn held_bytes(&self) -> usize {
        let transaction = self.transaction.as_ref();
        let transaction = transaction.map_or(0, Transaction::held_bytes);
        self.framing.held_bytes().saturating_add(transaction)
    }

    /// What the platform does next; `None` where more has to arrive.
    pub fn step(&mut self) -> Option<ConnectionStep> {
        while let Some(first) = self.waiting.front() {
            // A command of a few bytes may have a reply of many.
            if self.output_bytes() > OUTPUT_BYTES_MAX {
                return Some(ConnectionStep::Send);
            }
            let own = match first {
                Err(text) => {
                    let text = text.clone();
                    self.waiting.pop_front();
                    self.refuse(&text);
                    continue;
                }
                Ok(args) => own_of(args),
            };
            if own.is_none() && self.transaction.is_none() && !self.is_bound_to_listen() {
                return Some(self.run_all());
            }
            if !self.is_known && !matches!(own, Some(Own::Auth | Own::Quit | Own::Reset)) {
                // With a key of its own a greeting proves who it is.
                let greets = own == Some(Own::Hello);
                if !(greets && first.as_ref().is_ok_and(|args| has_login(args))) {
                    return Some(ConnectionStep::Prove);
                }
            }
            let Some(Ok(args)) = self.waiting.pop_front() else {
                return None;
            };
            let step = match own {
                Some(own) => self.about_connection(own, args),
                None => self.inside(args),
            };
            if step.is_some() {
                return step;
            }
        }
        let ProtocolError(text) = self.failed.take()?;
        self.out.error(&text);
        Some(ConnectionStep::Close)
    }

    /// Whether the protocol allows no commands now except those about subscriptions.
    fn is_bound_to_listen(&self) -> bool {
        self.is_listening() && self.out.protocol == Protocol::Two
    }

    /// All commands that wait, up to the next one about the connection.
    fn run_all(&mut self) -> ConnectionStep {
        let mut commands = Vec::new();
        while let Some(Ok(args)) = self
            .waiting
            .pop_front_if(|first| first.as_ref().is_ok_and(|args| own_of(args).is_none()))
        {
            commands.push(args);
        }
        ConnectionStep::Run(CommandBatch {
            commands,
            is_transaction: false,
        })
    }

    /// A command inside a transaction, or while the protocol allows only those about subscriptions.
    fn inside(&mut self, args: Arguments) -> Option<ConnectionStep> {
        if self.is_bound_to_listen() {
            self.listen_or_ping(&args);
            return None;
        }
        match self.transaction.as_mut()?.queue(args) {
            Ok(()) => self.out.status("QUEUED"),
            Err(refused) => self.refuse_as(&refused),
        }
        None
    }

    fn listen_or_ping(&mut self, args: &[String]) {
        if args.len() <= 2 && args[0].eq_ignore_ascii_case("PING") {
            self.out.array(2);
            self.out.text("pong");
            self.out.text(args.get(1).map_or("", String::as_str));
            return;
        }
        let name = args[0].to_ascii_lowercase();
        self.out.error(&format!(
            "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
        ));
    }

    /// Refuses a command; a transaction that it belongs to is discarded.
    fn refuse(&mut self, text: &str) {
        if let Some(transaction) = &mut self.transaction {
            transaction.spoil();
        }
        self.out.error(text);
    }

    fn refuse_as(&mut self, refusal: &Reply) {
        if let Reply::Error(text) = refusal {
            self.refuse(text);
        }
    }

    /// The client may run commands without a key.
    pub fn admit(&mut self) {
        self.is_known = true;
    }

    /// What came of [`ConnectionStep::Prove`]: the error of Redis for a client that may not run commands.
    pub fn proved(&mut self, outcome: Result<(), String>) {
        const NO_GREETING: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time";
        self.is_known = outcome.is_ok();
        let Err(text) = outcome else { return };
        let first = self.waiting.pop_front();
        let greets = matches!(&first, Some(Ok(args)) if own_of(args) == Some(Own::Hello));
        match greets && text.starts_with("NOAUTH") {
            true => self.refuse(NO_GREETING),
            false => self.refuse(&text),
        }
    }

    /// What came of [`ConnectionStep::Authenticate`].
    pub fn authenticated(&mut self, login: Login, outcome: Result<(), String>) {
        if let Err(text) = outcome {
            return self.out.error(&text);
        }
        self.key = Some(login.key);
        self.is_known = true;
        match login.greeting {
            Some(greeting) => self.greet(greeting),
            None => self.out.status("OK"),
        }
    }

    /// What came of [`ConnectionStep::Run`]: a reply for each command, or the error of all. `shapes`: the forms of the
    /// replies, in order.
    pub fn ran(
        &mut self,
        shapes: &[Shape],
        is_transaction: bool,
        outcome: Result<Vec<Reply>, String>,
    ) {
        match outcome {
            Ok(replies) => {
                self.is_known = true;
                if is_transaction {
                    self.out.array(replies.len());
                }
                for (reply, shape) in replies.iter().zip(shapes) {
                    shape::write(&mut self.out, *shape, reply);
                }
            }
            Err(text) if is_transaction => self.out.error(&text),
            Err(text) => shapes.iter().for_each(|_| self.out.error(&text)),
        }
    }

    /// What came of [`ConnectionStep::Listen`].
    pub fn listening(&mut self, stream: &Subscription, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => {
                let wanted = self.wanted.take().unwrap_or_else(|| stream.clone());
                self.subscriptions.add(&wanted, stream, &mut self.out);
            }
            Err(text) => self.out.error(&text),
        }
    }

    /// A stream has sent data: writes its messages. Returns whether the stream, and so the connection, has ended.
    pub fn hear(&mut self, stream: &Subscription, data: &str) -> bool {
        self.subscriptions.hear(stream, data, &mut self.out)
    }

    fn about_connection(&mut self, own: Own, args: Arguments) -> Option<ConnectionStep> {
        let is_inside = self.transaction.is_some();
        let may = matches!(own, Own::Subscribe(_) | Own::Quit | Own::Reset);
        if self.is_bound_to_listen() && !may {
            self.listen_or_ping(&args);
            return None;
        }
        match own {
            Own::Exec => return self.exec(&args),
            Own::Quit => {
                self.out.status("OK");
                return Some(ConnectionStep::Close);
            }
            Own::Reset => {
                self.reset();
                return Some(ConnectionStep::Unlisten);
            }
            Own::Multi | Own::Discard | Own::Unwatch if args.len() != 1 => {
                self.refuse_as(&error::arity(&args[0]));
            }
            Own::Discard if is_inside => {
                self.transaction = None;
                self.out.status("OK");
            }
            Own::Discard => self.refuse("ERR DISCARD without MULTI"),
            Own::Multi if is_inside => self.out.error("ERR MULTI calls can not be nested"),
            Own::Multi => {
                self.transaction = Some(Transaction::default());
                self.out.status("OK");
            }
            Own::Watch if is_inside => self.out.error("ERR WATCH inside MULTI is not allowed"),
            Own::Watch => self.refuse(
                "ERR WATCH is not offered here, because other calls change keys without passing this port: send one command that reads and writes, such as INCREX with UBOUND, SET with NX, or GETDEL",
            ),
            _ if is_inside => self.refuse("ERR Command not allowed inside a transaction"),
            Own::Unwatch => self.out.status("OK"),
            Own::Auth => return self.auth(args),
            Own::Hello => return self.hello(&args),
            Own::Client => self.client(&args),
            Own::Command => table::answer(&args, &mut self.out),
            Own::Select => self.select(&args),
            Own::Subscribe(wanted) => return self.subscribe(wanted, args),
        }
        None
    }

    fn exec(&mut self, args: &[String]) -> Option<ConnectionStep> {
        if args.len() != 1 {
            self.refuse_as(&error::arity("exec"));
            return None;
        }
        match self.transaction.take() {
            None => self.out.error("ERR EXEC without MULTI"),
            Some(transaction) => match transaction.complete() {
                Ok(commands) => {
                    let is_transaction = true;
                    return Some(ConnectionStep::Run(CommandBatch {
                        commands,
                        is_transaction,
                    }));
                }
                Err(text) => self.out.error(text),
            },
        }
        None
    }

    /// As a connection that has just begun.
    fn reset(&mut self) {
        self.key = None;
        self.is_known = false;
        self.name.clear();
        self.transaction = None;
        self.subscriptions = Subscriptions::default();
        self.out.protocol = Protocol::Two;
        self.out.status("RESET");
    }

    fn auth(&mut self, mut args: Arguments) -> Option<ConnectionStep> {
        match args.len() {
            2 | 3 => {
                let key = args.pop().unwrap_or_default();
                let greeting = None;
                Some(ConnectionStep::Authenticate(Login { key, greeting }))
            }
            1 => {
                self.refuse_as(&error::arity("auth"));
                None
            }
            _ => {
                self.refuse_as(&error::syntax());
                None
            }
        }
    }

    fn hello(&mut self, args: &[String]) -> Option<ConnectionStep> {
        match parse_hello(args) {
            Err(text) => self.out.error(&text),
            Ok((greeting, None)) => self.greet(greeting),
            Ok((greeting, Some(key))) => {
                let greeting = Some(greeting);
                return Some(ConnectionStep::Authenticate(Login { key, greeting }));
            }
        }
        None
    }

    fn greet(&mut self, greeting: Greeting) {
        if let Some(protocol) = greeting.protocol {
            self.out.protocol = protocol;
        }
        if let Some(name) = greeting.name {
            self.name = name;
        }
        let out = &mut self.out;
        out.map(7);
        for (name, value) in [("server", "tally"), ("version", env!("CARGO_PKG_VERSION"))] {
            out.text(name);
            out.text(value);
        }
        out.text("proto");
        out.integer(out.protocol.number());
        out.text("id");
        out.integer(self.id);
        for (name, value) in [("mode", "standalone"), ("role", "master")] {
            out.text(name);
            out.text(value);
        }
        out.text("modules");
        out.array(0);
    }

    fn select(&mut self, args: &[String]) {
        match args {
            [_, index] => match index.parse::<i64>() {
                Ok(0) => self.out.status("OK"),
                Ok(_) => self.out.error("ERR DB index is out of range"),
                Err(_) => self.refuse_as(&error::not_whole()),
            },
            _ => self.refuse_as(&error::arity("select")),
        }
    }

    fn client(&mut self, args: &[String]) {
        let words: Vec<String> = args
            .iter()
            .skip(1)
            .map(|word| word.to_ascii_uppercase())
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            [] => self.refuse_as(&error::arity("client")),
            ["ID"] => self.out.integer(self.id),
            ["GETNAME"] if self.name.is_empty() => self.out.nil(),
            ["GETNAME"] => self.out.text(&self.name),
            ["SETNAME", _] => match check_name(&args[2]) {
                Ok(()) => {
                    self.name.clone_from(&args[2]);
                    self.out.status("OK");
                }
                Err(text) => self.out.error(&text),
            },
            ["SETINFO", option @ ("LIB-NAME" | "LIB-VER"), _] => match check_name(&args[3]) {
                Ok(()) => {
                    let index = usize::from(*option == "LIB-VER");
                    self.library[index].clone_from(&args[3]);
                    self.out.status("OK");
                }
                Err(text) => self.out.error(&text),
            },
            ["SETINFO", _, _] => {
                let text = format!("ERR Unrecognized option '{}'", args[2]);
                self.out.error(&text);
            }
            ["INFO"] => {
                let line = self.info();
                self.out.verbatim(&line);
            }
            ["NO-EVICT" | "NO-TOUCH", "ON" | "OFF"] | ["REPLY", "ON"] => self.out.status("OK"),
            _ => {
                let text = format!(
                    "ERR unknown subcommand '{}', or not with these words: ID, INFO, GETNAME, SETNAME and SETINFO are offered here",
                    args[1]
                );
                self.out.error(&text);
            }
        }
    }

    /// The connection as `CLIENT INFO` describes it.
    fn info(&self) -> String {
        let [library, version] = &self.library;
        format!(
            "id={} addr={} name={} db=0 sub={} psub={} multi={} resp={} lib-name={library} lib-ver={version}\n",
            self.id,
            self.peer,
            self.name,
            self.subscriptions.channels(),
            self.subscriptions.patterns(),
            self.transaction
                .as_ref()
                .map_or(-1, |transaction| { transaction.count() }),
            self.out.protocol.number(),
        )
    }

    fn subscribe(&mut self, wanted: Wanted, args: Arguments) -> Option<ConnectionStep> {
        let mut args = args.into_iter();
        let name = args.next().unwrap_or_default();
        let names: Vec<String> = args.collect();
        let is_pattern = match wanted {
            Wanted::Channels => false,
            Wanted::Patterns => true,
            Wanted::NoChannels | Wanted::NoPatterns => {
                self.subscriptions.remove(wanted, names, &mut self.out);
                return Some(ConnectionStep::Unlisten);
            }
        };
        if names.is_empty() {
            self.refuse_as(&error::arity(&name));
            return None;
        }
        let wanted = match Subscription::new(is_pattern, names) {
            Ok(wanted) => wanted,
            Err(text) => {
                self.out.error(&text);
                return None;
            }
        };
        match self.subscriptions.missing(&wanted) {
            None => self.subscriptions.add(&wanted, &wanted, &mut self.out),
            Some(stream) if self.subscriptions.has_room(&stream) => {
                self.wanted = Some(wanted);
                return Some(ConnectionStep::Listen(stream));
            }
            Some(_) => self.out.error(&Subscriptions::full()),
        }
        None
    }
}

/// The forms of the replies to these commands.
pub fn shapes_of(commands: &[Arguments]) -> Vec<Shape> {
    commands.iter().map(|args| shape_of(args)).collect()
}
