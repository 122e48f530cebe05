//! The Durable Object of one partition of the directory.

use std::rc::Rc;

use futures_util::future::LocalBoxFuture;

use super::partition::Partition;
use super::partition::features::FeatureSet;
use crate::kit::batch::answer_batch;
use tally_host::Host;
use tally_host::object::{IncomingCall, Object, Reply, Shell, reply};
use tally_wire::messages::{Batch, Call, CallAudited, Fault, decode};

/// One partition of the directory, as the platform sees it.
pub struct Directory(Rc<Partition>);

impl Directory {
    /// Starts the object from what is stored.
    pub(crate) fn start(object: Object, host: Host, features: &FeatureSet) -> Self {
        Self(Rc::new(Partition::start(object, host, features)))
    }
}

impl Shell for Directory {
    fn answer(&self, arrived: IncomingCall) -> LocalBoxFuture<'_, Reply> {
        Box::pin(async move {
            if arrived.path == CallAudited::PATH {
                let done = match decode::<CallAudited>(&arrived.message) {
                    Ok(act) => self.0.run_audited(act).await,
                    Err(fault) => Err(fault),
                };
                return reply::<CallAudited>(&done);
            }
            if arrived.path != Batch::PATH {
                return self.0.answer(arrived, 0).await;
            }
            let answered = match decode::<Batch>(&arrived.message) {
                Ok(batch) => {
                    let (host, object) = (&self.0.host, &self.0.object);
                    answer_batch(host, object, batch, |calls, in_flight| {
                        self.0.begin_together(calls, in_flight)
                    })
                    .await
                }
                Err(fault) => Err(fault),
            };
            reply::<Batch>(&answered)
        })
    }

    fn reload(&self) {
        self.0.reload();
    }

    fn alarm(&self) -> LocalBoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move { self.0.ring().await })
    }
}
