//! Simulated disks and blob stores that fail on demand.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use quarry_blob::{BlobError, BlobStore, DirectoryStore};
use quarry_bucket::ReadAt;

use crate::{Disk, DiskFile, LocalDisk};

/// Number of bytes of the budget that a put costs, so that some crashes happen between puts.
const PUT_COST: u64 = 120;

/// A machine that fails after writing a number of bytes; every later operation fails.
#[derive(Clone, Debug)]
pub(crate) struct Machine(Arc<Mutex<MachineState>>);

#[derive(Debug)]
struct MachineState {
    left: u64,
    dead: bool,
    /// Number of bytes written and of bytes synced, by file.
    files: BTreeMap<PathBuf, (u64, u64)>,
}

fn machine_failed_error() -> io::Error {
    io::Error::other("the machine is off")
}

impl Machine {
    pub(crate) fn new(bytes: u64) -> Machine {
        Machine(Arc::new(Mutex::new(MachineState { left: bytes, dead: false, files: BTreeMap::new() })))
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.0.lock().unwrap().dead
    }

    fn alive(&self) -> io::Result<()> {
        if self.is_dead() { Err(machine_failed_error()) } else { Ok(()) }
    }

    /// Spends from the budget; returns how many of `bytes` it covered.
    fn spend(&self, bytes: u64) -> u64 {
        let mut state = self.0.lock().unwrap();
        if state.dead {
            return 0;
        }
        let spent = bytes.min(state.left);
        state.left -= spent;
        state.dead = spent < bytes;
        spent
    }

    /// Loses a part of the unsynced data, as a crash may.
    pub(crate) fn lose_unsynced(&self, seed: u64) {
        for (path, (written, synced)) in &self.0.lock().unwrap().files {
            if written > synced && path.exists() {
                let kept = synced + seed % (written - synced + 1);
                OpenOptions::new().write(true).open(path).unwrap().set_len(kept).unwrap();
            }
        }
    }
}

impl Disk for Machine {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.alive()?;
        let file = LocalDisk.create(path)?;
        self.0.lock().unwrap().files.insert(path.to_owned(), (0, 0));
        Ok(Arc::new(MachineFile { machine: self.clone(), file, path: path.to_owned() }))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.alive()?;
        let file = LocalDisk.open(path)?;
        // Existing content is only overwritten in place, so it is never lost.
        let len = path.metadata()?.len();
        self.0.lock().unwrap().files.entry(path.to_owned()).or_insert((len, len));
        Ok(Arc::new(MachineFile { machine: self.clone(), file, path: path.to_owned() }))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.alive()?;
        LocalDisk.remove(path)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        LocalDisk.free_bytes(path)
    }
}

#[derive(Debug)]
struct MachineFile {
    machine: Machine,
    file: Arc<dyn DiskFile>,
    path: PathBuf,
}

impl MachineFile {
    fn note(&self, change: impl Fn(&mut (u64, u64))) {
        if let Some(entry) = self.machine.0.lock().unwrap().files.get_mut(&self.path) {
            change(entry);
        }
    }
}

impl DiskFile for MachineFile {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let spent = self.machine.spend(bytes.len() as u64) as usize;
        self.file.write_all_at(&bytes[..spent], offset)?;
        self.note(|(written, _)| *written = (*written).max(offset + spent as u64));
        if spent < bytes.len() { Err(machine_failed_error()) } else { Ok(()) }
    }

    fn sync(&self) -> io::Result<()> {
        if self.machine.spend(1) == 0 {
            return Err(machine_failed_error());
        }
        self.note(|(written, synced)| *synced = *written);
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.machine.alive()?;
        self.note(|entry| *entry = (len, len));
        self.file.truncate(len)
    }
}

#[derive(Debug)]
pub(crate) struct MachineBlobs(pub(crate) Machine, pub(crate) DirectoryStore);

impl BlobStore for MachineBlobs {
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), BlobError> {
        let failed =
            || BlobError::Io { action: "write", path: name.into(), reason: machine_failed_error().to_string() };
        let spent = self.0.spend(PUT_COST);
        // An interrupted put is stored completely or not at all.
        if spent > PUT_COST / 2 {
            self.1.put(name, bytes)?;
        }
        if spent < PUT_COST { Err(failed()) } else { Ok(()) }
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>, BlobError> {
        self.1.open(name)
    }

    fn delete(&self, name: &str) -> Result<(), BlobError> {
        self.1.delete(name)
    }

    fn exists(&self, name: &str) -> Result<bool, BlobError> {
        self.1.exists(name)
    }

    fn list(&self) -> Result<Vec<String>, BlobError> {
        self.1.list()
    }
}

/// A file system with limited space. Files can be created as long as any space is left.
#[derive(Clone, Debug)]
pub(crate) struct Room(Arc<Mutex<RoomState>>);

#[derive(Debug)]
struct RoomState {
    bytes: u64,
    /// Whether the next sync fails, after everything was written.
    sync_fails: bool,
    /// Number of writes that succeed before one fails; `None` if none fails.
    writes_left: Option<u64>,
    used: BTreeMap<PathBuf, u64>,
}

impl Room {
    pub(crate) fn new(bytes: u64) -> Room {
        Room(Arc::new(Mutex::new(RoomState { bytes, sync_fails: false, writes_left: None, used: BTreeMap::new() })))
    }

    pub(crate) fn set(&self, bytes: u64) {
        self.0.lock().unwrap().bytes = bytes;
    }

    pub(crate) fn fail_next_sync(&self) {
        self.0.lock().unwrap().sync_fails = true;
    }

    /// Makes one write fail after `writes` successful ones.
    pub(crate) fn fail_write_after(&self, writes: u64) {
        self.0.lock().unwrap().writes_left = Some(writes);
    }

    /// Whether this write is the one that fails.
    fn write_fails(&self) -> bool {
        let mut state = self.0.lock().unwrap();
        let left = state.writes_left;
        state.writes_left = left.and_then(|left| left.checked_sub(1));
        left == Some(0)
    }

    fn free(&self) -> u64 {
        let state = self.0.lock().unwrap();
        state.bytes.saturating_sub(state.used.values().sum())
    }
}

impl Disk for Room {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        // Writes of small files next to the segments are not counted.
        if path.extension().is_none() {
            return LocalDisk.create(path);
        }
        if self.free() == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let file = LocalDisk.create(path)?;
        self.0.lock().unwrap().used.insert(path.to_owned(), 0);
        Ok(Arc::new(RoomFile { room: self.clone(), file, path: path.to_owned() }))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        LocalDisk.open(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.lock().unwrap().used.remove(path);
        LocalDisk.remove(path)
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        Ok(self.free())
    }
}

#[derive(Debug)]
struct RoomFile {
    room: Room,
    file: Arc<dyn DiskFile>,
    path: PathBuf,
}

impl DiskFile for RoomFile {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let room = if self.room.write_fails() { 0 } else { self.room.free() };
        let fitting = (bytes.len() as u64).min(room) as usize;
        self.file.write_all_at(&bytes[..fitting], offset)?;
        self.room.0.lock().unwrap().used.insert(self.path.clone(), offset + fitting as u64);
        if fitting < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn sync(&self) -> io::Result<()> {
        match std::mem::take(&mut self.room.0.lock().unwrap().sync_fails) {
            true => Err(io::Error::other("the disk is broken")),
            false => Ok(()),
        }
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.room.0.lock().unwrap().used.insert(self.path.clone(), len);
        self.file.truncate(len)
    }
}
