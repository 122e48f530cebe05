//! A file of counters, in order of their names.
//!
//! Invariant: data is read as it was written, or refused. Every build reads the files of all earlier builds.
//!
//! | bytes | hold |
//! |---|---|
//! | 0 to 5 | the frame of a stored body |
//! | 6 to 9 | length after inflation, little-endian |
//! | 10.. | DEFLATE of the columns, one after the other, each after its length as a varint |
//!
//! A column holds one property of all counters, so that similar data is adjacent and deflates well. Numbers are varints
//! of postcard; numbers that may be negative are in zigzag.
//!
//! | column | holds, for each counter |
//! |---|---|
//! | datacenters | first, once: their names, to which other columns refer by number |
//! | alike | how many bytes its name shares with the one before |
//! | lengths | how many bytes follow |
//! | names | these bytes |
//! | kinds | 0: it has ended; 1: it lives; 3: it lives, and has an entry in `rare` |
//! | created | its creation, less that of the one before |
//! | parts | how many datacenters |
//! | places | for each of those: which |
//! | totals | for each: increments, decrements |
//! | writes | for each: its newest write, less the counter's creation; 0 where none is known, others one higher |
//! | as of | the time of its state, less its newest write, or else its creation |
//! | rare | settings, home, and last set value |
//! | uniques | its unique elements: their length, and their bytes |

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::kept::{SnapshotCounter, SnapshotDatacenter};
use crate::stored;
use crate::stored::{Damage, StoredBody};
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::settings::Settings;
use tally_core::counter::total::{CellTotal, Value};
use tally_core::sketch::Uniques;

/// The most counters of a part: plain ones take some 20 bytes each, so 80 KB of file and 1 MB in memory.
pub const PART_ENTRIES_MAX: usize = 4_096;

/// A part is complete once it has this size before compression. The last counter may add 31 sketches of 12 KB: 384
/// KB.
pub const PART_BYTES_MAX: usize = 512 * 1024;

/// The largest part, inflated.
const INFLATED_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Bytes of the length field before the compressed data.
const LENGTH_BYTES: usize = 4;

/// A counter of a part; `None` for one that has ended.
pub type PartEntry = (CounterId, Option<SnapshotCounter>);

const ENDED: u8 = 0;
const LIVES: u8 = 1;
const RARE: u8 = 2;

/// The columns, by their order in the file.
const DATACENTERS: usize = 0;
const ALIKE: usize = 1;
const LENGTHS: usize = 2;
const NAMES: usize = 3;
const KINDS: usize = 4;
const CREATED: usize = 5;
const PARTS: usize = 6;
const PART_DATACENTERS: usize = 7;
const TOTALS: usize = 8;
const WRITES: usize = 9;
const AS_OF: usize = 10;
const RARE_ONES: usize = 11;
const UNIQUES: usize = 12;
const COLUMNS: usize = 13;

/// The columns of `rare`.
type RareColumns = (Settings, Option<Datacenter>, Option<Value>);

/// A signed number as an unsigned one.
fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

/// Writes a part.
#[derive(Default)]
pub struct PartWriter {
    columns: [Vec<u8>; COLUMNS],
    datacenters: Vec<Datacenter>,
    first: Option<String>,
    last: String,
    created_ms: i64,
    entries: usize,
}

fn put<T: Serialize>(column: &mut Vec<u8>, value: &T) {
    // Encoding these types into memory does not fail.
    if let Ok(longer) = postcard::to_extend(value, std::mem::take(column)) {
        *column = longer;
    }
}

