# SPDX-License-Identifier: LGPL-2.1-or-later
"""Every language writes a request and reads its reply the plain way."""
import json
import os

from harness import HERE, PATIENCE, Scratch, case, contains, equal, main, need, run, sh


def lease_of(function):
    """Gives the case a lease `t` and the path of its run_command."""
    def with_lease(d):
        d.mkdir('t')
        function(d, d.lease('t', 'run_command'))
    with_lease.__name__ = function.__name__
    return case(with_lease)


def stdout_of(done):
    equal((done.returncode, done.stderr), (0, ''))
    return json.loads(done.stdout)['stdout']


# --- shells ---

def in_every_shell(script, wanted):
    """The script says $F; its output is one result whose stdout is wanted."""
    def function(d, path):
        for shell in ('bash', 'dash', 'busybox'):
            need(shell)
            equal(stdout_of(sh(script, shell=shell, env={'F': path})), wanted, shell)
    return function


def shell_case(name, script, wanted):
    function = in_every_shell(script, wanted)
    function.__name__ = name
    lease_of(function)


shell_case('echo_into_it_and_cat', 'echo "echo a" > $F; cat $F', 'a\n')
shell_case('a_descriptor_opened_for_both_with_exec', 'exec 3<>$F; echo "echo a" >&3; cat <&3', 'a\n')
shell_case('printf_of_two_lines_is_one_script', "printf 'echo a\\necho b\\n' > $F; cat $F", 'a\nb\n')
shell_case('a_group_of_echos_is_one_script', '{ echo "X=1"; echo "echo $X a"; echo "echo b"; } > $F; cat $F', 'a\nb\n')
shell_case('a_subshell_and_children_in_a_group_are_one_script',
           '{ echo "echo a"; /bin/echo "echo b"; (echo "echo c"); } > $F; cat $F', 'a\nb\nc\n')
shell_case('a_heredoc_of_many_lines', 'cat > $F <<"END"\nfor i in 1 2; do\n  echo $i\ndone\nEND\ncat $F', '1\n2\n')
shell_case('cp_of_a_request_file',
           'T=$(mktemp); echo \'{"command": ["printf", "%s\\\\n", "a b"]}\' > $T; cp $T $F; cat $F; rm $T', 'a b\n')
shell_case('tee_is_one_script', 'echo "echo a" | tee $F > /dev/null; cat $F', 'a\n')
shell_case('cat_of_a_script_into_it', 'T=$(mktemp); printf "echo a\\necho b\\n" > $T; cat $T > $F; cat $F; rm $T', 'a\nb\n')
shell_case('braces_brackets_words_and_numbers_are_scripts',
           'for s in "{ echo a; }" "[ -d / ] && echo a" "true; echo a" "123 2>/dev/null; echo a"; do '
           'echo "$s" > $F; cat $F > /dev/null; done; echo "{ echo a; }" > $F; cat $F', 'a\n')
shell_case('an_append_redirection', 'echo "echo a" >> $F; cat $F', 'a\n')
shell_case('head_dd_and_grep_read_it_too',
           'echo "echo a" > $F; head -c 999999 $F > /dev/null; dd if=$F bs=64k 2>/dev/null | grep returncode', 'a\n')


@lease_of
def each_echo_to_a_descriptor_is_a_command_of_its_own(d, path):
    done = sh('exec 3<>$F; echo "echo a" >&3; cat <&3; echo "echo b" >&3; cat <&3', env={'F': path})
    equal([json.loads(line)['stdout'] for line in done.stdout.splitlines()], ['a\n', 'b\n'])


# --- Python ---

PYTHON = '''
import json, os, sys
p = sys.argv[1]
def check(text, wanted):
    got = json.loads(text)["stdout"]
    assert got == wanted, (got, wanted)
%s
'''


def python_case(name, code):
    def function(d, path):
        done = run(['/usr/bin/python3' if os.access('/usr/bin/python3', os.X_OK) else 'python3', '-c', PYTHON % code, path])
        equal((done.returncode, done.stderr), (0, ''))
    function.__name__ = name
    lease_of(function)


python_case('python_unbuffered_binary', '''
with open(p, "r+b", buffering=0) as f:
    f.write(b"echo a")
    check(f.read(), "a\\n")
    f.write(b"echo b")
    check(f.read(), "b\\n")
''')
python_case('python_buffered_text', '''
with open(p, "r+") as f:
    f.write("echo a\\necho b\\n")
    f.flush()
    check(f.read(), "a\\nb\\n")
with open(p, "r+") as f:
    f.write("echo a\\n")
    f.seek(0)
    check(f.read(), "a\\n")
''')
python_case('python_pread_from_0', '''
fd = os.open(p, os.O_RDWR)
os.write(fd, b"echo a")
check(os.pread(fd, 1 << 20, 0), "a\\n")
check(os.pread(fd, 1 << 20, 0), "a\\n")
os.lseek(fd, 0, os.SEEK_SET)
check(os.read(fd, 1 << 20), "a\\n")
''')
python_case('python_write_then_read_by_path', '''
with open(p, "w") as f:
    f.write("echo a\\n")
with open(p) as f:
    check(f.read(), "a\\n")
import pathlib
pathlib.Path(p).write_text("echo b\\n")
check(pathlib.Path(p).read_text(), "b\\n")
''')
python_case('python_small_reads_get_the_whole_reply', '''
with open(p, "r+b", buffering=0) as f:
    f.write(b"seq 1 2000")
    parts = b""
    while True:
        part = f.read(7)
        if not part:
            break
        parts += part
    assert len(json.loads(parts)["stdout"].split()) == 2000
''')
python_case('python_a_reply_of_megabytes', '''
with open(p, "r+b", buffering=0) as f:
    f.write(b"head -c 5000000 /dev/zero | tr '\\\\0' x")
    text = b""
    while True:
        part = f.read(1 << 20)
        if not part:
            break
        text += part
    assert json.loads(text)["stdout"] == "x" * 5000000
''')


