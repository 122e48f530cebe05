//! Runs many futures together. Their scheduler is not generic, so that its code exists once: each future leaves its
//! result in a list.

use std::cell::RefCell;
use std::future::Future;

use futures_util::future::{FutureExt, LocalBoxFuture};
use futures_util::stream::{self, StreamExt};

use tally_core::order::put_in_order;

/// Futures that are made one after the other.
type Boxed<'a> = Box<dyn Iterator<Item = LocalBoxFuture<'a, ()>> + 'a>;

/// Runs all futures, at most `at_once` at a time. Returns their results in any order. Each is made once it may begin:
/// of 5,000 reads, 4.5 KB each, 1,024 are in memory.
pub async fn all_settled<F: Future>(
    futures: impl IntoIterator<Item = F>,
    at_once: usize,
) -> Vec<F::Output> {
    let results = RefCell::new(Vec::new());
    let futures = futures.into_iter().map(|future| {
        let results = &results;
        let run = async move {
            let result = future.await;
            results.borrow_mut().push(result);
        };
        run.boxed_local()
    });
    run_all(Box::new(futures), at_once).await;
    results.into_inner()
}

/// Runs all futures at once. Returns their results in the order of the futures.
pub async fn all_in_order<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let numbered = futures.into_iter().enumerate();
    let numbered = numbered.map(|(number, future)| async move { (number, future.await) });
    let mut results = all_settled(numbered, usize::MAX).await;
    put_in_order(&mut results, |(one, _), (other, _)| one.cmp(other));
    results.into_iter().map(|(_, result)| result).collect()
}

fn run_all(futures: Boxed<'_>, at_once: usize) -> LocalBoxFuture<'_, ()> {
    let all = stream::iter(futures).buffer_unordered(at_once.max(1));
    all.for_each(|()| std::future::ready(())).boxed_local()
}
