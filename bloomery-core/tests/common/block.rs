//! Models with a block for the next tokens: small ones of the other tests, joined with blocks of random weights.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use bloomery_gguf::{Format, Gguf, Writer};
use serde_json::Value;

/// Where the crate was built, or below the working directory where that is another machine.
pub(crate) fn data(name: &str) -> PathBuf {
    let below = |root: &str| Path::new(root).join("tests/data/models").join(name);
    let built = below(env!("CARGO_MANIFEST_DIR"));
    if built.exists() { built } else { below("bloomery-core") }
}

/// A file of the model, which goes away with this.
pub(crate) struct Joined(PathBuf);

impl Joined {
    /// The small model's keys and tensors, and over them those of the block.
    pub(crate) fn write(arch: &str) -> Self {
        Self::write_with(arch, |_, format, data| Some((format, data.to_vec())))
    }

    /// The same with tensors as `edit` has them, by name, and without those it has not.
    pub(crate) fn write_with(
        arch: &str,
        edit: impl Fn(&str, Format, &[u8]) -> Option<(Format, Vec<u8>)>,
    ) -> Self {
        static FILES: AtomicUsize = AtomicUsize::new(0);
        let parts = [format!("{arch}-small-bf16.gguf"), format!("mtp-{arch}-bf16.gguf")];
        let mut writer = Writer::new();
        for gguf in parts.map(|name| Gguf::open(data(&name)).unwrap()) {
            for (key, value) in gguf.metadata().iter() {
                writer.set(key, value.clone());
            }
            for tensor in gguf.tensors() {
                if let Some((format, data)) = edit(&tensor.name, tensor.format, gguf.data(tensor)) {
                    writer.tensor(&tensor.name, &tensor.dims, format, data).unwrap();
                }
            }
        }
        let (process, number) = (std::process::id(), FILES.fetch_add(1, Ordering::Relaxed));
        let file = std::env::temp_dir().join(format!("bloomery-block-{process}-{number}.gguf"));
        writer.write_file(&file).unwrap();
        Self(file)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The architecture whose guesses are layers in a file of their own.
pub(crate) const SPARK: &str = "deepseek41";

/// The file of them, and the model's.
pub(crate) fn spark() -> [PathBuf; 2] {
    [format!("dspark-{SPARK}-bf16.gguf"), format!("{SPARK}-small-bf16.gguf")].map(|name| data(&name))
}

/// A prompt, and what an independent program says that the block guesses within it.
pub(crate) fn expected(arch: &str) -> Value {
    let kind = if arch == SPARK { "dspark" } else { "mtp" };
    serde_json::from_slice(&std::fs::read(data(&format!("{kind}-{arch}-bf16.json"))).unwrap()).unwrap()
}

/// Token ids of such a file.
pub(crate) fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}
