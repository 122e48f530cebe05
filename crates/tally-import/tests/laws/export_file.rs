//! A file of an export is compared with its last line.

use tally_import::export_file::ExportFile;

#[test]
fn the_checksum_is_that_of_gzip() {
    let mut file = ExportFile::default();
    assert!(file.take("12345678"));
    assert_eq!(file.checksum(), "crc32:74245830");
}

#[test]
fn a_file_without_or_behind_a_last_line_is_damaged() {
    let mut file = ExportFile::default();
    assert!(file.take(r#"{"id":"a","value":1}"#));
    assert!(file.damage("x").unwrap().contains("has no last line"));
    let end = format!(
        r#"{{"end":true,"counters":1,"checksum":"{}","complete":true}}"#,
        file.checksum()
    );
    assert!(!file.take(&end));
    assert_eq!(file.damage("x"), None);
    assert!(file.take("{}"));
    assert!(
        file.damage("x")
            .unwrap()
            .contains("continues after its last line")
    );
}
