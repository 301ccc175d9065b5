//! Block formats: layout, scalar unpack and scalar dot. No `std`, no allocation, no panics.
