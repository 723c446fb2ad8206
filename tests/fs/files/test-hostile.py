# SPDX-License-Identifier: LGPL-2.1-or-later
"""A sandbox that plants things: nothing outside the lease is read, written or waited for."""
import errno
import json
import os
import random
import stat
import subprocess
import threading
import time

from mount import IS_ROOT, SANITIZED, Mount, Skip, case, check, equal, fails_with, main, need, read, sh, write


@case
def links_that_would_leave_are_not_shown(m):
    write(os.path.join(m.base, 'canary'), 'secret')
    m.plant_dir('d')
    targets = ['/etc/../etc/passwd', '..', '../canary', '../../canary', 'd/../../canary', 'd/../..', './../canary', '/..', '//../x',
               'd/./../../x', '../' * 40 + 'etc/passwd']
    for i, target in enumerate(targets):
        os.symlink(target, m.behind(f'l{i}'))
        fails_with(errno.EPERM, os.readlink, m.at(f'l{i}'))
        fails_with(errno.EPERM, os.stat, m.at(f'l{i}'))
        fails_with(errno.EPERM, os.open, m.at(f'l{i}'), os.O_RDONLY)
        check(stat.S_ISLNK(os.lstat(m.at(f'l{i}')).st_mode), 'lstat does not show a link')
    fails_with(errno.EPERM, os.open, m.at('l2'), os.O_WRONLY | os.O_CREAT)
    equal(read(os.path.join(m.base, 'canary')), b'secret')


@case
def absolute_links_lead_into_the_lease(m):
    m.plant_dir('etc')
    m.plant('etc/passwd', 'inside')
    m.plant_dir('a')
    m.plant_dir('a/b')
    os.symlink('/etc/passwd', m.behind('top'))
    os.symlink('/etc/passwd', m.behind('a/b/deep'))
    os.symlink('/', m.behind('a/root'))
    os.symlink('/', m.behind('root'))
    equal(os.readlink(m.at('top')), 'etc/passwd')
    equal(os.readlink(m.at('a/b/deep')), '../../etc/passwd')
    equal(os.readlink(m.at('a/root')), '..')
    equal(os.readlink(m.at('root')), '.')
    for path in ('top', 'a/b/deep', 'a/root/etc/passwd', 'root/a/root/a/b/deep'):
        equal(read(m.at(path)), b'inside', path)
    for name in ('top', 'a/b/deep', 'a/root'):
        equal(os.lstat(m.at(name)).st_size, len(os.readlink(m.at(name))), name)


@case
def links_within_are_shown_as_they_are(m):
    m.plant_dir('a')
    m.plant_dir('a/b')
    m.plant('f', 'x')
    for name, target in (('l', 'f'), ('a/l', '../f'), ('a/b/l', '../../f'), ('a/m', './../f'), ('dangling', 'nothing/here')):
        os.symlink(target, m.behind(name))
        equal(os.readlink(m.at(name)), target)
    for name in ('l', 'a/l', 'a/b/l', 'a/m'):
        equal(read(m.at(name)), b'x')


@case
def a_path_that_seems_to_stay_inside_does(m):
    """p/q/r/s/d -> ../../../../shallow makes d/../../../../.. four levels above the root in fact."""
    write(os.path.join(m.base, 'canary'), 'secret')
    os.makedirs(m.behind('p/q/r/s'))
    m.plant_dir('shallow')
    os.symlink('../../../../shallow', m.behind('p/q/r/s/d'))
    os.symlink('d/../../canary', m.behind('p/q/r/s/x'))
    fails_with(errno.EPERM, os.readlink, m.at('p/q/r/s/x'))
    check(os.path.isdir(m.at('p/q/r/s/d')), 'the honest link does not work')


@case
def a_client_in_a_directory_that_was_moved_up_cannot_be_led_out(m):
    write(os.path.join(m.base, 'canary'), 'secret')
    os.makedirs(m.behind('a/b/c/d'))
    os.symlink('../../../../canary', m.behind('a/b/c/d/l'))  # at depth 4: inside
    os.symlink('/canary', m.behind('a/b/c/d/abs'))
    m.plant('canary', 'decoy')
    here = os.open(m.at('a/b/c/d'), os.O_RDONLY | os.O_DIRECTORY)
    equal(os.readlink('l', dir_fd=here), '../../../../canary')
    os.rename(m.behind('a/b/c/d'), m.behind('d'))
    for _ in range(3):
        for name in ('l', 'abs', '../l', 'd/l'):
            look(m, here, name)
        look(m, None, m.at('d/l'))
        look(m, None, m.at('d/abs'))
    os.close(here)


