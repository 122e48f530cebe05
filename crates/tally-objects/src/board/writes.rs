//! Writes to a board: each with a key counts once, and those of one message are one commit.

use super::object::{BoardCore, EXPIRED_TURNS, Misplaced};
use super::records::Record;
use super::rows::{BoardRole, Head};
use super::state::Loaded;
use crate::cell::ledger::ledger_limits;
use std::collections::BTreeMap;
use std::iter::repeat;
use tally_core::board::member::{Member, MemberRefusal};
use tally_core::board::placing::{GROUPS, Placing, ShardAt, group_of};
use tally_core::board::settings::Settings;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::ledger::{KeySource, WriteKey};
use tally_core::counter::ledgers::{LedgerLimits, PUBLIC_RECORDS_MAX};
use tally_shared::call;
use tally_wire::messages::{
    BoardWritten, Fault, MemberAction, MemberOutcome, MemberStanding, MemberWrite, OnceKey,
    WriteBoard, WriteBoards,
};

/// A member with its name.
type NamedPair = (Vec<u8>, Member);

/// The writes of one request, their key, and their sequences, as in [`WriteBoard`].
type Request = (Vec<MemberWrite>, Option<OnceKey>, Vec<u64>);

/// A write, and its sequence; 0 where the object gives its own.
type OrderedWrite<'a> = (&'a MemberWrite, u64);

/// The indices of a group's writes among all, the key of their record, and their result if they were made before.
type GroupWrites = (Vec<u32>, OnceKey, Option<BoardWritten>);

/// Whether writes create a missing board. A write that requires an existing member does not.
fn begins(writes: &[MemberWrite]) -> bool {
    let is_put = |write: &MemberWrite| matches!(write.action, MemberAction::Put(_));
    let mut free = writes.iter().filter(|write| write.condition.is_none());
    free.any(is_put)
}

/// The key of a record that is older than the first spread of the board: the client's own. Every shard has these, so a
/// claim is compared with them too.
fn whole_key(first: Option<&MemberWrite>, once: &OnceKey) -> OnceKey {
    match first.is_some_and(MemberWrite::is_claim) {
        true => once.claim(),
        false => *once,
    }
}

/// Puts a rank into the outcome of a write, with the sequence and the number of members at that moment.
fn put_rank(loaded: &Loaded, outcome: &mut MemberOutcome, rank: Option<u64>) {
    if let Some(stand) = &mut outcome.stand {
        stand.rank = rank;
    }
    (outcome.sequence, outcome.total) = (loaded.head.sequence, loaded.directory.total());
}

/// The key of the record of a group, for writes with this key.
fn group_key(key: WriteKey, group: u32) -> WriteKey {
    let mut bytes = key.0;
    for (byte, of_group) in bytes.iter_mut().zip((group + 1).to_le_bytes()) {
        *byte ^= of_group;
    }
    WriteKey(bytes)
}

impl BoardCore {
    pub(super) async fn on_write(
        &self,
        message: Result<WriteBoard, Fault>,
    ) -> Result<BoardWritten, Fault> {
        let WriteBoard {
            board,
            at,
            home,
            writes,
            once,
            sequences,
        } = message?;
        let requests = vec![(writes, once, sequences)];
        let written = self.write_many(&board, at, home, &requests).await?;
        let nothing = || Fault::Broken("a write was not answered".to_owned());
        written.into_iter().next().ok_or_else(nothing)
    }

    pub(super) async fn on_write_many(
        &self,
        message: Result<WriteBoards, Fault>,
    ) -> Result<Vec<BoardWritten>, Fault> {
        let WriteBoards {
            board,
            at,
            home,
            requests,
        } = message?;
        let requests = requests.into_iter();
        let requests: Vec<Request> = requests
            .map(|(writes, once)| (writes, once, Vec::new()))
            .collect();
        self.write_many(&board, at, home, &requests).await
    }

    /// Makes the writes of several requests, one after the other and in one commit.
    async fn write_many(
        &self,
        board: &CounterId,
        at: ShardAt,
        home: Option<Datacenter>,
        requests: &[Request],
    ) -> Result<Vec<BoardWritten>, Fault> {
        self.ready(board, at).await?;
        self.record_load(requests.len());
        let all = |answer: BoardWritten| Ok(vec![answer; requests.len()]);
        if at.layout == 0 && !self.is_living() {
            // A retry is not applied to the next board.
            let known = self.known_of_ended(board, requests).await?;
            let mut unknown = requests.iter().zip(&known);
            if !unknown.any(|((writes, ..), known)| known.is_none() && begins(writes)) {
                let unmade = known.into_iter().zip(requests);
                let unmade = unmade.map(|(known, (writes, ..))| {
                    known.unwrap_or_else(|| self.without_board(writes))
                });
                return Ok(unmade.collect());
            }
            let placing = Placing {
                home,
                ..Placing::default()
            };
            self.begin(board, Settings::default(), &placing).await?;
        }
        self.send_settings().await?;
        if let Some(misplaced) = self.misplaced(at) {
            // The owner that moved the members may be gone: the alarm then cancels the move.
            self.arm().await;
            if matches!(misplaced, Misplaced::Stale) {
                return self.known_or_stale(at, requests);
            }
            return all(misplaced.into());
        }
        for _ in 0..EXPIRED_TURNS {
            self.catch_up()?;
            if self.is_ending_period() {
                self.arm().await;
                return all(BoardWritten::Moving);
            }
        }
        let written = self.write(requests)?;
        self.arm().await;
        Ok(written)
    }

