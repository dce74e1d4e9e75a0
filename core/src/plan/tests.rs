//! Plans: order, notes, files.
