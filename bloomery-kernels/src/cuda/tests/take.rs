//! Rows that are wanted.

use super::super::Take;
use super::super::testing::places;
use crate::cpu::testing::{Rng, bits};

#[test]
fn rows_are_copied() {
    let mut place = places().pop().unwrap();
    for (have, cols, rows) in [(1, 4, vec![0]), (7, 132, vec![6, 0, 3, 3, 7, u32::MAX]), (3, 2048, vec![2])] {
        let values = Rng::new(cols as u64).normals(have * cols);
        let expected: Vec<f32> = rows
            .iter()
            .flat_map(|&row| match values.chunks(cols).nth(row as usize) {
                Some(row) => row.to_vec(),
                None => vec![0.0; cols],
            })
            .collect();
        let (from, numbers) = (place.buffer(&values), place.buffer(&rows));
        let to = place.poison::<f32>(rows.len() * cols);
        let op = Take { from: from.span(), cols, rows: numbers.span(), to: to.span() };
        let launch = op.launch(place.info()).unwrap();
        place.run(&launch);
        assert_eq!(bits(&place.read(&to)), bits(&expected), "{cols} columns");
        let error = Take { cols: 5, ..op.clone() }.launch(place.info()).unwrap_err();
        assert_eq!(error.to_string(), "take: columns is 5, must be a multiple of 4");
        assert!(Take { to: to.slice(0..cols - 1).unwrap(), ..op }.launch(place.info()).is_err());
    }
}
