//! The whole service, as it is deployed.

use tally_objects::ObjectClass;
use tally_wire::names;

use crate::client::Client;
use crate::faults::Options;
use crate::isolate::Role;
use crate::network::Site;
use crate::world::World;

/// A key that may do everything, in a world that was deployed by [`deploy`].
pub const ADMIN_KEY: &str = "a-key-of-the-simulation-that-may-do-all";

/// Installs the service: all objects, the aggregator, the consumer of the queue and the edge. Nothing is set.
pub fn install(world: &World) {
    let classes = [
        (names::BOARDS, ObjectClass::Board),
        (names::CELLS, ObjectClass::Cell),
        (names::DIRECTORY, ObjectClass::Directory),
        (names::INBOXES, ObjectClass::Inbox),
        (names::KEYSPACES, ObjectClass::Keyspace),
        (names::LIMITERS, ObjectClass::Limiter),
        (names::TABLETS, ObjectClass::Tablet),
        (names::WATCHERS, ObjectClass::Watcher),
    ];
    for (binding, class) in classes {
        world.register(binding, move |object, host| class.start(object, host));
    }
    world.set_aggregator(|host, arrived, context| async move {
        tally_aggregator::answer(&host, &arrived, &context).await
    });
    world.set_consumer(|host, delivered| async move {
        tally_aggregator::consumer::consume(&host, &delivered).await
    });
    world.set_edge(tally_edge::fetch);
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
