//! Messages about the counts of the deployment.

use serde::{Deserialize, Serialize};

use crate::fleet::{Counts, Fleet, FleetPart, ReportOutcome, Size};
use crate::messages::call::Call;
use crate::names::{Address, DIRECTORY_PARTITIONS};

/// The partition that pushes the metrics of the deployment. Every deployment has it.
const PUSHES: u32 = 0;

calls! {
    ReportCounts => CountsTaken, "/tell-counts", |it| Address::Directory(it.partition());
    ReportSizes => (), "/tell-sizes", |it| Address::Directory(it.partition);
    FleetOf => FleetPart, "/fleet-of", |it| Address::Directory(it.partition);
    AskFleet => Fleet, "/fleet", |_| Address::Aggregator;
    WakePush => (), "/wake-push", |_| Address::Directory(PUSHES);
}

/// Isolate → the partition of its incarnation: its counts since the last report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportCounts {
    /// The report.
    pub counts: Counts,
}

impl ReportCounts {
    fn partition(&self) -> u32 {
        let partition = self.counts.incarnation % u64::from(DIRECTORY_PARTITIONS);
        u32::try_from(partition).unwrap_or(0)
    }
}

/// The result of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountsTaken {
    /// Whether it is counted.
    pub taken: ReportOutcome,
    /// When it arrived, unix milliseconds by the partition's clock.
    pub now_ms: i64,
}

/// Isolate → the partition of some objects: the sizes of their databases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportSizes {
    /// The partition.
    pub partition: u32,
    /// The objects.
    pub sizes: Vec<Size>,
}

/// Aggregator → one partition: asks for its data of the deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetOf {
    /// The partition.
    pub partition: u32,
}

/// Isolate of objects → the partition that pushes the metrics of the deployment: something is counted, so it must push.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WakePush {}

/// Edge → aggregator: asks for the data of all partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskFleet {}
