"""Walls around a policy's process that Linux keeps up: Landlock for files and signals, seccomp for the rest.

Unlike an audit hook of Python they hold whatever code runs in the process. They can't be taken back.

Sources: landlock.7; include/uapi/linux/landlock.h, seccomp.h, bpf_common.h, and the kernel's tables of calls
"""

import ctypes
import os
import platform
from collections.abc import Iterable
from pathlib import Path

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""Landlock's calls, of the same number on all processors."""

ASK_VERSION, PATH_BENEATH = 1, 1

READ_FILE, READ_DIR, WRITE_FILE = 1 << 2, 1 << 3, 1 << 1

FILES_OF_VERSION = {1: 13, 2: 14, 3: 15, 4: 15}
"""So many kinds of access to files does a version of Landlock know; later ones 16."""

TCP, ABSTRACT_SOCKETS_AND_SIGNALS = 0b11, 0b11

NO_NEW_PRIVILEGES, SET_SECCOMP, FILTER = 38, 22, 2

ALLOW, KILL, REFUSE, UNKNOWN_CALL = 0x7FFF0000, 0x80000000, 0x50000 | 1, 0x50000 | 38
"""What becomes of a call: REFUSE is EPERM. UNKNOWN_CALL is ENOSYS, after which libc takes an older call."""

LOAD, EQUAL, AT_LEAST, HAS_BITS, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
"""Instructions of a filter."""

ARCHITECTURE, NUMBER, FIRST_ARGUMENT, SECOND_ARGUMENT = 4, 0, 16, 24
"""Where a filter finds them: offsets in struct seccomp_data."""

IS_THREAD = 0x10000  # CLONE_THREAD
OTHER_NUMBERING = 0x40000000  # x86_64 has its calls a second time from here on, for the x32 ABI

MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""The name of an architecture for a filter, and its column in REFUSED."""

NONE = -1

REFUSED = {
    # starts processes and programs; threads are let through
    "fork": (57, NONE),
    "vfork": (58, NONE),
    "execve": (59, 221),
    "execveat": (322, 281),
    # reaches other processes
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274),
    # reaches the network, and servers on this machine
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "bind": (49, 200),
    "io_uring_setup": (425, 425),  # its requests pass no filter
    # memory that counts for no process
    "memfd_create": (319, 279),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "mq_open": (240, 180),
    # changes files otherwise than Landlock refuses
    "truncate": (76, 45),
    "chmod": (90, NONE),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, NONE),
    "fchown": (93, 55),
    "lchown": (94, NONE),
    "fchownat": (260, 54),
    "utime": (132, NONE),
    "utimes": (235, NONE),
    "futimesat": (261, NONE),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    # reaches the kernel itself
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "unshare": (272, 97),
    "setns": (308, 268),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "open_by_handle_at": (304, 265),
}
"""System calls that a policy has no need of: by processor, their numbers."""

CLONE, CLONE3, PRLIMIT = (56, 220), (435, 435), (302, 261)

FCNTL, IOCTL = (72, 25), (16, 29)

SIGNALLING = {FCNTL: (8, 10, 15), IOCTL: (0x8901, 0x8902, 0x5452, 0x5412)}
"""Commands by which a file sends signals to any process, or types into a terminal: of fcntl F_SETOWN,
F_SETSIG and F_SETOWN_EX, of ioctl FIOSETOWN, SIOCSPGRP, FIOASYNC and TIOCSTI. Landlock refuses such signals
only from version 6 on."""


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scope", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("if_so", ctypes.c_uint8),
        ("if_not", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction)))


def has_walls() -> bool:
    """Whether this machine has both."""
    return platform.system() == "Linux" and platform.machine() in MACHINES and _version() > 0


def build_walls(readable: Iterable[Path], listed: Iterable[Path]) -> None:
    """From now on, this process reads files in `readable`, lists also those in `listed`, and no more.

    What it has open stays open. OSError when the kernel refuses that. Call it where `has_walls`.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _confine_files(libc, readable, listed)
    _refuse_calls(libc)


def _version() -> int:
    return int(ctypes.CDLL(None).syscall(CREATE_RULESET, None, 0, ASK_VERSION))


def _confine_files(libc: ctypes.CDLL, readable: Iterable[Path], listed: Iterable[Path]) -> None:
    version = _version()
    wanted = _Ruleset((1 << FILES_OF_VERSION.get(version, 16)) - 1, TCP, ABSTRACT_SOCKETS_AND_SIGNALS)
    size = 8 if version < 4 else 16 if version < 6 else 24  # an older version knows fewer fields
    rules = _check(libc.syscall(CREATE_RULESET, ctypes.byref(wanted), ctypes.c_size_t(size), 0))
    access = [(each, READ_FILE | READ_DIR) for each in readable] + [(each, READ_DIR) for each in listed]
    for path, allowed in [*access, (Path(os.devnull), READ_FILE | WRITE_FILE)]:
        if path.exists():
            folder = os.open(path, os.O_PATH)
            rule = _Beneath(allowed if path.is_dir() else allowed & ~READ_DIR, folder)
            if rule.allowed:
                _check(libc.syscall(ADD_RULE, rules, PATH_BENEATH, ctypes.byref(rule), 0))
            os.close(folder)
    _check(libc.syscall(RESTRICT_SELF, rules, 0))
    os.close(rules)


def _refuse_calls(libc: ctypes.CDLL) -> None:
    architecture, column = MACHINES[platform.machine()]
    program = [
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 1, 0, architecture),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
        (AT_LEAST, 0, 1, OTHER_NUMBERING),
        (RETURN, 0, 0, REFUSE),
    ]
    for numbers in REFUSED.values():
        if numbers[column] != NONE:
            program += [(EQUAL, 0, 1, numbers[column]), (RETURN, 0, 0, REFUSE)]
    for call, commands in SIGNALLING.items():
        program += [(EQUAL, 0, 2 * len(commands) + 2, call[column]), (LOAD, 0, 0, SECOND_ARGUMENT)]
        for command in commands:
            program += [(EQUAL, 0, 1, command), (RETURN, 0, 0, REFUSE)]
        program += [(RETURN, 0, 0, ALLOW)]
    program += [
        (EQUAL, 0, 1, CLONE3[column]),
        (RETURN, 0, 0, UNKNOWN_CALL),
        (EQUAL, 0, 4, CLONE[column]),
        (LOAD, 0, 0, FIRST_ARGUMENT),
        (HAS_BITS, 1, 0, IS_THREAD),
        (RETURN, 0, 0, REFUSE),
        (RETURN, 0, 0, ALLOW),
        (EQUAL, 0, 3, PRLIMIT[column]),
        (LOAD, 0, 0, FIRST_ARGUMENT),
        (EQUAL, 1, 0, 0),  # its own limits, which it can only lower
        (RETURN, 0, 0, REFUSE),
        (RETURN, 0, 0, ALLOW),
    ]
    instructions = (_Instruction * len(program))(*(_Instruction(*each) for each in program))
    _check(libc.prctl(SET_SECCOMP, FILTER, ctypes.byref(_Program(len(program), instructions)), 0, 0))


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
