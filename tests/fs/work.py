# SPDX-License-Identifier: LGPL-2.1-or-later
"""What an agent's harness does, in Python, with plain file calls: argv = mount, trajectory."""
import json
import os
import sys

mount, trajectory = sys.argv[1:]
with open(f'{mount}/create', 'r+', encoding='utf-8') as f:
    f.write(json.dumps({'trajectory_id': trajectory, 'metadata': {'step': '1'}}))
    f.flush()
    lease = json.loads(f.read())
assert lease['trajectory_id'] == trajectory, lease
here = f'{mount}/leases/{trajectory}'
os.makedirs(f'{here}/fs/workspace/src')
with open(f'{here}/fs/workspace/src/words.txt', 'w', encoding='utf-8') as f:
    f.writelines(f'{word}\n' for word in ('pear', 'apple', 'fig'))


def command(request):
    with open(f'{here}/run_command', 'r+b', buffering=0) as control:
        control.write(json.dumps(request).encode())
        return json.loads(control.read())


result = command({'command': 'sort words.txt > sorted.txt; wc -l < sorted.txt', 'cwd': 'src', 'env': {'LC_ALL': 'C'}})
assert (result['returncode'], result['stdout'].strip()) == (0, '3'), result
result = command({'command': ['grep', '-c', 'a', '-'], 'stdin': 'a\nb\nca\n'})
assert result['stdout'] == '2\n', result
result = command({'command': 'sleep 60', 'timeout': 0.2})
assert result['timed_out'] and result['returncode'] == -9, result
with open(f'{here}/fs/workspace/src/sorted.txt', encoding='utf-8') as f:
    assert f.read() == 'apple\nfig\npear\n'
with open(f'{mount}/terminate', 'w', encoding='utf-8') as f:
    f.write(trajectory + '\n')
print('done')
