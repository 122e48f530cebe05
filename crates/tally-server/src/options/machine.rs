//! What the machine gives: memory and descriptors, and how objects and clients share them.

use std::path::Path;

/// Descriptors of an open object: its database, and its log twice, for SQLite and to be synced.
const DESCRIPTORS_PER_OBJECT: u64 = 3;

/// The fewest descriptors: for [`OPEN_OBJECTS_MIN`], and as many again for clients and the rest.
const DESCRIPTORS_MIN: u64 = 320;

/// Descriptors of neither clients nor objects: listeners, timers, files of snapshots, webhooks.
const DESCRIPTORS_OF_REST: u64 = 64;

/// Bytes of an open object.
const BYTES_PER_OBJECT: u64 = 280_000;

/// Bytes of a client that is connected.
const BYTES_PER_CONNECTION: u64 = 32_768;

/// Memory of a machine that does not say how much it has.
const MEMORY_BYTES_DEFAULT: u64 = 1 << 30;

/// The fewest objects that may be open: the partitions of the directory and what serves one request.
const OPEN_OBJECTS_MIN: u64 = 64;

/// Where groups of processes and their bounds are.
const GROUPS: &str = "/sys/fs/cgroup";

/// The bound of a container on a machine with the former groups.
const FORMER_BOUND: &str = "/sys/fs/cgroup/memory/memory.limit_in_bytes";

/// How many descriptors this process may have.
pub(crate) fn descriptors() -> Result<u64, String> {
    let descriptors = rlimit::increase_nofile_limit(u64::MAX).unwrap_or(DESCRIPTORS_MIN);
    match descriptors < DESCRIPTORS_MIN {
        true => Err(format!(
            "{descriptors} descriptors are too few: raise the hard limit to at least {DESCRIPTORS_MIN} with ulimit -n"
        )),
        false => Ok(descriptors),
    }
}

/// How much memory this process may have, bytes: that of the machine, or less in a container or a service with a bound.
pub(crate) fn memory_bytes() -> u64 {
    memory_of(|path| std::fs::read_to_string(path).ok())
}

/// As [`memory_bytes`], with what reads a file. Source: proc_meminfo(5), and `memory.max` in the kernel's
/// "Control Group v2". The bound of each group holds for all groups in it.
fn memory_of(read: impl Fn(&Path) -> Option<String>) -> u64 {
    let meminfo = read(Path::new("/proc/meminfo")).unwrap_or_default();
    let total = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"));
    let kilobytes =
        total.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    let machine = kilobytes.map_or(MEMORY_BYTES_DEFAULT, |kilobytes| {
        kilobytes.saturating_mul(1_024)
    });
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    let group = Path::new(GROUPS).join(group.unwrap_or_default());
    let bounds = group
        .ancestors()
        .take_while(|folder| folder.starts_with(GROUPS))
        .filter_map(|folder| read(&folder.join("memory.max")))
        .chain(read(Path::new(FORMER_BOUND)));
    let bounds = bounds.filter_map(|text| text.trim().parse::<u64>().ok());
    bounds.fold(machine, u64::min)
}

/// How many objects may be open, and how many clients connected: objects have three of eight descriptors, clients half.
/// Each have a quarter of the memory.
pub(crate) fn shares_of(descriptors: u64, memory_bytes: u64) -> (u64, u64) {
    let objects = (descriptors * 3 / 8 / DESCRIPTORS_PER_OBJECT)
        .min(memory_bytes / 4 / BYTES_PER_OBJECT)
        .max(OPEN_OBJECTS_MIN);
    let taken = objects * DESCRIPTORS_PER_OBJECT + DESCRIPTORS_OF_REST;
    let connections = (descriptors / 2)
        .min(descriptors.saturating_sub(taken))
        .min(memory_bytes / 4 / BYTES_PER_CONNECTION);
    (objects, connections)
}

#[cfg(test)]
mod tests {
    //! Laws: objects, clients and the rest have no more descriptors than there are, and clients always have some. The
    //! memory is the least of all bounds.

    use std::collections::HashMap;

    use super::*;

    fn memory_with(files: &[(&str, &str)]) -> u64 {
        let files: HashMap<_, _> = files.iter().copied().collect();
        memory_of(|path| files.get(path.to_str()?).map(|text| (*text).to_owned()))
    }

    #[test]
    fn the_memory_is_the_least_of_that_of_the_machine_and_of_the_groups_of_the_process() {
        let machine = ("/proc/meminfo", "MemTotal:       16 kB\nMemFree: 1 kB\n");
        assert_eq!(memory_with(&[]), 1 << 30);
        assert_eq!(memory_with(&[machine]), 16_384);
        let container = [("/sys/fs/cgroup/memory.max", "4096\n"), machine];
        assert_eq!(memory_with(&container), 4_096);
        let group = ("/proc/self/cgroup", "1:name=x:/y\n0::/a/b.service\n");
        let service = ("/sys/fs/cgroup/a/b.service/memory.max", "max\n");
        let slice = ("/sys/fs/cgroup/a/memory.max", "8192\n");
        assert_eq!(memory_with(&[machine, group, service]), 16_384);
        assert_eq!(memory_with(&[machine, group, service, slice]), 8_192);
        let former = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2048\n");
        assert_eq!(memory_with(&[machine, former]), 2_048);
    }

    #[test]
    fn clients_and_objects_share_descriptors_and_memory() {
        for descriptors in [DESCRIPTORS_MIN, 1_024, 20_000, 1 << 20] {
            for memory in [64 << 20, 1 << 30, 1 << 36] {
                let (objects, connections) = shares_of(descriptors, memory);
                let taken = objects * DESCRIPTORS_PER_OBJECT + connections + DESCRIPTORS_OF_REST;
                assert!(taken <= descriptors, "{descriptors}, {memory}");
                assert!(connections >= 64, "{descriptors}, {memory}");
            }
        }
        assert_eq!(shares_of(DESCRIPTORS_MIN, 1 << 36), (64, 64));
        assert_eq!(shares_of(20_000, 1 << 36), (2_500, 10_000));
        assert_eq!(shares_of(1 << 20, 1 << 30), (958, 8_192));
    }
}
