//! Repair of damaged cells: which rows are damaged, and how they are restored.
//!
//! Invariant: only rows that do not match their checksums are dropped. Rows of a newer build are not damaged, and stay.

use std::rc::Rc;

use super::core::CellCore;
use super::damage::DamagedRow;
use super::lead_role::{LeadName, LeadRole};
use super::row_kinds::Kind;
use super::rows::CellRows;
use super::store::CellStore;
use crate::tablet::row_names::LEDGER;
use tally_core::counter::cell::recovery::CellRecovery;
use tally_core::counter::cell::{CellState, FlushRow};
use tally_core::counter::history::Resolution;
use tally_core::counter::merge::CellTotals;
use tally_core::order::put_in_order;
use tally_wire::messages::{CellPart, CellRepaired, Fault, RepairCell, TotalsFrom};
use tally_wire::names::CellAddress;

impl DamagedRow {
    fn is(&self, kind: Kind) -> bool {
        i32::from(self.kind) == kind.number()
    }

    /// The part of a cell that this kind of row belongs to.
    fn part(&self) -> CellPart {
        match self.kind {
            0 | 19 => CellPart::Address,
            1 => CellPart::Totals,
            3 | 20 => CellPart::Minutes,
            4 => CellPart::Hours,
            5 => CellPart::Days,
            7 | 8 => CellPart::Shards,
            9 | LEDGER => CellPart::Keys,
            10 | 11 => CellPart::Samples,
            14..=18 => CellPart::Breakdowns,
            _ => CellPart::Uniques,
        }
    }
}

impl CellCore {
    /// Reports the damage of this cell, and repairs it. A lead with smaller counts than it has pushed to its root has
    /// lost a part of its rows.
    ///
    /// # Errors
    /// `Unavailable` where storage refuses; `Unreadable` for rows of a newer build.
    pub(super) async fn on_repair(
        self: &Rc<Self>,
        message: Result<RepairCell, Fault>,
    ) -> Result<CellRepaired, Fault> {
        let message = message?;
        let mut rows = self.rows.damaged()?;
        if rows.is_empty() {
            if self.is_behind(&message) && self.lead_role() == LeadRole::Unknown {
                // The lead may be at another place of its datacenter.
                self.locate(LeadName::of(&message.to)).await?;
                rows = self.rows.damaged()?;
            }
            self.lead.is_not_away()?;
        }
        let is_behind = rows.is_empty() && self.is_behind(&message);
        let mut damaged: Vec<CellPart> = rows.iter().map(DamagedRow::part).collect();
        damaged.extend(is_behind.then_some(CellPart::Totals));
        put_in_order(&mut damaged, Ord::cmp);
        damaged.dedup();
        // Memory that was read before the damage is complete.
        let is_known = self.loaded().is_ok() && self.state.borrow().generation().is_some();
        let in_memory = is_known && !is_behind;
        let totals_from = match message.remembered.totals {
            _ if !damaged.contains(&CellPart::Totals) => TotalsFrom::Kept,
            _ if in_memory => TotalsFrom::Memory,
            Some(_) => TotalsFrom::Remembered,
            None => TotalsFrom::Nothing,
        };
        let repaired = CellRepaired {
            damaged,
            totals_from,
            counted: is_known.then(|| self.state.borrow().totals()).flatten(),
        };
        if message.is_dry || repaired.damaged.is_empty() {
            return Ok(repaired);
        }
        let now_ms = self.host.now_ms();
        let put_back = {
            let state = self.state.borrow();
            let known = in_memory.then_some(&*state);
            self.rows.put_back(&message, &rows, known, now_ms)
        };
        self.written(put_back)?;
        self.reload();
        self.loaded()?;
        self.record_change(now_ms);
        Ok(repaired)
    }

    /// Whether this is a lead with smaller counts than are remembered of it.
    fn is_behind(&self, message: &RepairCell) -> bool {
        let order = |totals: &CellTotals| (totals.generation, totals.sequence);
        let remembered = message.remembered.totals.as_ref();
        let own = self.state.borrow().totals();
        message.to.is_lead()
            && self.loaded().is_ok()
            && remembered
                .is_some_and(|remembered| own.is_none_or(|own| order(&own) < order(remembered)))
    }
}

