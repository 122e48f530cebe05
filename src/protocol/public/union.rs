//! Unique elements of several counters together.

use serde::Serialize;

use super::number::Estimate;
use super::to_json;
use super::told::Told;
use crate::counter::id::CounterId;
use crate::protocol::problem::{Code, Problem};
use crate::protocol::query::Window;
use crate::sketch::{HashId, Uniques};

/// The unique elements of several counters, of a window if there is one. Counters that went through a new key together
/// have epochs in common, and are joined epoch by epoch.
///
/// # Errors
/// `hash-mismatch` where no hash is that of all counters that have any: an element that two of them saw would
/// count twice, and the sum would only say what each of them says alone.
pub fn union_of(told: &[Told<'_>], window: Option<Window>) -> Result<Uniques, Problem> {
    let mut union = Uniques::new();
    let mut in_common: Option<Vec<HashId>> = None;
    for one in told {
        let uniques = match window {
            Some(_) => &one.total.window_uniques,
            None => &one.total.uniques,
        };
        if uniques.is_empty() {
            continue;
        }
        let mut hashes = uniques.hashes();
        hashes.retain(|hash| *hash != HashId::SEVERAL);
        if let Some(before) = &in_common {
            hashes.retain(|hash| before.contains(hash));
            if hashes.is_empty() {
                let detail = format!(
                    "elements of `{}` went through another hash than those of the counters before it, so nobody can tell which of them are the same; ask for each by itself",
                    one.id
                );
                return Err(Problem::new(Code::HashMismatch, detail));
            }
        }
        in_common = Some(hashes);
        union.merge(uniques);
    }
    Ok(union)
}

/// The JSON of `GET /uniques`: the union of several counters.
///
/// # Errors
/// As [`union_of`].
pub fn union_json(
    ids: &[CounterId],
    told: &[Told<'_>],
    window: Option<Window>,
) -> Result<String, Problem> {
    #[derive(Serialize)]
    struct UnionView<'a> {
        ids: &'a [CounterId],
        #[serde(flatten)]
        union: Estimate,
        #[serde(skip_serializing_if = "Option::is_none")]
        window: Option<u64>,
        exact: bool,
        as_of: i64,
        staleness_ms: i64,
    }
    let union = union_of(told, window)?;
    Ok(to_json(&UnionView {
        ids,
        union: Estimate::of(&union).unwrap_or(Estimate::NOTHING),
        window: window.map(|window| window.seconds),
        exact: told.iter().all(Told::is_exact),
        as_of: told.iter().map(Told::as_of_ms).min().unwrap_or(0),
        staleness_ms: told.iter().map(Told::staleness_ms).max().unwrap_or(0),
    }))
}
