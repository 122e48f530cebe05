//! The place where a bundle belongs, while it searches and takes it. In memory only: a crash ends the search.

use super::Debt;

/// A place that may have the bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Candidate<P> {
    place: P,
    /// The seal under which it has given the rows to another place.
    seal: Option<u64>,
    /// That seal, once that other place has answered that it has nothing.
    failed: Option<u64>,
}

/// The transfer of rows that has begun.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Transfer<P, C> {
    debt: Debt<P>,
    /// The position of the next page.
    next: Option<C>,
}

/// The answer of a place that was asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum GiverAnswer<P, C, R> {
    /// It has nothing.
    Nothing,
    /// It has given the rows to another place, under this seal if its message names one.
    Elsewhere(P, Option<u64>),
    /// Rows.
    Rows {
        /// The seal.
        seal: u64,
        /// One page of the rows.
        rows: R,
        /// The position of the next page, if there is one.
        next: Option<C>,
    },
}

/// What the taker does next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TakerStep<P, C, R> {
    /// Asks a place.
    Ask {
        /// The place.
        from: P,
        /// The seal of its transfer to another place that will never complete.
        failed: Option<u64>,
        /// The seal and the position of the page that is asked for; `None` to begin.
        page: Option<(u64, C)>,
    },
    /// Stores a page of rows.
    Store {
        /// The rows.
        rows: R,
        /// Whether rows of earlier tries are deleted first, in the same transaction.
        is_first: bool,
        /// With the last page: stored in the same transaction, which also makes the rows be in use.
        debt: Option<Debt<P>>,
    },
    /// No other place has the bundle.
    Nowhere,
    /// Too many places were asked, or the transfer was replaced: a later search begins again.
    Fail,
}

/// A search for a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Taker<P, C, M> {
    me: P,
    /// What must not change meanwhile.
    mark: M,
    /// The places to ask, the next one last.
    to_ask: Vec<Candidate<P>>,
    nothing_at: Vec<P>,
    transfer: Option<Transfer<P, C>>,
    asks_left: u8,
}

impl<P: Copy + PartialEq, C: Clone, M: PartialEq> Taker<P, C, M> {
    /// A search among places, from the first to the last. It sends at most `asks_max` requests for a first page. `mark`
    /// is what the place knows when the search begins, see [`Taker::may_go_on`].
    pub fn new(me: P, mark: M, places: impl IntoIterator<Item = P>, asks_max: u8) -> Self {
        let places = places.into_iter().filter(|place| *place != me);
        let mut to_ask: Vec<_> = places.map(Candidate::new).collect();
        to_ask.reverse();
        Self {
            me,
            mark,
            to_ask,
            nothing_at: Vec::new(),
            transfer: None,
            asks_left: asks_max,
        }
    }

    /// Whether the search may continue, asked after each await. It ends if the bundle is in use here, and if this place
    /// has meanwhile learned a layout, given rows away, or answered that it has none.
    pub fn may_go_on(&self, mark: &M, is_here: bool) -> bool {
        self.mark == *mark && !is_here
    }

    /// The places that have answered that they have nothing.
    pub fn nothing_at(&self) -> &[P] {
        &self.nothing_at
    }

    /// What comes first, and after a page was stored.
    pub fn advance<R>(&mut self) -> TakerStep<P, C, R> {
        if let Some(transfer) = &self.transfer {
            let Debt { from, seal } = transfer.debt;
            return match transfer.next.clone() {
                Some(next) => TakerStep::Ask {
                    from,
                    failed: None,
                    page: Some((seal, next)),
                },
                None => TakerStep::Fail,
            };
        }
        let Some(candidate) = self.to_ask.last() else {
            return TakerStep::Nowhere;
        };
        if self.asks_left == 0 {
            return TakerStep::Fail;
        }
        self.asks_left -= 1;
        TakerStep::Ask {
            from: candidate.place,
            failed: candidate.failed,
            page: None,
        }
    }

    /// What comes after an answer of the place that was asked.
    pub fn answered<R>(&mut self, answer: GiverAnswer<P, C, R>) -> TakerStep<P, C, R> {
        match (answer, self.transfer.is_some()) {
            (GiverAnswer::Rows { seal, rows, next }, _) => self.store(seal, rows, next),
            (_, true) => TakerStep::Fail,
            (GiverAnswer::Elsewhere(to, _), false) if to == self.me => TakerStep::Fail,
            (GiverAnswer::Elsewhere(to, seal), false) => {
                if let Some(asked) = self.to_ask.last_mut() {
                    asked.seal = seal;
                }
                self.to_ask.push(Candidate::new(to));
                self.advance()
            }
            (GiverAnswer::Nothing, false) => {
                self.nothing_at
                    .extend(self.to_ask.pop().map(|asked| asked.place));
                if let Some(before) = self.to_ask.last_mut() {
                    before.failed = before.seal;
                }
                self.advance()
            }
        }
    }

    fn store<R>(&mut self, seal: u64, rows: R, next: Option<C>) -> TakerStep<P, C, R> {
        let is_first = match (&mut self.transfer, self.to_ask.last()) {
            (Some(transfer), _) if transfer.debt.seal != seal => return TakerStep::Fail,
            (Some(transfer), _) => {
                transfer.next = next;
                false
            }
            (None, None) => return TakerStep::Fail,
            (None, Some(asked)) => {
                let debt = Debt {
                    from: asked.place,
                    seal,
                };
                self.transfer = Some(Transfer { debt, next });
                true
            }
        };
        let transfer = self.transfer.as_ref();
        let last = transfer.filter(|transfer| transfer.next.is_none());
        TakerStep::Store {
            rows,
            is_first,
            debt: last.map(|transfer| transfer.debt),
        }
    }
}

impl<P> Candidate<P> {
    fn new(place: P) -> Self {
        Self {
            place,
            seal: None,
            failed: None,
        }
    }
}
