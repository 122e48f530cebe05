//! One thread of the server, from its start to its end.
//!
//! Life: node → doors → the end begins → its clients are done → all threads are done → its objects have written what
//! was in memory only → closed. So no thread ends while a client or an object of another one still needs its objects.

use std::net::TcpListener as StdListener;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Barrier, mpsc, watch};

use super::clients::ClientBounds;
use super::far::{FarCall, Threads};
use super::ground::{Ground, ServerMetrics};
use super::http::tls::Tls;
use super::http::{EdgeDoor, head_timer};
use super::node::Node;
use super::options::ServerSettings;
use super::resp::RespDoor;
use super::store::folder::DataFolder;

/// Requests in flight get this long after SIGTERM. Streams of changes end at once.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(5);

/// Work that outlasts its request, such as a report of metrics, gets this long after the last request.
const BACKGROUND_TIME_MAX: Duration = Duration::from_millis(200);

/// How often a drain looks whether all is done.
const DRAIN_LOOK: Duration = Duration::from_millis(10);

/// What a thread is given.
pub(crate) struct Seat {
    pub(crate) settings: ServerSettings,
    pub(crate) folder: Arc<DataFolder>,
    pub(crate) metrics: Arc<ServerMetrics>,
    pub(crate) threads: Threads,
    pub(crate) calls: mpsc::Receiver<FarCall>,
    /// All threads accept from the same listeners.
    pub(crate) listeners: Vec<StdListener>,
    /// The listener of Redis's protocol.
    pub(crate) resp: Option<StdListener>,
    /// The header that says where a request entered.
    pub(crate) blob: Option<String>,
    pub(crate) bounds: Arc<ClientBounds>,
    pub(crate) tls: Option<Tls>,
    /// How many objects may be open in this thread.
    pub(crate) open_max: usize,
    pub(crate) ends: watch::Receiver<bool>,
    /// All threads meet here once their clients are done, and before their objects write for the last time.
    pub(crate) drained: Arc<Barrier>,
}

impl Seat {
    /// Serves until the end begins, and ends in order.
    ///
    /// # Errors
    /// If it cannot begin.
    pub(crate) async fn run(mut self) -> Result<(), String> {
        let node = Node::new(
            Ground::new(
                self.settings,
                &self.folder,
                self.metrics,
                self.bounds.held(),
            ),
            self.threads,
            self.open_max,
        );
        node.run(self.calls);
        tokio::task::spawn_local(head_timer::run());
        for listener in self.listeners {
            let listener = TcpListener::from_std(listener).map_err(|error| error.to_string())?;
            let door = EdgeDoor::new(
                node.clone(),
                self.blob.as_deref(),
                &self.bounds,
                self.tls.as_ref(),
                &self.ends,
            );
            tokio::task::spawn_local(door.listen(listener));
        }
        if let Some(listener) = self.resp {
            let listener = TcpListener::from_std(listener).map_err(|error| error.to_string())?;
            let door = RespDoor::new(node.clone(), &self.bounds, self.tls.as_ref(), &self.ends);
            tokio::task::spawn_local(door.listen(listener));
        }
        // Its sender is the signal: if that is gone, the end has begun too.
        let _ = self.ends.wait_for(|ends| *ends).await;
        drain(&node, &self.bounds).await;
        // The first round returns leases to limiters of any thread, and the second one writes these returns.
        for _ in 0..2 {
            self.drained.wait().await;
            node.prepare_stop().await;
        }
        node.close_all();
        Ok(())
    }
}

/// Lets requests in flight, and what they left to do, come to their ends.
async fn drain(node: &Node, bounds: &ClientBounds) {
    let until = async |is_done: &dyn Fn() -> bool, time_max| {
        let done = async {
            while !is_done() {
                tokio::time::sleep(DRAIN_LOOK).await;
            }
        };
        // What takes longer is broken off. It is not acknowledged.
        let _ = tokio::time::timeout(time_max, done).await;
    };
    until(&|| bounds.connections() == 0, DRAIN_TIME_MAX).await;
    until(&|| node.ground.background_count() == 0, BACKGROUND_TIME_MAX).await;
}
