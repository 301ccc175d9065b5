//! Disks without room, and folders that cannot be written.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use bloomery_core::hub::HubError;

use crate::server::Server;
use crate::support::{fetch, files, folder, hub, plain};

/// A disk of this size, where this user may mount one.
struct Disk(PathBuf);

impl Disk {
    fn mount(name: &str, size: &str) -> Option<Self> {
        let place = folder(name);
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={size}"), "none"]).arg(&place);
        let mounted = command.output().is_ok_and(|output| output.status.success());
        if !mounted {
            println!("skipped: a small disk cannot be mounted here");
        }
        mounted.then_some(Self(place))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // What stays mounted is 2 MB of memory in a folder of tests.
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_seen_before_anything_is_fetched() {
    let Some(disk) = Disk::mount("full", "2m") else { return };
    let server = Server::start(files(), None, plain);
    let error = fetch(&hub(&server, &disk.0), "u/r").unwrap_err();
    let HubError::DiskFull { need, free: Some(free), .. } = &error else { panic!("{error}") };
    assert_eq!(need.0, 4 << 20);
    assert!(free.0 <= 2 << 20, "{free}");
    assert!(error.to_string().contains("no room: 4.00 MiB are missing"), "{error}");
    assert_eq!(server.sent(), 0);
}

#[test]
fn a_disk_that_fills_up_meanwhile_is_told_with_what_is_missing() {
    let Some(disk) = Disk::mount("fills", "6m") else { return };
    let place = disk.0.clone();
    // Somebody else takes the room once the download has begun.
    let server = Server::start(files(), None, move |logged, _| {
        if logged.range.is_some_and(|(first, _)| first == 2 << 20) {
            fs::write(place.join("other"), vec![0; 4 << 20]).unwrap_or(());
        }
        plain(logged, 0)
    });
    let error = fetch(&hub(&server, &disk.0).connections(1), "u/r").unwrap_err();
    assert!(matches!(&error, HubError::DiskFull { need, .. } if need.0 > 0), "{error}");
    fs::remove_file(disk.0.join("other")).unwrap();
    let before = server.sent();
    fs::write(disk.0.join("other"), b"").unwrap();
    let server = Server::start(files(), None, plain);
    fetch(&hub(&server, &disk.0), "u/r").unwrap();
    assert!(server.sent() < 4 << 20, "it went on: {before} and {}", server.sent());
}

#[test]
fn a_cache_that_cannot_be_written_is_named() {
    let server = Server::start(files(), None, plain);
    // A file where the folder should be: root may write everywhere else.
    let place = folder("unwritable").join("cache");
    fs::write(&place, b"").unwrap();
    let error = fetch(&hub(&server, Path::new(&place)), "u/r").unwrap_err();
    assert!(error.is_disk() && error.to_string().contains("unwritable/cache"), "{error}");
    assert_eq!(server.sent(), 0);
}
