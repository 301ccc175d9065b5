//! Files that spell the same model in another way: merged projections, other float formats, untied heads.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[expect(dead_code, reason = "this binary uses a part of it")]
mod common;

use bloomery_core::{Context, Engine};
use bloomery_gguf::{Format, Gguf, Tensor, Writer};
use common::{Fixture, all_logits, model_path};

/// Compares a rewritten file with the original.
fn compare(name: &'static str, rewrite: impl Fn(&Gguf, &mut Writer<'_>)) {
    compare_as(name, "other", &[], rewrite);
}

/// Compares a file rewritten in the way `what`, without the metadata `dropped`, with the original.
fn compare_as(name: &'static str, what: &str, dropped: &[&str], rewrite: impl Fn(&Gguf, &mut Writer<'_>)) {
    let fixture = Fixture::read(name);
    let gguf = Gguf::open(model_path(name)).unwrap();
    let mut writer = Writer::new();
    for (key, value) in gguf.metadata().iter().filter(|(key, _)| !dropped.contains(key)) {
        writer.set(key, value.clone());
    }
    rewrite(&gguf, &mut writer);
    let path =
        std::env::temp_dir().join(format!("bloomery-layout-{}-{name}-{what}.gguf", std::process::id()));
    writer.write_file(&path).unwrap();
    let engine =
        Engine::builder(path.as_path()).context(Context::Tokens(512)).plan().unwrap().load(|_| {}).unwrap();
    let found = all_logits(&engine, &fixture.ids[..40], usize::MAX);
    std::fs::remove_file(&path).unwrap();
    let expected = all_logits(&fixture.engine(Default::default()), &fixture.ids[..40], usize::MAX);
    let bits = |logits: &[f32]| logits.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert!(bits(&found) == bits(&expected), "{name} {what}");
}

fn copy(gguf: &Gguf, writer: &mut Writer<'_>, tensor: &Tensor) {
    writer.tensor(&tensor.name, &tensor.dims, tensor.format, gguf.data(tensor).to_vec()).unwrap();
}

/// Writes `parts` of a layer as one tensor `whole`, the rows of each part after the other in each of the `count`
/// matrices.
fn merge(gguf: &Gguf, writer: &mut Writer<'_>, layer: &str, parts: &[&str], whole: &str, count: usize) {
    let tensors: Vec<&Tensor> =
        parts.iter().map(|part| gguf.tensor(&format!("{layer}{part}")).unwrap()).collect();
    let mut bytes = Vec::new();
    for index in 0..count {
        for tensor in &tensors {
            let size = gguf.data(tensor).len() / count;
            bytes.extend_from_slice(&gguf.data(tensor)[index * size..(index + 1) * size]);
        }
    }
    let mut dims = tensors[0].dims.clone();
    dims[1] = tensors.iter().map(|tensor| tensor.dims[1]).sum();
    writer.tensor(format!("{layer}{whole}"), &dims, tensors[0].format, bytes).unwrap();
}

#[test]
fn merged_query_key_value_rows_are_the_same_model() {
    compare("qwen3-small-bf16", |gguf, writer| {
        for tensor in gguf.tensors() {
            match tensor.name.strip_suffix("attn_q.weight") {
                Some(layer) => {
                    let parts = ["attn_q.weight", "attn_k.weight", "attn_v.weight"];
                    merge(gguf, writer, layer, &parts, "attn_qkv.weight", 1);
                }
                None if tensor.name.ends_with("attn_k.weight") || tensor.name.ends_with("attn_v.weight") => {}
                None => copy(gguf, writer, tensor),
            }
        }
    });
}

#[test]
fn merged_gate_and_up_experts_are_the_same_model() {
    compare("qwen3moe-small-bf16", |gguf, writer| {
        for tensor in gguf.tensors() {
            match tensor.name.strip_suffix("ffn_gate_exps.weight") {
                Some(layer) => {
                    let parts = ["ffn_gate_exps.weight", "ffn_up_exps.weight"];
                    merge(gguf, writer, layer, &parts, "ffn_gate_up_exps.weight", tensor.dims[2] as usize);
                }
                None if tensor.name.ends_with("ffn_up_exps.weight") => {}
                None => copy(gguf, writer, tensor),
            }
        }
    });
}

#[test]
fn f32_weights_give_the_bits_of_the_bf16_weights_they_came_from() {
    compare("llama-small-bf16", |gguf, writer| {
        for tensor in gguf.tensors() {
            if tensor.format == Format::BF16 {
                let mut values = vec![0.0f32; tensor.elements() as usize];
                bloomery_gguf::dequantize(tensor.format, gguf.data(tensor), &mut values).unwrap();
                let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                writer.tensor(&tensor.name, &tensor.dims, Format::F32, bytes).unwrap();
            } else {
                copy(gguf, writer, tensor);
            }
        }
    });
}

