//! Definitions into programs: one file per kind of layer.

mod delta;
mod draft;
mod ffn;
mod gqa;
mod index;
mod kda;
mod mla;
mod ngrams;
mod spark;
mod streams;
mod windowed;

use std::collections::HashMap;

use bloomery_gguf::Gguf;

use crate::def::{Decay, Ffn, Guessing, Mixer, Mixing, ModelDef, Norm, Reading};
use crate::error::LoadError;
use crate::program::{
    Attention, AttentionId, Buffer, Delta, DeltaId, Draft, Gain, Group, GroupId, Hidden, Index, IndexId,
    NgramId, NgramLayer, Op, Program, Projection, Rows,
};
use crate::weights::{Binder, MatrixId, VectorId, Weights};

/// Turns a definition into a program over the file's tensors.
pub(crate) fn compile(def: &ModelDef, gguf: &Gguf) -> Result<(Program, Weights), LoadError> {
    let mut builder = Builder::new(gguf);
    let table = builder.bind.matrix("token_embd.weight", def.vocab, def.hidden)?;
    let copies = def.streams.map_or(1, |streams| streams.count);
    let mut x = builder.buffer("x", copies * def.hidden, Rows::All);
    builder.push(Op::Embed { table, scale: def.embedding_scale, copies, out: x });
    let (next, spark) = match &def.draft {
        // Files may count a block that they do not have.
        Some(Guessing::Next(next)) => (Some(next).filter(|next| draft::is_there(&builder, next)), None),
        Some(Guessing::Spark(layers)) => (None, Some(layers)),
        None => (None, None),
    };
    // What goes into every layer, and where.
    let mut inputs = Vec::new();
    for (index, layer) in def.layers.iter().enumerate() {
        inputs.push((builder.ops.len(), x));
        // A block for the next token wants every row.
        let last = index + 1 == def.layers.len() && next.is_none();
        let scope = Scope { index, first: index == 0, last, ..Scope::of(def) };
        x = match &def.streams {
            Some(streams) => streams::layer(&mut builder, def, streams, scope, x)?,
            None => {
                let join = if layer.post_norms { Join::Norm(layer.norm) } else { Join::Add };
                let scope = Scope { join, ..scope };
                let norm = builder.gain(&scope.tensor("attn_norm.weight"), layer.norm, def.hidden)?;
                let x = mixer(&mut builder, &scope, &layer.mixer, Some(norm), x)?;
                let name = format!("{}.weight", layer.ffn_norm);
                let norm = builder.gain(&scope.tensor(&name), layer.norm, def.hidden)?;
                feed_forward(&mut builder, &scope, &layer.ffn, Some(norm), x)?;
                x
            }
        };
    }
    builder.shared.check(def)?;
    // A file without a head of its own ties it to the embedding.
    let weight = match builder.bind.has("output.weight") {
        true => builder.bind.matrix("output.weight", def.vocab, def.hidden)?,
        false => table,
    };
    let bias = builder.bind.bias(def.head_bias, "output.bias", def.vocab)?;
    let logits = builder.buffer("logits", def.vocab, Rows::Outputs);
    // A block that guesses from all streams comes before they are mixed.
    let wide = def.streams.filter(|streams| is_wide(&streams.mixing));
    let mut draft = None;
    if let (Some(streams), Some(next)) = (wide, next) {
        let trunk = draft::Trunk { table, head: weight, x, logits };
        draft = Some(draft::emit_streams(&mut builder, def, (next, &streams), trunk)?);
        x = builder.take(x, "x");
    }
    let (mut x, norm) = match &def.streams {
        Some(streams) => streams::head(&mut builder, def, streams, ("output_hc", x))?,
        None => (x, Some(builder.gain("output_norm.weight", def.norm, def.hidden)?)),
    };
    if let (Some(next), Some(norm)) = (next.filter(|_| draft.is_none()), norm) {
        let trunk = draft::Trunk { table, head: weight, x, logits };
        draft = Some(draft::emit(&mut builder, def, next, (trunk, norm))?);
        x = builder.take(x, "x");
    }
    let head = Projection { weight, bias, out: logits, accumulate: false };
    builder.push(Op::Project { x, norm, parts: vec![head] });
    if let (Some(layers), Some(streams)) = (spark, &def.streams) {
        let trunk = spark::Trunk { table, head, inputs: &inputs };
        draft = Some(spark::emit(&mut builder, def, (layers, streams), trunk)?);
    }
    let hidden = match norm {
        Some(norm) => {
            let buffer = builder.buffer("hidden", def.hidden, Rows::Outputs);
            Hidden { op: Some(Op::Norm { x, norm, out: buffer }), buffer }
        }
        None => Hidden { op: None, buffer: x },
    };
    builder.finish(def, logits, hidden, draft)
}

/// Whether a block for the next tokens goes on from all streams.
fn is_wide(mixing: &Mixing) -> bool {
    match mixing {
        Mixing::Gated { .. } => true,
        Mixing::Hyper { reading, .. } => *reading == Reading::OwnAndHead,
    }
}

/// Emits a mixer and returns the residual to go on with.
fn mixer(
    builder: &mut Builder<'_>,
    scope: &Scope,
    mixer: &Mixer,
    norm: Option<Gain>,
    x: Buffer,
) -> Result<Buffer, LoadError> {
    match mixer {
        Mixer::Gqa(gqa) => gqa::emit(builder, scope, gqa, norm, x),
        Mixer::Mla(mla) => mla::emit(builder, scope, mla, norm, x),
        Mixer::Delta(net) => match net.decay {
            Decay::Head => delta::emit(builder, scope, net, norm, x),
            Decay::Channel { .. } => kda::emit(builder, scope, net, norm, x),
        },
        Mixer::Windowed(windowed) => windowed::emit(builder, scope, windowed, norm, x),
    }
}

