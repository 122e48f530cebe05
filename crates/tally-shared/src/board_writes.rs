//! Writes to a board: to the shard of each member, and with a key to the shard that claims it.

use super::boards::{AGAIN_MS, TRIES_MAX, cache_route, home_of, layout_of, moving};
use super::concurrency::all_in_order;
use futures_util::future::LocalBoxFuture;
use std::collections::BTreeMap;
use tally_api::boards::BoardVersion;
use tally_core::board::placing::{Layout, ShardAt, first_sequence};
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::order::put_in_order;
use tally_host::Host;
use tally_wire::messages::{BoardWritten, Fault, MemberOutcome, MemberWrite, OnceKey, WriteBoard};

/// Sends writes to one shard.
pub type Send<'a> = dyn Fn(WriteBoard) -> LocalBoxFuture<'a, Result<BoardWritten, Fault>> + 'a;

/// The first of the sequences for several writes to a spread board. They rise from one call to the next, for any
/// shards.
fn sequences(host: &Host, board: &CounterId, layout: Layout, count: usize) -> Option<u64> {
    if layout.number == 0 || count < 2 {
        return None;
    }
    let mut first = first_sequence(host.now_ms());
    cache_route(host, board, |route| {
        first = first.max(route.next_sequence);
        route.next_sequence = first.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
    });
    Some(first)
}

/// Writes, each with its place among all.
type IndexedWrites = Vec<(u32, MemberWrite)>;

/// Makes writes in the shards of their members; `here` is the datacenter of the writer. Equal scores of several writes
/// stand in their order, also in different shards. Writes to a spread board that have a key are made after its claim.
/// Returns the outcomes, and the version that includes them. After [`BoardWritten::Replayed`] ranks and totals are of
/// single shards, after [`BoardWritten::ReplayedWhole`] of the board.
///
/// # Errors
/// Where a shard does not answer: then what it was sent may have been written.
pub fn write<'a>(
    host: &'a Host,
    board: &'a CounterId,
    here: &'a Datacenter,
    (writes, once): (Vec<MemberWrite>, Option<OnceKey>),
    send: &'a Send<'a>,
) -> LocalBoxFuture<'a, Result<(BoardWritten, BoardVersion), Fault>> {
    Box::pin(async move {
        let mut layout = layout_of(host, board);
        let count = writes.len();
        let mut first = None;
        let mut left: IndexedWrites = (0..).zip(writes).collect();
        let mut made = WriteProgress::default();
        let mut missed = false;
        let send = |write: WriteBoard| {
            let home = home_of(host, board).or_else(|| Some(here.clone()));
            send(WriteBoard { home, ..write })
        };
        for _ in 0..TRIES_MAX {
            first = first.or_else(|| sequences(host, board, layout, count));
            let mut next = None;
            if let Some(claim) = claim_of(board, layout, once) {
                let at = claim.at;
                next = made.add_claim(layout, at, send(claim).await?);
            }
            if next.is_none() && made.last.is_none() {
                let parts = parts_of(layout, std::mem::take(&mut left));
                let sent = parts.into_iter().map(|(at, part)| {
                    let write = write_of(board, &part, once, first);
                    let sent = send(WriteBoard { at, ..write });
                    async move { (at, part, sent.await) }
                });
                (left, next) = made.add_all(layout, all_in_order(sent).await)?;
            }
            if let Some(last) = made.last() {
                return last.map(|last| (last, made.version));
            }
            let Some(next) = next else {
                cache_route(host, board, |route| route.layout = layout);
                return made.finish();
            };
            put_in_order(&mut left, |(one, _), (other, _)| one.cmp(other));
            // The owner is asked at once, and again after a while.
            if next.number == 0 && std::mem::replace(&mut missed, true) {
                host.sleep_ms(AGAIN_MS).await;
            }
            layout = next;
            cache_route(host, board, |route| route.layout = next);
        }
        Err(moving())
    })
}

/// The writes by the shards of their members.
fn parts_of(layout: Layout, writes: IndexedWrites) -> BTreeMap<ShardAt, IndexedWrites> {
    let mut parts: BTreeMap<ShardAt, IndexedWrites> = BTreeMap::new();
    for (index, write) in writes {
        let at = layout.shard_of_member(&write.member);
        parts.entry(at).or_default().push((index, write));
    }
    parts
}

/// The claim of a key, to its shard; `None` without a key, and in a layout whose only object has the records of all
/// keys. The claim is needed because two requests with one key may go to different shards.
fn claim_of(board: &CounterId, layout: Layout, once: Option<OnceKey>) -> Option<WriteBoard> {
    let once = once.filter(|_| layout.number > 0)?;
    let claim = MemberWrite::claim_of(once.key);
    Some(WriteBoard {
        at: layout.shard_of_member(&claim.member),
        ..WriteBoard::new(board, vec![claim], Some(once.claim()))
    })
}

/// The writes to one shard; their sequences are counted from `first`, by the index of each among all.
fn write_of(
    board: &CounterId,
    part: &[(u32, MemberWrite)],
    once: Option<OnceKey>,
    first: Option<u64>,
) -> WriteBoard {
    let writes = part.iter().map(|(_, write)| write.clone()).collect();
    let indices = part.iter().map(|(index, _)| u64::from(*index));
    let sequences = first.map(|first| indices.map(|index| first + index).collect());
    WriteBoard {
        sequences: sequences.unwrap_or_default(),
        ..WriteBoard::new(board, writes, once)
    }
}

