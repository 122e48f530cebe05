//! Unique elements of several counters together.

use serde::Serialize;

use super::counter_view::SummedCounter;
use super::rounding::Rounding;
use crate::fields::{Exactness, Moment, Staleness, UniquesCover};
use crate::json::to_json;
use crate::number::Estimate;
use crate::query::Window;
use tally_core::counter::id::CounterId;
use tally_core::sketch::{HashId, Uniques};
use tally_wire::problem::{Code, Problem};

/// The unique elements of several counters, of a window if there is one. Counters whose keys were rotated together have
/// epochs in common, and are joined epoch by epoch.
///
/// # Errors
/// `hash-mismatch` where no epoch is common to all counters that have elements. An element that two of them saw would
/// count twice, and the answer would only be the sum of their own estimates.
pub fn union_of(
    counters: &[SummedCounter<'_>],
    window: Option<Window>,
) -> Result<Uniques, Problem> {
    let mut union = Uniques::new();
    let mut in_common: Option<Vec<HashId>> = None;
    for one in counters {
        let uniques = one.sketches(window);
        if uniques.is_empty() {
            continue;
        }
        let mut hashes = uniques.hashes();
        hashes.retain(|hash| *hash != HashId::SEVERAL);
        if let Some(before) = &in_common {
            hashes.retain(|hash| before.contains(hash));
            if hashes.is_empty() {
                let detail = format!(
                    "elements of `{}` were hashed with another key than those of the counters before it, so they cannot be compared; ask for each counter alone",
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
    counters: &[SummedCounter<'_>],
    window: Option<Window>,
) -> Result<String, Problem> {
    let union = union_of(counters, window)?;
    let union = Estimate::of(&union).unwrap_or(Estimate::NOTHING);
    Ok(together_json(ids, counters, window, None, union))
}

/// The JSON of `GET /uniques?op=intersection`: the elements common to two counters, epoch by epoch.
///
/// # Errors
/// As [`union_of`].
pub fn intersection_json(
    ids: &[CounterId],
    (one, other): (SummedCounter<'_>, SummedCounter<'_>),
    window: Option<Window>,
) -> Result<String, Problem> {
    let counters = [one, other];
    union_of(&counters, window)?;
    let [mine, theirs] = [&counters[0], &counters[1]].map(|one| one.sketches(window));
    let mut epochs = Vec::new();
    let known = theirs.hashes();
    for hash in mine.hashes() {
        if known.contains(&hash) {
            epochs.push(mine.families(hash).intersection(&theirs.families(hash)));
        }
    }
    let common = Estimate::of_epochs(&epochs);
    Ok(together_json(
        ids,
        &counters,
        window,
        Some("intersection"),
        common,
    ))
}

fn together_json(
    ids: &[CounterId],
    counters: &[SummedCounter<'_>],
    window: Option<Window>,
    op: Option<&'static str>,
    estimate: Estimate,
) -> String {
    #[derive(Serialize)]
    struct TogetherView<'a> {
        ids: &'a [CounterId],
        /// Present in intersections.
        #[serde(skip_serializing_if = "Option::is_none")]
        op: Option<&'static str>,
        #[serde(flatten)]
        estimate: Estimate,
        /// Present if the request has a window.
        #[serde(skip_serializing_if = "Option::is_none")]
        window_seconds: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        uniques_cover: Option<UniquesCover>,
        exact: Exactness,
        as_of: Moment,
        staleness_ms: Staleness,
    }
    let rounding = counters
        .first()
        .map_or(Rounding::OFF, SummedCounter::rounding);
    to_json(&TogetherView {
        ids,
        op,
        estimate: rounding.apply(estimate),
        window_seconds: window.map(|window| window.seconds),
        uniques_cover: window.and_then(Window::uniques_cover).map(UniquesCover::of),
        exact: counters.iter().all(SummedCounter::is_exact),
        as_of: counters
            .iter()
            .map(SummedCounter::as_of_ms)
            .min()
            .unwrap_or(0),
        staleness_ms: counters
            .iter()
            .map(SummedCounter::staleness_ms)
            .max()
            .unwrap_or(0),
    })
}
