//! `strftime_now` of transformers: Python's `datetime.now().strftime(format)` in the C locale.

use jiff::civil::DateTime;
use jiff::fmt::strtime;

/// Formats a time that has no zone, so `%z` and `%Z` are empty. A directive that Python does not know stays as it is.
pub(super) fn format(format: &str, time: DateTime) -> Result<String, jiff::Error> {
    let mut out = String::with_capacity(format.len() + 16);
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut directive = String::from('%');
        let mut letter = rest.next();
        while let Some(flag @ ('-' | '_' | '0' | '^' | '#')) = letter {
            directive.push(flag);
            letter = rest.next();
        }
        let Some(letter) = letter else {
            out.push_str(&directive);
            break;
        };
        directive.push(letter);
        match letter {
            '%' => out.push('%'),
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'z' | 'Z' => {}
            'f' => out.push_str(&strtime::format("%6f", time)?),
            'c' => out.push_str(&strtime::format("%a %b %e %H:%M:%S %Y", time)?),
            'x' => out.push_str(&strtime::format("%m/%d/%y", time)?),
            'X' => out.push_str(&strtime::format("%H:%M:%S", time)?),
            'a' | 'A' | 'b' | 'B' | 'C' | 'd' | 'D' | 'e' | 'F' | 'g' | 'G' | 'h' | 'H' | 'I' | 'j' | 'k'
            | 'l' | 'm' | 'M' | 'p' | 'P' | 'r' | 'R' | 'S' | 'T' | 'u' | 'U' | 'V' | 'w' | 'W' | 'y'
            | 'Y' => {
                out.push_str(&strtime::format(&directive, time)?);
            }
            _ => out.push_str(&directive),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::format;

    #[test]
    fn directives_match_python() {
        // Printed by Python 3.11: datetime(2026, 3, 7, 4, 5, 6, 78).strftime(...)
        let time = jiff::civil::date(2026, 3, 7).at(4, 5, 6, 78_000);
        for (directives, wanted) in [
            ("%d %b %Y", "07 Mar 2026"),
            ("%Y-%m-%d %H:%M:%S", "2026-03-07 04:05:06"),
            ("%A, %B %-d", "Saturday, March 7"),
            ("%I:%M %p|%j|%U|%W|%w|%u|%y|%f", "04:05 AM|066|09|09|6|6|26|000078"),
            ("%c|%x|%X", "Sat Mar  7 04:05:06 2026|03/07/26|04:05:06"),
            ("%z%Z|%G-%V|%e|100%%", "|2026-10| 7|100%"),
        ] {
            assert_eq!(format(directives, time).unwrap(), wanted);
        }
    }
}
