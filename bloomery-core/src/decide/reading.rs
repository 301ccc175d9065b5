//! The head's way through a prompt: hidden states come in parts and are not kept.

use super::answer::{Answer, Decision};
use super::encode::Prompt;
use super::error::DecideError;
use super::maths::{Maths, dot, each, softmax};
use super::memory::Memory;
use super::pieces::{PIECE, Pieces};
use super::seat::Seat;

/// Rows that are normalised and projected at a time, so that they stay in the processor's caches.
const ROWS: usize = 256;

/// One prompt on its way through the head.
///
/// Of a hidden state only its projection is kept, a quarter of its size; of spans, sums.
pub(super) struct Reading<'s> {
    seat: &'s Seat,
    maths: Maths<'s>,
    prompt: &'s Prompt,
    /// Questions and options in the order of the prompt: no two overlap.
    spans: Vec<Span>,
    /// Projected rows.
    memory: Memory,
    rows: usize,
    last: Vec<f32>,
    /// Of the part before; the next has as many rows, but for the last.
    normed: Pieces,
}

struct Span {
    start: usize,
    end: usize,
    sum: Vec<f64>,
}

impl Span {
    fn mean(&self) -> impl Iterator<Item = f32> {
        let count = (self.end - self.start) as f64;
        self.sum.iter().map(move |sum| (sum / count) as f32)
    }
}

impl<'s> Reading<'s> {
    pub(super) fn new(seat: &'s Seat, prompt: &'s Prompt) -> Self {
        let hidden = seat.head.dims.hidden;
        let ranges = prompt.fields.iter().flat_map(|field| {
            std::iter::once(&field.span).chain(field.options.iter().map(|option| &option.span))
        });
        let spans = ranges.map(|range| Span { start: range.start, end: range.end, sum: vec![0.0; hidden] });
        let memory = Memory::new(prompt.tokens.len(), seat.head.dims.width);
        let (spans, maths) = (spans.collect(), Maths::new(&seat.cpu));
        let normed = Pieces::zeros(0, hidden);
        Self { seat, maths, prompt, spans, memory, rows: 0, last: Vec::new(), normed }
    }

    /// Takes in the hidden states of the next positions.
    pub(super) fn rows(&mut self, hidden: &[f32]) -> Result<(), DecideError> {
        let width = self.seat.head.dims.hidden;
        let (found, expected) = (self.rows + hidden.len() / width, self.prompt.tokens.len());
        if found > expected || !hidden.len().is_multiple_of(width) {
            return Err(DecideError::Rows { expected, found });
        }
        for part in hidden.chunks(ROWS * width) {
            self.part(part, width)?;
        }
        Ok(())
    }

    fn part(&mut self, hidden: &[f32], width: usize) -> Result<(), DecideError> {
        let head = &self.seat.head;
        let count = hidden.len() / width;
        let (start, end) = (self.rows, self.rows + count);
        let mut normed = std::mem::replace(&mut self.normed, Pieces::zeros(0, width));
        if normed.rows() != count {
            normed = Pieces::zeros(count, width);
        }
        let rows = hidden.chunks_exact(width).zip(normed.by_row_mut()).collect();
        each(self.maths.cpu, rows, &|(row, mut out): (&[f32], Vec<&mut [f32]>)| {
            head.hidden_norm.row(row, &mut out)
        });
        let weights = |index: usize, piece: usize| {
            let weight: &Pieces = &head.memory[index];
            weight.part(piece, 0..weight.rows())
        };
        let mut outs: Vec<_> = self.memory.rows.rows_mut(start..end).collect();
        self.maths.pieces(&normed, &weights, &mut outs)?;
        self.memory.fill(self.maths.cpu, count);
        self.add_up(&normed, start);
        self.last.clear();
        (0..normed.count())
            .for_each(|piece| self.last.extend_from_slice(normed.part(piece, count - 1..count)));
        (self.rows, self.normed) = (end, normed);
        Ok(())
    }

