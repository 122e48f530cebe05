//! The views that default reads of one isolate share.
//!
//! Invariant: at most one fetch per (counter, question) is under way, and memory is bounded by
//! [`VIEWS_MAX`], [`QUESTIONS_MAX`], [`VIEWS_BYTES_MAX`] and [`ANSWERS_MAX`].

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::respond::Answer;
use crate::core::counter::bounded_map::BoundedMap;
use crate::core::counter::id::CounterId;
use crate::host::{Host, State};
use crate::node::shared::call::CALL_MS_MAX;
use crate::protocol::messages::{Fault, GlobalSum, Read};

/// How old a view may be that a default read is given.
pub const VIEW_MS_MAX: i64 = 500;

/// Counters whose views are kept.
const VIEWS_MAX: usize = 1_000;

/// Questions about one counter whose views are kept: each window and each range is one.
const QUESTIONS_MAX: usize = 16;

/// Memory that the views may take together: 24 of the isolate's 128 MB. A view is mostly sketches, at
/// most 12 KB per datacenter, and points, 24 bytes each.
const VIEWS_BYTES_MAX: usize = 24 * 1024 * 1024;

/// Answers that are kept for the millisecond they were given in, about 1 KB each.
const ANSWERS_MAX: usize = 64;

/// What a fetch gave: a sum, that there is no such counter, or a fault.
pub type Fetched = Result<Option<Rc<GlobalSum>>, Fault>;

/// Which question about a counter a view answers.
pub type Question = Read;

/// One view.
pub struct View {
    /// When its fetch began, unix milliseconds.
    pub begun_ms: i64,
    /// `None` while it is being fetched.
    pub fetched: Option<Fetched>,
    /// Whether only those who wait for it already may see it.
    is_aged: bool,
}

/// The views of an isolate.
#[derive(Default)]
pub struct ReadCache {
    views: HashMap<CounterId, Vec<(Question, View)>>,
    /// When views were last let go, and what has come since.
    swept_ms: i64,
    bytes: usize,
    /// Answers of this millisecond, by what was asked: their ages are the same to the millisecond.
    answers: BoundedMap<String, Answer, ANSWERS_MAX>,
    answers_ms: i64,
}

/// Those of this isolate.
struct IsolateReads(RefCell<ReadCache>);

impl State for IsolateReads {
    fn begin(_host: &Host) -> Self {
        Self(RefCell::default())
    }
}

/// Works with the cached reads.
pub fn with_reads<T>(host: &Host, work: impl FnOnce(&mut ReadCache) -> T) -> T {
    work(&mut host.state::<IsolateReads>().0.borrow_mut())
}

impl ReadCache {
    /// The view that answers a question, however old.
    pub fn view(&self, question: &Question) -> Option<&View> {
        self.views
            .get(&question.counter)?
            .iter()
            .find(|(known, _)| known == question)
            .map(|(_, view)| view)
    }

    /// Lets views go that nobody may be given any more, twice a second; and all that are not being
    /// fetched, where there are too many or they take too much.
    fn sweep(&mut self, now_ms: i64) {
        let is_full = self.views.len() >= VIEWS_MAX || self.bytes >= VIEWS_BYTES_MAX;
        if !is_full && now_ms.abs_diff(self.swept_ms) < VIEW_MS_MAX.unsigned_abs() {
            return;
        }
        self.swept_ms = now_ms;
        self.bytes = 0;
        self.views.retain(|_, views| {
            views.retain(|(_, view)| {
                is_in_use(view, now_ms) && !(is_full && view.fetched.is_some())
            });
            self.bytes += views.iter().map(|(_, view)| bytes_of(view)).sum::<usize>();
            !views.is_empty()
        });
    }

    /// Notes that a fetch begins.
    pub fn begin(&mut self, question: &Question, begun_ms: i64) {
        self.sweep(begun_ms);
        let views = self.views.entry(question.counter.clone()).or_default();
        views.retain(|(known, view)| known != question && is_in_use(view, begun_ms));
        if views.len() >= QUESTIONS_MAX {
            views.remove(0);
        }
        views.push((
            question.clone(),
            View {
                begun_ms,
                fetched: None,
                is_aged: false,
            },
        ));
    }

    /// Ends a fetch. That there is no such counter, or that it cannot be read, is told to those who
    /// wait, and kept for nobody else: it may change with the next write.
    pub fn end(&mut self, question: &Question, begun_ms: i64, fetched: Fetched) {
        let views = self.views.get_mut(&question.counter);
        let view = views.and_then(|views| views.iter_mut().find(|(known, _)| known == question));
        if let Some((_, view)) = view.filter(|(_, view)| view.begun_ms == begun_ms) {
            view.is_aged = !matches!(fetched, Ok(Some(_)));
            view.fetched = Some(fetched);
            self.bytes += bytes_of(view);
        }
    }

    /// The answer that was given to the same request within this millisecond.
    pub fn answer(&self, asked: &str, now_ms: i64) -> Option<Answer> {
        let answer = self.answers.get(asked);
        answer.filter(|_| self.answers_ms == now_ms).cloned()
    }

    /// Keeps an answer for requests of the same millisecond.
    pub fn keep_answer(&mut self, asked: String, answer: &Answer, now_ms: i64) {
        if self.answers_ms != now_ms {
            self.answers.clear();
            self.answers_ms = now_ms;
        }
        self.answers.insert(asked, answer.clone());
    }

    /// Forgets all views of a counter, after something about it was changed here.
    pub fn forget(&mut self, counter: &CounterId) {
        self.views.remove(counter);
        self.answers.clear();
    }
}

/// About how much memory a view takes.
fn bytes_of(view: &View) -> usize {
    let Some(Ok(Some(sum))) = &view.fetched else {
        return 0;
    };
    let bytes = sum.parts().map(|part| {
        let sketches = part.summary.uniques.rest_bytes() + part.summary.window_uniques.rest_bytes();
        let sketches = sketches + part.summary.samples.len();
        sketches + 24 * part.summary.points.len() + 64 * part.cells.len()
    });
    bytes.sum::<usize>() + sum.uniques.rest_bytes() + sum.window_uniques.rest_bytes() + 256
}

/// Whether a view may be given to a reader that asks now.
pub fn is_in_use(view: &View, now_ms: i64) -> bool {
    let most = if view.fetched.is_some() {
        VIEW_MS_MAX
    } else {
        i64::try_from(CALL_MS_MAX).unwrap_or(i64::MAX)
    };
    !view.is_aged && now_ms - view.begun_ms <= most
}
