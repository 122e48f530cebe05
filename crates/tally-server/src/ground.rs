//! What a thread has beneath its objects: settings, clock, alarms, memory, folders and the network.
//!
//! Invariant: nothing here knows an object. What is above imports it, and it imports nothing that is above.

pub(crate) mod counted;

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use tally_host::http::{Background, Context};
use tally_host::metrics::ProcessMetrics;
use tally_host::{Later, Memory};
use tracing::error;

use self::counted::Count;
use super::alarm::Alarms;
use super::clients::held_bytes::HeldRoom;
use super::clock::{TurnClock, Turns};
use super::options::ServerSettings;
use super::randomness::Randomness;
use super::store::folder::DataFolder;
use super::store::registry::Registry;
use super::webhook::Webhooks;

/// The exit code of a server that cannot go on.
pub(crate) const EXIT_FAILED: i32 = 1;

/// How often failed commits are logged, milliseconds.
const FAILED_COMMITS_EVERY_MS: u64 = 10_000;

/// What all threads count together.
#[derive(Default)]
pub(crate) struct ServerMetrics {
    /// Of all edges.
    pub(crate) edges: ProcessMetrics,
    /// Of all aggregators and objects.
    pub(crate) objects: ProcessMetrics,
}

/// What is beneath the objects of a thread.
pub(crate) struct Ground {
    pub(crate) settings: Rc<ServerSettings>,
    /// The folder of the objects' databases.
    pub(crate) objects: PathBuf,
    /// The folder of the deployment's files.
    pub(crate) files: PathBuf,
    pub(crate) registry: Arc<Registry>,
    pub(crate) clock: Rc<TurnClock>,
    pub(crate) randomness: Randomness,
    pub(crate) alarms: Rc<Alarms>,
    pub(crate) webhooks: Webhooks,
    /// The memory of the aggregator and the objects.
    pub(crate) memory: Rc<Memory>,
    pub(crate) metrics: Arc<ServerMetrics>,
    /// The memory that clients fill.
    pub(crate) held: Arc<HeldRoom>,
    /// When a failed commit was logged, unix milliseconds.
    failed_commit_ms: Cell<Option<i64>>,
    /// Work that no client waits for.
    background: Count,
}

struct GroundBackground(Rc<Ground>);

impl Background for GroundBackground {
    fn wait_until(&self, work: Later<()>) {
        self.0.spawn(work);
    }
}

impl Ground {
    /// What is beneath a deployment with these settings, in this folder.
    pub(crate) fn new(
        settings: ServerSettings,
        folder: &DataFolder,
        metrics: Arc<ServerMetrics>,
        held: &Arc<HeldRoom>,
    ) -> Rc<Self> {
        let clock = Rc::new(TurnClock::default());
        clock.begin();
        Rc::new(Self {
            webhooks: Webhooks::new(&settings),
            settings: Rc::new(settings),
            objects: folder.objects(),
            files: folder.snapshots(),
            registry: folder.registry(),
            clock,
            randomness: Randomness::default(),
            alarms: Rc::default(),
            memory: Rc::default(),
            metrics,
            held: held.clone(),
            failed_commit_ms: Cell::default(),
            background: Count::default(),
        })
    }

    /// Logs a commit that failed, if none was logged lately: a full disk refuses thousands a second.
    pub(crate) fn log_failed_commit(&self, label: &str, why: &str) {
        let now_ms = self.clock.now_ms();
        let was_logged = |at_ms: i64| now_ms.abs_diff(at_ms) < FAILED_COMMITS_EVERY_MS;
        if self.failed_commit_ms.get().is_some_and(was_logged) {
            return;
        }
        self.failed_commit_ms.set(Some(now_ms));
        let folder = self.objects.display();
        error!(
            "a commit of {label} failed, so its turn is refused: {why}. If the disk is full or read-only, make room in {folder} or mount it for writing: writes then succeed again"
        );
    }

    /// The file of an object's database. `folder`: that of its class.
    pub(crate) fn file(&self, folder: &str, id: &str) -> PathBuf {
        self.objects.join(folder).join(format!("{id}.sqlite"))
    }

    /// Logs what is wrong with a database.
    pub(crate) fn log_damage(&self, file: &Path, why: &str) {
        error!("the database {} cannot be opened: {why}", file.display());
    }

    /// Ends the process: nothing that it might still acknowledge would be true.
    pub(crate) fn end_at_once(&self, why: &str) -> ! {
        error!("{why}");
        std::process::exit(EXIT_FAILED)
    }

    /// Ends the process, because nobody knows what the disk has.
    pub(crate) fn disk_failed(&self, why: &str) -> ! {
        self.end_at_once(&format!(
            "the disk has failed to write what was sent to it ({why}). What was acknowledged is safe. Look at the log of the system, and start again"
        ))
    }

    /// Runs work that goes on after its request was answered.
    pub(crate) fn spawn(self: &Rc<Self>, work: impl Future<Output = ()> + 'static) {
        let held = self.background.begin();
        let work = async move {
            work.await;
            drop(held);
        };
        tokio::task::spawn_local(Turns::new(&self.clock, work));
    }

    /// How much work goes on that no client waits for.
    pub(crate) fn background_count(&self) -> usize {
        self.background.get()
    }

    /// What a handler of a request is given.
    pub(crate) fn context(self: &Rc<Self>) -> Context {
        Context::new(Rc::new(GroundBackground(self.clone())))
    }
}
