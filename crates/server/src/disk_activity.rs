//! Activity of a folder's disk since the machine started, from `/proc/diskstats`.
//!
//! The disk is the device of the folder's file system; overlays and network file systems have no device and thus no
//! figures. Fields of the file: Linux, Documentation/admin-guide/iostats.rst.

use std::path::Path;

use quarry_api::DiskActivity;

/// Unit of the sizes in the file, which does not depend on the device's sectors.
const SECTOR_BYTES: u64 = 512;

/// The activity of a folder's disk; `None` if the disk is not a device of this machine.
pub(crate) fn of_folder(folder: &Path) -> Option<DiskActivity> {
    let device = rustix::fs::stat(folder).ok()?.st_dev;
    let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let read = |path: &str| std::fs::read_to_string(path).ok();
    parse_activity(&number, &read("/proc/diskstats")?, &read("/proc/self/mountinfo")?, &read("/proc/uptime")?)
}

/// The activity of the device with the number `MAJOR:MINOR`.
fn parse_activity(number: &str, disks: &str, mounts: &str, uptime: &str) -> Option<DiskActivity> {
    let mut disks = disks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let disk = disks.find(|words| words.len() > 2 && format!("{}:{}", words[0], words[1]) == number)?;
    let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mount = mounts.find(|words| words.get(2) == Some(&number))?;
    let figure = |at: usize| disk.get(at).and_then(|word| word.parse::<u64>().ok());
    // A dash ends the optional fields of a mount.
    let file_system = mount.iter().skip_while(|word| **word != "-").nth(1)?;
    Some(DiskActivity {
        device: disk[2].to_owned(),
        file_system: (*file_system).to_owned(),
        mount_point: (*mount.get(4)?).to_owned(),
        seconds: uptime.split_whitespace().next()?.parse().ok()?,
        reads: figure(3)?,
        read_bytes: figure(5)?.saturating_mul(SECTOR_BYTES),
        writes: figure(7)?,
        written_bytes: figure(9)?.saturating_mul(SECTOR_BYTES),
        busy_ms: figure(12)?,
        waited_ms: figure(6)?.saturating_add(figure(10)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_describe_the_device_of_the_folder() {
        let disks = "   8       0 sda 9 0 9 9 9 0 9 9 0 9 9\n 254       0 vda 100 5 2048 40 50 6 4096 60 0 70 100\n";
        let mounts = "22 1 254:0 / / rw shared:1 - ext4 /dev/root rw\n23 22 0:5 / /proc rw - proc proc rw\n";
        let wanted = DiskActivity {
            device: "vda".into(),
            file_system: "ext4".into(),
            mount_point: "/".into(),
            seconds: 200.5,
            reads: 100,
            read_bytes: 2048 * 512,
            writes: 50,
            written_bytes: 4096 * 512,
            busy_ms: 70,
            waited_ms: 100,
        };
        assert_eq!(parse_activity("254:0", disks, mounts, "200.50 300.00\n"), Some(wanted));
        assert_eq!(parse_activity("0:5", disks, mounts, "1 1"), None, "a file system without a device");
    }
}
