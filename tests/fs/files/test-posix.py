# SPDX-License-Identifier: LGPL-2.1-or-later
"""The calls of POSIX and Linux on a lease's files do what they do on any file system."""
import ctypes
import errno
import fcntl
import mmap
import os
import stat
import subprocess
import sys
import threading

from mount import SANITIZED, Failed, Skip, case, check, equal, fails_with, main, read, run, sh, write

LIBC = ctypes.CDLL(None, use_errno=True)
AT_FDCWD, NOREPLACE, EXCHANGE = -100, 1, 2
AT_SYMLINK_FOLLOW = 0x400
O_TMPFILE = getattr(os, 'O_TMPFILE', 0o20200000)


def call(function, *args):
    if function(*args) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def rename(old, new, flags):
    call(LIBC.renameat2, AT_FDCWD, os.fsencode(old), AT_FDCWD, os.fsencode(new), flags)


@case
def the_ordinary_calls_work_and_show_on_both_sides(m):
    os.mkdir(m.at('d'))
    write(m.at('d/a'), 'one')
    equal(read(m.behind('d/a')), b'one')
    with open(m.at('d/a'), 'a', encoding='utf-8') as f:
        f.write('two')
    equal(read(m.at('d/a')), b'onetwo')
    os.truncate(m.at('d/a'), 4)
    equal(read(m.behind('d/a')), b'onet')
    os.rename(m.at('d/a'), m.at('b'))
    equal(os.listdir(m.at('d')), [])
    os.link(m.at('b'), m.at('d/c'))
    equal(os.stat(m.at('b')).st_nlink, 2)
    check(os.path.samefile(m.at('b'), m.at('d/c')), 'a hard link is another file')
    os.symlink('b', m.at('l'))
    equal(os.readlink(m.at('l')), 'b')
    equal(read(m.at('l')), b'onet')
    fails_with(errno.ENOTEMPTY, os.rmdir, m.at('d'))
    fails_with(errno.EEXIST, os.mkdir, m.at('d'))
    fails_with(errno.ENOENT, os.stat, m.at('x'))
    fails_with(errno.ENOTDIR, os.stat, m.at('b/x'))
    fails_with(errno.EISDIR, os.open, m.at('d'), os.O_WRONLY)
    os.unlink(m.at('d/c'))
    os.rmdir(m.at('d'))
    equal(sorted(os.listdir(m.at())), ['b', 'l'])
    equal(sorted(os.listdir(m.back)), ['b', 'l'])


