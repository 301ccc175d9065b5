//! C: props, models, slots, metrics.