# --- Node, Go, C ---

NODE = '''
const fs = require("fs"), p = process.argv[1], eq = require("assert").strictEqual;
const out = (text) => JSON.parse(text).stdout;
(async () => {
	%s
})().catch((e) => { console.error(e); process.exit(1); });
'''


def node_case(name, code):
    def function(d, path):
        done = run([need('node'), '-e', NODE % code, path])
        equal((done.returncode, done.stderr), (0, ''))
    function.__name__ = name
    lease_of(function)


node_case('node_openSync_for_both', '''
	const fd = fs.openSync(p, "r+");
	fs.writeSync(fd, "echo a");
	eq(out(fs.readFileSync(fd)), "a\\n");
	fs.closeSync(fd);
''')
node_case('node_promises_on_a_handle', '''
	const f = await fs.promises.open(p, "r+");
	await f.write("echo a");
	eq(out(await f.readFile("utf8")), "a\\n");
	await f.close();
''')
node_case('node_writeFileSync_then_readFileSync', '''
	fs.writeFileSync(p, "echo a\\n");
	eq(out(fs.readFileSync(p, "utf8")), "a\\n");
''')
node_case('node_promises_by_path', '''
	await fs.promises.writeFile(p, "echo a\\n");
	eq(out(await fs.promises.readFile(p, "utf8")), "a\\n");
''')
node_case('node_a_reply_of_megabytes', '''
	const fd = fs.openSync(p, "r+");
	fs.writeSync(fd, "head -c 3000000 /dev/zero | tr '\\\\0' x");
	eq(out(fs.readFileSync(fd)).length, 3000000);
''')


@lease_of
def copies_that_set_mode_and_times_as_well_are_requests_too(d, path):
    with Scratch() as directory:
        request = os.path.join(directory, 'req.json')
        with open(request, 'w') as f:
            f.write('{"command": "echo copied"}')
        for copy in (f"node -e \"require('fs').copyFileSync('{request}', '$F')\"", f'cp -p {request} $F', f'touch $F; cp {request} $F'):
            done = sh(f'{copy}; cat $F', env={'F': path})
            equal(stdout_of(done), 'copied\n')


@lease_of
def a_reader_at_any_offset_who_wrote_nothing_gets_those_bytes(d, path):
    done = sh('echo "echo abcdef" > $F; cat $F; busybox tail -c 5 $F', env={'F': path})
    whole = done.stdout[:-5]
    equal(done.stdout[-5:], whole[-5:])
    with open(path, 'rb') as f:
        equal(os.pread(f.fileno(), 10, 100), whole.encode()[100:110])


@lease_of
def go_OpenFile_for_both(d, path):
    with Scratch() as build:
        run_go(build, 'idiom.go', [path])


def run_go(build, source, arguments):
    go = need('go')
    env = {'GOCACHE': os.path.join(build, 'cache'), 'GOPATH': os.path.join(build, 'path'), 'GOFLAGS': '-mod=mod',
           'GO111MODULE': 'off', 'HOME': build, 'GOTOOLCHAIN': 'local'}
    program = os.path.join(build, 'program')
    done = run([go, 'build', '-o', program, os.path.join(HERE, source)], env=env, timeout=4 * PATIENCE)
    equal(done.returncode, 0, done.stderr)
    done = run([program, *arguments])
    equal((done.returncode, done.stderr), (0, ''), done.stdout)
    return done.stdout


@lease_of
def c_open_write_read(d, path):
    with Scratch() as build:
        program = os.path.join(build, 'program')
        done = run([need('cc'), '-Wall', '-Werror', '-o', program, os.path.join(HERE, 'idiom.c')])
        equal(done.returncode, 0, done.stderr)
        done = run([program, path])
        equal((done.returncode, done.stderr), (0, ''))
        contains(done.stdout, '"stdout":"a\\n"')


# --- what a read without a request gives ---

@lease_of
def reading_without_writing_gives_the_latest_command_and_waits_for_it(d, path):
    done = sh('echo "sleep 0.3; echo slow" > $F; cat $F', env={'F': path})
    equal(stdout_of(done), 'slow\n')


@lease_of
def two_descriptors_have_each_their_own_reply(d, path):
    done = sh('exec 3<>$F 4<>$F; echo "sleep 0.2; echo three" >&3; echo "echo four" >&4; cat <&4; cat <&3', env={'F': path})
    equal([json.loads(line)['stdout'] for line in done.stdout.splitlines()], ['four\n', 'three\n'])


@case
def create_and_terminate_read_without_a_request_show_how_to_use_them(d):
    contains(d.read('create'), 'trajectory')
    contains(d.read('terminate'), 'trajectory')


main(slots=2)
