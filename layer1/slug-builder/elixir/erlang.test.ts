import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { bench } from '../compile-fixture.ts';
import { leadScripts } from './erlang.ts';

test("Erlang's scripts begin where it was unpacked", async () => {
  const script = '#!/bin/sh\nROOTDIR=/usr/lib/erlang\nBINDIR="/usr/lib/erlang/erts-15/bin"\n# /usr/lib/erlangs\n';
  const paths = ['usr/lib/erlang/bin/erl', 'usr/lib/erlang/erts-15/bin/start'];
  await using b = await bench(Object.fromEntries(paths.map((path) => [path, script])));
  const { appDir } = b.layout;
  await leadScripts(appDir);
  const root = join(appDir, 'usr/lib/erlang');
  for (const path of paths)
    assert.equal(
      await readFile(join(appDir, path), 'utf8'),
      `#!/bin/sh\nROOTDIR=${root}\nBINDIR="${root}/erts-15/bin"\n# /usr/lib/erlangs\n`,
    );
});
