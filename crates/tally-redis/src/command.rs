//! The table of commands: name, arity, positions of keys, required right, and executor.

use crate::scripts::known as scripts;
use crate::space::Space;
use crate::words::{counted_words, script_words};
use crate::{collections, error, field_ends, keys, strings, window};
use tally_wire::messages::Arguments;
use tally_wire::redis::{CommandResult, Reply};
use tally_wire::rights::Scope;

/// The most keys of a command. A key that is named twice counts twice. Each may be a call to another object.
pub const KEYS_MAX: usize = 1_000;

/// The most keys of a script. The known ones have three at most.
pub const SCRIPT_KEYS_MAX: usize = 10;

/// The positions of a command's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPositions {
    /// No keys.
    None,
    /// From the first position to the last, with a step; a negative last position counts from the end.
    Range(usize, isize, usize),
    /// After a count, at the second position: scripts.
    Script,
    /// After a count, at this position; the words before it, except the name, are keys too.
    Counted(usize),
}

/// The executor of a command.
#[derive(Clone, Copy)]
pub enum Act {
    /// The owner of its keys, which are loaded first.
    Keys(fn(&mut Space, &[String]) -> CommandResult),
    /// As [`Act::Keys`], for commands that only add: a counter's value need not be loaded.
    Add,
    /// The board of its key: sorted sets.
    Sorted,
    /// The owner, from the boards of its keys.
    SortedSets,
    /// The owner, from the unique elements of counters.
    Elements(Elements),
    /// A script of a rate-limit client.
    Script,
    /// The receiver of the request, without any key.
    Alone(fn(&[String], i64) -> CommandResult),
    /// The owner, over all keys.
    All(KeyspaceCommand),
}

/// A command of HyperLogLogs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elements {
    /// `PFADD`
    Add,
    /// `PFCOUNT`
    Count,
    /// `PFMERGE`
    Merge,
}

/// A command over all keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyspaceCommand {
    /// `SCAN`
    Scan,
    /// `KEYS`
    Keys,
    /// `DBSIZE`
    Size,
    /// `FLUSHDB` and `FLUSHALL`
    Flush,
}

/// A command.
pub struct Command {
    /// Its name, in capitals.
    pub name: &'static str,
    /// Number of words, with its name; if negative, at least so many.
    pub arity: i32,
    /// The positions of its keys.
    pub keys: KeyPositions,
    /// The right that is needed on each of them.
    pub scope: Scope,
    /// Its executor.
    pub act: Act,
}

const ONE: KeyPositions = KeyPositions::Range(1, 1, 1);
const MANY: KeyPositions = KeyPositions::Range(1, -1, 1);
const PAIRS: KeyPositions = KeyPositions::Range(1, -1, 2);

macro_rules! commands {
    ($($name:literal $arity:literal $keys:expr, $scope:ident => $act:expr;)*) => {
        /// All commands.
        pub const COMMANDS: &[Command] = &[$(Command {
            name: $name,
            arity: $arity,
            keys: $keys,
            scope: Scope::$scope,
            act: $act,
        },)*];
    };
}

