//! When a bulk body that has been read sends its sums: together with other bodies in flight, so that one flush to a
//! counter carries the sums of all of them. It is group commit for bodies.
//!
//! Invariants: a body that is alone never waits. No body waits longer than a millisecond for each of its counters, nor
//! longer than [`GATHER_MS_MAX`]. When one is sent because no other body is expected, all that wait are sent with it.
//! Life of a body: it is *read*, then it *gathers*, then it is *sent*.

/// The longest that a body waits for others.
pub const GATHER_MS_MAX: i64 = 1_000;

/// How long no other body must have been read or sent before the waiting bodies are sent. In this time, a client that
/// was just answered sends its next body.
pub const CALM_MS: i64 = 10;

/// How often a waiting body checks whether it may be sent.
pub const LOOK_EVERY_MS: u64 = 5;

/// The bulk bodies of one isolate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waves {
    reading: u32,
    gathering: u32,
    sending: u32,
    /// Rises when the waiting bodies are sent together.
    wave: u64,
    calm_since_ms: Option<i64>,
}

/// The stage of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Its records are being read.
    Reading,
    /// It waits for others.
    Gathering,
    /// Its sums are being sent.
    Sending,
}

/// The position of a waiting body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WavePosition {
    wave: u64,
    until_ms: i64,
}

impl Waves {
    /// Notes that a body enters a stage.
    pub fn enter(&mut self, stage: Stage) {
        let count = self.count_of(stage);
        *count = count.saturating_add(1);
    }

    /// Notes that a body leaves a stage, or has ended.
    pub fn leave(&mut self, stage: Stage) {
        let count = self.count_of(stage);
        *count = count.saturating_sub(1);
    }

    fn count_of(&mut self, stage: Stage) -> &mut u32 {
        match stage {
            Stage::Reading => &mut self.reading,
            Stage::Gathering => &mut self.gathering,
            Stage::Sending => &mut self.sending,
        }
    }

    /// Returns the position of a body with so many counters that begins to wait, with the time in unix milliseconds;
    /// `None` where there is no other body, so that it may be sent at once.
    pub fn wait_position(&self, counters: u64, now_ms: i64) -> Option<WavePosition> {
        let others = self.reading + self.gathering + self.sending;
        let wait_ms = i64::try_from(counters)
            .unwrap_or(i64::MAX)
            .min(GATHER_MS_MAX);
        (others > 0).then(|| WavePosition {
            wave: self.wave,
            until_ms: now_ms.saturating_add(wait_ms),
        })
    }

    /// Returns whether a waiting body may be sent now.
    pub fn may_go(&mut self, position: WavePosition, now_ms: i64) -> bool {
        if self.wave != position.wave || now_ms >= position.until_ms {
            return true;
        }
        if self.reading > 0 || self.sending > 0 {
            self.calm_since_ms = None;
            return false;
        }
        let since_ms = *self.calm_since_ms.get_or_insert(now_ms);
        // A clock that stepped back restarts the interval: the deadline above bounds the wait.
        let is_calm = now_ms.saturating_sub(since_ms) >= CALM_MS;
        if is_calm {
            self.wave = self.wave.wrapping_add(1);
            self.calm_since_ms = None;
        }
        is_calm
    }
}