    /// The result of earlier writes with this key, if there were any.
    fn known(&self, once: Option<&OnceKey>) -> Result<Option<BoardWritten>, Fault> {
        let loaded = self.loaded.borrow();
        match (loaded.as_ref(), once) {
            (Some(loaded), Some(once)) => self.known_in(&loaded.head, once),
            _ => Ok(None),
        }
    }

    /// The earlier results of requests to a board that has ended or never existed: by the records of this object and,
    /// if the board was spread, by those of its shards.
    async fn known_of_ended(
        &self,
        board: &CounterId,
        requests: &[Request],
    ) -> Result<Vec<Option<BoardWritten>>, Fault> {
        let mut known = Vec::with_capacity(requests.len());
        for (_, once, _) in requests {
            known.push(self.known(once.as_ref())?);
        }
        let (layout, has_unsent_state, home) = {
            let loaded = self.loaded.borrow();
            let role = loaded.as_ref().map(|loaded| loaded.role.clone());
            let BoardRole {
                layout,
                has_unsent_state,
                placing,
                ..
            } = role.unwrap_or_default();
            (layout, has_unsent_state, placing.home)
        };
        let mut claims: BTreeMap<ShardAt, Vec<(usize, OnceKey)>> = BTreeMap::new();
        for (number, ((_, once, _), known)) in requests.iter().zip(&known).enumerate() {
            if let (1.., Some(once), None) = (layout.number, once, known) {
                let at = layout.shard_of_member(&MemberWrite::claim_of(once.key).member);
                claims.entry(at).or_default().push((number, *once));
            }
        }
        if has_unsent_state && !claims.is_empty() {
            // A shard that does not know of the end would accept the claims.
            self.send_end(board).await?;
        }
        for (at, claims) in claims {
            let requests = claims
                .iter()
                .map(|(_, once)| (vec![MemberWrite::claim_of(once.key)], Some(once.claim())));
            let write = WriteBoards {
                board: board.clone(),
                at,
                home: home.clone(),
                requests: requests.collect(),
            };
            for ((number, _), answer) in claims.iter().zip(call(&self.host, &write).await?) {
                let is_known = matches!(answer, BoardWritten::Ended | BoardWritten::Reused);
                if let Some(known) = known.get_mut(*number).filter(|_| is_known) {
                    *known = Some(answer);
                }
            }
        }
        Ok(known)
    }

    /// The answer to writes that do not create a board, if there is none.
    fn without_board(&self, writes: &[MemberWrite]) -> BoardWritten {
        if writes.iter().any(|write| write.condition.is_none()) {
            return BoardWritten::Ended;
        }
        // A condition on a member does not hold for a missing one.
        let refused = (0..)
            .zip(writes)
            .map(|(index, _)| (index, MemberRefusal::Changed));
        BoardWritten::Done(MemberOutcome {
            generation: self.generation().unwrap_or(0),
            sequence: 0,
            at_ms: self.host.now_ms(),
            total: 0,
            accepted: 0,
            changed: 0,
            refused: refused.collect(),
            stand: None,
        })
    }

    /// The answers of a shard without members. It still has the keys of a board that has ended.
    fn known_or_stale(
        &self,
        at: ShardAt,
        requests: &[Request],
    ) -> Result<Vec<BoardWritten>, Fault> {
        let loaded = self.loaded.borrow();
        let loaded = loaded.as_ref().filter(|loaded| loaded.role.at == at);
        let known = |(writes, once, _): &Request| {
            let (Some(loaded), Some(once)) = (loaded, once) else {
                return Ok(BoardWritten::Stale);
            };
            let mut known = self.known_in(&loaded.head, &whole_key(writes.first(), once))?;
            if known.is_none() {
                let writes: Vec<OrderedWrite> = writes.iter().zip(repeat(0)).collect();
                let groups = self.groups_of(loaded, &writes, once)?;
                known = groups.into_iter().find_map(|(.., known)| known);
            }
            Ok(known.unwrap_or(BoardWritten::Stale))
        };
        requests.iter().map(known).collect()
    }

