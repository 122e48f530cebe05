//! Datacenters, pure: the places of objects, and the content of the directory.
//!
//! | module | holds |
//! |---|---|
//! | [`apart`] | which leads live in objects of their own beside tablets, since they are hot |
//! | [`claim`] | which lead counts a key that clients may send from anywhere |
//! | [`generation_lease`] | how long an isolate may rely on what a root said |
//! | [`hot`] | the counters written most |
//! | [`kept_tops`] | the tops that a partition was lately asked for, kept up to date |
//! | [`operation`] | set and reset: what they observed, and what the value is since |
//! | [`delta`] | what travels between leads, roots and views: what changed, or what is missing |
//! | [`push`] | when a lead pushes to the root what its datacenter has counted |
//! | [`region`] | location hints of datacenters |
//! | [`ring`] | which partition holds a key |
//! | [`root`] | generation, settings and datacenters of a counter |
//! | [`sizes`] | how many partitions the directory has, and had while roots move |
//! | [`spread`] | over how many limiters keys are spread, while that is changed |
//! | [`standings`] | the first of many counters in an order, kept up to date as they change |
//! | [`tablets`] | which tablet hosts the lead of a counter |
//! | [`top_order`] | orders of counters, and what a counter amounts to in one |
//! | [`total`] | what a root knows of its counter by pushes, and in what order totals stand |
//! | [`view`] | what is known of a counter's datacenters, as it merges |
//! | [`subscription`] | when views ask the root, and which leads it asks to push often |

pub mod apart;
pub mod claim;
pub mod delta;
pub mod generation_lease;
pub mod hot;
pub mod kept_tops;
pub mod operation;
pub mod push;
pub mod region;
pub mod ring;
pub mod root;
pub mod sizes;
pub mod spread;
pub mod standings;
pub mod subscription;
pub mod tablets;
pub mod top_order;
pub mod total;
pub mod view;
