//! A platform that answers messages as a test says, and notes them.

use std::cell::{Cell, RefCell};
use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tally_host::{File, Host, Later, Level, Memory, Platform, Stream, Target};
use tally_wire::alerts::Outgoing;
use tally_wire::messages::batch::{BYTES_MAX, CALLS_MAX};
use tally_wire::messages::{Batch, Call, decode};
use tally_wire::names::Placement;

/// What becomes of a message: what it is answered, or nothing for ever.
pub type Answers = Box<dyn Fn(&Target, &str, &[u8]) -> Option<Result<Vec<u8>, String>>>;

/// What a message was: to whom, which, and of how many calls.
pub type SentMessage = (String, String, usize);

/// A platform whose timers ring once nothing else can happen.
pub struct Fake {
    tablets: Option<&'static str>,
    pub now_ms: Cell<i64>,
    pub sent: RefCell<Vec<SentMessage>>,
    pub under_way: Cell<usize>,
    pub most: Cell<usize>,
    answers: Answers,
}

/// Ends once everything else had its turn.
async fn after_others() {
    let mut turns = 3;
    poll_fn(|context| {
        turns -= 1;
        context.waker().wake_by_ref();
        if turns == 0 {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

struct Messages(Rc<Fake>);

impl Platform for Messages {
    fn now_ms(&self) -> i64 {
        self.0.now_ms.get()
    }

    fn random(&self) -> u64 {
        4
    }

    fn fill_secret(&self, _secret: &mut [u8]) -> Result<(), String> {
        Err("nothing here makes secrets".to_owned())
    }

    fn sleep(&self, milliseconds: u64) -> Later<()> {
        let fake = self.0.clone();
        let until_ms = fake.now_ms.get() + i64::try_from(milliseconds).expect("small");
        Box::pin(async move {
            // Long after what answers at once.
            for _ in 0..4 {
                after_others().await;
            }
            fake.now_ms.set(fake.now_ms.get().max(until_ms));
        })
    }

    fn setting(&self, name: &str) -> Option<String> {
        (name == "TALLY_TABLETS").then_some(self.0.tablets?.to_owned())
    }

    fn send(
        &self,
        to: Target,
        _protocol: u8,
        path: &'static str,
        message: Vec<u8>,
    ) -> Later<Result<Vec<u8>, String>> {
        let fake = self.0.clone();
        let name = match &to {
            Target::Object(Placement { name, .. }) => name.clone(),
            Target::Aggregator => "aggregator".to_owned(),
        };
        let calls = match path == Batch::PATH {
            true => decode::<Batch>(&message).expect("a batch").calls.len(),
            false => 1,
        };
        assert!(calls <= CALLS_MAX);
        assert!(
            message.len() <= BYTES_MAX + 100 || calls == 1,
            "{}",
            message.len()
        );
        fake.sent.borrow_mut().push((name, path.to_owned(), calls));
        Box::pin(async move {
            fake.under_way.set(fake.under_way.get() + 1);
            fake.most.set(fake.most.get().max(fake.under_way.get()));
            after_others().await;
            let answer = (fake.answers)(&to, path, &message);
            fake.under_way.set(fake.under_way.get() - 1);
            match answer {
                Some(answer) => answer,
                None => pending().await,
            }
        })
    }

    fn post(&self, _: Outgoing) -> Later<Result<u16, String>> {
        unimplemented!()
    }

    fn open(
        &self,
        _: Placement,
        _: u8,
        _: &'static str,
        _: Vec<u8>,
        _: Option<String>,
    ) -> Later<Result<Stream, String>> {
        unreachable!("nobody opens streams here")
    }

    fn has_queue(&self) -> bool {
        false
    }

    fn enqueue(&self, _: Rc<[Vec<u8>]>) -> Later<Result<(), String>> {
        unreachable!("there is no queue")
    }

    fn file(&self, _: &str) -> Result<Option<File>, String> {
        Ok(None)
    }

    fn files(&self) -> Option<Rc<dyn tally_host::Files>> {
        None
    }

    fn log(&self, _: Level, _: &str) {}
}

/// A host over such a platform, and what it was asked.
pub fn fake(tablets: Option<&'static str>, answers: Answers) -> (Rc<Fake>, Host) {
    let fake = Rc::new(Fake {
        tablets,
        now_ms: Cell::new(1_000),
        sent: RefCell::default(),
        under_way: Cell::default(),
        most: Cell::default(),
        answers,
    });
    let host = Host::new(Rc::new(Messages(fake.clone())), Rc::new(Memory::default()));
    (fake, host)
}

/// Runs a future that nothing else wakes.
///
/// # Panics
/// Where it never ends.
pub fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    for _ in 0..100_000 {
        if let Poll::Ready(done) = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            return done;
        }
    }
    panic!("it never ends");
}
