//! Clients that read.

use tally_simulation::ClientRequest;

use super::laws::View;
use super::service::{AskResult, Reader, Service, id};

impl Service {
    /// Reads a counter. Returns what was seen, with its version; None where no value was answered.
    pub async fn read(&self, site: usize, counter: usize, query: &str, reader: &Reader) -> Reader {
        let begun = self.now();
        let mut path = format!("/counters/{}?numbers=string{query}", id(counter));
        if let Some((version, _)) = reader {
            path.push_str(&format!("&at_least={version}"));
        }
        let what = format!("read of {} ({query})", path);
        let result = self.ask(site, ClientRequest::new("GET", path), &what).await;
        let held = reader.as_ref().map(|(_, held)| held);
        match result {
            AskResult::Done(answer) => {
                let seen = self.check(counter, &answer, begun, held, &what);
                let version = answer.json()["version"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned();
                Some((version, seen))
            }
            AskResult::Refused(code) if code == "counter-not-found" => {
                let view = View {
                    value: 0,
                    is_exact: query.contains("strong"),
                    as_of_ms: None,
                    begun,
                    ended: self.now(),
                    held,
                    what: &what,
                };
                self.counters[counter].borrow_mut().check(&view);
                None
            }
            AskResult::Refused(code) if code == "overloaded" => None,
            AskResult::Refused(code) => panic!("{what}: {code}"),
            AskResult::Unknown(_) => None,
        }
    }
}
