//! What a read must say, by the plain integers.
//!
//! Invariant: as `oracle`: a sum has every cell at some moment since the read began, and nothing twice.

use tally::core::counter::id::Datacenter;
use tally::core::counter::total::{Sum, Value};
use tally::core::sketch::{Source, Uniques};
use tally::protocol::messages::GlobalSum;

use super::oracle::{End, Oracle, plus, sum};
use super::{CELLS, DATACENTERS};

impl Oracle {
    /// Looks at a read that began at that moment and ends now.
    pub fn check_read(&self, begun: usize, read: &GlobalSum, about_times: bool) {
        let generation = read.root.generation;
        let life = &self.generations[&generation];
        assert!(
            life.ended.is_none_or(|ended| ended > begun),
            "an ended counter is read"
        );
        let mut total = (Sum::ZERO, Sum::ZERO);
        let mut is_complete = true;
        for (number, name) in DATACENTERS.iter().enumerate() {
            let named = |(datacenter, _): &&(_, _)| -> bool { is_named(datacenter, name) };
            let told = read
                .datacenters
                .iter()
                .find(named)
                .map(|(_, sum)| sum.as_ref());
            for shard in 0..CELLS {
                let place = number * CELLS + shard;
                let shard = super::shard_of(place);
                let log = self.cells.get(&(place, generation));
                let before = log
                    .into_iter()
                    .flatten()
                    .take_while(|(moment, _)| *moment <= begun);
                let known = u64::try_from(before.count()).expect("few commits");
                let cells = told.flatten().map_or(&[][..], |sum| &sum.cells);
                let told: Vec<_> = cells.iter().filter(|cell| cell.0 == shard).collect();
                assert!(told.len() <= 1, "cell {place} is in a sum twice");
                let Some((_, told_cell)) = told.first() else {
                    let sum = read
                        .datacenters
                        .iter()
                        .find(named)
                        .map(|(_, sum)| sum.as_ref());
                    let is_missing = matches!(sum, Some(None))
                        || sum
                            .flatten()
                            .is_some_and(|sum| sum.missing.contains(&shard));
                    is_complete &= !is_missing;
                    let may_lack = known == 0 || is_missing || life.ended.is_some();
                    assert!(may_lack, "a sum lacks cell {place}");
                    continue;
                };
                assert_eq!(told_cell.generation, generation, "cell {place}");
                assert!(
                    told_cell.sequence >= known,
                    "cell {place} is told as it was before the read"
                );
                self.check_totals(place, told_cell);
                total = (
                    total.0.plus(told_cell.added.into()),
                    total.1.plus(told_cell.removed.into()),
                );
            }
        }
        let parts = || read.datacenters.iter().filter_map(|(_, sum)| sum.as_ref());
        let added: Sum = parts().map(|sum| sum.summary.added).sum();
        let removed: Sum = parts().map(|sum| sum.summary.removed).sum();
        assert_eq!((added, removed), total);
        self.check_operations(begun, read, is_complete);
        if is_complete && life.ended.is_none() {
            self.check_uniques(begun, read, generation);
        }
        if about_times && is_complete && life.ended.is_none() {
            // The window covers all of the time that such a world takes.
            let windows = parts().map(|sum| sum.summary.window.count);
            let window: Sum = windows.map(Sum::from).sum();
            let (least, most) = (
                self.total_at(begun.max(life.born)).0,
                self.total_at(self.moment()).0,
            );
            assert!(window >= least.into(), "a window lacks something");
            assert!(window <= most.into(), "a window has too much");
        }
    }

    /// Compares with the plain integers once everything is at rest and every client has its answer.
    pub fn check_rest(&self, read: &GlobalSum) {
        let is_whole = |sum: &tally::protocol::messages::DatacenterSum| sum.missing.is_empty();
        let mut parts = read.datacenters.iter().map(|(_, sum)| sum.as_ref());
        assert!(
            parts.all(|sum| sum.is_some_and(is_whole)),
            "the last read is complete"
        );
        self.check_read(self.moment(), read, false);
        self.events.check_rest();
        let mut plain = self.keys.check_rest(read.root.generation);
        for write in &self.writes {
            match (write.end.expect("every client has an answer"), write.commit) {
                (End::Counted, None) => panic!("lost: {write:?}"),
                (End::Refused, Some(_)) => panic!("counted though refused: {write:?}"),
                (_, Some((_, generation))) if generation == read.root.generation => {
                    plain = plus(plain, write.delta)
                }
                _ => {}
            }
        }
        let parts = read.datacenters.iter().filter_map(|(_, sum)| sum.as_ref());
        let told = parts.fold(Value::default(), |told, sum| told.plus(sum.summary.value()));
        assert_eq!(told.to_string(), sum(plain).to_string(), "at rest");
        assert!(read.root.operations.unsettled().is_empty(), "at rest");
        self.check_value(read.value(), self.moment()..=self.moment(), "at rest");
        let counted = self.uniques(self.moment(), read.root.generation);
        let (told, counted) = (merged(read).to_bytes(), counted.to_bytes());
        assert_eq!(told, counted, "unique elements at rest");
    }

    /// The elements of all that had been counted in a generation at a moment.
    fn uniques(&self, moment: usize, generation: u64) -> Uniques {
        let mut uniques = Uniques::new();
        for write in &self.writes {
            let counted = write
                .commit
                .filter(|(at, of)| *at <= moment && *of == generation);
            if let Some((hash, token)) = write.element.filter(|_| counted.is_some()) {
                uniques.insert(Source::of_all(hash), token);
            }
        }
        uniques
    }

    /// A complete read has every element that was counted before it began, and none that never was.
    fn check_uniques(&self, begun: usize, read: &GlobalSum, generation: u64) {
        let mut told = merged(read);
        let least = self.uniques(begun, generation);
        assert!(!told.merge(&least), "an element is missing");
        let mut most = self.uniques(self.moment(), generation);
        assert!(!most.merge(&told), "an element that nobody named");
    }
}

/// The elements of all datacenters, by hash.
fn merged(read: &GlobalSum) -> Uniques {
    let mut uniques = Uniques::new();
    for (source, sketch) in read.uniques.parts() {
        uniques.add(Source::of_all(source.hash), sketch);
    }
    uniques
}

fn is_named(datacenter: &Datacenter, name: &str) -> bool {
    datacenter.as_str() == name
}
