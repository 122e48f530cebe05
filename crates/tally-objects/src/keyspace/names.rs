//! Commands over all keys of a keyspace: its own, all counters and all boards.

use std::collections::BTreeMap;

use super::core::KeyspaceCore;
use super::store::{KeyName, NAMES_PAGE, Row};
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::order::put_in_order;
use tally_core::sketch::{HashKey, hash};
use tally_redis::command::KeyspaceCommand;
use tally_redis::error;
use tally_redis::glob::{Pattern, StepsLeft};
use tally_redis::notifications::KeyEvent;
use tally_redis::options::ScanOptions;
use tally_redis::reply_error::ReplyError;
use tally_redis::words::script_words;
use tally_shared::concurrency::all_settled;
use tally_shared::partitions::ask_all;
use tally_wire::messages::{Arguments, Call, Fault, List, ListBoards};
use tally_wire::redis::{REPLIES_BYTES_MAX, Reply};

/// The most keys that a pattern may match, and the most counters and boards that `DBSIZE` counts: some 10 MB of names.
pub const KEYS_LISTED_MAX: usize = 100_000;

/// The number of names on a page of a partition.
const PAGE: u32 = 1_000;

/// How many counters are ended at once.
const ENDED_AT_ONCE: usize = 64;

/// The type of each key by its name.
type Names = BTreeMap<String, &'static str>;

impl KeyspaceCore {
    /// A command over all keys.
    pub(super) async fn whole(
        &self,
        whole: KeyspaceCommand,
        args: &Arguments,
        steps: &StepsLeft,
    ) -> Result<Reply, ReplyError> {
        match whole {
            KeyspaceCommand::Size => self.size(steps).await,
            KeyspaceCommand::Keys => {
                let names = self.names(&Pattern::parse(&args[1], steps)?).await?;
                Ok(Reply::texts(names.into_keys()))
            }
            KeyspaceCommand::Scan => self.scan(args, steps).await,
            KeyspaceCommand::Flush => self.flush().await,
        }
    }

