# SPDX-License-Identifier: LGPL-2.1-or-later
"""Files under fs/ and commands in the slot see each other's work at once."""
import errno
import hashlib
import json
import os
import stat

from harness import SANITIZED, Scratch, case, check, equal, fails_with, main, sh

ROUNDS = 1000


@case
def what_a_command_wrote_is_read_through_fs_right_after_1000_times(d):
    d.mkdir('t')
    path = d.lease('t', 'fs', 'workspace', 'f')
    with open(d.lease('t', 'run_command'), 'r+b', buffering=0) as control:
        for i in range(ROUNDS):
            text = f'{i} ' * (1 + i % 50)
            control.write(f"printf %s '{text}' > f".encode())
            equal(json.loads(control.read())['returncode'], 0)
            with open(path, encoding='utf-8') as f:
                equal(f.read(), text, f'round {i}')
            equal(os.stat(path).st_size, len(text), f'size in round {i}')


@case
def what_is_written_through_fs_is_read_by_a_command_right_after_1000_times(d):
    d.mkdir('t')
    path = d.lease('t', 'fs', 'workspace', 'f')
    with open(d.lease('t', 'run_command'), 'r+b', buffering=0) as control:
        for i in range(ROUNDS):
            text = f'{i} ' * (1 + i % 50)
            with open(path, 'w', encoding='utf-8') as f:
                f.write(text)
            control.write(b'cat f')
            equal(json.loads(control.read())['stdout'], text, f'round {i}')


@case
def names_that_come_and_go_inside_are_seen_at_once(d):
    d.mkdir('t')
    workspace = d.lease('t', 'fs', 'workspace')
    for i in range(50):
        check(not os.path.exists(f'{workspace}/n{i}'), 'it is there before it is made')
        d.run('t', f'mkdir n{i}; ln -s n{i} l{i}; rm -rf n{i - 1} l{i - 1}')
        check(os.path.isdir(f'{workspace}/n{i}'), 'a new directory is not seen')
        equal(os.readlink(f'{workspace}/l{i}'), f'n{i}')
        equal(sorted(os.listdir(workspace)), sorted([f'l{i}', f'n{i}']))


@case
def random_bytes_are_the_same_on_both_sides(d):
    d.mkdir('t')
    data = os.urandom((4 if SANITIZED else 50) << 20)
    path = d.lease('t', 'fs', 'workspace', 'blob')
    with open(path, 'wb') as f:
        f.write(data)
    wanted = hashlib.sha256(data).hexdigest()
    equal(d.run('t', 'sha256sum < blob')['stdout'].split()[0], wanted)
    d.run('t', 'cp blob copy')
    with open(d.lease('t', 'fs', 'workspace', 'copy'), 'rb') as f:
        equal(hashlib.file_digest(f, 'sha256').hexdigest(), wanted)


@case
def files_made_through_fs_belong_to_the_slots_user_inside_and_to_the_owner_outside(d):
    d.mkdir('t')
    path = d.lease('t', 'fs', 'workspace', 'f')
    with open(path, 'w', encoding='utf-8'):
        pass
    equal(d.run('t', 'stat -c %u:%g f; echo more >> f; touch g; echo $?')['stdout'], '1000:1000\n0\n')
    for name in ('f', 'g'):
        st = os.stat(d.lease('t', 'fs', 'workspace', name))
        equal((st.st_uid, st.st_gid), (os.getuid(), os.getgid()), name)


@case
def the_ordinary_calls_on_files_work(d):
    d.mkdir('t')
    w = d.lease('t', 'fs', 'workspace')
    os.mkdir(w + '/dir', 0o750)
    with open(w + '/dir/a', 'w', encoding='utf-8') as f:
        f.write('hello world')
    os.truncate(w + '/dir/a', 5)
    os.rename(w + '/dir/a', w + '/dir/b')
    os.chmod(w + '/dir/b', 0o640)
    os.utime(w + '/dir/b', ns=(1_000_000_001, 2_000_000_003))
    os.symlink('dir/b', w + '/link')
    with open(w + '/link', 'a', encoding='utf-8') as f:
        f.write('!')
    st = os.stat(w + '/dir/b')
    equal((stat.S_IMODE(st.st_mode), st.st_size), (0o640, 6))
    os.utime(w + '/dir/b', ns=(1_000_000_001, 2_000_000_003))
    equal(os.stat(w + '/dir/b').st_mtime_ns, 2_000_000_003)
    equal(d.run('t', 'cat link; stat -c " %a %y" dir/b')['stdout'].split('.')[0], 'hello! 640 1970-01-01 00:00:02')
    fails_with(errno.ENOTEMPTY, os.rmdir, w + '/dir')
    os.unlink(w + '/dir/b')
    os.rmdir(w + '/dir')
    equal(os.listdir(w), ['link'])


@case
def a_link_never_leads_out_of_the_lease(d):
    d.mkdir('t')
    d.run('t', 'ln -s /etc/passwd abs; ln -s ../../../../../../etc/shadow up; ln -s /workspace/f in; echo inside > f')
    w = d.lease('t', 'fs', 'workspace')
    with open(w + '/abs', encoding='utf-8') as f:
        check('agent' in f.read(), 'an absolute link does not lead to the sandbox\'s own file')
    with open(w + '/in', encoding='utf-8') as f:
        equal(f.read(), 'inside\n')
    fails_with(errno.EPERM, os.readlink, w + '/up')


@case
def proc_sys_and_dev_show_as_empty_directories(d):
    d.mkdir('t')
    for name in ('proc', 'sys', 'dev'):
        equal(os.listdir(d.lease('t', 'fs', name)), [], name)


@case
def after_release_everything_of_the_lease_is_stale_or_gone(d):
    d.mkdir('t')
    w = d.lease('t', 'fs', 'workspace')
    fd = os.open(w, os.O_DIRECTORY | os.O_RDONLY)
    d.rmdir('t')
    fails_with(errno.ESTALE, os.listdir, fd)
    os.close(fd)
    fails_with(errno.ENOENT, os.listdir, w)


@case
def cp_a_rsync_like_trees_and_diff_work_through_the_mount(d):
    d.mkdir('t')
    with Scratch() as work:
        done = sh(f'mkdir -p {work}/a/b/c; echo 1 > {work}/a/one; echo 2 > {work}/a/b/two; ln -s ../one {work}/a/b/link; '
                  f'chmod 700 {work}/a/b/two; cp -a {work}/a {d.lease("t", "fs", "workspace")}/; '
                  f'diff -r {work}/a {d.lease("t", "fs", "workspace", "a")} && '
                  f'cp -a {d.lease("t", "fs", "workspace", "a")} {work}/back && diff -r {work}/a {work}/back && '
                  f'find {work}/back -type f -perm 700')
        equal((done.returncode, done.stderr), (0, ''))
        equal(done.stdout, f'{work}/back/b/two\n')


@case
def two_leases_do_not_see_each_others_files(d):
    d.mkdir('t')
    d.mkdir('u')
    with open(d.lease('t', 'fs', 'workspace', 'mine'), 'w', encoding='utf-8') as f:
        f.write('t')
    equal(d.run('u', 'ls -A /workspace /tmp; echo done')['stdout'].count('mine'), 0)
    equal(os.listdir(d.lease('u', 'fs', 'workspace')), [])
    fails_with(errno.EXDEV, os.rename, d.lease('t', 'fs', 'workspace', 'mine'), d.lease('u', 'fs', 'workspace', 'mine'))


main(slots=2)
