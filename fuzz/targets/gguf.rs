//! A model file from a stranger: everything a reader does with it short of running it.
#![no_main]

use bloomery_core::chat::ChatTemplate;
use bloomery_core::tokenizer::Tokenizer;
use bloomery_gguf::{Gguf, Metadata, dequantize};
use libfuzzer_sys::fuzz_target;

/// Blocks dequantised of every tensor.
const BLOCKS: usize = 4;

fuzz_target!(|bytes: &[u8]| {
    let Ok(gguf) = Gguf::from_bytes(bytes.to_vec()) else { return };
    let mut total = 0;
    for tensor in gguf.tensors() {
        let data = gguf.data(tensor);
        assert_eq!(data.len() as u64, tensor.bytes());
        total += tensor.bytes();
        let format = tensor.format;
        let blocks = BLOCKS.min(data.len() / format.block_bytes());
        let mut values = vec![0.0; blocks * format.block_len()];
        let _ = dequantize(format, &data[..blocks * format.block_bytes()], &mut values);
    }
    assert!(total <= bytes.len() as u64, "tensors overlap");
    walk(gguf.metadata());
    if let Ok(tokenizer) = Tokenizer::from_metadata(gguf.metadata()) {
        if let Ok(ids) =
            tokenizer.encode_prompt("Once upon a time", bloomery_core::tokenizer::Specials::Parse)
        {
            let _ = tokenizer.decode(&ids, true);
        }
    }
    let _ = ChatTemplate::from_metadata(gguf.metadata());
});

fn walk(metadata: &Metadata) {
    for (key, value) in metadata.iter() {
        let _ = (metadata.u32(key), metadata.i64(key), metadata.f32(key), metadata.bool(key));
        let _ = (metadata.u32s(key), metadata.f32s(key), metadata.bools(key), metadata.strings(key));
        let _ = (metadata.per_layer_u32(key, 2), metadata.str(key), value.to_string());
    }
}
