//! The answers to checks: bodies, headers, problems.

use crate::kit::respond::Answer;
use tally_api::limits::{CheckResult, LIMIT_HEADER, POLICY_HEADER};
use tally_wire::names::policy::PolicyName;
use tally_wire::problem::{Code, Problem};

/// Header of an answer without the limiter, with the policy's rule for errors.
pub const ON_ERROR_HEADER: &str = "tally-on-error";

/// The JSON of an object with more members.
pub fn with_members(mut json: String, members: &str) -> String {
    json.insert_str(json.len().saturating_sub(1), members);
    json
}

/// The answer to a check, with more members if it is admitted.
pub fn answer_of(result: &CheckResult<'_>, members: &str) -> Answer {
    answer_of_all(
        &[*result],
        || Answer::json(with_members(result.to_json(), members)),
        || result.refused_json(),
    )
}

/// The answer to checks with one verdict: `admitted` if all are, otherwise a problem. `refused`: the body of a refusal.
pub fn answer_of_all(
    results: &[CheckResult<'_>],
    admitted: impl FnOnce() -> Answer,
    refused: impl FnOnce() -> String,
) -> Answer {
    let answer = if let Some(closed) = results.iter().find(|one| one.is_closed()) {
        unreachable(closed.name)
    } else if results.iter().all(CheckResult::is_allowed) {
        admitted()
    } else {
        Answer::refused(Code::QuotaExceeded, refused())
    };
    with_headers(answer, results)
}

/// The problem of a call whose limiter did not answer, and may have done it.
pub fn unanswered() -> Problem {
    let detail = "the limiter did not answer; whether anything was changed is unknown, try again";
    Problem::new(Code::LimiterUnavailable, detail)
}

/// The problem of a closed policy whose limiter cannot be reached.
fn unreachable(name: &PolicyName) -> Answer {
    let detail = format!("policy {name} refuses while its limiter cannot be reached; try again");
    Answer::from(Problem::new(Code::LimiterUnavailable, detail))
}

/// The headers of an answer about these checks.
pub fn with_headers(answer: Answer, results: &[CheckResult<'_>]) -> Answer {
    let items: [(_, Vec<String>); 2] = [
        (
            POLICY_HEADER,
            results
                .iter()
                .filter_map(CheckResult::policy_item)
                .collect(),
        ),
        (
            LIMIT_HEADER,
            results.iter().filter_map(CheckResult::limit_item).collect(),
        ),
    ];
    let mut answer = answer;
    for (name, items) in items {
        if !items.is_empty() {
            answer = answer.with_header(name, items.join(", "));
        }
    }
    let waits = results
        .iter()
        .filter_map(CheckResult::retry_after_seconds)
        .max();
    if let Some(seconds) = waits {
        answer = answer.with_header("retry-after", seconds.to_string());
    }
    if results.iter().any(|one| one.verdict.is_none()) {
        // A closed policy decides for all.
        let is_closed = results.iter().any(CheckResult::is_closed);
        let word = if is_closed { "closed" } else { "open" };
        answer = answer.with_header(ON_ERROR_HEADER, word.to_owned());
    }
    answer
}
