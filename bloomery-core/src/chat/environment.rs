//! The template engine set up as transformers sets up Jinja2.

use jiff::civil::DateTime;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Rest, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value};
use minijinja_contrib::globals;

use super::{bounds, error::Raised, filters, json, methods, python, source, strftime};

/// An environment without templates and without a budget. `recursion` is the limit of nested frames.
pub(super) fn environment(recursion: usize) -> Environment<'static> {
    let mut env = Environment::new();
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(false);
    env.set_syntax(syntax.build().expect("the default delimiters are valid"));
    env.set_undefined_behavior(UndefinedBehavior::Lenient);
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_unknown_method_callback(methods::call);
    env.set_formatter(write);
    env.set_recursion_limit(recursion);
    // Error texts would otherwise quote the conversation.
    env.set_debug(false);
    env.remove_global("debug");
    env.add_function("raise_exception", raise_exception);
    env.add_filter("tojson", json::tojson);
    env.add_filter("trim", filters::trim);
    env.add_filter("string", filters::string);
    env.add_filter("int", filters::int);
    env.add_filter("float", filters::float);
    env.add_filter("indent", filters::indent);
    env.add_filter(source::ITERATED, bounds::iterated);
    env.add_filter(source::STORED, bounds::stored);
    env.add_filter(source::KEPT, bounds::kept);
    env.add_test("iterable", filters::is_iterable);
    env.add_test("sequence", filters::is_sequence);
    env.add_test("number", filters::is_number);
    env.add_test("float", filters::is_float);
    env.add_test("callable", filters::is_callable);
    env.add_function("dict", filters::dict);
    env.add_function("cycler", |items: Rest<Value>| globals::cycler(items.0));
    env.add_function("joiner", globals::joiner);
    env
}

/// The `strftime_now` function for one rendering.
pub(super) fn strftime_now(now: Option<DateTime>) -> Value {
    Value::from_function(move |format: &str| -> Result<String, Error> {
        let now = now.unwrap_or_else(|| jiff::ZonedDateTime::now().datetime());
        strftime::format(format, now)
            .map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))
    })
}

fn raise_exception(state: &State, message: &Value) -> Result<Value, Error> {
    let message = python::str(state, message)?;
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
}

/// Writes `{{ value }}`.
fn write(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Undefined => Ok(()),
        ValueKind::String => out.write_str(value.as_str().unwrap_or_default()).map_err(Error::from),
        _ => out.write_str(&python::str(state, value)?).map_err(Error::from),
    }
}
