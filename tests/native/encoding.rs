//! The laws of growth, for every message, every answer and what objects store: a field from the future is skipped, and
//! one that must be there is missed by its name.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tally_core::alert::record::AlertRecord;
use tally_core::board;
use tally_core::cluster::root::RootEntry;
use tally_core::cluster::tablets::Spreads;
use tally_core::counter::cell::FlushRow;
use tally_core::counter::merge::Part;
use tally_core::counter::queue::sessions::SenderLane;
use tally_core::counter::queue::write_outcome::DeadLetter;
use tally_core::counter::queue::{LogRow, QueuedDelivery};
use tally_core::counter::settings::Settings;
use tally_testing::chance::Chance;
use tally_wire::alerts::Alert;
use tally_wire::audit::AuditEntry;
use tally_wire::encoding::{COUNTED, Form, Undecodable, read, write, write_as};
use tally_wire::messages::{self, Call, Fault, decode};
use tally_wire::rights::{ApiKey, Gift, Inheritance, Share};

use super::common::drawn::drawn;

/// Values of each type.
const VALUES: u64 = 24;

/// A build that has more fields: a number and a text at the end of each counted struct.
struct After;

const MORE: &[u8] = &[200, 1, 3, b'n', b'e', b'w'];

impl Form for After {
    fn added(&mut self, _: &'static str) -> &'static [u8] {
        MORE
    }
}

/// The fields of each struct of a value, in order, each once.
#[derive(Default)]
struct Names(Vec<(&'static str, Vec<&'static str>)>);

impl Form for Names {
    fn knows(&mut self, of: &'static str, field: &'static str) -> bool {
        match self.0.iter_mut().find(|(name, _)| *name == of) {
            Some((_, fields)) if fields.contains(&field) => {}
            Some((_, fields)) => fields.push(field),
            None => self.0.push((of, vec![field])),
        }
        true
    }
}

/// A build that knows a struct without its last fields.
struct Before<'f> {
    of: &'static str,
    lacks: &'f [&'static str],
}

impl Form for Before<'_> {
    fn knows(&mut self, of: &'static str, field: &'static str) -> bool {
        of != self.of || !self.lacks.contains(&field)
    }
}

fn written<T: Serialize>(value: &T) -> Vec<u8> {
    write(value, Vec::new()).expect("it is written")
}

/// The laws of one type. `is_open`: the value is a struct, whose end is that of the bytes.
fn grows<T: Serialize + DeserializeOwned>(seed: u64, is_open: bool) {
    for run in 0..VALUES {
        let what = format!(
            "{} of seed {seed} and run {run}",
            std::any::type_name::<T>()
        );
        let value: T = drawn(&mut Chance::of_run(seed.wrapping_add(run << 32)));
        let bytes = written(&value);
        let same = |bytes: &[u8]| read::<T>(bytes).map(|value| written(&value));
        assert_eq!(same(&bytes).as_ref(), Ok(&bytes), "{what}");
        let mut later = write_as(&value, Vec::new(), &mut After).expect("it is written");
        later.extend(MORE);
        assert_eq!(same(&later).as_ref(), Ok(&bytes), "{what}: a later build");
        let mut names = Names::default();
        write_as(&value, Vec::new(), &mut names).expect("it is written");
        for (number, (of, fields)) in names.0.iter().enumerate() {
            if of.ends_with(COUNTED) || is_open && number == 0 {
                lacks::<T>(&value, &what, of, fields);
            }
        }
    }
}

/// A build before wrote a struct without its last fields. One that has no default is missed by its name.
fn lacks<T: Serialize + DeserializeOwned>(
    value: &T,
    what: &str,
    of: &'static str,
    fields: &[&'static str],
) {
    for known in 0..fields.len() {
        let lacks = &fields[known..];
        let earlier = write_as(value, Vec::new(), &mut Before { of, lacks }).expect("written");
        match read::<T>(&earlier).map(|_| ()) {
            Ok(()) => {}
            Err(Undecodable::Lacks(name, field)) => {
                assert_eq!(name, of.trim_end_matches(COUNTED), "{what}");
                assert!(
                    lacks.contains(&field),
                    "{what}: {name}.{field}, not {lacks:?}"
                );
            }
            Err(other) => panic!("{what}: {other} without {lacks:?} of {of}"),
        }
    }
}

macro_rules! messages_grow {
    ($($call:ident $path:literal)*) => {
        $({
            let mixed = |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte));
            let seed = $path.bytes().fold(7, mixed);
            grows::<messages::$call>(seed, true);
            grows::<Result<<messages::$call as Call>::Answer, Fault>>(seed, false);
        })*
    };
}

#[test]
fn every_message_and_answer_can_grow_and_misses_a_field_by_its_name() {
    crate::each_call!(messages_grow);
}

#[test]
fn what_objects_store_can_grow_and_misses_a_field_by_its_name() {
    grows::<RootEntry>(1, false);
    grows::<FlushRow>(2, true);
    grows::<Option<Part>>(3, false);
    grows::<ApiKey>(4, true);
    grows::<Share>(5, true);
    grows::<Gift>(6, true);
    grows::<AuditEntry>(7, true);
    grows::<(Alert, AlertRecord)>(8, false);
    grows::<SenderLane>(9, true);
    grows::<DeadLetter>(10, true);
    grows::<QueuedDelivery>(11, true);
    grows::<LogRow>(12, true);
    grows::<Spreads>(13, false);
    grows::<(board::settings::Settings, u8)>(14, false);
    grows::<(Settings, u8)>(15, false);
}

/// What people set grows: each struct of it is counted, wherever it stands.
#[test]
fn what_people_set_can_grow_in_the_middle_of_a_row_and_of_a_message() {
    fn is_counted<T: Serialize + DeserializeOwned>() {
        let value: T = drawn(&mut Chance::of_run(1));
        let mut names = Names::default();
        write_as(&value, Vec::new(), &mut names).expect("it is written");
        let (name, _) = names.0.first().expect("a struct");
        assert!(name.ends_with(COUNTED), "{name}");
    }
    is_counted::<ApiKey>();
    is_counted::<Share>();
    is_counted::<Gift>();
    is_counted::<Inheritance>();
    is_counted::<Alert>();
    is_counted::<AlertRecord>();
    is_counted::<board::settings::Settings>();
    is_counted::<Settings>();
}

#[test]
fn a_missing_field_is_named_and_nothing_else_is_read_for_it() {
    let bytes = written(&Part::default());
    let cut = |length: usize| {
        decode::<Part>(&bytes[..length])
            .expect_err("it is cut")
            .to_string()
    };
    assert!(cut(0).contains("cannot be decoded"), "{}", cut(0));
    // The length says that the struct has no field.
    let nothing = decode::<Part>(&[0]).expect_err("it is empty").to_string();
    assert!(
        nothing.ends_with("Part lacks the field `cells`"),
        "{nothing}"
    );
    let torn = decode::<Part>(&[1, 1]).expect_err("it is torn").to_string();
    assert!(torn.ends_with("`cells` of Part is malformed"), "{torn}");
}
