//! Laws of boards: ranks, pages and members at a rank agree with a sorted list, whatever was added and removed before;
//! and so do those of a directory that was stored and read again.

use std::collections::BTreeSet;
use std::convert::Infallible;

use tally_core::board::directory::{MemberRows, SegmentDirectory, segment_members_max};
use tally_core::board::key::Key;
use tally_core::board::score::Score;
use tally_testing::chance::Chance;

/// Rows as SQLite has them.
#[derive(Default)]
struct Sorted(BTreeSet<Key>);

impl MemberRows for Sorted {
    type Fault = Infallible;

    fn counts(&self, ranges: &[(&Key, &Key)]) -> Result<Vec<u64>, Infallible> {
        let count = |(from, before): &(&Key, &Key)| {
            if from >= before {
                return 0;
            }
            let count = self.0.range::<Key, _>(*from..*before).count() as u64;
            let most = segment_members_max(self.0.len() as u64);
            assert!(count <= most, "{count} rows were read");
            count
        };
        Ok(ranges.iter().map(count).collect())
    }

    fn key_at(&self, from: &Key, skip: u64) -> Result<Option<Key>, Infallible> {
        assert!(skip <= segment_members_max(self.0.len() as u64));
        Ok(self.0.range(from..).nth(skip as usize).cloned())
    }
}

/// A board by its directory, and what was stored of that.
#[derive(Default)]
struct Board {
    rows: Sorted,
    directory: SegmentDirectory,
    stored: std::collections::BTreeMap<Key, u64>,
}

impl Board {
    fn add(&mut self, key: Key) {
        if self.rows.0.insert(key.clone()) {
            let Ok(()) = self.directory.added(&key, &self.rows);
        }
    }

    fn remove(&mut self, key: &Key) {
        if self.rows.0.remove(key) {
            self.directory.removed(key);
        }
    }

    fn store(&mut self) {
        for (first, count) in self.directory.changes() {
            match count {
                Some(count) => self.stored.insert(first, count),
                None => self.stored.remove(&first),
            };
        }
    }

    fn read_again(&mut self) {
        self.store();
        let stored = self
            .stored
            .iter()
            .map(|(first, count)| (first.clone(), *count));
        self.directory = SegmentDirectory::new(stored.collect());
    }

    fn before(&self, key: &Key) -> u64 {
        // Together with another one, which changes nothing.
        let keys = [key.clone(), key.clone().next()];
        let Ok(before) = self.directory.before(&keys, &self.rows);
        before[0]
    }

    fn at(&self, place: u64) -> Option<Key> {
        let (first, skip) = self.directory.find(place);
        let Ok(key) = self.rows.key_at(&first, skip);
        key
    }

    /// Compares with the sorted list.
    fn check(&self, chance: &mut Chance) {
        let total = self.rows.0.len() as u64;
        assert_eq!(self.directory.total(), total);
        let sorted: Vec<&Key> = self.rows.0.iter().collect();
        for _ in 0..40 {
            if total > 0 {
                let place = chance.below(total);
                let key = sorted[place as usize];
                assert_eq!(self.before(key), place);
                assert_eq!(self.at(place).as_ref(), Some(key));
                assert_eq!(self.before(&key.clone().next()), place + 1);
            }
            let score = score_of(chance);
            let below = sorted.partition_point(|key| key.score() < Some(score)) as u64;
            let up_to = sorted.partition_point(|key| key.score() <= Some(score)) as u64;
            assert_eq!(self.before(&Key::first_of(score)), below);
            assert_eq!(self.before(&Key::behind(score)), up_to);
        }
        assert_eq!(self.at(0).as_ref(), sorted.first().copied());
        assert_eq!(self.at(total), None);
    }
}

fn score_of(chance: &mut Chance) -> Score {
    let number = match chance.below(20) {
        0 => f64::INFINITY,
        1 => f64::NEG_INFINITY,
        2 => -0.0,
        3 => 0.1 * chance.below(100) as f64,
        _ => chance.below(2_000) as f64 - 1_000.0,
    };
    Score::new(number).expect("a number")
}

fn key_of(chance: &mut Chance, members: u64) -> Key {
    let tie = (chance.below(3) == 0).then(|| chance.below(4));
    Key::new(
        score_of(chance),
        tie,
        chance.below(members).to_string().as_bytes(),
    )
}

#[test]
fn ranks_and_members_at_ranks_agree_with_a_sorted_list() {
    for seed in 0..9 {
        let mut chance = Chance(seed);
        let mut board = Board::default();
        let members = [10, 3_000, 100_000][(seed % 3) as usize];
        // It grows, then shrinks to nothing.
        for step in 0..8_000_u64 {
            let adds = if step < 5_000 { 4 } else { 1 };
            if chance.below(5) < adds {
                board.add(key_of(&mut chance, members));
            } else if let Some(key) = board.at(chance.below(board.directory.total().max(1))) {
                board.remove(&key);
            }
            if step % 2_000 == 0 {
                board.check(&mut chance);
                board.read_again();
                board.check(&mut chance);
            }
        }
        while let Some(key) = board.at(0) {
            board.remove(&key);
        }
        board.check(&mut chance);
        board.store();
        assert!(board.stored.len() <= 1, "seed {seed}: {:?}", board.stored);
    }
}

#[test]
fn keys_are_in_the_order_of_their_scores_and_hold_them() {
    let numbers = [
        f64::NEG_INFINITY,
        f64::MIN,
        -1.5,
        -f64::MIN_POSITIVE,
        0.0,
        f64::MIN_POSITIVE,
        0.1,
        1.0,
        1e300,
        f64::MAX,
        f64::INFINITY,
    ];
    let scores = numbers.map(|number| Score::new(number).expect("a number"));
    for pair in scores.windows(2) {
        assert!(pair[0] < pair[1]);
        assert!(Key::behind(pair[0]) <= Key::first_of(pair[1]));
        assert!(Key::new(pair[0], Some(u64::MAX), b"z") < Key::first_of(pair[1]));
    }
    for score in scores {
        let key = Key::new(score, Some(7), b"a");
        assert_eq!((key.score(), key.tie()), (Some(score), Some(7)));
        assert!(Key::first_of(score) <= key && key < Key::behind(score));
    }
    assert_eq!(
        Score::new(-0.0).map(Score::ordered),
        Score::new(0.0).map(Score::ordered)
    );
    assert_eq!(Score::new(f64::NAN), None);
}

#[test]
fn segments_are_small_in_small_boards_and_few_in_large_ones() {
    for (total, most) in [
        (0, 256),
        (2_560_000, 256),
        (5_000_000, 500),
        (10_000_000, 1_000),
        (u64::MAX, 1_024),
    ] {
        assert_eq!(segment_members_max(total), most);
    }
}
