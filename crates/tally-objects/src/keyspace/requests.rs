//! A command as it arrived, and what can be said of it before it runs.

use std::collections::BTreeSet;
use tally_core::callers::account::AccountId;
use tally_core::order::set_of;
use tally_redis::command::{Act, Command, Elements};
use tally_redis::scripts::known as scripts;
use tally_redis::scripts::table::Script;
use tally_redis::words::script_words;
use tally_wire::messages::{Arguments, AttemptName};
use tally_wire::rights::Scope;

/// A command as it arrived, with the name of its attempt.
pub(super) struct CommandRequest<'a> {
    pub(super) command: &'static Command,
    pub(super) args: &'a Arguments,
    pub(super) named: Option<AttemptName>,
    /// The caller, as the quota of stored replies accounts for it.
    pub(super) caller: u64,
    /// Whose part of the room for values it fills.
    pub(super) account: AccountId,
}

impl CommandRequest<'_> {
    /// Whether its reply may be large.
    pub(super) fn returns_stored(&self) -> bool {
        self.command.returns_stored(self.args)
    }

    /// Whether it adds within bounds: how much depends on the value.
    pub(super) fn adds_within(&self) -> bool {
        self.command.name == "INCREX"
    }
}

/// The keys that a command locks.
pub(crate) fn keys_of(request: &CommandRequest<'_>) -> BTreeSet<String> {
    let keys = request.command.keys_of(request.args).unwrap_or_default();
    let limit = limit_key(request);
    let held = keys.into_iter().filter(|key| limit != Some(*key));
    set_of(held.cloned())
}

/// The key from which a script reads a limit.
pub(super) fn limit_key<'a>(request: &CommandRequest<'a>) -> Option<&'a String> {
    if !matches!(request.command.act, Act::Script) {
        return None;
    }
    let (keys, _) = script_words(request.args).ok()?;
    scripts::named(request.args).ok()?.limit_key(keys)
}

/// Whether commands may be joined with their neighbours.
pub(super) fn adds(request: &CommandRequest<'_>) -> bool {
    matches!(request.command.act, Act::Add) && request.named.is_none()
}

pub(super) fn adds_elements(request: &CommandRequest<'_>) -> bool {
    matches!(request.command.act, Act::Elements(Elements::Add)) && request.named.is_none()
}

/// How many of the first commands are about one sorted set each. A command that removes members is the last one,
/// because it may delete the set.
pub(super) fn sorted_together(rest: &[CommandRequest<'_>]) -> usize {
    let sorted = rest
        .iter()
        .take_while(|request| matches!(request.command.act, Act::Sorted));
    let sorted = sorted.count();
    let mut adds = rest.iter().take(sorted);
    let last = adds.position(|request| request.command.scope == Scope::Admin);
    last.map_or(sorted, |last| last + 1)
}

/// The script that reads sorted sets, if the command is one.
pub(super) fn script_of_sets(request: &CommandRequest<'_>) -> Option<Script> {
    if !matches!(request.command.act, Act::Script) {
        return None;
    }
    let script = scripts::named(request.args).ok()?;
    matches!(script, Script::FieldSums | Script::Union | Script::Tops).then_some(script)
}

pub(super) fn is_reset(request: &CommandRequest<'_>) -> bool {
    matches!(request.command.act, Act::Script)
        && scripts::named(request.args) == Ok(Script::Reset)
        && script_words(request.args).is_ok_and(|(keys, _)| !keys.is_empty())
}

/// Whether the effect and the reply of a command do not depend on the state of its keys.
pub(super) fn is_blind(args: &Arguments) -> bool {
    let asks = |word: &String| {
        ["NX", "XX", "GET"]
            .iter()
            .any(|name| word.eq_ignore_ascii_case(name))
    };
    match args[0].to_ascii_uppercase().as_str() {
        "DEL" | "UNLINK" | "MSET" | "SETEX" | "PSETEX" => true,
        "SET" => !args.iter().skip(3).any(asks),
        _ => false,
    }
}
