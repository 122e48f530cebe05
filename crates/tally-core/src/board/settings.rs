//! How a board ranks, and what it keeps.
//!
//! Boards and counters each have settings: those of counters are [`crate::counter::settings::Settings`].

use serde::{Deserialize, Serialize};

use super::period::Period;
use super::zone::Zone;

/// The most members of a board.
pub const MEMBERS_MAX: u64 = 10_000_000;

/// The most members if a board's settings have no maximum.
pub const MEMBERS_MAX_DEFAULT: u64 = 1_000_000;

/// The most ended periods that a board keeps.
pub const ARCHIVE_MAX: u32 = 100;

/// Which score is the best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// The highest.
    #[default]
    Desc,
    /// The lowest.
    Asc,
}

/// What becomes of a score that is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScoreRule {
    /// It replaces the former score.
    #[default]
    Set,
    /// It is added to the former score.
    Sum,
    /// The better of both is kept.
    Best,
}

/// The order and the ranks of members with equal scores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ties {
    /// By the bytes of their names, in the board's order; each has a different rank.
    #[default]
    Member,
    /// By the time at which they reached the score, the earliest first; each has a different rank.
    First,
    /// By the bytes of their names, and all have the rank of the first.
    Shared,
}

/// Which numbers scores are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scores {
    /// Doubles.
    #[default]
    Float,
    /// Whole numbers.
    Integer,
}

/// The settings of a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "BoardSettings+")]
pub struct Settings {
    /// Which score is the best.
    pub order: Order,
    /// What becomes of a score that is written.
    pub keep: ScoreRule,
    /// How equal scores stand.
    pub ties: Ties,
    /// Which numbers scores are.
    pub scores: Scores,
    /// When the board begins anew.
    pub period: Period,
    /// The zone of its periods.
    pub zone: Zone,
    /// How many ended periods are kept.
    pub archive: u32,
    /// The most members.
    pub members_max: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            order: Order::default(),
            keep: ScoreRule::default(),
            ties: Ties::default(),
            scores: Scores::default(),
            period: Period::default(),
            zone: Zone::default(),
            archive: 0,
            members_max: MEMBERS_MAX_DEFAULT,
        }
    }
}

impl Settings {
    /// Succeeds if the settings are allowed.
    ///
    /// # Errors
    /// A sentence that says which limit they exceed.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=MEMBERS_MAX).contains(&self.members_max) {
            return Err(format!("members_max must be from 1 to {MEMBERS_MAX}"));
        }
        if self.archive > ARCHIVE_MAX {
            return Err(format!("archive must be from 0 to {ARCHIVE_MAX}"));
        }
        if !self.zone.is_known() {
            return Err("zone is none that this build knows".to_owned());
        }
        Ok(())
    }

    /// Whether a board with members may get these settings: the order of its rows and its periods must not change.
    pub fn may_follow(&self, before: &Self) -> bool {
        self.fixed_changes(before).next().is_none()
    }

    /// The names of the settings that differ and that a board with members keeps.
    pub fn fixed_changes(&self, before: &Self) -> impl Iterator<Item = &'static str> {
        [
            ("order", self.order != before.order),
            ("ties", self.ties != before.ties),
            ("scores", self.scores != before.scores),
            ("period", self.period != before.period),
            ("zone", self.zone != before.zone),
        ]
        .into_iter()
        .filter_map(|(name, differs)| differs.then_some(name))
    }
}
