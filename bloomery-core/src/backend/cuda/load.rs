//! Weights from the file to the card.

use bloomery_gguf::Gguf;
use bloomery_kernels::cuda::{
    Buffer, CudaError, Device, HeadWeights, Pack, Span, Stream, TILE_ROWS, Weight, WeightStack,
};

use super::pump::{Piece, Rows, pump};
use crate::error::LoadError;
use crate::plan::Progress;
use crate::program::{Op, Program};
use crate::weights::{Packed, Weights};

/// All weights in the memory of a card, by their ids' numbers.
#[derive(Debug)]
pub(super) struct Stored {
    /// Those that there are products with.
    pub(super) matrices: Vec<Option<Weight>>,
    /// Those whose rows are looked up, as they lie in the file.
    pub(super) tables: Vec<Option<Weight>>,
    /// `None` where experts come and go.
    pub(super) stacks: Vec<Option<WeightStack>>,
    /// Of attention with latents.
    pub(super) heads: Vec<HeadWeights>,
    pub(super) vectors: Vec<Span<f32>>,
    /// Experts by token.
    pub(super) numbers: Vec<Span<u32>>,
}

/// What a matrix is used for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) product: bool,
    pub(super) table: bool,
}

/// By the matrices' numbers.
pub(super) fn uses(program: &Program, matrices: usize) -> Vec<Use> {
    let mut uses = vec![Use::default(); matrices];
    for op in program.all_ops().chain(&program.hidden.op) {
        match op {
            Op::Embed { table, .. } | Op::Pair { table, .. } => uses[table.index()].table = true,
            Op::Project { parts, .. } => {
                parts.iter().for_each(|part| uses[part.weight.index()].product = true);
            }
            Op::ProjectStreams { part, .. } => uses[part.weight.index()].product = true,
            Op::Route { router, .. } => uses[router.weight.index()].product = true,
            Op::Gated { gated, .. } => {
                [gated.gate, gated.up, gated.down].iter().for_each(|id| uses[id.index()].product = true);
            }
            Op::RopeAppend { .. }
            | Op::Attend { .. }
            | Op::Take { .. }
            | Op::Norm { .. }
            | Op::AddNorm { .. }
            | Op::Gate { .. }
            | Op::Absorb { .. }
            | Op::LatentAppend { .. }
            | Op::PerHead { .. }
            | Op::Delta { .. }
            | Op::Previous { .. }
            | Op::Carried { .. }
            | Op::Experts { .. }
            | Op::IndexAppend { .. }
            | Op::Select { .. }
            | Op::SharedAppend { .. }
            | Op::AttendPart { .. }
            | Op::Blend { .. }
            | Op::TurnBack { .. }
            | Op::Summarise { .. }
            | Op::SummaryAppend { .. }
            | Op::SelectEnds { .. }
            | Op::HyperLast { .. }
            | Op::StreamNorm { .. }
            | Op::ScaledSilu { .. }
            | Op::GatedMean { .. }
            | Op::Inject { .. }
            | Op::HyperRead { .. }
            | Op::HyperWrite { .. }
            | Op::StreamMean { .. }
            | Op::Ngrams { .. }
            | Op::NgramMix { .. }
            | Op::Copy { .. } => {}
        }
    }
    uses
}

/// What a stack is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StackUse {
    Nothing,
    Steps,
    /// Guesses alone: all of its experts are on the card wherever those of steps are.
    Guesses,
}

/// By the stacks' numbers.
pub(super) fn stack_uses(program: &Program, stacks: usize) -> Vec<StackUse> {
    let mut uses = vec![StackUse::Nothing; stacks];
    let guesses = program.draft.iter().flat_map(|draft| &draft.ops);
    let all =
        guesses.map(|op| (op, StackUse::Guesses)).chain(program.ops.iter().map(|op| (op, StackUse::Steps)));
    for (op, kind) in all {
        if let Op::Experts { experts, .. } = op {
            [experts.gate, experts.up, experts.down].iter().for_each(|id| uses[id.index()] = kind);
        }
    }
    uses
}

/// Bytes of a weight on the card.
pub(super) fn stored_bytes(packed: &Packed<'_>, product: bool) -> usize {
    if product && Pack::has_tiles(packed.format) {
        Pack::bytes(packed.format, packed.count, packed.rows, packed.cols)
    } else {
        packed.pieces.iter().map(|piece| piece.len()).sum()
    }
}

