//! The checks over their seeds: each as it is, and damaged in simple ways that are the same in
//! every run. The fuzzer goes further from there.
#![expect(clippy::unwrap_used, reason = "what cannot be read is a failed test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use kubepkg_fuzz_checks::TARGETS;

/// Damaged copies of each seed that are tried.
const COPIES: u64 = 60;

/// Seeds that are only taken as they are: each try costs what guessing a passphrase costs.
const COSTLY: [&str; 1] = ["key_encrypted"];

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = fuzz().join("corpus").join(target);
    let mut seeds: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read(path).unwrap())
        })
        .collect();
    seeds.sort();
    seeds
}

fn mixed(state: u64) -> u64 {
    let mut word = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// What readers stumble over.
const TOKENS: [&[u8]; 20] = [
    b"\n",
    b"- ",
    b": ",
    b"{",
    b"}",
    b"[",
    b"]",
    b"&a ",
    b"*a",
    b"<<: ",
    b"|\n",
    b"\"",
    b"'",
    b"#",
    b"!!str ",
    b"\xff",
    b"\0",
    b"---\n",
    b"\xe2\x80\xa8",
    b"\r\n",
];

/// `seed` with one to four places changed.
fn damaged(seed: &[u8], copy: u64) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    let mut state = mixed(copy ^ (seed.len() as u64) << 32);
    for _ in 0..=state % 4 {
        state = mixed(state);
        let at = usize::try_from(state >> 16).unwrap() % (bytes.len() + 1);
        let token = TOKENS[usize::try_from(state >> 8).unwrap() % TOKENS.len()];
        match state % 5 {
            0 => bytes.truncate(at),
            1 => drop(bytes.splice(at..at, token.iter().copied())),
            2 => drop(bytes.drain(at..(at + 1 + token.len()).min(bytes.len()).max(at))),
            3 => bytes.extend_from_within(at..),
            _ if at < bytes.len() => bytes[at] ^= 1 << (state >> 40 & 7),
            _ => {}
        }
    }
    bytes
}

#[test]
fn what_must_hold_holds_for_every_seed() {
    for (target, check) in TARGETS {
        let seeds = seeds(target);
        assert!(seeds.len() > 2, "{target} has {} seeds", seeds.len());
        for (name, seed) in seeds {
            assert!(seed.len() < 64 * 1024, "{target}/{name} is no small seed");
            // named first: what panics below says nothing of where it was read
            println!("{target}/{name}");
            check(&seed);
            if COSTLY.contains(target) {
                continue;
            }
            for copy in 0..COPIES {
                println!("{target}/{name} damaged, copy {copy}");
                check(&damaged(&seed, copy));
            }
        }
    }
}

#[test]
fn every_check_has_a_fuzz_target_and_seeds_and_the_other_way_round() {
    let names: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let there = |folder: &str| -> BTreeSet<String> {
        fs::read_dir(fuzz().join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(there("corpus"), names);
    assert_eq!(there("fuzz_targets"), names);
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    for name in names {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
        let target = fs::read_to_string(fuzz().join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(target.contains(&format!("check(\"{name}\"")), "{name}");
    }
}
