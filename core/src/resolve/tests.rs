//! What the recorded cases do not cover.
