//! What can happen in the world.

use super::deeds::Deed;

/// One thing that happens. Cells, leads, inboxes and counters are numbered through the whole world; a `pick`
/// chooses among what there is at that moment.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// An isolate writes.
    Write {
        counter: usize,
        edge: u8,
        added: u8,
        removed: u8,
    },
    /// An isolate writes with a unique element.
    WriteUnique {
        counter: usize,
        edge: u8,
        element: u8,
    },
    /// A client sends a keyed write through an isolate, for the first time or again; or another write
    /// under that key.
    Keyed {
        counter: usize,
        edge: u8,
        key: u8,
        is_other: bool,
    },
    /// A client asks what became of a keyed write that it sent, too late for it to be counted now.
    Recall {
        counter: usize,
        edge: u8,
        key: u8,
    },
    /// A client sends a bulk body over several counters; one with a key for the first time or again.
    Bulk {
        edge: u8,
        body: u8,
        has_key: bool,
    },
    /// A client sends an event, which is queued.
    Queue {
        counter: usize,
        edge: u8,
    },
    /// A client sends a keyed event, for the first time or again; or another one under that key.
    QueueKeyed {
        counter: usize,
        edge: u8,
        key: u8,
        is_other: bool,
    },
    /// An owner changes a counter as a whole; under a key, for the first time or again.
    Operate {
        counter: usize,
        edge: u8,
        deed: Deed,
    },
    OperateKeyed {
        counter: usize,
        edge: u8,
        key: u8,
    },
    /// Somebody writes who has seen the counter, if nothing has changed since; with a key for the first time or again.
    WriteIf {
        counter: usize,
        edge: u8,
        pick: usize,
        key: Option<u8>,
    },
    /// An owner changes a counter as a whole, if nothing has changed since it was seen.
    OperateIf {
        counter: usize,
        edge: u8,
        pick: usize,
        deed: Deed,
    },
    /// An isolate believes what was true once.
    Believe {
        counter: usize,
        edge: u8,
        doublings: u8,
    },
    /// A request reaches its object.
    Deliver(usize),
    /// A request is delivered once more.
    Repeat(usize),
    /// An answer reaches its caller.
    Answer(usize),
    LoseRequest(usize),
    LoseAnswer(usize),
    /// A caller gives up; what it sent is still on its way.
    GiveUp(usize),
    Crash(usize),
    /// Of a counter.
    CrashRoot(usize),
    CrashEdge(u8),
    CrashInbox(usize),
    /// Storage refuses so many writes of an object.
    Refuse(usize, u32),
    RefuseInbox(usize, u32),
    /// Of a lead.
    Double(usize),
    Halve(usize),
    Alarm(usize),
    /// Of a counter.
    RootAlarm(usize),
    /// The alarm of an inbox rings, if it is set and due.
    InboxAlarm(usize),
    Read {
        counter: usize,
        about_times: bool,
    },
    /// A strong read, which waits for queued events.
    ReadDrained {
        counter: usize,
    },
    /// A reader sends back the version it holds, and that of somebody's write.
    ReadAs {
        counter: usize,
        edge: u8,
        reader: u8,
        write: Option<usize>,
    },
    /// The root is about to end the counter; and all that were stopped so go on without.
    Suspend(usize),
    Resume,
    /// Settings are put: shards where they are fixed; a time to live in seconds, and whether it slides.
    Put {
        counter: usize,
        shards: Option<u8>,
        ttl: Option<(u8, bool)>,
    },
    /// The counter is deleted.
    End(usize),
    Tick(i64),
    /// A clock is stepped to so much from the true time: that of a cell, a root, an isolate or an inbox.
    Skew(usize, i64),
}

impl Step {
    /// The first counter gets its home at a datacenter, by an edge of the first.
    pub fn put_home(number: usize) -> Self {
        Self::Operate {
            counter: 0,
            edge: 0,
            deed: Deed::Put(Some(number), None),
        }
    }

    /// An isolate adds to the first counter.
    pub fn write(edge: u8, added: u8) -> Self {
        Self::Write {
            counter: 0,
            edge,
            added,
            removed: 0,
        }
    }
}
