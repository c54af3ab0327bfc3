import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { modulesBelow } from './git-modules.ts';

const list = (text: string): string => {
  const dir = mkdtempSync(join(tmpdir(), 'flynn-modules-'));
  try {
    writeFileSync(join(dir, 'modules'), text);
    return execFileSync('git', ['config', '--null', '--list', '--file', join(dir, 'modules')]).toString();
  } finally {
    rmSync(dir, { recursive: true });
  }
};

test('submodules of a folder are told from there, as git reads it, whatever is in their names and paths', () => {
  const all = list(`[submodule "apps/web/lib"]
\tpath = apps/web/lib
\turl = "https://git.example.com/lib.git?a=b#c"
[submodule "top"]
\tpath = top
\turl = https://git.example.com/top.git
[submodule "beside"]
\tpath = apps/website
\turl = https://git.example.com/beside.git
[submodule "odd.name"]
\tpath = "apps/web/a \\"quoted\\" \\\\ path;#"
\turl = git@git.example.com:odd.git
\tbranch = main
[submodule "nowhere"]
\tpath = apps/web/nowhere
`);
  const told = modulesBelow('apps/web', all);
  assert.deepEqual(
    list(told)
      .split('\0')
      .filter((line) => line !== ''),
    [
      'submodule.0.path\nlib',
      'submodule.0.url\nhttps://git.example.com/lib.git?a=b#c',
      String.raw`submodule.1.path
a "quoted" \ path;#`,
      'submodule.1.url\ngit@git.example.com:odd.git',
    ],
  );
  assert.equal(modulesBelow('apps/api', all), '');
});
