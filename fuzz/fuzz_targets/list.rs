#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| kubepkg_fuzz_checks::check("list", data));
