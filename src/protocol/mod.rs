//! What is said, pure: routes, public JSON, internal messages, object names and bindings,
//! each in one place.
//!
//! | module | holds |
//! |---|---|
//! | [`routes`] | which call a request is |
//! | [`query`], [`bodies`], [`delta`] | what a request says |
//! | [`batch`] | bulk bodies, read as they stream |
//! | [`public`] | what is answered |
//! | [`dimensions`], [`user_agent`] | what writes say of themselves |
//! | [`visitor`], [`bots`] | visitors without their addresses, and what is no visitor |
//! | [`problem`] | what is refused, and why |
//! | [`access`] | who may do what |
//! | [`api_key`] | keys that calls make, and what is kept of their secrets |
//! | [`audit`] | what admins did |
//! | [`messages`] | what Workers and objects say to each other |
//! | [`view_fallback`] | what a read takes from its root's memory |
//! | [`metrics`] | what is counted of the service itself |
//! | [`health`] | which partitions were looked at for `/healthz` |
//! | [`keys`], [`keyed`] | idempotency keys, and how their writes travel |
//! | [`export`] | the file of an export, which an import reads |
//! | [`features`] | what this build was made with |
//! | [`alerts`] | alerts: what is asked and answered, and how a delivery is signed |
//! | [`boards`] | boards: what is asked and answered |
//! | [`limits`] | rate limits: what is asked and answered |
//! | [`live`] | live views: what watchers are told, and when |
//! | [`shell_limits`] | what shells are bound by |
//! | [`mod@fleet`] | what a whole deployment has counted |
//! | [`settings`] | what each variable of the deployment may be |
//! | [`names`] | names of objects, bindings and variables |
//! | [`stored`] | bodies at rest: their version and checksum |
//! | [`snapshot`] | files of what counters were, a run a day |
//! | [`share`] | keys for reading what begins with one prefix |
//! | [`version`] | versions of writes and reads |
//! | [`refresh`] | when an isolate asks again for a key that may change |
//! | [`queued`] | messages of a queue of the platform |
//! | [`open_slots`] | objects in use, where one process has them all |
//! | [`order`], [`joined_pages`] | lists in order, and a page of what many partitions have |

pub mod access;
pub mod alerts;
pub mod api_key;
pub mod audit;
pub mod badge;
pub mod batch;
pub mod boards;
pub mod bodies;
pub mod bots;
pub mod delta;
pub mod dimensions;
pub mod export;
pub mod features;
pub mod fleet;
pub mod health;
pub mod joined_pages;
pub mod keyed;
pub mod keys;
pub mod limits;
pub mod live;
pub mod messages;
pub mod metrics;
pub mod names;
pub mod open_slots;
pub mod order;
pub mod problem;
pub mod public;
pub mod query;
pub mod queued;
pub mod redis;
pub mod refresh;
pub mod repair;
pub mod routes;
pub mod settings;
pub mod share;
pub mod shell_limits;
pub mod snapshot;
pub mod stored;
pub mod user_agent;
pub mod version;
pub mod view_fallback;
pub mod visitor;
