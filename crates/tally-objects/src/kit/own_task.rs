//! Work in a task of its own, for a call that waits for it.

use futures_channel::oneshot;
use tally_host::object::Object;
use tally_wire::messages::Fault;

/// Does work in a task of its own: its writes must not be part of a turn that sends before they are written.
///
/// # Errors
/// That of the work; `Unavailable` if the object ends.
pub(crate) async fn in_own_task(
    object: &Object,
    work: impl Future<Output = Result<(), Fault>> + 'static,
) -> Result<(), Fault> {
    let (sender, outcome) = oneshot::channel();
    object.wait_until(async move {
        // There is no receiver if the call has ended.
        let _ = sender.send(work.await);
    });
    let ended = |_| Err(Fault::Unavailable("the object was ended".to_owned()));
    outcome.await.unwrap_or_else(ended)
}
