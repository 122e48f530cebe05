//! Tasks, timers and virtual time, on one thread.
//!
//! Invariant: computing takes no time. Time moves only when no task can run, to the next timer; among the tasks that
//! can run, chance picks the next one. So a run is decided by its seed. Every task belongs to an [`Owner`], and ends
//! where its owner does.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

use tally_host::Later;

use crate::chance::Chance;
use crate::timers::{Sleep, TimerState, Timers};

/// The owner of tasks: one incarnation of an isolate or of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(u64);

/// Which request of an isolate a task works for. Those of one request may wake each other; 0 may be woken by all.
pub type RequestId = u64;

/// The slot of the task that [`Executor::main`] wakes.
const MAIN: usize = usize::MAX;

/// The tasks that can run, and the requests that wake each other.
#[derive(Default)]
struct Ready {
    queue: Mutex<Vec<(usize, u64)>>,
    /// The request of the task that runs.
    running: AtomicU64,
    /// How often a task was woken by one of another request.
    crossed: AtomicU64,
}

struct Wakeup {
    slot: usize,
    number: u64,
    request: RequestId,
    is_ready: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let running = self.ready.running.load(Ordering::Relaxed);
        if self.request != 0 && running != 0 && running != self.request {
            self.ready.crossed.fetch_add(1, Ordering::Relaxed);
        }
        if !self.is_ready.swap(true, Ordering::Relaxed) {
            let queue = self.ready.queue.lock();
            let mut queue = queue.unwrap_or_else(PoisonError::into_inner);
            queue.push((self.slot, self.number));
        }
    }
}

struct Task {
    number: u64,
    owner: Owner,
    wakeup: Arc<Wakeup>,
    waker: Waker,
    /// `None` while it runs.
    future: Option<Later<()>>,
}

/// What one step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The main task may run.
    Main,
    /// A task ran; whether it has ended.
    Ran(Owner, bool),
    /// Timers rang.
    Rang,
    /// Nothing can happen any more.
    Nothing,
}

/// Tasks, timers and virtual time.
#[derive(Default)]
pub struct Executor {
    now_us: Cell<u64>,
    steps: Cell<u64>,
    numbers: Cell<u64>,
    ready: Arc<Ready>,
    tasks: RefCell<Vec<Option<Task>>>,
    free: RefCell<Vec<usize>>,
    timers: Timers,
    main: RefCell<Option<Arc<Wakeup>>>,
}

impl Executor {
    fn number(&self) -> u64 {
        self.numbers.set(self.numbers.get() + 1);
        self.numbers.get()
    }

    /// Microseconds since the world began.
    pub fn now_us(&self) -> u64 {
        self.now_us.get()
    }

    /// Time passes, and nothing happens meanwhile: what was due is late.
    pub fn skip(&self, microseconds: u64) {
        self.now_us.set(self.now_us.get() + microseconds);
    }

    /// How many steps were made.
    pub fn steps(&self) -> u64 {
        self.steps.get()
    }

    /// How often a task was woken by a task of another request of an isolate. Workers would resume it in the wrong
    /// context.
    pub fn crossed(&self) -> u64 {
        self.ready.crossed.load(Ordering::Relaxed)
    }

    /// A new owner of tasks.
    pub fn owner(&self) -> Owner {
        Owner(self.number())
    }

    /// A new request.
    pub fn request(&self) -> RequestId {
        self.number()
    }

    fn wakeup(&self, slot: usize, number: u64, request: RequestId) -> Arc<Wakeup> {
        Arc::new(Wakeup {
            slot,
            number,
            request,
            is_ready: AtomicBool::new(false),
            ready: self.ready.clone(),
        })
    }

    /// Begins a task. It runs first at one of the next steps. Returns its number.
    pub fn spawn(&self, owner: Owner, request: RequestId, future: Later<()>) -> u64 {
        let number = self.number();
        let mut tasks = self.tasks.borrow_mut();
        let slot = self.free.borrow_mut().pop().unwrap_or(tasks.len());
        if slot == tasks.len() {
            tasks.push(None);
        }
        let wakeup = self.wakeup(slot, number, request);
        tasks[slot] = Some(Task {
            number,
            owner,
            waker: wakeup.clone().into(),
            wakeup: wakeup.clone(),
            future: Some(future),
        });
        drop(tasks);
        let running = self.ready.running.swap(0, Ordering::Relaxed);
        wakeup.wake();
        self.ready.running.store(running, Ordering::Relaxed);
        number
    }

