import assert from 'node:assert/strict';
import { mkdir, mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { hasLocal, requirementsText } from './requirements.ts';

async function appOf(files: Readonly<Record<string, string>>) {
  const folder = await mkdtempDisposable(join(tmpdir(), 'flynn-requirements-'));
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder.path, name)), { recursive: true });
    await writeFile(join(folder.path, name), text);
  }
  return folder;
}

test('requirements are those of all files that are named, wherever in the app they are', async () => {
  await using app = await appOf({
    'requirements.txt': '-r backend/base.txt # ours\r\n--constraint=pins.txt\nflask',
    'backend/base.txt': '-r more.txt\ndjango \\\n  ==5.0\n',
    'backend/more.txt': '-r ../requirements.txt\nrequests==2\n',
    'pins.txt': 'requests<3\n',
  });
  const text = await requirementsText(app.path, 'requirements.txt');
  for (const part of ['flask', 'django', 'requests==2', 'requests<3']) assert.match(text ?? '', new RegExp(part));
  for (const away of [
    '-r missing.txt',
    '-r ../../etc/hosts',
    '-r /etc/hosts',
    '-c https://example.com/c.txt',
    '-r${X}',
  ]) {
    await writeFile(join(app.path, 'pins.txt'), away);
    assert.equal(await requirementsText(app.path, 'requirements.txt'), undefined, away);
  }
});

test('what is installed of the app itself is seen, however it is written', async () => {
  await using app = await appOf({ 'libs/greet/setup.py': '', 'wheels/a.whl': '', 'b.whl': '', 'redis/conf': '' });
  const local = [
    '-e .',
    './libs/greet',
    'libs/greet',
    'libs/greet[x] ; python_version > "3"',
    'greet @ file:///app/x',
    'wheels/a.whl',
    'b.whl',
  ];
  for (const line of local) assert.equal(await hasLocal(app.path, `flask==3 # x\n${line}\n`), true, line);
  const others = [
    'greet==1.0',
    'redis==5.0',
    '# ./libs/greet',
    '-r other.txt',
    'greet @ https://example.com/g.whl',
    '--hash=sha256:aa',
    '',
  ];
  for (const line of others) assert.equal(await hasLocal(app.path, line), false, line);
});
