//! Hidden states of a prompt on their way to one embedding.

use super::job::Pooling;

/// Rows that arrive in parts.
pub(super) struct Embedding {
    pooling: Pooling,
    rows: Vec<f32>,
}

impl Embedding {
    pub(super) fn new(pooling: Pooling) -> Self {
        Self { pooling, rows: Vec::new() }
    }

    /// Takes in more rows, whose first value is number `at`. What was there from it on is the same, and was computed twice.
    pub(super) fn add(&mut self, at: usize, rows: &[f32]) {
        self.rows.truncate(at);
        self.rows.extend_from_slice(rows);
    }

    /// The pooled row, or all of them. The mean is summed in f64, so that parts do not show in it.
    pub(super) fn finish(mut self, width: usize) -> Vec<f32> {
        let tokens = self.rows.len() / width;
        match self.pooling {
            Pooling::None | Pooling::Parts => {}
            Pooling::First => self.rows.truncate(width),
            Pooling::Last => drop(self.rows.drain(..self.rows.len() - width)),
            Pooling::Mean => {
                let column = |col: usize| self.rows.iter().skip(col).step_by(width).map(|&x| f64::from(x));
                self.rows = (0..width).map(|col| (column(col).sum::<f64>() / tokens as f64) as f32).collect();
            }
        }
        self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_pooled() {
        let pooled = |pooling| {
            let mut embedding = Embedding::new(pooling);
            embedding.add(0, &[1.0, 2.0]);
            embedding.add(2, &[3.0, 5.0]);
            embedding.add(2, &[3.0, 4.0, 8.0, 0.0]);
            embedding.finish(2)
        };
        assert_eq!(pooled(Pooling::None), [1.0, 2.0, 3.0, 4.0, 8.0, 0.0]);
        assert_eq!(pooled(Pooling::First), [1.0, 2.0]);
        assert_eq!(pooled(Pooling::Last), [8.0, 0.0]);
        assert_eq!(pooled(Pooling::Mean), [4.0, 2.0]);
    }
}
