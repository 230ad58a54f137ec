"""Installs the clients, each kind once at its pinned versions, into a folder of its own.

The folder is QUARRY_CLIENTS_DIR, by default ~/.cache/quarry/clients; what is there is used again as long as the files
that name the versions do not change. Debian's packages are unpacked, not installed: a machine keeps its own syslog, and
nobody needs to be root. Their versions are those of the Debian release.
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).resolve().parent
DEBIAN = {"rsyslog": ["rsyslog"], "syslog-ng": ["syslog-ng-core", "syslog-ng-mod-http"], "collectd": ["collectd-core"]}
# What collectd-core only suggests and its plugins are linked with.
DEBIAN["collectd"] += ["libcurl3-gnutls", "libyajl2"]


class Missing(Exception):
    """A tool that a kind of client needs is not on this machine."""


def run(command, **more):
    subprocess.run(command, check=True, **more)


def need(tool):
    if shutil.which(tool) is None:
        raise Missing(f"there is no `{tool}`")


def folder_of(kind, version, fill):
    """A folder that `fill` has filled for this version."""
    root = pathlib.Path(os.environ.get("QUARRY_CLIENTS_DIR", "~/.cache/quarry/clients")).expanduser()
    folder = root / f"{kind}-{hashlib.sha256(version).hexdigest()[:12]}"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        fill(folder)
        (folder / "complete").touch()
    return folder


def python():
    """Python of a folder that holds its clients."""
    wanted = HERE / "requirements.txt"
    name = f"python-{sys.version_info[0]}.{sys.version_info[1]}"

    def fill(folder):
        venv.create(folder, with_pip=True, clear=True)
        install = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]
        run([*install, wanted])

    return folder_of(name, wanted.read_bytes(), fill) / "bin" / "python"


def node():
    """Folder of Node's clients."""
    need("node")
    need("npm")
    files = [HERE / "node" / "package.json", HERE / "node" / "package-lock.json"]

    def fill(folder):
        for path in files:
            shutil.copy(path, folder)
        run(["npm", "ci", "--no-audit", "--no-fund", "--silent", "--ignore-scripts"], cwd=folder)

    return folder_of("node", b"".join(path.read_bytes() for path in files), fill)


def docker():
    """Docker's log driver, in a program of a few lines."""
    need("go")
    files = sorted(path for path in (HERE / "docker").iterdir() if path.is_file())

    def fill(folder):
        environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"}
        run(["go", "build", "-o", folder / "driver", "."], cwd=HERE / "docker", env=environment)

    return folder_of("docker", b"".join(path.read_bytes() for path in files), fill) / "driver"


def debian(name):
    """Root of a tree with a Debian package and what it needs."""
    for tool in ["apt-get", "dpkg-deb"]:
        need(tool)
    release = pathlib.Path("/etc/debian_version").read_text(encoding="utf-8")

    def fill(folder):
        packages = folder / "packages"
        (packages / "partial").mkdir(parents=True)
        command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "--download-only", "--reinstall"]
        options = [f"Dir::Cache::archives={packages}", "Debug::NoLocking=1", "APT::Sandbox::User="]
        command += [word for option in options for word in ["-o", option]] + DEBIAN[name]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
            run([*sudo, "apt-get", "update", "-qq"], stdout=subprocess.DEVNULL)
            run(command, stdout=subprocess.DEVNULL)
        for package in sorted(packages.glob("*.deb")):
            run(["dpkg-deb", "-x", package, folder])
        shutil.rmtree(packages)

    return folder_of(name, (release + " ".join(DEBIAN[name])).encode(), fill)


KINDS = {"node": node, "docker": docker, **{name: lambda name=name: debian(name) for name in DEBIAN}}
