//! The answers to checks: bodies, headers, problems.

use crate::kit::respond::Answer;
use tally_protocol::limits::{CheckResult, LIMIT_HEADER, POLICY_HEADER, PolicyName};
use tally_protocol::problem::{Code, Problem};

/// Header of an answer without the limiter, with the policy's rule for errors.
pub const ON_ERROR_HEADER: &str = "tally-on-error";

/// The JSON of an object with more members.
pub fn with_members(mut json: String, members: &str) -> String {
    json.insert_str(json.len().saturating_sub(1), members);
    json
}

/// The answer to a check, with more members if it is admitted.
pub fn answer_of(result: &CheckResult<'_>, members: &str) -> Answer {
    let answer = if result.is_closed() {
        unreachable(result.name)
    } else if result.is_allowed() {
        Answer::json(with_members(result.to_json(), members))
    } else {
        Answer::refused(Code::QuotaExceeded, result.refused_json())
    };
    with_headers(answer, &[*result])
}

/// The problem of a closed policy whose limiter cannot be reached.
pub fn unreachable(name: &PolicyName) -> Answer {
    let detail = format!("policy {name} refuses while its limiter cannot be reached; try again");
    Answer::from(Problem::new(Code::LimiterUnavailable, detail))
}

/// The headers of an answer about these checks.
pub fn with_headers(answer: Answer, results: &[CheckResult<'_>]) -> Answer {
    let join = |items: Vec<String>| items.join(", ");
    let mut answer = answer.with_header(
        POLICY_HEADER,
        join(results.iter().map(CheckResult::policy_item).collect()),
    );
    let left: Vec<String> = results.iter().filter_map(CheckResult::limit_item).collect();
    if !left.is_empty() {
        answer = answer.with_header(LIMIT_HEADER, join(left));
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
