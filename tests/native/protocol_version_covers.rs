//! Law: a read covers a version exactly if it includes all that the version names.

use crate::common;

use std::collections::{BTreeMap, BTreeSet};

use common::config;
use proptest::collection::vec;
use proptest::prelude::*;
use tally_core::cluster::root::Root;
use tally_core::counter::id::Datacenter;
use tally_core::counter::merge::{CellTotals, Part};
use tally_wire::messages::{GlobalSum, not_reached};
use tally_wire::problem::Code;
use tally_wire::version::{SeenCell, Version};

fn seen(datacenter: &str, shard: u8, generation: u64, sequence: u64) -> SeenCell {
    SeenCell {
        datacenter: Datacenter::parse(datacenter).expect("a datacenter"),
        shard,
        generation,
        sequence,
    }
}

fn cells() -> impl Strategy<Value = Vec<SeenCell>> {
    let cell = (0..3_usize, 0..3_u8, 0..5_u64, 0..4_u64);
    let cell = cell.prop_map(|(place, shard, generation, sequence)| {
        seen(PLACES[place], shard, generation, sequence)
    });
    vec(cell, 0..4)
}

/// The shards and sequences of a datacenter; `None` where it did not answer.
type Cells<'a> = Option<&'a [(u8, u64)]>;