#[test]
fn a_head_equal_to_the_embedding_is_the_tied_model() {
    compare("qwen2-k-q4_k_m", |gguf, writer| {
        for tensor in gguf.tensors() {
            copy(gguf, writer, tensor);
        }
        let table = gguf.tensor("token_embd.weight").unwrap();
        writer.tensor("output.weight", &table.dims, table.format, gguf.data(table).to_vec()).unwrap();
    });
}

#[test]
fn merged_queries_with_gates_are_the_same_model() {
    compare("qwen35moe-k-q4_k_m", |gguf, writer| {
        for tensor in gguf.tensors() {
            match tensor.name.strip_suffix("attn_q.weight") {
                Some(layer) if same_formats(gguf, layer) => {
                    let parts = ["attn_q.weight", "attn_k.weight", "attn_v.weight"];
                    merge(gguf, writer, layer, &parts, "attn_qkv.weight", 1);
                }
                None if ["attn_k.weight", "attn_v.weight"].iter().any(|part| {
                    tensor.name.strip_suffix(part).is_some_and(|layer| same_formats(gguf, layer))
                }) => {}
                _ => copy(gguf, writer, tensor),
            }
        }
    });
}

/// Whether one tensor can hold the layer's projections.
fn same_formats(gguf: &Gguf, layer: &str) -> bool {
    let format = |part: &str| gguf.tensor(&format!("{layer}{part}")).map(|tensor| tensor.format);
    format("attn_q.weight") == format("attn_k.weight") && format("attn_q.weight") == format("attn_v.weight")
}

/// The matrix that makes keys and values of a latent, from the two halves of an absorbed file in BF16: of every head the key's
/// rows, which are the columns of its matrix in `attn_k_b`, then the value's.
fn whole(gguf: &Gguf, writer: &mut Writer<'_>, layer: &str) {
    let [keys, values] =
        ["attn_k_b.weight", "attn_v_b.weight"].map(|part| gguf.tensor(&format!("{layer}{part}")).unwrap());
    let [nope, latent, heads] = [0, 1, 2].map(|i| keys.dims[i] as usize);
    let value = values.dims[1] as usize;
    let (of_keys, of_values) = (gguf.data(keys), gguf.data(values));
    assert_eq!((keys.format, values.format), (Format::BF16, Format::BF16));
    let mut bytes = Vec::new();
    for head in 0..heads {
        for row in 0..nope {
            for column in 0..latent {
                let at = 2 * ((head * latent + column) * nope + row);
                bytes.extend_from_slice(&of_keys[at..at + 2]);
            }
        }
        let size = 2 * value * latent;
        bytes.extend_from_slice(&of_values[head * size..(head + 1) * size]);
    }
    let dims = [latent as u64, (heads * (nope + value)) as u64];
    writer.tensor(format!("{layer}attn_kv_b.weight"), &dims, Format::BF16, bytes).unwrap();
}

#[test]
fn keys_and_values_of_latents_in_one_matrix_are_the_same_model() {
    let dropped = ["deepseek2.attention.key_length_mla", "deepseek2.attention.value_length_mla"];
    compare_as("deepseek2-small-bf16", "whole", &dropped, |gguf, writer| {
        let meta = gguf.metadata();
        for (key, value) in [("head_count_kv", 4_u32), ("key_length", 24), ("value_length", 16)] {
            assert!(meta.get(&format!("deepseek2.attention.{key}")).is_some());
            writer.set(format!("deepseek2.attention.{key}"), value);
        }
        for tensor in gguf.tensors() {
            match tensor.name.strip_suffix("attn_k_b.weight") {
                Some(layer) => whole(gguf, writer, layer),
                None if tensor.name.ends_with("attn_v_b.weight") => {}
                None => copy(gguf, writer, tensor),
            }
        }
    });
}

#[test]
fn matrices_of_heads_may_lie_flat() {
    for name in ["deepseek2-small-bf16", "deepseek2-k-q4_k_m"] {
        compare_as(name, "flat", &[], |gguf, writer| {
            for tensor in gguf.tensors() {
                if tensor.name.ends_with("_b.weight") && tensor.dims.len() == 3 {
                    let dims = [tensor.dims[0], tensor.dims[1] * tensor.dims[2]];
                    let data = gguf.data(tensor).to_vec();
                    writer.tensor(&tensor.name, &dims, tensor.format, data).unwrap();
                } else {
                    copy(gguf, writer, tensor);
                }
            }
        });
    }
}
