/** The script in a repository of nothing else, with an npm of the test's. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtempDisposable, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** One at a time finds nothing of another in its way. */
const npm = `#!/bin/sh
mkdir busy || exit 1
echo "$*" >>calls
sleep 0.3
mkdir -p node_modules/.bin
printf '#!/bin/sh\\necho v24.0.0\\n' >node_modules/.bin/node
chmod +x node_modules/.bin/node
rmdir busy
`;

test('of two commands at once one installs the packages, and the other waits for its end', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-prepare-'));
  const at = (path: string): string => join(folder.path, path);
  await mkdir(at('bootstrap'));
  await mkdir(at('programs'));
  await copyFile(join(import.meta.dirname, 'prepare'), at('bootstrap/prepare'));
  await writeFile(at('package-lock.json'), '{}');
  await writeFile(at('programs/npm'), npm, { mode: 0o755 });
  const env = { ...process.env, PATH: `${at('programs')}:${process.env['PATH'] ?? ''}` };
  const prepare = () => run('sh', [at('bootstrap/prepare')], { env });
  await Promise.all([prepare(), prepare()]);
  await prepare();
  assert.equal((await readFile(at('calls'), 'utf8')).split('\n').length - 1, 1);
});
