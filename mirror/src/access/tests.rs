use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::*;

/// bcrypt of "right", with the fewest rounds there are.
fn line(user: &str) -> String {
    format!("{user}:{}\n", bcrypt::hash("right", 4).unwrap())
}

fn gate(folder: &Path, failures: u32) -> Gate {
    let files = AccessFiles {
        users: Some(folder.join("users")),
        ..AccessFiles::default()
    };
    Gate::open(files, false, failures).unwrap()
}

async fn try_login(gate: &Gate, user: &str, password: &str, from: u8) -> Result<Who, NotThem> {
    let credentials = Credentials::password(user, password);
    let address = IpAddr::from([127, 0, 0, from]);
    gate.who(&credentials, Some(address)).await
}

#[tokio::test]
async fn a_password_makes_somebody_a_user() {
    let folder = tempfile::tempdir().unwrap();
    let empty = gate(folder.path(), 20);
    assert!(!empty.has_logins() && !empty.lets_write());
    fs::write(folder.path().join("users"), line("alice")).unwrap();
    empty.reload().unwrap();
    let gate = empty;
    assert!(gate.has_logins() && gate.lets_write());
    let alice = Who::User("alice".into());
    assert_eq!(
        try_login(&gate, "alice", "right", 1).await,
        Ok(alice.clone())
    );
    for (user, password) in [("alice", "wrong"), ("eve", "right"), ("alice", "")] {
        let got = try_login(&gate, user, password, 1).await;
        assert_eq!(got, Err(NotThem::Wrong), "{user} {password}");
    }
    let anyone = gate.who(&Credentials::None, None).await;
    assert_eq!(anyone, Ok(Who::Anyone));
    assert!(
        gate.allows(&alice, Action::Push, "a") && !gate.allows(&Who::Anyone, Action::Push, "a")
    );
    assert!(gate.allows(&Who::Anyone, Action::Pull, "a"));
}

#[tokio::test]
async fn a_token_counts_until_its_user_changes() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    fs::write(&users, line("alice") + &line("bob")).unwrap();
    let gate = gate(folder.path(), 20);
    let alice = Who::User("alice".into());
    let of = |token: String| Credentials::Token(token);
    let (token, nobody) = (of(gate.token(&alice)), of(gate.token(&Who::Anyone)));
    assert_eq!(gate.who(&token, None).await, Ok(alice));
    assert_eq!(gate.who(&nobody, None).await, Ok(Who::Anyone));
    fs::write(&users, line("alice") + &line("bob")).unwrap();
    gate.reload().unwrap();
    let got = gate.who(&token, None).await;
    assert_eq!(got, Err(NotThem::Token), "the password is another");
    assert_eq!(gate.who(&nobody, None).await, Ok(Who::Anyone));
    let got = gate.who(&of("x.y".to_owned()), None).await;
    assert_eq!(got, Err(NotThem::Token));
}

#[tokio::test]
async fn wrong_logins_make_their_address_wait_and_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("users"), line("alice")).unwrap();
    let gate = gate(folder.path(), 3);
    assert!(try_login(&gate, "alice", "right", 1).await.is_ok());
    for _ in 0..3 {
        assert_eq!(try_login(&gate, "eve", "x", 1).await, Err(NotThem::Wrong));
    }
    let got = try_login(&gate, "alice", "guess", 1).await;
    assert!(matches!(got, Err(NotThem::Later(_))), "{got:?}");
    assert!(
        try_login(&gate, "alice", "right", 1).await.is_ok(),
        "it is known"
    );
    assert!(try_login(&gate, "alice", "right", 2).await.is_ok());
}

#[tokio::test]
async fn settings_that_cannot_be_used_leave_the_old_ones() {
    let folder = tempfile::tempdir().unwrap();
    let (users, rules) = (folder.path().join("users"), folder.path().join("access"));
    fs::write(&users, line("alice")).unwrap();
    let head = "apiVersion: kubepkg.dev/v1\nkind: MirrorAccess\n";
    fs::write(&rules, format!("{head}anonymous: none\n")).unwrap();
    let files = AccessFiles {
        passwords: Some(users.clone()),
        rules: Some(rules.clone()),
        ..AccessFiles::default()
    };
    let gate = Gate::open(files.clone(), false, 20).unwrap();
    assert!(!gate.is_open_for_reading());
    assert!(!gate.allows(&Who::Anyone, Action::Pull, "a"));

    fs::write(
        &rules,
        format!("{head}rules:\n- {{path: a, push: [bob]}}\n"),
    )
    .unwrap();
    let error = gate.reload().unwrap_err();
    let place = kubepkg_core::error::Classify::place(&error).unwrap();
    assert!(place.ends_with("access: rules[0].push"), "{place}");
    assert!(!gate.allows(&Who::Anyone, Action::Pull, "a"));

    fs::write(&users, line("alice") + &line("bob")).unwrap();
    gate.reload().unwrap();
    assert!(gate.allows(&Who::User("bob".into()), Action::Push, "a"));
    assert!(!gate.allows(&Who::User("alice".into()), Action::Push, "a"));

    fs::write(&users, "alice:plain\n").unwrap();
    assert!(gate.reload().is_err());
    assert_eq!(gate.users(), ["alice", "bob"]);
    // a file that was named has to be there
    fs::remove_file(&users).unwrap();
    assert!(gate.reload().is_err());
    assert!(Gate::open(files, false, 20).is_err());
}

proptest! {
    #[test]
    fn what_is_no_login_is_none(text in "\\PC{0,200}", lines in ".{0,300}") {
        let tokens = Tokens::new().unwrap();
        prop_assert_eq!(tokens.check(&text, Time::from_unix(1_790_000_000)), None);
        if let Ok(passwords) = Passwords::parse(&lines) {
            prop_assert!(passwords.users().all(|user| !user.contains(':')));
        }
        let _ = Rules::parse(&lines, None);
    }
}