/// Copies everything to the card, and has the card's kernels compiled meanwhile.
pub(super) fn load(
    device: &Device,
    stream: &mut Stream,
    gguf: &Gguf,
    (program, weights, split): (&Program, &Weights, bool),
    progress: impl FnMut(Progress),
) -> Result<Stored, LoadError> {
    let mut pieces = Vec::new();
    let matrices: Vec<Packed<'_>> = weights.packed_matrices(gguf).collect();
    let stacks: Vec<Packed<'_>> = weights.packed_stacks(gguf).collect();
    let (mut products, mut tables, mut stack_memory) = (Vec::new(), Vec::new(), Vec::new());
    for (packed, needed) in matrices.iter().zip(uses(program, matrices.len())) {
        let mut place = |product| reserve(device, packed, product, &mut pieces);
        products.push(needed.product.then(|| place(true)).transpose()?);
        tables.push(needed.table.then(|| place(false)).transpose()?);
    }
    for (packed, needed) in stacks.iter().zip(stack_uses(program, stacks.len())) {
        // Experts that come and go have memory of their own.
        let is_here = match needed {
            StackUse::Nothing => false,
            StackUse::Steps => !split,
            StackUse::Guesses => true,
        };
        stack_memory.push(is_here.then(|| reserve(device, packed, true, &mut pieces)).transpose()?);
    }
    pump(device, &pieces, progress)?;
    let vectors = weights
        .vector_ids()
        .map(|id| {
            let mut values = weights.vector(gguf, id)?;
            if let Some(delta) = program.deltas.iter().find(|delta| delta.conv.contains(&id)) {
                values = by_tap(&values, delta.net.taps);
            }
            let mut convolutions = program.ngrams.iter().filter_map(|layer| layer.conv);
            if let Some(conv) = convolutions.find(|conv| conv.weights == id) {
                values = by_tap(&values, conv.taps);
            }
            let memory = device.alloc(values.len())?;
            stream.upload(&values, &memory.span())?;
            Ok(memory.span())
        })
        .collect::<Result<_, LoadError>>()?;
    let heads = weights
        .heads_ids()
        .map(|id| {
            let (count, rows, cols) = weights.heads_shape(id);
            let values = HeadWeights::pack(count, rows, cols, &weights.heads_values(gguf, id)?)?;
            let memory = device.alloc(values.len())?;
            stream.upload(&values, &memory.span())?;
            Ok(HeadWeights::new(count, rows, cols, memory.span())?)
        })
        .collect::<Result<_, LoadError>>()?;
    let numbers = weights
        .numbers_ids()
        .map(|id| {
            let memory = device.alloc(weights.numbers(id).len())?;
            stream.upload(weights.numbers(id), &memory.span())?;
            Ok(memory.span())
        })
        .collect::<Result<_, LoadError>>()?;
    let matrix = |product| {
        move |(packed, memory): (&Packed<'_>, Option<Buffer<u8>>)| {
            memory.map(|memory| matrix(packed, product, memory.span())).transpose()
        }
    };
    Ok(Stored {
        matrices: matrices.iter().zip(products).map(matrix(true)).collect::<Result<_, _>>()?,
        tables: matrices.iter().zip(tables).map(matrix(false)).collect::<Result<_, _>>()?,
        stacks: stacks
            .iter()
            .zip(stack_memory)
            .map(|(packed, memory)| memory.map(|memory| stack(packed, memory.span())).transpose())
            .collect::<Result<_, _>>()?,
        heads,
        vectors,
        numbers,
    })
}

/// `[channels][taps]` as `[taps][channels]`.
fn by_tap(values: &[f32], taps: usize) -> Vec<f32> {
    (0..taps).flat_map(|tap| values.chunks(taps).map(move |channel| channel[tap])).collect()
}

/// Memory for a weight; what has to be copied there is added to `pieces`.
fn reserve<'g>(
    device: &Device,
    packed: &Packed<'g>,
    product: bool,
    pieces: &mut Vec<Piece<'g>>,
) -> Result<Buffer<u8>, CudaError> {
    let memory = device.alloc(stored_bytes(packed, product))?;
    let tiled = product && Pack::has_tiles(packed.format);
    // Matrices of whole tiles one after the other are one matrix.
    let whole = packed.rows.is_multiple_of(TILE_ROWS);
    let each = packed.pieces.iter().map(|piece| piece.len()).sum::<usize>() / packed.count;
    let mut start = 0;
    for piece in &packed.pieces {
        let parts = if tiled && !whole { piece.chunks(each) } else { piece.chunks(piece.len().max(1)) };
        for bytes in parts {
            let (format, cols) = (packed.format, packed.cols);
            let rows = bytes.len() / (cols / format.block_len() * format.block_bytes());
            let len = if tiled { Pack::bytes(format, 1, rows, cols) } else { bytes.len() };
            let tiles = tiled.then_some(Rows { format, cols });
            pieces.push(Piece { bytes, to: memory.slice(start..start + len)?, tiles });
            start += len;
        }
    }
    Ok(memory)
}

/// A matrix whose bytes have arrived.
fn matrix(packed: &Packed<'_>, product: bool, memory: Span<u8>) -> Result<Weight, CudaError> {
    let Packed { format, rows, cols, .. } = *packed;
    match product && Pack::has_tiles(format) {
        true => Weight::tiles(format, rows, cols, memory),
        false => Weight::new(format, rows, cols, memory),
    }
}

/// A stack whose bytes have arrived.
fn stack(packed: &Packed<'_>, memory: Span<u8>) -> Result<WeightStack, CudaError> {
    let Packed { format, count, rows, cols, .. } = *packed;
    match Pack::has_tiles(format) {
        true => WeightStack::tiles(format, count, rows, cols, memory),
        false => WeightStack::new(format, count, rows, cols, memory),
    }
}
