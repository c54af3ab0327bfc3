/** Which links are refused, by the shell's own word: what they lead to has to be there when it is taken. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, mkdtempDisposable, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { copiesOf } from './copied-files.ts';

const run = promisify(execFile);

const cases: [what: string, source: string, links: Record<string, string>, refused?: string][] = [
  ['to a file beside it', 'conf/*', { 'conf/link': 'a' }],
  ['to a folder beside it, and to its own', 'conf/*', { 'conf/link': 'deep', 'conf/self': '.' }],
  ['back into its folder', 'conf/*', { 'conf/link': '../conf/a' }],
  ['within all of the source', '*', { link: 'conf/a' }],
  ['out of its folder, but not of the one that is copied', '/app/*/*', { 'app/bin/cli': '../pkg/cli.js' }],
  ['out of its folder', '/app/bin/*', { 'app/bin/cli': '../pkg/cli.js' }, '/app/bin/cli is a link to ../pkg/cli.js'],
  ['to a folder whose name begins so', 'conf/*', { 'conf/link': '../conf-2/b' }, '/conf/link is a link to ../conf-2/b'],
  ['out of everything', '*', { link: '/etc/passwd' }, '/link is a link to /etc/passwd'],
  ['to nothing', 'conf/*', { 'conf/link': 'nothing' }, '/conf/link is a link to nothing'],
  ['to itself', 'conf/*', { 'conf/link': 'link' }, '/conf/link is a link to link'],
  ['to nothing, where no pattern names it', 'conf/*.json', { 'conf/link': 'nothing' }],
];
for (const [what, source, links, refused] of cases) {
  test(`a link ${what} is ${refused === undefined ? 'taken' : 'refused, with what to name instead'}`, async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-links-'));
    for (const file of ['conf/a', 'conf/deep/c', 'conf-2/b', 'app/pkg/cli.js', 'app/bin/tool']) {
      await mkdir(join(folder.path, dirname(file)), { recursive: true });
      await writeFile(join(folder.path, file), '');
    }
    for (const [link, target] of Object.entries(links)) await symlink(target, join(folder.path, link));
    const { checks } = copiesOf([{ path: source, word: source }], {
      isAdd: false,
      destination: '/x/',
      fetching: { build: '', proxies: {} },
    });
    const checking = run('sh', ['-c', checks.join(' && ').replaceAll('/copied/files', folder.path)]);
    if (refused === undefined) {
      await checking;
      return;
    }
    const told = `${refused}, which is not in the folder that is copied: name the file that it leads to\n`;
    await assert.rejects(checking, (error) => error instanceof Error && 'stderr' in error && error.stderr === told);
  });
}
