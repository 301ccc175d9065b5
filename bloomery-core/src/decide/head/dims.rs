//! The sizes of a head, and the tensors that they imply.

use super::super::json::Json;
use super::error::HeadError;

/// Sizes of a joint schema head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dims {
    /// Width of the hidden states it reads.
    pub(crate) hidden: usize,
    pub(crate) width: usize,
    pub(crate) feed_forward: usize,
    pub(crate) heads: usize,
    /// Layers in which options look at the prompt.
    pub(crate) routing: usize,
    /// Layers in which questions look at each other and at the prompt.
    pub(crate) decoder: usize,
}

/// Beyond this a size is taken for a broken file.
const LARGEST: usize = 1 << 20;
/// The same for numbers of layers.
const MOST_LAYERS: usize = 256;

impl Dims {
    /// From the configuration beside a head's weights.
    pub(super) fn read(config: &Json) -> Result<Self, HeadError> {
        const KEYS: [&str; 6] = ["hidden_size", "width", "routing_layers", "layers", "heads", "feedforward"];
        let wrong = |key: &str, why: &str| HeadError::Config { key: key.to_owned(), why: why.to_owned() };
        let Json::Object(pairs) = config else { return Err(wrong("configuration", "it is no object")) };
        // Training's own.
        let unknown = pairs.iter().find(|(key, _)| !KEYS.contains(&key.as_str()) && key != "dropout");
        if let Some((key, _)) = unknown {
            return Err(wrong(key, "unknown"));
        }
        let number = |key: &str| match config.get(key) {
            None => Err(wrong(key, "missing")),
            Some(Json::Integer(digits)) => digits.parse().map_err(|_| wrong(key, "it is no size")),
            Some(_) => Err(wrong(key, "it is no integer")),
        };
        Self {
            hidden: number("hidden_size")?,
            width: number("width")?,
            feed_forward: number("feedforward")?,
            heads: number("heads")?,
            routing: number("routing_layers")?,
            decoder: number("layers")?,
        }
        .checked()
    }

    /// Refuses what no head has.
    pub(super) fn checked(self) -> Result<Self, HeadError> {
        let wrong = |key: &str, value: usize, why: &str| {
            Err(HeadError::Config { key: key.to_owned(), why: format!("{value}: {why}") })
        };
        for (key, size) in [
            ("hidden size", self.hidden),
            ("width", self.width),
            ("feedforward", self.feed_forward),
            ("heads", self.heads),
        ] {
            if !(1..=LARGEST).contains(&size) {
                return wrong(key, size, "it is not between 1 and 1048576");
            }
        }
        for (key, layers) in [("routing layers", self.routing), ("layers", self.decoder)] {
            if layers > MOST_LAYERS {
                return wrong(key, layers, "more than 256");
            }
        }
        if !self.width.is_multiple_of(self.heads) {
            return wrong("heads", self.heads, "it does not divide the width");
        }
        Ok(self)
    }

    /// Values of one attention head.
    pub(crate) fn head(&self) -> usize {
        self.width / self.heads
    }

    /// Every tensor by the name it has in a one-file model, with its shape as rows and columns.
    pub(crate) fn tensors(&self) -> Vec<(String, Vec<usize>)> {
        let Self { hidden: h, width: w, feed_forward: f, .. } = *self;
        let mut all = Vec::new();
        let mut add = |name: &str, shape: &[usize]| all.push((name.to_owned(), shape.to_vec()));
        let both = |add: &mut dyn FnMut(&str, &[usize]), name: &str, rows: &[usize]| {
            add(&format!("{name}.weight"), rows);
            add(&format!("{name}.bias"), &rows[..1]);
        };
        both(&mut add, "decision.hidden_norm", &[h]);
        for part in ["memory", "question", "option_question", "global", "option_context", "option_lexical"] {
            add(&format!("decision.proj_{part}.weight"), &[w, h]);
        }
        add("token_types.weight", &[3, w]);
        for norm in ["option_summary_norm", "field_norm", "option_norm"] {
            both(&mut add, &format!("decision.{norm}"), &[w]);
        }
        both(&mut add, "decision.scorer", &[w, 4 * w]);
        both(&mut add, "decision.scorer_out", &[1, w]);
        add("decision.scales", &[3]);
        for layer in 0..self.routing + self.decoder {
            let block = format!("dec.blk.{layer}");
            let (norms, attentions): (&[&str], &[&str]) = match layer < self.routing {
                true => (&["cross_attn_norm", "cross_attn_norm_kv", "ffn_norm"], &["cross_attn"]),
                false => (&["attn_norm", "cross_attn_norm", "ffn_norm"], &["attn", "cross_attn"]),
            };
            for norm in norms {
                both(&mut add, &format!("{block}.{norm}"), &[w]);
            }
            for attention in attentions {
                for part in ["q", "k", "v", "o"] {
                    both(&mut add, &format!("{block}.{attention}_{part}"), &[w, w]);
                }
            }
            both(&mut add, &format!("{block}.ffn_up"), &[f, w]);
            both(&mut add, &format!("{block}.ffn_down"), &[w, f]);
        }
        all
    }

    /// Values in all tensors.
    pub(crate) fn parameters(&self) -> u64 {
        self.tensors().iter().map(|(_, shape)| shape.iter().map(|&size| size as u64).product::<u64>()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_head_has_its_size() {
        let config = r#"{"hidden_size":4096,"width":1024,"routing_layers":2,"layers":4,"heads":16,"feedforward":4096,"dropout":0.1}"#;
        let dims = Dims::read(&Json::parse(config).unwrap()).unwrap();
        // Counted from the release's own class.
        assert_eq!(dims.parameters(), 121_762_820);
    }

    #[test]
    fn a_wrong_configuration_is_named() {
        let config = |change: &str| {
            let text =
                r#"{"hidden_size":64,"width":32,"routing_layers":2,"layers":2,"heads":4,"feedforward":48}"#;
            let (from, to) = change.split_once(" -> ").unwrap();
            Dims::read(&Json::parse(&text.replace(from, to)).unwrap()).unwrap_err().to_string()
        };
        for (change, wanted) in [
            ("\"heads\":4, -> ", "decision head: heads: missing"),
            ("\"heads\" -> \"beams\":1,\"heads\"", "decision head: beams: unknown"),
            ("\"heads\":4 -> \"heads\":5", "heads: 5: it does not divide the width"),
            ("\"heads\":4 -> \"heads\":0", "heads: 0: it is not between 1 and"),
            ("\"width\":32 -> \"width\":32.0", "width: it is no integer"),
            ("\"width\":32 -> \"width\":-32", "width: it is no size"),
            ("\"layers\":2, -> \"layers\":4000000000,", "layers: 4000000000: more than 256"),
            ("\"feedforward\":48 -> \"feedforward\":99999999999999999999", "feedforward: it is no size"),
        ] {
            assert!(config(change).contains(wanted), "{}: {}", change, config(change));
        }
    }
}
