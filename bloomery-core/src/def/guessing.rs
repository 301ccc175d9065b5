//! What guesses the next tokens from what the model knows of those before.

use super::Layer;

/// What guesses tokens.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Guessing {
    /// One at a time, each from the one before.
    Next(Box<NextToken>),
    /// Several at once.
    Spark(Spark),
}

/// A block that guesses the token after the next from a row's normed hidden state, or its streams, and the next token: multi-token
/// prediction (DeepSeek-V3, 2024). Its keys and values are those of the token it is given.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct NextToken {
    /// Number of its layer in the file.
    pub block: usize,
    /// Attention and feed-forward part, whose input is a product of the normed embedding and the normed state, in this order.
    pub layer: Layer,
}

/// Layers that guess a block of tokens in one pass (DSpark of DeepSeek-V4.1, 2026): its first row is the newest token, the others
/// have the embedding of a token that stands for what is not known. All rows see each other, and keys of earlier positions that are made
/// of the model's own residual. What a row says of its next token is corrected by the token that the row before chose.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Spark {
    /// Attention to a window and a feed-forward part each. In the file they come after the model's.
    pub layers: Vec<Layer>,
    /// Layers of the model: the means over streams of what goes into them, side by side, make the keys.
    pub sources: Vec<usize>,
    /// Rows of the block.
    pub width: usize,
    /// The token that stands for what is not known.
    pub mask: u32,
}
