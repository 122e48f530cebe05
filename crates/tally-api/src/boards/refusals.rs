//! Why a write to a board, or a read of it, is refused.

use super::token::BoardVersion;
use tally_core::board::member::MemberRefusal;
use tally_core::board::settings::Settings;
use tally_wire::messages::{BoardAnswer, BoardWritten};
use tally_wire::problem::{Code, Problem};

/// The problem of a refused write.
pub fn refusal_of(refusal: MemberRefusal) -> Problem {
    let (code, detail) = match refusal {
        MemberRefusal::NotWhole => (
            Code::InvalidScore,
            "the board's scores are whole numbers from -(2^53 - 1) to 2^53 - 1, and this would not be one; nothing was written",
        ),
        MemberRefusal::NotANumber => (
            Code::InvalidScore,
            "the score would be no number; nothing was written",
        ),
        MemberRefusal::KeepsSums => (
            Code::InvalidBody,
            "this board keeps sums: send a `delta` instead of a `score`",
        ),
        MemberRefusal::KeepsBest => (
            Code::InvalidBody,
            "this board keeps the best: send a `score` instead of a `delta`",
        ),
        MemberRefusal::Full => (
            Code::BoardFull,
            "the board has as many members, or as many bytes, as it may; nothing was written: raise members_max, or remove members",
        ),
        MemberRefusal::Changed => (
            Code::PreconditionFailed,
            "the member is not as If-Match says; nothing was written, read it again",
        ),
    };
    Problem::new(code, detail)
}

/// The problem of writes that were not made.
pub fn problem_of(written: &BoardWritten) -> Option<Problem> {
    let (code, detail) = match written {
        BoardWritten::Done(_) | BoardWritten::Replayed(_) | BoardWritten::ReplayedWhole(_) => {
            return None;
        }
        BoardWritten::Spread(_) | BoardWritten::Stale | BoardWritten::Moving => (
            Code::Unavailable,
            "members of the board are being moved; nothing was written, try again",
        ),
        BoardWritten::Reused => (
            Code::IdempotencyKeyReused,
            "this key was used for another write; send another key with another write",
        ),
        BoardWritten::Full => (
            Code::Overloaded,
            "too many keys are remembered for this board; nothing was written, try again later or without a key",
        ),
        BoardWritten::Ended => (
            Code::BoardEnded,
            "the board has been deleted since this key was used; send another key to write to the next one",
        ),
    };
    Some(Problem::new(code, detail))
}

/// The problem of a request for something that does not exist.
pub fn not_found(answer: &BoardAnswer) -> Problem {
    match answer {
        BoardAnswer::NoPeriod => Problem::new(
            Code::PeriodNotFound,
            "the board keeps no period that begins then; send the `starts_at` of an ended period, divided by 1,000: GET \
             /boards/{board}?include=periods lists them",
        ),
        BoardAnswer::NotReached(generation, sequence) => Problem::new(
            Code::VersionNotReached,
            "the board does not have this version; read without at_least what `seen` names",
        )
        .with_seen(
            BoardVersion {
                generation: *generation,
                layout: 0,
                sequences: vec![*sequence],
            }
            .to_string(),
        ),
        BoardAnswer::Spread(_) | BoardAnswer::Stale | BoardAnswer::Moving => Problem::new(
            Code::Unavailable,
            "members of the board are being moved; try again",
        ),
        BoardAnswer::Absent | BoardAnswer::Seen(_) => Problem::new(
            Code::BoardNotFound,
            "there is no board of this name; the first write to one makes it",
        ),
    }
}

/// Refuses settings that a board with members keeps, by the names of those that differ.
pub fn settings_fixed(wanted: &Settings, before: &Settings) -> Problem {
    let changed: Vec<&str> = wanted.fixed_changes(before).collect();
    let detail = format!(
        "{} cannot change while a board has members or ended periods, or after it was split or moved; send what \
         GET /boards/{{board}} shows, delete the board first, or take another name",
        changed.join(", ")
    );
    Problem::new(Code::BoardSettingsFixed, detail)
}
