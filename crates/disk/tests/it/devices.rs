//! Promises of a device, of a directory and of memory.

use std::io::ErrorKind;
use std::path::Path;

use disk::{Device, FileDevice, MemoryDevice, create_anew, read_all, remove_if_there};

fn content(device: &dyn Device, name: &str) -> Vec<u8> {
    read_all(&*device.open(name).unwrap(), u64::MAX).unwrap()
}

fn check(device: &dyn Device, outside: &Path) {
    let blob = device.create("draft").unwrap();
    assert_eq!(device.create("draft").unwrap_err().kind(), ErrorKind::AlreadyExists);
    blob.append(b"one two three").unwrap();
    blob.overwrite(4, b"TWO").unwrap();
    blob.append(b"!").unwrap();
    blob.truncate(9).unwrap();
    blob.append(b"four").unwrap();
    assert_eq!(
        content(device, "draft"),
        b"one TWO tfour",
        "what is appended is at the end, wherever was written"
    );
    let again = device.open("draft").unwrap();
    again.append(b".").unwrap();
    again.sync().unwrap();
    assert_eq!(again.size().unwrap(), 14);

    device.replace("a", b"old").unwrap();
    device.rename("draft", "a").unwrap();
    assert_eq!(content(device, "a"), b"one TWO tfour.");
    assert_eq!(device.open("draft").unwrap_err().kind(), ErrorKind::NotFound);
    device.link("a", "b").unwrap();
    assert_eq!(device.link("a", "b").unwrap_err().kind(), ErrorKind::AlreadyExists);
    device.replace("a", b"new").unwrap();
    assert_eq!((content(device, "a"), content(device, "b")), (b"new".to_vec(), b"one TWO tfour.".to_vec()));
    assert!(create_anew(device, "a").unwrap().size().unwrap() == 0);

    device.export("b", Some(3), &outside.join("three")).unwrap();
    device.export("b", None, &outside.join("all")).unwrap();
    assert_eq!(std::fs::read(outside.join("three")).unwrap(), b"one");
    assert_eq!(std::fs::read(outside.join("all")).unwrap(), b"one TWO tfour.");
    device.remove("b").unwrap();
    assert_eq!(device.remove("b").unwrap_err().kind(), ErrorKind::NotFound);
    remove_if_there(device, "b").unwrap();
    device.sync_names().unwrap();
    assert_eq!(device.list().unwrap(), ["a"]);
}

#[test]
fn a_directory_and_memory_are_alike() {
    let parent = tempfile::tempdir().unwrap();
    let outside = [(); 2].map(|()| tempfile::tempdir().unwrap());
    check(&MemoryDevice::new(), outside[0].path());
    check(&FileDevice::unlocked(parent.path().join("new/one")).unwrap(), outside[1].path());
}

#[test]
fn a_directory_that_is_read_is_not_changed() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    let device = FileDevice::read_only(&path);
    assert_eq!(device.list().unwrap_err().kind(), ErrorKind::NotFound);
    assert!(!path.exists());
    let locked = FileDevice::open(&path).unwrap();
    assert_eq!(FileDevice::open(&path).unwrap_err().kind(), ErrorKind::WouldBlock);
    locked.replace("a", b"one").unwrap();
    assert_eq!(content(&device, "a"), b"one");
    assert!(device.open("a").unwrap().append(b"two").is_err());
}