    fn known_in(&self, head: &Head, once: &OnceKey) -> Result<Option<BoardWritten>, Fault> {
        let slots = head.ledgers().slots(once.keys);
        let record: Option<Record> = self.rows.record(&slots, once.key)?;
        Ok(record.map(|record| {
            if record.fingerprint != once.fingerprint {
                BoardWritten::Reused
            } else if record.written.generation != head.generation || !head.is_living {
                BoardWritten::Ended
            } else {
                BoardWritten::Replayed(record.written)
            }
        }))
    }

    pub(super) fn limits_of(&self, keys: KeySource) -> LedgerLimits {
        let limits = ledger_limits(&self.host);
        match keys {
            KeySource::Public => LedgerLimits::public(limits.kept_ms, 0, PUBLIC_RECORDS_MAX),
            _ => limits,
        }
    }

    /// Makes the writes of requests in one commit, each once.
    fn write(&self, requests: &[Request]) -> Result<Vec<BoardWritten>, Fault> {
        let now_ms = self.host.now_ms();
        self.commit(|loaded| {
            let mut ledgers = loaded.head.ledgers();
            if let Some(newest) = ledgers.expire(now_ms) {
                self.rows.delete_records(newest)?;
                loaded.head.set_ledgers(&ledgers);
            }
            let writes = requests.iter().flat_map(|(writes, ..)| writes);
            let names: Vec<&[u8]> = writes.map(|write| write.member.as_slice()).collect();
            let is_one_each =
                names.len() > 1 && self.rows.read_ahead(loaded.head.epoch, &names)? == names.len();
            let (mut all, mut unranked) = (Vec::with_capacity(requests.len()), Vec::new());
            for (writes, once, sequences) in requests {
                // An object with the whole board orders writes by its own sequence.
                let sequences = match loaded.role.at.layout {
                    0 => &[],
                    _ => sequences.as_slice(),
                };
                let sequences = sequences.iter().copied().chain(repeat(0));
                let writes: Vec<OrderedWrite> = writes.iter().zip(sequences).collect();
                all.push(match once {
                    Some(once) => self.make_once(loaded, &writes, once, now_ms)?,
                    None => {
                        let (mut outcome, only) = self.make_all(loaded, &writes, now_ms)?;
                        match only {
                            Some(only) if is_one_each => unranked.push((all.len(), only)),
                            only => self.rank(loaded, &mut outcome, only)?,
                        }
                        BoardWritten::Done(outcome)
                    }
                });
            }
            // No later write in the commit has changed these members.
            let (indices, members): (Vec<usize>, Vec<NamedPair>) = unranked.into_iter().unzip();
            for (index, rank) in indices.into_iter().zip(self.ranks(loaded, &members)?) {
                if let Some(BoardWritten::Done(outcome)) = all.get_mut(index) {
                    put_rank(loaded, outcome, rank);
                }
            }
            Ok(all)
        })
    }

    /// The ranks of these members; none while expired members are still counted.
    fn ranks(&self, loaded: &Loaded, members: &[NamedPair]) -> Result<Vec<Option<u64>>, Fault> {
        match loaded.is_exact && !members.is_empty() {
            true => loaded.reader(&self.rows).ranks(members),
            false => Ok(Vec::new()),
        }
    }

    /// Puts the rank of the only written member into the outcome.
    fn rank(
        &self,
        loaded: &Loaded,
        outcome: &mut MemberOutcome,
        only: Option<NamedPair>,
    ) -> Result<(), Fault> {
        if let Some(rank) = self.ranks(loaded, only.as_slice())?.pop() {
            put_rank(loaded, outcome, rank);
        }
        Ok(())
    }

