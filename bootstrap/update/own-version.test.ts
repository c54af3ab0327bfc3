import assert from 'node:assert/strict';
import { mkdir, mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { made } from '../cluster-fixture.ts';
import { checkOwnVersion } from './own-version.ts';

test('an up by programs of another version is refused where the platform is kept, as long as those of its own are there', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-own-version-'));
  const at = (version: string): string => join(folder.path, version);
  const keeper = made();
  const check = (own: string | undefined, stored: typeof keeper | undefined = keeper) =>
    checkOwnVersion(folder.path, stored, own);
  await check(at('0.2.0'));
  await writeFile(join(folder.path, 'agent.env'), `FLYNN_ADDRESS=10.0.0.1\nFLYNN_INSTALLATION=${at('0.1.0')}\n`);
  await check(at('0.2.0'));
  await mkdir(join(at('0.1.0'), 'bin'), { recursive: true });
  await writeFile(join(at('0.1.0'), 'bin/flynn-host'), '');
  await assert.rejects(check(at('0.2.0')), {
    code: 'conflict',
    message:
      /of version 0\.1\.0, .* of version 0\.2\.0: \S+\/0\.2\.0\/bin\/flynn-host update --to 0\.2\.0 .*Nothing was changed/,
  });
  await check(at('0.1.0'));
  await check(undefined);
  await check(at('0.2.0'), { ...keeper, hasPlatform: false });
});
