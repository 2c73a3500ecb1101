//! What ZLink costs, measured.