    /// Makes writes that have a key. In a shard each group of members has a separate record, which moves with the
    /// group. A claim has a separate record too.
    fn make_once(
        &self,
        loaded: &mut Loaded,
        writes: &[OrderedWrite<'_>],
        once: &OnceKey,
        now_ms: i64,
    ) -> Result<BoardWritten, Fault> {
        let is_spread = loaded.role.at.layout > 0;
        let whole = whole_key(writes.first().map(|(write, _)| *write), once);
        if let Some(known) = self.known_in(&loaded.head, &whole)? {
            return Ok(match known {
                BoardWritten::Replayed(written) if is_spread => {
                    BoardWritten::ReplayedWhole(written)
                }
                known => known,
            });
        }
        if !is_spread {
            return self.make_recorded(loaded, writes, once, now_ms);
        }
        let groups = self.groups_of(loaded, writes, once)?;
        // All records are written, or none.
        let (mut room, limits) = (loaded.head.ledgers(), self.limits_of(once.keys));
        for (.., known) in &groups {
            match known {
                Some(BoardWritten::Replayed(_)) => {}
                Some(refusal) => return Ok(refusal.clone()),
                None if room.admit(limits, now_ms).is_none() => return Ok(BoardWritten::Full),
                None => {}
            }
        }
        let (mut whole, mut is_new) = (None::<MemberOutcome>, false);
        for (indices, of_group, known) in groups {
            let some = indices.iter().filter_map(|index| {
                let index = usize::try_from(*index).ok()?;
                writes.get(index).copied()
            });
            let written = match known {
                Some(known) => known,
                None => {
                    is_new = true;
                    let some: Vec<OrderedWrite> = some.collect();
                    self.make_recorded(loaded, &some, &of_group, now_ms)?
                }
            };
            let (BoardWritten::Done(written) | BoardWritten::Replayed(written)) = written else {
                return Ok(written);
            };
            let index_of = |index: u32| {
                let index = usize::try_from(index).ok()?;
                indices.get(index).copied()
            };
            let written = MemberOutcome {
                refused: (written.refused.iter())
                    .filter_map(|(index, why)| Some((index_of(*index)?, *why)))
                    .collect(),
                ..written
            };
            whole = Some(match whole {
                None => written,
                Some(before) => before.and(written),
            });
        }
        let whole = whole.ok_or_else(|| Fault::Broken("writes of no member".to_owned()))?;
        Ok(match is_new {
            true => BoardWritten::Done(whole),
            false => BoardWritten::Replayed(whole),
        })
    }

    /// The indices of the writes of each group, the key of their record, and the result that is stored with it.
    fn groups_of(
        &self,
        loaded: &Loaded,
        writes: &[OrderedWrite<'_>],
        once: &OnceKey,
    ) -> Result<Vec<GroupWrites>, Fault> {
        let mut groups = Vec::new();
        for group in 0..GROUPS {
            let indices: Vec<u32> = (0..)
                .zip(writes)
                .filter(|(_, (write, _))| group_of(&write.member) == group)
                .map(|(index, _)| index)
                .collect();
            if indices.is_empty() {
                continue;
            }
            let key = group_key(once.key, group);
            let of_group = OnceKey { key, ..*once };
            let known = self.known_in(&loaded.head, &of_group)?;
            groups.push((indices, of_group, known));
        }
        Ok(groups)
    }

    /// Makes writes whose key is new, and stores their result.
    fn make_recorded(
        &self,
        loaded: &mut Loaded,
        writes: &[OrderedWrite<'_>],
        once: &OnceKey,
        now_ms: i64,
    ) -> Result<BoardWritten, Fault> {
        let mut ledgers = loaded.head.ledgers();
        let Some(slot) = ledgers.admit(self.limits_of(once.keys), now_ms) else {
            return Ok(BoardWritten::Full);
        };
        loaded.head.set_ledgers(&ledgers);
        let (mut written, only) = self.make_all(loaded, writes, now_ms)?;
        self.rank(loaded, &mut written, only)?;
        let record = Record {
            fingerprint: once.fingerprint,
            written: written.clone(),
        };
        let is_noted = loaded.role.source.is_noting();
        self.rows.put_record(slot, once.key, &record, is_noted)?;
        Ok(BoardWritten::Done(written))
    }

    /// Makes writes. Returns the member of a single write too, whose rank is not known yet.
    fn make_all(
        &self,
        loaded: &mut Loaded,
        writes: &[OrderedWrite<'_>],
        now_ms: i64,
    ) -> Result<(MemberOutcome, Option<NamedPair>), Fault> {
        let (mut accepted, mut changed) = (0, 0);
        let (mut refused, mut last) = (Vec::new(), None);
        for ((write, sequence), index) in writes.iter().zip(0..) {
            match loaded.make(&self.rows, write, *sequence, now_ms)? {
                Ok((stand, member, is_changed)) => {
                    accepted += 1;
                    changed += u64::from(is_changed);
                    last = Some((stand, member));
                }
                Err(refusal) => refused.push((index, refusal)),
            }
        }
        let (stand, only) = match (writes, last) {
            ([(only, _)], Some((stand, member))) => (
                Some(stand),
                member.map(|member| (only.member.clone(), member)),
            ),
            _ => ((!loaded.is_exact).then(MemberStanding::default), None),
        };
        let outcome = MemberOutcome {
            generation: loaded.head.generation,
            sequence: loaded.head.sequence,
            at_ms: now_ms,
            total: loaded.directory.total(),
            accepted,
            changed,
            refused,
            stand,
        };
        Ok((outcome, only))
    }
}