    async fn scan(&self, args: &Arguments, steps: &StepsLeft) -> Result<Reply, ReplyError> {
        let invalid = || Reply::err("invalid cursor");
        let cursor: u64 = args[1].parse().map_err(|_| invalid())?;
        let scan = ScanOptions::parse(&args[2..], steps, (true, KEYS_LISTED_MAX))?;
        let names = self.names(&scan.pattern);
        // Keys are in the order of their hashes. A cursor is a hash, so it stays valid while keys are made and deleted.
        let mut placed: Vec<(u64, String, &'static str)> = (names.await?)
            .into_iter()
            .map(|(name, of_type)| (position_of(&name), name, of_type))
            .filter(|(position, ..)| *position >= cursor)
            .collect();
        put_in_order(&mut placed, Ord::cmp);
        let next = placed.get(scan.count).map_or(0, |(position, ..)| *position);
        placed.truncate(scan.count);
        let mut found = Vec::new();
        for (_, name, of_type) in placed {
            if scan.of_type.as_ref().is_none_or(|wanted| wanted == of_type) {
                found.push(name);
                if scan.with_type {
                    found.push(of_type.to_owned());
                }
            }
        }
        Ok(Reply::Array(vec![
            Reply::Text(next.to_string()),
            Reply::texts(found),
        ]))
    }

    /// `DBSIZE`: keys with rows here are counted without a bound.
    async fn size(&self, steps: &StepsLeft) -> Result<Reply, ReplyError> {
        let mut elsewhere = self.names_elsewhere(&Pattern::parse("*", steps)?).await?;
        self.readable()?;
        let mut own = 0;
        self.own_names("", |name| {
            if name.type_name.is_some() != name.has_ended {
                elsewhere.remove(&name.key);
            }
            own += usize::from(name.type_name.is_some() && !name.has_ended);
            Ok(())
        })?;
        Ok(Reply::count(own + elsewhere.len()))
    }

    /// All keys that match.
    async fn names(&self, pattern: &Pattern<'_>) -> Result<Names, ReplyError> {
        let mut names = self.names_elsewhere(pattern).await?;
        self.readable()?;
        let mut bytes = 0;
        self.own_names(pattern.prefix(), |name| {
            match (name.type_name, name.has_ended) {
                (Some(of_type), false) if pattern.matches(&name.key)? => {
                    bytes += name.key.len();
                    if bytes > REPLIES_BYTES_MAX {
                        return Err(error::replies_too_large().into());
                    }
                    names.insert(name.key, of_type);
                }
                // A counter that has expired does not exist, though it is not ended yet.
                (None, true) => {
                    names.remove(&name.key);
                }
                _ => {}
            }
            few_enough(names.len())
        })?;
        Ok(names)
    }

    /// Passes on the names of the rows here with this prefix, in their order; few are in memory at once.
    fn own_names(
        &self,
        prefix: &str,
        mut take: impl FnMut(KeyName) -> Result<(), ReplyError>,
    ) -> Result<(), ReplyError> {
        let now_ms = self.host.now_ms();
        let mut after: Option<String> = None;
        loop {
            let page = self.rows.names(prefix, after.as_deref(), now_ms)?;
            let is_last = page.len() < NAMES_PAGE;
            after = page.last().map(|last| last.key.clone());
            for name in page {
                if !name.key.starts_with(prefix) {
                    return Ok(());
                }
                take(name)?;
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// The counters and boards that match.
    async fn names_elsewhere(&self, pattern: &Pattern<'_>) -> Result<Names, ReplyError> {
        let mut names = Names::new();
        let mut take = |page: Vec<String>, of_type: &'static str| {
            for name in page {
                if pattern.matches(&name)? {
                    names.entry(name).or_insert(of_type);
                }
            }
            few_enough(names.len())
        };
        self.counters_listed(pattern.prefix(), async |page| take(page, "string"))
            .await?;
        self.boards_listed(pattern.prefix(), async |page| take(page, "zset"))
            .await?;
        Ok(names)
    }

    async fn counters_listed(
        &self,
        prefix: &str,
        take: impl AsyncFnMut(Vec<String>) -> Result<(), ReplyError>,
    ) -> Result<(), ReplyError> {
        let list = |partition: u32, after: Option<String>| List {
            partition,
            prefix: prefix.to_owned(),
            after,
            limit: PAGE,
        };
        let name = |(counter, _): (CounterId, _)| counter.into();
        self.listed(list, name, take).await
    }

    async fn boards_listed(
        &self,
        prefix: &str,
        take: impl AsyncFnMut(Vec<String>) -> Result<(), ReplyError>,
    ) -> Result<(), ReplyError> {
        let list = |partition: u32, after: Option<String>| ListBoards {
            partition,
            prefix: prefix.to_owned(),
            after,
            limit: PAGE,
        };
        self.listed(list, String::from, take).await
    }

    /// Passes on all names of all partitions, in pages of [`PAGE`] from each. A page ends at the last name that all of
    /// them have covered.
    async fn listed<T, C: Call<Answer = Vec<T>>>(
        &self,
        list: impl Fn(u32, Option<String>) -> C,
        name: impl Fn(T) -> String,
        mut take: impl AsyncFnMut(Vec<String>) -> Result<(), ReplyError>,
    ) -> Result<(), ReplyError> {
        let mut after: Option<String> = None;
        loop {
            let answered = ask_all(&self.host, |partition| list(partition, after.clone())).await;
            if let Some(fault) = answered.fault {
                return Err(fault.into());
            }
            let limit = usize::try_from(PAGE).unwrap_or(usize::MAX);
            let pages: Vec<Vec<String>> = (answered.answers.into_iter())
                .map(|(_, page)| page.into_iter().map(&name).collect())
                .collect();
            let full = pages.iter().filter(|page| page.len() >= limit);
            let covered_to = full.filter_map(|page| page.last()).min().cloned();
            let names = pages.into_iter().flatten();
            let names = names.filter(|name| covered_to.as_ref().is_none_or(|to| name <= to));
            take(names.collect()).await?;
            if covered_to.is_none() {
                return Ok(());
            }
            after = covered_to;
        }
    }

    /// `FLUSHDB`: also ends all counters and boards.
    async fn flush(&self) -> Result<Reply, ReplyError> {
        let here = Datacenter::local();
        let end = async |page: Vec<String>| {
            let ended = page.iter().map(|name| self.end(name, &here));
            let ended = all_settled(ended, ENDED_AT_ONCE).await;
            ended.into_iter().collect()
        };
        self.counters_listed("", end).await?;
        self.boards_listed("", end).await?;
        self.readable()?;
        self.rows.clear()?;
        Ok(Reply::ok())
    }

    /// The script that deletes all keys of a pattern: keys made by scripts, which are stored here.
    pub(super) async fn reset(
        &self,
        args: &Arguments,
        steps: &StepsLeft,
    ) -> Result<Reply, ReplyError> {
        let (keys, _) = script_words(args)?;
        let pattern = Pattern::parse(keys.first().map_or("", String::as_str), steps)?;
        let mut gone = Vec::new();
        self.own_names(pattern.prefix(), |name| {
            if name.type_name.is_some() && !name.has_ended && pattern.matches(&name.key)? {
                gone.push((name.key, None));
            }
            if gone.len() >= NAMES_PAGE {
                self.reset_all(&mut gone)?;
            }
            Ok(())
        })?;
        self.reset_all(&mut gone)?;
        Ok(Reply::Nil)
    }

    fn reset_all(&self, gone: &mut Vec<(String, Option<Row>)>) -> Result<(), Fault> {
        self.rows.write(gone, None)?;
        self.listeners.notify(|| {
            let names = gone.iter().map(|(name, _)| KeyEvent::new("del", name));
            names.collect()
        });
        gone.clear();
        Ok(())
    }
}

fn few_enough(names: usize) -> Result<(), ReplyError> {
    if names > KEYS_LISTED_MAX {
        return Err(too_many());
    }
    Ok(())
}

fn too_many() -> ReplyError {
    ReplyError::Fault(Fault::TooMany(
        u32::try_from(KEYS_LISTED_MAX).unwrap_or(u32::MAX),
    ))
}

/// The position of a key in the order of `SCAN`: 53 bits, which any client can hold, and never 0, which means the end.
fn position_of(name: &str) -> u64 {
    const SPARE_BITS: u32 = 11;
    (hash(&HashKey::from([0; 16]), name.as_bytes()) >> SPARE_BITS).max(1)
}
