//! How much of a hub one visitor without a key may use.

use super::{HubState, WatcherId};
use crate::live::{VISITOR_COUNTERS_MAX, VISITOR_STREAMS_MAX};

impl HubState {
    /// Whether a visitor may have a stream of so many counters besides its other streams, not counting `except`.
    pub fn has_room(&self, visitor: u64, counters: usize, except: Option<WatcherId>) -> bool {
        let own = self
            .watchers
            .iter()
            .filter(|(id, watcher)| watcher.visitor == Some(visitor) && Some(**id) != except);
        let (streams, watched) = own.fold((0, 0), |(streams, watched), (_, watcher)| {
            (streams + 1, watched + watcher.ids.len())
        });
        streams < VISITOR_STREAMS_MAX && watched + counters <= VISITOR_COUNTERS_MAX
    }

    /// Records that a watcher belongs to a visitor.
    pub fn set_visitor(&mut self, id: WatcherId, visitor: u64) {
        if let Some(watcher) = self.watchers.get_mut(&id) {
            watcher.visitor = Some(visitor);
        }
    }

    /// Records when the stream of a watcher ends, unix milliseconds.
    pub fn set_end(&mut self, id: WatcherId, ends_ms: Option<i64>) {
        if let Some(watcher) = self.watchers.get_mut(&id) {
            watcher.ends_ms = ends_ms;
        }
    }

    /// Whether the stream of a watcher must end now.
    pub fn has_ended(&self, id: WatcherId, now_ms: i64) -> bool {
        let watcher = self.watchers.get(&id);
        let ends_ms = watcher.and_then(|watcher| watcher.ends_ms);
        ends_ms.is_some_and(|ends_ms| ends_ms <= now_ms)
    }
}
