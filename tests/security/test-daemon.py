# SPDX-License-Identifier: LGPL-2.1-or-later
"""What test-isolation tries on a bare slot, tried by a command of a lease, with the whole daemon around it. SLOT_OPTIONS has
the daemon's own, so that slots of every kind are tried."""
import atexit
import ctypes
import os
import shutil
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'fs'))
from harness import IS_ROOT, Scratch, cases, check, equal, main  # noqa: E402  (the path comes first)
from rootfs import make_rootfs  # noqa: E402

HOSTILE = os.environ['HOSTILE']
MARKER = 'decoy-77aa31'
OPTIONS = os.environ.get('SLOT_OPTIONS', '').split()
# what an option shows or allows by design
BY_DESIGN = {
    'slot.rootfs=/': {'the_hosts_secrets_cannot_be_read'},
    'slot.network=nat': {'there_is_no_route_to_anywhere', 'there_is_no_interface_but_lo'},
    'slot.overlay=on': {
        'the_hosts_secrets_cannot_be_read',  # the image's
        'the_system_cannot_be_written',  # a layer above it
        'memory_cannot_be_filled_through_root_dev_or_shm',  # that layer is on the disk
        'files_cannot_be_given_capabilities_or_to_root',  # the slot's own
        'there_is_no_way_to_root_or_capabilities',
    },
}
NAMES = subprocess.run([HOSTILE, '--list'], capture_output=True, text=True, check=True).stdout.split()


def plant(d):
    """What is the host's: a port, an abstract socket, a socket in a directory, a System V segment."""
    d.listener = socket.create_server(('127.0.0.1', 0))
    d.abstract = socket.socket(socket.AF_UNIX)
    d.abstract.bind(f'\0dressagefs-test-{d.pid}')
    d.abstract.listen()
    d.socket = socket.socket(socket.AF_UNIX)
    d.socket.bind(os.path.join(d.base, 'socket'))
    d.socket.listen()
    libc = ctypes.CDLL(None, use_errno=True)
    d.shm_key = 0xd1e55 + d.pid
    segment = libc.shmget(d.shm_key, 4096, 0o1666)
    check(segment >= 0, 'cannot make a System V segment')
    atexit.register(libc.shmctl, segment, 0, None)


def prepare(d):
    """Lease `a` is the attacker's; lease `b`, whose slot is another, has a secret."""
    if not hasattr(d, 'listener'):
        plant(d)
    d.wait_ready()
    d.mkdir('a')
    d.mkdir('b')
    shutil.copyfile(HOSTILE, d.lease('a', 'fs', 'workspace', 'hostile'))
    os.chmod(d.lease('a', 'fs', 'workspace', 'hostile'), 0o755)
    with open(d.lease('b', 'fs', 'workspace', 'secret'), 'w', encoding='utf-8') as f:
        f.write(MARKER)


def attempt(d, name):
    other = os.path.join(d.state, 'slots', f'{d.slot_of("b"):04d}', 'work', 'secret')
    check(os.path.exists(other) or 'slot.storage=tmpfs' in OPTIONS, f'{other} is not where the attempt looks')
    spaces = [os.readlink(f'/proc/self/ns/{ns}') for ns in ('user', 'mnt', 'pid', 'net', 'ipc', 'uts', 'cgroup')]
    decoys = {
        'marker': MARKER, 'pid': d.pid, 'comm': 'dressagefs', 'other_file': other, 'other_socket': d.socket.getsockname(),
        'port': d.listener.getsockname()[1], 'abstract': f'dressagefs-test-{d.pid}', 'shm_key': d.shm_key,
        'host_name': os.uname().nodename, 'namespaces': ','.join(spaces), 'root_file': '/shared/roots' if IS_ROOT else '',
    }
    return d.run('a', ['/workspace/hostile', name, *(f'{key}={value}' for key, value in decoys.items())])


def add_case(name):
    def refused(d):
        prepare(d)
        result = attempt(d, name)
        equal((result['returncode'], result['stdout']), (0, ''), name)
        # what is done in one lease is not felt in it afterwards, nor in the other
        equal([d.run(lease, 'echo well')['stdout'] for lease in 'ab'], ['well\n', 'well\n'])
    refused.__name__ = name
    cases.append(refused)


def nothing_gets_through_in_this_kind_of_slot(d):
    """All attempts in one lease: the kinds share most of what is tried."""
    prepare(d)
    if 'pids_max unlimited' in d.read('slots', f'{d.slot_of("a"):04d}', 'limits'):
        NAMES.remove('a_fork_bomb_of_many_users_ends_too')  # no cgroup: the limits say so
    for name in NAMES:
        if not any(name in BY_DESIGN.get(option, ()) for option in OPTIONS):
            result = attempt(d, name)
            equal((result['returncode'], result['stdout']), (0, ''), name)
            equal([d.run(lease, 'echo well')['stdout'] for lease in 'ab'], ['well\n', 'well\n'], name)


def an_attempt_that_gets_through_is_noticed(d):
    prepare(d)
    result = attempt(d, 'control')
    equal((result['returncode'], result['stdout']), (1, 'wrote a file of its own\n'))


def the_daemons_init_has_no_way_to_leave_out_a_step(_):
    """The suite's own init has; how it is told, and the steps that have no other name, are in no other program."""
    with open(os.environ['DRESSAGEFS'], 'rb') as f:
        daemon = f.read()
    with open(os.environ['LEAKING_INIT'], 'rb') as f:
        leaking = f.read()
    for text in (b'leave-out=', b'setresuid of the helper', b'clone without vfork'):
        check(text in leaking and text not in daemon, text)
    check(b'max_user_namespaces' in daemon, 'init is not where it was looked for')


cases.append(the_daemons_init_has_no_way_to_leave_out_a_step)
cases.append(an_attempt_that_gets_through_is_noticed)
if OPTIONS:
    cases.append(nothing_gets_through_in_this_kind_of_slot)
else:
    for attempt_name in NAMES:
        add_case(attempt_name)


def options_of(base):
    """With what lies there for the attempts: a root file system, and a file for the host's root alone."""
    shared = os.path.join(base, 'shared')
    os.mkdir(shared)
    os.chmod(shared, 0o755)
    with open(os.open(os.path.join(shared, 'roots'), os.O_WRONLY | os.O_CREAT, 0o600), 'w', encoding='utf-8') as f:
        f.write(MARKER)
    more = [f'slot.bwrap_args=--ro-bind {shared} /shared']
    if 'slot.overlay=on' in OPTIONS:
        more.append('slot.rootfs=' + make_rootfs(os.path.join(base, 'root'), 'x'))
    return OPTIONS + more


def obstacle():
    """Why slots of this kind cannot be had here."""
    if 'slot.network=nat' not in OPTIONS:
        return None
    if not shutil.which('slirp4netns'):
        return 'slirp4netns is not installed'
    usable = os.path.exists('/dev/net/tun') and os.stat('/dev/net/tun').st_mode & 0o006 == 0o006
    return None if usable else 'slots may not open /dev/net/tun'


if obstacle():
    print(f'1..0 # SKIP {obstacle()}')
    sys.exit()
with Scratch() as place:
    main(slots=2, env={'DECOY_OF_THE_DAEMON': MARKER}, options=options_of(place))