// A key with scope `write` adds; commands that replace or remove need `admin`, as in the other calls.
commands! {
    "GET" 2 ONE, Read => Act::Keys(strings::get);
    "MGET" -2 MANY, Read => Act::Keys(strings::mget);
    "SET" -3 ONE, Admin => Act::Keys(strings::set);
    "SETEX" 4 ONE, Admin => Act::Keys(strings::setex);
    "PSETEX" 4 ONE, Admin => Act::Keys(strings::setex);
    "SETNX" 3 ONE, Admin => Act::Keys(strings::setnx);
    "MSET" -3 PAIRS, Admin => Act::Keys(strings::mset);
    "MSETNX" -3 PAIRS, Admin => Act::Keys(strings::mset);
    "GETSET" 3 ONE, Admin => Act::Keys(strings::getset);
    "GETDEL" 2 ONE, Admin => Act::Keys(strings::getdel);
    "GETEX" -2 ONE, Admin => Act::Keys(strings::getex);
    "INCR" 2 ONE, Write => Act::Add;
    "DECR" 2 ONE, Write => Act::Add;
    "INCRBY" 3 ONE, Write => Act::Add;
    "DECRBY" 3 ONE, Write => Act::Add;
    "INCRBYFLOAT" 3 ONE, Write => Act::Add;
    "INCREX" -2 ONE, Write => Act::Keys(window::increx);
    "DEL" -2 MANY, Admin => Act::Keys(keys::del);
    "UNLINK" -1 MANY, Admin => Act::Keys(keys::del);
    "EXISTS" -2 MANY, Read => Act::Keys(keys::exists);
    "TOUCH" -2 MANY, Read => Act::Keys(keys::exists);
    "TYPE" 2 ONE, Read => Act::Keys(keys::type_of);
    "EXPIRE" -3 ONE, Admin => Act::Keys(keys::expire);
    "PEXPIRE" -3 ONE, Admin => Act::Keys(keys::expire);
    "EXPIREAT" -3 ONE, Admin => Act::Keys(keys::expire);
    "PEXPIREAT" -3 ONE, Admin => Act::Keys(keys::expire);
    "TTL" 2 ONE, Read => Act::Keys(keys::ttl);
    "PTTL" 2 ONE, Read => Act::Keys(keys::ttl);
    "EXPIRETIME" 2 ONE, Read => Act::Keys(keys::ttl);
    "PEXPIRETIME" 2 ONE, Read => Act::Keys(keys::ttl);
    "PERSIST" 2 ONE, Admin => Act::Keys(keys::persist);
    "HSET" -4 ONE, Admin => Act::Keys(collections::hset);
    "HMSET" -4 ONE, Admin => Act::Keys(collections::hset);
    "HGET" 3 ONE, Read => Act::Keys(collections::hget);
    "HMGET" -3 ONE, Read => Act::Keys(collections::hmget);
    "HGETALL" 2 ONE, Read => Act::Keys(collections::hgetall);
    "HDEL" -3 ONE, Admin => Act::Keys(collections::hdel);
    "HINCRBY" 4 ONE, Write => Act::Keys(collections::hincrby);
    "HEXPIRE" -6 ONE, Admin => Act::Keys(field_ends::hexpire);
    "HPEXPIRE" -6 ONE, Admin => Act::Keys(field_ends::hexpire);
    "HEXPIREAT" -6 ONE, Admin => Act::Keys(field_ends::hexpire);
    "HPEXPIREAT" -6 ONE, Admin => Act::Keys(field_ends::hexpire);
    "HTTL" -5 ONE, Read => Act::Keys(field_ends::httl);
    "HPTTL" -5 ONE, Read => Act::Keys(field_ends::httl);
    "HEXPIRETIME" -5 ONE, Read => Act::Keys(field_ends::httl);
    "HPEXPIRETIME" -5 ONE, Read => Act::Keys(field_ends::httl);
    "HPERSIST" -5 ONE, Admin => Act::Keys(field_ends::hpersist);
    "HGETEX" -5 ONE, Admin => Act::Keys(field_ends::hgetex);
    "SADD" -3 ONE, Admin => Act::Keys(collections::sadd);
    "SREM" -3 ONE, Admin => Act::Keys(collections::srem);
    "SMEMBERS" 2 ONE, Read => Act::Keys(collections::smembers);
    "SRANDMEMBER" -2 ONE, Read => Act::Keys(collections::srandmember);
    "SCARD" 2 ONE, Read => Act::Keys(collections::scard);
    "SISMEMBER" 3 ONE, Read => Act::Keys(collections::sismember);
    "SMISMEMBER" -3 ONE, Read => Act::Keys(collections::smismember);
    "SUNIONSTORE" -3 MANY, Admin => Act::Keys(collections::sstore);
    "SDIFFSTORE" -3 MANY, Admin => Act::Keys(collections::sstore);
    "ZADD" -4 ONE, Write => Act::Sorted;
    "ZINCRBY" 4 ONE, Write => Act::Sorted;
    "ZSCORE" 3 ONE, Read => Act::Sorted;
    "ZMSCORE" -3 ONE, Read => Act::Sorted;
    "ZCARD" 2 ONE, Read => Act::Sorted;
    "ZRANK" -3 ONE, Read => Act::Sorted;
    "ZREVRANK" -3 ONE, Read => Act::Sorted;
    "ZCOUNT" 4 ONE, Read => Act::Sorted;
    "ZLEXCOUNT" 4 ONE, Read => Act::Sorted;
    "ZRANGE" -4 ONE, Read => Act::Sorted;
    "ZREVRANGE" -4 ONE, Read => Act::Sorted;
    "ZRANGEBYSCORE" -4 ONE, Read => Act::Sorted;
    "ZREVRANGEBYSCORE" -4 ONE, Read => Act::Sorted;
    "ZRANGEBYLEX" -4 ONE, Read => Act::Sorted;
    "ZREVRANGEBYLEX" -4 ONE, Read => Act::Sorted;
    "ZRANDMEMBER" -2 ONE, Read => Act::Sorted;
    "ZSCAN" -3 ONE, Read => Act::Sorted;
    "ZREM" -3 ONE, Admin => Act::Sorted;
    "ZREMRANGEBYRANK" 4 ONE, Admin => Act::Sorted;
    "ZREMRANGEBYSCORE" 4 ONE, Admin => Act::Sorted;
    "ZREMRANGEBYLEX" 4 ONE, Admin => Act::Sorted;
    "ZPOPMIN" -2 ONE, Admin => Act::Sorted;
    "ZPOPMAX" -2 ONE, Admin => Act::Sorted;
    "ZRANGESTORE" -5 KeyPositions::Range(1, 2, 1), Admin => Act::SortedSets;
    "ZUNION" -3 KeyPositions::Counted(1), Read => Act::SortedSets;
    "ZINTER" -3 KeyPositions::Counted(1), Read => Act::SortedSets;
    "ZDIFF" -3 KeyPositions::Counted(1), Read => Act::SortedSets;
    "ZINTERCARD" -3 KeyPositions::Counted(1), Read => Act::SortedSets;
    "ZUNIONSTORE" -4 KeyPositions::Counted(2), Admin => Act::SortedSets;
    "ZINTERSTORE" -4 KeyPositions::Counted(2), Admin => Act::SortedSets;
    "ZDIFFSTORE" -4 KeyPositions::Counted(2), Admin => Act::SortedSets;
    "PFADD" -2 ONE, Write => Act::Elements(Elements::Add);
    "PFCOUNT" -2 MANY, Read => Act::Elements(Elements::Count);
    "PFMERGE" -2 MANY, Write => Act::Elements(Elements::Merge);
    "EVAL" -3 KeyPositions::Script, Write => Act::Script;
    "EVALSHA" -3 KeyPositions::Script, Write => Act::Script;
    "EVAL_RO" -3 KeyPositions::Script, Read => Act::Script;
    "EVALSHA_RO" -3 KeyPositions::Script, Read => Act::Script;
    "SCRIPT" -2 KeyPositions::None, Read => Act::Alone(scripts::script);
    "PING" -1 KeyPositions::None, Read => Act::Alone(ping);
    "ECHO" 2 KeyPositions::None, Read => Act::Alone(|args, _| Ok(Reply::text(&args[1])));
    "TIME" 1 KeyPositions::None, Read => Act::Alone(|_, now_ms| Ok(time(now_ms)));
    "INFO" -1 KeyPositions::None, Read => Act::Alone(|_, _| Ok(Reply::text(INFO)));
    "SCAN" -2 KeyPositions::None, Read => Act::All(KeyspaceCommand::Scan);
    "KEYS" 2 KeyPositions::None, Read => Act::All(KeyspaceCommand::Keys);
    "DBSIZE" 1 KeyPositions::None, Read => Act::All(KeyspaceCommand::Size);
    "FLUSHDB" -1 KeyPositions::None, Admin => Act::All(KeyspaceCommand::Flush);
    "FLUSHALL" -1 KeyPositions::None, Admin => Act::All(KeyspaceCommand::Flush);
}

