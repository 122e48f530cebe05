//! Runs many futures, a bounded number at a time.

use std::future::Future;

use futures_util::future::{FutureExt, LocalBoxFuture};
use futures_util::stream::{self, StreamExt};

/// Futures that are made one after the other.
type Boxed<'a, T> = Box<dyn Iterator<Item = LocalBoxFuture<'a, T>> + 'a>;

/// Runs all futures, at most `at_once` at a time. Returns their results in any order. Each is made once it may begin:
/// of 5,000 reads, 4.5 KB each, 1,024 are in memory.
pub async fn all_settled<'a, F: Future + 'a>(
    futures: impl IntoIterator<Item = F, IntoIter: 'a>,
    at_once: usize,
) -> Vec<F::Output> {
    // Boxed, so that the code of the scheduler exists once per result type and not once per future.
    let boxed: Boxed<'a, F::Output> = Box::new(futures.into_iter().map(FutureExt::boxed_local));
    stream::iter(boxed)
        .buffer_unordered(at_once.max(1))
        .collect()
        .await
}