@case
def create_and_exclusive_create_are_told_apart(m):
    os.close(os.open(m.at('f'), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    fails_with(errno.EEXIST, os.open, m.at('f'), os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    write(m.at('f'), 'text')
    os.close(os.open(m.at('f'), os.O_CREAT | os.O_WRONLY))
    equal(read(m.at('f')), b'text')
    os.close(os.open(m.at('f'), os.O_CREAT | os.O_WRONLY | os.O_TRUNC))
    equal(read(m.at('f')), b'')


@case
def modes_and_umask_are_the_clients(m):
    before = os.umask(0o027)
    try:
        os.close(os.open(m.at('a'), os.O_CREAT | os.O_WRONLY, 0o666))
        os.mkdir(m.at('d'), 0o777)
        os.umask(0)
        os.close(os.open(m.at('b'), os.O_CREAT | os.O_WRONLY, 0o777))
        os.mkdir(m.at('e'), 0o1777)
        os.mkfifo(m.at('p'), 0o622)
        os.close(os.open(m.at('suid'), os.O_CREAT | os.O_WRONLY, 0o6755))
    finally:
        os.umask(before)
    for name, mode in (('a', 0o640), ('d', 0o750), ('b', 0o777), ('e', 0o1777), ('p', 0o622), ('suid', 0o755)):
        equal(oct(stat.S_IMODE(os.stat(m.behind(name)).st_mode)), oct(mode), name)
        equal(oct(stat.S_IMODE(os.stat(m.at(name)).st_mode)), oct(mode & ~0o022), name)  # nobody else writes
    os.chmod(m.at('a'), 0o4711)
    equal(oct(stat.S_IMODE(os.stat(m.behind('a')).st_mode)), oct(0o4711))


@case
def what_is_made_belongs_to_the_sandbox_behind_and_to_the_owner_in_front(m):
    script = 'echo x > f; mkdir d; ln -s f l; mkfifo p; echo y > d/g; mv f h; cp -p h k'
    done = run(['sh', '-ec', script], cwd=m.fs, user=m.as_owner())
    equal(done.returncode, 0, done.stderr)
    for name in ('h', 'k', 'd', 'l', 'p', 'd/g'):
        st = os.lstat(m.behind(name))
        equal((st.st_uid, st.st_gid), (m.uid, m.gid), f'{name} behind')
        st = os.lstat(m.at(name))
        equal((st.st_uid, st.st_gid), (m.owner_uid, m.owner_gid), f'{name} in front')


@case
def root_makes_for_the_sandbox_even_where_its_user_may_not(m):
    if os.getuid() != 0:
        raise Skip('only root may where the mode forbids it')
    m.plant_dir('d')
    os.chmod(m.behind('d'), 0o555)
    write(m.at('d/f'), 'x')
    os.mkdir(m.at('d/e'))
    os.symlink('f', m.at('d/l'))
    for name in ('f', 'e', 'l'):
        st = os.lstat(m.behind('d', name))
        equal((st.st_uid, st.st_gid), (m.uid, m.gid), name)


@case
def the_mode_of_a_file_is_what_its_owner_may(m):
    if m.way != 'user':
        raise Skip('the owner is root, or has no other user beside it')
    m.plant('secret', 'x', 0o600)
    m.plant('read', 'x', 0o444)
    owner = m.as_owner()
    equal(run(['cat', m.at('secret')], user=owner).stdout, 'x')
    equal(run(['sh', '-c', f'echo y > {m.at("read")}'], user=owner).returncode, 2)
    other = (owner[0] + 1, owner[1] + 1)
    equal(run(['cat', m.at('secret')], user=other).returncode, 1)
    equal(run(['cat', m.at('read')], user=other).stdout, 'x')


@case
def nobody_but_the_owner_writes_whatever_the_modes_inside(m):
    if m.way != 'user':
        raise Skip('the owner is root, or has no other user beside it')
    m.plant_dir('tmp')
    os.chmod(m.behind('tmp'), 0o1777)
    m.plant('open', 'x', 0o666)
    other = (m.owner_uid + 1, m.owner_gid)  # of the mount's group, too
    equal(run(['sh', '-c', f'echo y > {m.at("open")}'], user=other).returncode, 2)
    equal(run(['sh', '-c', f'echo y > {m.at("tmp/f")}'], user=other).returncode, 2)
    equal(run(['cat', m.at('open')], user=other).stdout, 'x')
    equal(run(['sh', '-c', f'echo y > {m.at("tmp/f")}'], user=m.as_owner()).returncode, 0)


@case
def chown_to_whom_it_belongs_succeeds_and_to_others_is_EPERM(m):
    write(m.at('f'), 'x')
    os.chown(m.at('f'), m.owner_uid, m.owner_gid)
    os.chown(m.at('f'), m.owner_uid, -1)
    os.chown(m.at('f'), -1, m.owner_gid)
    fails_with(errno.EPERM, os.chown, m.at('f'), m.owner_uid + 7, -1)
    fails_with(errno.EPERM, os.chown, m.at('f'), -1, m.owner_gid + 7)
    st = os.stat(m.behind('f'))
    equal((st.st_uid, st.st_gid), (m.uid, m.gid))


@case
def foreign_files_are_roots_or_nobodys(m):
    if os.getuid() != 0:
        raise Skip('needs root to make them')
    m.plant('root')
    os.chown(m.behind('root'), 0, 0)
    m.plant('alien')
    os.chown(m.behind('alien'), 4242, 4243)
    st = os.stat(m.at('root'))
    equal((st.st_uid, st.st_gid), (0, 0) if m.way == 'user' else (m.owner_uid, m.owner_gid))
    st = os.stat(m.at('alien'))
    equal((st.st_uid, st.st_gid), (65534, 65534))


@case
def times_are_kept_to_the_nanosecond(m):
    write(m.at('f'), 'x')
    os.symlink('f', m.at('l'))
    for name in ('f', 'l'):
        os.utime(m.at(name), ns=(1234567890123456789, 987654321987654321), follow_symlinks=False)
        st = os.lstat(m.behind(name))
        equal((st.st_atime_ns, st.st_mtime_ns), (1234567890123456789, 987654321987654321), name)
        st = os.lstat(m.at(name))
        equal(st.st_mtime_ns, 987654321987654321, name)
    sh(f'touch -m -d @5 {m.at("f")}; touch -a -d @7.25 {m.at("f")}')
    st = os.stat(m.behind('f'))
    equal((st.st_atime_ns, st.st_mtime_ns), (7250000000, 5000000000))
    os.utime(m.at('f'))
    check(os.stat(m.behind('f')).st_mtime > 1e9, 'touch did nothing')


@case
def rename_knows_noreplace_and_exchange(m):
    write(m.at('a'), 'a')
    write(m.at('b'), 'b')
    os.mkdir(m.at('d'))
    fails_with(errno.EEXIST, rename, m.at('a'), m.at('b'), NOREPLACE)
    rename(m.at('a'), m.at('b'), EXCHANGE)
    equal((read(m.at('a')), read(m.at('b'))), (b'b', b'a'))
    rename(m.at('a'), m.at('d'), EXCHANGE)
    check(os.path.isdir(m.at('a')) and os.path.isfile(m.at('d')), 'not exchanged')
    rename(m.at('d'), m.at('a/c'), NOREPLACE)
    equal(read(m.at('a/c')), b'b')
    fails_with(errno.EINVAL, rename, m.at('a'), m.at('a/x'), 0)
    fails_with(errno.EINVAL, rename, m.at('b'), m.at('x'), 4)  # a whiteout
    os.rename(m.at('b'), m.at('a/c'))
    equal(read(m.at('a/c')), b'a')
    equal(sorted(os.listdir(m.back)), ['a'])


@case
def a_directory_renamed_with_open_files_below_goes_on(m):
    os.makedirs(m.at('a/b/c'))
    with open(m.at('a/b/c/f'), 'w+', encoding='utf-8') as f:
        fd = os.open(m.at('a/b/c'), os.O_RDONLY)
        os.rename(m.at('a/b'), m.at('z'))
        f.write('more')
        f.flush()
        equal(read(m.at('z/c/f')), b'more')
        equal(os.listdir(fd), ['f'])
        equal(os.fstat(f.fileno()).st_size, 4)
        os.close(os.open('g', os.O_CREAT | os.O_WRONLY, dir_fd=fd))
        equal(sorted(os.listdir(m.behind('z/c'))), ['f', 'g'])
        os.close(fd)


@case
def an_unlinked_open_file_lives_until_it_is_closed(m):
    for how in (lambda: os.unlink(m.at('f')), lambda: os.unlink(m.behind('f'))):
        with open(m.at('f'), 'w+b', buffering=0) as f:
            f.write(b'abcdef')
            how()
            st = os.fstat(f.fileno())
            equal((st.st_nlink, st.st_size), (0, 6))
            os.ftruncate(f.fileno(), 3)
            equal(os.pread(f.fileno(), 10, 0), b'abc')
            os.fchmod(f.fileno(), 0o600)
            equal(stat.S_IMODE(os.fstat(f.fileno()).st_mode), 0o600)
            f.write(b'x')
            equal(os.fstat(f.fileno()).st_size, 7)


@case
def a_removed_directory_that_is_open_is_empty(m):
    os.mkdir(m.at('d'))
    fd = os.open(m.at('d'), os.O_RDONLY)
    os.rmdir(m.at('d'))
    equal(os.listdir(fd), [])
    equal(os.fstat(fd).st_nlink, 0)
    fails_with(errno.ENOENT, lambda: os.open('f', os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)


@case
def a_file_without_a_name_can_be_given_one(m):
    fd = os.open(m.at(), O_TMPFILE | os.O_RDWR, 0o640)
    os.write(fd, b'hidden')
    equal(os.fstat(fd).st_nlink, 0)
    equal(os.listdir(m.at()), [])
    call(LIBC.linkat, AT_FDCWD, f'/proc/self/fd/{fd}'.encode(), AT_FDCWD, os.fsencode(m.at('f')), AT_SYMLINK_FOLLOW)
    equal(read(m.behind('f')), b'hidden')
    equal(os.fstat(fd).st_nlink, 1)
    st = os.stat(m.behind('f'))
    equal((st.st_uid, st.st_gid), (m.uid, m.gid))
    os.close(fd)


@case
def names_are_bytes(m):
    names = [b'x' * 255, b'\xff\xfe' + b'\n' * 253, b'\n', b' ', b'a\tb', b'\x01\x7f', b'-rf', b'*', 'ü'.encode(), b'...', b'\\',
             b'%41', b'"']
    fs = os.fsencode(m.fs)
    for name in names:
        write(os.path.join(fs, name), name)
    equal(sorted(os.listdir(fs)), sorted(names))
    equal(sorted(os.listdir(os.fsencode(m.back))), sorted(names))
    for name in names:
        equal(read(os.path.join(fs, name)), name)
        os.unlink(os.path.join(fs, name))
    fails_with(errno.ENAMETOOLONG, os.stat, os.path.join(fs, b'x' * 256))


@case
def trees_deeper_than_any_path_can_say_work(m):
    levels, here = 1200, os.getcwd()
    name = 'n' * 10
    try:
        os.chdir(m.fs)
        for _ in range(levels):
            os.mkdir(name)
            os.chdir(name)
        write('f', 'deep')
        equal(read('f'), b'deep')
        os.symlink('../' * levels + 'top', 'l')
        os.symlink('../' * (levels + 1) + 'top', 'out')
        write(m.at('top'), 'surface')
        equal(read('l'), b'surface')
        fails_with(errno.EPERM, os.readlink, 'out')
        os.symlink('/top', 'abs')
        equal(read('abs'), b'surface')
    finally:
        os.chdir(here)
    done = sh(f'cd {m.fs} && rm -r {name}')
    equal(done.returncode, 0, done.stderr)
    equal(os.listdir(m.back), ['top'])


@case
def a_directory_of_100000_entries_is_listed_and_removed(m):
    count = 5000 if SANITIZED else 100000
    m.plant_dir('d')
    fd = os.open(m.behind('d'), os.O_RDONLY)
    for i in range(count):
        os.close(os.open(f'file-{i}', os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)
    equal(len(set(os.listdir(m.at('d')))), count)
    done = sh(f'rm -r {m.at("d")}', timeout=200)
    equal(done.returncode, 0, done.stderr)
    equal(os.listdir(m.back), [])


@case
def removing_while_listing_skips_nothing(m):
    m.plant_dir('d')
    for i in range(3000):
        m.plant(f'd/{i}')
    seen = 0
    with os.scandir(m.at('d')) as entries:
        for entry in entries:
            os.unlink(entry.path)
            seen += 1
    equal(seen, 3000)
    equal(os.listdir(m.behind('d')), [])


@case
def a_directory_read_again_from_its_start_is_read_anew(m):
    m.plant('a')
    fd = os.open(m.fs, os.O_RDONLY)
    equal(os.listdir(fd), ['a'])
    m.plant('b')
    equal(sorted(os.listdir(fd)), ['a', 'b'])
    os.close(fd)


@case
def entries_have_their_type_and_number(m):
    os.mkdir(m.at('d'))
    write(m.at('f'), '')
    os.symlink('f', m.at('l'))
    os.mkfifo(m.at('p'))
    with os.scandir(m.fs) as entries:
        kinds = {e.name: (e.is_dir(follow_symlinks=False), e.is_file(follow_symlinks=False), e.is_symlink(), e.inode())
                 for e in entries}
    equal({name: kind[:3] for name, kind in kinds.items()}, {
        'd': (True, False, False), 'f': (False, True, False), 'l': (False, False, True), 'p': (False, False, False)})
    for name, kind in kinds.items():
        equal(kind[3], os.lstat(m.at(name)).st_ino, name)


@case
def a_files_number_stays_while_it_is_renamed_replaced_and_reopened(m):
    write(m.at('a'), 'x')
    ino = os.stat(m.at('a')).st_ino
    os.rename(m.at('a'), m.at('b'))
    equal(os.stat(m.at('b')).st_ino, ino)
    with open(m.at('b'), 'rb') as f:
        equal(os.fstat(f.fileno()).st_ino, ino)
    os.mkdir(m.at('d'))
    dir_ino = os.stat(m.at('d')).st_ino
    os.rename(m.behind('d'), m.behind('e'))
    equal(os.stat(m.at('e')).st_ino, dir_ino)
    write(m.at('c'), 'y')
    check(os.stat(m.at('c')).st_ino not in (ino, dir_ino), 'two files with one number')


@case
def holes_blocks_and_space_are_the_backing_files(m):
    with open(m.at('f'), 'w+b', buffering=0) as f:
        fd = f.fileno()
        os.pwrite(fd, b'x' * 4096, 1 << 20)
        os.pwrite(fd, b'end', (5 << 30) - 3)
        equal(os.fstat(fd).st_size, 5 << 30)
        equal(os.lseek(fd, 0, os.SEEK_DATA), 1 << 20)
        equal(os.lseek(fd, 1 << 20, os.SEEK_HOLE), (1 << 20) + 4096)
        equal(os.pread(fd, 3, (5 << 30) - 3), b'end')
        equal(os.fstat(fd).st_blocks, os.stat(m.behind('f')).st_blocks)
        check(os.fstat(fd).st_blocks > 0, 'no blocks')
        os.posix_fallocate(fd, 0, 65536)
        check(os.fstat(fd).st_blocks >= 128, 'not allocated')
        call(LIBC.fallocate, fd, 3, ctypes.c_long(1 << 20), ctypes.c_long(4096))  # punch a hole, keep the size
        equal(os.pread(fd, 4096, 1 << 20), bytes(4096))
        os.ftruncate(fd, 10)
    a, b = os.statvfs(m.at('f')), os.statvfs(m.behind('f'))
    equal((a.f_bsize, a.f_frsize, a.f_blocks, a.f_files, a.f_namemax), (b.f_bsize, b.f_frsize, b.f_blocks, b.f_files, b.f_namemax))


@case
def ranges_are_copied_between_files(m):
    data = os.urandom(1 << 20)
    write(m.at('a'), data)
    src, dst = os.open(m.at('a'), os.O_RDONLY), os.open(m.at('b'), os.O_CREAT | os.O_RDWR)
    done = 0
    while done < len(data):
        done += os.copy_file_range(src, dst, len(data) - done)
    equal(read(m.behind('b')), data)
    out = os.open(os.path.join(m.other, 'c'), os.O_CREAT | os.O_RDWR)
    os.lseek(src, 0, os.SEEK_SET)
    check(os.copy_file_range(src, out, 4096) > 0, 'nothing was copied to another lease')
    equal(read(os.path.join(m.other, 'c'))[:4096], data[:4096])
    for fd in (src, dst, out):
        os.close(fd)


@case
def between_leases_nothing_is_renamed_or_linked(m):
    write(m.at('f'), 'x')
    os.mkdir(m.at('d'))
    fails_with(errno.EXDEV, os.rename, m.at('f'), os.path.join(m.other, 'f'))
    fails_with(errno.EXDEV, os.rename, m.at('d'), os.path.join(m.other, 'd'))
    fails_with(errno.EXDEV, os.link, m.at('f'), os.path.join(m.other, 'f'))
    equal(sh(f'mv {m.at("f")} {m.at("d")} {m.other}').returncode, 0)
    equal(sorted(os.listdir(m.other_back)), ['d', 'f'])


@case
def files_can_be_mapped(m):
    write(m.at('f'), b'a' * 8192)
    with open(m.at('f'), 'r+b') as f:
        with mmap.mmap(f.fileno(), 8192) as shared:
            shared[0:3] = b'xyz'
            shared.flush()
            equal(read(m.behind('f'))[:4], b'xyza')
        with mmap.mmap(f.fileno(), 8192, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE) as private:
            private[0:3] = b'...'
            equal(read(m.behind('f'))[:4], b'xyza')


@case
def a_file_copied_in_can_be_executed_at_once(m):
    for i in range(30 if SANITIZED else 100):
        equal(sh(f'cp /bin/true {m.at("t")} && {m.behind("t")} && {m.at("t")}; r=$?; rm {m.at("t")}; exit $r').returncode, 0, f'round {i}')


@case
def locks_reach_the_other_side_and_wait_without_holding_anybody_up(m):
    write(m.at('f'), 'x')
    here, there = os.open(m.at('f'), os.O_RDWR), os.open(m.behind('f'), os.O_RDWR)
    fcntl.flock(there, fcntl.LOCK_EX)
    fails_with(errno.EAGAIN, fcntl.flock, here, fcntl.LOCK_EX | fcntl.LOCK_NB)
    waiters = [threading.Thread(target=lock_and_unlock, args=(m.at('f'),)) for _ in range(20)]
    for waiter in waiters:
        waiter.start()
    equal(os.stat(m.at('f')).st_size, 1)  # twice as many as there are workers, and it answers
    fcntl.flock(there, fcntl.LOCK_UN)
    for waiter in waiters:
        waiter.join(30)
        check(not waiter.is_alive(), 'a lock never came')
    fcntl.flock(here, fcntl.LOCK_SH)
    fails_with(errno.EAGAIN, fcntl.flock, there, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(here, fcntl.LOCK_UN)
    os.close(here)
    os.close(there)


def lock_and_unlock(path):
    fd = os.open(path, os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    os.close(fd)


@case
def a_process_that_waits_for_a_lock_can_be_killed(m):
    write(m.at('f'), 'x')
    there = os.open(m.behind('f'), os.O_RDWR)
    fcntl.flock(there, fcntl.LOCK_EX)
    process = subprocess.Popen(['flock', m.at('f'), 'true'])
    try:
        process.wait(0.2)
        raise Failed('it got a lock that is held')
    except subprocess.TimeoutExpired:
        process.kill()
    equal(process.wait(10), -9)
    fcntl.flock(there, fcntl.LOCK_UN)
    os.close(there)
    fd = os.open(m.at('f'), os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    os.close(fd)


@case
def fcntl_locks_hold_among_clients_only(m):
    write(m.at('f'), 'x')
    script = 'import fcntl, sys; fcntl.lockf(open(sys.argv[1], "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB)'
    with open(m.at('f'), 'r+b') as f:
        fcntl.lockf(f, fcntl.LOCK_EX)
        done = run([sys.executable, '-c', script, m.at('f')])
        check('BlockingIOError' in done.stderr, done.stderr)
        equal(run([sys.executable, '-c', script, m.behind('f')]).returncode, 0)
    equal(run([sys.executable, '-c', script, m.at('f')]).returncode, 0)


@case
def thirty_two_threads_open_one_file_in_every_mode(m):
    write(m.at('f'), b'x' * 100)
    failures = []

    def work(number):
        flags = (os.O_RDONLY, os.O_RDWR, os.O_WRONLY, os.O_WRONLY | os.O_APPEND)[number % 4]
        try:
            for _ in range(30):
                fd = os.open(m.at('f'), flags)
                if flags == os.O_RDONLY:
                    equal(os.pread(fd, 10, 0), b'x' * 10)
                elif flags != os.O_WRONLY | os.O_APPEND:
                    os.pwrite(fd, b'x', number)
                os.close(fd)
        except Exception as e:  # pylint: disable=broad-except
            failures.append(e)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(failures, [])


@case
def odd_requests_are_refused_kindly(m):
    write(m.at('f'), 'x')
    fd = os.open(m.at('f'), os.O_RDWR)
    try:
        fcntl.ioctl(fd, 0x5401, bytes(64))  # TCGETS
        raise Failed('a file is a terminal')
    except OSError as e:
        equal(e.errno, errno.ENOTTY)
    check(fails_in((errno.ENOTSUP,), os.getxattr, m.at('f'), 'user.x'), 'extended attributes')
    os.fsync(fd)
    os.fdatasync(fd)
    os.close(fd)
    fd = os.open(m.fs, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
    if os.getuid() == 0:
        fails_with(errno.EPERM, os.mknod, m.at('dev'), stat.S_IFCHR | 0o600, os.makedev(1, 3))
    os.mknod(m.at('plain'), stat.S_IFREG | 0o600)
    equal(os.stat(m.behind('plain')).st_size, 0)


def fails_in(codes, function, *args):
    try:
        function(*args)
    except OSError as e:
        return e.errno in codes
    return False


@case
def a_tool_chest_works(m):
    script = '''
        set -e
        mkdir src; seq 1 20000 > src/a; cp -a src copy; diff -r src copy
        tar -C src -cf t.tar a; mkdir x; tar -C x -xf t.tar; cmp src/a x/a
        sed -i s/^1$/one/ src/a; head -1 src/a | grep -q one
        sort -r src/a > src/b; wc -l < src/b | grep -q 20000
        dd if=src/a of=dd bs=1000 2>/dev/null; cmp src/a dd
        cat src/a >> dd; truncate -s 10 dd; test $(stat -c %s dd) = 10
        find . -type f | xargs ls -l > /dev/null; du -s . > /dev/null
        ln x/a x/b; ln -s a x/c; rm -r x src copy; ls -la
    '''
    done = run(['bash', '-c', script], cwd=m.fs, user=m.as_owner())
    equal(done.returncode, 0, done.stderr)


@case
def git_works(m):
    script = '''
        set -e
        export HOME=$PWD GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
        git init -q r; cd r; for i in $(seq 50); do echo $i > f$i; done; git add .; git commit -qm one
        echo x >> f1; git commit -qam two; git gc -q; git fsck 2>&1; git status --porcelain; git log --oneline | wc -l | grep -q 2
        git clone -q . ../c; diff -r --exclude=.git . ../c
    '''
    done = run(['bash', '-c', script], cwd=m.fs, user=m.as_owner(), timeout=120)
    equal(done.returncode, 0, done.stderr + done.stdout)


main()
