//! Leads of one counter, and what carries messages between them.

use super::*;

/// Leads of one counter, of which home alone counts, and a network that loses calls and answers.
pub struct Leads {
    pub shells: RefCell<Vec<Shell>>,
    pub home: Cell<usize>,
    /// Of each call: whether it is lost, and whether its answer is.
    pub losses: RefCell<Vec<(bool, bool)>>,
    pub counted: RefCell<BTreeSet<WriteKey>>,
    /// What was sent: it may come once more, at any time.
    pub copies: RefCell<Vec<Copied>>,
}

#[derive(Clone)]
pub enum Copied {
    Claim(Datacenter, Vec<WriteKey>, Option<ClaimHolder>),
    Count(Datacenter, Option<u32>, Vec<KeyedWrite>),
}

pub fn lead(number: usize) -> Datacenter {
    Datacenter::parse(&format!("D{number:02}")).expect("a name")
}

impl Leads {
    pub fn place_of(lead: &Datacenter) -> usize {
        lead.as_str()[1..].parse().expect("a number")
    }

    #[expect(
        clippy::result_large_err,
        reason = "each message of a model is answered once"
    )]
    pub fn receive(&self, message: &Copied) -> Result<ClaimAnswer, Counted> {
        let mut shells = self.shells.borrow_mut();
        let mut changes = Changes::default();
        let home = self.home.get();
        match message {
            Copied::Claim(here, keys, struck_at) => {
                let shell = &mut shells[Self::place_of(here)];
                let next = (lead(home) != *here).then(|| lead(home));
                let struck_at = struck_at.clone().map_or((None, 0), |holder| {
                    let to = (holder.datacenter != *here).then_some(holder.datacenter);
                    (to, holder.moves)
                });
                let known = |lane| shell.rows.numbers(lane);
                let places = (shell.cell).place_numbered(
                    keys,
                    &struck_at,
                    Some(&next),
                    &known,
                    &mut changes,
                );
                shell.rows.write(&shell.cell, &changes, NOW_MS / 1_000);
                let owners = places.into_iter().map(|place| {
                    let (to, moves) = place.expect("there is room");
                    let datacenter = to.unwrap_or_else(|| here.clone());
                    KeyOwner::Lead(ClaimHolder { datacenter, moves })
                });
                Ok(ClaimAnswer {
                    generation: 1,
                    owners: owners.collect(),
                })
            }
            Copied::Count(to, moves, writes) => {
                let place = Self::place_of(to);
                let shell = &mut shells[place];
                let outcomes = if place == home {
                    shell.count(writes, *moves, NOW_MS)
                } else {
                    shell.strike_all(writes, *moves, &lead(home))
                };
                for (write, outcome) in writes.iter().zip(&outcomes) {
                    if matches!(outcome, KeyedOutcome::Counted(_)) {
                        assert!(self.counted.borrow_mut().insert(write.key), "counted twice");
                    }
                }
                Err(Counted {
                    outcomes,
                    shards: 1,
                    home: None,
                    is_apart: false,
                    totals: None,
                })
            }
        }
    }

    pub fn call(&self, message: Copied) -> Result<Result<ClaimAnswer, Counted>, Fault> {
        let (is_lost, is_unanswered) = self.losses.borrow_mut().pop().unwrap_or_default();
        let lost = || Err(Fault::Unavailable("lost".to_owned()));
        self.copies.borrow_mut().push(message.clone());
        if is_lost {
            return lost();
        }
        let answer = self.receive(&message);
        if is_unanswered { lost() } else { Ok(answer) }
    }
}

impl Carrier for Leads {
    async fn claim(
        &self,
        here: &Datacenter,
        keys: Vec<WriteKey>,
        struck_at: Option<ClaimHolder>,
    ) -> Result<ClaimAnswer, Fault> {
        let answer = self.call(Copied::Claim(here.clone(), keys, struck_at))?;
        Ok(answer.expect("it answers a claim"))
    }

    async fn count(
        &self,
        lead: &Datacenter,
        moves: Option<u32>,
        writes: Vec<KeyedWrite>,
    ) -> Result<Counted, Fault> {
        let answer = self.call(Copied::Count(lead.clone(), moves, writes))?;
        Ok(answer.expect_err("it answers a count"))
    }
}

/// Runs what never waits.
pub fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("nobody waits here"),
    }
}

#[derive(Clone, Debug)]
pub enum Event {
    /// The first lead is asked to count this write, and sends it on.
    Send(usize),
    MoveHome(usize),
    /// Something that was sent comes once more.
    Copy(usize),
    Restart(usize),
}
