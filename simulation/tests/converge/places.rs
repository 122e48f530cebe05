//! Where datacenters are, and how long a message takes between them.
//!
//! Source: Microsoft, "Azure network round-trip latency statistics", 95th percentile of the 30 days
//! that ended on 30 July 2026, <https://learn.microsoft.com/azure/networking/azure-network-latency>, for
//! 15 of its regions; of the two directions of a pair the slower one. Between two regions the median is
//! 165 ms, the least 13 ms (London and Paris), the most 348 ms (Johannesburg and Sydney).

/// Regions, as their source names them.
pub const REGIONS: [&str; 15] = [
    "West US 2",
    "South Central US",
    "East US",
    "Brazil South",
    "UK South",
    "France Central",
    "Germany West Central",
    "Italy North",
    "South Africa North",
    "UAE North",
    "Central India",
    "Southeast Asia",
    "Japan East",
    "Korea Central",
    "Australia East",
];

/// Round trips between regions, milliseconds; 10 between two datacenters of one region.
#[rustfmt::skip]
const ROUND_TRIPS_MS: [[u64; 15]; 15] = [
    [10, 58, 76, 179, 145, 153, 160, 168, 285, 256, 218, 165, 103, 128, 180],
    [58, 10, 47, 142, 120, 122, 132, 142, 252, 229, 249, 211, 140, 165, 194],
    [76, 47, 10, 121, 80, 90, 97, 107, 226, 191, 218, 229, 165, 192, 207],
    [179, 142, 121, 10, 184, 193, 201, 208, 327, 293, 320, 337, 275, 296, 298],
    [145, 120, 80, 184, 10, 13, 20, 32, 169, 122, 151, 183, 237, 262, 277],
    [153, 122, 90, 193, 13, 10, 14, 26, 165, 117, 147, 176, 245, 267, 280],
    [160, 132, 97, 201, 20, 14, 10, 21, 174, 122, 151, 179, 250, 272, 291],
    [168, 142, 107, 208, 32, 26, 21, 10, 181, 117, 146, 184, 256, 278, 286],
    [285, 252, 226, 327, 169, 165, 174, 181, 10, 105, 134, 211, 255, 255, 348],
    [256, 229, 191, 293, 122, 117, 122, 117, 105, 10, 35, 90, 155, 153, 182],
    [218, 249, 218, 320, 151, 147, 151, 146, 134, 35, 10, 59, 129, 127, 152],
    [165, 211, 229, 337, 183, 176, 179, 184, 211, 90, 59, 10, 74, 72, 98],
    [103, 140, 165, 275, 237, 245, 250, 256, 255, 155, 129, 74, 10, 36, 105],
    [128, 165, 192, 296, 262, 267, 272, 278, 255, 153, 127, 72, 36, 10, 137],
    [180, 194, 207, 298, 277, 280, 291, 286, 348, 182, 152, 98, 105, 137, 10],
];

/// Regions that roots live in: the platform has no objects of its own in the others.
const REGIONS_OF_ROOTS: [usize; 12] = [0, 1, 2, 4, 5, 6, 7, 10, 11, 12, 13, 14];

/// The Americas, which a partition of the world cuts off from the rest.
const AMERICAS: std::ops::Range<usize> = 0..4;

/// The region of a datacenter: they take turns.
pub fn region_of(datacenter: usize) -> usize {
    datacenter % REGIONS.len()
}

/// On which side of a split world a datacenter is.
pub fn is_american(datacenter: usize) -> bool {
    AMERICAS.contains(&region_of(datacenter))
}

/// The datacenter that holds a partition of the directory: they take turns among regions of roots.
pub fn home_of(partition: usize) -> usize {
    REGIONS_OF_ROOTS[partition % REGIONS_OF_ROOTS.len()]
}

/// A datacenter's name.
pub fn name_of(datacenter: usize) -> String {
    format!("C{datacenter:02}")
}

/// How long a message takes at least and at most, milliseconds: half a round trip, up to a tenth more or less, so
/// that messages overtake each other.
pub fn one_way_ms(from: usize, to: usize) -> (u64, u64) {
    let round_trip_ms = ROUND_TRIPS_MS[region_of(from)][region_of(to)];
    (round_trip_ms * 9 / 20, (round_trip_ms * 11).div_ceil(20))
}
