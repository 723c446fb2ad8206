# SPDX-License-Identifier: LGPL-2.1-or-later
"""Networks of slots: the way in by endpoints, the way out by reach, and nothing else."""
import concurrent.futures
import contextlib
import errno
import json
import os
import re
import socket
import socketserver
import threading

from harness import IS_ROOT, PATIENCE, Daemon, Failed, Skip, case, check, contains, equal, eventually, fails_with, main, need, sh

SLOTS = 2


def free_base(count=SLOTS):
    """A base_port with that many free ports behind it, away from those that the kernel gives out."""
    for base in range(20000 + os.getpid() % 2000 * 4, 32000, 16):
        try:
            with contextlib.ExitStack() as stack:
                for port in range(base, base + count):
                    stack.enter_context(socket.socket()).bind(('127.0.0.1', port))
            return base
        except OSError:
            continue
    raise AssertionError('no ports are free')


class Target:
    """A server of the test's own on the host's loopback. serve(connection) has each connection to itself."""

    def __init__(self, serve, family=socket.AF_INET):
        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                serve(self.request)

        class Server(socketserver.ThreadingTCPServer):
            address_family = family
            daemon_threads = True
            request_queue_size = 256

        self.server = Server(('127.0.0.1' if family == socket.AF_INET else '::1', 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def echo(connection):
    """What comes goes back, until it ends."""
    with contextlib.suppress(OSError):
        while part := connection.recv(65536):
            connection.sendall(part)


def python(d, lease, code, *words, **more):
    """Runs Python inside; gives what it printed."""
    result = d.run(lease, ['/usr/bin/python3', '-c', code, *map(str, words)], **more)
    equal((result['returncode'], result['stderr']), (0, ''), f'python inside: {result["stdout"]}')
    return result['stdout']


PRELUDE = '''
import socket, sys, threading
def serve(port, handle, host='127.0.0.1'):
    s = socket.create_server((host, port), backlog=256, family=socket.AF_INET6 if ':' in host else socket.AF_INET)
    def loop():
        while True:
            c, _ = s.accept()
            threading.Thread(target=handle, args=(c,), daemon=True).start()
    threading.Thread(target=loop, daemon=True).start()
def echo(c):
    while part := c.recv(65536):
        c.sendall(part)
    c.close()
'''


STARTER = """
rm -f /tmp/ready
python3 -c "$0" >/tmp/server.log 2>&1 &
for i in $(seq 1000); do test -e /tmp/ready && exit 0; sleep 0.01; done
cat /tmp/server.log; exit 1
"""


def start_server(d, lease, code):
    """Starts a server inside that outlives its command; it is up when its code has come to its end."""
    code = PRELUDE + code + '\nopen("/tmp/ready", "w").close()\nthreading.Event().wait()\n'
    done = d.run(lease, ['/bin/sh', '-c', STARTER, code])
    equal(done['returncode'], 0, done['stdout'])


def connect(url):
    host, port = re.fullmatch(r'http://(\S+):(\d+)', url).groups()
    connection = socket.create_connection((host.strip('[]'), int(port)), PATIENCE)
    connection.settimeout(PATIENCE)
    return connection


def read_all(connection):
    parts = []
    while part := connection.recv(1 << 20):
        parts.append(part)
    return b''.join(parts)


def is_reset(url, send=b'x'):
    """Whether the connection is refused, or reset without a byte."""
    try:
        with connect(url) as connection:
            connection.sendall(send)
            return read_all(connection) is None
    except (ConnectionResetError, ConnectionRefusedError, BrokenPipeError):
        return True


def create(d, lease, *ports):
    spec = {'trajectory_id': lease, 'services': [{'name': f's{port}', 'port': port} for port in ports]}
    return {name: e['url'] for name, e in d.ask('create', spec)['endpoints'].items()}


base = free_base()


@case
def a_service_is_reached_at_its_endpoint_and_the_first_has_the_slot_s_port(d):
    lease = d.ask('create', {'trajectory_id': 't', 'services': [
        {'name': 'web', 'port': 8000}, {'name': 'a/b', 'port': 8001, 'health_path': '/up'}]})
    equal(sorted(lease['capabilities']), ['command', 'file', 'public_url'])
    number = lease['metadata']['slot_id']
    equal(lease['metadata']['port'], base + number)
    equal(lease['endpoints']['web'], {'url': f'http://127.0.0.1:{base + number}', 'headers': {}})
    equal(sorted(os.listdir(d.lease('t', 'endpoints'))), ['a%2Fb', 'web'])
    equal(d.read('leases', 't', 'endpoints', 'a%2Fb'), lease['endpoints']['a/b']['url'] + '\n')
    equal(d.json('leases', 't', 'lease.json')['endpoints'], lease['endpoints'])
    start_server(d, 't', 'serve(8000, echo); serve(8001, lambda c: (c.sendall(b"second"), c.close()))')
    with connect(lease['endpoints']['web']['url']) as c:
        c.sendall(b'hello')
        equal(c.recv(5), b'hello')
    with connect(lease['endpoints']['a/b']['url']) as c:
        equal(read_all(c), b'second')


@case
def any_port_is_an_endpoint_when_it_is_asked_for(d):
    d.mkdir('t')
    equal(os.listdir(d.lease('t', 'endpoints')), [])
    equal(sorted(d.json('leases', 't', 'lease.json')['capabilities']), ['command', 'file'])
    first, second = (d.read('leases', 't', 'endpoints', port).strip() for port in ('9000', '80'))
    equal(first, f'http://127.0.0.1:{base + d.slot_of("t")}')
    equal(d.read('leases', 't', 'endpoints', '9000').strip(), first)
    equal(os.stat(d.lease('t', 'endpoints', '80')).st_size, len(second) + 1)
    start_server(d, 't', 'serve(9000, echo); serve(80, echo, "::1")')
    for url in (first, second):
        with connect(url) as c:
            c.sendall(b'x')
            equal(c.recv(1), b'x')
    for name in ('0', '65536', '080', '+80', '80 ', 'web', '99999999999'):
        fails_with(errno.ENOENT, os.stat, d.lease('t', 'endpoints', name))
    fails_with(errno.EPERM if IS_ROOT else errno.EACCES, open, d.lease('t', 'endpoints', 'new'), 'w')


@case
def a_connection_to_a_port_that_nobody_listens_on_is_reset(d):
    check(is_reset(create(d, 't', 8000)['s8000']), 'somebody answered')


@case
def either_side_may_end_its_way_and_still_be_sent_to(d):
    url = create(d, 't', 8000)['s8000']
    start_server(d, 't', 'def late(c):\n  n = 0\n  while part := c.recv(65536): n += len(part)\n'
                 '  c.sendall(b"%d" % n * 3); c.close()\nserve(8000, late)')
    with connect(url) as c:
        c.sendall(b'a' * 3000000)
        c.shutdown(socket.SHUT_WR)
        equal(read_all(c), b'3000000' * 3)
    start_server(d, 't', 'def first(c):\n  c.sendall(b"bye"); c.shutdown(1)\n  n = 0\n'
                 '  while part := c.recv(65536): n += len(part)\n  open("/tmp/got", "w").write(str(n))\nserve(8001, first)')
    with connect(d.read('leases', 't', 'endpoints', '8001').strip()) as c:
        equal(read_all(c), b'bye')
        c.sendall(b'b' * 1000)
    eventually(lambda: d.run('t', 'cat /tmp/got 2>/dev/null')['stdout'] == '1000', 'all has come')


def memory_of(pid):
    with open(f'/proc/{pid}/statm', encoding='ascii') as f:
        return int(f.read().split()[1]) * 4096


@case
def a_slow_reader_holds_the_writer_up_and_costs_no_memory(d):
    url = create(d, 't', 8000)['s8000']
    start_server(d, 't', 'def pour(c):\n  sent = 0\n  block = bytes(65536)\n  try:\n    while True:\n      sent += c.send(block)\n'
                 '      open("/tmp/sent", "w").write(str(sent))\n  except OSError: pass\nserve(8000, pour)')
    before = memory_of(d.pid)
    with connect(url) as c:
        c.recv(1)
        last = [-1]

        def stands():
            sent = int(d.run('t', 'sleep 0.2; cat /tmp/sent')['stdout'] or 0)
            still, last[0] = sent == last[0], sent
            return still
        eventually(stands, 'the writer stands still')
        check(last[0] < 32 << 20, f'{last[0]} bytes are under way')
        check(memory_of(d.pid) - before < 8 << 20, 'the daemon has taken them all')
        for _ in range(64):  # and goes on when it is read
            check(c.recv(1 << 20), 'it ended')


@case
def fifty_connections_at_once_get_each_its_own_bytes(d):
    url = create(d, 't', 8000)['s8000']
    start_server(d, 't', 'serve(8000, echo)')

    def talk(number):
        mine = b'%04d' % number * 50000
        with connect(url) as c:
            sender = threading.Thread(target=lambda: (c.sendall(mine), c.shutdown(socket.SHUT_WR)))
            sender.start()
            got = read_all(c)
            sender.join()
        return got == mine
    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        equal(list(pool.map(talk, range(50))), [True] * 50)


@case
def the_end_of_a_lease_resets_its_connections_and_the_next_tenant_gets_none(d):
    """Both slots are taken, so that the next tenant has the same one."""
    create(d, 'other', 8000)
    urls = create(d, 't', 8000, 8001)
    number = d.slot_of('t')
    start_server(d, 't', 'serve(8000, echo)')
    with connect(urls['s8000']) as held:
        held.sendall(b'x')
        equal(held.recv(1), b'x')
        d.rmdir('t')
        try:
            equal(held.recv(1), None, 'a byte, or an end, of a lease that is over')
        except ConnectionResetError:
            pass
        check(is_reset(urls['s8000']), 'the slot is connected to without a tenant')
        check(is_reset(urls['s8001']), 'the second port is')
        d.wait_ready(1)
        equal(create(d, 'next', 8000)['s8000'], urls['s8000'])
        equal(d.slot_of('next'), number)
        start_server(d, 'next', 'serve(8000, lambda c: (c.sendall(b"next"), c.close()))')
        with connect(urls['s8000']) as c:
            equal(read_all(c), b'next')


@case
def a_lost_lease_has_no_endpoints_any_more(d):
    url = create(d, 't', 8000)['s8000']
    number = d.slot_of('t')
    d.run('t', 'true')
    names = [d.lease('t', 'endpoints', name) for name in ('s8000', '8001')]
    for name in names:
        check(d.read(name).startswith('http://'), name)
    os.kill(int(d.read('slots', f'{number:04}', 'pid')), 9)
    eventually(lambda: d.read('leases', 't', 'state') == 'LOST\n', 'LOST')
    check(is_reset(url), 'somebody answered')
    equal(os.listdir(d.lease('t', 'endpoints')), [])
    equal(d.json('leases', 't', 'lease.json')['endpoints'], {})
    for name in names:
        fails_with(errno.ENOTCONN, open, name)
    fails_with(errno.ENOTCONN, os.stat, d.lease('t', 'endpoints', '8002'))


# ---- the way out ----


@contextlib.contextmanager
def reaching(*targets, slots=1, **more):
    with Daemon(slots=slots, options=['slot.network=forward', f'pool.base_port={free_base(slots)}', 'slot.reach=' + ' '.join(targets)],
                **more) as d:
        d.mkdir('t')
        yield d


TALK = PRELUDE + '''
def talk(host, port, size):
    c = socket.create_connection((host, port), 30)
    def send():
        block = bytes(range(256)) * 256
        for _ in range(size // len(block)): c.sendall(block)
        c.shutdown(socket.SHUT_WR)
    threading.Thread(target=send).start()
    got = 0
    while part := c.recv(1 << 20): got += len(part)
    return got
'''


@case
def a_listed_target_is_reached_under_its_own_name_and_address():
    with Target(echo) as target, Target(echo, socket.AF_INET6) as v6:
        with reaching(f'localhost:{target.port}', f'127.0.0.1:{target.port}', f'[::1]:{v6.port}') as d:
            for host, port in (('localhost', target.port), ('127.0.0.1', target.port), ('::1', v6.port)):
                equal(python(d, 't', TALK + 'print(talk(sys.argv[1], int(sys.argv[2]), 1 << 20))', host, port), f'{1 << 20}\n')


@case
def a_name_that_the_host_knows_is_reached_by_that_name():
    name = socket.gethostname()
    try:
        address = socket.gethostbyname(name)
        listener = socket.create_server((address, 0))
    except OSError as e:
        raise Skip(f'{name} is no address of this machine: {e}') from None
    with listener, reaching(f'{name}:{listener.getsockname()[1]}') as d:
        threading.Thread(target=lambda: echo(listener.accept()[0]), daemon=True).start()
        equal(python(d, 't', TALK + 'print(talk(sys.argv[1], int(sys.argv[2]), 1 << 16))', name, listener.getsockname()[1]),
              f'{1 << 16}\n')


@case
def a_streamed_answer_comes_piece_by_piece():
    """The next piece is sent when the one before has been answered: nothing on the way waits for more."""
    def serve(connection):
        for number in range(50):
            connection.sendall(b'%03d\n' % number)
            if connection.recv(1) != b'k':
                return
    with Target(serve) as target, reaching(f'127.0.0.1:{target.port}') as d:
        out = python(d, 't', PRELUDE + '''
c = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 30)
for n in range(50):
    assert c.recv(4) == b"%03d\\n" % n
    c.send(b"k")
print(c.recv(1))
''', target.port)
        equal(out, "b''\n")


@case
def nothing_that_is_not_listed_is_reached():
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind(f'\0dressagefs-test-{os.getpid()}')
    abstract.listen()
    with Target(echo) as target, Target(echo) as secret, abstract:
        with reaching(f'127.0.0.1:{target.port}', '10.11.12.13:80', slots=2) as d:
            d.mkdir('other')
            start_server(d, 'other', 'serve(8000, echo, "::")')
            port = int(d.read('leases', 'other', 'endpoints', '8000').rsplit(':', 1)[1])
            with connect(f'http://127.0.0.1:{port}') as c:
                c.sendall(b'x')
                equal(c.recv(1), b'x')
            attempts = [('127.0.0.1', secret.port), ('127.0.0.1', port), ('127.0.0.1', 8000), ('::1', target.port),
                        ('127.0.0.2', target.port), ('10.11.12.13', 81), ('10.11.12.14', 80), ('10.0.2.2', 80), ('8.8.8.8', 53),
                        ('169.254.169.254', 80), ('198.18.0.1', target.port), ('0.0.0.0', secret.port)]
            attempts += [(address, secret.port) for address in own_addresses()]
            out = python(d, 't', PRELUDE + '''
import json
for host, port in json.loads(sys.argv[1]):
    try:
        socket.create_connection((host, port), 5)
        print("reached", host, port)
    except OSError: pass
    u = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    u.settimeout(0.01)
    try:
        u.connect((host, port)); u.send(b"x"); u.recv(1)
        print("answered", host, port)
    except OSError: pass
for path in sys.argv[2:]:
    try:
        socket.socket(socket.AF_UNIX).connect("\\0" + path)
        print("reached", path)
    except OSError: pass
for kind in (socket.SOCK_RAW, socket.SOCK_DGRAM):
    try:
        socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP).sendto(b"\\10" + bytes(15), ("8.8.8.8", 0))
        print("a packet left")
    except OSError: pass
print("tried")
''', json.dumps(attempts), f'dressagefs-test-{os.getpid()}')
            equal(out, 'tried\n')


def own_addresses():
    """The host's, but for its loopback."""
    done = sh('ip -o -4 addr show scope global | sed -E "s:.* inet ([0-9.]+)/.*:\\1:"')
    return done.stdout.split()


def told(d, name):
    """The states of which the events tell."""
    return [e['to'] for e in map(json.loads, d.read('events').splitlines()) if e['id'] == name]


@case
def a_target_that_refuses_or_has_no_address_resets_the_connection():
    with socket.socket() as nobody:
        nobody.bind(('127.0.0.1', 0))
        with reaching(f'127.0.0.1:{nobody.getsockname()[1]}', 'no-such-name.invalid:80') as d:
            for host, port in (('127.0.0.1', nobody.getsockname()[1]), ('no-such-name.invalid', 80)):
                out = python(d, 't', PRELUDE + '''
try: print(socket.create_connection((sys.argv[1], int(sys.argv[2])), 30).recv(1))
except ConnectionResetError: print("reset")
''', host, port)
                equal(out, 'reset\n')
                eventually(lambda: told(d, f'{host}:{port}'), 'it is said that it cannot be reached')  # pylint: disable=cell-var-from-loop
                equal(told(d, f'{host}:{port}'), ['UNREACHABLE'])
            nobody.listen()
            python(d, 't', PRELUDE + 'socket.create_connection(("127.0.0.1", int(sys.argv[1])), 30)', nobody.getsockname()[1])
            eventually(lambda: '"to":"REACHED"' in d.read('events'), 'it is said that it can be reached again')


@case
def a_command_cannot_take_the_place_of_a_target():
    with Target(echo) as target, reaching(f'10.11.12.13:{target.port}', f'127.0.0.1:{target.port}') as d:
        out = python(d, 't', PRELUDE + '''
for host in ("10.11.12.13", "127.0.0.1", "0.0.0.0"):
    for option in (None, socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        s = socket.socket()
        if option: s.setsockopt(socket.SOL_SOCKET, option, 1)
        try:
            s.bind((host, int(sys.argv[1])))
            s.listen()
            print("took", host, option)
        except OSError: pass
print(socket.create_connection(("127.0.0.1", int(sys.argv[1]))).send(b"x"))
''', target.port)
        equal(out, '1\n')


@case
def ports_in_use_cost_their_slot_the_number_and_no_more():
    with socket.create_server(('127.0.0.1', 0)) as taken:
        port = taken.getsockname()[1]
        with Daemon(slots=1, options=['slot.network=forward', f'pool.base_port={port}']) as d:
            contains(d.log(), f'port {port} is in use by another program: slot 0000 has another one')
            url = create(d, 't', 8000)['s8000']
            check(not url.endswith(f':{port}'), url)
            equal(d.json('leases', 't', 'lease.json')['metadata']['port'], int(url.rsplit(':', 1)[1]))
            start_server(d, 't', 'serve(8000, echo)')
            with connect(url) as c:
                c.sendall(b'x')
                equal(c.recv(1), b'x')


@case
def a_port_that_is_taken_between_two_leases_costs_that_lease_the_number():
    base = free_base(1)
    with Daemon(slots=1, options=['slot.network=forward', f'pool.base_port={base}']) as d:
        with socket.socket() as thief:
            with contextlib.suppress(OSError):  # where the kernel holds on to it, so much the better
                thief.bind(('127.0.0.1', base))
            thief.close()
        with socket.socket() as thief:
            thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            thief.bind(('127.0.0.1', base))
            thief.listen()
            url = create(d, 't', 8000)['s8000']
            check(not url.endswith(f':{base}'), url)
            start_server(d, 't', 'serve(8000, echo)')
            with connect(url) as c:
                c.sendall(b'x')
                equal(c.recv(1), b'x')
            d.rmdir('t')
            d.wait_ready()
        equal(create(d, 'u', 8000)['s8000'], f'http://127.0.0.1:{base}')


@case
def a_v6_address_is_bound_and_named_in_brackets():
    try:
        socket.create_server(('::1', 0), family=socket.AF_INET6).close()
    except OSError as e:
        raise Skip(f'no IPv6 here: {e}') from None
    with Daemon(slots=1, options=['slot.network=forward', f'pool.base_port={free_base(1)}', 'pool.bind_host=::1']) as d:
        url = create(d, 't', 8000)['s8000']
        contains(url, 'http://[::1]:')
        start_server(d, 't', 'serve(8000, echo)')
        with connect(url) as c:
            c.sendall(b'x')
            equal(c.recv(1), b'x')


@case
def a_slot_that_connects_without_end_holds_up_no_other():
    """Sixteen hundred connections in and out of one slot, and as many as it may have go on; the other slot does not notice."""
    with Target(echo) as target:
        with reaching(f'127.0.0.1:{target.port}', slots=2) as d:
            url = create(d, 'other', 8000)['s8000']
            start_server(d, 'other', 'serve(8000, echo)')
            start_server(d, 't', f'''
import os
os.fork()  # a process may have no more than 512 files in a plain user's slot
held = []
while len(held) < 400:
    s = socket.socket(); s.setblocking(False); s.connect_ex(("127.0.0.1", {target.port})); held.append(s)
''')
            flood = d.read('leases', 't', 'endpoints', '9').strip()
            held = []
            for _ in range(800):  # nobody listens there
                with contextlib.suppress(OSError):
                    held.append(connect(flood))
            for _ in range(20):
                with connect(url) as c:
                    c.sendall(b'x')
                    equal(c.recv(1), b'x')
                equal(d.json('status.json')['total_leased'], 2)
            count = len(os.listdir(f'/proc/{d.pid}/fd'))
            check(count < 2 * 2 * 512 + 200, f'the daemon has {count} descriptors open')
            for c in held:
                c.close()
            d.rmdir('t')
            d.wait_ready(1)
            eventually(lambda: len(os.listdir(f'/proc/{d.pid}/fd')) < 200, 'all are closed')


def refused(*options):
    d = Daemon(slots=1, options=options)
    try:
        d.start()
    except Failed as e:
        return str(e)
    finally:
        d.destroy()
    raise Failed(f'it started with {options}')


@case
def what_cannot_work_is_refused_at_the_start_with_a_sentence():
    contains(refused('slot.network=forward', 'pool.bind_host=203.0.113.77'), "pool.bind_host '203.0.113.77'")
    contains(refused('slot.network=forward', 'slot.reach=0.0.0.0:80'), "slot.reach: '0.0.0.0' is neither a name nor an address")


@case
def services_need_a_network():
    with Daemon(slots=1) as d:
        with_service = {'trajectory_id': 't', 'services': [{'name': 'web', 'port': 80}]}
        fails_with(errno.EINVAL, d.ask, 'create', with_service)
        contains(d.read('last_error'), '[slot] network is none')
        d.mkdir('t')
        fails_with(errno.ENOENT, os.stat, d.lease('t', 'endpoints', '80'))


@case
def in_the_host_s_network_an_endpoint_is_the_port_itself():
    with Daemon(slots=1, options=['slot.network=host']) as d:
        contains(d.log(), 'slots can reach whatever this machine can')
        with socket.socket() as probe:
            probe.bind(('127.0.0.1', 0))
            port = probe.getsockname()[1]
        url = create(d, 't', port)[f's{port}']
        equal(url, f'http://127.0.0.1:{port}')
        start_server(d, 't', f'serve({port}, echo)')
        with connect(url) as c:
            c.sendall(b'x')
            equal(c.recv(1), b'x')


# ---- nat ----

SLIRP = '/dev/net/tun'


def need_nat():
    need('slirp4netns')
    try:
        mode = os.stat(SLIRP).st_mode & 0o777
    except OSError as e:
        raise Skip(f'{SLIRP}: {e.strerror}') from None
    if mode & 0o006 != 0o006:
        raise Skip(f'{SLIRP} has mode {mode:04o}: slots may not open it')
    if not own_addresses():
        raise Skip('this machine has no address but its loopback')


def nat_processes(d):
    """Of this daemon: its children by that name."""
    found = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/stat', encoding='ascii', errors='replace') as f:
                name, rest = f.read().split('(', 1)[1].rsplit(')', 1)
        except OSError:
            continue
        if name.startswith('slirp4netns') and int(rest.split()[1]) == d.pid:
            found.append(int(pid))
    return found


@case
def with_nat_everything_but_the_host_s_loopback_is_reached_and_endpoints_work():
    need_nat()
    address = own_addresses()[0]
    with Target(echo) as secret, socket.create_server((address, 0)) as listener:
        threading.Thread(target=lambda: echo(listener.accept()[0]), daemon=True).start()
        with Daemon(slots=1, options=['slot.network=nat', f'pool.base_port={free_base(1)}', f'slot.reach=10.11.12.13:{secret.port}']) as d:
            url = create(d, 't', 8000)['s8000']
            equal(python(d, 't', TALK + 'print(talk(sys.argv[1], int(sys.argv[2]), 1 << 20))', address, listener.getsockname()[1]),
                  f'{1 << 20}\n')
            out = python(d, 't', PRELUDE + '''
for host in ("10.0.2.2", "127.0.0.1"):
    try: print("reached", socket.create_connection((host, int(sys.argv[1])), 10))
    except OSError: print("no")
''', secret.port)
            equal(out, 'no\nno\n')
            start_server(d, 't', 'serve(8000, echo)')
            with connect(url) as c:
                c.sendall(b'x')
                equal(c.recv(1), b'x')


@case
def a_slot_and_its_nat_die_together():
    need_nat()
    with Daemon(slots=1, options=['slot.network=nat', f'pool.base_port={free_base(1)}']) as d:
        for _ in range(2):  # one a slot, whatever came before
            d.mkdir('t')
            first, = nat_processes(d)
            d.rmdir('t')
            d.wait_ready()
            eventually(lambda: first not in nat_processes(d), 'it is gone with its slot')
        d.mkdir('t')
        os.kill(nat_processes(d)[0], 9)
        eventually(lambda: d.read('leases', 't', 'state') == 'LOST\n', 'LOST')
        contains(d.log(), 'slirp4netns, its network, has ended')
        d.rmdir('t')
        d.wait_ready()
        last, = nat_processes(d)
        d.kill()
        eventually(lambda: os.waitpid(last, os.WNOHANG)[0] == last, 'it ends with a daemon that was killed')
        d.start()


@case
def nat_is_refused_at_the_start_where_slots_may_not_have_a_tun_device():
    if not os.path.exists(SLIRP):
        wanted = f"[slot] network = nat needs '{SLIRP}'"
    elif os.stat(SLIRP).st_mode & 0o006 == 0o006:
        raise Skip('they may have it here')
    else:
        wanted = 'forward with reach'
    contains(refused('slot.network=nat'), wanted)


main(slots=SLOTS, options=['slot.network=forward', f'pool.base_port={base}'])
