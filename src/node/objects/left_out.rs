//! The object of a feature that this build does not have: its class exists because the platform's configuration names
//! it, and it answers nothing. Its rows stay as they are.

use super::measured_object::ObjectKind;
use crate::host::Host;
use crate::host::object::{IncomingCall, Object, Reply, Shell};

/// An object that answers nothing.
pub struct LeftOut;

impl Shell for LeftOut {
    fn start(_object: Object, _host: Host) -> Self {
        Self
    }

    async fn answer(&self, _arrived: IncomingCall) -> Reply {
        Reply::Unknown
    }
}

impl ObjectKind for LeftOut {
    const KIND: &'static str = "left_out";
}