def look(m, here, name):
    """Reads through the link, if at all, nothing but what is inside."""
    try:
        fd = os.open(name, os.O_RDONLY, dir_fd=here)
    except OSError:
        return
    try:
        check(os.read(fd, 100) != b'secret', f'{name} leads out of the lease')
    finally:
        os.close(fd)


@case
def a_directory_renamed_by_a_client_takes_its_links_with_it_safely(m):
    m.plant('f', 'inside')
    os.makedirs(m.behind('a/b/c/d'))
    os.symlink('../../../../f', m.behind('a/b/c/d/rel'))
    os.symlink('/f', m.behind('a/b/c/d/abs'))
    here = os.open(m.at('a/b/c/d'), os.O_RDONLY | os.O_DIRECTORY)
    equal(read(m.at('a/b/c/d/rel')), b'inside')
    os.rename(m.at('a/b'), m.at('b'))        # one up
    try:
        os.readlink('rel', dir_fd=here)
        check(False, 'a link that climbs too far is shown')
    except OSError as e:
        equal(e.errno, errno.EPERM)
    equal(os.readlink('abs', dir_fd=here), '../../../f')
    equal(read(m.at('b/c/d/abs')), b'inside')
    os.rename(m.at('b'), m.at('a/b'))        # and down again
    equal(read(m.at('a/b/c/d/rel')), b'inside')
    equal(read(m.at('a/b/c/d/abs')), b'inside')
    os.makedirs(m.at('x/y/z'))
    os.rename(m.at('a'), m.at('x/y/z/a'))    # and much deeper
    equal(read(m.at('x/y/z/a/b/c/d/abs')), b'inside')
    equal(os.readlink(m.at('x/y/z/a/b/c/d/abs')), '../' * 7 + 'f')
    os.close(here)