    /// Takes away all tasks that meet a condition: whoever asks drops them, since that may run code.
    fn take(&self, is_meant: impl Fn(&Task) -> bool) -> Vec<Later<()>> {
        let mut taken = Vec::new();
        for (slot, task) in self.tasks.borrow_mut().iter_mut().enumerate() {
            if task.as_ref().is_some_and(&is_meant) {
                let task = task.take().expect("it was there");
                self.free.borrow_mut().push(slot);
                taken.extend(task.future);
            }
        }
        taken
    }

    /// Takes away all tasks of an owner. One of them that runs just now ends after its step.
    pub fn take_tasks(&self, owner: Owner) -> Vec<Later<()>> {
        self.take(|task| task.owner == owner)
    }

    /// Takes one task away.
    pub fn take_task(&self, number: u64) -> Vec<Later<()>> {
        self.take(|task| task.number == number)
    }

    /// Whether an owner has tasks.
    pub fn has_tasks(&self, owner: Owner) -> bool {
        let tasks = self.tasks.borrow();
        tasks.iter().flatten().any(|task| task.owner == owner)
    }

    /// Runs something at a time.
    pub fn at(&self, at_us: u64, action: Box<dyn FnOnce()>) {
        self.timers.at(at_us, action);
    }

    /// Waits, from when it is polled first. The timer wakes whoever polled it last.
    pub fn sleep(self: &Rc<Self>, microseconds: u64) -> Sleep {
        Sleep::new(self, microseconds)
    }

    /// Begins a timer that fires after a time.
    pub(crate) fn begin_timer(&self, microseconds: u64, timer: Rc<TimerState>) {
        self.timers
            .wake(self.now_us().saturating_add(microseconds), timer);
    }

    /// A waker for the main task, which is ready at once.
    pub fn main(&self) -> Waker {
        let wakeup = self.wakeup(MAIN, self.number(), 0);
        wakeup.wake_by_ref();
        *self.main.borrow_mut() = Some(wakeup.clone());
        wakeup.into()
    }

    /// Runs one step: one task runs, or, if none can, time moves on.
    pub fn step(&self, chance: &Chance) -> Step {
        self.steps.set(self.steps.get() + 1);
        let queue = self.ready.queue.lock();
        let mut queue = queue.unwrap_or_else(PoisonError::into_inner);
        if queue.is_empty() {
            drop(queue);
            return self.ring();
        }
        let next = chance.pick(queue.len());
        let (slot, number) = queue.swap_remove(next);
        drop(queue);
        if slot == MAIN {
            let main = self.main.borrow();
            let Some(main) = main.as_ref().filter(|main| main.number == number) else {
                return Step::Rang;
            };
            main.is_ready.store(false, Ordering::Relaxed);
            return Step::Main;
        }
        self.poll(slot, number)
    }

    fn poll(&self, slot: usize, number: u64) -> Step {
        let mut tasks = self.tasks.borrow_mut();
        let found = tasks.get_mut(slot).and_then(Option::as_mut);
        let Some(task) = found.filter(|task| task.number == number) else {
            return Step::Rang;
        };
        let Some(mut future) = task.future.take() else {
            return Step::Rang;
        };
        let (owner, waker) = (task.owner, task.waker.clone());
        task.wakeup.is_ready.store(false, Ordering::Relaxed);
        let request = task.wakeup.request;
        drop(tasks);
        self.ready.running.store(request, Ordering::Relaxed);
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        self.ready.running.store(0, Ordering::Relaxed);
        let mut tasks = self.tasks.borrow_mut();
        let place = tasks.get_mut(slot);
        // The place belongs to another task if the owner has ended.
        let place = place.filter(|task| task.as_ref().is_some_and(|task| task.number == number));
        let has_ended = polled.is_ready();
        if let Some(place) = place {
            if has_ended {
                *place = None;
                self.free.borrow_mut().push(slot);
            } else if let Some(task) = place {
                task.future = Some(future);
                return Step::Ran(owner, false);
            }
        }
        drop(tasks);
        drop(future);
        Step::Ran(owner, true)
    }

    /// Moves time to the next timer that somebody waits for, and fires all of that time.
    fn ring(&self) -> Step {
        let Some(first) = self.timers.pop(u64::MAX) else {
            return Step::Nothing;
        };
        self.now_us.set(self.now_us.get().max(first.at_us()));
        first.fire();
        while let Some(timer) = self.timers.pop(self.now_us.get()) {
            timer.fire();
        }
        Step::Rang
    }

    /// Drops all tasks and timers.
    pub fn clear(&self) {
        drop(self.take(|_| true));
        self.timers.clear();
    }
}
