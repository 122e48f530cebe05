//! The views that default reads of one isolate share.
//!
//! Invariant: one fetch is in flight for each (counter, question). While the view changes there may be more, each begun
//! [`RENEW_MS`] after the one before. So readers see changes as soon even if the round trip is long, and a lost fetch
//! delays them little. Of the ended fetches, readers get the one that began last. Memory is bounded by [`VIEWS_MAX`],
//! [`QUESTIONS_MAX`], [`FETCHED_MAX`] and [`VIEWS_BYTES_MAX`]. A question never drops the view of another one that is
//! being fetched: all readers of that one would begin fetches of their own, and drop more views.

use std::collections::HashMap;
use std::rc::Rc;

use crate::counter::id::CounterId;

/// The longest that a fetch may take, milliseconds. Nobody waits for an older one.
pub const FETCH_MS_MAX: i64 = 5_000;

/// The largest age of a view in the answer to a default read.
pub const VIEW_MS_MAX: i64 = 500;

/// How soon a view that changes is fetched again while there are readers. If the round trip to the root takes more than
/// 200 ms, a fetch begins before the previous one has ended.
pub const RENEW_MS: i64 = 200;

/// The most fetches in flight for one view. The bound matters only if a fetch takes more than 800 ms: it was lost and
/// sent again, or waits for leads that do not answer. With two of them 99 % of the readers in 300 datacenters saw a
/// change a tenth of a second later (`make converge`).
const FETCHES_MAX: usize = 4;

/// How long after the last change a view counts as changing, milliseconds.
const NEWS_MS: i64 = 1_000;

/// The most counters whose views are cached.
const VIEWS_MAX: usize = 1_000;

/// The most questions about one counter whose views are cached, without those that are being fetched. Each window and
/// each range is a question.
const QUESTIONS_MAX: usize = 16;

/// The most questions about one counter that are cached or being fetched. A fetch for one more is not shared.
const FETCHED_MAX: usize = 64;

/// The most memory of all views together: 24 of the isolate's 128 MB. A view is mostly sketches, at most 12 KB per
/// datacenter, and points, 24 bytes each.
const VIEWS_BYTES_MAX: usize = 24 * 1024 * 1024;

/// The question that a view answers.
pub trait ViewQuestion: Clone + PartialEq {
    /// The counter that it is about.
    fn counter(&self) -> &CounterId;

    /// Whether its view may have several fetches in flight. A question that asks every lead, or that is for the answer
    /// to a write, has one fetch at a time.
    fn is_light(&self) -> bool;
}

/// A sum that a view shows.
pub trait ViewedSum {
    /// Whether another one has other counts.
    fn differs(&self, other: &Self) -> bool;

    /// Its approximate memory.
    fn bytes(&self) -> usize;
}

/// The result of a fetch: a sum, that there is no such counter, or a fault.
pub type FetchResult<S, E> = Result<Option<Rc<S>>, E>;

/// A fetch that has ended: when it began, unix milliseconds, and its result.
pub type FetchEnd<S, E> = (i64, FetchResult<S, E>);

/// A result for waiting readers only: that there is no such counter, or that it cannot be read.
struct EmptyResult<S, E> {
    begun_ms: i64,
    ended_ms: i64,
    fetched: FetchResult<S, E>,
}

/// The view for a question.
struct View<S, E> {
    /// When the fetches under way began, the latest last, unix milliseconds.
    fetches_ms: Vec<i64>,
    /// When the last fetch began.
    newest_ms: i64,
    /// The sum for readers.
    latest: Option<(i64, Rc<S>)>,
    void: Option<EmptyResult<S, E>>,
    /// When the last fetch with a change began.
    news_ms: Option<i64>,
}

impl<S, E> Default for View<S, E> {
    fn default() -> Self {
        Self {
            fetches_ms: Vec::new(),
            newest_ms: 0,
            latest: None,
            void: None,
            news_ms: None,
        }
    }
}

impl<S: ViewedSum, E: Clone> View<S, E> {
    /// Whether a reader may still get it or waits for it, or the next fetch is compared with it.
    fn is_in_use(&self, now_ms: i64) -> bool {
        let latest = self.latest.as_ref();
        let is_recent = latest.is_some_and(|(begun_ms, _)| is_within(*begun_ms, now_ms, NEWS_MS));
        is_recent || self.fetches(now_ms).count() > 0
    }