fn length_of(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

impl PartWriter {
    fn column(&mut self, column: usize) -> &mut Vec<u8> {
        &mut self.columns[column]
    }

    /// How many counters it has.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Returns whether it is complete.
    pub fn is_full(&self) -> bool {
        let bytes: usize = self.columns.iter().map(Vec::len).sum();
        self.entries >= PART_ENTRIES_MAX || bytes >= PART_BYTES_MAX
    }

    /// The names of the first and the last counter; `None` where it has none.
    pub fn names(&self) -> Option<(&str, &str)> {
        Some((self.first.as_deref()?, &self.last))
    }

    /// Adds a counter, whose name is after all former ones.
    pub fn push(&mut self, id: &CounterId, kept: Option<&SnapshotCounter>) {
        let name = id.as_str();
        let pairs = name.bytes().zip(self.last.bytes());
        let alike = pairs.take_while(|(one, other)| one == other).count();
        let rest = name.as_bytes().get(alike..).unwrap_or_default();
        put(self.column(ALIKE), &length_of(alike));
        put(self.column(LENGTHS), &length_of(rest.len()));
        self.column(NAMES).extend_from_slice(rest);
        self.first.get_or_insert_with(|| name.to_owned());
        self.last.clear();
        self.last.push_str(name);
        self.entries += 1;
        match kept {
            Some(kept) => self.push_kept(kept),
            None => self.column(KINDS).push(ENDED),
        }
    }

    fn push_kept(&mut self, kept: &SnapshotCounter) {
        let rare: RareColumns = (kept.settings, kept.home.clone(), kept.base);
        let is_rare = rare != RareColumns::default();
        self.column(KINDS)
            .push(LIVES | if is_rare { RARE } else { 0 });
        if is_rare {
            put(self.column(RARE_ONES), &rare);
        }
        let created = kept.created_at_ms.wrapping_sub(self.created_ms);
        put(self.column(CREATED), &zigzag(created));
        self.created_ms = kept.created_at_ms;
        put(self.column(PARTS), &length_of(kept.datacenters.len()));
        for part in &kept.datacenters {
            let index = self.index_of(&part.datacenter);
            put(self.column(PART_DATACENTERS), &index);
            for total in [part.added, part.removed] {
                put(self.column(TOTALS), &CellTotal::ZERO.plus_sum(total));
            }
            let write = match part.last_write_ms {
                i64::MIN => 0,
                at_ms => zigzag(at_ms.wrapping_sub(kept.created_at_ms)).saturating_add(1),
            };
            put(self.column(WRITES), &write);
        }
        let as_of = kept.as_of_ms.wrapping_sub(newest_of(kept));
        put(self.column(AS_OF), &zigzag(as_of));
        let uniques = kept.uniques.to_bytes();
        put(self.column(UNIQUES), &length_of(uniques.len()));
        self.column(UNIQUES).extend_from_slice(&uniques);
    }

    fn index_of(&mut self, datacenter: &Datacenter) -> u64 {
        let known = self.datacenters.iter().position(|one| one == datacenter);
        length_of(known.unwrap_or_else(|| {
            self.datacenters.push(datacenter.clone());
            self.datacenters.len() - 1
        }))
    }

    /// The file.
    pub fn finish(mut self) -> Vec<u8> {
        let mut names = Vec::new();
        put(&mut names, &self.datacenters);
        *self.column(DATACENTERS) = names;
        let mut inflated = Vec::new();
        for column in &self.columns {
            put(&mut inflated, &length_of(column.len()));
            inflated.extend_from_slice(column);
        }
        let mut body = stored::begin();
        let length = u32::try_from(inflated.len()).unwrap_or(u32::MAX);
        body.extend_from_slice(&length.to_le_bytes());
        let mut encoder = DeflateEncoder::new(body, Compression::best());
        // Writing to memory does not fail.
        let _ = encoder.write_all(&inflated);
        let body = encoder.finish().unwrap_or_default();
        stored::finish(body, stored::FIRST)
    }
}

/// The newest write, or else the creation.
fn newest_of(kept: &SnapshotCounter) -> i64 {
    kept.last_write_ms().unwrap_or(kept.created_at_ms)
}

/// A hash of a counter's state in 52 bits, which does not depend on the time of the state.
pub fn digest_of(kept: &SnapshotCounter) -> i64 {
    let same = SnapshotCounter {
        as_of_ms: 0,
        ..kept.clone()
    };
    let mut bytes = Vec::new();
    put(&mut bytes, &same);
    let half = |seed: u32| i64::from(stored::checksum(seed, &bytes));
    // A JavaScript number holds 53.
    (half(1) << 20) ^ half(2)
}

/// The columns of a file that is read.
struct Reader<'a>([&'a [u8]; COLUMNS]);

fn take<T: DeserializeOwned>(bytes: &mut &[u8]) -> Result<T, Damage> {
    let (value, rest) = postcard::take_from_bytes(bytes).map_err(|_| Damage::Changed)?;
    *bytes = rest;
    Ok(value)
}

fn take_bytes<'a>(bytes: &mut &'a [u8], length: u64) -> Result<&'a [u8], Damage> {
    let length = usize::try_from(length).map_err(|_| Damage::Changed)?;
    let (taken, rest) = bytes.split_at_checked(length).ok_or(Damage::Changed)?;
    *bytes = rest;
    Ok(taken)
}

