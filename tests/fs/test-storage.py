# SPDX-License-Identifier: LGPL-2.1-or-later
"""A slot whose files are on a tmpfs of bounded size (`storage = tmpfs`)."""
import errno
import os

from harness import Daemon, case, check, contains, equal, eventually, fails_with, main

MEGA = 1 << 20
SIZE, INODES = 32 * MEGA, 1000
PLACES = ('workspace', 'tmp', 'home/blackbox', 'workspace_sandbox/blackbox_server_runtime')


def succeeds(d, lease, command, **more):
    result = d.run(lease, command, **more)
    equal((result['returncode'], result['stderr']), (0, ''), command)
    return result['stdout']


@case
def the_four_directories_are_one_tmpfs_of_that_size(d):
    d.mkdir('t')
    out = succeeds(d, 't', 'stat -fc "%T %b %S %c" /workspace /tmp ~ /workspace_sandbox/blackbox_server_runtime; '
                           'stat -c %d,%a /workspace /tmp ~ /workspace_sandbox/blackbox_server_runtime')
    lines = out.splitlines()
    for line in lines[:4]:
        kind, blocks, size, inodes = line.split()
        equal((kind, int(blocks) * int(size), int(inodes)), ('tmpfs', SIZE, INODES))
    devices, modes = zip(*(line.split(',') for line in lines[4:]))
    equal(len(set(devices)), 1, 'file systems')
    equal(modes, ('755', '1777', '755', '755'))


@case
def nothing_of_it_is_on_disk(d):
    d.mkdir('t')
    succeeds(d, 't', 'echo x >/workspace/x; echo y >/tmp/y')
    equal(sorted(os.listdir(os.path.join(d.state, 'slots', '0000'))), ['archives', 'logs'])


@case
def set_uid_programs_and_devices_have_no_effect_there(d):
    d.mkdir('t')
    out = succeeds(d, 't', 'grep -E " (/workspace|/tmp|/home/blackbox|/workspace_sandbox/blackbox_server_runtime) " /proc/self/mounts')
    equal(len(out.splitlines()), 4)
    for line in out.splitlines():
        contains(line.split()[3], 'nosuid')
        contains(line.split()[3], 'nodev')


@case
def a_disk_bomb_ends_at_the_size_and_the_other_slot_does_not_notice(d):
    d.mkdir('bomb')
    d.mkdir('other')
    result = d.run('bomb', 'head -c 1G /dev/zero >/workspace/bomb')
    check(result['returncode'] != 0, 'it failed')
    contains(result['stderr'], 'No space left on device')
    equal(result['metadata']['reason'], 'disk_full')
    equal(result['metadata']['infra_failure'], False)
    equal(succeeds(d, 'other', 'head -c 8M /dev/zero >/workspace/mine && stat -c %s /workspace/mine'), f'{8 * MEGA}\n')
    equal(succeeds(d, 'bomb', 'rm /workspace/bomb; head -c 8M /dev/zero >/tmp/again; stat -c %s /tmp/again'), f'{8 * MEGA}\n')


@case
def an_inode_bomb_ends_at_the_number(d):
    d.mkdir('bomb')
    result = d.run('bomb', 'i=0; while true >/workspace/$i; do i=$((i+1)); done; echo $i; exit 1')
    contains(result['stderr'], 'No space left on device')
    check(INODES - 20 < int(result['stdout']) < INODES, f'{result["stdout"]} files')
    equal(result['metadata']['reason'], 'disk_full')


@case
def a_command_that_succeeds_is_not_blamed_for_a_full_disk(d):
    d.mkdir('t')
    result = d.run('t', 'head -c 1G /dev/zero >/workspace/bomb; true')
    equal((result['returncode'], result['metadata']['reason']), (0, None))


@case
def a_command_that_fails_with_room_left_is_not_called_disk_full(d):
    d.mkdir('t')
    result = d.run('t', 'exit 3')
    equal((result['returncode'], result['metadata']['reason']), (3, None))


@case
def df_shows_the_slots_own_storage(d):
    d.mkdir('t')
    for place in ('', *PLACES):
        space = os.statvfs(d.lease('t', 'fs', place))
        equal((space.f_blocks * space.f_frsize, space.f_files), (SIZE, INODES), place)
    succeeds(d, 't', 'head -c 4M /dev/zero >/workspace/x')
    space = os.statvfs(d.lease('t', 'fs'))
    equal((space.f_blocks - space.f_bfree) * space.f_frsize, 4 * MEGA)


