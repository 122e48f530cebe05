//! The whole service, as it is deployed.

use tally::node::objects::{Board, Cell, Directory, Inbox, Keyspace, Limiter, Tablet, Watcher};
use tally::protocol::names;
use tally::{node::aggregator, node::edge};

use crate::client::Client;
use crate::faults::Options;
use crate::isolate::Role;
use crate::network::Site;
use crate::world::World;

/// A key that may do everything, in a world that was deployed by [`deploy`].
pub const ADMIN_KEY: &str = "a-key-of-the-simulation-that-may-do-all";

/// Installs the service: all objects, the aggregator, the consumer of the queue and the edge. Nothing is set.
pub fn install(world: &World) {
    world.register::<Board>(names::BOARDS);
    world.register::<Cell>(names::CELLS);
    world.register::<Directory>(names::DIRECTORY);
    world.register::<Inbox>(names::INBOXES);
    world.register::<Limiter>(names::LIMITERS);
    world.register::<Tablet>(names::TABLETS);
    world.register::<Watcher>(names::WATCHERS);
    world.register::<Keyspace>(names::KEYSPACES);
    world.set_aggregator(|host, arrived, context| async move {
        aggregator::answer(&host, &arrived, &context).await
    });
    world.set_consumer(|host, delivered| async move {
        aggregator::consumer::consume(&host, &delivered).await
    });
    world.set_edge(edge::fetch);
}

/// Deploys the service: installs it, with one key that may do all. What is set afterwards goes before.
pub fn deploy(world: &World) {
    install(world);
    for role in [Role::Aggregator, Role::Objects] {
        world.set_for(role, names::ROLE, Some(names::ROLE_AGGREGATOR));
    }
    world.set_for(Role::Edge, names::ROLE, Some("edge"));
    let admin = |prefix: &str| {
        format!(
            r#"{{"name":"all{prefix}","key":"{ADMIN_KEY}","scopes":["admin"],"prefix":"{prefix}"}}"#
        )
    };
    let keys = format!(
        r#"{{"keys":[{},{}]}}"#,
        admin(""),
        admin(names::LIMIT_RIGHTS)
    );
    world.set(names::KEYS, Some(&keys));
}

/// A world where the service is deployed. Where SEED is set its log is shown.
pub fn deployed(seed: u64, options: Options) -> World {
    let world = World::new(seed, options);
    if std::env::var_os("SEED").is_some() {
        world.keep_log(true);
    }
    deploy(&world);
    world
}

/// A client at a site that may do all.
pub fn admin(world: &World, site: Site) -> Client {
    world.client(site).with_key(ADMIN_KEY)
}