impl CellStore {
    /// The rows that do not match their checksums.
    fn damaged(&self) -> Result<Vec<DamagedRow>, Fault> {
        match &self.rows {
            CellRows::Own(own) => own.damaged(),
            CellRows::Hosted(hosted) => hosted.damaged(),
        }
    }

    /// Drops rows, and writes their known contents: from memory, if it is complete (`known`), or from other objects.
    fn put_back(
        &self,
        message: &RepairCell,
        rows: &[DamagedRow],
        known: Option<&CellState>,
        now_ms: i64,
    ) -> Result<(), Fault> {
        self.rows.atomically(|| {
            for row in rows {
                match &self.rows {
                    CellRows::Own(own) => own.drop_damaged(row)?,
                    CellRows::Hosted(hosted) => hosted.drop_damaged(row)?,
                }
            }
            if rows.iter().any(|row| row.part() == CellPart::Address) {
                self.write_address(&message.to)?;
            }
            if let Some(cell) = known {
                return self.put_back_known(cell, rows);
            }
            // A lead that has lost rows without damage has none of these.
            if !rows.is_empty() && !rows.iter().any(|row| row.is(Kind::Hot)) {
                return Ok(());
            }
            let hot = self.remembered(message, now_ms)?;
            self.write_address(&message.to)?;
            self.put(Kind::Hot, 0, &hot)
        })
    }

    /// Writes these rows from the memory of a cell.
    fn put_back_known(&self, cell: &CellState, rows: &[DamagedRow]) -> Result<(), Fault> {
        for row in rows {
            for step in Resolution::PAGED {
                if row.is(Kind::of_page(step)) {
                    let page = cell.page_row(step, row.start);
                    self.put(Kind::of_page(step), row.start, &page)?;
                }
            }
            if row.is(Kind::AllTime) {
                self.put_bytes(Kind::AllTime, 0, cell.all_time_row())?;
            }
            if row.is(Kind::Hot) {
                self.put(Kind::Hot, 0, &cell.hot_row())?;
            }
        }
        Ok(())
    }

    /// The hot row, from what other objects remember and from the remaining rows. Minutes of unique elements that the
    /// lost row listed as open are joined into those of all time: joining a set twice changes nothing.
    fn remembered(&self, message: &RepairCell, now_ms: i64) -> Result<FlushRow, Fault> {
        let RepairCell { to, remembered, .. } = message;
        let mut all_time = self.uniques(Kind::AllTime, 0)?;
        let mut open_hour = None;
        for (minute, _) in self.all(Kind::MinuteUniques)? {
            all_time.merge(&self.uniques(Kind::MinuteUniques, minute)?);
            open_hour.get_or_insert(Resolution::Hour.start_of(minute));
        }
        if !all_time.is_empty() {
            self.put_bytes(Kind::AllTime, 0, all_time.to_bytes())?;
        }
        let mut begins = [None; 3];
        for (begin, step) in begins.iter_mut().zip(Resolution::PAGED) {
            for (page, _) in self.all(Kind::of_page(step))? {
                let buckets: Option<Vec<(i64, u128)>> = self.get(Kind::of_page(step), page)?;
                let first = buckets.and_then(|buckets| buckets.first().map(|(start, _)| *start));
                *begin = first.into_iter().chain(*begin).min();
            }
        }
        let of = CellRecovery {
            grant: remembered.grant,
            totals: remembered.totals.unwrap_or(CellTotals {
                generation: remembered.grant.generation,
                sequence: 0,
                added: Default::default(),
                removed: Default::default(),
            }),
            facts: remembered.facts,
            shards: remembered.shards,
        };
        let now = now_ms.div_euclid(1_000);
        let is_lead = CellAddress::is_lead(to);
        Ok(FlushRow::remembered(&of, is_lead, begins, open_hour, now))
    }
}