/// What a read of this generation gave.
fn sum(generation: u64, parts: &[(&str, Cells<'_>)]) -> GlobalSum {
    let totals = |&(shard, sequence): &(u8, u64)| {
        let totals = CellTotals {
            generation,
            sequence,
            added: 0.into(),
            removed: 0.into(),
        };
        (shard, totals)
    };
    let part = |cells: &[(u8, u64)]| Part {
        cells: cells.iter().map(totals).collect(),
        ..Part::default()
    };
    let mut root = Root::create(None, 0);
    root.generation = generation;
    let datacenters = parts.iter().map(|(name, cells)| {
        let name = Datacenter::parse(name).expect("a datacenter");
        (name, cells.map(part))
    });
    GlobalSum {
        datacenters: datacenters.collect(),
        root,
        is_whole: true,
        uniques: tally_core::sketch::Uniques::new(),
        window_uniques: tally_core::sketch::Uniques::new(),
        is_drained: true,
    }
}

fn covers(sum: &GlobalSum, version: &Version) -> bool {
    Version::of_sum(sum)
        .lacks(sum.root.generation, version)
        .is_none()
}

#[test]
fn a_read_names_what_answered_or_else_the_generation_alone() {
    let partial = sum(7, &[("FRA", Some(&[(0, 3), (2, 1)])), ("IAD", None)]);
    let version = Version::of_sum(&partial);
    assert_eq!(
        version.cells(),
        [seen("FRA", 0, 7, 3), seen("FRA", 2, 7, 1)]
    );
    for nothing in [
        sum(7, &[]),
        sum(7, &[("IAD", None)]),
        sum(7, &[("IAD", Some(&[]))]),
    ] {
        let version = Version::of_sum(&nothing);
        assert_eq!(version.cells(), [seen("LOCAL", 0, 7, 0)]);
        assert!(covers(&nothing, &version));
        assert!(covers(&sum(7, &[("FRA", Some(&[(0, 1)]))]), &version));
        assert!(!covers(&sum(6, &[("FRA", Some(&[(0, 1)]))]), &version));
    }
}

#[test]
fn no_condition_holds_by_a_read_that_lacked_what_was_counted_before_the_home() {
    let [fra, lhr] = ["FRA", "LHR"].map(|name| Datacenter::parse(name).expect("a datacenter"));
    let whole = sum(
        7,
        &[("FRA", Some(&[(0, 3), (1, 2)])), ("LHR", Some(&[(0, 5)]))],
    );
    let held = whole.datacenters[0]
        .1
        .as_ref()
        .expect("it answered")
        .cells
        .clone();
    let at_lhr = |mut read: GlobalSum| {
        read.root
            .move_home(Some(lhr.clone()), vec![(fra.clone(), held.clone())]);
        read
    };
    let now = at_lhr(whole.clone()).root.now_at(&lhr, &[]);
    let is_now = |version: &Version| version.is_now(&lhr, &now, &[]);
    let holds = |read: &GlobalSum| {
        let version = Version::of_sum(read);
        let tag = version.of_home(&lhr);
        let sent = Version::decode(&tag.encode()).expect("ours");
        assert_eq!((version.is_short(), sent), (tag.is_short(), tag));
        assert!(covers(read, &version) && covers(&at_lhr(whole.clone()), &version));
        !version.is_short()
    };
    assert!(holds(&at_lhr(whole.clone())));
    let away: [&[(&str, Cells<'_>)]; 3] = [
        &[("FRA", None), ("LHR", Some(&[(0, 5)]))],
        &[("LHR", Some(&[(0, 5)]))],
        &[("FRA", Some(&[(0, 3), (1, 1)])), ("LHR", Some(&[(0, 5)]))],
    ];
    for parts in away {
        let read = at_lhr(sum(7, parts));
        assert!(!holds(&read), "{parts:?}");
        assert!(!is_now(&Version::of_sum(&read)), "{parts:?}");
    }
    // Nothing at the home yet, and nothing else has changed.
    let mine = at_lhr(sum(7, &[("FRA", Some(&[(0, 3), (1, 2)]))]));
    assert!(is_now(&Version::of_sum(&mine)));
    assert!(!is_now(&Version::of_sum(&at_lhr(sum(7, &[])))));
}

#[test]
fn a_read_covers_what_it_saw_and_all_older_generations() {
    let read = sum(
        7,
        &[
            ("FRA", Some(&[(0, 3), (2, 9)])),
            ("IAD", None),
            ("SYD", Some(&[(0, 1)])),
        ],
    );
    let table = [
        (vec![], true),
        (vec![seen("FRA", 0, 7, 3)], true),
        (vec![seen("FRA", 0, 7, 4)], false),
        (vec![seen("FRA", 2, 7, 9), seen("SYD", 0, 7, 1)], true),
        (vec![seen("FRA", 2, 7, 9), seen("SYD", 0, 7, 2)], false),
        // A shard, and a datacenter, that did not answer.
        (vec![seen("FRA", 1, 7, 1)], false),
        (vec![seen("IAD", 0, 7, 1)], false),
        (vec![seen("ZRH", 0, 7, 1)], false),
        // Nothing is named of it.
        (vec![seen("IAD", 0, 7, 0)], true),
        // Ended since, wherever it was counted.
        (vec![seen("IAD", 5, 6, u64::MAX)], true),
        // Not begun yet when the root was read.
        (vec![seen("FRA", 0, 8, 0)], false),
        (vec![seen("FRA", 0, 8, 1)], false),
        // Named twice: both hold or none does.
        (vec![seen("FRA", 0, 7, 1), seen("FRA", 0, 7, 4)], false),
        (vec![seen("FRA", 0, 6, 9), seen("FRA", 0, 7, 3)], true),
    ];
    for (cells, covered) in table {
        assert_eq!(
            covers(&read, &Version::of(cells.clone())),
            covered,
            "{cells:?}"
        );
    }
}

#[test]
fn of_one_datacenter_only_its_own_counts_and_generations_do() {
    let version = Version::of([seen("FRA", 0, 7, 3), seen("IAD", 1, 7, 5)]);
    let fra = Datacenter::parse("FRA").expect("a datacenter");
    let only = version.clone().only(&fra);
    assert!(covers(&sum(7, &[("FRA", Some(&[(0, 3)]))]), &only));
    assert!(!covers(&sum(7, &[("FRA", Some(&[(0, 2)]))]), &only));
    assert!(!covers(&sum(7, &[("FRA", Some(&[(0, 3)]))]), &version));
    let elsewhere = Version::of([seen("IAD", 1, 8, 5)]).only(&fra);
    assert!(!covers(&sum(7, &[("FRA", Some(&[(0, 3)]))]), &elsewhere));
    assert!(covers(&sum(8, &[("FRA", Some(&[]))]), &elsewhere));
}

#[test]
fn a_version_that_was_not_reached_is_told_with_what_was_seen() {
    let read = sum(7, &[("FRA", Some(&[(0, 3)])), ("IAD", None)]);
    let problem_of = |cell: SeenCell| not_reached(&Version::of([cell]), &read, 2_000);
    let problem = problem_of(seen("IAD", 1, 7, 5));
    assert_eq!(problem.code(), Code::VersionNotReached);
    assert_eq!(problem.retry_after_seconds(), Some(1));
    assert_eq!(
        problem.to_json(),
        r#"{"type":"/problems/version-not-reached","title":"The requested version was not reached in time","status":504,"detail":"the version was not reached within 2000 ms: shard 1 of IAD is named at 5 and was seen at 0; try again, or read without at_least what `seen` names","code":"version-not-reached","seen":"AQEDRlJBAAcD"}"#
    );
    let newer = problem_of(seen("FRA", 0, 8, 1));
    let reason = "generation 8 of the counter is named and 7 was seen";
    assert!(newer.detail().contains(reason), "{}", newer.detail());
}

const PLACES: [&str; 3] = ["FRA", "IAD", "SYD"];

#[derive(Clone, Debug)]
enum Step {
    Write(usize, u8),
    /// Which datacenters answer.
    Read([bool; 3]),
    End,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..3_usize, 0..2_u8).prop_map(|(place, shard)| Step::Write(place, shard)),
        6 => any::<[bool; 3]>().prop_map(Step::Read),
        1 => Just(Step::End),
    ];
    vec(step, 0..60)
}

/// What a read saw, or a write wrote: its version, its generation, and the writes of that generation that
/// are in it, by their numbers.
struct Event {
    version: Version,
    generation: u64,
    writes: BTreeSet<usize>,
    read: Option<GlobalSum>,
}

/// One counter, told step by step: every write and read with what it truly includes.
fn story(steps: Vec<Step>) -> Vec<Event> {
    let mut generation = 1;
    let mut cells = BTreeMap::<(usize, u8), BTreeSet<usize>>::new();
    let mut events = Vec::new();
    for (number, step) in steps.into_iter().enumerate() {
        let (version, writes, read) = match step {
            Step::Write(place, shard) => {
                let held = cells.entry((place, shard)).or_default();
                held.insert(number);
                let sequence = u64::try_from(held.len()).expect("few writes");
                let version = Version::of([seen(PLACES[place], shard, generation, sequence)]);
                (version, held.clone(), None)
            }
            Step::Read(answers) => {
                let mut parts: [Option<Vec<(u8, u64)>>; 3] = answers.map(|is| is.then(Vec::new));
                let mut writes = BTreeSet::new();
                for ((place, shard), held) in &cells {
                    if let Some(part) = &mut parts[*place] {
                        part.push((*shard, u64::try_from(held.len()).expect("few writes")));
                        writes.extend(held);
                    }
                }
                let parts: Vec<_> = PLACES
                    .into_iter()
                    .zip(parts.iter().map(Option::as_deref))
                    .collect();
                let read = sum(generation, &parts);
                (Version::of_sum(&read), writes, Some(read))
            }
            Step::End => {
                generation += 1;
                cells.clear();
                continue;
            }
        };
        events.push(Event {
            version,
            generation,
            writes,
            read,
        });
    }
    events
}

/// Any read: a generation and how far its few cells are.
fn any_read() -> impl Strategy<Value = GlobalSum> {
    let cells = || vec(0..3_u64, 0..3).prop_map(|cells| (0..).zip(cells).collect::<Vec<_>>());
    let parts = vec(proptest::option::of(cells()), 3);
    (1..4_u64, parts).prop_map(|(generation, parts)| {
        let parts: Vec<_> = PLACES
            .into_iter()
            .zip(parts.iter().map(Option::as_deref))
            .collect();
        sum(generation, &parts)
    })
}

proptest! {
    #![proptest_config(config(132, 512))]

    #[test]
    fn a_read_covers_exactly_what_it_includes(steps in steps()) {
        let events = story(steps);
        for read in &events {
            let Some(sum) = &read.read else { continue };
            for target in &events {
                let included = target.generation < read.generation
                    || (target.generation == read.generation && target.writes.is_subset(&read.writes));
                prop_assert_eq!(covers(sum, &target.version), included, "{:?} {:?}", read.version, target.version);
            }
        }
    }

    #[test]
    fn whoever_sends_versions_back_never_sees_less(steps in steps()) {
        // Reads that do not cover what was seen before are not shown.
        let mut held = Version::default();
        let mut before = (0, BTreeSet::new());
        for event in story(steps) {
            let Some(sum) = &event.read else { continue };
            if !covers(sum, &held) {
                continue;
            }
            if event.generation == before.0 {
                prop_assert!(before.1.is_subset(&event.writes));
            }
            prop_assert!(event.generation >= before.0);
            held = event.version;
            before = (event.generation, event.writes);
        }
    }

    #[test]
    fn covering_is_reflexive_and_transitive(one in any_read(), two in any_read(), three in any_read()) {
        let version = Version::of_sum;
        prop_assert!(covers(&one, &version(&one)));
        if covers(&one, &version(&two)) && covers(&two, &version(&three)) {
            prop_assert!(covers(&one, &version(&three)));
        }
    }

    #[test]
    fn seeing_more_covers_no_less(one in any_read(), more in any_read(), named_cells in cells(), near in any_read()) {
        // The union: of the newer generation what either saw, of each cell the later.
        let mut all = BTreeMap::new();
        let generation = one.root.generation.max(more.root.generation);
        for cell in [&one, &more].into_iter().flat_map(|sum| Version::of_sum(sum).cells().to_vec()) {
            if cell.generation == generation {
                let sequence: &mut u64 = all.entry((cell.datacenter, cell.shard)).or_default();
                *sequence = (*sequence).max(cell.sequence);
            }
        }
        let union = Version::of(all.into_iter().map(|((datacenter, shard), sequence)| SeenCell {
            datacenter,
            shard,
            generation,
            sequence,
        }));
        for minimum in [Version::of(named_cells), Version::of_sum(&near)] {
            if covers(&one, &minimum) || covers(&more, &minimum) {
                prop_assert_eq!(union.lacks(generation, &minimum), None);
            }
        }
    }
}