@case
def files_work_through_the_mount(d):
    d.mkdir('t')
    for place in PLACES:
        at = d.lease('t', 'fs', place)
        os.mkdir(os.path.join(at, 'd'))
        with open(os.path.join(at, 'd', 'a'), 'w', encoding='utf-8') as f:
            f.write('text')
        os.rename(os.path.join(at, 'd', 'a'), os.path.join(at, 'b'))
        os.link(os.path.join(at, 'b'), os.path.join(at, 'd', 'c'))
        os.symlink('b', os.path.join(at, 'l'))
        os.mkfifo(os.path.join(at, 'p'))
        os.chmod(os.path.join(at, 'b'), 0o600)
        os.utime(os.path.join(at, 'b'), ns=(1, 2))
        equal((os.stat(os.path.join(at, 'b')).st_mtime_ns, os.stat(os.path.join(at, 'b')).st_mode & 0o777), (2, 0o600))
        os.truncate(os.path.join(at, 'b'), 2)
        fd = os.open(at, os.O_TMPFILE | os.O_RDWR)
        os.close(fd)
        equal(succeeds(d, 't', f'cat /{place}/d/c /{place}/l; stat -c %u:%g /{place}/b /{place}/d /{place}/p; '
                               f'echo more >>/{place}/b'), 'tete' + '1000:1000\n' * 3)
        with open(os.path.join(at, 'd', 'c'), encoding='utf-8') as f:
            equal(f.read(), 'temore\n')
        owner = os.stat(os.path.join(at, 'b'))
        equal((owner.st_uid, owner.st_gid), (os.geteuid(), os.getegid()))
        os.unlink(os.path.join(at, 'd', 'c'))
        os.rmdir(os.path.join(at, 'd'))


@case
def a_full_disk_is_ENOSPC_through_the_mount(d):
    d.mkdir('t')
    d.run('t', 'head -c 1G /dev/zero >/workspace/bomb')
    fd = os.open(d.lease('t', 'fs', 'tmp', 'mine'), os.O_CREAT | os.O_WRONLY)
    try:
        fails_with(errno.ENOSPC, lambda: [os.write(fd, bytes(MEGA)), os.fsync(fd)])
    finally:
        os.close(fd)


@case
def the_next_lease_finds_it_empty_and_of_full_size(d):
    d.mkdir('a')
    d.mkdir('b')
    for lease in ('a', 'b'):
        d.run(lease, 'head -c 1G /dev/zero >/workspace/bomb')
        fd = os.open(d.lease(lease, 'fs', 'workspace', 'bomb'), os.O_RDONLY)
        d.rmdir(lease)
        fails_with(errno.ESTALE, os.read, fd, 1)
        os.close(fd)
    d.wait_ready()
    for lease in ('c', 'd'):
        d.mkdir(lease)
        equal(succeeds(d, lease, 'ls -A /workspace /tmp ~ | grep -v :; head -c 30M /dev/zero >/workspace/x'), '\n\n')


@case
def the_memory_of_ended_leases_is_given_back(d):
    def shared():
        with open('/proc/meminfo', encoding='utf-8') as f:
            return next(int(line.split()[1]) for line in f if line.startswith('Shmem:')) * 1024
    before = shared()
    for _ in range(20):
        d.mkdir('t')
        d.run('t', 'head -c 1G /dev/zero >/workspace/bomb')
        d.rmdir('t')
        d.wait_ready()
    # the machine's other programs use some too
    eventually(lambda: shared() - before < 10 * SIZE, 'the memory of 20 leases is free')


@case
def set_values_outside_the_bounds_are_refused():
    for option in ('slot.size=1K', 'slot.inodes=10'):
        try:
            with Daemon(slots=1, options=('slot.storage=tmpfs', option)):
                pass
        except Exception as e:  # pylint: disable=broad-except
            contains(str(e), option.split('=')[0])
        else:
            check(False, 'it started')


main(slots=2, options=('slot.storage=tmpfs', f'slot.size={SIZE}', f'slot.inodes={INODES}'))
