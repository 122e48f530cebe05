//! A read with the trace of how it was made.

use std::cell::RefCell;

use super::read::{read_drained, read_view};
use super::read_options::ReadOptions;
use tally_host::Host;
use tally_shared::call;
use tally_wire::messages::{Explain, Explained, Fault, ReadDrained, ReadTrace};

/// Sums a counter, with the trace of the read.
pub async fn explain(
    host: &Host,
    request: Result<Explain, Fault>,
) -> Result<Option<Explained>, Fault> {
    let Explain { read, strong } = request?;
    let trace = RefCell::new(ReadTrace {
        partition: call::partition_of(host, &read.counter),
        ..ReadTrace::default()
    });
    let options = ReadOptions {
        trace: Some(&trace),
        ..ReadOptions::default()
    };
    let sum = if strong {
        read_drained(host, Ok(ReadDrained { read }), options).await?
    } else {
        read_view(host, Ok(read), options).await?
    };
    let trace = trace.into_inner();
    Ok(sum.map(|sum| Explained { sum, trace }))
}
