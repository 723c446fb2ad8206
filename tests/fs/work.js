// SPDX-License-Identifier: LGPL-2.1-or-later
// What an agent's harness does, in Node, with plain file calls: argv = mount, trajectory.
'use strict';
const fs = require('fs');
const assert = require('assert');

const [mount, trajectory] = process.argv.slice(2);
const here = `${mount}/leases/${trajectory}`;

function ask(path, request) {
	const fd = fs.openSync(path, 'r+');
	try {
		fs.writeSync(fd, request);
		return JSON.parse(fs.readFileSync(fd, 'utf8'));
	} finally {
		fs.closeSync(fd);
	}
}

async function askLater(path, request) {
	const file = await fs.promises.open(path, 'r+');
	try {
		await file.write(request);
		return JSON.parse(await file.readFile('utf8'));
	} finally {
		await file.close();
	}
}

async function main() {
	assert.strictEqual(ask(`${mount}/create`, JSON.stringify({ trajectory_id: trajectory })).trajectory_id, trajectory);
	fs.mkdirSync(`${here}/fs/workspace/src`);
	fs.writeFileSync(`${here}/fs/workspace/src/words.txt`, 'pear\napple\nfig\n');
	const result = ask(`${here}/run_command`, 'cd src\nLC_ALL=C sort words.txt > sorted.txt\nwc -l < sorted.txt\n');
	assert.strictEqual(result.stdout.trim(), '3');
	const replies = await Promise.all([1, 2, 3].map((n) => askLater(`${here}/run_command`, JSON.stringify({ command: ['echo', `${n}`] }))));
	assert.deepStrictEqual(replies.map((r) => r.stdout), ['1\n', '2\n', '3\n']);
	assert.strictEqual(fs.readFileSync(`${here}/fs/workspace/src/sorted.txt`, 'utf8'), 'apple\nfig\npear\n');
	fs.rmdirSync(here);
	console.log('done');
}

main().catch((e) => {
	console.error(e);
	process.exit(1);
});
