//! `COMMAND`: what clients may ask about the commands. Source: `COMMAND`, `COMMAND INFO`, `COMMAND DOCS` of Redis 7.0.

use crate::encoder::Encoder;
use tally_redis::command::{Act, COMMANDS, Command, KeyPositions};
use tally_redis::error;
use tally_wire::redis::Reply;
use tally_wire::rights::Scope;

/// Answers `COMMAND` with these words.
pub fn answer(args: &[String], out: &mut Encoder) {
    let names = args.get(2..).unwrap_or_default();
    let subcommand = args.get(1).map(|word| word.to_ascii_uppercase());
    match subcommand.as_deref() {
        None => {
            out.array(COMMANDS.len());
            COMMANDS.iter().for_each(|command| describe(command, out));
        }
        Some("COUNT") if names.is_empty() => out.integer(count(COMMANDS.len())),
        Some("LIST") if names.is_empty() => {
            out.array(COMMANDS.len());
            for command in COMMANDS {
                out.text(&command.name.to_ascii_lowercase());
            }
        }
        Some("INFO") if names.is_empty() => {
            out.array(COMMANDS.len());
            COMMANDS.iter().for_each(|command| describe(command, out));
        }
        Some("INFO") => {
            out.array(names.len());
            for name in names {
                match named(name) {
                    Some(command) => describe(command, out),
                    None => out.nil_array(),
                }
            }
        }
        Some("DOCS") => {
            let wanted = |command: &&Command| {
                let is_it = |name: &String| name.eq_ignore_ascii_case(command.name);
                names.is_empty() || names.iter().any(is_it)
            };
            let found: Vec<&Command> = COMMANDS.iter().filter(wanted).collect();
            out.map(found.len());
            found.into_iter().for_each(|command| document(command, out));
        }
        Some("GETKEYS") => keys_of(names, out),
        Some(_) => {
            let name = args.get(1).map_or("", String::as_str);
            out.error(&format!(
                "ERR unknown subcommand '{name}', or not with these words: COUNT, DOCS, GETKEYS, INFO and LIST are offered here"
            ));
        }
    }
}

fn named(name: &str) -> Option<&'static Command> {
    COMMANDS
        .iter()
        .find(|command| command.name.eq_ignore_ascii_case(name))
}

fn count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The first key, the last one, and the step between two, as Redis counts.
fn positions(command: &Command) -> [i64; 3] {
    match command.keys {
        KeyPositions::None | KeyPositions::Script | KeyPositions::Counted(1) => [0, 0, 0],
        KeyPositions::Counted(_) => [1, 1, 1],
        KeyPositions::Range(first, last, step) => {
            [count(first), i64::try_from(last).unwrap_or(-1), count(step)]
        }
    }
}

fn flags(command: &Command) -> Vec<&'static str> {
    let moves = matches!(
        command.keys,
        KeyPositions::Script | KeyPositions::Counted(_)
    );
    let mut flags = Vec::new();
    match (command.act, command.scope) {
        (Act::Alone(_), _) => flags.push("fast"),
        (_, Scope::Read) => flags.push("readonly"),
        _ => flags.push("write"),
    }
    if moves {
        flags.push("movablekeys");
    }
    flags
}

/// A command as `COMMAND INFO` describes it: name, arity, flags, positions of keys; no categories, tips, specifications
/// of keys and subcommands.
fn describe(command: &Command, out: &mut Encoder) {
    const EMPTY_PARTS: usize = 4;
    out.array(6 + EMPTY_PARTS);
    out.text(&command.name.to_ascii_lowercase());
    out.integer(command.arity.into());
    let flags = flags(command);
    out.set(flags.len());
    flags.into_iter().for_each(|flag| out.status(flag));
    for position in positions(command) {
        out.integer(position);
    }
    for _ in 0..EMPTY_PARTS {
        out.array(0);
    }
}

/// A command as `COMMAND DOCS` describes it.
fn document(command: &Command, out: &mut Encoder) {
    let scope = match command.scope {
        Scope::Read => "read",
        Scope::Write => "write",
        _ => "admin",
    };
    let scope = match command.act {
        Act::Alone(_) => "any",
        _ => scope,
    };
    out.text(&command.name.to_ascii_lowercase());
    out.map(3);
    for (name, value) in [
        (
            "summary",
            format!("Needs a key with the scope: {scope}").as_str(),
        ),
        ("since", env!("CARGO_PKG_VERSION")),
        ("group", group(command)),
    ] {
        out.text(name);
        out.text(value);
    }
}

/// The group of a command in Redis's documentation.
fn group(command: &Command) -> &'static str {
    match command.name {
        "PING" | "ECHO" => "connection",
        "TIME" | "INFO" | "DBSIZE" | "FLUSHDB" | "FLUSHALL" => "server",
        "SADD" | "SREM" | "SMEMBERS" | "SRANDMEMBER" | "SCARD" | "SISMEMBER" | "SMISMEMBER"
        | "SUNIONSTORE" | "SDIFFSTORE" => "set",
        "DEL" | "UNLINK" | "EXISTS" | "TOUCH" | "TYPE" | "EXPIRE" | "PEXPIRE" | "EXPIREAT"
        | "PEXPIREAT" | "TTL" | "PTTL" | "EXPIRETIME" | "PEXPIRETIME" | "PERSIST" | "SCAN"
        | "KEYS" => "generic",
        name if name.starts_with("PF") => "hyperloglog",
        name if name.starts_with("EVAL") || name == "SCRIPT" => "scripting",
        name if name.starts_with('Z') => "sorted-set",
        name if name.starts_with('H') => "hash",
        _ => "string",
    }
}

fn keys_of(args: &[String], out: &mut Encoder) {
    if args.is_empty() {
        let Reply::Error(text) = error::arity("command|getkeys") else {
            return;
        };
        return out.error(&text);
    }
    let keys = Command::find(args).and_then(|command| command.keys_of(args));
    match keys {
        Ok(keys) if keys.is_empty() => {
            out.error("ERR The command has no key arguments");
        }
        Ok(keys) => {
            out.array(keys.len());
            keys.into_iter().for_each(|key| out.text(key));
        }
        Err(_) => out.error("ERR Invalid arguments specified for command"),
    }
}
