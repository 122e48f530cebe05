//! The deployment's own secrets, all at one partition of the directory: the keys of hashes, and the salts of visitors.
//!
//! Invariant: a salt is deleted in time, by the alarm or by the next call for secrets, whichever is first. It is
//! overwritten before, because SQLite leaves deleted data in place until the space is reused.

use crate::directory::values::DeploymentValues;
use crate::kit::store::Store;
use tally_core::sketch::HashKey;
use tally_host::Host;
use tally_wire::messages::{Fault, GetSecrets, RotateKey, Secrets};
use tally_wire::visitor::{Salt, forgotten_ms, may_make};

/// The key of names, and of elements until the first rotation.
const FIRST_KEY: &str = "hash-key";

/// The key of elements since.
const ELEMENT_KEY: &str = "element-key";

/// The prefix of the names of salts. The day follows, with as many digits as suffice until the year 29,000, so that
/// names are in the order of days.
const SALT_PREFIX: &str = "salt/";

/// The first text after all with the prefix [`SALT_PREFIX`].
const SALT_END: &str = "salt0";

fn random_bytes(host: &Host) -> Result<Vec<u8>, Fault> {
    Ok(host.secret::<16>()?.to_vec())
}

fn sixteen(bytes: Vec<u8>) -> Result<[u8; 16], Fault> {
    bytes
        .try_into()
        .map_err(|_| Fault::Broken("a stored secret does not have 16 bytes".to_owned()))
}

fn salt_name(day: i64) -> String {
    let digits = day.to_string();
    let zeros = "0000000".get(digits.len()..).unwrap_or_default();
    [SALT_PREFIX, zeros, &digits].concat()
}

fn day_of_name(name: &str) -> Option<i64> {
    name.strip_prefix(SALT_PREFIX)?.parse().ok()
}

/// The secrets of the deployment.
pub(crate) struct SecretStore {
    host: Host,
    values: DeploymentValues,
}

impl SecretStore {
    /// The secrets in an object's database.
    pub(crate) fn new(host: &Host, store: &Store) -> Self {
        Self {
            host: host.clone(),
            values: DeploymentValues::new(store),
        }
    }

    /// All of them, with the salt of a day, which is created if needed. The flag says whether one was created: it must
    /// be deleted in time.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses or the platform has no randomness, `Broken` where one cannot be read; as for
    /// all methods below.
    pub(crate) fn get(&self, get: &GetSecrets) -> Result<(Secrets, bool), Fault> {
        let now_ms = self.host.now_ms();
        self.delete_old(now_ms)?;
        let mut is_made = false;
        if let Some(day) = get.day.filter(|day| may_make(*day, now_ms)) {
            self.values.get_or_make(&salt_name(day), || {
                is_made = true;
                random_bytes(&self.host)
            })?;
        }
        Ok((self.secrets()?, is_made))
    }

    /// Replaces the key of elements, unless it has changed since the caller read it.
    pub(crate) fn rotate_key(&self, rotate: &RotateKey) -> Result<Secrets, Fault> {
        let secrets = self.secrets()?;
        if HashKey::from(secrets.elements).id() == rotate.from {
            self.values.put(ELEMENT_KEY, random_bytes(&self.host)?)?;
        }
        self.secrets()
    }

    fn secrets(&self) -> Result<Secrets, Fault> {
        let make = || random_bytes(&self.host);
        let names = sixteen(self.values.get_or_make(FIRST_KEY, make)?)?;
        let elements = match self.values.get(ELEMENT_KEY)? {
            Some(key) => sixteen(key)?,
            None => names,
        };
        let mut salts = Vec::new();
        for (name, body) in self.values.between(SALT_PREFIX, SALT_END)? {
            if let Some(day) = day_of_name(&name) {
                salts.push((day, Salt::from(sixteen(body)?)));
            }
        }
        Ok(Secrets {
            names,
            elements,
            salts,
        })
    }

    /// Deletes the salts of past days.
    pub(crate) fn delete_old(&self, now_ms: i64) -> Result<(), Fault> {
        while let Some(day) = self
            .oldest_salt()?
            .filter(|day| forgotten_ms(*day) <= now_ms)
        {
            let name = salt_name(day);
            self.values.put(&name, vec![0; 16])?;
            self.values.remove(&name)?;
        }
        Ok(())
    }

    /// When the oldest salt must be deleted, unix milliseconds.
    pub(crate) fn next_due_ms(&self) -> Result<Option<i64>, Fault> {
        Ok(self.oldest_salt()?.map(forgotten_ms))
    }

    fn oldest_salt(&self) -> Result<Option<i64>, Fault> {
        let name = self.values.first_between(SALT_PREFIX, SALT_END)?;
        Ok(name.as_deref().and_then(day_of_name))
    }
}
