# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the tests on a real mount share: a daemon on a temporary mount, a shell with a deadline, TAP, and a look for leftovers.

    from harness import case, main, Daemon, sh, equal, check

    @case
    def a_second_mkdir_gives_EEXIST(d):     # d: a daemon that the file's cases share; no argument: the case starts its own
        ...

    main(slots=2)

A case is a sentence of behaviour. It fails by an exception; raise Skip('reason') when this machine cannot show it. Nothing
here waits by sleeping where an event can be waited for; every wait has a deadline, and behind all of them stands a watchdog
that kills the daemons, so that a held request fails instead of hanging the suite. The binaries are $DRESSAGEFS and $DRESSAGE.
"""
import ctypes
import errno
import inspect
import json
import os
import platform
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
DRESSAGEFS = os.environ.get('DRESSAGEFS', os.path.join(ROOT, 'build/tools/dressagefs'))
DRESSAGE = os.environ.get('DRESSAGE', os.path.join(ROOT, 'build/tools/dressage'))
IS_ROOT = os.geteuid() == 0
SANITIZED = os.environ.get('DRESSAGE_TEST_SANITIZED', '') != ''
PATIENCE = 60  # seconds: a deadline for what takes milliseconds


class Skip(Exception):
    """This machine cannot show it; the text says why."""


class Failed(AssertionError):
    pass


def check(condition, text='condition does not hold'):
    if not condition:
        raise Failed(text)


def short(value):
    text = repr(value)
    return text if len(text) < 2000 else f'{text[:1000]} ... {text[-1000:]}'


def equal(got, wanted, text=''):
    if got != wanted:
        raise Failed(f'{text + ": " if text else ""}got {short(got)}, wanted {short(wanted)}')


def contains(text, part, what=''):
    if part not in text:
        raise Failed(f'{what + ": " if what else ""}no {part!r} in {short(text)}')


def fails_with(code, call, *args):
    """Runs call(*args), which must raise OSError with this errno."""
    try:
        call(*args)
    except OSError as e:
        equal(errno.errorcode.get(e.errno), errno.errorcode[code], 'errno')
        return e
    raise Failed(f'no error, wanted {errno.errorcode[code]}')


def eventually(condition, text, patience=None):
    """For states that no event announces (a process table, a slot's state): looks until it holds."""
    end = time.monotonic() + (patience or PATIENCE)
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > end:
            raise Failed('still not so: ' + text)
        time.sleep(0.01)


def test_environment():
    """The tests' own environment without what would configure a daemon."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(('DRESSAGE_', 'E2B_', 'XDG_'))}
    env['PATH'] = '/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/go/bin'
    env['LC_ALL'] = 'C.UTF-8'
    return env


def become(uid, gid):
    """A preexec_fn that turns into that user."""
    def turn():
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    return turn


def sh(script, shell='bash', words=(), cwd=None, env=None, stdin=None, timeout=None, user=None):
    """Runs a script (words: its arguments); gives the CompletedProcess with text output. Killed, and failed, when it takes too long."""
    start = ['busybox', 'sh'] if shell == 'busybox' else [shell]
    return run([*start, '-c', script, shell, *words], cwd=cwd, env=env, stdin=stdin, timeout=timeout, user=user)


def run(words, cwd=None, env=None, stdin=None, timeout=None, user=None, text=True):
    process = subprocess.Popen(
        words, cwd=cwd, env={**test_environment(), **(env or {})}, text=text, start_new_session=True,
        stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=become(*user) if user else None)
    try:
        out, err = process.communicate(stdin, timeout or PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise Failed(f'still running after {timeout or PATIENCE} s: {words!r}\nstdout: {out}\nstderr: {err}') from None
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def need(*programs):
    """The paths of the programs; a case that lacks one is skipped."""
    found = []
    for program in programs:
        path = shutil.which(program, path=test_environment()['PATH'])
        if not path:
            raise Skip(f'no {program} on this machine')
        found.append(path)
    return found[0] if len(found) == 1 else found


def mounts():
    with open('/proc/self/mountinfo', encoding='utf-8', errors='surrogateescape') as f:
        return [line.split()[4] for line in f]


def mounts_from(mountinfo, base):
    """Whether any of these mounts shows something of that directory: a bind of it, not a mount on it, which stands in the
    mountinfo of everybody who has a copy of the machine's mounts."""
    return any(base in line.split(b' ')[3] for line in mountinfo.splitlines())


def processes_of(base):
    """Processes that have anything below that directory in their arguments (daemons, one bwrap a slot) or, while nothing is
    mounted there by us, bound among their mounts (whatever lives in a slot)."""
    found = {}
    for pid in filter(str.isdigit, os.listdir('/proc')):
        if int(pid) == os.getpid():
            continue
        try:
            with open(f'/proc/{pid}/cmdline', 'rb') as f:
                words = f.read()
            if base.encode() in words:
                found[int(pid)] = ('cmdline', words)
                continue
            with open(f'/proc/{pid}/mountinfo', 'rb') as f:
                if mounts_from(f.read(), base.encode()):
                    found[int(pid)] = ('mountinfo', b'')
        except OSError:
            continue
    if any(m.startswith(base) for m in mounts()):
        found = {pid: why for pid, why in found.items() if why[0] == 'cmdline'}
    return found


def is_symbolizer(pid):
    """A child that ThreadSanitizer makes for itself when it looks whether a report is suppressed."""
    try:
        with open(f'/proc/{pid}/comm', encoding='ascii', errors='replace') as f:
            return f.read().startswith('llvm-symbolize')
    except OSError:
        return False


def cgroups(name):
    """Every cgroup below those of that name, in any hierarchy."""
    found = set()
    for top, names, _ in os.walk('/sys/fs/cgroup'):
        found.update(os.path.join(top, n) for n in names if name and (n == name or f'/{name}' in top))
    return found


def cgroup_names_of(pids):
    """The names of the daemons' own cgroups that these processes are in."""
    names = set()
    for pid in pids:
        try:
            with open(f'/proc/{pid}/cgroup', encoding='utf-8') as f:
                names.update(word for line in f for word in line.strip().split('/') if word.startswith('dressage-'))
        except OSError:
            pass
    return names


def remove_cgroups(name):
    """Removes what is left of a killed daemon's cgroups; True while some are in use."""
    for path in sorted(cgroups(name), key=len, reverse=True):
        try:
            os.rmdir(path)
        except OSError:
            pass
    return bool(cgroups(name))


running = []


class Daemon:
    """A dressagefs on a mount of its own. Use as a context manager: at its end nothing may be left."""

    def __init__(self, slots=2, options=(), config=None, env=None, command=(), user=None, base=None, owner=None):
        self.base = base or tempfile.mkdtemp(prefix='dressagefs-test-', dir=scratch())
        os.chmod(self.base, 0o755)
        if user:
            os.chown(self.base, *user)
        self.mnt = os.path.join(self.base, 'mnt')
        self.state = os.path.join(self.base, 'state')
        if not os.path.isdir(self.mnt) and not is_stale(self.mnt):
            os.mkdir(self.mnt)
            if user:
                os.chown(self.mnt, *user)
        self.user = user
        self.words = [DRESSAGEFS, '-o', f'dressage.state_dir={self.state}', '-o', f'pool.slots={slots}', *command]
        for option in options:
            self.words += ['-o', option]
        if owner:
            self.words += ['-o', f'mount.owner={owner}']
        if config is not None:
            path = os.path.join(self.base, 'dressage.ini')
            with open(path, 'w', encoding='utf-8') as f:
                f.write(config)
            self.words += ['--config', path]
        self.env = {**test_environment(), **(env or {})}
        self.process = None
        self.ready = self.killed = False  # it was once; it was killed by us

    # --- life ---

    def start(self):
        """Starts it in the foreground and waits until it says that it is ready. A Ctrl-C at our terminal is not for it: destroy()
        must find it as it was."""
        reader, writer = os.pipe()
        with open(os.path.join(self.base, 'log'), 'ab') as log:
            self.process = subprocess.Popen(
                [*self.words, '-f', f'--ready-fd={writer}', self.mnt], env=self.env, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, pass_fds=[writer], start_new_session=True, preexec_fn=become(*self.user) if self.user else None)
        os.close(writer)
        running.append(self)
        self.killed = False
        with os.fdopen(reader) as f:
            said = f.read()
        if said != 'ready\n':
            self.process.wait(PATIENCE)
            raise Failed(f'the daemon did not start: {said!r}\n{self.log()}')
        self.ready = True
        return self

    def stop(self):
        """Stops it as an administrator does and sees that nothing is left."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.wait_end()
        self.look_for_leftovers()

    def wait_end(self, wanted=0):
        code = self.process.wait(PATIENCE)
        if wanted is not None and code != wanted:
            raise Failed(self.log())

    def kill(self):
        """kill -9."""
        self.killed = True
        self.process.kill()
        self.process.wait(PATIENCE)

    def look_for_leftovers(self):
        check(self.mnt not in mounts(), f'{self.mnt} is still mounted')
        left = eventually_none(lambda: processes_of(self.base))
        check(not left, f'processes are left: {left}\n{self.log()}')
        slots = os.path.join(self.state, 'slots')
        if os.path.isdir(slots):
            kept = [os.path.join(top, name) for top, dirs, files in os.walk(slots)
                    for name in files + dirs if name not in ('logs', 'archives') and not is_slot_dir(slots, top, name)]
            check(not kept, f'files of slots are left: {kept[:5]}')

    def destroy(self):
        """Ends it whatever happened, and removes its directory."""
        if self in running:
            running.remove(self)
        if self.process and self.process.poll() is None:
            self.kill()
        if self.ready and not self.killed and self.process.returncode != 0:
            diagnose(self.log())
        for _ in range(3):
            if self.mnt in mounts():
                subprocess.run(['fusermount3', '-uz', self.mnt], env=self.env, check=False, capture_output=True)
        for pid in processes_of(self.base):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        name = self.cgroup_name()
        eventually_none(lambda: [n for n in (name, name + '-daemon') if remove_cgroups(n)])
        remove_tree(self.base)

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
            else:
                diagnose(self.log())
        finally:
            self.destroy()

    def whole_log(self):
        text = ''
        for path in (os.path.join(self.base, 'log'), os.path.join(self.state, 'dressagefs.log')):
            try:
                with open(path, encoding='utf-8', errors='replace') as f:
                    text += f.read()
            except OSError:
                pass
        return text

    def log(self):
        code = self.process.poll() if self.process and not self.killed else None
        end = f'the daemon ended with exit status {code}\n' if code else ''  # tests/count-results looks for these words
        return 'log of the daemon:\n' + self.whole_log()[-6000:] + end

    @property
    def pid(self):
        return self.process.pid

    # --- use ---

    def path(self, *parts):
        return os.path.join(self.mnt, *parts)

    def lease(self, name, *parts):
        return os.path.join(self.mnt, 'leases', name, *parts)

    def mkdir(self, name):
        os.mkdir(self.lease(name))

    def rmdir(self, name):
        os.rmdir(self.lease(name))

    def read(self, *parts):
        with open(self.path(*parts), encoding='utf-8') as f:
            return f.read()

    def json(self, *parts):
        return json.loads(self.read(*parts))

    def ask(self, path, request):
        """One conversation: writes the request, reads the reply from the same descriptor."""
        if not isinstance(request, (str, bytes)):
            request = json.dumps(request)
        fd = os.open(self.path(path), os.O_RDWR)
        try:
            data = request.encode() if isinstance(request, str) else request
            while data:
                data = data[os.write(fd, data):]
            return json.loads(read_all(fd))
        finally:
            os.close(fd)

    def run(self, lease, command, **more):
        """Runs a command in a lease, gives the CommandResult."""
        return self.ask(f'leases/{lease}/run_command', {'command': command, **more})

    def run_out(self, lease, command, output):
        """Runs a command that does not end, with a timeout: of the shortest time in which it prints this, on a busy machine too."""
        for seconds in (0.3, 1, 3, 9, 27):
            result = self.run(lease, command, timeout=seconds)
            if result['stdout'] == output:
                break
        return result

    def begin(self, lease, command):
        """Starts a command, gives the descriptor that its result is to be read from."""
        fd = os.open(self.lease(lease, 'run_command'), os.O_RDWR)
        os.write(fd, command.encode())
        os.fsync(fd)
        return fd

    def status_stays_quick(self, thread, what):
        """Starts the thread and reads status until it has ended."""
        thread.start()
        slowest = 0
        while thread.is_alive():
            before = time.monotonic()
            self.read('status')
            slowest = max(slowest, time.monotonic() - before)
        thread.join()
        check(slowest < 5, f'{what}: status took {slowest:.1f} s')

    def slot_of(self, lease):
        return int(self.json('leases', lease, 'lease.json')['metadata']['slot_id'])

    def cgroup_name(self):
        """The name that its cgroups get; there may be none."""
        number = 2166136261
        for byte in os.fsencode(os.path.realpath(self.state)):
            number = (number ^ byte) * 16777619 & 0xffffffff
        return f'dressage-{number:08x}'

    def cgroup(self):
        """The name of the cgroup that holds those of its slots; '' when it can make none."""
        return next(iter(cgroup_names_of([int(self.read('slots', '0000', 'pid'))])), '')

    def wait_ready(self, count=None):
        """Until that many slots (all) are READY."""
        def ready():
            status = self.json('status.json')
            return status['total_ready'] == (status['total_capacity'] if count is None else count)
        eventually(ready, 'slots READY')

    def release_all(self):
        for name in os.listdir(self.path('leases')):
            os.rmdir(self.lease(name))
        self.wait_ready()


def is_slot_dir(slots, top, name):
    """slots/NNNN and the empty directories in it."""
    path = os.path.join(top, name)
    return os.path.isdir(path) and os.path.relpath(path, slots).count('/') <= 1


# system calls that wait for what a file has to say: their number, and which argument is the file's descriptor
READS = {'x86_64': {0: 0, 1: 0, 17: 0, 40: 1, 275: 0, 326: 0}, 'aarch64': {63: 0, 64: 0, 67: 0, 71: 1, 76: 0, 285: 0}}[platform.machine()]
POLLS = {'x86_64': (7, 271), 'aarch64': (73,)}[platform.machine()]  # theirs are in a list


def sleeps_with(path, pid):
    """Whether the process sleeps in a read or write of the file that the mount has not answered. (With the file open and asleep would not
    do: it may be in open or fstat still.)"""
    fds = f'/proc/{pid}/fd'
    for task in os.listdir(f'/proc/{pid}/task'):
        try:
            with open(f'/proc/{pid}/task/{task}/syscall', encoding='ascii') as f:
                number, *arguments = f.read().split()  # or "running"
            number = int(number) if arguments else -1
            asked = [str(int(arguments[READS[number]], 16))] if number in READS else os.listdir(fds) if number in POLLS else []
            if path in [os.readlink(f'{fds}/{fd}') for fd in asked if os.path.lexists(f'{fds}/{fd}')]:
                return True
        except OSError:
            continue  # it has gone on
    return False


def close_late(fd):
    """Closes a descriptor whose daemon has gone."""
    try:
        os.close(fd)
    except OSError as e:
        equal(e.errno, errno.ENOTCONN)


def eventually_none(look):
    try:
        eventually(lambda: not look(), '')
    except Failed:
        pass
    return look()


def is_stale(path):
    try:
        os.stat(path)
    except OSError as e:
        return e.errno == errno.ENOTCONN
    return False


def read_all(fd):
    parts = []
    while True:
        part = os.read(fd, 1 << 20)
        if not part:
            return b''.join(parts)
        parts.append(part)


def scratch():
    """Where temporary things live: in memory when there is room."""
    return '/dev/shm' if os.access('/dev/shm', os.W_OK) else tempfile.gettempdir()


def remove_tree(top):
    """Also directories that a copy has made read-only."""
    for path, names, _ in os.walk(top):
        for name in names:
            if not os.path.islink(os.path.join(path, name)):
                os.chmod(os.path.join(path, name), 0o700)
    if os.path.isdir(top):
        shutil.rmtree(top)


class Scratch:
    """A temporary directory that others may enter."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix='dressagefs-test-', dir=scratch())
        os.chmod(self.path, 0o755)
        return self.path

    def __exit__(self, *_):
        remove_tree(self.path)


def another_user(*not_these):
    """An unprivileged account of this machine: (name, uid, gid)."""
    for name in ('daemon', 'games', 'nobody'):
        entry = pwd.getpwnam(name)
        if entry.pw_uid not in not_these:
            return name, entry.pw_uid, entry.pw_gid
    raise Skip('no second unprivileged user')


def usable_by_plain_user():
    """Why a plain user cannot mount here; None when it can."""
    if not os.access('/dev/fuse', os.R_OK | os.W_OK):
        return '/dev/fuse may not be opened by this user'
    if subprocess.run(['unshare', '-Ur', 'true'], capture_output=True, check=False).returncode != 0:
        return 'user namespaces are not allowed to this user'
    return None


# --- TAP ---

cases = []


def case(function):
    cases.append(function)
    return function


def diagnose(text):
    for line in str(text).splitlines():
        print('#', line)
    sys.stdout.flush()


def watchdog(name, seconds):
    def bite():
        diagnose(f'{name}: nothing for {seconds} s; killing the daemons')
        for daemon in list(running):
            diagnose(daemon.log())
            if daemon.process and daemon.process.poll() is None:
                daemon.kill()
    timer = threading.Timer(seconds, bite)
    timer.daemon = True
    timer.start()
    return timer


def run_case(function, daemon):
    takes_daemon = bool(inspect.signature(function).parameters)
    timer = watchdog(function.__name__, getattr(function, 'patience', 4 * PATIENCE))
    try:
        if takes_daemon:
            function(daemon)
            daemon.release_all()
        else:
            function()
        return 'ok', ''
    except Skip as e:
        return 'ok', f' # SKIP {e}'
    except BaseException as e:  # pylint: disable=broad-except
        diagnose(traceback.format_exc())
        if takes_daemon:
            diagnose(daemon.log())
        if isinstance(e, KeyboardInterrupt):
            raise
        return 'not ok', ''
    finally:
        timer.cancel()


def shared_daemon(**options):
    """The daemon that the cases with an argument share, or None when there are none."""
    if any(inspect.signature(c).parameters for c in cases):
        return Daemon(**options).start()
    return None


def main(**options):
    ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: what daemons leave is ours to see
    for program in (DRESSAGEFS, DRESSAGE):
        if not os.access(program, os.X_OK):
            sys.exit(f'no {program}: build first, or set $DRESSAGEFS and $DRESSAGE')
    wanted = sys.argv[1:]
    chosen = [c for c in cases if not wanted or c.__name__ in wanted]
    why = None if IS_ROOT else usable_by_plain_user()
    if why:
        print(f'1..0 # SKIP {why}')
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    # a shell's background and nohup have these ignored, and so would the clients be
    for number, action in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL), (signal.SIGHUP, signal.SIG_DFL)):
        signal.signal(number, action)
    print(f'1..{len(chosen) + 1}')
    failed, daemon = 0, None
    try:
        for number, function in enumerate(chosen, 1):
            if inspect.signature(function).parameters and (daemon is None or daemon.process.poll() is not None):
                if daemon:
                    daemon.destroy()
                daemon = shared_daemon(**options)
            word, note = run_case(function, daemon)
            failed += word != 'ok'
            print(f'{word} {number} - {function.__name__}{note}', flush=True)
            if word != 'ok' and daemon:
                daemon.destroy()
                daemon = None
        word = 'ok'
        if daemon:
            try:
                daemon.stop()
            except BaseException:  # pylint: disable=broad-except
                diagnose(traceback.format_exc())
                word = 'not ok'
        failed += word != 'ok'
        print(f'{word} {len(chosen) + 1} - the_daemon_stops_and_leaves_nothing', flush=True)
    finally:
        for d in list(running) + ([daemon] if daemon else []):
            d.destroy()
    sys.exit(1 if failed else 0)
