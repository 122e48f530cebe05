//! Parts are whole lines, and end where the bytes say, however they arrive.

use tally_import::host::Failure;
use tally_import::splitter::{LineSplitter, LogEnding, PART_BYTES_MAX, PART_LINES_MAX, Piece};

fn parts_of(
    splitter: &mut LineSplitter,
    chunks: &[&[u8]],
    ending: LogEnding,
) -> Result<Vec<(u64, Vec<u8>)>, Failure> {
    let mut found = Vec::new();
    let mut all = |splitter: &mut LineSplitter| -> Result<(), Failure> {
        while let Some(Piece { start, bytes }) = splitter.take()? {
            found.push((start, bytes));
        }
        Ok(())
    };
    for chunk in chunks {
        splitter.push(chunk);
        all(splitter)?;
    }
    splitter.ends(ending);
    all(splitter)?;
    Ok(found)
}

fn ends(start: u64, chunks: &[&[u8]], wanted: &[u64]) -> Vec<u64> {
    let mut splitter = LineSplitter::new(start, wanted.iter().copied());
    let parts = parts_of(&mut splitter, chunks, LogEnding::Closed).unwrap();
    parts
        .iter()
        .map(|(start, bytes)| start + u64::try_from(bytes.len()).unwrap())
        .collect()
}

#[test]
fn parts_do_not_depend_on_chunks() {
    let line = |index: usize| format!("{}{index}\n", "x".repeat(index % 300));
    let bytes: Vec<u8> = (0..25_000)
        .flat_map(|index| line(index).into_bytes())
        .collect();
    let whole = parts_of(&mut LineSplitter::new(0, []), &[&bytes], LogEnding::Closed).unwrap();
    assert!(whole.len() > 2);
    for size in [1_000, 65_536, 262_144] {
        let chunks: Vec<&[u8]> = bytes.chunks(size).collect();
        assert_eq!(
            parts_of(&mut LineSplitter::new(0, []), &chunks, LogEnding::Closed).unwrap(),
            whole
        );
    }
    for (_, part) in &whole {
        let lines = part.split_inclusive(|byte| *byte == b'\n').count();
        assert!(part.ends_with(b"\n") && part.len() <= PART_BYTES_MAX);
        assert!(lines <= usize::try_from(PART_LINES_MAX).unwrap());
    }
    let together: Vec<u8> = whole.into_iter().flat_map(|(_, bytes)| bytes).collect();
    assert_eq!(together, bytes);
}

#[test]
fn a_resumed_run_makes_the_parts_again_that_an_earlier_one_had_sent() {
    let bytes = b"a\nbb\nccc\ndddd\n";
    assert_eq!(ends(0, &[bytes], &[5]), [5, 14]);
    assert_eq!(ends(5, &[&bytes[5..]], &[5, 9]), [9, 14]);
    assert_eq!(ends(0, &[&bytes[..3], &bytes[3..]], &[5, 9]), [5, 9, 14]);
}

#[test]
fn the_last_line_needs_a_newline_where_its_writer_may_go_on() {
    for (ending, lengths) in [
        (LogEnding::Closed, vec![2, 3]),
        (LogEnding::Unfinished, vec![2]),
        (LogEnding::Idle, vec![2]),
        (LogEnding::Unfinished, vec![2]),
    ] {
        let mut splitter = LineSplitter::new(0, []);
        let parts = parts_of(&mut splitter, &[b"a\nbbb"], ending).unwrap();
        let found: Vec<usize> = parts.iter().map(|(_, bytes)| bytes.len()).collect();
        assert_eq!(found, lengths, "{ending:?}");
        assert_eq!(splitter.rest(), (0, ending != LogEnding::Closed));
    }
}

#[test]
fn a_pause_within_what_was_sent_as_one_part_does_not_cut_it() {
    let mut splitter = LineSplitter::new(0, [4]);
    assert!(
        parts_of(&mut splitter, &[b"a\nb"], LogEnding::Idle)
            .unwrap()
            .is_empty()
    );
    assert_eq!(splitter.rest(), (1, true));
    let parts = parts_of(&mut splitter, &[b"\nc\n"], LogEnding::Idle).unwrap();
    assert_eq!(parts, [(0, b"a\nb\n".to_vec()), (4, b"c\n".to_vec())]);
    // Where the bytes so far end by chance, nobody knows whether a line is complete.
    splitter.push(b"d\ne");
    assert_eq!(splitter.rest(), (1, false));
}

#[test]
fn no_part_has_the_hole_before_it() {
    let bytes = [vec![0; 9], b"a\n".to_vec(), vec![0; 5], b"b\n".to_vec()].concat();
    let mut splitter = LineSplitter::new(0, []);
    splitter.push(&bytes[..11]);
    splitter.ends(LogEnding::Idle);
    assert_eq!(splitter.take().unwrap().map(|part| part.start), Some(9));
    splitter.push(&bytes[11..]);
    splitter.ends(LogEnding::Closed);
    assert_eq!(
        splitter
            .take()
            .unwrap()
            .map(|part| (part.start, part.bytes)),
        Some((16, b"b\n".to_vec()))
    );
}

#[test]
fn a_line_longer_than_a_part_is_one_and_longer_than_four_is_no_log() {
    let long = [vec![b'x'; PART_BYTES_MAX + 9], b"\nb\n".to_vec()].concat();
    let length = u64::try_from(long.len()).unwrap();
    assert_eq!(ends(0, &[&long], &[]), [length - 2, length]);
    let endless = vec![b'x'; 4 * PART_BYTES_MAX + 1];
    let failure =
        parts_of(&mut LineSplitter::new(0, []), &[&endless], LogEnding::Open).unwrap_err();
    assert!(failure.message.contains("more than 16 MiB"));
}
