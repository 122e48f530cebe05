//! A world in which bits of stored bodies change.

use serde_json::{Value, json};
use tally_host::object::SqlValue;
use tally_simulation::{Client, ClientRequest, Options, Site, World, admin, deployed};
use tally_wire::names;
use tally_wire::names::{CellAddress, Placement};

/// A service of two datacenters.
pub struct Scene {
    pub world: World,
    pub sites: Vec<Site>,
    pub clients: Vec<Client>,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Scene {
    pub fn new(seed: u64, tablets: Option<&str>) -> Self {
        let options = Options {
            has_bucket: true,
            ..Options::default()
        };
        let world = deployed(seed, options);
        world.set(names::TABLET_COUNT, tablets);
        let sites = ["FRA", "SYD"].map(|name| world.site(name, 1)).to_vec();
        let clients = sites.iter().map(|site| admin(&world, *site)).collect();
        Self {
            world,
            sites,
            clients,
        }
    }

    pub fn ask(&self, site: usize, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let mut request = ClientRequest::new(method, path);
        if !body.is_null() {
            request = request.body(body.to_string().into_bytes());
        }
        let answer = self.world.run(self.clients[site].ask(request));
        let answer = answer.expect("no fault");
        (answer.status, answer.json())
    }

    pub fn add(&self, site: usize, id: &str, delta: u32) -> u16 {
        let path = format!("/counters/{id}/increment");
        let body = json!({"delta": delta, "unique": format!("u{delta}-{site}")});
        self.ask(site, "POST", &path, &body).0
    }

    pub fn read(&self, id: &str) -> (u16, Value) {
        let path = format!("/counters/{id}?consistency=strong");
        self.ask(0, "GET", &path, &Value::Null)
    }

    pub fn value(&self, id: &str) -> i64 {
        let (status, answer) = self.read(id);
        assert_eq!(status, 200, "{answer}");
        answer["value"].as_i64().expect("a number")
    }

    pub fn repair(&self, body: &Value) -> Value {
        let (status, answer) = self.ask(1, "POST", "/repair", body);
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// Changes a bit of bodies that a condition names, after a restart. Returns how many there were.
    pub fn damage(&self, of: &Placement, table: &str, condition: &str) -> usize {
        let query = format!("SELECT body FROM {table} WHERE {condition}");
        let rows = self.world.look(of, &query).unwrap_or_default();
        for row in &rows {
            let [SqlValue::Blob(bytes)] = row.as_slice() else {
                panic!("a body is bytes");
            };
            let mut changed = bytes.clone();
            *changed.last_mut().expect("a byte") ^= 4;
            let (from, to) = (hex(bytes), hex(&changed));
            let update =
                format!("UPDATE {table} SET body = x'{to}' WHERE body = x'{from}' AND {condition}");
            assert!(self.world.look(of, &update).is_some(), "{update}");
        }
        rows.len()
    }
}

pub fn cell(id: &str, datacenter: &str, shard: u8) -> Placement {
    names::cell(&CellAddress {
        counter: tally_core::counter::id::CounterId::parse(id).expect("an id"),
        datacenter: tally_core::counter::id::Datacenter::parse(datacenter).expect("a name"),
        shard,
    })
}

/// The partition that holds a counter.
pub fn partition(scene: &Scene, id: &str) -> Placement {
    let holds = |of: &Placement| {
        let query = format!("SELECT 1 FROM roots WHERE id = '{id}'");
        scene
            .world
            .look(of, &query)
            .is_some_and(|rows| !rows.is_empty())
    };
    let all = (0..names::DIRECTORY_PARTITIONS).map(names::directory);
    all.into_iter().find(holds).expect("it has a root")
}

/// Damages what a counter's partition keeps of it: the tables that are named.
pub fn damage_root(scene: &Scene, id: &str, tables: &[&str]) {
    let of = partition(scene, id);
    let condition = format!("id = '{id}'");
    for table in tables {
        assert_eq!(scene.damage(&of, table, &condition), 1, "{table}");
    }
}
