//! The secrets that the deployment keeps for itself, all at one partition of the directory: the keys of hashes, and the
//! salts of visitors.
//!
//! Invariant: a salt is deleted when its time has come, by the alarm or by the next that asks for secrets, whichever is
//! first; and overwritten before, as SQLite leaves what is deleted where it was until the place is used again.

use super::directory::Directory;
use super::directory_store::DirectoryStore;
use super::store::{blob, text};
use crate::core::sketch::HashKey;
use crate::host::Host;
use crate::protocol::messages::{Fault, GetSecrets, RotateKey, Secrets};
use crate::protocol::visitor::{Salt, forgotten_ms, may_make};

/// The key of names, and of elements until the first rotation.
const FIRST_KEY: &str = "hash-key";

/// The key of elements since.
const ELEMENT_KEY: &str = "element-key";

/// What the names of salts begin with. The day follows, in as many digits as reach to the year 29,000: so names are in
/// the order of days.
const SALT_PREFIX: &str = "salt/";

/// The first text after all that begin with [`SALT_PREFIX`].
const SALT_END: &str = "salt0";

fn random_bytes(host: &Host) -> Vec<u8> {
    [host.random().to_le_bytes(), host.random().to_le_bytes()].concat()
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

impl Directory {
    pub(super) async fn on_secrets(
        &self,
        get: Result<GetSecrets, Fault>,
    ) -> Result<Secrets, Fault> {
        let GetSecrets { day } = get?;
        self.readable()?;
        let now_ms = self.host.now_ms();
        self.rows.delete_salts(now_ms)?;
        if let Some(day) = day.filter(|day| may_make(*day, now_ms))
            && self.rows.deployment_body(&salt_name(day))?.is_none()
        {
            self.rows
                .deployment_value(&salt_name(day), || random_bytes(&self.host))?;
            self.rows.arm(now_ms).await?;
        }
        self.rows.secrets(&self.host)
    }

    pub(super) fn on_rotate_key(&self, rotate: Result<RotateKey, Fault>) -> Result<Secrets, Fault> {
        let RotateKey { from } = rotate?;
        self.readable()?;
        let secrets = self.rows.secrets(&self.host)?;
        if HashKey::from(secrets.elements).id() == from {
            self.rows
                .put_deployment_value(ELEMENT_KEY, random_bytes(&self.host))?;
        }
        self.rows.secrets(&self.host)
    }
}

impl DirectoryStore {
    fn secrets(&self, host: &Host) -> Result<Secrets, Fault> {
        let names = sixteen(self.deployment_value(FIRST_KEY, || random_bytes(host))?)?;
        let elements = match self.deployment_body(ELEMENT_KEY)? {
            Some(key) => sixteen(key)?,
            None => names,
        };
        let rows = self.store().run(
            "SELECT name, body FROM deployment WHERE name >= ? AND name < ? ORDER BY name",
            vec![SALT_PREFIX.into(), SALT_END.into()],
        )?;
        let mut salts = Vec::new();
        for row in &rows {
            let day = row.first().and_then(text).and_then(day_of_name);
            let body = row.get(1).and_then(blob);
            if let (Some(day), Some(body)) = (day, body) {
                salts.push((day, Salt::from(sixteen(body.to_vec())?)));
            }
        }
        Ok(Secrets {
            names,
            elements,
            salts,
        })
    }

    /// Deletes the salts whose time has come.
    pub(super) fn delete_salts(&self, now_ms: i64) -> Result<(), Fault> {
        while let Some(day) = self
            .oldest_salt()?
            .filter(|day| forgotten_ms(*day) <= now_ms)
        {
            let name = salt_name(day);
            self.put_deployment_value(&name, vec![0; 16])?;
            self.store()
                .run("DELETE FROM deployment WHERE name = ?", vec![name.into()])?;
        }
        Ok(())
    }

    /// When the oldest salt must be gone, unix milliseconds.
    pub(super) fn salts_due_ms(&self) -> Result<Option<i64>, Fault> {
        Ok(self.oldest_salt()?.map(forgotten_ms))
    }

    fn oldest_salt(&self) -> Result<Option<i64>, Fault> {
        let rows = self.store().run(
            "SELECT MIN(name) FROM deployment WHERE name >= ? AND name < ?",
            vec![SALT_PREFIX.into(), SALT_END.into()],
        )?;
        let name = rows.first().and_then(|row| row.first()).and_then(text);
        Ok(name.and_then(day_of_name))
    }
}
