//! The known calls of a key, found by their names.
//!
//! Invariants: `by_name` has the place of each call once, in order of the names. No call before `unchanged` has
//! changed since it was stored, and none is stored in a row before `row_from`. `accounts` is empty, or counts the calls
//! of each account. The end of a hold is stored before it is forgotten for want of room.
//!
//! A list of places costs 4 bytes a call. A map of names costs 30 or more, and 100,000 holds have 8 MiB together.

use super::{CALLS_MAX, CALLS_OF_ROW_MAX, CROWDED_MS, CallFault, CallName, KnownCall, State};

/// The place of a call that is forgotten.
const FORGOTTEN: u32 = u32::MAX;

/// The known calls of a key.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownCalls {
    list: Vec<KnownCall>,
    by_name: Vec<u32>,
    /// How many calls each account has, in order of the accounts; only known while the list is half full.
    accounts: Vec<(u32, u32)>,
    unchanged: usize,
    row_from: u64,
    /// Whether any call was ever stored in a row.
    is_stored: bool,
    held: u64,
    /// Nothing becomes of any call before this time.
    due_ms: i64,
}

impl PartialEq for KnownCalls {
    fn eq(&self, other: &Self) -> bool {
        self.list == other.list && self.held == other.held
    }
}

impl Eq for KnownCalls {}

fn index(place: u32) -> usize {
    usize::try_from(place).unwrap_or(usize::MAX)
}

/// Makes room for one more item. A sixteenth is spare, so that 100,000 holds take little more than their own bytes.
fn grow<T>(list: &mut Vec<T>) {
    if list.len() == list.capacity() {
        list.reserve_exact(list.len() / 16 + 1);
    }
}

