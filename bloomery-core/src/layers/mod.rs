//! Definitions into programs: one file per kind of layer.

mod ffn;
mod gqa;

use std::collections::HashMap;

use bloomery_gguf::Gguf;

use crate::def::{Ffn, Mixer, ModelDef, Norm};
use crate::error::LoadError;
use crate::program::{Attention, AttentionId, Buffer, Gain, Hidden, Op, Program, Projection, Rows};
use crate::weights::{Binder, Weights};

/// Turns a definition into a program over the file's tensors.
pub(crate) fn compile(def: &ModelDef, gguf: &Gguf) -> Result<(Program, Weights), LoadError> {
    let mut builder = Builder::new(gguf);
    let table = builder.bind.matrix("token_embd.weight", def.vocab, def.hidden)?;
    let mut x = builder.buffer("x", def.hidden, Rows::All);
    builder.push(Op::Embed { table, out: x });
    for (index, layer) in def.layers.iter().enumerate() {
        let scope = Scope { index, hidden: def.hidden, last: index + 1 == def.layers.len() };
        let norm = builder.gain(&scope.tensor("attn_norm.weight"), layer.norm, def.hidden)?;
        x = match &layer.mixer {
            Mixer::Gqa(gqa) => gqa::emit(&mut builder, &scope, gqa, norm, x)?,
        };
        let norm = builder.gain(&scope.tensor("ffn_norm.weight"), layer.norm, def.hidden)?;
        match &layer.ffn {
            Ffn::Dense(dense) => ffn::dense(&mut builder, &scope, dense, norm, x)?,
            Ffn::Moe(moe) => ffn::routed(&mut builder, &scope, moe, norm, x)?,
        }
    }
    let norm = builder.gain("output_norm.weight", def.norm, def.hidden)?;
    // A file without a head of its own ties it to the embedding.
    let weight = match builder.bind.has("output.weight") {
        true => builder.bind.matrix("output.weight", def.vocab, def.hidden)?,
        false => table,
    };
    let bias = builder.bind.bias(def.head_bias, "output.bias", def.vocab)?;
    let logits = builder.buffer("logits", def.vocab, Rows::Outputs);
    let head = Projection { weight, bias, out: logits, accumulate: false };
    builder.push(Op::Project { x, norm: Some(norm), parts: vec![head] });
    let hidden = builder.buffer("hidden", def.hidden, Rows::Outputs);
    let states = Hidden { op: Op::Norm { x, norm, out: hidden }, buffer: hidden };
    builder.finish(&def.architecture, logits, states)
}

/// Where in the model a layer is.
struct Scope {
    index: usize,
    hidden: usize,
    last: bool,
}

impl Scope {
    fn tensor(&self, name: &str) -> String {
        format!("blk.{}.{name}", self.index)
    }
}

/// Collects ops; buffers are shared by all layers through their names.
struct Builder<'g> {
    bind: Binder<'g>,
    ops: Vec<Op>,
    buffers: Vec<Buffer>,
    names: HashMap<(&'static str, usize, Rows), Buffer>,
    attentions: Vec<Attention>,
}

impl<'g> Builder<'g> {
    fn new(gguf: &'g Gguf) -> Self {
        Self {
            bind: Binder::new(gguf),
            ops: Vec::new(),
            buffers: Vec::new(),
            names: HashMap::new(),
            attentions: Vec::new(),
        }
    }

    fn push(&mut self, op: Op) {
        self.ops.push(op);
    }

    /// The buffer of this name, width and kind of rows; the same one for every layer.
    fn buffer(&mut self, name: &'static str, cols: usize, rows: Rows) -> Buffer {
        let buffers = &mut self.buffers;
        *self.names.entry((name, cols, rows)).or_insert_with(|| {
            let buffer = Buffer { index: buffers.len(), cols, rows };
            buffers.push(buffer);
            buffer
        })
    }

    fn gain(&mut self, name: &str, norm: Norm, len: usize) -> Result<Gain, LoadError> {
        Ok(Gain { norm, gain: self.bind.vector(name, len)? })
    }

    fn attention(&mut self, attention: Attention) -> AttentionId {
        self.attentions.push(attention);
        AttentionId(self.attentions.len() - 1)
    }

    /// From here on only the rows whose logits are wanted.
    fn take(&mut self, from: Buffer, name: &'static str) -> Buffer {
        let to = self.buffer(name, from.cols, Rows::Outputs);
        self.push(Op::Take { from, to });
        to
    }

    fn finish(
        self,
        architecture: &str,
        logits: Buffer,
        hidden: Hidden,
    ) -> Result<(Program, Weights), LoadError> {
        let weights = self.bind.finish(architecture)?;
        let program =
            Program { ops: self.ops, buffers: self.buffers, attentions: self.attentions, logits, hidden };
        Ok((program, weights))
    }
}
