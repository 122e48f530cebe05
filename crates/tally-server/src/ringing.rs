//! Rings the alarms of objects.

use std::rc::Rc;
use std::time::Duration;

use tracing::{error, warn};

use super::alarm::RETRY_MS;
use super::clock::Turns;
use super::place::{Home, Place};

fn ring(place: &Rc<Place>) {
    if !place.alarm.is_due() {
        return;
    }
    let Some(shell) = place.incarnation().shell() else {
        return;
    };
    let known = place.clone();
    let ringing = place.alarm.begin();
    place.spawn(async move {
        let rung = shell.alarm().await;
        if let Err(fault) = &rung {
            error!("the alarm of {} failed: {fault}", known.label());
        }
        if known.alarm.end(rung.is_err(), known.ground.clock.now_ms()) {
            known.database.touch();
            known.plan_commit();
        }
        drop(ringing);
    });
}

/// Rings alarms as they are due, as long as the node lives; at most `ringing_max` at a time.
pub(crate) fn run(home: Rc<dyn Home>, ringing_max: usize) {
    let ground = home.ground().clone();
    let clock = ground.clock.clone();
    let work = async move {
        loop {
            while let Some(key) = ground.alarms.pop(ground.clock.now_ms(), ringing_max) {
                match home.clone().place(&key) {
                    Ok(place) => ring(&place),
                    Err(why) => {
                        let again = ground.clock.now_ms().saturating_add(RETRY_MS);
                        warn!("the alarm of {:?} waits: {why}", key.name);
                        ground.alarms.replace(&key, None, Some(again));
                        break;
                    }
                }
            }
            let wait_ms = ground.alarms.wait_ms(ground.clock.now_ms());
            let sleep = tokio::time::sleep(Duration::from_millis(wait_ms));
            let sooner = std::pin::pin!(ground.alarms.is_sooner());
            futures_util::future::select(std::pin::pin!(sleep), sooner).await;
        }
    };
    tokio::task::spawn_local(Turns::new(&clock, work));
}
