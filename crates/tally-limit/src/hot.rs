//! Which keys are hot: a sample of the newest calls, in which such a key stands several times.
//!
//! Invariant: `SAMPLES` calls are remembered, however many keys there are.

/// One call of so many is looked at.
const LOOKED_AT_EACH: u32 = 4;

/// How many of those are remembered, and for how long.
const SAMPLES: usize = 16;
const SAMPLE_MS_MAX: i64 = 1_000;

/// How many of them make a key hot: one with 5 % of the calls stands in four of 16 once in 140 looks, one of 10,000
/// equal keys once in 10^9. Alone, 16 calls within a second do.
const HOT_SAMPLES: usize = 4;

/// The newest calls, a sample of them.
#[derive(Clone, Debug, Default)]
pub struct HotKeys {
    calls: u32,
    newest: usize,
    samples: [Option<(u64, i64)>; SAMPLES],
}

impl HotKeys {
    /// Whether the next call is to be recorded; its hash is costly, and most calls are not.
    pub fn is_sample_due(&mut self) -> bool {
        self.calls = self.calls.wrapping_add(1);
        self.calls.is_multiple_of(LOOKED_AT_EACH)
    }

    /// Records a call of a key, by its hash. Returns whether the key is hot.
    pub fn record(&mut self, hash: u64, now_ms: i64) -> bool {
        self.newest = (self.newest + 1) % SAMPLES;
        if let Some(sample) = self.samples.get_mut(self.newest) {
            *sample = Some((hash, now_ms));
        }
        let is_of_key = |sample: &&(u64, i64)| {
            sample.0 == hash && now_ms.saturating_sub(sample.1) <= SAMPLE_MS_MAX
        };
        self.samples.iter().flatten().filter(is_of_key).count() >= HOT_SAMPLES
    }
}
