//! Commands over all keys of a keyspace: its own, all counters and all boards.

use std::collections::BTreeMap;

use super::keyspace::KeyspaceCore;
use crate::core::counter::id::{CounterId, Datacenter};
use crate::core::sketch::{HashKey, hash};
use crate::node::shared::concurrency::all_settled;
use crate::node::shared::partitions::ask_all;
use crate::protocol::messages::{Call, Fault, List, ListBoards};
use crate::protocol::redis::command::{KeyspaceCommand, script_words};
use crate::protocol::redis::notifications::KeyEvent;
use crate::protocol::redis::options::number;
use crate::protocol::redis::reply::{Refused, Reply};
use crate::protocol::redis::request::Arguments;
use crate::protocol::redis::{error, glob};

/// The most keys of a reply, and of a keyspace that can be listed: some 10 MB of names.
pub const KEYS_LISTED_MAX: usize = 100_000;

/// How many names a page of a partition has.
const PAGE: u32 = 1_000;

/// Keys of one page of `SCAN`, where its `COUNT` is smaller.
const SCAN_COUNT_MIN: usize = 1_000;

/// How many counters are ended at once.
const ENDED_AT_ONCE: usize = 64;

/// The type of each key by its name.
type Names = BTreeMap<String, &'static str>;

/// The options of `SCAN`.
struct Scan<'a> {
    pattern: &'a str,
    count: usize,
    of_type: Option<String>,
    with_type: bool,
}

impl<'a> Scan<'a> {
    fn parse(words: &'a [String]) -> Result<Self, Reply> {
        let mut scan = Self {
            pattern: "*",
            count: SCAN_COUNT_MIN,
            of_type: None,
            with_type: false,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let name = word.to_ascii_uppercase();
            if name == "WITHTYPE" {
                scan.with_type = true;
                continue;
            }
            let value = words.next().ok_or_else(error::syntax)?;
            match name.as_str() {
                "MATCH" => scan.pattern = value,
                "COUNT" => {
                    let count = usize::try_from(number(value)?).unwrap_or(0);
                    if count == 0 {
                        return Err(error::syntax());
                    }
                    scan.count = count.clamp(SCAN_COUNT_MIN, KEYS_LISTED_MAX);
                }
                "TYPE" => scan.of_type = Some(value.to_ascii_lowercase()),
                _ => return Err(error::syntax()),
            }
        }
        Ok(scan)
    }
}

impl KeyspaceCore {
    /// A command over all keys.
    pub(super) async fn whole(
        &self,
        whole: KeyspaceCommand,
        args: &Arguments,
    ) -> Result<Reply, Refused> {
        match whole {
            KeyspaceCommand::Size => Ok(Reply::count(self.names("").await?.len())),
            KeyspaceCommand::Keys => {
                let pattern = &args[1];
                let names = self.names(glob::literal_prefix(pattern)).await?;
                let names = names
                    .into_keys()
                    .filter(|name| glob::matches(pattern, name));
                Ok(Reply::texts(names))
            }
            KeyspaceCommand::Scan => self.scan(args).await,
            KeyspaceCommand::Flush => self.flush().await,
        }
    }

