//! The object of a feature that this build does not have: its class exists because the platform's configuration names
//! it, and it answers nothing. Its rows stay as they are.

use std::future::ready;

use futures_util::future::LocalBoxFuture;

use tally_host::object::{IncomingCall, Reply, Shell};

/// An object that answers nothing.
pub struct LeftOut;

impl Shell for LeftOut {
    fn answer(&self, _arrived: IncomingCall) -> LocalBoxFuture<'_, Reply> {
        Box::pin(ready(Reply::Unknown))
    }
}
