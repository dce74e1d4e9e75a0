//! What the format promises, on whole files.

mod closure;
mod damage;
mod head;
mod partial;
mod properties;
mod sample;
mod tools;
