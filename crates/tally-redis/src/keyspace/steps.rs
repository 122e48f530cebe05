//! What a keyspace does with the commands of a request, decided from their words before a key is read: which of them
//! run together, and which keys each locks.

use std::collections::BTreeSet;

use crate::command::{Act, Command, Elements};
use crate::scripts::known as scripts;
use crate::scripts::table::Script;
use crate::words::script_words;
use tally_core::callers::account::AccountId;
use tally_core::order::set_of;
use tally_wire::messages::{Arguments, AttemptName};
use tally_wire::rights::Scope;

/// A command as it arrived, with the name of its attempt.
pub struct CommandRequest<'a> {
    /// The command.
    pub command: &'static Command,
    /// Its words.
    pub args: &'a Arguments,
    /// The name of the attempt, if it has one.
    pub named: Option<AttemptName>,
    /// The caller, as the quota of stored replies accounts for it.
    pub caller: u64,
    /// Whose part of the room for values it fills.
    pub account: AccountId,
}

/// What a keyspace does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandStep {
    /// It runs this number of commands of sorted sets, grouped by their sets.
    Sorted(usize),
    /// It adds the elements of this number of commands, grouped by their counters.
    Elements(usize),
    /// It makes this number of increments, grouped by their counters.
    Adds(usize),
    /// It runs one command.
    One,
}

impl CommandStep {
    /// The step that begins with the first of these commands.
    pub fn of(rest: &[CommandRequest<'_>]) -> Self {
        let Some(first) = rest.first() else {
            return Self::One;
        };
        let alike = rest.iter().take_while(|request| request.joins(first));
        match (first.command.act, alike.count()) {
            (Act::Sorted, count) => {
                // A command that removes members is the last one, because it may delete the set.
                let mut sorted = rest.iter().take(count);
                let last = sorted.position(|request| request.command.scope == Scope::Admin);
                Self::Sorted(last.map_or(count, |last| last + 1))
            }
            (Act::Add, count @ 1..) => Self::Adds(count),
            (Act::Elements(_), count @ 2..) => Self::Elements(count),
            _ => Self::One,
        }
    }
}

impl CommandRequest<'_> {
    /// Whether it runs in one step with a command, and with others like it. An addition that has a name runs by itself.
    fn joins(&self, first: &Self) -> bool {
        match (self.command.act, first.command.act) {
            (Act::Sorted, Act::Sorted) => true,
            (Act::Add, Act::Add) | (Act::Elements(Elements::Add), Act::Elements(Elements::Add)) => {
                self.named.is_none()
            }
            _ => false,
        }
    }

    /// Whether its reply may be large.
    pub fn returns_stored(&self) -> bool {
        self.command.returns_stored(self.args)
    }

    /// Whether it adds within bounds: how much depends on the value.
    pub fn adds_within(&self) -> bool {
        self.command.name == "INCREX"
    }

    /// The keys that it locks.
    pub fn keys(&self) -> BTreeSet<String> {
        let keys = self.command.keys_of(self.args).unwrap_or_default();
        let limit = self.limit_key();
        let held = keys.into_iter().filter(|key| limit != Some(*key));
        set_of(held.cloned())
    }

    /// The keys of a script, or an `INCREX`, that may be about small values only; `None` for other commands, and if the
    /// limit is stored in a key.
    pub fn own_keys(&self) -> Option<BTreeSet<String>> {
        if self.named.is_some() {
            return None;
        }
        if self.adds_within() {
            return Some(self.keys());
        }
        let script = self.script().filter(|script| *script != Script::Reset)?;
        let (keys, _) = script_words(self.args).ok()?;
        let is_own = self.script_of_sets().is_none() && script.limit_key(keys).is_none();
        is_own.then(|| set_of(keys.iter().cloned()))
    }

    /// Whether it runs a script.
    pub fn is_script(&self) -> bool {
        matches!(self.command.act, Act::Script)
    }

    fn script(&self) -> Option<Script> {
        self.is_script().then(|| scripts::named(self.args).ok())?
    }

    /// The key from which a script reads a limit.
    pub fn limit_key(&self) -> Option<&String> {
        let script = self.script()?;
        let (keys, _) = script_words(self.args).ok()?;
        script.limit_key(keys)
    }

    /// The script that reads sorted sets, if the command is one.
    pub fn script_of_sets(&self) -> Option<Script> {
        let script = self.script()?;
        matches!(script, Script::FieldSums | Script::Union | Script::Tops).then_some(script)
    }

    /// Whether it is the script that deletes all keys of a pattern.
    pub fn is_reset(&self) -> bool {
        self.script() == Some(Script::Reset)
            && script_words(self.args).is_ok_and(|(keys, _)| !keys.is_empty())
    }

    /// Whether its effect and its reply do not depend on the state of its keys.
    pub fn is_blind(&self) -> bool {
        let asks = |word: &String| {
            ["NX", "XX", "GET"]
                .iter()
                .any(|name| word.eq_ignore_ascii_case(name))
        };
        match self.command.name {
            "DEL" | "UNLINK" | "MSET" | "SETEX" | "PSETEX" => true,
            "SET" => !self.args.iter().skip(3).any(asks),
            _ => false,
        }
    }
}