impl KnownCalls {
    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &KnownCall> {
        self.list.iter()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// What open holds take.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// Whether a hold ends by now, or an answer is forgotten.
    pub(crate) fn is_due(&self, now_ms: i64) -> bool {
        self.due_ms <= now_ms
    }

    /// The bytes that they take.
    pub(crate) fn bytes(&self) -> u64 {
        let calls = self.list.capacity().saturating_mul(size_of::<KnownCall>());
        let places = self.by_name.capacity().saturating_mul(size_of::<u32>());
        let accounts = self.accounts.capacity();
        let accounts = accounts.saturating_mul(size_of::<(u32, u32)>());
        let own = size_of::<Self>();
        let all = [calls, places, accounts].into_iter();
        u64::try_from(all.fold(own, usize::saturating_add)).unwrap_or(u64::MAX)
    }

    /// Where a name is in `by_name`, or belongs.
    fn search(&self, name: &CallName) -> Result<usize, usize> {
        self.by_name.binary_search_by(|place| {
            let known = self.list.get(index(*place));
            known.map_or(core::cmp::Ordering::Less, |known| known.name.cmp(name))
        })
    }

    /// The place of a name in the list.
    fn place(&self, name: &CallName) -> Option<usize> {
        let at = self.search(name).ok()?;
        self.by_name.get(at).map(|place| index(*place))
    }

    /// A call. Cost: O(log calls).
    pub(crate) fn find(&self, name: &CallName) -> Option<&KnownCall> {
        self.list.get(self.place(name)?)
    }

    /// Ends an open hold by a settlement or a release. Returns what it held.
    ///
    /// # Errors
    /// `NoHold`, `Settled`, `Ended`: there is no such hold, or it ended before.
    pub(crate) fn end(
        &mut self,
        hold: &CallName,
        state: State,
        now_ms: i64,
    ) -> Result<u64, CallFault> {
        let place = self.place(hold).ok_or(CallFault::NoHold)?;
        let known = self.list.get_mut(place).ok_or(CallFault::NoHold)?;
        match known.state {
            State::Open | State::OpenReturning => {}
            State::Settled => return Err(CallFault::Settled),
            State::Ended => return Err(CallFault::Ended),
            State::Answered | State::Cancelled => return Err(CallFault::NoHold),
        }
        (known.state, known.at_ms, known.row) = (state, now_ms, 0);
        self.due_ms = self.due_ms.min(known.due_ms());
        let held = u64::from(known.held);
        self.held = self.held.saturating_sub(held);
        self.unchanged = self.unchanged.min(place);
        Ok(held)
    }

    /// Adds a call whose name is not known. Cost: O(log calls), and 4 bytes moved for each call at the most.
    pub(crate) fn push(&mut self, known: KnownCall) {
        let place = self.list.len();
        let (Ok(at) | Err(at)) = self.search(&known.name);
        grow(&mut self.by_name);
        self.by_name
            .insert(at, u32::try_from(place).unwrap_or(FORGOTTEN));
        grow(&mut self.list);
        self.list.push(known);
        if !self.accounts.is_empty() {
            self.count(known.account);
        }
        self.record(place, &known);
    }

    /// Adds a call that was stored. Its newer state takes the place of an older one.
    pub(crate) fn put(&mut self, known: KnownCall) {
        let place = self.place(&known.name);
        let older = place.and_then(|place| self.list.get_mut(place));
        let (Some(place), Some(older)) = (place, older) else {
            return self.push(known);
        };
        let older = core::mem::replace(older, known);
        if older.is_open() {
            self.held = self.held.saturating_sub(older.held.into());
        }
        self.accounts = Vec::new();
        self.record(place, &known);
    }

    /// Adds a call that was handed over, unless a later state of it is known here. A lender that has lost its memory
    /// may ask its former lender once more, which knows what the call was before.
    pub(crate) fn take(&mut self, given: KnownCall) {
        let known = self.find(&given.name);
        if known.is_none_or(|known| given.is_later_than(known)) {
            self.put(given);
        }
    }

    /// Records what a call at a place changes for all.
    fn record(&mut self, place: usize, known: &KnownCall) {
        if known.is_open() {
            self.held = self.held.saturating_add(known.held.into());
        }
        self.due_ms = match self.list.len() {
            1 => known.due_ms(),
            _ => self.due_ms.min(known.due_ms()),
        };
        match known.row {
            0 => self.unchanged = self.unchanged.min(place),
            row => {
                self.row_from = self.row_from.min(row);
                self.is_stored = true;
            }
        }
    }

    /// Forgets a name. Cost: O(calls).
    pub(crate) fn remove(&mut self, name: &CallName) {
        self.keep(|known| known.name != *name);
    }

    /// Forgets all that are not to be kept. Cost: O(calls).
    fn keep(&mut self, mut is_kept: impl FnMut(&KnownCall) -> bool) {
        let mut places = Vec::with_capacity(self.list.len());
        let mut kept = 0;
        self.list.retain(|known| {
            let keeps = is_kept(known);
            places.push(if keeps { kept } else { FORGOTTEN });
            kept += u32::from(keeps);
            keeps
        });
        if places.len() == self.list.len() {
            return;
        }
        self.by_name.retain_mut(|place| {
            *place = places.get(index(*place)).copied().unwrap_or(FORGOTTEN);
            *place != FORGOTTEN
        });
        self.accounts = Vec::new();
        self.unchanged = 0;
    }

    /// Counts one more call of an account.
    fn count(&mut self, account: u32) {
        match self.accounts.binary_search_by_key(&account, |(of, _)| *of) {
            Ok(at) => {
                if let Some((_, calls)) = self.accounts.get_mut(at) {
                    *calls = calls.saturating_add(1);
                }
            }
            Err(at) => self.accounts.insert(at, (account, 1)),
        }
    }

    /// Why an account has no room for another call; `None` where it has.
    fn refusal(&mut self, account: u32) -> Option<CallFault> {
        let room = CALLS_MAX.saturating_sub(self.list.len());
        // An account has no more calls than all have.
        if self.list.len() < room {
            return None;
        }
        if self.accounts.is_empty() {
            let mut all: Vec<u32> = self.list.iter().map(|known| known.account).collect();
            all.sort_unstable();
            let counted = all.chunk_by(|one, other| one == other);
            let counted =
                counted.filter_map(|of| Some((*of.first()?, u32::try_from(of.len()).ok()?)));
            self.accounts = counted.collect();
        }
        let own = self.accounts.binary_search_by_key(&account, |(of, _)| *of);
        let own = own.ok().and_then(|at| self.accounts.get(at));
        let own = own.map_or(0, |(_, calls)| index(*calls));
        match room {
            0 => Some(CallFault::Full),
            room if own >= room => Some(CallFault::PartFull),
            _ => None,
        }
    }

    /// Makes room for another call of an account. What has ended goes first: of this account, or of all where the key
    /// is full. A change stays until it is stored, because an older row may have the open hold. Cost: O(log calls)
    /// while there is room.
    ///
    /// # Errors
    /// `Full`, `PartFull`: nothing may go.
    pub(crate) fn make_room(&mut self, account: u32, now_ms: i64) -> Result<(), CallFault> {
        while let Some(fault) = self.refusal(account) {
            // Some at once, because each time all are looked at.
            let mut left = CALLS_MAX / 16;
            let (before, is_stored) = (self.list.len(), self.is_stored);
            self.keep(|known| {
                let is_near = fault == CallFault::Full || known.account == account;
                let is_old = known.at_ms.saturating_add(CROWDED_MS) <= now_ms;
                let is_over = !known.is_open() && (known.row > 0 || !is_stored);
                let may_go = is_near && is_over && (is_old || !known.is_repeatable);
                let goes = may_go && left > 0;
                left -= usize::from(goes);
                !goes
            });
            if self.list.len() == before {
                return Err(fault);
            }
        }
        Ok(())
    }

    /// Ends the holds whose time is over, and forgets old answers. Returns when and how much is to be charged, in the
    /// order of the times.
    pub(crate) fn expire(&mut self, now_ms: i64) -> Vec<(i64, u64)> {
        let mut charged = Vec::new();
        let open = self.list.iter_mut().filter(|known| known.is_open());
        for known in open.filter(|known| known.ends_ms <= now_ms) {
            if known.state == State::Open {
                charged.push((known.ends_ms, u64::from(known.held)));
            }
            self.held = self.held.saturating_sub(known.held.into());
            (known.state, known.at_ms, known.row) = (State::Ended, known.ends_ms, 0);
        }
        self.unchanged = 0;
        self.keep(|known| known.due_ms() > now_ms);
        let due_ms = self.list.iter().map(KnownCall::due_ms).min();
        self.due_ms = due_ms.unwrap_or(i64::MAX);
        charged.sort_unstable();
        charged
    }

    /// Changed calls, up to [`CALLS_OF_ROW_MAX`], which are stored in this row.
    pub(crate) fn take_changed(&mut self, row: u64) -> Vec<KnownCall> {
        let mut taken = Vec::new();
        self.is_stored = true;
        let mut looked_at = self.unchanged;
        for known in self.list.iter_mut().skip(self.unchanged) {
            if taken.len() == CALLS_OF_ROW_MAX {
                break;
            }
            looked_at += 1;
            if known.row == 0 {
                known.row = row;
                taken.push(*known);
            }
        }
        self.unchanged = looked_at;
        taken
    }

    /// Marks those that are stored in a row as changed. Returns whether there are any.
    pub(crate) fn change_row(&mut self, row: u64) -> bool {
        if row < self.row_from {
            return false;
        }
        let mut is_any = false;
        for known in self.list.iter_mut().filter(|known| known.row == row) {
            known.row = 0;
            is_any = true;
        }
        if is_any {
            self.unchanged = 0;
        }
        let rows = self.list.iter().map(|known| known.row);
        self.row_from = rows.filter(|row| *row > 0).min().unwrap_or(0);
        is_any
    }
}
