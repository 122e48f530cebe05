//! A root that cannot be read holds up no other of its partition.

use serde_json::{Value, json};
use tally_wire::names;

use super::scene::{Scene, cell, partition};

/// Names whose roots are in one partition, in order.
fn neighbours(scene: &Scene, count: usize) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for number in 0..200 {
        let name = format!("n{number:03}");
        assert_eq!(scene.add(0, &name, 1), 200);
        let of = |name: &str| partition(scene, name).name;
        if names.first().is_none_or(|first| of(first) == of(&name)) {
            names.push(name);
        }
        if names.len() == count {
            return names;
        }
    }
    panic!("{names:?}");
}

#[test]
fn a_due_root_that_cannot_be_read_is_looked_at_again_after_minutes_and_others_end() {
    let scene = Scene::new(41, None);
    let names = neighbours(&scene, 3);
    let (broken, intact, ends) = (&names[0], &names[1], &names[2]);
    for name in [broken, intact] {
        assert_eq!(scene.add(1, name, 1), 200);
    }
    let path = |name: &str| format!("/counters/{name}");
    // A lead that cannot be sent the settings of the first leaves a duty.
    scene.world.restart(1_000);
    assert_eq!(scene.damage(&cell(broken, "SYD", 0), "rows", "kind = 1"), 1);
    let short = json!({"ttl_seconds": 60});
    scene.ask(0, "PUT", &path(broken), &short);
    let of = partition(&scene, broken);
    let duties = format!("SELECT datacenter FROM duties WHERE id = '{broken}'");
    let has_duty = |of: &names::Placement| scene.world.look(of, &duties).map(|rows| rows.len());
    assert_eq!(has_duty(&of), Some(1));
    scene.world.restart(1_000);
    let id = format!("id = '{broken}'");
    assert_eq!(scene.damage(&of, "roots", &id), 1);
    assert_eq!(scene.ask(0, "PUT", &path(ends), &short).0, 200);
    scene.world.run_for_ms(90_000);
    let ended = format!("SELECT 1 FROM roots WHERE id = '{ends}' AND live = 1");
    assert_eq!(
        scene.world.look(&of, &ended),
        Some(Vec::new()),
        "it ended by the alarm"
    );
    scene.world.run_for_ms(600_000);
    let errors = scene.world.errors();
    let due = errors
        .iter()
        .filter(|error| error.contains("a counter that is due"));
    assert!((1..5).contains(&due.count()), "{errors:?}");
    // It is refused still, and can be repaired.
    assert_eq!(scene.read(broken).0, 503);
    let report = scene.repair(&json!({ "counter": broken }));
    assert_eq!(report["counters"][0]["status"], "repaired", "{report}");
}

#[test]
fn leads_behind_a_root_that_cannot_be_read_move() {
    let scene = Scene::new(42, None);
    let names = neighbours(&scene, 3);
    let of = partition(&scene, &names[0]);
    scene.world.restart(1_000);
    let id = format!("id = '{}'", names[0]);
    assert_eq!(scene.damage(&of, "roots", &id), 1);
    scene.world.set(names::TABLET_COUNT, Some("4"));
    scene.world.restart(1_000);
    scene.ask(0, "GET", &format!("/counters/{}", names[1]), &Value::Null);
    scene.world.run_for_ms(120_000);
    let objects = scene.world.objects().into_iter();
    let tablets: Vec<names::Placement> = objects
        .filter(|(binding, ..)| *binding == names::TABLETS)
        .map(|(binding, name, ..)| names::Placement {
            binding,
            name,
            location_hint: None,
        })
        .collect();
    for name in &names[1..] {
        let query = format!("SELECT 1 FROM rows WHERE counter = '{name}' LIMIT 1");
        let is_in = |of: &names::Placement| {
            scene
                .world
                .look(of, &query)
                .is_some_and(|rows| !rows.is_empty())
        };
        assert!(tablets.iter().any(is_in), "{name} has not moved");
    }
}
