//! How many elements two sets have in common.
//!
//! Invariant: an intersection is returned with its error, which is relative to the union, not to the intersection. So a
//! small part that two large sets have in common cannot be distinguished from none.
//!
//! By inclusion and exclusion, |A ∩ B| = |A| + |B| − |A ∪ B| for each family: two families have no element in common.
//! The three estimates of a family come from registers that are partly the same, and to that extent they err alike. The
//! covariance of the estimates of a set of x elements and of a set of y is σ² · x · y · J, where J is the part of their
//! union that both have. So, for u elements in the union, the variance of the intersection is
//!
//! ```text
//! σ² · (u² − a² − b² + 2 · a · b · J)        J = |A ∩ B| / u
//! ```
//!
//! The variance of three independent estimates would be up to hundreds of times larger if one set is a small part of
//! the other. In simulations of 600 runs each, with a : b from 1 : 1 to 20 : 1 and J from 0 to 1, the variance was 0.94
//! to 1.10 of this formula at 10^9 elements. With fewer elements it was at most that, plus the variance of the number
//! of elements itself. While both sets are sparse, the tokens that they have in common are counted.

use alloc::vec::Vec;

use super::estimate::{self, STANDARD_ERROR};
use super::family::{Class, Families, UniqueEstimate};
use super::hyperloglog::Sketch;
use super::square_root::square_root;

impl Families {
    /// Returns the estimated number of elements that are in both, from 0 to the smaller of the two, with
    /// its error.
    ///
    /// Cost: for each sketch of either a merge, and three estimates for each family.
    pub fn intersection(&self, other: &Self) -> UniqueEstimate {
        let mut common = Common::default();
        for class in self.widest_with(other) {
            common.add(&self.union_within(class), &other.union_within(class));
        }
        let least = common.mine.min(common.theirs);
        UniqueEstimate {
            estimate: common.estimate.clamp(0.0, least),
            standard_error: square_root(common.variance),
        }
    }
}

/// Sums over families.
#[derive(Default)]
struct Common {
    mine: f64,
    theirs: f64,
    estimate: f64,
    variance: f64,
}

impl Common {
    /// Adds what one family has in common.
    fn add(&mut self, mine: &Sketch, theirs: &Sketch) {
        let (a, b) = (mine.estimate(), theirs.estimate());
        self.mine += a;
        self.theirs += b;
        if let Some(tokens) = mine.tokens_in_common(theirs) {
            let common = estimate::from_tokens(tokens);
            let error = common * mine.standard_error();
            self.estimate += common;
            // Different elements that share a token are rare events: their variance is their number.
            self.variance += error * error + a * b * estimate::TOKEN_SHARED;
            return;
        }
        let mut union = mine.clone();
        union.merge(theirs);
        let u = union.estimate();
        let common = a + b - u;
        let part = (common / u).clamp(0.0, 1.0);
        let [dense_a, dense_b] =
            [(mine, a), (theirs, b)].map(|(set, size)| if set.is_dense() { size } else { 0.0 });
        let [sparse_a, sparse_b] =
            [a - dense_a, b - dense_b].map(|size| size * mine.standard_error());
        let alike = dense_a * dense_a + dense_b * dense_b - 2.0 * dense_a * dense_b * part;
        self.estimate += common;
        self.variance += STANDARD_ERROR * STANDARD_ERROR * (u * u - alike).max(0.0)
            + sparse_a * sparse_a
            + sparse_b * sparse_b;
    }
}

impl Families {
    /// The classes of the families of both sets together.
    fn widest_with(&self, other: &Self) -> Vec<Class> {
        let mut classes: Vec<Class> = self
            .parts()
            .chain(other.parts())
            .map(|(class, _)| class)
            .collect();
        classes.sort_unstable();
        let mut widest: Vec<Class> = Vec::new();
        for class in classes {
            if !widest.iter().any(|wider| wider.contains(class)) {
                widest.push(class);
            }
        }
        widest
    }

    /// One sketch of all elements of a class.
    fn union_within(&self, class: Class) -> Sketch {
        let mut union = Sketch::new();
        for (part, sketch) in self.parts() {
            if class.contains(part) {
                union.merge(sketch);
            }
        }
        union
    }
}
