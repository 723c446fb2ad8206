# SPDX-License-Identifier: LGPL-2.1-or-later
"""A mount of nothing but a lease's files (files-mount.c), and each case on it, once for every way of serving them.

    @case
    def a_name_is_a_name(m): ...        # m.fs: the lease through the mount; m.back: the same directory behind it

    main()

The ways, as root: `handles` (as a root daemon does it), `walk` (as if handles could not be opened), `user` (the sandbox has a
host uid of its own and the mount belongs to an ordinary user); as a plain user only `plain`. A case gets a fresh mount. When it
is over, every node must have been forgotten and every descriptor closed.
"""
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import traceback

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import (IS_ROOT, PATIENCE, SANITIZED, Failed, Skip, another_user, check, diagnose, equal,  # noqa: E402,F401
                     eventually, fails_with, mounts, need, run, scratch, sh, usable_by_plain_user, watchdog)

FILES_MOUNT = os.environ.get('FILES_MOUNT', 'files-mount')
SANDBOX = 2000000
WAYS = ('handles', 'walk', 'user') if IS_ROOT else ('plain',)

cases = []


def case(function):
    cases.append(function)
    return function


class Mount:
    def __init__(self, way, options=(), nofile=None, mapped=None, where=None):
        self.way = way
        self.base = tempfile.mkdtemp(prefix='dressagefs-files-', dir=where or scratch())
        os.chmod(self.base, 0o755)
        self.mnt, self.back, self.other_back = (os.path.join(self.base, n) for n in ('mnt', 'back', 'back2'))
        self.fs, self.other = os.path.join(self.mnt, 'fs'), os.path.join(self.mnt, 'other')
        for path in (self.mnt, self.back, self.other_back):
            os.mkdir(path)
        self.uid, self.gid = os.getuid(), os.getgid()            # of the sandbox
        self.owner_uid, self.owner_gid = self.uid, self.gid      # of the mount
        self.options = list(options) + ([] if mapped else ['--other', self.other_back])
        if way == 'walk':
            self.options.append('--walk')
        if way == 'user':
            self.uid = self.gid = SANDBOX
            _, self.owner_uid, self.owner_gid = another_user()
            self.options += ['--ids', f'{self.uid}:{self.gid}', '--owner', f'{self.owner_uid}:{self.owner_gid}']
        for path in (self.back, self.other_back):
            os.chown(path, self.uid, self.gid)
        self.slack = 2  # nodes that may be left
        self.process, self.nofile = None, nofile
        self.directory = mapped or self.back

    def start(self):
        def limit():
            if self.nofile:
                resource.setrlimit(resource.RLIMIT_NOFILE, (self.nofile, self.nofile))
        self.process = subprocess.Popen([FILES_MOUNT, *self.options, self.directory, self.mnt], text=True, bufsize=1,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=limit)
        said = self.process.stdout.readline()
        if said != 'ready\n':
            self.process.wait(PATIENCE)
            raise Failed(f'no mount: {said!r}')
        self.first_fds = int(self.say('fds'))
        return self

    def say(self, command):
        self.process.stdin.write(command + '\n')
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise Failed(f'files-mount died at {command!r}')
        return answer.strip()

    def nodes(self):
        return int(self.say('count'))

    def look_for_leftovers(self):
        def forgotten():
            self.say('forget')
            return self.nodes() <= self.slack
        try:
            eventually(forgotten, 'nodes forgotten')
        except Failed as e:
            raise Failed(f'{self.nodes()} nodes are left') from e
        # a lease keeps one descriptor for each of its mounts, a walking one those of its cache
        if self.way in ('handles', 'user'):
            eventually(lambda: int(self.say('fds')) <= self.first_fds + 8, 'descriptors closed')

    def stop(self):
        self.look_for_leftovers()
        self.process.stdin.close()
        equal(self.process.wait(PATIENCE), 0, 'exit status of files-mount')

    def destroy(self):
        if self.process:
            if self.process.poll():
                diagnose(f'the daemon ended with exit status {self.process.returncode}')
            self.process.kill()
            self.process.wait(PATIENCE)
            self.process.stdin.close()
            self.process.stdout.close()
        if self.mnt in mounts():
            subprocess.run(['fusermount3', '-uz', self.mnt], check=False)
        subprocess.run(['rm', '-rf', self.base], check=False)

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.destroy()
            raise

    def __exit__(self, kind, value, trace):
        try:
            if kind is None:
                self.stop()
        finally:
            self.destroy()

    # --- use ---

    def at(self, *parts):
        return os.path.join(self.fs, *parts)

    def behind(self, *parts):
        return os.path.join(self.back, *parts)

    def plant(self, name, text='', mode=None):
        """Makes a file behind the mount, as a command in the sandbox would."""
        path = self.behind(name)
        with open(path, 'w', encoding='utf-8') as f:
            f.write(text)
        os.chown(path, self.uid, self.gid)
        if mode is not None:
            os.chmod(path, mode)
        return path

    def plant_dir(self, name):
        path = self.behind(name)
        os.mkdir(path)
        os.chown(path, self.uid, self.gid)
        return path

    def as_owner(self):
        """(uid, gid) for run(user=...) where the owner is not who runs the tests, else None."""
        return (self.owner_uid, self.owner_gid) if self.way == 'user' else None


def read(path):
    with open(path, 'rb') as f:
        return f.read()


def write(path, data):
    with open(path, 'wb') as f:
        f.write(data if isinstance(data, bytes) else data.encode())


def run_case(function, way):
    timer = watchdog(function.__name__, 8 * PATIENCE)
    try:
        with Mount(way, **getattr(function, 'options', {})) as m:
            function(m)
        return 'ok', ''
    except Skip as e:
        return 'ok', f' # SKIP {e}'
    except BaseException as e:  # pylint: disable=broad-except
        diagnose(traceback.format_exc())
        if isinstance(e, KeyboardInterrupt):
            raise
        return 'not ok', ''
    finally:
        timer.cancel()


def main():
    why = None if IS_ROOT else usable_by_plain_user()
    if why:
        print(f'1..0 # SKIP {why}')
        return
    wanted = sys.argv[1:]
    chosen = [(c, way) for c in cases for way in WAYS if not wanted or c.__name__ in wanted]
    print(f'1..{len(chosen)}')
    failed = 0
    for number, (function, way) in enumerate(chosen, 1):
        word, note = run_case(function, way)
        failed += word != 'ok'
        print(f'{word} {number} - {function.__name__} ({way}){note}', flush=True)
    sys.exit(1 if failed else 0)
