use super::*;

#[test]
fn bursts_are_told_once_when_over_and_branches_at_once() {
    for (at_once, words, expected) in [(false, 1, 1), (false, 3, 1), (true, 1, 1), (true, 3, 2)] {
        let (sender, receiver) = channel();
        let (told, tales) = channel();
        (0..words).for_each(|_| sender.send(()).unwrap());
        let teller = std::thread::spawn(move || debounce(&receiver, at_once, &move || told.send(()).unwrap()));
        for _ in 0..expected {
            tales.recv_timeout(Duration::from_secs(30)).expect("it is told");
        }
        drop(sender);
        teller.join().unwrap();
        assert_eq!(tales.try_iter().count(), 0, "{words} words, at once: {at_once}");
    }
}

#[test]
fn only_what_decides_a_branch_matters() {
    let rows = [
        ("/r/HEAD", true),
        ("/r/packed-refs", true),
        ("/r/refs/heads/main", true),
        ("/r/refs/heads/main.lock", false),
        ("/r/refs/gitfleet/pin/a", false),
        ("/r/index", false),
        ("/r/FETCH_HEAD", false),
    ];
    for (path, matters) in rows {
        assert_eq!(ref_path_matters(Path::new("/r"), Path::new(path)), matters, "{path}");
    }
}

#[test]
fn only_what_is_read_of_a_folder_matters() {
    let excluded = [PathBuf::from("/f/rendered")];
    let rows = [
        ("/f/a.yaml", true),
        ("/f/sub", true),
        ("/f/.gitfleetignore", true),
        ("/f/.gitfleet/store", false),
        ("/f/sub/.a.yaml.swp", false),
        ("/f/rendered/member/a.yaml", false),
    ];
    for (path, matters) in rows {
        assert_eq!(folder_path_matters(Path::new("/f"), &excluded, Path::new(path)), matters, "{path}");
    }
}