fn version_of(layout: Layout, at: ShardAt, written: &MemberOutcome) -> BoardVersion {
    let shards = usize::try_from(layout.shards).unwrap_or(1);
    let mut sequences = vec![0; shards.max(1)];
    let shard = usize::try_from(at.shard).unwrap_or(0);
    if let Some(sequence) = sequences.get_mut(shard) {
        *sequence = written.sequence;
    }
    BoardVersion {
        generation: written.generation,
        layout: layout.number,
        sequences,
    }
}

/// The outcomes of writes so far.
struct WriteProgress {
    written: Option<MemberOutcome>,
    /// Whether all of them had been made before.
    is_replay: bool,
    version: BoardVersion,
    /// The answer that ends the writing: a refusal, or the earlier result of all writes.
    last: Option<BoardWritten>,
}

/// The answer of a shard to its part of the writes.
type AnsweredPart = (ShardAt, IndexedWrites, Result<BoardWritten, Fault>);

impl Default for WriteProgress {
    fn default() -> Self {
        Self {
            written: None,
            is_replay: true,
            version: BoardVersion {
                generation: 0,
                layout: 0,
                sequences: vec![0],
            },
            last: None,
        }
    }
}

impl WriteProgress {
    /// Notes the answers of shards. Returns the writes that are left, and the layout to send them in.
    ///
    /// # Errors
    /// Where a shard did not answer.
    fn add_all(
        &mut self,
        layout: Layout,
        answered: Vec<AnsweredPart>,
    ) -> Result<(IndexedWrites, Option<Layout>), Fault> {
        let (mut left, mut next, mut fault) = (Vec::new(), None, None);
        for (at, part, written) in answered {
            match written {
                Ok(BoardWritten::Done(written)) => self.add(layout, at, &part, written, false),
                Ok(BoardWritten::Replayed(written)) => self.add(layout, at, &part, written, true),
                Ok(BoardWritten::ReplayedWhole(written)) => {
                    self.add_whole(layout, at, written);
                    return Ok((Vec::new(), None));
                }
                Ok(BoardWritten::Spread(to)) => {
                    next = Some(to);
                    left.extend(part);
                }
                Ok(BoardWritten::Stale | BoardWritten::Moving) => {
                    next.get_or_insert(Layout::default());
                    left.extend(part);
                }
                Ok(other) => self.last = Some(other),
                Err(why) => fault = Some(why),
            }
        }
        fault.map_or(Ok((left, next)), Err)
    }

    /// Notes the answer to a claim. Returns the layout to try next, where this one has no members.
    fn add_claim(&mut self, layout: Layout, at: ShardAt, answer: BoardWritten) -> Option<Layout> {
        match answer {
            BoardWritten::Done(_) | BoardWritten::Replayed(_) => {}
            BoardWritten::ReplayedWhole(written) => self.add_whole(layout, at, written),
            BoardWritten::Spread(to) => return Some(to),
            BoardWritten::Stale | BoardWritten::Moving => return Some(Layout::default()),
            other => self.last = Some(other),
        }
        None
    }

    /// Notes that all writes were made before the board was spread.
    fn add_whole(&mut self, layout: Layout, at: ShardAt, written: MemberOutcome) {
        self.version = version_of(layout, at, &written);
        self.last = Some(BoardWritten::ReplayedWhole(written));
    }

    fn add(
        &mut self,
        layout: Layout,
        at: ShardAt,
        part: &[(u32, MemberWrite)],
        written: MemberOutcome,
        is_replay: bool,
    ) {
        let version = version_of(layout, at, &written);
        if version.layout == self.version.layout && self.written.is_some() {
            let both = self.version.sequences.iter_mut().zip(version.sequences);
            both.for_each(|(known, sequence)| *known = sequence.max(*known));
        } else {
            // The new layout includes the writes of the former one.
            self.version = version;
        }
        self.is_replay &= is_replay;
        let index_of = |index: u32| {
            let index = usize::try_from(index).ok()?;
            part.get(index).map(|(index, _)| *index)
        };
        let refused = written.refused.iter();
        let refused = refused.filter_map(|(index, why)| Some((index_of(*index)?, *why)));
        let written = MemberOutcome {
            refused: refused.collect(),
            ..written
        };
        self.written = Some(match self.written.take() {
            None => written,
            Some(before) => before.and(written),
        });
    }

    /// The answer that ends the writing, if there was one. A full shard says that nothing was written, which holds for
    /// it alone.
    fn last(&mut self) -> Option<Result<BoardWritten, Fault>> {
        let last = self.last.take()?;
        Some(match (&last, &self.written) {
            (BoardWritten::Full, Some(_)) => Err(Fault::Unavailable(
                "one shard remembers too many keys, others have written; keep the key".to_owned(),
            )),
            _ => Ok(last),
        })
    }

    fn finish(self) -> Result<(BoardWritten, BoardVersion), Fault> {
        let nothing = || Fault::Broken("writes to no member".to_owned());
        let written = self.written.ok_or_else(nothing)?;
        let written = match self.is_replay {
            // An object with all members knew their order.
            true if self.version.layout == 0 => BoardWritten::ReplayedWhole(written),
            true => BoardWritten::Replayed(written),
            false => BoardWritten::Done(written),
        };
        Ok((written, self.version))
    }
}
