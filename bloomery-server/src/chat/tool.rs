//! The tools of a request and which of them the model may call.

use serde_json::{Map, Value, json};

/// A function that the client offers.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// The name that calls carry.
    pub name: String,
    /// What the function does, for the prompt.
    pub description: Option<String>,
    /// JSON schema of the arguments; an empty object where the client gives none.
    pub parameters: Value,
}

/// Which tools the model may or must call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// Tools are described, calls are not read.
    None,
    /// At least one call.
    Required,
    /// Calls of this tool alone.
    Named(String),
}

impl ToolChoice {
    /// True where the reply has to be a call.
    pub fn forces(&self) -> bool {
        matches!(self, ToolChoice::Required | ToolChoice::Named(_))
    }
}

impl Tool {
    /// The tool as templates read it: `{"type": "function", "function": {name, description, parameters}}`.
    pub fn to_json(&self) -> Value {
        let mut function = Map::new();
        function.insert("name".to_owned(), json!(self.name));
        if let Some(description) = &self.description {
            function.insert("description".to_owned(), json!(description));
        }
        function.insert("parameters".to_owned(), self.schema());
        json!({ "type": "function", "function": function })
    }

    /// The schema of the arguments; where none is given, that of an object without keys.
    pub fn schema(&self) -> Value {
        match &self.parameters {
            Value::Object(schema) if !schema.is_empty() => self.parameters.clone(),
            _ => json!({ "type": "object", "properties": {} }),
        }
    }
}
