//! One cell in memory: its rows, its state, and what is under way.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use futures_util::lock::Mutex;

use super::activity::{Autoscaler, Commits, PushState};
use super::lead_role::LeadPlaceState;
use super::ledger::ledger_limits;
use super::memory::{self, CellUse};
use super::store::CellStore;
use crate::kit::storage_guard::StorageGuard;
use crate::tablet::tenancy::Tenancy;
use tally_core::counter::cell::CellState;
use tally_core::counter::ledgers::LedgerLimits;
use tally_core::counter::nonces::Nonce;
use tally_host::Host;
use tally_host::object::Object;
use tally_wire::messages::Fault;
use tally_wire::names::CellAddress;

/// One cell. Shard 0 is the lead of its datacenter, see [`super::lead`].
pub(crate) struct CellCore {
    pub(super) host: Host,
    pub(super) object: Object,
    /// Its tablet, if it has no object of its own.
    pub(crate) tenancy: Option<Tenancy>,
    pub(super) rows: CellStore,
    pub(super) state: RefCell<CellState>,
    pub(super) balance: RefCell<Autoscaler>,
    pub(super) address: RefCell<Option<CellAddress>>,
    pub(super) storage: StorageGuard,
    pub(super) held: CellUse,
    pub(super) lead: LeadPlaceState,
    pub(super) ledger_limits: LedgerLimits,
    /// Held during a request for a grant, so that many flushes send one.
    pub(super) granting: Mutex<()>,
    /// Held during a report, so that repeated calls send one.
    pub(super) reporting: Mutex<()>,
    /// The newest flushes that were refused, each with its answer. Their writes are counted under other nonces, or
    /// never. So a copy must not count here, whatever has changed since.
    pub(super) refused: RefCell<VecDeque<(Nonce, Fault)>>,
    pub(super) commits: RefCell<Commits>,
    pub(super) pushing: RefCell<PushState>,
    /// When the alarm rings that deletes keys of refused checks, unix milliseconds; 0 before it is set.
    pub(super) keys_due_ms: Cell<i64>,
}

impl CellCore {
    /// Starts a cell from its rows, in an object of its own or in a tablet.
    pub(crate) fn start(
        object: Object,
        host: Host,
        rows: CellStore,
        tenancy: Option<Tenancy>,
    ) -> Rc<Self> {
        let loaded = rows.load();
        let core = Self {
            balance: RefCell::new(Autoscaler::new(&host, host.now_ms())),
            ledger_limits: ledger_limits(&host),
            object,
            tenancy,
            rows,
            state: RefCell::default(),
            address: RefCell::default(),
            storage: StorageGuard::default(),
            held: CellUse::new(&host),
            lead: LeadPlaceState::default(),
            host,
            granting: Mutex::new(()),
            reporting: Mutex::new(()),
            refused: RefCell::default(),
            commits: RefCell::default(),
            pushing: RefCell::default(),
            keys_due_ms: Cell::new(0),
        };
        core.adopt(loaded);
        let core = Rc::new(core);
        let resting: Rc<dyn memory::Resting> = core.clone();
        memory::register(&resting);
        core
    }
}

impl memory::Resting for CellCore {
    fn host(&self) -> &Host {
        &self.host
    }

    fn held(&self) -> &CellUse {
        &self.held
    }

    fn state_bytes(&self) -> u64 {
        self.state.borrow().memory_bytes()
    }

    fn let_go(&self) {
        if let Some(tenancy) = &self.tenancy {
            tenancy.leave();
        }
        self.state.borrow_mut().adopt(CellState::default());
        self.pushing.borrow_mut().forget();
        let why = "the cell was let go to make room".to_owned();
        self.storage.record(Err(Fault::Unavailable(why)));
    }
}
