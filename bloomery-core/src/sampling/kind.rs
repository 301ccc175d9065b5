//! The samplers a chain is made of, by name and letter.

/// One step of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SamplerKind {
    /// Repetition, frequency and presence penalties.
    Penalties,
    /// DRY: penalises a token that would extend a repeated sequence.
    Dry,
    /// Keeps logits within n standard deviations of the largest.
    TopNSigma,
    /// Keeps the k largest logits.
    TopK,
    /// Locally typical sampling.
    TypicalP,
    /// Nucleus sampling.
    TopP,
    /// Keeps tokens at least p times as probable as the best one.
    MinP,
    /// XTC: sometimes excludes all but the least probable of the good tokens.
    Xtc,
    /// Temperature, fixed or following the entropy.
    Temperature,
    /// Replaces the final draw, wherever it is listed: aims at tokens near a target probability.
    AdaptiveP,
}

/// (kind, name, letter)
const TABLE: [(SamplerKind, &str, char); 10] = {
    use SamplerKind::*;
    [
        (Penalties, "penalties", 'e'),
        (Dry, "dry", 'd'),
        (TopNSigma, "top_n_sigma", 's'),
        (TopK, "top_k", 'k'),
        (TypicalP, "typ_p", 'y'),
        (TopP, "top_p", 'p'),
        (MinP, "min_p", 'm'),
        (Xtc, "xtc", 'x'),
        (Temperature, "temperature", 't'),
        (AdaptiveP, "adaptive_p", 'a'),
    ]
};

impl SamplerKind {
    /// The default order; everything but `AdaptiveP`.
    pub const DEFAULT_ORDER: [Self; 9] = {
        let mut order = [Self::Penalties; 9];
        let mut i = 0;
        while i < order.len() {
            order[i] = TABLE[i].0;
            i += 1;
        }
        order
    };

    /// By name, whatever its case: `top_k`, `top-k`, `topk`; also `nucleus`, `temp`, `typ`.
    pub fn from_name(name: &str) -> Option<Self> {
        let plain = |s: &str| s.replace(['_', '-'], "").to_ascii_lowercase();
        match plain(name).as_str() {
            "nucleus" => Some(Self::TopP),
            "temp" => Some(Self::Temperature),
            "typ" => Some(Self::TypicalP),
            wanted => TABLE.iter().find(|row| plain(row.1) == wanted).map(|row| row.0),
        }
    }

    /// By the letter of a sequence such as `edskypmxt`.
    pub fn from_letter(letter: char) -> Option<Self> {
        TABLE.iter().find(|row| row.2 == letter).map(|row| row.0)
    }

    /// The canonical name, as `generation_settings` shows it.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The letter of the short form.
    pub fn letter(self) -> char {
        self.row().2
    }

    fn row(self) -> &'static (Self, &'static str, char) {
        TABLE.iter().find(|row| row.0 == self).expect("TABLE has a row for every kind")
    }
}
