//! The commands of a transaction, from `MULTI` to `EXEC`.

use crate::framing::{WORD_BYTES, WORDS_MAX};
use tally_redis::command::Command;
use tally_redis::request::{COMMANDS_MAX, PIPELINE_BYTES_MAX};
use tally_wire::messages::Arguments;
use tally_wire::redis::Reply;

/// The commands of a transaction so far.
#[derive(Default)]
pub struct Transaction {
    commands: Vec<Arguments>,
    bytes: usize,
    words: usize,
    is_spoiled: bool,
}

impl Transaction {
    /// Adds a command.
    ///
    /// # Errors
    /// If there is no such command, or no room for it.
    pub fn queue(&mut self, args: Arguments) -> Result<(), Reply> {
        Command::find(&args)?;
        if self.commands.len() >= COMMANDS_MAX {
            return Err(Reply::err(format!(
                "a transaction has at most {COMMANDS_MAX} commands"
            )));
        }
        self.bytes += args.iter().map(String::len).sum::<usize>();
        if self.bytes > PIPELINE_BYTES_MAX {
            return Err(Reply::err(format!(
                "a transaction has at most {PIPELINE_BYTES_MAX} bytes"
            )));
        }
        self.words += args.len();
        if self.words > WORDS_MAX {
            return Err(Reply::err(format!(
                "a transaction has at most {WORDS_MAX} words"
            )));
        }
        self.commands.push(args);
        Ok(())
    }

    /// A command of it was refused, so it will not run.
    pub fn spoil(&mut self) {
        self.is_spoiled = true;
        self.commands.clear();
    }

    /// How many bytes of memory its commands take.
    pub fn held_bytes(&self) -> usize {
        match self.is_spoiled {
            true => 0,
            false => self
                .bytes
                .saturating_add(self.words.saturating_mul(WORD_BYTES)),
        }
    }

    /// How many commands it has.
    pub fn count(&self) -> i64 {
        i64::try_from(self.commands.len()).unwrap_or(i64::MAX)
    }

    /// Its commands.
    ///
    /// # Errors
    /// The error of Redis where one was refused.
    pub fn complete(self) -> Result<Vec<Arguments>, &'static str> {
        match self.is_spoiled {
            true => Err("EXECABORT Transaction discarded because of previous errors."),
            false => Ok(self.commands),
        }
    }
}
