//! The views that default reads of one isolate share, see [`Views`], and the answers of a millisecond.

use std::cell::RefCell;
use std::rc::Rc;

use crate::kit::respond::Answer;
use tally_api::public::Freshness;
use tally_core::counter::bounded_map::BoundedMap;
use tally_core::counter::id::CounterId;
use tally_core::isolate::views::{self, FETCH_MS_MAX, Views};
use tally_host::{Host, State};
use tally_shared::call::CALL_MS_MAX;
use tally_wire::messages::{Fault, GlobalSum, Read};

const _: () = assert!(FETCH_MS_MAX.unsigned_abs() == CALL_MS_MAX);

/// The most answers that are kept for the millisecond of their request, about 1 KB each.
const ANSWERS_MAX: usize = 64;

/// The result of a fetch.
pub type SumResult = views::FetchResult<GlobalSum, Fault>;

/// A fetch that has ended.
pub type SumEnd = views::FetchEnd<GlobalSum, Fault>;

/// The views of this isolate.
#[derive(Default)]
struct IsolateViews(RefCell<Views<Read, GlobalSum, Fault>>);

impl State for IsolateViews {
    fn begin(_host: &Host) -> Self {
        Self::default()
    }
}

/// Answers of one millisecond, by request: their ages are equal to the millisecond.
#[derive(Default)]
struct Answers {
    answers: BoundedMap<String, Answer, ANSWERS_MAX>,
    at_ms: i64,
}

/// The answers of this isolate.
#[derive(Default)]
struct IsolateAnswers(RefCell<Answers>);

impl State for IsolateAnswers {
    fn begin(_host: &Host) -> Self {
        Self::default()
    }
}

/// Works with the views.
pub fn with_views<T>(host: &Host, work: impl FnOnce(&mut Views<Read, GlobalSum, Fault>) -> T) -> T {
    work(&mut host.state::<IsolateViews>().0.borrow_mut())
}

/// The answer to the same request within this millisecond.
pub fn answer(host: &Host, cache_key: &str, now_ms: i64) -> Option<Answer> {
    let state = host.state::<IsolateAnswers>();
    let mut state = state.0.borrow_mut();
    let is_now = state.at_ms == now_ms;
    state.answers.get(cache_key).filter(|_| is_now).cloned()
}

/// Stores an answer for requests of the same millisecond.
pub fn keep_answer(host: &Host, cache_key: String, answer: &Answer, now_ms: i64) {
    let state = host.state::<IsolateAnswers>();
    let mut state = state.0.borrow_mut();
    if state.at_ms != now_ms {
        state.answers.clear();
        state.at_ms = now_ms;
    }
    state.answers.insert(cache_key, answer.clone());
}

/// Drops all views of a counter, after it was changed here.
pub fn forget(host: &Host, counter: &CounterId) {
    with_views(host, |views| views.forget(counter));
    host.state::<IsolateAnswers>()
        .0
        .borrow_mut()
        .answers
        .clear();
}

/// A sum, or that there is no such counter, with its freshness.
pub struct FetchedSum {
    /// The sum.
    pub sum: Option<Rc<GlobalSum>>,
    /// Its freshness.
    pub freshness: Freshness,
}
