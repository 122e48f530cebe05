//! The samples of the world's writes: each write has its own, so that a cell's rows tell which it holds.
//!
//! Invariant: at rest a cell's rows hold the samples of exactly those writes that it has counted in its generation,
//! whatever was lost, repeated, joined, refused by storage or crashed on the way.

use tally::core::sketch::{Histogram, Sample};

use super::oracle::Oracle;

/// What a write brings along: an increment its number, a decrement nothing.
pub fn sample_of(write: usize, added: u128) -> Option<Histogram> {
    let number = u32::try_from(write + 1).expect("few writes");
    let sample = Sample::new(f64::from(number)).expect("a sample");
    (added > 0).then(|| Histogram::of(sample))
}

impl Oracle {
    /// Looks at the samples of a cell's rows.
    pub fn check_samples(&self, place: usize, generation: Option<u64>, held: &Histogram) {
        let mut counted = Histogram::new();
        for (number, write) in self.writes.iter().enumerate() {
            let of = write.commit.map(|(_, generation)| generation);
            if write.place == place && of.is_some() && of == generation {
                let sample = sample_of(number, write.delta.0);
                counted.merge(&sample.unwrap_or_default());
            }
        }
        assert_eq!(*held, counted, "samples of cell {place}");
    }
}