    /// The sum for a reader that asks now.
    fn young(&self, now_ms: i64) -> Option<(i64, &Rc<S>)> {
        let latest = self.latest.as_ref();
        latest
            .filter(|(begun_ms, _)| is_within(*begun_ms, now_ms, VIEW_MS_MAX))
            .map(|(begun_ms, sum)| (*begun_ms, sum))
    }

    /// The fetches that may still end, by when they began.
    fn fetches(&self, now_ms: i64) -> impl Iterator<Item = i64> {
        let begun_ms = self.fetches_ms.iter().copied();
        begun_ms.filter(move |begun_ms| is_within(*begun_ms, now_ms, FETCH_MS_MAX))
    }

    /// Whether another fetch should begin because the view changes.
    fn is_due(&self, question: &impl ViewQuestion, now_ms: i64) -> bool {
        let news_ms = self.news_ms;
        let is_changing = news_ms.is_some_and(|news_ms| is_within(news_ms, now_ms, NEWS_MS));
        let is_free = self.fetches(now_ms).count() < FETCHES_MAX;
        is_changing
            && question.is_light()
            && is_free
            && !is_within(self.newest_ms, now_ms, RENEW_MS - 1)
    }

    fn begin(&mut self, begun_ms: i64) {
        if self.newest_ms > begun_ms {
            // The clock has stepped back: earlier and later fetches cannot be distinguished.
            *self = Self::default();
        }
        if self.fetches_ms.len() >= FETCHES_MAX {
            // It takes too long, or began too early for the reader that wants this one.
            self.fetches_ms.remove(0);
        }
        self.fetches_ms.push(begun_ms);
        self.newest_ms = begun_ms;
    }

    fn end(&mut self, begun_ms: i64, now_ms: i64, fetched: FetchResult<S, E>) {
        self.fetches_ms.retain(|known_ms| *known_ms != begun_ms);
        match fetched {
            Ok(Some(sum)) => {
                if let Some((known_ms, known)) = &self.latest {
                    if *known_ms >= begun_ms {
                        return;
                    }
                    if known.differs(&sum) {
                        self.news_ms = Some(begun_ms);
                    }
                }
                self.latest = Some((begun_ms, sum));
            }
            fetched => {
                let void = self.void.as_ref();
                if void.is_none_or(|void| void.begun_ms < begun_ms) {
                    self.void = Some(EmptyResult {
                        begun_ms,
                        ended_ms: now_ms,
                        fetched,
                    });
                }
            }
        }
    }

    /// The result for a reader that waits for a fetch that began at a moment, or for a later one.
    fn ended(&self, since_ms: i64, now_ms: i64) -> Option<FetchEnd<S, E>> {
        let latest = self.latest.as_ref();
        if let Some((begun_ms, sum)) = latest.filter(|(begun_ms, _)| *begun_ms >= since_ms) {
            return Some((*begun_ms, Ok(Some(sum.clone()))));
        }
        let void = self
            .void
            .as_ref()
            .filter(|void| void.begun_ms >= since_ms)?;
        // Another fetch under way may still yield a sum.
        let has_ended = self
            .fetches(now_ms)
            .all(|begun_ms| begun_ms >= void.ended_ms);
        has_ended.then(|| (void.begun_ms, void.fetched.clone()))
    }
}

/// Whether two times differ by at most this much, in either direction: a clock may have stepped back.
fn is_within(at_ms: i64, now_ms: i64, milliseconds: i64) -> bool {
    now_ms.abs_diff(at_ms) <= milliseconds.unsigned_abs()
}

/// What a reader must do.
#[derive(Debug)]
pub enum ViewLookup<S> {
    /// Take this sum, whose fetch began then. The flag says whether another fetch should begin.
    Take(i64, Rc<S>, bool),
    /// Wait for a fetch that began then, or a later one.
    Wait(i64),
    /// Begin a fetch.
    Fetch,
}

/// Why a reader that waits has no result yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotEnded {
    /// It is being fetched.
    Fetching,
    /// It is being fetched, and another fetch should begin.
    Due,
    /// The fetch is not known here: its view was dropped, or there was no room for it.
    Unknown,
}

/// The views of one counter, by what was asked.
type CounterViews<Q, S, E> = Vec<(Q, View<S, E>)>;

/// The views of an isolate.
pub struct Views<Q, S, E> {
    views: HashMap<CounterId, CounterViews<Q, S, E>>,
    /// When views were last dropped.
    swept_ms: i64,
    bytes: usize,
}

impl<Q, S, E> Default for Views<Q, S, E> {
    fn default() -> Self {
        Self {
            views: HashMap::new(),
            swept_ms: 0,
            bytes: 0,
        }
    }
}

