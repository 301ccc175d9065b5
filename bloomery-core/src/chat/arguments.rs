//! Arguments that may be given by position or by name, as in Python.

use minijinja::value::{Kwargs, Rest, ValueOrKwargs, from_args};
use minijinja::{Error, ErrorKind, Value};

/// The arguments in the order of `names`; none stands for itself, None for an argument that was not given.
pub(super) fn bind<const N: usize>(
    names: [&str; N],
    args: Rest<ValueOrKwargs>,
) -> Result<[Option<Value>; N], Error> {
    let args = args.into_values();
    let (positional, named): (&[Value], Kwargs) = from_args(&args)?;
    if positional.len() > N {
        return Err(ErrorKind::TooManyArguments.into());
    }
    let mut bound = [const { None }; N];
    for (at, name) in names.into_iter().enumerate() {
        bound[at] = match positional.get(at) {
            Some(value) => Some(value.clone()),
            None if named.has(name) => Some(named.get(name)?),
            None => None,
        };
    }
    named.assert_all_used()?;
    Ok(bound)
}

/// Whether an argument was given and is true.
pub(super) fn is_true(argument: Option<&Value>) -> bool {
    argument.is_some_and(Value::is_true)
}
