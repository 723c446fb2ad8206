# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the reviewer need not look for: layers, headers, format, banned calls, lengths. One TAP line a rule; argv: the tree,
and directories of headers that its build has made."""
import os
import re
import shutil
import subprocess
import sys

ROOT = sys.argv[1]
LAYERS = ['base', 'config', 'pool', 'providers', 'fs', 'tools']
BANNED = ['sprintf', 'vsprintf', 'strcpy', 'strcat', 'strtok', 'atoi', 'gmtime', 'localtime', 'system', 'signal', 'gets']
FUNCTION_LINES, FILE_LINES, COLUMNS = 80, 600, 100


def tracked(*endings):
    """The tree's own files (without git: all but builds and subprojects)."""
    for top, dirs, files in os.walk(ROOT):
        dirs[:] = sorted(d for d in dirs if not d.startswith(('.', 'build', '__pycache__')) and d != 'subprojects')
        for name in sorted(files):
            path = os.path.relpath(os.path.join(top, name), ROOT)
            if not endings or path.endswith(endings):
                yield path


def text_of(path):
    with open(os.path.join(ROOT, path), encoding='utf-8', errors='surrogateescape') as f:
        return f.read()


def product(*endings):
    return [p for p in tracked(*endings) if p.split('/')[0] in LAYERS]


def includes_point_one_way():
    for path in product('.c', '.h'):
        mine = LAYERS.index(path.split('/')[0])
        for folder in re.findall(r'^\s*#\s*include\s+"([a-z]+)/', text_of(path), re.M):
            if folder in LAYERS and LAYERS.index(folder) > mine:
                yield f'{path} includes {folder}/'