    async fn scan(&self, args: &Arguments) -> Result<Reply, Refused> {
        let invalid = || Reply::err("invalid cursor");
        let cursor: u64 = args[1].parse().map_err(|_| invalid())?;
        let scan = Scan::parse(&args[2..])?;
        let names = self.names(glob::literal_prefix(scan.pattern)).await?;
        // In the order of their hashes: a cursor is a hash, so it stays valid while keys come and go.
        let mut placed: Vec<(u64, String, &'static str)> = names
            .into_iter()
            .map(|(name, of_type)| (place_of(&name), name, of_type))
            .filter(|(place, ..)| *place >= cursor)
            .collect();
        placed.sort_unstable();
        let next = placed.get(scan.count).map_or(0, |(place, ..)| *place);
        placed.truncate(scan.count);
        let mut found = Vec::new();
        for (_, name, of_type) in placed {
            let is_type = scan.of_type.as_ref().is_none_or(|wanted| wanted == of_type);
            if is_type && glob::matches(scan.pattern, &name) {
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

    /// All keys with this prefix.
    async fn names(&self, prefix: &str) -> Result<Names, Refused> {
        let mut names = Names::new();
        let counters = |partition: u32, after: Option<String>| List {
            partition,
            prefix: prefix.to_owned(),
            after,
            limit: PAGE,
        };
        let name = |(counter, _): (CounterId, _)| counter.into();
        for name in self.listed(counters, name).await? {
            names.insert(name, "string");
        }
        let boards = |partition: u32, after: Option<String>| ListBoards {
            partition,
            prefix: prefix.to_owned(),
            after,
            limit: PAGE,
        };
        for name in self.listed(boards, String::from).await? {
            names.entry(name).or_insert("zset");
        }
        self.readable()?;
        let most = i64::try_from(KEYS_LISTED_MAX).unwrap_or(i64::MAX);
        let now_ms = self.host.now_ms();
        // A counter that has expired does not exist, though it is not ended yet.
        for (name, _) in self.rows.lapsed(now_ms, most)? {
            names.remove(&name);
        }
        for (name, value) in self.rows.names(now_ms, most + 1)? {
            if let Some(value) = value
                && name.starts_with(prefix)
            {
                names.insert(name, value.type_name());
            }
        }
        if names.len() > KEYS_LISTED_MAX {
            return Err(too_many());
        }
        Ok(names)
    }

    /// All names of all partitions, in pages of [`PAGE`] from each; a page ends at the last name that all of them have
    /// covered.
    async fn listed<T, C: Call<Answer = Vec<T>>>(
        &self,
        list: impl Fn(u32, Option<String>) -> C,
        name: impl Fn(T) -> String,
    ) -> Result<Vec<String>, Refused> {
        let mut names: Vec<String> = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let asked = ask_all(&self.host, |partition| list(partition, after.clone())).await;
            if let Some(fault) = asked.fault {
                return Err(fault.into());
            }
            let most = usize::try_from(PAGE).unwrap_or(usize::MAX);
            let pages: Vec<Vec<String>> = (asked.answers.into_iter())
                .map(|(_, page)| page.into_iter().map(&name).collect())
                .collect();
            let full = pages.iter().filter(|page| page.len() >= most);
            let told_to = full.filter_map(|page| page.last()).min().cloned();
            let told = pages.into_iter().flatten();
            names.extend(told.filter(|name| told_to.as_ref().is_none_or(|to| name <= to)));
            if names.len() > KEYS_LISTED_MAX {
                return Err(too_many());
            }
            if told_to.is_none() {
                return Ok(names);
            }
            after = told_to;
        }
    }

    /// `FLUSHDB`: also ends all counters and boards.
    async fn flush(&self) -> Result<Reply, Refused> {
        let here = Datacenter::local();
        let names = self.names("").await?;
        let ended = names.keys().map(|name| self.end_counter(name, &here));
        for ended in all_settled(ended, ENDED_AT_ONCE).await {
            ended?;
        }
        self.readable()?;
        self.rows.clear()?;
        Ok(Reply::ok())
    }

    async fn end_counter(&self, name: &str, here: &Datacenter) -> Result<(), Refused> {
        let own = self.rows.row(name)?.is_some_and(|row| row.value.is_some());
        if own {
            return Ok(());
        }
        self.end(name, here).await
    }

    /// The script that deletes all keys of a pattern: keys made by scripts, which are stored here.
    pub(super) async fn reset(&self, args: &Arguments) -> Result<Reply, Refused> {
        let (keys, _) = script_words(args)?;
        let pattern = keys.first().map_or("", String::as_str);
        let most = i64::try_from(KEYS_LISTED_MAX).unwrap_or(i64::MAX);
        let known = self.rows.names(self.host.now_ms(), most)?;
        let matching = known
            .into_iter()
            .filter(|(name, value)| value.is_some() && glob::matches(pattern, name));
        let gone: Vec<_> = matching.map(|(name, _)| (name, None)).collect();
        self.rows.write(&gone, None)?;
        self.listeners.tell(|| {
            let names = gone.iter().map(|(name, _)| KeyEvent::new("del", name));
            names.collect()
        });
        Ok(Reply::Nil)
    }
}

fn too_many() -> Refused {
    Refused::Fault(Fault::TooMany(
        u32::try_from(KEYS_LISTED_MAX).unwrap_or(u32::MAX),
    ))
}

/// The position of a key in the order of `SCAN`: 53 bits, which any client can hold, and never 0, which means the end.
fn place_of(name: &str) -> u64 {
    const SPARE_BITS: u32 = 11;
    (hash(&HashKey::from([0; 16]), name.as_bytes()) >> SPARE_BITS).max(1)
}
