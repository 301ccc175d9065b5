//! What the command line says.

use std::error::Error;
use std::path::PathBuf;

/// The table, and what is read of it.
pub(crate) struct Options {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) row: usize,
    /// Rows of a token.
    pub(crate) rows: usize,
    pub(crate) tokens: usize,
    pub(crate) prompts: Vec<usize>,
}

impl Options {
    pub(crate) fn read() -> Result<Self, Box<dyn Error>> {
        let mut path = None;
        let (mut gib, mut row, mut rows, mut tokens) = (6, 110, 48, 200);
        let mut prompts = vec![512, 4096];
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--gib" => gib = value()?.parse()?,
                "--row" => row = value()?.parse()?,
                "--rows" => rows = value()?.parse()?,
                "--tokens" => tokens = value()?.parse()?,
                "--prompts" => prompts = value()?.split(',').map(str::parse).collect::<Result<_, _>>()?,
                _ if path.is_none() && !arg.starts_with('-') => path = Some(PathBuf::from(arg)),
                _ => return Err(format!("unknown argument {arg}").into()),
            }
        }
        let path = path.ok_or("a file is needed: tables FILE [--gib N] ..")?;
        if gib == 0 || row == 0 || row > 4096 || rows == 0 || tokens == 0 {
            return Err("no number may be 0, and a row has 4096 bytes at most".into());
        }
        Ok(Self { path, bytes: gib << 30, row, rows, tokens, prompts })
    }
}