    /// Adds rows from position `start` on to the sums of their spans.
    fn add_up(&mut self, normed: &Pieces, start: usize) {
        let end = start + normed.rows();
        let spans = self.spans.iter_mut().filter(|span| span.start < end && span.end > start);
        each(self.maths.cpu, spans.collect(), &|span: &mut Span| {
            for row in span.start.max(start)..span.end.min(end) {
                for (piece, sums) in span.sum.chunks_mut(PIECE).enumerate() {
                    let row = normed.part(piece, row - start..row - start + 1);
                    sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum += f64::from(x));
                }
            }
        });
    }

    /// The answers, once all rows are in.
    pub(super) fn finish(mut self) -> Result<Decision, DecideError> {
        let (expected, found) = (self.prompt.tokens.len(), self.rows);
        if found != expected {
            return Err(DecideError::Rows { expected, found });
        }
        let logits = self.logits()?;
        let mut logits = logits.as_slice();
        let mut answers = Vec::with_capacity(self.prompt.fields.len());
        for field in &self.prompt.fields {
            let (mine, rest) = logits.split_at(field.options.len());
            let temperature = self.seat.head.temperature(&field.question.criteria);
            let mine: Vec<f32> = mine.iter().map(|logit| logit / temperature).collect();
            answers.push(Answer::new(field, &mine)?);
            logits = rest;
        }
        Ok(Decision { answers, tokens: expected, cut: self.prompt.cut })
    }

    /// A logit for every option of every question, in the order of the prompt.
    fn logits(&mut self) -> Result<Vec<f32>, DecideError> {
        let head = &self.seat.head;
        let (width, hidden) = (head.dims.width, head.dims.hidden);
        let fields = &self.prompt.fields;
        // The question of every option.
        let owners: Vec<usize> =
            fields.iter().enumerate().flat_map(|(index, field)| vec![index; field.options.len()]).collect();
        let (mut questions, mut contexts) = (Vec::new(), Vec::new());
        let mut spans = self.spans.iter();
        for field in fields {
            questions.extend(spans.next().into_iter().flat_map(Span::mean));
            spans.by_ref().take(field.options.len()).for_each(|span| contexts.extend(span.mean()));
        }
        let lexical = self.seat.lexical(self.prompt)?;

        let memory = std::mem::replace(&mut self.memory, Memory::new(0, width));
        let options = self.options(&memory, (&questions, &contexts, &lexical), &owners)?;
        let fields_state = self.fields(&memory, &questions, &options, &owners)?;
        drop(memory);

        let fields_state = head.field_norm.rows(&fields_state);
        let options = head.option_norm.rows(&options);
        let residual = self.residual(&fields_state, &options, &owners)?;
        let [prior, joint, gate] = head.scales.map(f64::from);
        let mut logits = Vec::with_capacity(owners.len());
        for (index, &owner) in owners.iter().enumerate() {
            let field = &fields_state[owner * width..][..width];
            let option = &options[index * width..][..width];
            let context: Vec<f32> = questions[owner * hidden..][..hidden]
                .iter()
                .zip(&self.last)
                .map(|(question, last)| question + last)
                .collect();
            let words = cosine(&lexical[index * hidden..][..hidden], &context, 1e-12);
            let match_ = joint * cosine(field, option, 1e-8) + f64::from(residual[index]);
            logits.push((prior * words + gate * match_) as f32);
        }
        Ok(logits)
    }

    /// The options, after they have looked at the prompt.
    fn options(
        &mut self,
        memory: &Memory,
        (questions, contexts, lexical): (&[f32], &[f32], &[f32]),
        owners: &[usize],
    ) -> Result<Vec<f32>, DecideError> {
        let head = &self.seat.head;
        let width = head.dims.width;
        let maths = &mut self.maths;
        let mut options = maths.linear(contexts, &head.option_context)?;
        maths.add(lexical, &head.option_lexical, &mut options)?;
        let asked = maths.linear(questions, &head.option_question)?;
        for (row, &owner) in options.chunks_exact_mut(width).zip(owners) {
            add(row, &asked[owner * width..][..width]);
        }
        for layer in &head.routing {
            let normed = layer.query_norm.rows(&options);
            maths.attend(&mut options, &normed, memory, Some(&layer.memory_norm), &layer.attention)?;
            maths.feed_forward(&mut options, &layer.feed_forward)?;
        }
        Ok(options)
    }

    /// The questions, after they have looked at each other and at the prompt.
    fn fields(
        &mut self,
        memory: &Memory,
        questions: &[f32],
        options: &[f32],
        owners: &[usize],
    ) -> Result<Vec<f32>, DecideError> {
        let head = &self.seat.head;
        let width = head.dims.width;
        let maths = &mut self.maths;
        let mut fields = maths.linear(questions, &head.question)?;
        let global = maths.linear(&self.last, &head.global)?;
        let scale = 1.0 / (width as f64).sqrt();
        let mut first = 0;
        for (index, field) in self.prompt.fields.iter().enumerate() {
            let mine = &mut fields[index * width..][..width];
            let listed = first..first + field.options.len();
            debug_assert!(owners[listed.clone()].iter().all(|&owner| owner == index));
            let options: Vec<&[f32]> =
                options[listed.start * width..listed.end * width].chunks_exact(width).collect();
            let mut weights: Vec<f32> =
                options.iter().map(|option| (dot(option, mine) * scale) as f32).collect();
            softmax(&mut weights);
            let mut summary = vec![0.0f32; width];
            for (option, weight) in options.iter().zip(weights) {
                summary.iter_mut().zip(*option).for_each(|(sum, x)| *sum += weight * x);
            }
            add(mine, &head.option_summary_norm.rows(&summary));
            add(mine, &global);
            add(mine, &head.kinds[field.question.criteria.number() * width..][..width]);
            first = listed.end;
        }
        for layer in &head.decoder {
            let normed = layer.self_norm.rows(&fields);
            let others = Memory::of(maths.cpu, &normed, width);
            maths.attend(&mut fields, &normed, &others, None, &layer.self_attention)?;
            let normed = layer.cross_norm.rows(&fields);
            // The prompt is not normalised here.
            maths.attend(&mut fields, &normed, memory, None, &layer.cross_attention)?;
            maths.feed_forward(&mut fields, &layer.feed_forward)?;
        }
        Ok(fields)
    }

    /// What the scorer adds for each option.
    fn residual(
        &mut self,
        fields: &[f32],
        options: &[f32],
        owners: &[usize],
    ) -> Result<Vec<f32>, DecideError> {
        let head = &self.seat.head;
        let width = head.dims.width;
        let mut pairs = Vec::with_capacity(4 * options.len());
        for (option, &owner) in options.chunks_exact(width).zip(owners) {
            let field = &fields[owner * width..][..width];
            let both = || field.iter().zip(option);
            pairs.extend_from_slice(field);
            pairs.extend_from_slice(option);
            pairs.extend(both().map(|(a, b)| a * b));
            pairs.extend(both().map(|(a, b)| (a - b).abs()));
        }
        let mut inner = self.maths.linear(&pairs, &head.scorer)?;
        self.maths.gelu(&mut inner);
        Ok(self.maths.linear(&inner, &head.scorer_out)?)
    }
}

fn add(row: &mut [f32], other: &[f32]) {
    row.iter_mut().zip(other).for_each(|(a, b)| *a += b);
}

/// The cosine of two rows, neither of which counts as shorter than `least`.
fn cosine(a: &[f32], b: &[f32], least: f64) -> f64 {
    let length = |row: &[f32]| dot(row, row).sqrt().max(least);
    dot(a, b) / length(a) / length(b)
}
