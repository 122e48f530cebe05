//! Boards of an import: their settings, and their members in groups.

use super::import::{Import, ended, exists};
use super::import_members::Members;
use futures_util::future::LocalBoxFuture;
use tally_api::boards::{
    WRITES_AT_ONCE, parse_member_line, parse_settings as parse_board, problem_of, refusal_of,
};
use tally_api::export::{ImportMode, Report};
use tally_api::idempotency_keys::fingerprint;
use tally_core::board::member::Amount;
use tally_core::board::settings::ScoreRule;
use tally_core::counter::id::CounterId;
use tally_core::counter::ledger::KeySource;
use tally_shared::board_writes;
use tally_shared::boards::BoardReader;
use tally_shared::call;
use tally_wire::messages::{
    BoardAnswer, BoardConfigured, BoardQuestion, BoardWritten, ConfigureBoard, EndBoard, Fault,
    MemberAction, MemberWrite, OnceKey, OperationKey, WriteBoard,
};
use tally_wire::problem::{Code, Problem};

/// The number of empty writes that record that an import has made a board.
const CLAIM_WRITES: usize = 2;

/// The maker of an existing board.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BoardClaim {
    /// This import, under its key.
    Own,
    /// Another caller, as far as is known.
    Foreign,
    /// The board that this import made has ended since.
    Ended,
}

