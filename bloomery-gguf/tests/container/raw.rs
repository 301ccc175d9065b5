//! Files put together byte by byte, without the crate's own writer, so that they can be wrong.

/// The parts of a file; the fields are what ends up in it.
#[derive(Clone)]
pub(crate) struct Raw {
    pub(crate) magic: [u8; 4],
    pub(crate) version: [u8; 4],
    pub(crate) tensor_count: u64,
    pub(crate) key_count: u64,
    pub(crate) pairs: Vec<u8>,
    pub(crate) tensors: Vec<u8>,
    pub(crate) alignment: usize,
    pub(crate) data: Vec<u8>,
}

impl Raw {
    pub(crate) fn new() -> Self {
        Self {
            magic: *b"GGUF",
            version: 3u32.to_le_bytes(),
            tensor_count: 0,
            key_count: 0,
            pairs: Vec::new(),
            tensors: Vec::new(),
            alignment: 32,
            data: Vec::new(),
        }
    }

    /// A key with the bytes of its value, which `id` is the type of.
    pub(crate) fn pair(mut self, key: &str, id: u32, value: &[u8]) -> Self {
        self.key_count += 1;
        self.pairs.extend(string(key.as_bytes()));
        self.pairs.extend(id.to_le_bytes());
        self.pairs.extend(value);
        self
    }

    /// A tensor entry, without data.
    pub(crate) fn tensor(mut self, name: &str, dims: &[u64], id: u32, offset: u64) -> Self {
        self.tensor_count += 1;
        self.tensors.extend(string(name.as_bytes()));
        self.tensors.extend((dims.len() as u32).to_le_bytes());
        self.tensors.extend(dims.iter().flat_map(|dim| dim.to_le_bytes()));
        self.tensors.extend(id.to_le_bytes());
        self.tensors.extend(offset.to_le_bytes());
        self
    }

    pub(crate) fn data(mut self, bytes: usize) -> Self {
        self.data = (0..bytes).map(|index| index as u8).collect();
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = [self.magic, self.version].concat();
        out.extend(self.tensor_count.to_le_bytes());
        out.extend(self.key_count.to_le_bytes());
        out.extend(&self.pairs);
        out.extend(&self.tensors);
        out.resize(out.len().next_multiple_of(self.alignment), 0);
        out.extend(&self.data);
        out
    }
}

pub(crate) fn string(bytes: &[u8]) -> Vec<u8> {
    let mut out = (bytes.len() as u64).to_le_bytes().to_vec();
    out.extend(bytes);
    out
}

/// The value of an array: its element type, its count, the bytes of its elements.
pub(crate) fn array(id: u32, count: u64, elements: &[u8]) -> Vec<u8> {
    let mut out = id.to_le_bytes().to_vec();
    out.extend(count.to_le_bytes());
    out.extend(elements);
    out
}
