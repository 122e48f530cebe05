//! Location hints: near which region a datacenter's cells are created.
//!
//! Invariant: a colo is in exactly one row of the table, rows are sorted, and every row's hint is one of the nine that
//! the platform knows. A colo that is in no row gets no hint, and the platform then creates the object near the
//! request. So a missing row costs distance at most, never a count.
//!
//! A hint works once, at the first call to an object, and is best effort. `sam`, `afr` and `me` have no
//! objects of their own today: the platform takes the nearest place that has.
//! Source: <https://developers.cloudflare.com/durable-objects/reference/data-location/>.
//!
//! Colos are the airport codes of <https://www.cloudflarestatus.com/> (read in October 2026), with some that were
//! listed there before. Geography decides the row. Where it leaves a choice (Italy, the Nordic countries, Central Asia,
//! the middle of North America, islands) the hint is used whose objects answered clearly sooner in the measurements of
//! <https://where.durableobjects.live/>. Central America and the Caribbean are `enam`: their `sam` objects live there
//! today. If that changes, it is still nearer than South America.

use crate::counter::id::Datacenter;

/// Bytes of one entry of a row: a code of three letters and a space.
const ENTRY_BYTES: usize = 4;

/// The hints with their colos, each row sorted. 367 colos × 4 bytes = 1,468 bytes of Wasm.
const ROWS: [(&str, &str); 9] = [
    (
        "wnam",
        "ABQ ANC AUS DEN DFW GDL HNL LAS LAX MEM MEX MFE OKC PDX PHX PPT QRO SAN SAT SEA \
         SFO SJC SLC SMF YVR YXE YYC ",
    ),
    (
        "enam",
        "ATL BGI BGR BNA BOS BUF CLE CLT CMH CUR CVG DTW EWR FSD GND GUA IAD IAH IND JAX \
         KIN MCI MIA MSP OMA ORD ORF PAP PHL PIT POS PTY RDU RIC SAP SDQ SJO SJU STI STL \
         TGU TLH TPA YHZ YOW YUL YWG YYZ ",
    ),
    (
        "sam",
        "ARI ARU ASU BAQ BEL BNU BOG BSB CAW CCP CFC CGB CLO CNF COR CWB EZE FLN FOR GEO \
         GIG GRU GYE GYN ITJ JDO JOI LIM LPB MAO MDE NQN NVT PBM PMW POA QWJ RAO REC SCL \
         SJK SJP SOD SSA UDI UIO VCP VIX XAP ",
    ),
    (
        "weur",
        "AMS BCN BOD BRU CDG CPH DUB DUS EDI FRA GOT GVA HAM KEF LHR LIS LUX LYS MAD MAN \
         MRS MUC ORK STR ZRH ",
    ),
    (
        "eeur",
        "ADB AKX ALA ARN ATH BEG BTS BUD DME DYU EVN FCO FRU HEL IST KBP KIV KJA LCA LED \
         LJU MLA MSQ MXP NQZ OSL OTP PMO PRG PRN RIX SKG SKP SOF SVX TAS TBS TIA TLL TXL \
         VIE VNO WAW WRO ZAG ",
    ),
    (
        "apac",
        "ACX AGR AIP AMD AVA BBI BDQ BHY BKK BLR BOM BWN CAN CCU CEB CGD CGK CGO CGP CGY \
         CJB CKG CMB CNN CNX COK CRK CSX CTU CZX DAC DAD DEL DLC DPS FOC FUK FUO GUM HAK \
         HAN HFE HGH HKG HYD HYN ICN ISB IXC JHB JOG JRG JXG KCH KHH KHI KHN KIX KMG KNU \
         KTM KUL KWE LHE LHW LUH LYA MAA MDL MFM MLE MLG MNL NAG NNG NRT OKA PAT PBH PKX \
         PNH PNQ RGN SGN SHA SHE SIN SJW SZX TAO TEN TNA TPE TSN TYN UDR ULN URT VTE WUH \
         WUX XFN XIY XNN ZGN ",
    ),
    ("oc", "ADL AKL BNE CBR CHC HBA MEL NOU PER SUV SYD WLG "),
    (
        "afr",
        "AAE ABJ ACC ADD ALG ASK CAI CMN CPT CZL DAR DKR DLA DUR EBB FIH GBE HRE JIB JNB \
         KGL LAD LLW LOS LUN MBA MPM MRU NBO ORN OUA RUN TNR TUN WDH ",
    ),
    (
        "me",
        "AMM BAH BEY BGW BSR DMM DOH DXB EBL GYD HFA ISU JED KWI LLK MCT NJF RUH TLV XNH \
         ZDM ",
    ),
];

/// The location hint for objects that serve this datacenter: `wnam`, `enam`, `sam`, `weur`, `eeur`, `apac`, `oc`, `afr`
/// or `me`; `None` for `LOCAL` and for unknown colos. The hint of a region is its own name.
///
/// Cost: nine comparisons, and nine binary searches of at most seven steps.
pub fn location_hint(datacenter: &Datacenter) -> Option<&'static str> {
    let name = datacenter.as_str();
    let mut hints = ROWS.iter().map(|(hint, _)| *hint);
    hints
        .find(|hint| hint.eq_ignore_ascii_case(name))
        .or_else(|| hint_of_colo(datacenter))
}

/// The region of a colo, as a datacenter: for a deployment with nine large datacenters instead of hundreds of small
/// ones. Unknown colos and `LOCAL` do not change.
pub fn region_of(colo: Datacenter) -> Datacenter {
    let region = hint_of_colo(&colo).and_then(Datacenter::parse);
    region.unwrap_or(colo)
}

fn hint_of_colo(datacenter: &Datacenter) -> Option<&'static str> {
    let &[first, second, third] = datacenter.as_str().as_bytes() else {
        return None;
    };
    let entry: [u8; ENTRY_BYTES] = [first, second, third, b' '];
    ROWS.iter()
        .find(|(_, colos)| colos.as_bytes().as_chunks().0.binary_search(&entry).is_ok())
        .map(|&(hint, _)| hint)
}

/// All colos of the table with their hints, in the table's order.
pub fn colos() -> impl Iterator<Item = (&'static str, &'static str)> {
    ROWS.iter()
        .flat_map(|&(hint, colos)| colos.split_terminator(' ').map(move |colo| (colo, hint)))
}