fn feed_forward(
    builder: &mut Builder<'_>,
    scope: &Scope,
    part: &Ffn,
    norm: Option<Gain>,
    x: Buffer,
) -> Result<(), LoadError> {
    match part {
        Ffn::Dense(dense) => ffn::dense(builder, scope, dense, norm, x),
        Ffn::Moe(moe) => ffn::routed(builder, scope, moe, norm, x),
    }
}

/// Where in the model a layer is.
#[derive(Clone, Copy)]
struct Scope {
    index: usize,
    hidden: usize,
    /// Whether nothing has written to the residual's streams yet.
    first: bool,
    /// Whether only rows whose logits are wanted go on.
    last: bool,
    join: Join,
}

/// What becomes of what the mixer and the feed-forward part return.
#[derive(Clone, Copy)]
enum Join {
    /// It is added to the residual.
    Add,
    /// The same after a norm.
    Norm(Norm),
    /// It goes to streams, of which the part's input is a mixture.
    Streams(streams::Site),
}

impl Scope {
    /// Somewhere in the middle.
    fn of(def: &ModelDef) -> Self {
        Self { index: 0, hidden: def.hidden, first: false, last: false, join: Join::Add }
    }

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
    deltas: Vec<Delta>,
    indexes: Vec<Index>,
    groups: Vec<Group>,
    ngrams: Vec<NgramLayer>,
    /// What layers share with later ones.
    shared: windowed::Shared,
}

impl<'g> Builder<'g> {
    fn new(gguf: &'g Gguf) -> Self {
        Self {
            bind: Binder::new(gguf),
            ops: Vec::new(),
            buffers: Vec::new(),
            names: HashMap::new(),
            attentions: Vec::new(),
            deltas: Vec::new(),
            indexes: Vec::new(),
            groups: Vec::new(),
            ngrams: Vec::new(),
            shared: windowed::Shared::default(),
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

    fn delta(&mut self, delta: Delta) -> DeltaId {
        self.deltas.push(delta);
        DeltaId(self.deltas.len() - 1)
    }

    fn index(&mut self, index: Index) -> IndexId {
        self.indexes.push(index);
        IndexId(self.indexes.len() - 1)
    }

    fn group(&mut self, group: Group) -> GroupId {
        self.groups.push(group);
        GroupId(self.groups.len() - 1)
    }

    fn ngrams(&mut self, layer: NgramLayer) -> NgramId {
        self.ngrams.push(layer);
        NgramId(self.ngrams.len() - 1)
    }

    /// The end of a mixer: `x += W out`, in the last layer for the rows whose logits are wanted. Returns the residual to go on with.
    fn mixed(
        &mut self,
        scope: &Scope,
        (mut out, name): (Buffer, &'static str),
        (weight, bias): (MatrixId, Option<VectorId>),
        mut x: Buffer,
    ) -> Result<Buffer, LoadError> {
        if scope.last {
            out = self.take(out, name);
            x = self.take(x, "x");
        }
        let (to, accumulate) = self.branch(scope, x);
        let part = Projection { weight, bias, out: to, accumulate };
        self.push(Op::Project { x: out, norm: None, parts: vec![part] });
        self.rejoin(scope, "post_attention_norm.weight", to, x)?;
        Ok(x)
    }

    /// Where a part of a layer writes to, and whether it adds: the residual itself, unless there is something between.
    fn branch(&mut self, scope: &Scope, x: Buffer) -> (Buffer, bool) {
        match scope.join {
            Join::Add => (x, true),
            Join::Norm(_) | Join::Streams(_) => (self.buffer("branch", scope.hidden, x.rows), false),
        }
    }

    /// Adds what [`branch`](Self::branch) gave to the residual, where it is not there yet.
    fn rejoin(&mut self, scope: &Scope, name: &str, branch: Buffer, x: Buffer) -> Result<(), LoadError> {
        match scope.join {
            Join::Add => {}
            Join::Norm(norm) => {
                let norm = self.gain(&scope.tensor(name), norm, scope.hidden)?;
                self.push(Op::AddNorm { x: branch, norm, out: x });
            }
            Join::Streams(site) => self.push(site.write(branch)),
        }
        Ok(())
    }

    /// From here on only the rows whose logits are wanted.
    fn take(&mut self, from: Buffer, name: &'static str) -> Buffer {
        let to = self.buffer(name, from.cols, Rows::Outputs);
        self.push(Op::Take { from, to });
        to
    }

    fn finish(
        self,
        def: &ModelDef,
        logits: Buffer,
        hidden: Hidden,
        draft: Option<Draft>,
    ) -> Result<(Program, Weights), LoadError> {
        let mut reserved = def.reserved.clone();
        if let Some(Guessing::Next(next)) = def.draft.as_ref().filter(|_| draft.is_none()) {
            reserved.push(format!("blk.{}.", next.block));
        }
        let weights = self.bind.finish(&def.architecture, &reserved)?;
        let Self { ops, buffers, attentions, deltas, indexes, groups, ngrams, .. } = self;
        let program =
            Program { ops, buffers, attentions, deltas, indexes, groups, ngrams, logits, hidden, draft };
        Ok((program, weights))
    }
}
