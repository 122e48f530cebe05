//! Law: whoever alone counts knows the value, from its own totals and what the root tells it of the rest, wherever the
//! home moves and whatever is set; nobody else counts then.

use crate::common;

use common::config;
use proptest::collection::vec;
use proptest::prelude::*;
use tally_core::cluster::operation::Cells;
use tally_core::cluster::root::{Membership, NeedsHome, Root};
use tally_core::counter::id::Datacenter;
use tally_core::counter::merge::CellTotals;
use tally_core::counter::total::Value;

const PLACES: [&str; 4] = ["FRA", "IAD", "SYD", "NRT"];
const NOW_MS: i64 = 1_777_593_630_000;

fn datacenter(name: &str) -> Datacenter {
    Datacenter::parse(name).expect("a datacenter")
}

fn names(datacenters: &[Datacenter]) -> Vec<&str> {
    datacenters.iter().map(Datacenter::as_str).collect()
}

fn root(names: &[&str]) -> Root {
    let mut root = Root::create(None, NOW_MS);
    root.datacenters = names.iter().map(|name| datacenter(name)).collect();
    root
}

fn number(value: Value) -> i128 {
    value.to_string().parse().expect("a small number")
}

fn held(shard: u8, added: u128, removed: u128) -> (u8, CellTotals) {
    let totals = CellTotals {
        generation: 1,
        sequence: 1,
        added: added.into(),
        removed: removed.into(),
    };
    (shard, totals)
}

#[derive(Clone, Debug)]
enum Step {
    Count {
        place: usize,
        shard: u8,
        added: u32,
        removed: u32,
    },
    Set(i32),
    Home(Option<usize>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let count = (0..4_usize, 0..2_u8, 0..100_u32, 0..50_u32);
    let step = prop_oneof![
        8 => count.prop_map(|(place, shard, added, removed)| Step::Count { place, shard, added, removed }),
        1 => any::<i16>().prop_map(|value| Step::Set(value.into())),
        2 => proptest::option::of(0..4_usize).prop_map(Step::Home),
    ];
    vec(step, 0..50)
}

/// A root with what its datacenters hold.
struct World {
    root: Root,
    cells: Vec<Cells>,
    value: i128,
}

impl World {
    fn cells_of(&self, datacenter: &Datacenter) -> Cells {
        let place = PLACES.iter().position(|name| *name == datacenter.as_str());
        self.cells[place.expect("one of these")].clone()
    }

    /// A write goes where the root lets it, as a lead that asks is answered.
    fn count(&mut self, place: usize, shard: u8, added: u32, removed: u32) {
        let origin = datacenter(PLACES[place]);
        let place = match self.root.home_elsewhere(&origin) {
            Some(home) => PLACES.iter().position(|name| *name == home.as_str()),
            None => Some(place),
        };
        let place = place.expect("a place");
        self.root.datacenters.insert(datacenter(PLACES[place]));
        let cells = &mut self.cells[place];
        if !cells.iter().any(|(known, _)| *known == shard) {
            cells.push(held(shard, 0, 0));
        }
        let own = cells.iter_mut().find(|(known, _)| *known == shard);
        let (_, totals) = own.expect("the cell");
        totals.sequence += 1;
        totals.added = totals.added.plus(added.into());
        totals.removed = totals.removed.plus(removed.into());
        self.value += i128::from(added) - i128::from(removed);
    }

    fn set(&mut self, value: i32) {
        let counting = self.root.counting();
        let seen = counting.into_iter().map(|datacenter| {
            let cells = self.cells_of(&datacenter);
            (datacenter, Some(cells))
        });
        let seen = seen.collect();
        let amount = Value::new(u128::from(value.unsigned_abs()), 0);
        let amount = if value < 0 { amount.negated() } else { amount };
        self.root.set(amount, seen, NOW_MS);
        self.value = value.into();
    }

