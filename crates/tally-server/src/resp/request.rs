//! Who sends commands over a connection, as the edge sees a request. Its commands are no body.

use std::net::SocketAddr;

use tally_host::Later;
use tally_host::http::{Pieces, Request};

/// The address that the commands are sent to. A server without keys answers only requests to this machine's names, and
/// listens for commands on loopback alone.
const URL: &str = "http://127.0.0.1/redis";

/// The client of a connection.
pub(crate) struct ConnectionRequest {
    peer: SocketAddr,
    authorization: Option<String>,
}

impl ConnectionRequest {
    /// The client at an address, with the key of its connection.
    pub(crate) fn new(peer: SocketAddr, key: Option<String>) -> Self {
        let authorization = key.map(|key| ["Bearer ", &key].concat());
        Self {
            peer,
            authorization,
        }
    }
}

impl Request for ConnectionRequest {
    fn text(&self) -> &str {
        ""
    }

    fn method(&self) -> &str {
        "POST"
    }

    fn url(&self) -> &str {
        URL
    }

    fn header(&self, name: &str) -> Option<String> {
        match name {
            "authorization" => self.authorization.clone(),
            _ => None,
        }
    }

    fn colo(&self) -> Option<String> {
        None
    }

    fn country(&self) -> Option<String> {
        None
    }

    fn client_address(&self) -> Option<String> {
        Some(self.peer.ip().to_canonical().to_string())
    }

    fn has_body(&self) -> bool {
        false
    }

    fn whole(&self) -> Later<Result<Vec<u8>, String>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn pieces(&self, _bytes: u32) -> Option<Box<dyn Pieces>> {
        None
    }
}
