//! Many futures at once, but never more than a bounded number.

use std::future::Future;

use futures_util::stream::{self, StreamExt};

/// Runs all futures, at most `at_once` at a time, and returns what they gave, in any order.
pub async fn all_settled<F: Future>(
    futures: impl IntoIterator<Item = F>,
    at_once: usize,
) -> Vec<F::Output> {
    stream::iter(futures)
        .buffer_unordered(at_once.max(1))
        .collect()
        .await
}
