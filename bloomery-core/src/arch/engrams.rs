//! The keys of engrams.

use super::decoder::Keys;
use crate::def::{NgramKind, Ngrams};
use crate::error::LoadError;

impl Keys<'_> {
    /// A table of n-grams of folded tokens at each of some layers.
    pub(super) fn engrams(&self, count: usize) -> Result<Vec<Ngrams>, LoadError> {
        let values = self.values();
        let Some(layers) = values.opt_u32s("engram.layer_ids")? else { return Ok(Vec::new()) };
        // Names in the wild, the first one where there is none.
        let named =
            |names: [&'static str; 2]| if values.get(names[1]).is_some() { names[1] } else { names[0] };
        let longest = self.positive("engram.max_ngram_size")?;
        let each = self.positive(named(["engram.head_count", "engram.n_heads"]))?;
        let width = self.positive(named(["engram.key_length", "engram.head_dim"]))?;
        let boundary = values.u32(named(["engram.pad_id", "engram.pad_token_id"]))?;
        let folded = values.u32s("engram.token_map")?;
        let heads = longest.saturating_sub(1) * each;
        let of_sites = |key: &'static str, each: usize| {
            let all = values.u64s(key)?;
            if each == 0 || all.len() != layers.len() * each {
                let found = format!("{} values for {} layers", all.len(), layers.len());
                return Err(self.unsupported(
                    key,
                    found,
                    "one for each token or head of an n-gram, layer by layer",
                ));
            }
            Ok(all)
        };
        let multipliers = of_sites("engram.multipliers", longest)?;
        let (sizes, starts) = (of_sites("engram.primes", heads)?, of_sites("engram.offsets", heads)?);
        if sizes.contains(&0) {
            return Err(self.unsupported("engram.primes", 0, "positive numbers"));
        }
        let site = |(site, &layer): (usize, &u32)| {
            if layer as usize >= count {
                return Err(self.unsupported("engram.layer_ids", layer, "layers of the model"));
            }
            let of_heads = site * heads..(site + 1) * heads;
            Ok(Ngrams {
                layer: layer as usize,
                width,
                multipliers: multipliers[site * longest..(site + 1) * longest].to_vec(),
                heads: starts[of_heads.clone()]
                    .iter()
                    .copied()
                    .zip(sizes[of_heads].iter().copied())
                    .collect(),
                boundary,
                cuts: false,
                folded: Some(folded.clone()),
                kind: NgramKind::Engram,
            })
        };
        layers.iter().enumerate().map(site).collect()
    }
}