/// The fields of a Redis's `INFO` that apply here.
const INFO: &str = "# Server\r\nredis_mode:standalone\r\nserver_name:tally\r\n";

fn ping(args: &[String], _now_ms: i64) -> CommandResult {
    match &args[1..] {
        [] => Ok(Reply::text("PONG")),
        [text] => Ok(Reply::text(text)),
        _ => Err(error::arity("ping")),
    }
}

fn time(now_ms: i64) -> Reply {
    let microseconds = now_ms.rem_euclid(1_000) * 1_000;
    Reply::texts([
        now_ms.div_euclid(1_000).to_string(),
        microseconds.to_string(),
    ])
}

/// Commands of Redis that Tally does not offer: lists, streams, messages, geodata, and administration of a server.
const NOT_OURS: &str = "LPUSH RPUSH LPUSHX RPUSHX LPOP RPOP LRANGE LLEN LINDEX LSET LINSERT LREM LTRIM LPOS LMOVE LMPOP BLPOP BRPOP \
    BLMOVE BLMPOP RPOPLPUSH BRPOPLPUSH XADD XREAD XRANGE XREVRANGE XLEN XDEL XTRIM XGROUP XREADGROUP XACK XCLAIM XAUTOCLAIM XPENDING \
    XINFO XSETID PUBLISH PUBSUB SPUBLISH SSUBSCRIBE SUNSUBSCRIBE UNSUBSCRIBE PUNSUBSCRIBE MONITOR BZPOPMIN BZPOPMAX BZMPOP \
    GEOADD GEODIST GEOHASH GEOPOS GEOSEARCH GEOSEARCHSTORE GEORADIUS GEORADIUS_RO GEORADIUSBYMEMBER GEORADIUSBYMEMBER_RO \
    CLUSTER CONFIG";

