//! What can be wrong with a grammar or a schema.

/// A grammar or a schema that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GrammarError {
    /// GBNF that cannot be read.
    #[error("grammar, line {line}, column {column}: expected {expected}, found {found}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// What may stand there.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// A rule is used and not defined.
    #[error("grammar, line {line}, column {column}: rule `{name}` is not defined")]
    UndefinedRule {
        /// Its name.
        name: String,
        /// Line of its first use, from 1.
        line: usize,
        /// Column of its first use, from 1.
        column: usize,
    },
    /// There is no rule to begin with.
    #[error("grammar: there is no rule `root`")]
    NoRoot,
    /// A rule can never come to an end.
    #[error("grammar: rule `{name}` matches no finite text")]
    Endless {
        /// Its name.
        name: String,
    },
    /// A repetition, or repetitions inside each other, beyond what is sane.
    #[error("grammar, rule `{rule}`: {count} repetitions, at most {limit} are allowed")]
    Repetition {
        /// The rule it is in.
        rule: String,
        /// How many.
        count: u64,
        /// Most that are allowed.
        limit: u64,
    },
    /// A token literal that is no token of the vocabulary.
    #[error("grammar, line {line}, column {column}: `{token}` is not one token of the vocabulary")]
    UnknownToken {
        /// How it is written.
        token: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// A JSON schema with a keyword that means nothing, or that no value fits.
    #[error("schema, at {path}: {message}")]
    Schema {
        /// Where, as a JSON pointer after `#`.
        path: String,
        /// What is wrong.
        message: String,
    },
    /// A reference that leads nowhere, or out of the schema.
    #[error("schema, at {path}: $ref {reference:?} does not lead into this schema")]
    Reference {
        /// Where it is used, as a JSON pointer after `#`.
        path: String,
        /// The reference.
        reference: String,
    },
    /// A part of a description is bigger than what is compiled.
    #[error("{what}: {size}, at most {limit} are allowed")]
    TooLarge {
        /// What is counted.
        what: &'static str,
        /// How many there are.
        size: usize,
        /// Most that are allowed.
        limit: usize,
    },
    /// The description is understood, and its grammar cannot be built.
    #[error("{kind}: {message}")]
    Unusable {
        /// What was described: a schema, a regular expression, a grammar.
        kind: &'static str,
        /// Why not.
        message: String,
    },
    /// A text that a constraint needs is missing, or the vocabulary cannot express it.
    #[error("{what} {text:?} cannot be used: {message}")]
    Text {
        /// What it is for.
        what: &'static str,
        /// The text.
        text: String,
        /// Why not.
        message: String,
    },
}
