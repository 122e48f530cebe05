//! Sites, and the ways between them.
//!
//! A message takes a time that is drawn for it alone, so messages overtake each other. Sites may be cut from each
//! other for a time: what is sent, or would arrive, meanwhile is lost.

use std::cell::RefCell;
use std::collections::BTreeMap;

use tally_core::cluster::region::location_hint;
use tally_core::counter::id::Datacenter;

use crate::chance::Chance;
use crate::faults::Options;

/// A place where isolates and objects live: a datacenter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site(pub(crate) usize);

struct Place {
    name: String,
    hint: Option<&'static str>,
}

/// Sites, and the ways between them.
pub struct Network {
    sites: RefCell<Vec<Place>>,
    near_us: (u64, u64),
    far_us: (u64, u64),
    detour_once_in: u64,
    distances: RefCell<BTreeMap<(Site, Site), (u64, u64)>>,
    /// Until when two sites do not reach each other.
    cuts: RefCell<BTreeMap<(Site, Site), u64>>,
}

fn pair(one: Site, other: Site) -> (Site, Site) {
    (one.min(other), one.max(other))
}

impl Network {
    /// No site; what a world was built with says how long ways take.
    pub fn new(options: &Options) -> Self {
        Self {
            sites: RefCell::default(),
            near_us: options.near_us,
            far_us: options.far_us,
            detour_once_in: options.detour_once_in,
            distances: RefCell::default(),
            cuts: RefCell::default(),
        }
    }

    /// The site of a name, made where it is new.
    pub fn site(&self, name: &str) -> Site {
        let mut sites = self.sites.borrow_mut();
        if let Some(known) = sites.iter().position(|site| site.name == name) {
            return Site(known);
        }
        let datacenter = Datacenter::parse(name);
        sites.push(Place {
            name: name.to_owned(),
            hint: datacenter.as_ref().and_then(location_hint),
        });
        Site(sites.len() - 1)
    }

    /// A site's name.
    pub fn name(&self, site: Site) -> String {
        self.sites.borrow()[site.0].name.clone()
    }

    /// The first site of a region, by the region's location hint.
    pub fn site_near(&self, hint: &str) -> Option<Site> {
        let sites = self.sites.borrow();
        sites
            .iter()
            .position(|site| site.hint == Some(hint))
            .map(Site)
    }

    /// How many sites there are.
    pub fn len(&self) -> usize {
        self.sites.borrow().len()
    }

    /// Sets how long one way between two sites takes, microseconds: least and most.
    pub fn set_distance(&self, one: Site, other: Site, us: (u64, u64)) {
        self.distances.borrow_mut().insert(pair(one, other), us);
    }

    /// Draws how long a message takes, microseconds. One in [`Options::detour_once_in`] takes up to twice the most.
    pub fn delay_us(&self, from: Site, to: Site, chance: &Chance) -> u64 {
        let known = self.distances.borrow().get(&pair(from, to)).copied();
        let other = || {
            if from == to {
                self.near_us
            } else {
                self.far_us
            }
        };
        let (least, most) = known.unwrap_or_else(other);
        let longer = if chance.once_in(self.detour_once_in) {
            most
        } else {
            0
        };
        chance.between(least, most + longer)
    }

    /// Cuts two sites from each other until a time.
    pub fn cut(&self, one: Site, other: Site, until_us: u64) {
        self.cuts.borrow_mut().insert(pair(one, other), until_us);
    }

    /// Ends all cuts.
    pub fn heal(&self) {
        self.cuts.borrow_mut().clear();
    }

    /// Whether two sites do not reach each other.
    pub fn is_cut(&self, one: Site, other: Site, now_us: u64) -> bool {
        let cuts = self.cuts.borrow();
        !cuts.is_empty()
            && cuts
                .get(&pair(one, other))
                .is_some_and(|until| now_us < *until)
    }
}