/// Why Tally refuses a command of Redis; `None` for other names.
fn refusal_of(name: &str) -> Option<Reply> {
    let mut others = NOT_OURS.split_ascii_whitespace();
    if others.any(|other| other.eq_ignore_ascii_case(name)) {
        return Some(error::not_for(name));
    }
    match name.to_ascii_uppercase().as_str() {
        "SUBSCRIBE" | "PSUBSCRIBE" => Some(error::is_stream(name)),
        "MULTI" | "EXEC" | "DISCARD" | "WATCH" | "UNWATCH" => Some(error::is_transaction(name)),
        _ => None,
    }
}

/// Whether a name is that of a command, including those that are refused here.
pub fn is_command(name: &str) -> bool {
    let is_named = |row: &Command| row.name.eq_ignore_ascii_case(name);
    COMMANDS.iter().any(is_named) || refusal_of(name).is_some()
}

impl Command {
    /// Finds the command that these words begin with, in any case.
    ///
    /// # Errors
    /// If there is none, or it takes another number of words.
    pub fn find(args: &[String]) -> Result<&'static Self, Reply> {
        let name = args.first().map_or("", String::as_str);
        let found = COMMANDS
            .iter()
            .find(|row| row.name.eq_ignore_ascii_case(name));
        let Some(command) = found else {
            return Err(refusal_of(name).unwrap_or_else(|| unknown(args)));
        };
        let words = i32::try_from(args.len()).unwrap_or(i32::MAX);
        let fits = match command.arity {
            least @ ..0 => words >= -least,
            exact => words == exact,
        };
        if fits {
            Ok(command)
        } else {
            Err(error::arity(name))
        }
    }

    /// Whether the reply to these words may hold stored data, and so be large. Other replies have a few bytes, or at
    /// most a number for each word.
    pub fn returns_stored(&self, args: &[String]) -> bool {
        let gets = |word: &String| word.eq_ignore_ascii_case("GET");
        match self.name {
            "GETSET" | "GETDEL" | "GETEX" | "HGETEX" | "ZPOPMIN" | "ZPOPMAX" => true,
            "SET" => args.iter().skip(3).any(gets),
            _ => self.scope == Scope::Read || matches!(self.act, Act::Script),
        }
    }

    /// The right that these words need on each of their keys. To let a key expire is to remove it.
    pub fn scope_of(&self, args: &[String]) -> Scope {
        match self.name == "INCREX" && window::changes_end(args) {
            true => Scope::Admin,
            false => self.scope,
        }
    }

    /// Whether these words can have an effect. Those of a read have none.
    pub fn may_write(&self, args: &[String]) -> bool {
        match self.act {
            Act::Script => !scripts::named(args).is_ok_and(|script| !script.writes()),
            _ => self.scope != Scope::Read,
        }
    }

    /// Whether the command, or its events, depend on the text, hash or set that a key holds. Other commands only ask
    /// whether a key exists, and replace or remove it.
    pub fn needs_values(&self) -> bool {
        !matches!(
            self.name,
            "DEL" | "UNLINK" | "EXISTS" | "TOUCH" | "MSET" | "MSETNX"
        )
    }

    /// Checks how many keys it has.
    ///
    /// # Errors
    /// That they are too many.
    pub fn check_keys(&self, keys: usize) -> Result<(), Reply> {
        let (what, keys_max) = match self.act {
            Act::Script => ("script", SCRIPT_KEYS_MAX),
            _ => ("command", KEYS_MAX),
        };
        if keys > keys_max {
            return Err(Reply::err(format!(
                "a {what} has at most {keys_max} keys here; send several"
            )));
        }
        Ok(())
    }

    /// Returns its keys among these words.
    ///
    /// # Errors
    /// If their count is invalid.
    pub fn keys_of<'a>(&self, args: &'a [String]) -> Result<Vec<&'a String>, Reply> {
        Ok(match self.keys {
            KeyPositions::None => Vec::new(),
            KeyPositions::Range(first, last, step) => {
                let last = match usize::try_from(last) {
                    Ok(last) => last,
                    Err(_) => args.len() - last.unsigned_abs(),
                };
                let named = args.get(first..=last).unwrap_or_default();
                named.iter().step_by(step).collect()
            }
            KeyPositions::Script => script_words(args)?.0.iter().collect(),
            KeyPositions::Counted(position) => {
                let counted = counted_words(args, position)?;
                args[1..position].iter().chain(counted).collect()
            }
        })
    }
}

/// The refusal of an unknown command; it repeats the first words, as Redis does.
fn unknown(args: &[String]) -> Reply {
    let mut words = args.iter();
    let name = words.next().map_or("", String::as_str);
    let name: String = name.chars().take(128).collect();
    let mut shown = String::new();
    for word in words {
        if shown.len() >= 128 {
            break;
        }
        let word: String = word.chars().take(128 - shown.len().min(128)).collect();
        shown.push_str(&format!("'{word}' "));
    }
    Reply::err(format!(
        "unknown command '{name}', with args beginning with: {shown}"
    ))
}

/// Runs a command whose keys are loaded.
pub fn run(command: &Command, space: &mut Space, args: &Arguments) -> Reply {
    let ran = match command.act {
        Act::Keys(run) => run(space, args),
        Act::Add => strings::add(space, args),
        Act::Script => scripts::run(space, args),
        Act::Alone(run) => run(args, space.now_ms()),
        Act::Sorted | Act::SortedSets | Act::Elements(_) | Act::All(_) => {
            Err(Reply::err("this command is not of loaded keys"))
        }
    };
    ran.unwrap_or_else(|refused| refused)
}
