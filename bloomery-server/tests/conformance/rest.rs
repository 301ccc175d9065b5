//! I: tokenizer, infill, embeddings, slot files, and what is bloomery's own.
