//! What `plan` reads and writes: requests, the file of installed packages, locks.

use kubepkg_core::lock::Lock;
use kubepkg_core::name::PackageName;
use kubepkg_core::plan::installed::read;
use kubepkg_core::resolve::Request;

/// A lock.
pub fn lock(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let Ok(lock) = Lock::read(text) else {
        return;
    };
    let written = lock.write();
    match Lock::read(&written) {
        Ok(again) => {
            assert_eq!(again.packages, lock.packages, "{written}");
            assert_eq!(again.repositories, lock.repositories, "{written}");
            assert_eq!(again.write(), written);
        }
        Err(error) => panic!("{error}\n{written}"),
    }
    for name in lock.packages.keys() {
        assert!(lock.package(name).is_some());
    }
}

/// A file of installed packages.
pub fn installed(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let Ok(file) = read(text) else {
        return;
    };
    for (name, package) in &file.state.packages {
        assert_eq!(*name, package.name);
        assert!(name.parse::<PackageName>().is_ok());
    }
    let again = read(text);
    assert_eq!(again.ok().map(|again| again.state), Some(file.state));
}

/// Each line is a request.
pub fn request(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    for line in text.lines().take(16) {
        let Ok(request) = line.parse::<Request>() else {
            continue;
        };
        let mut written = request.name.to_string();
        if let Some(variant) = &request.variant {
            written += &format!(":{variant}");
        }
        if let Some(constraint) = &request.constraint {
            written += &format!("@{constraint}");
        }
        assert_eq!(
            written.parse::<Request>().as_ref(),
            Ok(&request),
            "{line:?}"
        );
    }
}