@case
def a_storm_of_moves_and_links_never_leads_out(m):
    """The sandbox swaps directories of different depths while a client walks and reads links in them."""
    write(os.path.join(m.base, 'canary'), 'secret')
    write(os.path.join(m.mnt, '..', 'f'), 'secret')
    write(os.path.join(m.back, 'f'), 'inside')
    os.makedirs(m.behind('a/b/c/d/e'))
    for depth, path in enumerate(('a', 'a/b', 'a/b/c', 'a/b/c/d', 'a/b/c/d/e'), 1):
        os.symlink('../' * depth + 'f', m.behind(path, 'rel'))
        os.symlink('../' * (depth + 2) + 'canary', m.behind(path, 'out'))
        os.symlink('/f', m.behind(path, 'abs'))
    end, wrong = time.monotonic() + (3 if SANITIZED else 4), []

    def sandbox():
        dice = random.Random(1)
        places = ['a/b/c', 'c', 'a/c', 'a/b/d', 'd', 'x']
        while time.monotonic() < end:
            try:
                os.rename(m.behind(dice.choice(places)), m.behind(dice.choice(places)))
            except OSError:
                pass

    def client(seed):
        dice = random.Random(seed)
        paths = ['a/b/c/d', 'c/d', 'a/c/d/e', 'd/e', 'a/b/c', 'c', 'x', 'x/d', 'd']
        fds = []
        while time.monotonic() < end:
            try:
                fds.append(os.open(m.at(dice.choice(paths)), os.O_RDONLY | os.O_DIRECTORY))
            except OSError:
                pass
            for fd in fds[-5:]:
                for name in ('rel', 'out', 'abs', 'd/rel', 'e/rel', '../rel'):
                    try:
                        got = os.open(name, os.O_RDONLY, dir_fd=fd)
                    except OSError:
                        continue
                    if os.read(got, 100) == b'secret':
                        wrong.append(name)
                    os.close(got)
            if len(fds) > 50:
                os.close(fds.pop(0))
        for fd in fds:
            os.close(fd)
    m.slack = 30  # lost directories stay while the kernel remembers a name that is not in them
    threads = [threading.Thread(target=sandbox)] + [threading.Thread(target=client, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(wrong, [])


@case
def what_is_no_file_is_shown_and_never_opened(m):
    os.mkfifo(m.behind('fifo'))
    sock = sh(f"python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('{m.behind('sock')}')\"")
    equal(sock.returncode, 0, sock.stderr)
    names = {'fifo': stat.S_ISFIFO, 'sock': stat.S_ISSOCK}
    if IS_ROOT:
        os.mknod(m.behind('null'), stat.S_IFCHR | 0o666, os.makedev(1, 3))
        names['null'] = stat.S_ISCHR
    for name, kind in names.items():
        check(kind(os.lstat(m.at(name)).st_mode), f'{name} is shown as something else')
    fd = os.open(m.at('fifo'), os.O_RDONLY | os.O_NONBLOCK)  # the client's own pipe: nobody is at its other end
    os.close(fd)
    if IS_ROOT:
        fails_with(errno.EACCES, os.open, m.at('null'), os.O_RDONLY)  # nodev
    fails_with(errno.ENXIO, os.open, m.at('sock'), os.O_RDONLY)
    equal(sh(f'cat < /dev/null; ls -l {m.fs}; rm {" ".join(m.at(n) for n in names)}').returncode, 0)


@case
def a_file_that_turns_into_a_fifo_holds_nobody_up(m):
    m.plant('f', 'x')
    end = time.monotonic() + 2

    def sandbox():
        while time.monotonic() < end:
            os.unlink(m.behind('f'))
            os.mkfifo(m.behind('f'))
            os.unlink(m.behind('f'))
            m.plant('f', 'x')
    thread = threading.Thread(target=sandbox)
    thread.start()
    while time.monotonic() < end:
        try:
            os.close(os.open(m.at('f'), os.O_RDWR | os.O_NONBLOCK))
            os.truncate(m.at('f'), 0)
        except OSError:
            pass
    thread.join()
    check(read(m.behind('f')) in (b'x', b''), 'something else was written')


@case
def proc_sys_and_dev_are_empty_and_stay_so(m):
    for name in ('proc', 'sys', 'dev', 'a'):
        m.plant_dir(name)
        m.plant(f'{name}/inside', 'x')
    m.plant_dir('a/proc')
    m.plant('a/proc/inside')
    for name in ('proc', 'sys', 'dev'):
        equal(os.listdir(m.at(name)), [])
        fails_with(errno.ENOENT, os.stat, m.at(name, 'inside'))
        fails_with(errno.EROFS, os.mkdir, m.at(name, 'd'))
        fails_with(errno.EROFS, os.open, m.at(name, 'f'), os.O_CREAT | os.O_WRONLY)
        fails_with(errno.EROFS, os.rename, m.at('a/inside'), m.at(name, 'f'))
        fails_with(errno.EROFS, os.chmod, m.at(name), 0o700)
    equal(os.listdir(m.at('a/proc')), ['inside'])


@case
def odd_names_are_no_way_around(m):
    write(os.path.join(m.base, 'canary'), 'secret')
    fd = os.open(m.fs, os.O_RDONLY | os.O_DIRECTORY)
    # the kernel itself resolves '..': it leads to the mount's root, not to the directory behind
    check('canary' not in os.listdir(f'/proc/self/fd/{fd}/..'), '.. leads behind the mount')
    os.close(fd)


@case
def raw_links_are_shown_as_they_are(m):
    os.symlink('../../etc/passwd', m.behind('l'))
    os.symlink('/etc/passwd', m.behind('abs'))
    equal(os.readlink(m.at('l')), '../../etc/passwd')
    equal(os.readlink(m.at('abs')), '/etc/passwd')


raw_links_are_shown_as_they_are.options = {'options': ['--raw']}


@case
def what_sandboxes_mount_inside_keeps_to_itself(m):
    """A real bubble: a read-only bind of the workspace's own file system, a tmpfs of its own, proc and dev."""
    bwrap = need('bwrap')
    os.makedirs(os.path.join(m.base, 'shared'))
    write(os.path.join(m.base, 'shared', 'host'), 'host')
    os.chown(os.path.join(m.base, 'shared', 'host'), m.uid, m.gid)
    words = [bwrap, '--unshare-user', '--unshare-pid', '--uid', '0', '--gid', '0', '--ro-bind', os.path.join(m.base, 'shared'), '/usr',
             '--bind', m.back, '/workspace', '--tmpfs', '/tmp', '--proc', '/proc', '--dev', '/dev', '--symlink', 'usr', '/link',
             '--ro-bind', '/bin/busybox', '/busybox', '--as-pid-1', '--remount-ro', '/', '--info-fd', '3', '--', '/busybox', 'sleep', '1000']
    reader, writer = os.pipe()

    def become():
        os.dup2(writer, 3)
        if m.way == 'user':
            os.setgroups([])
            os.setresgid(m.gid, m.gid, m.gid)
            os.setresuid(m.uid, m.uid, m.uid)
    process = subprocess.Popen(words, preexec_fn=become, pass_fds=[3] if writer == 3 else [3, writer])
    os.close(writer)
    pid = 0
    try:
        said = b''
        while b'}' not in said:
            said += os.read(reader, 4096)
        pid = json.loads(said)['child-pid']
        deadline = time.monotonic() + 30
        while b'sleep' not in read(f'/proc/{pid}/cmdline').split(b'\0')[:2]:
            check(time.monotonic() < deadline, 'the bubble does not start')
            time.sleep(0.01)
        with Mount(m.way, options=['--root-of', str(pid)], mapped='/') as inner:
            try_bubble(inner, m)
        if m.way != 'plain':
            with Mount(m.way, options=['--root-of', str(pid)], mapped='/') as inner:
                os.kill(pid, 9)
                process.wait(30)
                fails_with(errno.ENOTCONN, os.stat, inner.fs)
    finally:
        if pid:
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass
        process.kill()
        process.wait(30)
        os.close(reader)


def try_bubble(inner, m):
    fs = inner.fs
    equal(read(f'{fs}/usr/host'), b'host')
    equal(read(f'{fs}/link/host'), b'host')
    fails_with(errno.EROFS, os.open, f'{fs}/usr/host', os.O_WRONLY)
    fails_with(errno.EROFS, os.open, f'{fs}/usr/new', os.O_WRONLY | os.O_CREAT)
    fails_with(errno.EROFS, os.truncate, f'{fs}/usr/host', 0)
    fails_with(errno.EROFS, os.chmod, f'{fs}/usr/host', 0o777)
    fails_with(errno.EROFS, os.utime, f'{fs}/usr/host')
    fails_with(errno.EROFS, os.mkdir, f'{fs}/new')
    fails_with(errno.EROFS, os.unlink, f'{fs}/usr/host')
    for place in ('workspace', 'tmp'):
        write(f'{fs}/{place}/f', place)
        os.mkdir(f'{fs}/{place}/d')
        os.symlink('f', f'{fs}/{place}/l')
        os.rename(f'{fs}/{place}/f', f'{fs}/{place}/d/g')
        equal(read(f'{fs}/{place}/d/g'), place.encode())
        os.chmod(f'{fs}/{place}/d/g', 0o600)
        os.utime(f'{fs}/{place}/d/g', ns=(5, 6))
        with open(f'{fs}/{place}/d/g', 'r+b') as f:
            os.truncate(f.fileno(), 2)
        fd = os.open(f'{fs}/{place}', getattr(os, 'O_TMPFILE') | os.O_RDWR)
        os.write(fd, b'x')
        os.close(fd)
        for name in ('d', 'd/g', 'l'):
            st = os.lstat(f'{fs}/{place}/{name}')
            equal((st.st_uid, st.st_gid), (m.owner_uid, m.owner_gid), f'{place}/{name}')
    equal(os.lstat(m.behind('d/g')).st_uid, m.uid)
    fails_with(errno.EXDEV, os.rename, f'{fs}/tmp/d/g', f'{fs}/workspace/x')
    fails_with(errno.EXDEV, os.link, f'{fs}/tmp/d/g', f'{fs}/workspace/x')
    for name in ('proc', 'dev'):
        equal(os.listdir(f'{fs}/{name}'), [])
    check({'usr', 'workspace', 'tmp', 'proc', 'dev', 'link'} <= set(os.listdir(fs)), os.listdir(fs))
    numbers = [os.lstat(f'{fs}/{n}').st_ino for n in ('', 'usr', 'workspace', 'tmp', 'tmp/d', 'workspace/d')]
    equal(len(set(numbers)), len(numbers), 'two directories with one number')
    equal(read(f'{m.base}/shared/host'), b'host')


main()