impl<'a> Reader<'a> {
    fn new(mut inflated: &'a [u8]) -> Result<Self, Damage> {
        let mut columns: [&[u8]; COLUMNS] = [&[]; COLUMNS];
        for column in &mut columns {
            let length = take(&mut inflated)?;
            *column = take_bytes(&mut inflated, length)?;
        }
        Ok(Self(columns))
    }

    fn column(&mut self, column: usize) -> &mut &'a [u8] {
        &mut self.0[column]
    }

    fn number(&mut self, column: usize) -> Result<u64, Damage> {
        take(self.column(column))
    }

    fn kept(
        &mut self,
        kind: u8,
        before_ms: i64,
        names: &[Datacenter],
    ) -> Result<SnapshotCounter, Damage> {
        let (settings, home, base) = match kind & RARE {
            0 => RareColumns::default(),
            _ => take(self.column(RARE_ONES))?,
        };
        let created_at_ms = before_ms.wrapping_add(unzigzag(self.number(CREATED)?));
        let mut kept = SnapshotCounter {
            created_at_ms,
            settings,
            home,
            base,
            ..SnapshotCounter::default()
        };
        for _ in 0..self.number(PARTS)? {
            let index = usize::try_from(self.number(PART_DATACENTERS)?);
            let datacenter = index.ok().and_then(|index| names.get(index));
            let datacenter = datacenter.ok_or(Damage::Changed)?.clone();
            let added: CellTotal = take(self.column(TOTALS))?;
            let removed: CellTotal = take(self.column(TOTALS))?;
            let last_write_ms = match self.number(WRITES)? {
                0 => i64::MIN,
                write => created_at_ms.wrapping_add(unzigzag(write - 1)),
            };
            kept.datacenters.push(SnapshotDatacenter {
                datacenter,
                added: added.into(),
                removed: removed.into(),
                last_write_ms,
            });
        }
        kept.as_of_ms = newest_of(&kept).wrapping_add(unzigzag(self.number(AS_OF)?));
        let length = self.number(UNIQUES)?;
        let uniques = take_bytes(self.column(UNIQUES), length)?;
        kept.uniques = Uniques::from_bytes(uniques).map_err(|_| Damage::Changed)?;
        Ok(kept)
    }
}

/// Reads a file.
///
/// # Errors
/// The damage of the file.
pub fn read_part(file: &[u8]) -> Result<Vec<PartEntry>, Damage> {
    let body = StoredBody::read(file, stored::FIRST)?.bytes;
    let (length, deflated) = body.split_at_checked(LENGTH_BYTES).ok_or(Damage::Changed)?;
    let length = length.try_into().map_or(0, u32::from_le_bytes);
    let length = usize::try_from(length).map_err(|_| Damage::Changed)?;
    if length > INFLATED_BYTES_MAX {
        return Err(Damage::Changed);
    }
    let mut inflated = Vec::with_capacity(length);
    let bound = length_of(length).saturating_add(1);
    let read = DeflateDecoder::new(deflated)
        .take(bound)
        .read_to_end(&mut inflated);
    if read.ok() != Some(length) {
        return Err(Damage::Changed);
    }
    let mut reader = Reader::new(&inflated)?;
    let names: Vec<Datacenter> = take(reader.column(DATACENTERS))?;
    let mut entries: Vec<PartEntry> = Vec::new();
    let mut name = Vec::new();
    let mut created_ms = 0;
    while let Some((kind, rest)) = reader.column(KINDS).split_first() {
        *reader.column(KINDS) = rest;
        let alike = usize::try_from(reader.number(ALIKE)?).unwrap_or(usize::MAX);
        if alike > name.len() {
            return Err(Damage::Changed);
        }
        name.truncate(alike);
        let more = reader.number(LENGTHS)?;
        name.extend_from_slice(take_bytes(reader.column(NAMES), more)?);
        let text = std::str::from_utf8(&name).map_err(|_| Damage::Changed)?;
        let id = CounterId::stored(text).map_err(|_| Damage::Changed)?;
        let kept = match *kind {
            ENDED => None,
            kind => Some(reader.kept(kind, created_ms, &names)?),
        };
        created_ms = kept.as_ref().map_or(created_ms, |kept| kept.created_at_ms);
        entries.push((id, kept));
    }
    Ok(entries)
}
