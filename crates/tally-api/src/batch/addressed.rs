//! Loads and the cells they go to.

use tally_core::counter::flush::{Element, Load};
use tally_core::counter::settings::UniqueHash;
use tally_core::sketch::HashId;
use tally_wire::names::CellAddress;

/// A load and the cell it goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addressed {
    /// The cell.
    pub to: CellAddress,
    /// Its content.
    pub load: Load,
    /// Its elements by the other hash.
    pub rehashed: RehashedElements,
}

impl Addressed {
    /// Replaces the elements by those of the hash that the cell uses; false where there are none by that hash.
    #[must_use]
    pub fn rehash(&mut self, own: UniqueHash) -> bool {
        if !own.takes(self.rehashed.hash) || !self.load.has_tokens() {
            return false;
        }
        let load = &mut self.load;
        let elements = match load.tokens.is_empty() {
            true => &mut load.past_tokens,
            false => &mut load.tokens,
        };
        std::mem::swap(elements, &mut self.rehashed.elements);
        std::mem::swap(&mut load.hash, &mut self.rehashed.hash);
        true
    }
}

/// The elements of a load by another hash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RehashedElements {
    /// The hash.
    pub hash: HashId,
    /// The unix second of each, and the element.
    pub elements: Vec<(i64, Element)>,
}
