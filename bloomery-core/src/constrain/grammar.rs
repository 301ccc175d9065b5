//! What a text has to look like, before any vocabulary is involved.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde_json::Value;

/// What a text has to look like. Cloning is cheap. Nothing is checked before
/// [`Engine::constraint`](crate::Engine::constraint) compiles it; what was compiled is kept there.
///
/// ```
/// use bloomery_core::constrain::Grammar;
/// use bloomery_core::{Engine, ModelSource};
/// use serde_json::json;
///
/// let engine = Engine::builder(ModelSource::demo()).plan()?.load(|_| {})?;
/// let animal = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
/// assert!(engine.constraint(&Grammar::json_schema(&animal)).is_ok());
/// let wrong = engine.constraint(&Grammar::json_schema(&json!({"type": "hiccup"}))).unwrap_err();
/// assert_eq!(wrong.to_string(), "schema, at #: type \"hiccup\" is none of null, boolean, integer, number, string, array, object");
/// # Ok::<(), bloomery_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Grammar(Arc<Described>);

#[derive(Debug)]
struct Described {
    source: Source,
    hash: u64,
}

/// The kinds of descriptions. Schemas are kept as text: the order of keys counts, which values ignore.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) enum Source {
    Schema { text: String, lenient: bool },
    TooDeep { lenient: bool },
    Gbnf(String),
    Regex(String),
    Lark(String),
}

impl Grammar {
    /// A value that fits a JSON schema. Objects are closed where `additionalProperties` is not given beside
    /// `properties`; an empty schema is any object. Keywords without a meaning here are ignored; a type that does not
    /// exist, a pattern that cannot be compiled or a reference that leads nowhere is an error.
    #[must_use]
    pub fn json_schema(schema: &Value) -> Grammar {
        Grammar::schema(schema, false)
    }

    /// As [`json_schema`](Self::json_schema), and whatever cannot be used is replaced by something wider: a pattern with
    /// lookahead by any string, an unknown type by any value. For schemas that others wrote, such as parameters of
    /// tools.
    #[must_use]
    pub fn lenient(schema: &Value) -> Grammar {
        Grammar::schema(schema, true)
    }

    /// Any JSON object.
    #[must_use]
    pub fn json_object() -> Grammar {
        Grammar::new(Source::Schema { text: r#"{"type":"object"}"#.to_owned(), lenient: false })
    }

    /// llama.cpp's grammar notation: rules `name ::= ...`, beginning with the rule `root`.
    ///
    /// ```
    /// # use bloomery_core::{Engine, ModelSource};
    /// use bloomery_core::constrain::Grammar;
    ///
    /// # let engine = Engine::builder(ModelSource::demo()).plan()?.load(|_| {})?;
    /// assert!(engine.constraint(&Grammar::gbnf(r#"root ::= ("yes" | "no") "."?"#)).is_ok());
    /// let error = engine.constraint(&Grammar::gbnf("root ::= \"yes\" |\n  answer")).unwrap_err();
    /// assert_eq!(error.to_string(), "grammar, line 2, column 3: rule `answer` is not defined");
    /// # Ok::<(), bloomery_core::Error>(())
    /// ```
    #[must_use]
    pub fn gbnf(text: impl Into<String>) -> Grammar {
        Grammar::new(Source::Gbnf(text.into()))
    }

    /// A regular expression that the whole text matches. The syntax is that of the `regex` crate, without boundaries
    /// and without anchors inside.
    #[must_use]
    pub fn regex(text: impl Into<String>) -> Grammar {
        Grammar::new(Source::Regex(text.into()))
    }

    /// A grammar in the Lark dialect of `llguidance`, beginning with the rule `start`. `<[7]>` is the token 7, `<name>`
    /// a control token; a token that is text, such as a user-defined one, is written as that text. Every schema
    /// embedded with `%json` is treated as by [`lenient`](Self::lenient), except that `{}` is any value there. No space
    /// stands before or after its value.
    #[must_use]
    pub fn lark(text: impl Into<String>) -> Grammar {
        Grammar::new(Source::Lark(text.into()))
    }

    fn schema(schema: &Value, lenient: bool) -> Grammar {
        // A value that deep cannot come from parsed text. Writing it out would need that much stack here.
        if super::schema::is_too_deep(schema) {
            return Grammar::new(Source::TooDeep { lenient });
        }
        Grammar::new(Source::Schema { text: schema.to_string(), lenient })
    }

    fn new(source: Source) -> Grammar {
        let mut hasher = DefaultHasher::new();
        source.hash(&mut hasher);
        Grammar(Arc::new(Described { source, hash: hasher.finish() }))
    }

    pub(super) fn source(&self) -> &Source {
        &self.0.source
    }
}

impl PartialEq for Grammar {
    fn eq(&self, other: &Grammar) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.0.hash == other.0.hash && self.0.source == other.0.source)
    }
}

impl Eq for Grammar {}