impl<Q: ViewQuestion, S: ViewedSum, E: Clone> Views<Q, S, E> {
    fn view(&self, question: &Q) -> Option<&View<S, E>> {
        self.views
            .get(question.counter())?
            .iter()
            .find(|(known, _)| known == question)
            .map(|(_, view)| view)
    }

    /// What a reader must do now, for a sum whose fetch began after a moment.
    pub fn look(&self, question: &Q, after_ms: i64, now_ms: i64) -> ViewLookup<S> {
        let Some(view) = self.view(question) else {
            return ViewLookup::Fetch;
        };
        match view.young(now_ms) {
            Some((begun_ms, sum)) if begun_ms > after_ms => {
                ViewLookup::Take(begun_ms, sum.clone(), view.is_due(question, now_ms))
            }
            _ => {
                let mut fetches = view.fetches(now_ms);
                let first_ms = fetches.find(|begun_ms| *begun_ms > after_ms);
                first_ms.map_or(ViewLookup::Fetch, ViewLookup::Wait)
            }
        }
    }

    /// The result for a reader that waits for a fetch which began at this moment or later.
    ///
    /// # Errors
    /// Why there is none yet.
    pub fn wait(
        &self,
        question: &Q,
        begun_ms: i64,
        now_ms: i64,
    ) -> Result<FetchEnd<S, E>, NotEnded> {
        let view = self.view(question).ok_or(NotEnded::Unknown)?;
        let ended = view.ended(begun_ms, now_ms);
        ended.ok_or_else(|| match view.is_due(question, now_ms) {
            true => NotEnded::Due,
            false => NotEnded::Fetching,
        })
    }

    /// Drops views that are too old for any reader, twice a second; and all without a fetch under way, if there are too
    /// many or they use too much memory.
    fn sweep(&mut self, now_ms: i64) {
        let is_full = self.views.len() >= VIEWS_MAX || self.bytes >= VIEWS_BYTES_MAX;
        if !is_full && now_ms.abs_diff(self.swept_ms) < VIEW_MS_MAX.unsigned_abs() {
            return;
        }
        self.swept_ms = now_ms;
        self.bytes = 0;
        self.views.retain(|_, views| {
            views.retain(|(_, view)| {
                view.is_in_use(now_ms) && (!is_full || view.fetches(now_ms).count() > 0)
            });
            self.bytes += views.iter().map(|(_, view)| bytes_of(view)).sum::<usize>();
            !views.is_empty()
        });
    }

    /// Records that a fetch begins, if there is room.
    pub fn begin(&mut self, question: &Q, begun_ms: i64) {
        self.sweep(begun_ms);
        let views = self.views.entry(question.counter().clone()).or_default();
        views.retain(|(known, view)| known == question || view.is_in_use(begun_ms));
        if let Some((_, known)) = views.iter_mut().find(|(known, _)| known == question) {
            known.begin(begun_ms);
            return;
        }
        let is_idle = |(_, view): &(Q, View<S, E>)| view.fetches(begun_ms).next().is_none();
        if views.iter().filter(|known| is_idle(known)).count() >= QUESTIONS_MAX
            && let Some(oldest) = views.iter().position(is_idle)
        {
            views.remove(oldest);
        }
        if views.len() >= FETCHED_MAX {
            return;
        }
        let mut view = View::default();
        view.begin(begun_ms);
        views.push((question.clone(), view));
    }

    /// Ends a fetch. A result without a sum is given to the waiting readers, and is not cached for others, because it
    /// may change with the next write. Returns whether the fetch was still known.
    pub fn end(
        &mut self,
        question: &Q,
        begun_ms: i64,
        now_ms: i64,
        fetched: FetchResult<S, E>,
    ) -> bool {
        let views = self.views.get_mut(question.counter());
        let view = views.and_then(|views| views.iter_mut().find(|(known, _)| known == question));
        // A fetch from before the drop may lack the change that caused it.
        let Some((_, view)) = view.filter(|(_, view)| view.fetches_ms.contains(&begun_ms)) else {
            return false;
        };
        let before = bytes_of(view);
        view.end(begun_ms, now_ms, fetched);
        self.bytes = (self.bytes + bytes_of(view)).saturating_sub(before);
        true
    }

    /// Drops all views of a counter, after it was changed here.
    pub fn forget(&mut self, counter: &CounterId) {
        self.views.remove(counter);
    }
}

/// The approximate memory of a view.
fn bytes_of<S: ViewedSum, E>(view: &View<S, E>) -> usize {
    view.latest.as_ref().map_or(0, |(_, sum)| sum.bytes())
}