impl Import<'_> {
    /// Creates a board; returns how it keeps scores.
    pub(super) async fn board(
        &self,
        board: &CounterId,
        settings: &str,
    ) -> Result<ScoreRule, Problem> {
        let host = &self.context.host;
        let (settings, placing) = parse_board(settings.as_bytes())?;
        let reading = BoardReader::new(host, board);
        let known = match reading.ask(BoardQuestion::About).await? {
            BoardAnswer::Seen(seen) => Some(seen),
            _ => None,
        };
        let mode = self.mode.name();
        match (known, self.mode) {
            (Some(seen), ImportMode::Create) => {
                let may_be_own = seen.settings == settings && self.keys.is_some();
                let is_empty = seen.period.total == 0;
                if !may_be_own || self.claim(board, mode, is_empty).await? != BoardClaim::Own {
                    return Err(exists("board"));
                }
                return Ok(seen.settings.keep);
            }
            (Some(seen), ImportMode::Add) => {
                self.claim(board, mode, false).await?;
                return Ok(seen.settings.keep);
            }
            (Some(seen), ImportMode::Replace) => {
                if self.claim(board, mode, false).await? != BoardClaim::Foreign {
                    return Ok(seen.settings.keep);
                }
                self.end_board(board, seen.generation).await?;
            }
            (None, _) => {}
        }
        let configure = ConfigureBoard {
            board: board.clone(),
            settings,
            placing,
            here: self.context.datacenter(),
        };
        let (made, is_new) = match call(host, &configure).await? {
            BoardConfigured::Done(made, is_new) => (made, is_new),
            BoardConfigured::Fixed => return Err(exists("board")),
        };
        // Another caller, or another attempt of this import, may have made the board since it was looked up.
        let is_own = is_new || made.period.total == 0;
        let mut claim = self.claim(board, mode, is_own).await?;
        if self.mode == ImportMode::Replace {
            // The first claim was made to the deleted board too.
            claim = self.claim(board, "replaced", is_own).await?;
        }
        match claim {
            BoardClaim::Ended => {
                if is_new {
                    self.end_board(board, made.generation).await?;
                }
                Err(ended())
            }
            BoardClaim::Foreign if !is_new && self.mode != ImportMode::Add => Err(exists("board")),
            BoardClaim::Own | BoardClaim::Foreign => Ok(settings.keep),
        }
    }

    /// Deletes a board of this generation, not a later one of its name.
    async fn end_board(&self, board: &CounterId, generation: u64) -> Result<bool, Fault> {
        let end = EndBoard {
            board: board.clone(),
            generation: Some(generation),
        };
        call(&self.context.host, &end).await
    }

    /// Whether this import has made a board under its key before. The record of that is an empty write, to the member
    /// with an empty name, which no board has. An import that has made the board, or finds it without members, sends
    /// two such writes at once. An import that only looks sends one.
    async fn claim(
        &self,
        board: &CounterId,
        step: &str,
        is_own: bool,
    ) -> Result<BoardClaim, Problem> {
        let step = ["board/", step].concat();
        let Some(once) = self.once(board.as_str(), &step, &[]) else {
            return Ok(BoardClaim::Foreign);
        };
        let nothing = MemberWrite {
            member: Vec::new(),
            action: MemberAction::Remove,
            condition: None,
        };
        let count = if is_own { CLAIM_WRITES } else { 1 };
        let writes = (vec![nothing; count], Some(once));
        match self.write_board(board, writes).await? {
            BoardWritten::Done(written) | BoardWritten::Replayed(written) => {
                let is_own = u64::try_from(CLAIM_WRITES) == Ok(written.accepted);
                Ok(match is_own {
                    true => BoardClaim::Own,
                    false => BoardClaim::Foreign,
                })
            }
            BoardWritten::Ended => Ok(BoardClaim::Ended),
            other => Err(problem_of(&other).unwrap_or_else(|| exists("board"))),
        }
    }

    /// The key of a step for a board, and of the lines that it writes; `None` without a key.
    fn once(&self, board: &str, step: &str, lines: &[u8]) -> Option<OnceKey> {
        self.keys.as_ref()?;
        let OperationKey {
            key, fingerprint, ..
        } = self.step_key(board, step, lines);
        Some(OnceKey {
            key,
            fingerprint,
            keys: KeySource::Clients,
        })
    }

    async fn write_board(
        &self,
        board: &CounterId,
        writes: (Vec<MemberWrite>, Option<OnceKey>),
    ) -> Result<BoardWritten, Fault> {
        let host = &self.context.host;
        let send = |write: WriteBoard| -> LocalBoxFuture<'_, Result<BoardWritten, Fault>> {
            Box::pin(async move { call(host, &write).await })
        };
        let here = self.context.datacenter();
        let written = board_writes::write(host, board, &here, writes, &send).await;
        // An import needs no ranks.
        written.map(|(written, _)| match written {
            BoardWritten::ReplayedWhole(written) => BoardWritten::Replayed(written),
            written => written,
        })
    }

    /// Adds a member to the next write; its board has a line before it.
    pub(super) async fn add_member(
        &mut self,
        number: u64,
        board: CounterId,
        line: &str,
    ) -> Result<(), Problem> {
        if self
            .members
            .as_ref()
            .is_some_and(|members| members.board != board)
        {
            self.write_members().await;
            self.members = None;
        }
        let (writes, is_expired) = parse_member_line(line.as_bytes(), self.now_ms)?;
        let keys = self.keys.as_ref().map(|keys| &keys.key);
        let hash_after = |before: u64| {
            let parts = [&before.to_le_bytes()[..], line.as_bytes()];
            keys.map_or(0, |key| fingerprint(&|bytes| key.hash(bytes), &parts))
        };
        if self.members.is_none() && self.mode == ImportMode::Create {
            let detail = "the line of its board must come before it in the same body; to add members to an existing board, send mode=add";
            return Err(Problem::new(Code::InvalidLine, detail));
        }
        let members = self.members.get_or_insert_with(|| Members::of(board, None));
        if members.is_refused {
            return Err(Problem::new(Code::InvalidLine, "its board was refused"));
        }
        members.first.get_or_insert(number);
        members.lines = hash_after(members.lines);
        members.size += writes.len();
        if !is_expired {
            let writes = writes.into_iter().map(|write| (number, write));
            members.writes.extend(writes);
        }
        if members.size >= WRITES_AT_ONCE {
            self.write_members().await;
        }
        Ok(())
    }

    /// How a board keeps scores: by its line, or by its settings if that line was in another body.
    async fn keep_of(
        &self,
        board: &CounterId,
        known: Option<ScoreRule>,
    ) -> Result<ScoreRule, Fault> {
        if let Some(keep) = known {
            return Ok(keep);
        }
        let reading = BoardReader::new(&self.context.host, board);
        Ok(match reading.ask(BoardQuestion::About).await? {
            BoardAnswer::Seen(seen) => seen.settings.keep,
            _ => ScoreRule::default(),
        })
    }

    /// Turns scores into amounts for a board that keeps sums: a new member begins with its score, once; otherwise the
    /// score is added.
    fn sum_up(&self, keep: ScoreRule, writes: &mut [MemberWrite]) {
        if keep != ScoreRule::Sum {
            return;
        }
        for write in writes {
            let MemberAction::Put(put) = &mut write.action else {
                continue;
            };
            if let Amount::Score(score) = put.amount {
                put.amount = Amount::Delta(score);
                put.exists = (self.mode != ImportMode::Add).then_some(false);
            }
        }
    }

    /// Writes the members that were added.
    pub(super) async fn write_members(&mut self) {
        let Some(members) = &mut self.members else {
            return;
        };
        let (board, known) = (members.board.clone(), members.keep);
        let pending = std::mem::take(&mut members.writes);
        members.size = 0;
        let Some(first) = members.first.take().filter(|_| !pending.is_empty()) else {
            return;
        };
        let name = board.as_str().to_owned();
        let lines = std::mem::take(&mut members.lines).to_le_bytes();
        let once = self.once(&name, &format!("members/{first}"), &lines);
        let (numbers, mut writes): (Vec<u64>, Vec<MemberWrite>) = pending.into_iter().unzip();
        let puts = writes
            .iter()
            .filter(|write| matches!(write.action, MemberAction::Put(_)));
        let puts = u64::try_from(puts.count()).unwrap_or(u64::MAX);
        let sent = match self.keep_of(&board, known).await {
            Ok(keep) => {
                self.sum_up(keep, &mut writes);
                self.write_board(&board, (writes, once)).await
            }
            Err(fault) => Err(fault),
        };
        let reject_all = |report: &mut Report, problem: &Problem| {
            for number in &numbers {
                report.reject(*number, Some(name.clone()), problem.clone());
            }
        };
        if let Ok(BoardWritten::Done(_) | BoardWritten::Replayed(_)) = sent {
            self.record_replay(matches!(sent, Ok(BoardWritten::Replayed(_))));
        }
        match sent {
            Ok(BoardWritten::Done(written) | BoardWritten::Replayed(written)) => {
                let refused = u64::try_from(written.refused.len()).unwrap_or(u64::MAX);
                self.report.members += puts.saturating_sub(refused);
                for (index, refusal) in written.refused {
                    let index = usize::try_from(index).unwrap_or(usize::MAX);
                    if let Some(number) = numbers.get(index) {
                        let problem = refusal_of(refusal);
                        self.report.reject(*number, Some(name.clone()), problem);
                    }
                }
            }
            Ok(other) => {
                let problem = problem_of(&other).unwrap_or_else(|| exists("board"));
                reject_all(&mut self.report, &problem);
            }
            Err(fault) => reject_all(&mut self.report, &Problem::from(fault)),
        }
    }
}
