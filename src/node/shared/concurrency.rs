//! Runs many futures, a bounded number at a time.

use std::future::Future;

use futures_util::future::{FutureExt, LocalBoxFuture};
use futures_util::stream::{self, StreamExt};

/// Runs all futures, at most `at_once` at a time. Returns their results in any order.
pub async fn all_settled<'a, F: Future + 'a>(
    futures: impl IntoIterator<Item = F>,
    at_once: usize,
) -> Vec<F::Output> {
    // Boxed, so that the code of the scheduler exists once per result type and not once per future.
    let boxed: Vec<LocalBoxFuture<'a, F::Output>> =
        futures.into_iter().map(FutureExt::boxed_local).collect();
    stream::iter(boxed)
        .buffer_unordered(at_once.max(1))
        .collect()
        .await
}
