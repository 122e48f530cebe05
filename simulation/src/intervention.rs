//! How a test decides the outcome of single calls.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;

use tally_host::Later;

use crate::calls::WayBack;
use crate::core::Core;

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is carried out and answered.
    Answered,
    /// It fails, and nobody has seen it.
    Unreached,
    /// It is carried out, and its answer is lost.
    AnswerLost,
    /// It is never answered, and nobody has seen it.
    Unanswered,
    /// It is carried out, and no socket that it accepts can keep anything.
    Unkept,
}

/// A call that is about to be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingCall {
    /// The binding of the object that is called; `AGGREGATOR`, and `QUEUE` for a batch.
    pub binding: &'static str,
    /// The object's name.
    pub name: String,
    /// Names the call.
    pub path: String,
}

impl PendingCall {
    fn new(binding: &'static str, name: &str, path: &str) -> Self {
        Self {
            binding,
            name: name.to_owned(),
            path: path.to_owned(),
        }
    }
}

/// Decides the outcome of calls.
pub(crate) type Judge = Rc<dyn Fn(PendingCall) -> Later<Verdict>>;

/// Decides when answers of calls go on their way.
pub(crate) type AnswerJudge = Rc<dyn Fn(PendingCall) -> Later<()>>;

/// The functions that decide the outcome of calls, if a test has set any.
#[derive(Default)]
pub(crate) struct Intervention {
    judge: RefCell<Option<Judge>>,
    answer_judge: RefCell<Option<AnswerJudge>>,
    /// Calls that are never answered.
    unanswered: RefCell<Vec<WayBack>>,
    /// See [`Verdict::Unkept`].
    pub(crate) keeps_nothing: Cell<bool>,
}

impl Intervention {
    pub(crate) fn set(&self, judge: Judge) {
        *self.judge.borrow_mut() = Some(judge);
    }

    pub(crate) fn set_answer_judge(&self, judge: AnswerJudge) {
        *self.answer_judge.borrow_mut() = Some(judge);
    }

    /// The outcome of a call; `None` if no test decides it.
    pub(crate) fn verdict(
        &self,
        binding: &'static str,
        name: &str,
        path: &str,
    ) -> Option<Later<Verdict>> {
        let judge = self.judge.borrow().clone()?;
        Some(judge(PendingCall::new(binding, name, path)))
    }

    /// When the answer of a call goes on its way; `None` for at once.
    pub(crate) fn hold_answer(
        &self,
        binding: &'static str,
        name: &str,
        path: &str,
    ) -> Option<Later<()>> {
        let judge = self.answer_judge.borrow().clone()?;
        Some(judge(PendingCall::new(binding, name, path)))
    }

    /// Keeps the way back of a call, so that its caller does not hear of it.
    pub(crate) fn leave_unanswered(&self, way_back: WayBack) {
        self.unanswered.borrow_mut().push(way_back);
    }

    pub(crate) fn clear(&self) {
        drop(self.judge.take());
        drop(self.answer_judge.take());
        drop(self.unanswered.take());
    }
}

/// Carries a call out as it was judged: its reply, or why there is none.
pub(crate) async fn judged<T, F: Future<Output = T>>(
    core: &Core,
    verdict: Verdict,
    carry_out: impl FnOnce() -> F,
) -> Result<T, Verdict> {
    if matches!(verdict, Verdict::Unreached | Verdict::Unanswered) {
        return Err(verdict);
    }
    let keeps_nothing = &core.intervention.keeps_nothing;
    keeps_nothing.set(verdict == Verdict::Unkept);
    let reply = carry_out().await;
    keeps_nothing.set(false);
    match verdict {
        Verdict::AnswerLost => Err(verdict),
        _ => Ok(reply),
    }
}