def every_header_compiles_alone():
    cc = shutil.which('cc')
    flags = subprocess.run(['pkg-config', '--cflags', 'libuv', 'libcjson', 'libseccomp', 'sqlite3'], capture_output=True,
                           text=True, check=False).stdout.split()
    fuse = os.path.join(ROOT, 'subprojects/fuse-3.18.3/include')
    flags += [f'-I{fuse}'] if os.path.isdir(fuse) else subprocess.run(
        ['pkg-config', '--cflags', 'fuse3'], capture_output=True, text=True, check=False).stdout.split()
    # libfuse's own header asks for one that its build makes
    config = [f'-I{path}' for path in sys.argv[2:]]
    for path in product('.h'):
        done = subprocess.run([cc, '-std=gnu17', '-D_GNU_SOURCE', '-D_FILE_OFFSET_BITS=64', '-DDRESSAGE_VERSION="x"', '-Wall',
                               '-Wextra', '-Wno-unused-parameter', '-Werror', '-fsyntax-only', f'-I{ROOT}', *flags, *config,
                               '-x', 'c', '-include', os.path.join(ROOT, path), '/dev/null'],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            yield f'{path}: {done.stderr[:600]}'


def every_C_file_is_formatted():
    tool = shutil.which('clang-format')
    if not tool:
        raise LookupError('no clang-format')
    files = [p for p in tracked('.c', '.h')]
    done = subprocess.run([tool, '--dry-run', '-Werror', *files], cwd=ROOT, capture_output=True, text=True, check=False)
    for path in sorted(set(re.findall(r'^(\S+?):\d+:\d+: error', done.stderr, re.M))):
        yield f'{path}: ninja -C build format'


def comments_are_as_wide_as_the_code_and_no_word_is_glued_to_their_star():
    for path in tracked('.c', '.h'):
        text = text_of(path)
        inside = set()
        for comment in re.finditer(r'/\*.*?\*/', text, re.S):
            first = text.count('\n', 0, comment.start()) + 1
            lines = comment[0].split('\n')
            inside.update(range(first, first + len(lines)))
            for number, line in enumerate(lines[1:], first + 1):
                if re.match(r'\s*\*\w', line):
                    yield f'{path}:{number}: {line.strip()[:40]}'
        for number, line in enumerate(text.split('\n'), 1):
            if number in inside and len(line.expandtabs(8)) > COLUMNS and '*/ "' not in line and line.count('"') < 2:
                yield f'{path}:{number}: {len(line.expandtabs(8))} columns'


def every_file_begins_with_its_licence():
    for path in tracked('.c', '.h', '.py', '.sh', '.go', '.js'):
        head = text_of(path).splitlines()[:2]
        if not any('SPDX-License-Identifier: LGPL-2.1-or-later' in line for line in head):
            yield path


def without_comments_and_strings(text):
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', lambda m: re.sub(r'[^\n]', ' ', m[0]), text, flags=re.S)


def no_banned_call_is_made():
    pattern = re.compile(r'(?<![\w.>])(' + '|'.join(BANNED) + r')\s*\(')
    for path in product('.c', '.h'):
        for number, line in enumerate(without_comments_and_strings(text_of(path)).splitlines(), 1):
            match = pattern.search(line)
            if match and not re.match(r'^\s*(static|void|int)\b.*\bsignal\s*\)', line):
                yield f'{path}:{number}: {match[1]}()'


def no_daemon_code_forks():
    for path in product('.c'):
        if path.startswith('pool/init/') or path in ('tools/dressage.c', 'tools/terminal.c'):
            continue
        for number, line in enumerate(without_comments_and_strings(text_of(path)).splitlines(), 1):
            if re.search(r'(?<![\w.>])(fork|vfork|uv_spawn|popen|daemon)\s*\(', line):
                yield f'{path}:{number}: {line.strip()}'


def no_function_is_longer_than_a_screen():
    for path in product('.c'):
        name, start = '', 0
        for number, line in enumerate(text_of(path).splitlines(), 1):
            if re.match(r'^[a-z].*\)\s*$|^[a-z].*[,(]\s*$', line):
                name = line
            if line == '{':
                start = number
            if line == '}' and start:
                if number - start > FUNCTION_LINES:
                    yield f'{path}:{start}: {name.split("(")[0]}: {number - start} lines'
                start = 0


def no_file_is_longer_than_it_can_be_held_in_mind():
    for path in product('.c', '.h'):
        lines = text_of(path).count('\n')
        if lines > FILE_LINES and not path.endswith('settings.c'):  # that one is a table
            yield f'{path}: {lines} lines'


def scripts_are_sound():
    for path in tracked():
        first = text_of(path).split('\n', 1)[0] if os.access(os.path.join(ROOT, path), os.X_OK) else ''
        if 'bash' in first:
            done = subprocess.run(['bash', '-n', path], cwd=ROOT, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                yield f'{path}: {done.stderr}'


def every_test_file_is_run():
    for path in tracked('.py', '.c'):
        folder, name = os.path.split(path)
        match = re.fullmatch(r'test-(.+)\.(?:py|c)', name)
        above = [text_of(p) for p in tracked('meson.build') if folder.startswith(os.path.dirname(p)) and p.startswith('tests/')]
        if match and not any(re.search(rf"'{re.escape(match[1])}'|{re.escape(name)}", text) for text in above):
            yield f'{path} is in no meson.build'


def the_docs_name_only_tests_that_exist():
    there = {folder: '\n'.join(text_of(p) for p in tracked('.c', '.py', '/run') if p.startswith(f'tests/{folder}/'))
             for folder in ('unit', 'contract', 'security', 'soak', 'fs')}
    for page in ('docs/control-files.md', 'docs/faults.md'):
        rows = re.findall(r'^\| .* test \|$\n((?:\|.*\n)+)', text_of(page), re.M)
        for line in ''.join(rows).splitlines():
            for name, folder in re.findall(r'`(\w+)`(?: \((unit|contract|security|soak)\))?(?=[^|]*\|\s*$)', line):
                if name.count('_') >= 2 and not re.search(rf"""\b(?:def|void) {name}\(|['"]{name}['"]""", there[folder or 'fs']):
                    yield f'{page}: {name} is no test of tests/{folder or "fs"}'
        if not rows:
            yield f'{page} has no table of tests any more'


def the_docs_list_every_reason_and_say_which_are_not_given_yet():
    words = re.findall(r'^\s*X\((\w+), "(\w+)"', text_of('base/reason.h'), re.M)
    now, _, later = text_of('docs/control-files.md').partition('## Not yet')
    code = '\n'.join(text_of(p) for p in product('.c', '.h') if not p.startswith('base/reason.'))
    for name, word in words:
        given = re.search(rf'\bREASON_{name}\b', code) is not None
        if f'`{word}`' not in (now if given else later):
            yield f'{word} is {"given" if given else "not given yet"}: docs/control-files.md must say so'
        if not given and f'| `{word}` |' in now:
            yield f'{word} is not given yet, but stands among the reasons of docs/control-files.md'
    if not words:
        yield 'base/reason.h has no table any more'


RULES = [includes_point_one_way, every_header_compiles_alone, every_C_file_is_formatted,
         comments_are_as_wide_as_the_code_and_no_word_is_glued_to_their_star, every_file_begins_with_its_licence,
         no_banned_call_is_made, no_daemon_code_forks, no_function_is_longer_than_a_screen,
         no_file_is_longer_than_it_can_be_held_in_mind, scripts_are_sound, every_test_file_is_run, the_docs_name_only_tests_that_exist,
         the_docs_list_every_reason_and_say_which_are_not_given_yet]


def main():
    print(f'1..{len(RULES)}')
    bad = 0
    for number, rule in enumerate(RULES, 1):
        try:
            complaints = list(rule())
        except LookupError as e:
            print(f'ok {number} - {rule.__name__} # SKIP {e}')
            continue
        for complaint in complaints:
            print('#', complaint.replace('\n', '\n# '))
        bad += bool(complaints)
        print(f'{"not ok" if complaints else "ok"} {number} - {rule.__name__}', flush=True)
    sys.exit(1 if bad else 0)


main()
