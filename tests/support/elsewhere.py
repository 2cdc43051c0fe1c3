"""A process that finds what a Mac has: no name that only Linux's Python knows, no /proc, processes that are spawned.

A stand-in, not a Mac: the libraries are Linux's, and so are the files.
"""

from pathlib import Path

SITE = """
import sys

def hidden(event, words):
    if event in ("open", "os.listdir", "os.scandir") and str(words[0]).startswith(("/proc", "/sys")):
        raise FileNotFoundError(2, "No such file or directory", words[0])

import os, select, signal, socket, sysconfig
sysconfig.get_config_vars()  # of the file that a Linux installation has
sys.platform = "darwin"
ONLY_LINUX = {
    os: ["memfd_create", "MFD_CLOEXEC", "sched_getaffinity", "sched_setaffinity", "sched_setscheduler", "fdatasync",
         "pidfd_open", "getrandom", "posix_fadvise", "posix_fallocate", "splice", "copy_file_range", "eventfd",
         "getxattr", "setxattr", "listxattr", "setresuid", "getresuid", "O_TMPFILE", "O_DIRECT", "O_PATH", "O_NOATIME"],
    select: ["epoll"],
    signal: ["sigtimedwait", "sigwaitinfo", "SIGRTMIN", "SIGPWR", "SIGSTKFLT", "pidfd_send_signal"],
    socket: ["TCP_INFO", "SO_PEERCRED", "AF_NETLINK", "AF_PACKET", "SOCK_CLOEXEC", "SOCK_NONBLOCK", "TCP_USER_TIMEOUT"],
}
for module, names in ONLY_LINUX.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
sys.addaudithook(hidden)
"""


def site(folder: Path) -> Path:
    """To be put first on PYTHONPATH, which the processes that a process starts inherit."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SITE)
    return folder
