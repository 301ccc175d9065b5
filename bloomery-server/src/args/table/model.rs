use std::path::PathBuf;

use super::{INTERNALS, MEDIA, ONE};
use crate::args::flag::{Flag, bare, switch, text, unused, unused_number};
use crate::args::hub::{head, reference};
use crate::args::setters::{list, model};

const PRESET: &str = "presets are not in this release: name the model with -hf";
const OTHERS: &str = "downloads are from the Hugging Face hub only: use -hf, or pass a local file with -m";
const ADAPTERS: &str = "LoRA adapters are not in this release";
const VECTORS: &str = "control vectors are not in this release";

pub(super) static FLAGS: &[Flag] = &[
    text("-m --model --model-file", "FILE", model)
        .env("LLAMA_ARG_MODEL")
        .doc("GGUF file; of a split one, any part; hf:USER/REPO:QUANT is -hf (default: a small demo model inside the program)"),
    text("--head", "FILE|hf:USER/REPO", head)
        .doc("decision head of a model whose file has none: joint_head.safetensors, with joint_head_config.json beside it"),
    text("--head-config", "FILE", |draft, value| {
        draft.engine.head_config = Some(PathBuf::from(value));
        Ok(())
    })
    .doc("its configuration, where that is not beside it"),
    text("-a --alias", "NAME[,NAME]", |draft, value| {
        draft.serve.aliases.extend(list(value));
        Ok(())
    })
    .env("LLAMA_ARG_ALIAS")
    .many()
    .doc("names of the model in the API; the first in alphabetical order is its id (default: the file, or the repository, as given)"),
    text("--tags", "TAG[,TAG]", |draft, value| {
        draft.serve.tags.extend(list(value));
        Ok(())
    })
    .env("LLAMA_ARG_TAGS")
    .many()
    .doc("tags in /v1/models, for information"),
    text("-hf -hfr --hf-repo --hf", "USER/REPO[:QUANT][@REVISION]", reference)
        .env("LLAMA_ARG_HF_REPO")
        .doc("model of the Hugging Face hub, downloaded unless it is in the cache (default quantisation: Q4_K_M, or another)"),
    text("-hff --hf-file", "FILE", |draft, value| {
        draft.hub_file = Some(value.to_owned());
        Ok(())
    })
    .env("LLAMA_ARG_HF_FILE")
    .doc("exactly this file of the repository; of a split model, any part"),
    text("-hft --hf-token", "TOKEN", |draft, value| {
        draft.hub.token = Some(value.to_owned());
        Ok(())
    })
    .env("HF_TOKEN")
    .doc("secret of an account at the hub (default: what huggingface-cli login has saved)"),
    unused("-mu --model-url", "URL").env("LLAMA_ARG_MODEL_URL").refused(OTHERS),
    unused("-dr --docker-repo", "REPO[:QUANT]").env("LLAMA_ARG_DOCKER_REPO").refused(OTHERS),
    switch("--offline", |draft, on| draft.hub.offline = on)
        .env("LLAMA_ARG_OFFLINE")
        .doc("models come from the cache only, and no connection is made (default: off)"),
    bare(
        "--embd-gemma-default --fim-qwen-1.5b-default --fim-qwen-3b-default --fim-qwen-7b-default \
         --fim-qwen-7b-spec --fim-qwen-14b-spec --fim-qwen-30b-default --gpt-oss-20b-default --gpt-oss-120b-default \
         --vision-gemma-4b-default --vision-gemma-12b-default",
    )
    .refused(PRESET),
    unused("-mm --mmproj", "FILE").env("LLAMA_ARG_MMPROJ").refused(MEDIA),
    unused("-mmu --mmproj-url", "URL").env("LLAMA_ARG_MMPROJ_URL").refused(MEDIA),
    bare("--mmproj-auto").off("--no-mmproj --no-mmproj-auto").env("LLAMA_ARG_MMPROJ_AUTO").ignored(MEDIA),
    bare("--mmproj-offload").off("--no-mmproj-offload").env("LLAMA_ARG_MMPROJ_OFFLOAD").ignored(MEDIA),
    unused("-mmdev --mmproj-device", "DEVICE").env("LLAMA_ARG_MMPROJ_DEVICE").ignored(ONE),
    unused_number("--image-min-tokens", "N").env("LLAMA_ARG_IMAGE_MIN_TOKENS").ignored(MEDIA),
    unused_number("--image-max-tokens", "N").env("LLAMA_ARG_IMAGE_MAX_TOKENS").ignored(MEDIA),
    unused_number("--mtmd-batch-max-tokens", "N").env("LLAMA_ARG_MTMD_BATCH_MAX_TOKENS").ignored(MEDIA),
    unused_number("--video-fps", "N").env("LLAMA_ARG_VIDEO_FPS").ignored(MEDIA),
    unused_number("--video-timestamp-interval", "S").env("LLAMA_ARG_VIDEO_TIMESTAMP_INTERVAL").ignored(MEDIA),
    unused("--video-ffmpeg-dir", "DIR").env("LLAMA_ARG_VIDEO_FFMPEG_DIR").ignored(MEDIA),
    unused("--media-path", "DIR").ignored(MEDIA),
    unused("--lora", "FILE[,FILE]").refused(ADAPTERS),
    unused("--lora-scaled", "FILE:SCALE[,…]").refused(ADAPTERS),
    bare("--lora-init-without-apply").ignored(ADAPTERS),
    unused("--control-vector", "FILE[,FILE]").refused(VECTORS),
    unused("--control-vector-scaled", "FILE:SCALE[,…]").refused(VECTORS),
    // Two values upstream; it is refused before the second is looked at.
    unused("--control-vector-layer-range", "START END").refused(VECTORS),
    unused("--override-kv", "KEY=TYPE:VALUE[,…]").refused("the file's metadata is used as it is"),
    bare("--check-tensors").ignored(INTERNALS),
];
