//! How many prompt tokens a step takes while other jobs are generating.

use std::time::Duration;

/// Keeps streams at half of their speed or more while prompts are computed.
///
/// A step with prompt tokens takes longer than one without. What it takes longer is a debt that steps without prompt
/// tokens pay back one for one, so that over any longer time at most half goes to prompts. A part of a prompt is as long
/// as [`PAUSE`] allows: short parts read all weights for few rows.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Seconds of a step without prompt tokens.
    decode: Option<f64>,
    /// Seconds that a prompt token adds.
    row: Option<f64>,
    /// Seconds that streams have waited for prompts and that are not paid back.
    debt: f64,
}

/// The longest that a part of a prompt should hold up a stream, in seconds, unless a step itself takes longer. Readers do
/// not see a stop of 50 ms.
const PAUSE: f64 = 0.05;

/// Prompt rows of a step before anything was measured.
const FIRST_ROWS: usize = 32;

/// Weight of the newest measurement.
const NEWEST: f64 = 0.25;

impl Pace {
    /// Prompt rows for the next step with `streams` generating jobs; `most` is what a step can take.
    pub(super) fn rows(&self, streams: usize, most: usize) -> usize {
        if streams == 0 {
            return most;
        }
        // The first step of a stream that starts beside a prompt is measured without it.
        let (Some(decode), true) = (self.decode, self.debt <= 0.0) else { return 0 };
        let Some(row) = self.row else { return FIRST_ROWS.min(most) };
        ((PAUSE.max(decode) / row) as usize).clamp(1, most)
    }

    /// Takes in what a step took.
    pub(super) fn measured(&mut self, streams: usize, rows: usize, time: Duration) {
        let time = time.as_secs_f64();
        match (streams, rows) {
            (0, 0) => {}
            (_, 0) => {
                blend(&mut self.decode, time);
                self.debt = (self.debt - time).max(0.0);
            }
            (0, _) => {
                blend(&mut self.row, time / rows as f64);
                self.debt = 0.0;
            }
            (_, _) => {
                let extra = (time - self.decode.unwrap_or(0.0)).max(0.0);
                blend(&mut self.row, extra / rows as f64);
                self.debt += extra;
            }
        }
    }
}

fn blend(mean: &mut Option<f64>, value: f64) {
    *mean = Some(mean.map_or(value, |old| old + NEWEST * (value - old)));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of a machine where a step takes `base` and `row` for each prompt token; returns the share of the full speed
    /// that streams keep while `prompt` tokens are computed, and the longest step.
    fn run(base: f64, row: f64, prompt: usize) -> (f64, f64) {
        let mut pace = Pace::default();
        let (mut left, mut time, mut steps, mut longest) = (prompt, 0.0, 0.0, 0.0f64);
        while left > 0 {
            let rows = pace.rows(4, 512).min(left);
            let took = base + row * rows as f64;
            pace.measured(4, rows, Duration::from_secs_f64(took));
            (left, time, steps, longest) = (left - rows, time + took, steps + 1.0, longest.max(took));
        }
        (steps * base / time, longest)
    }

    #[test]
    fn streams_keep_half_of_their_speed() {
        for (base, row) in [(150e-6, 30e-6), (20e-3, 1e-3), (0.1, 0.02), (1e-3, 5e-6)] {
            let (share, longest) = run(base, row, 4000);
            // The last part has not been paid back yet when the prompt ends.
            assert!(share > 0.44, "a step of {base} s and {row} s a row leaves {share}");
            assert!(longest < base + 1.1 * PAUSE.max(base).max(FIRST_ROWS as f64 * row), "{longest}");
        }
    }

    #[test]
    fn nothing_slows_a_prompt_that_is_alone() {
        let mut pace = Pace::default();
        assert_eq!(pace.rows(0, 512), 512);
        pace.measured(0, 512, Duration::from_millis(100));
        assert_eq!(pace.rows(0, 512), 512);
        assert_eq!(pace.rows(1, 512), 0, "a stream's own speed is measured first");
        pace.measured(1, 0, Duration::from_millis(10));
        let rows = pace.rows(1, 512);
        assert!(rows == 255 || rows == 256, "{rows} of 0.195 ms in 50 ms");
    }
}
