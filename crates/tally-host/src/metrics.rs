//! The metrics of a process that has several isolates of a Worker, as a server has in its threads.
//!
//! Invariant: isolates stay, so a sum of them never falls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tally_api::metrics::Metrics;

/// The registry of one isolate, which isolates in other threads of the process read.
#[derive(Clone, Debug)]
pub struct SharedMetrics(Arc<Mutex<Metrics>>);

impl SharedMetrics {
    /// A registry without counts, begun at `begun_seconds`, unix seconds.
    pub fn new(begun_seconds: i64) -> Self {
        Self(Arc::new(Mutex::new(Metrics::new(begun_seconds))))
    }

    /// Its numbers.
    pub fn lock(&self) -> MutexGuard<'_, Metrics> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The registries of all isolates that one Worker has in a process.
#[derive(Debug, Default)]
pub struct ProcessMetrics(Mutex<Vec<SharedMetrics>>);

impl ProcessMetrics {
    fn all(&self) -> MutexGuard<'_, Vec<SharedMetrics>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an isolate's registry.
    pub fn join(&self, metrics: SharedMetrics) {
        self.all().push(metrics);
    }

    /// Their sum, begun with the first of them.
    pub fn sum(&self) -> Metrics {
        let mut sum = Metrics::new(i64::MAX);
        for metrics in self.all().iter() {
            sum.join(&metrics.lock());
        }
        sum
    }
}