    fn move_home(&mut self, home: Option<Datacenter>) {
        if home == self.root.home {
            return;
        }
        let stopped = self.root.to_stop_for(home.as_ref());
        let mut held = self.root.held.clone();
        for datacenter in stopped {
            if !held.iter().any(|(known, _)| *known == datacenter) {
                let cells = self.cells_of(&datacenter);
                held.push((datacenter, cells));
            }
        }
        held.retain(|(datacenter, _)| Some(datacenter) != home.as_ref());
        self.root.move_home(home, held);
    }
}

proptest! {
    #![proptest_config(config(152, 512))]

    #[test]
    fn whoever_alone_counts_knows_the_value(steps in steps()) {
        let mut world = World { root: root(&[]), cells: vec![Vec::new(); 4], value: 0 };
        for step in steps {
            match step {
                Step::Count { place, shard, added, removed } => world.count(place, shard, added, removed),
                Step::Set(value) => world.set(value),
                Step::Home(place) => world.move_home(place.map(|place| datacenter(PLACES[place]))),
            }
            let root = &world.root;
            for (place, name) in PLACES.iter().enumerate() {
                let name = datacenter(name);
                let grant = root.grant(&name);
                let is_sole = match root.sole() {
                    Some(sole) => *sole == name,
                    None => root.datacenters.is_empty(),
                };
                prop_assert_eq!(grant.alone, is_sole, "{}", name);
                prop_assert_eq!(grant.is_home, root.home.as_ref() == Some(&name));
                prop_assert_eq!(grant.settings.shards == Some(1), grant.is_home, "a home has one shard");
                prop_assert_eq!(grant.operations, root.operations.number());
                if is_sole {
                    let own = world.cells[place].iter().fold(grant.rest, |sum, (_, totals)| {
                        sum.plus(Value::new(totals.added, totals.removed))
                    });
                    prop_assert_eq!(number(own), world.value, "{}", name);
                }
            }
            // Whatever readers sum says the same.
            let each = root.datacenters.iter();
            let sum = each.fold(root.operations.base(), |sum, datacenter| {
                sum.plus(root.operations.beyond(datacenter, &world.cells_of(datacenter)))
            });
            prop_assert_eq!(number(sum), world.value);
            let counting = root.counting();
            for datacenter in &root.datacenters {
                let is_held = root.held.iter().any(|(held, _)| held == datacenter);
                prop_assert_eq!(counting.contains(datacenter), !is_held);
                let may_count = root.home.as_ref().is_none_or(|home| home == datacenter);
                prop_assert_eq!(may_count, !is_held, "{} of {:?}", datacenter, root.home);
            }
            for (datacenter, cells) in &root.held {
                prop_assert_eq!(cells, &world.cells_of(datacenter), "what is held does not grow");
            }
        }
    }
}

#[test]
fn before_a_home_is_set_all_others_stop_and_before_it_is_given_up_it_does() {
    let (fra, nrt) = (datacenter("FRA"), datacenter("NRT"));
    let mut root = root(&["FRA", "IAD", "SYD"]);
    assert_eq!(names(&root.to_stop_for(Some(&fra))), ["IAD", "SYD"]);
    assert_eq!(names(&root.to_stop_for(Some(&nrt))), ["FRA", "IAD", "SYD"]);
    assert!(root.to_stop_for(None).is_empty());
    root.home = Some(fra.clone());
    assert!(root.to_stop_for(Some(&fra)).is_empty(), "nothing changes");
    assert_eq!(names(&root.to_stop_for(Some(&nrt))), ["FRA", "IAD", "SYD"]);
    assert_eq!(names(&root.to_stop_for(None)), ["FRA"]);
}

#[test]
fn all_writes_go_home_and_nobody_has_to_be_told_of_newcomers() {
    let (fra, iad) = (datacenter("FRA"), datacenter("IAD"));
    let mut root = root(&["FRA"]);
    assert_eq!(root.home_elsewhere(&iad), None);
    assert_eq!(root.sole(), Some(&fra));
    let notify = Some(fra.clone());
    assert_eq!(root.membership(&iad), Membership::New { notify });
    root.home = Some(fra.clone());
    assert_eq!(
        (root.home_elsewhere(&iad), root.home_elsewhere(&fra)),
        (Some(&fra), None)
    );
    assert_eq!(root.sole(), Some(&fra));
    assert_eq!(root.membership(&iad), Membership::Elsewhere(fra.clone()));
    root.home = Some(iad.clone());
    assert_eq!(root.sole(), Some(&iad));
    assert_eq!(root.membership(&iad), Membership::New { notify: None });
    assert!(!root.grant(&fra).alone, "it has stopped");
    assert!(root.grant(&iad).alone && root.grant(&iad).is_home);
}

#[test]
fn bounds_make_the_home_that_is_named_or_known_or_alone() {
    let (fra, iad) = (datacenter("FRA"), datacenter("IAD"));
    let named = Some(iad.clone());
    assert_eq!(root(&[]).home_for_bounds(None), Ok(None));
    assert_eq!(root(&[]).home_for_bounds(named.clone()), Ok(named.clone()));
    assert_eq!(root(&["FRA"]).home_for_bounds(None), Ok(Some(fra.clone())));
    assert_eq!(
        root(&["FRA"]).home_for_bounds(named.clone()),
        Ok(named.clone())
    );
    assert_eq!(root(&["FRA", "IAD"]).home_for_bounds(None), Err(NeedsHome));
    assert_eq!(
        root(&["FRA", "IAD"]).home_for_bounds(named.clone()),
        Ok(named)
    );
    let mut settled = root(&["FRA", "IAD"]);
    settled.home = Some(fra.clone());
    assert_eq!(settled.home_for_bounds(None), Ok(Some(fra)));
}

#[test]
fn the_first_writer_of_a_bounded_counter_makes_its_home() {
    let iad = datacenter("IAD");
    let bounded = |names: &[&str]| {
        let mut root = root(names);
        root.settings.floor = Some(Value::default());
        root
    };
    let mut first = bounded(&[]);
    first.join(&iad);
    assert_eq!(first.home, Some(iad.clone()));
    let mut named = bounded(&[]);
    named.home = Some(datacenter("FRA"));
    named.join(&iad);
    assert_eq!(named.home, Some(datacenter("FRA")));
    for mut other in [bounded(&["FRA"]), root(&[])] {
        other.join(&iad);
        assert_eq!(other.home, None);
    }
}

#[test]
fn what_a_silent_datacenter_holds_is_no_part_of_a_set_value() {
    let mut root = root(&["FRA", "IAD"]);
    let fra = vec![held(0, 9, 0)];
    let seen = vec![
        (datacenter("FRA"), Some(fra.clone())),
        (datacenter("IAD"), None),
    ];
    root.set(Value::new(50_u128, 0_u128), seen, NOW_MS + 7);
    assert_eq!(names(root.operations.unreconciled()), ["IAD"]);
    assert_eq!(
        root.last_write_ms,
        NOW_MS + 7,
        "a set keeps a counter alive"
    );
    let iad = root
        .operations
        .beyond(&datacenter("IAD"), &vec![held(0, 7, 0)]);
    assert_eq!(number(iad), 0);
    assert_eq!(number(root.operations.beyond(&datacenter("FRA"), &fra)), 0);
}

/// Whose cell is compared says nothing of what others have counted meanwhile.
#[test]
fn what_was_seen_before_home_moved_fits_no_more_unless_only_that_home_has_counted() {
    let held = |name: &str| vec![(datacenter(name), Vec::new())];
    let mut root = root(&[]);
    let mut numbers = Vec::new();
    for (home, held) in [
        // The first home, where nobody else has counted.
        (Some("FRA"), Vec::new()),
        (Some("AMS"), held("FRA")),
        (Some("FRA"), held("AMS")),
        (None, Vec::new()),
        (Some("AMS"), held("FRA")),
    ] {
        root.move_home(home.map(datacenter), held);
        numbers.push(root.operations.number());
    }
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
}
